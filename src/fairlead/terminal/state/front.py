"""The program in the foreground of a terminal: which it is, what it waits for, and whether it is a shell."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ...system import processes
from .rules import AgentRules

SHELLS = frozenset({"bash", "zsh", "fish", "sh", "dash", "ksh", "ash", "tcsh", "nu", "xonsh", "pwsh"})
_WITH_VALUE = ("--rcfile", "--init-file", "-o", "+o", "-O", "+O")
"""Options of shells after which a word is no script."""

RulesOf = Callable[[str, Sequence[str]], AgentRules | None]
"""The rules for a program, by its name and its arguments, if it is an agent."""


class Front(NamedTuple):
    """The program in the foreground of a terminal."""

    program: processes.Program
    arguments: Sequence[str]
    rules: AgentRules | None
    waits_in: str
    cpu_seconds: float


def front_of(pid: int, before: Front | None, rules_of: RulesOf) -> Front | None:
    """The program in the foreground of the terminal of a process. May block for a moment."""
    program = processes.foreground(pid)
    found = processes.process(program.pid) if program is not None else None
    if program is None or found is None:
        return None
    arguments = processes.arguments(program.pid)
    is_same = before is not None and (before.program, before.arguments) == (program, arguments)
    rules = before.rules if before is not None and is_same else rules_of(program.name, arguments)
    return Front(program, arguments, rules, processes.waits_in(program.pid), found.cpu_seconds)


def is_shell(name: str, words: Sequence[str]) -> bool:
    """Whether a program is a shell that runs what somebody types, and no script.

    >>> is_shell("bash", ["bash", "--rcfile", "mine", "-i"]), is_shell("sh", ["sh", "-ec", "make"])
    (True, False)
    """
    if os.path.basename(name).lstrip("-") not in SHELLS:
        return False
    given = [word for option, word in pairwise(words) if option not in _WITH_VALUE]
    return all(each.startswith(("-", "+")) and not re.fullmatch("-[a-z]*c[a-z]*", each) for each in given)
