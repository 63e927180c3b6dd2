"""What a session's tools may do without asking, what they must ask for, and what they never may.

A rule is about a tool and a path or a command. Of the rules that fit, one that denies wins over one that
asks, and that over one that allows; answers that a person gave for the session win over rules that ask. Where
no rule fits: reading in the project is allowed, everything else asks. Files that may hold secrets, and what
git itself keeps, ask as well, unless a rule names them. A rule that denies or asks counts if any reading of a
command could match it, one that allows only if all of the command is understood. Rules are no sandbox: a
command that is allowed may do anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ...formats.guess import meant
from ...system.settings import tables_from
from ..secrets import is_secret_file
from ..tools import Effect, Touch
from ..tools.globs import escaped, matcher
from .commands import ParsedCommand, Part, Reading, take_apart
from .shell_text import ASSIGNMENT
from .wildcards import MAX_PATTERN, literally, only_text, wildcard

Choice = Literal["allow", "ask", "deny"]

MAX_RULES = 1000
TAKE_PATHS, TAKE_COMMANDS = ("read", "ls", "find", "grep", "edit", "write"), ("bash",)
"""The tools that rules can be about: those that touch files, and those that run commands."""
_STRICTNESS: dict[Choice, int] = {"allow": 0, "ask": 1, "deny": 2}


class ConsentRule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """For calls of a tool (or of `*`, any): what is done about those with this command or path.

    `match` is a pattern for simple commands, in which `*` stands for anything; `git *` is also `git` alone.
    `path` is a glob, from the project's directory unless it begins with / or ~.
    """

    tool: str
    then: Choice
    match: str | None = None
    path: str | None = None

    def __post_init__(self) -> None:
        if self.match is not None and self.path is not None:
            raise ValueError("a rule has either `match`, for commands, or `path`, for files")
        if self.match == "" or self.path == "" or self.tool == "":
            raise ValueError("a rule's `tool`, `match` and `path` must not be empty")
        if self.tool not in (*TAKE_PATHS, *TAKE_COMMANDS, "*"):
            tools = (*TAKE_PATHS, *TAKE_COMMANDS)
            known = f"{', '.join(tools)}, or * for all"
            raise ValueError(f"no tool {self.tool[:80]!r}; there are {known}{meant(self.tool, tools)}")
        if self.match is not None and self.tool in TAKE_PATHS:
            raise ValueError(f"`match` is for commands, and {self.tool} takes files: write `path`")
        if self.path is not None and self.tool in TAKE_COMMANDS:
            raise ValueError(f"`path` is for files, and {self.tool} takes commands: write `match`")
        if self.path is not None and ".." in self.path.split("/"):
            raise ValueError("a rule's `path` must not have .. in it")
        if self.path is not None:
            matcher(self.path)
        if self.match is not None and len(self.match) > MAX_PATTERN and only_text(self.match) is None:
            raise ValueError(f"a rule's `match` has at most {MAX_PATTERN} characters, not {len(self.match)}")

    def __str__(self) -> str:
        about = f" {self.match or self.path}" if self.match or self.path else ""
        return f"{self.then} {self.tool}{about}"


class ConsentVerdict(Struct, frozen=True):
    """What a policy says of a call, why, and by which rule, if by any."""

    decision: Choice
    reason: str
    rule: ConsentRule | None = None

    @property
    def is_default(self) -> bool:
        """True if no rule and no answer decides, but only what the tool would do."""
        return self.rule is None


def rules_from(value: object, where: str = "[agent] rules") -> tuple[ConsentRule, ...]:
    """The rules of a configuration: a list of tables. Raises ValueError that says which one is wrong.

    >>> rules_from([{"tool": "bash", "match": "git *", "then": "allow"}])
    (ConsentRule(tool='bash', then='allow', match='git *', path=None),)
    """
    return tables_from(value, ConsentRule, where, MAX_RULES)


class Policy(Struct, frozen=True):
    """The rules of one session.

    >>> policy = Policy(Path("/project"))
    >>> policy.judge("read", Touch("read", "read a.py", (Path("/project/a.py"),))).decision
    'allow'
    """

    project: Path
    """The project's directory, with links followed."""
    rules: tuple[ConsentRule, ...] = ()
    allows_all: bool = False
    """For people who want not to be asked: only rules that deny count."""
    remembered: tuple[ConsentRule, ...] = ()
    """Answers that hold for the session."""
    readable: tuple[Path, ...] = ()
    """Other directories that may be read, such as the one with the output of commands."""

    def judge(self, tool: str, touch: Touch) -> ConsentVerdict:
        """What to do about a call. Each file and each part of a command is judged; the strictest decides."""
        verdicts = [self._judge_path(tool, touch.effect, path) for path in touch.paths]
        if touch.command is not None:
            verdicts += self._judge_command(tool, touch.command)
        if not verdicts:
            for_all = [rule for rule in self._rules_for(tool) if _is_for_all(rule)]
            verdicts.append(self._decide(for_all, "ask", _ASKS[touch.effect]))
        return max(verdicts, key=lambda verdict: _STRICTNESS[verdict.decision])

    def is_hidden(self, path: Path) -> bool:
        """Whether a rule keeps a file from being read as part of a directory that is searched."""
        verdicts = (self.judge(tool, Touch("read", "", (path,))) for tool in ("read", "grep"))
        return any(verdict.decision != "allow" and verdict.rule is not None for verdict in verdicts)

    def remembering(self, tool: str, touch: Touch, then: Choice) -> Policy:
        """The policy that gives this answer whenever just the same is asked again."""
        rules = [ConsentRule(tool, then, path=escaped(str(path))) for path in touch.paths]
        if touch.command is not None:
            rules.append(ConsentRule(tool, then, match=literally(touch.command.strip())))
        if not rules:
            rules.append(ConsentRule(tool, then))
        return msgspec.structs.replace(self, remembered=(*self.remembered, *rules))

    def _judge_path(self, tool: str, effect: Effect, path: Path) -> ConsentVerdict:
        fitting = [rule for rule in self._rules_for(tool) if _is_for_all(rule) or self._is_path(rule, path)]
        if care := care_for(effect, path):
            is_meant = [rule.then != "allow" or _names(rule.path, effect) for rule in fitting]
            return self._decide([rule for rule, meant in zip(fitting, is_meant) if meant], "ask", care)
        if effect == "read" and (path.is_relative_to(self.project) or self._is_readable(path)):
            return self._decide(fitting, "allow", "it only reads, in the project")
        reason = _ASKS[effect] if path.is_relative_to(self.project) else f"{path} is outside of the project"
        return self._decide(fitting, "ask", reason)

    def _is_readable(self, path: Path) -> bool:
        return any(path.is_relative_to(os.path.realpath(place)) for place in self.readable)

    def _judge_command(self, tool: str, command: str) -> list[ConsentVerdict]:
        """The verdicts on a command: of rules that deny and ask, and of those that allow."""
        rules = [rule for rule in self.rules if rule.tool in (tool, "*")]
        taken = take_apart(command)
        # an answer is for the whole command: as a part of another it may run elsewhere, as after `cd`
        answers = [rule for rule in self.remembered if rule.tool == tool and rule.match is not None]
        answered = [rule for rule in answers if only_text(rule.match or "") == command.strip()]
        allowing = [rule for rule in rules if rule.then == "allow"]
        doubtful = [part for part in taken.parts if not part.is_set or not _any_allows(allowing, part)]
        hits = [
            hit
            for rule in rules
            if rule.match is not None and rule.then != "allow"
            for part in doubtful
            if (hit := _hit(rule, part))
        ]
        verdicts = [
            hit.verdict()
            for hit in hits
            if (hit.is_sure and hit.rule.then == "deny")
            or not (answered or (self.allows_all and hit.rule.then == "ask"))
        ]
        for_all = [rule for rule in self._rules_for(tool) if _is_for_all(rule)]
        if answered:
            for_all = [*answered, *(rule for rule in for_all if rule.then == "deny")]
        if for_all or self.allows_all:
            return [*verdicts, self._decide(for_all, "ask", _ASKS["run"])]
        return [*verdicts, self._allowed(rules, taken)]

    def _allowed(self, rules: Sequence[ConsentRule], taken: ParsedCommand) -> ConsentVerdict:
        """Whether rules allow each part of a command that is understood."""
        allowing = [rule for rule in rules if rule.then == "allow" and rule.match is not None]
        if not allowing:
            return ConsentVerdict("ask", _ASKS["run"])
        used = None
        for part in taken.parts:
            found = _any_allows(allowing, part)
            if found is None:
                because = f", as {part.why}" if part.why else ""
                return ConsentVerdict("ask", f"no rule allows `{part.shown}`{because}")
            used = found
        if taken.compound:
            return ConsentVerdict("ask", f"it is more than a list of simple commands: {taken.compound}")
        if used is None:
            return ConsentVerdict("ask", _ASKS["run"])
        return ConsentVerdict("allow", f"a rule says: {used}", used)

    def _rules_for(self, tool: str) -> list[ConsentRule]:
        return [rule for rule in (*self.remembered, *self.rules) if rule.tool in (tool, "*")]

    def _decide(self, fitting: list[ConsentRule], default: Choice, reason: str) -> ConsentVerdict:
        """The verdict of these rules, or the default if there are none."""
        for rule in fitting:
            if rule.then == "deny":
                return ConsentVerdict("deny", f"a rule says: {rule}", rule)
        if self.allows_all:
            return ConsentVerdict("allow", "everything is allowed that no rule denies")
        answers = [rule for rule in fitting if rule in self.remembered][-1:]
        for rule in answers or sorted(fitting, key=lambda rule: -_STRICTNESS[rule.then]):
            return ConsentVerdict(rule.then, f"a rule says: {rule}", rule)
        return ConsentVerdict(default, reason)

    def _is_path(self, rule: ConsentRule, path: Path) -> bool:
        if rule.path is None:
            return False
        glob = rule.path
        if glob == "~" or glob.startswith("~/"):
            glob = f"{escaped(os.path.expanduser('~'))}{glob[1:]}"
        if glob.startswith("/"):
            return _path_test(glob)(str(path).strip("/"))
        if not path.is_relative_to(self.project):
            return False
        return _path_test(glob)(str(path.relative_to(self.project)))


