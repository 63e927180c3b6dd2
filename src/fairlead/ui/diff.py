"""Unified diffs as rows of a terminal: headings for files, line numbers, and the words that changed. Pure.

Whatever is in the files, only the diff's own lines make headings and numbers: how many lines belong to a
hunk is counted. Characters that would not be seen are shown by their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..formats.columns import width_of
from ..formats.shown import visible
from .styled import Line, broken

MAX_PAIRED = 100
"""How many lines that were replaced one after the other are compared word by word."""
MAX_WORDS = 1000
"""How many characters of a line are compared word by word."""
LEAST_SAME = 0.3
"""How much of a line must be the same so that only its other words are marked."""
LEAST_ROOM = 20
"""How wide a terminal must be, beside the numbers, for these to be shown."""

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_GIT = re.compile(r"diff --git (?:\"?a/)?.* \"?b/(.*?)\"?\Z")
_WORDS = re.compile(r"\w+|\s+|.")
_COLOURS = {"+": "green", "-": "red", " ": ""}
_UNSAID = ("index ", "--- ", "+++ ", "similarity ", "dissimilarity ")
"""How lines of a file's head begin that a person does not need."""


def is_diff(text: str) -> bool:
    """True if a text says which lines of a file it changes."""
    return any(map(_HUNK.match, text.split("\n")))


def drawn(text: str, width: int, *, is_whole: bool = False) -> list[Line]:
    """A diff, of one file or several, as rows of so many columns. With `is_whole` every line of it is there.

    >>> for row in drawn("@@ -9 +9 @@\\n-a cat\\n+a dog", 40):
    ...     print("".join(text for text, _ in row))
    @@ line 9
     9 - a cat
     9 + a dog
    """
    return list(_Drawing(width, is_whole=is_whole).rows(visible(text).rstrip("\n").split("\n")))


class _Drawing:
    """Rows, one after the other."""

    def __init__(self, width: int, *, is_whole: bool) -> None:
        self._width = width
        self._unsaid = () if is_whole else _UNSAID
        self._gutter = 0
        self._old = self._new = 0  # the numbers of the next lines
        self._left = (0, 0)  # how many lines of the old and new text the hunk still has
        self._is_open = False  # in a hunk of which lines are left out, so that nothing is counted
        self._removed: list[tuple[int, str]] = []
        self._added: list[tuple[int, str]] = []
        self._has_head = False  # the file's name was shown

    def rows(self, lines: list[str]) -> Iterator[Line]:
        numbers = [int(found[3]) + int(found[4] or 1) for line in lines if (found := _HUNK.match(line))]
        if numbers and self._width >= LEAST_ROOM + len(str(max(numbers))):
            self._gutter = len(str(max(numbers)))
        for line in lines:
            if self._is_of_hunk(line):
                yield from self._changed(line)
                continue
            yield from self._pairs()
            yield from self._headed(line)
        yield from self._pairs()

    def _is_of_hunk(self, line: str) -> bool:
        if line[:1] not in (" ", "+", "-", ""):
            return False
        return any(self._left) or self._is_open

    def _changed(self, line: str) -> Iterator[Line]:
        """A line of a hunk; those that were replaced are kept until it is known by what."""
        kind, text = line[:1] or " ", line[1:]
        old, new = self._left
        match kind:
            case "-":
                if self._added:
                    yield from self._pairs()
                self._removed.append((self._old, text))
                self._old, self._left = self._old + 1, (max(0, old - 1), new)
            case "+":
                self._added.append((self._new, text))
                self._new, self._left = self._new + 1, (old, max(0, new - 1))
            case _:
                yield from self._pairs()
                yield from self._row(self._new, " ", [(text, "")])
                self._old, self._new = self._old + 1, self._new + 1
                self._left = max(0, old - 1), max(0, new - 1)

    def _pairs(self) -> Iterator[Line]:
        """The lines that were removed and those that were added in their place."""
        removed, added = self._removed, self._added
        self._removed, self._added = [], []
        is_paired = 0 < len(removed) == len(added) <= MAX_PAIRED
        pairs = [_compared(old, new) for (_, old), (_, new) in zip(removed, added)] if is_paired else []
        for lines, kind, side in ((removed, "-", 0), (added, "+", 1)):
            for index, (number, text) in enumerate(lines):
                line = pairs[index][side] if pairs else [(text, _COLOURS[kind])]
                yield from self._row(number, kind, line)

    def _row(self, number: int, kind: str, line: Line) -> Iterator[Line]:
        head = f"{number or '':>{self._gutter}} " if self._gutter else ""
        room = max(2, self._width - width_of(head) - 2)
        for index, part in enumerate(broken(line, room)):
            first: Line = [(head if not index else " " * len(head), "dim")] if head else []
            mark = f"{kind} " if not index else "  "
            yield [*first, (mark, _COLOURS[kind]), *part]

    def _headed(self, line: str) -> Iterator[Line]:
        """What is around the changes: where they are, and in which file."""
        if hunk := _HUNK.match(line):
            self._old, self._new = int(hunk[1]), int(hunk[3])
            self._left, self._is_open = (int(hunk[2] or 1), int(hunk[4] or 1)), False
            yield from broken([(f"@@ line {self._new}", "cyan"), (hunk[5], "dim")], self._width)
        elif git := _GIT.match(line):
            self._left, self._is_open, self._has_head = (0, 0), False, True
            yield from broken([(git[1] if self._unsaid else line, "bold")], self._width)
        elif line.startswith("\\"):  # a note of the diff's own
            yield from broken([(line, "dim")], self._width)
        elif any(self._left):  # lines are left out here
            self._is_open, self._old, self._new, self._left = True, 0, 0, (0, 0)
            yield from broken([(line, "yellow")], self._width)
        elif self._unsaid and line.startswith("+++ ") and not self._has_head:
            yield from broken([(_path(line[4:]), "bold")], self._width)
        elif not line.startswith(self._unsaid or ("\n",)):
            yield from broken([(line, "dim")], self._width)


def _path(name: str) -> str:
    name = name.strip('"')
    return name[2:] if name.startswith("b/") else name


def _compared(old: str, new: str) -> tuple[Line, Line]:
    """Two lines of which the words that differ are marked, if enough of them is the same."""
    before, after = _WORDS.findall(old[:MAX_WORDS]), _WORDS.findall(new[:MAX_WORDS])
    head = _same(before, after)
    tail = _same(reversed(before[head:]), reversed(after[head:]))
    same = sum(map(len, before[:head])) + sum(map(len, before[len(before) - tail :]))
    if max(len(old), len(new)) > MAX_WORDS or same < LEAST_SAME * max(len(old), len(new), 1):
        return [(old, "red")], [(new, "green")]
    return _marked(before, head, tail, "red"), _marked(after, head, tail, "green")


def _same(one: Iterable[str], other: Iterable[str]) -> int:
    count = 0
    for mine, theirs in zip(one, other):
        if mine != theirs:
            break
        count += 1
    return count


def _marked(words: list[str], head: int, tail: int, colour: str) -> Line:
    end = len(words) - tail
    parts = (("".join(words[:head]), colour), ("".join(words[head:end]), f"{colour} reverse"))
    return [part for part in (*parts, ("".join(words[end:]), colour)) if part[0]]
