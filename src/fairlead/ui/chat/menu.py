"""A list below the input of a chat in which arrow keys move: what Tab may complete, or what a command asks to
be chosen. Does no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...formats.columns import cut, width_of
from ...formats.shown import one_line
from ..styled import Row

MENU_ROWS = 8
"""How many candidates are shown at once."""
MAX_LABEL = 400
"""How many characters of a candidate are looked at for its row."""
ABOUT_ROOM = 12
"""In how many columns at least it is said what a candidate is."""


class Candidate(NamedTuple):
    """Something to choose."""

    text: str
    """What it is, and what stands in the line if Tab completes it."""
    about: str = ""
    value: Any = None
    """What is sent for it, if it answers a question."""


class Menu:
    """Candidates, of which one is marked. With numbers, each keeps its own while others are filtered out."""

    def __init__(self, candidates: Sequence[Candidate], *, title: str = "", numbered: bool = False) -> None:
        self.title = title
        self._numbered = numbered
        self._all = list(candidates)
        self._shown = list(enumerate(self._all, 1))
        self._at = 0
        self._filter = ""

    def __len__(self) -> int:
        return len(self._shown)

    @property
    def candidates(self) -> Sequence[Candidate]:
        """Those that are shown."""
        return [each for _, each in self._shown]

    @property
    def chosen(self) -> Candidate | None:
        """The one that is marked."""
        return self._shown[self._at][1] if self._shown else None

    def mark(self, text: str) -> None:
        """Mark a candidate, if it is shown."""
        texts = [each.text for each in self.candidates]
        self._at = texts.index(text) if text in texts else self._at

    def move(self, step: int) -> None:
        """Mark the next one, or the one before; after the last one comes the first."""
        self._at = (self._at + step) % len(self._shown) if self._shown else 0

    def offer(self, candidates: Sequence[Candidate]) -> None:
        """There are others now. What is marked stays marked if it is among them."""
        marked = self.chosen
        self._all = list(candidates)
        self._shown = list(enumerate(self._all, 1))
        self._at = 0
        if marked is not None:
            self.mark(marked.text)

    def filter(self, text: str) -> None:
        """Show those that have all words of a text, or mark the one that has it as its number."""
        if text == self._filter:
            return
        self._filter = text
        every = list(enumerate(self._all, 1))
        if text.isdecimal() and text.isascii() and 0 < int(text) <= len(every):
            self._shown, self._at = every, int(text) - 1
            return
        words = text.lower().split()
        self._shown = [
            (number, each)
            for number, each in every
            if all(word in f"{each.text} {each.about}".lower() for word in words)
        ]
        self._at = 0

    def rows(self, columns: int, limit: int) -> list[Row]:
        """So many rows at the most: the candidates around the one that is marked."""
        rows: list[Row] = [(self.title, "bold")] if self.title else []
        count = len(self._shown)
        room = max(1, min(MENU_ROWS, limit - len(rows) - 1))
        first = max(0, min(self._at - room // 2, count - room))
        window = self._shown[first : first + room]
        names = [one_line(each.text, MAX_LABEL) for _, each in window]
        wide = min(max(map(width_of, names), default=0), max(8, columns - ABOUT_ROOM - 10))
        for place, ((number, each), name) in enumerate(zip(window, names), first):
            label = f"{number:>3}  {name}" if self._numbered else name
            if each.about:
                label += " " * max(0, wide - width_of(name)) + f"  {one_line(each.about, MAX_LABEL)}"
            is_marked = place == self._at
            rows.append((cut(f"{'▸' if is_marked else ' '} {label}", columns), "cyan" if is_marked else ""))
        if not count:
            rows.append(("  no matches", "dim"))
        elif count > room:
            rows.append((f"  {self._at + 1} of {count}", "dim"))
        return rows