_ASKS: dict[Effect, str] = {"read": "it reads", "write": "it changes a file", "run": "it runs a command"}


def _is_for_all(rule: ConsentRule) -> bool:
    return rule.match is None and rule.path is None


def care_for(effect: Effect, path: Path) -> str:
    """Why a file needs more care than others, if it does."""
    if is_secret_file(path):
        return f"{path.name} may hold secrets"
    if effect == "write" and ".git" in (part.casefold() for part in path.parts):
        return "what is in .git can make git run commands"
    if effect == "write" and (path.match("fairlead/config.toml") or str(path) == _own_config()):
        return "it is Fairlead's configuration, which holds these rules"
    return ""


def _own_config() -> str:
    given = os.environ.get("FAIRLEAD_CONFIG")
    return os.path.realpath(given) if given else ""


def _names(glob: str | None, effect: Effect) -> bool:
    """Whether a glob was meant for files that need care: it has their name in it, and not only stars."""
    return glob is not None and bool(care_for(effect, Path(glob.replace("\\", ""))))


class _Hit(Struct, frozen=True):
    """A part of a command that a rule is about, or may be."""

    rule: ConsentRule
    part: Part
    reading: Reading
    is_sure: bool

    def verdict(self) -> ConsentVerdict:
        """What the rule says, with the part that it says it of."""
        shown = f"`{self.part.shown}`"
        if self.is_sure:
            return ConsentVerdict(self.rule.then, f"{shown}: a rule says: {self.rule}", self.rule)
        why = f" ({self.part.why})" if self.part.why else ""
        return ConsentVerdict("ask", f"{shown} may match a rule{why}: {self.rule}", self.rule)


