"""Shell commands taken apart, as far as a policy needs it.

A command line is a list of simple commands, and some of them run others: `timeout 5 rm x` is also `rm x`.
Each becomes a part, with all texts that a rule may know it by. A rule that denies or asks looks at all of
them; one that allows only at the text that leaves no doubt. What can't be understood may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from .runners import UNKNOWN, Runs, base_name, risky_assignment, what_runs
from .shell_text import Redirection, Script, Simple, Word, read_script
from .wildcards import HOLE

MAX_JUDGED = 10_000
"""How many characters of a command are looked at. A longer one is not understood."""
MAX_RUNNERS = 8
"""How many programs may run each other, as in `sudo nice timeout 5 make`."""
MAX_READ = 100_000
"""How many characters all readings of a command may have together."""
MAX_PARTS = 150
"""How many parts a command may have. What has more is not understood."""
MAX_SUBCOMMANDS = 8
"""How many words after options are taken for a subcommand."""
MAX_SHOWN = 160
"""How many characters of a part a person is shown."""

_QUOTED_BLANK = "\x1f"
"""Stands for a blank within a word where a rule allows: a blank in its pattern is one between words."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Reading(Struct, frozen=True):
    """A text that a rule may know a part by. It may have holes."""

    text: str
    is_sure: bool = True
    """Whether it is certain that this is run, once its holes are filled."""
    anywhere: bool = False
    """Whether a command may begin at any of its words."""


class Part(Struct, frozen=True):
    """A simple command, a redirection such as `> file`, or something that may be anything."""

    text: str
    """As it is written, with single blanks between words."""
    readings: tuple[Reading, ...]
    plain: str | None = None
    """What a rule that allows must match; None if no pattern can allow it."""
    why: str = ""
    """Why it can't be understood."""
    assigned: tuple[str, ...] = ()
    """What is set for it, the last value of each name: a rule that begins with assignments wants these."""
    named: tuple[str, ...] = ()
    """Assignments that may change what it does: a rule that allows it has all of them."""
    is_set: bool = False
    """Whether only those make it doubtful, so that a rule with them leaves no doubt."""

    @property
    def shown(self) -> str:
        """The part for people: not too long, without control characters."""
        text = self.text if len(self.text) <= MAX_SHOWN else f"{self.text[: MAX_SHOWN - 1]}…"
        return _CONTROL.sub(lambda found: "…" if found[0] == HOLE else repr(found[0])[1:-1], text)


class ParsedCommand(Struct, frozen=True):
    """A command line, taken apart."""

    parts: tuple[Part, ...]
    compound: str = ""
    """What makes it more than a list of simple commands, if it is more."""

    @property
    def is_understood(self) -> bool:
        """Whether its parts are all that it does, and it is a plain list of them."""
        return not self.compound and all(not part.why for part in self.parts)


def take_apart(command: str) -> ParsedCommand:
    """The parts of a command line, with those that are within others.

    >>> [part.text for part in take_apart("git add . && timeout 5 make > log").parts]
    ['git add .', '> log', 'timeout 5 make', 'make']
    """
    if len(command) > MAX_JUDGED:
        why = f"it has {len(command)} characters, and only {MAX_JUDGED} are looked at"
        return ParsedCommand((_anything(command[:MAX_SHOWN], why),), why)
    taking = _Taking()
    taking.script(command, 0)
    parts, compound = taking.parts, taking.compound
    if taking.is_full:
        why = "it has too many parts"
        parts, compound = [*parts, _anything(command[:MAX_SHOWN], why)], compound or why
    return ParsedCommand(tuple(parts), compound)


def _anything(text: str, why: str) -> Part:
    return Part(text, (Reading(HOLE, is_sure=False),), why=why)


