"""The program in the foreground of a terminal: which it is, what it waits for, and whether it is a shell."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ...sessions.state import DoesNow
from ...system import processes
from ...system.worktrees import git_branch
from .rules import AgentRules

SHELLS = frozenset({"bash", "zsh", "fish", "sh", "dash", "ksh", "ash", "tcsh", "nu", "xonsh", "pwsh"})
SHELL = "shell"
"""The agent of the rules for shells, which count beside what their processes tell."""
_WITH_VALUE = ("--rcfile", "--init-file", "--init-command", "-o", "+o", "-O", "+O", "-C")
"""Options of shells after which a word is no script."""

PAGERS = frozenset({"less", "more", "most", "pager", "man", "info", "lv", "w3m"})
"""Programs that show a text and read keys (Debian calls its favourite one `pager`). What is before their
cursor is no question."""
USED = 0.05
"""The share of time for which a program uses the processor that is at work."""
MAX_BELOW = 16
"""Among how many processes that a program has started the one is looked for that reads the terminal."""

RulesOf = Callable[[str, Sequence[str]], AgentRules | None]
"""The rules for a program, by its name and its arguments, if it is an agent."""


class Front(NamedTuple):
    """The program in the foreground of a terminal."""

    program: processes.Program
    arguments: Sequence[str]
    rules: AgentRules | None
    """The rules for it, if it is an agent."""
    waits_in: str
    cpu_seconds: float
    reader: str = ""
    """The program that reads the terminal: this one, or one that it has started, as `man` starts `less`."""
    shell: AgentRules | None = None
    """The rules for it, if it is a shell that runs what somebody types."""
    cwd: str = ""
    """Of a shell that reads its terminal, its directory,"""
    branch: str = ""
    """and the git branch there."""

    @property
    def is_pager(self) -> bool:
        """True if somebody can read what it shows for as long as they like."""
        return self.reader in PAGERS or self.program.name in PAGERS


def front_of(pid: int, before: Front | None, rules_of: RulesOf) -> Front | None:
    """The program in the foreground of the terminal of a process. May block for a moment."""
    program = processes.foreground(pid)
    found = processes.process(program.pid) if program is not None else None
    if program is None or found is None:
        return None
    arguments = processes.arguments(program.pid)
    is_same = before is not None and (before.program, before.arguments) == (program, arguments)
    if before is not None and is_same:
        rules, shell = before.rules, before.shell
    else:
        rules, shell = rules_of(program.name, arguments), None
        if rules is not None and rules.agent == SHELL:
            shell = rules if is_shell(program.name, arguments) else None
            rules = None
    waits_in = processes.waits_in(program.pid)
    reader = program.name if waits_in == "read" else ""
    if not reader and rules is None and not is_shell(program.name, arguments):
        reader = _reader_below(program.pid)
    cwd = branch = ""
    if rules is None and waits_in in ("read", "poll") and is_shell(program.name, arguments):
        with contextlib.suppress(OSError):
            cwd = os.readlink(f"/proc/{program.pid}/cwd")
            branch = git_branch(Path(cwd)) or ""
    return Front(program, arguments, rules, waits_in, found.cpu_seconds, reader, shell, cwd, branch)


def by_process(front: Front, asked: Callable[[], str], used: float = 0.0) -> tuple[DoesNow, str, str]:
    """What a program without rules does, as far as its process tells: that, the words that this is based on,
    and what it `asked`, which is called if it reads its terminal. `used` is the share of time in which it
    used the processor. Without words nothing is known."""
    name = front.program.name
    if is_shell(name, front.arguments):
        if front.waits_in in ("read", "poll"):
            return "idle", f"{name} reads its terminal", ""
    elif front.reader or (front.is_pager and front.waits_in == "poll"):
        question = "" if front.is_pager else asked()
        words = f"{front.reader or name} reads its terminal"
        return "waits" if question else "unknown", words, question
    if used > USED:
        return "working", f"{name} used the processor {used:.0%} of the time", ""
    if front.waits_in != "poll":
        return "working", f"{name} runs in the foreground", ""
    return "unknown", "", ""


def rules_now(front: Front) -> AgentRules | None:
    """The rules for the screen of the program in the foreground. Those for shells count while it reads."""
    is_busy = front.waits_in not in ("read", "poll") and processes.has_proc()
    return front.rules or (None if is_busy else front.shell)


def _reader_below(pid: int) -> str:
    """The name of a program that another one has started in its group and that reads the terminal; also of a
    pager that waits for more to show."""
    waiting, looked = [pid], 0
    while waiting and looked < MAX_BELOW:
        children = processes.children(waiting.pop(0))
        for child in children[: MAX_BELOW - looked]:
            looked += 1
            found = processes.process(child)
            if found is None or found.group != found.front:
                continue
            waits = processes.waits_in(child)
            if waits == "read" or (waits == "poll" and found.name in PAGERS):
                return found.name
            waiting.append(child)
    return ""


def is_shell(name: str, words: Sequence[str]) -> bool:
    """Whether a program is a shell that runs what somebody types, and no script.

    >>> is_shell("bash", ["bash", "--rcfile", "mine", "-i"]), is_shell("sh", ["sh", "-ec", "make"])
    (True, False)
    """
    if os.path.basename(name).lstrip("-") not in SHELLS:
        return False
    given = [word for option, word in pairwise(words) if option not in _WITH_VALUE]
    return all(each.startswith(("-", "+")) and not re.fullmatch("-[a-z]*c[a-z]*", each) for each in given)
