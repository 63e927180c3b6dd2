"""Words in rows of a terminal, as they come: a row is complete as soon as the next word has no room in it.

Where rows end depends on the text alone, not on the pieces in which it came. Wide characters are words of
their own. No word is wider than a row; one that is gets broken. Pure.
"""

from __future__ import annotations

import copy
import re

from ..formats.columns import width_of
from .styled import Line, add_to, fitting, line_width

LEAST_ROOM = 8
"""How many columns words get at the least, however deep they are nested."""
MAX_CHARACTERS = 500
"""How many characters a word may have, however little room they take."""
MAX_GAP = 40
"""How many spaces between words are kept."""

_WORDS = re.compile(r"[ \t]+|[^ \t]+")
_WIDE = (
    "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60"
    "\U00020000-\U0003fffd"
)
_CLOSING = (
    "\u3001\u3002\u3009\u300b\u300d\u300f\u3011\u3015\uff01\uff09\uff0c\uff0e\uff1a\uff1b\uff1f\uff5d"
    "\u0300-\u036f\u200d\u3099\u309a\ufe0f"
)
"""What stays with the character before it."""
_BREAKS = re.compile(f"(?<=[{_WIDE}])(?=[^{_CLOSING}])|(?<=.)(?=[{_WIDE}])(?![{_CLOSING}])")
"""Where a row may end beside a wide character."""


class Flow:
    """Rows of words. `rows` are complete; whoever takes them empties the list."""

    def __init__(self, width: int, first: Line, rest: Line, least: int = LEAST_ROOM) -> None:
        """Between `first` or, from the second row on, `rest` and the width is where the words go."""
        self.rows: list[Line] = []
        self.width = max(width, line_width(first) + least, line_width(rest) + least)
        self._row, self._used = list(first), line_width(first)
        self._rest = rest
        self._is_empty = True
        self._word: Line = []
        self._wide = self._length = 0
        self._gap, self._gap_style = 0, ""
        self._last = ""  # the word's last character

    def clone(self) -> Flow:
        """Another one that goes on from here."""
        other = copy.copy(self)
        other.rows, other._row, other._word = list(self.rows), list(self._row), list(self._word)
        return other

    def add(self, text: str, style: str) -> None:
        """More text, in which there are no line feeds."""
        is_ascii = text.isascii()
        for found in _WORDS.finditer(text):
            piece = found[0]
            if piece[0] in " \t":
                self._end_word()
                self._gap = min(MAX_GAP, self._gap + len(piece))
                self._gap_style = style
            elif is_ascii and self._last.isascii():
                self._grow(piece, style)
            else:
                before = self._last
                for part in _BREAKS.split(before + piece):
                    if before:  # it is in the word already
                        part, before = part[len(before) :], ""
                    else:
                        self._end_word()
                    if part:
                        self._grow(part, style)

    def finish(self) -> list[Line]:
        """All rows that are left; the last one is there even if nothing is in it."""
        self._end_word()
        rows, self.rows = [*self.rows, self._row], []
        return rows

    def _grow(self, part: str, style: str) -> None:
        add_to(self._word, part, style)
        self._wide += len(part) if part.isascii() else width_of(part)
        self._length += len(part)
        self._last = part[-1]
        if self._used + self._gap + self._wide <= self.width and self._length <= MAX_CHARACTERS:
            return
        if not self._is_empty:
            self._break()
        while self._used + self._wide > self.width or self._length > MAX_CHARACTERS:
            self._split()

    def _split(self) -> None:
        """Fill a row with the beginning of a word that is too long for one."""
        room, count = self.width - self._used, MAX_CHARACTERS
        word, self._word = self._word, []
        for text, style in word:
            taken = 0
            if not self._word:
                taken = min(count, fitting(text, room) or (not self._row and 1))
                add_to(self._row, text[:taken], style)
                room -= width_of(text[:taken])
                count -= taken
            if text[taken:]:
                add_to(self._word, text[taken:], style)
        self._wide = line_width(self._word)
        self._length = sum(len(text) for text, _ in self._word)
        self._break()

    def _break(self) -> None:
        self.rows.append(self._row)
        self._row, self._used = list(self._rest), line_width(self._rest)
        self._is_empty, self._gap = True, 0

    def _end_word(self) -> None:
        if not self._word:
            return
        if self._gap:
            add_to(self._row, " " * self._gap, self._gap_style)
        for text, style in self._word:
            add_to(self._row, text, style)
        self._used += self._gap + self._wide
        self._word, self._wide, self._length, self._gap, self._last = [], 0, 0, 0, ""
        self._is_empty = False