class _Taking:
    """Collects the parts of a command line."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.compound = ""
        """What makes it more than a list of simple commands."""
        self._read = 0

    @property
    def is_full(self) -> bool:
        return len(self.parts) >= MAX_PARTS or self._read > MAX_READ

    def script(self, text: str, depth: int) -> None:
        """Take a text for a shell apart."""
        script: Script = read_script(text, depth)
        self.compound = self.compound or script.compound
        for command in script.commands:
            if self.is_full:
                break
            if isinstance(command, Redirection):
                self.parts.append(_redirection(command))
            else:
                self._simple(command, depth)
        for why in script.opaque:
            self.parts.append(_anything(" ".join(text.split()), why))

    def _simple(self, command: Simple, depth: int) -> None:
        if command.words:
            self._command(command.words, command.assigned, command.fed, depth)
            return
        for word in command.assigned:
            if why := risky_assignment(word):
                self.parts.append(_anything(word.raw, why))
        assigned = " ".join(word.raw for word in command.assigned)
        plain = assigned if all(word.is_plain for word in command.assigned) else None
        self.parts.append(Part(assigned, (Reading(assigned),), plain))

    def _command(
        self, words: tuple[Word, ...], assigned: tuple[Word, ...], fed: Sequence[str], depth: int
    ) -> None:
        """Take a command with all that it runs."""
        if self.is_full:
            return
        is_named = HOLE not in words[0].value and words[0].value != ""
        runs = what_runs(words) if is_named else UNKNOWN
        text = " ".join(word.raw for word in (*assigned, *words))
        readings = tuple(dict.fromkeys(_readings(words, text, runs)))
        # a name in quotes is not what a person had in mind who allowed it
        plain = " ".join(map(_unbroken, words)) if words[0].is_plain else None
        why = "" if is_named else "which program it is, is only known when it runs"
        risks = {word: risk for word in assigned if (risk := risky_assignment(word, is_passed=True))}
        part = Part(
            text,
            readings,
            plain,
            why,
            assigned=tuple({word.value.partition("=")[0]: _unbroken(word) for word in assigned}.values()),
            named=tuple(map(_unbroken, risks)),
        )
        self.parts.append(part)
        self._read += sum(len(reading.text) for reading in readings)
        unseen = msgspec.structs.replace(part, readings=(Reading(HOLE, is_sure=False),))
        for word, risk in risks.items():
            self.parts.append(msgspec.structs.replace(unseen, text=word.raw, why=risk, is_set=True))
        if depth >= MAX_RUNNERS and (runs.commands or runs.scripts or runs.reads_script):
            self.parts.append(_anything(text, f"more than {MAX_RUNNERS} programs run each other"))
            return
        for inner in runs.commands:
            self._command(inner, (*assigned, *runs.assigned), fed, depth + 1)
        for script in runs.scripts:
            self.script(script, depth + 1)
        if runs.reads_script:
            for script in fed:
                self.script(script, depth + 1)
        if runs.opaque:
            named = tuple(each.replace(" ", _QUOTED_BLANK) for each in runs.named)
            allowed = plain if runs.is_own else None
            self.parts.append(
                msgspec.structs.replace(
                    unseen, plain=allowed, why=runs.opaque, named=(*part.named, *named), is_set=bool(named)
                )
            )


def _unbroken(word: Word) -> str:
    return word.value.replace(" ", _QUOTED_BLANK)


def _redirection(redirection: Redirection) -> Part:
    sign, target = redirection
    raw, value = f"{sign} {target.raw}", f"{sign} {target.value}"
    is_clear = target.is_one and ".." not in target.value.split("/")
    plain = value if is_clear and not target.value.startswith("~") else None
    return Part(raw, tuple(dict.fromkeys((Reading(raw), Reading(value)))), plain)


def _readings(words: Sequence[Word], text: str, runs: Runs) -> Iterator[Reading]:
    """All texts that a command may be known by."""
    yield Reading(text)
    values = [word.value for word in words]
    yield Reading(" ".join(word.raw for word in words))
    yield Reading(" ".join(values))
    name = values[0]
    if HOLE in name:  # it may have any directory, and any of its own
        yield Reading(
            " ".join([HOLE + name.rpartition("/")[2].rpartition(HOLE)[2], *values[1:]]), is_sure=False
        )
    else:
        for other in dict.fromkeys((name.rpartition("/")[2], base_name(name))):
            yield Reading(" ".join([other, *values[1:]]))
            yield Reading(" ".join([other, *(word.raw for word in words[1:])]))
    for also in runs.also:
        yield Reading(" ".join(word.value for word in also))
        yield Reading(" ".join(word.raw for word in also))
    if not runs.also:
        yield from _after_options(base_name(name), values)
    if runs.opaque or runs.is_unknown:  # it may run what it is given
        yield Reading(" ".join(values[1:]), is_sure=False, anywhere=True)


def _after_options(name: str, values: Sequence[str]) -> Iterator[Reading]:
    """The command without options before its subcommand, as in `docker --debug push`."""
    found = 0
    is_value = False  # it follows an option, whose value it may be
    for at, value in enumerate(values[1:], 1):
        if value.startswith("-"):
            is_value = "=" not in value
            continue
        if at > 1:
            yield Reading(" ".join([name, *values[at:]]))
            found += 1
        if not is_value or found >= MAX_SUBCOMMANDS:
            return
        is_value = False