def _hit(rule: ConsentRule, part: Part) -> _Hit | None:
    """Whether a rule is about a part, surely or perhaps."""
    if rule.match is None or len(rule.match) > MAX_PATTERN:  # an answer to just one command
        return None
    pattern = wildcard(rule.match)
    perhaps = None
    for reading in part.readings:
        if reading.is_sure and pattern.surely(reading.text, anywhere=reading.anywhere):
            return _Hit(rule, part, reading, is_sure=True)
        if perhaps is None and pattern.possibly(reading.text, anywhere=reading.anywhere):
            perhaps = _Hit(rule, part, reading, is_sure=False)
    return perhaps


def _allows(rule: ConsentRule, part: Part) -> bool:
    """Whether a rule allows a part, with all that is set for it."""
    if rule.match is None or part.plain is None or len(rule.match) > MAX_PATTERN:
        return False
    before, command, sets = _pattern(rule.match)
    return (
        wildcard(command).surely(part.plain)
        and all(any(wildcard(each).surely(value) for value in part.assigned) for each in before)
        and all(any(wildcard(each).surely(value) for each in sets) for value in part.named)
    )


def _any_allows(rules: Sequence[ConsentRule], part: Part) -> ConsentRule | None:
    return next((rule for rule in reversed(rules) if _allows(rule, part)), None)


@lru_cache(maxsize=MAX_RULES)
def _pattern(match: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """A pattern's assignments before the command, its command, and all words that name something.

    >>> _pattern("A=* make CC=gcc *")
    (('A=*',), 'make CC=gcc *', ('A=*', 'make', 'CC=gcc'))
    """
    words = match.split(" ")
    first = next((at for at, word in enumerate(words) if not ASSIGNMENT.match(word)), 0)
    sets = tuple(word if ASSIGNMENT.match(word) else word.rstrip("*") for word in words if word.strip("*"))
    return tuple(words[:first]), " ".join(words[first:]), sets


@lru_cache(maxsize=MAX_RULES)
def _path_test(glob: str) -> Callable[[str], bool]:
    return matcher(glob)
