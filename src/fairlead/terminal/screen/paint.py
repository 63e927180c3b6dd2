"""Painting: rows of cells as the text and sequences that print them.

Each row is painted so that it begins and ends with the default style. That costs a few bytes, and in return
scrollback can be painted from the newest row back until there is no more room, and no row that scrolls in is
filled with somebody's background. Blanks are skipped or erased, never printed, so that they stay blanks.

What only some terminals understand is left out unless the program has used it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from itertools import pairwise

from .cells import Run, narrow_text, runs, spacer_head
from .keyframe import PLAIN, CellPage, CellRow, Hyperlink

_FLAG_CODES = tuple(
    "".join(f";{code}" for bit, code in enumerate((1, 3, 2, 5, 7, 8, 9, 53)) if flags >> bit & 1)
    for flags in range(256)
)
_CONTROLS = bytes(range(32)) + b"\x7f"
_BLANKS = re.compile("\0+")
DEFAULT = "\x1b[0m"


def _palette_codes(base: int) -> tuple[str, ...]:
    """The codes of the palette's colours: short for the first 16, which every terminal has."""
    basic = [f";{base + index}" for index in range(8)]
    bright = [f";{base + 60 + index}" for index in range(8)]
    return (*basic, *bright, *(f";{base + 8};5;{index}" for index in range(16, 256)))


_FOREGROUNDS, _BACKGROUNDS = _palette_codes(30), _palette_codes(40)


def sgr(style: bytes) -> str:
    """The sequences that make a style the current one, whatever it was before."""
    if style == PLAIN:
        return DEFAULT
    text = "\x1b[0" + _FLAG_CODES[style[12]]
    if style[13]:
        text += ";4"
    if style[0] == 1:
        text += _FOREGROUNDS[style[1]]
    elif style[0] == 2:
        text += f";38;2;{style[1]};{style[2]};{style[3]}"
    if style[4] == 1:
        text += _BACKGROUNDS[style[5]]
    elif style[4] == 2:
        text += f";48;2;{style[5]};{style[6]};{style[7]}"
    text += "m"
    # These are apart, so that a terminal which knows no such thing still takes the rest.
    if style[13] > 1:
        text += f"\x1b[4:{style[13]}m"
    if style[8] == 1:
        text += f"\x1b[58:5:{style[9]}m"
    elif style[8] == 2:
        text += f"\x1b[58:2::{style[9]}:{style[10]}:{style[11]}m"
    return text


def has_background(style: bytes) -> bool:
    return style[4] != 0


def linked(link: Hyperlink | None) -> str:
    """The sequence that makes a link the current one."""
    if link is None:
        return "\x1b]8;;\x1b\\"
    parameters = "" if link.id is None else f"id={unquoted(link.id)}"
    return f"\x1b]8;{parameters};{unquoted(link.uri)}\x1b\\"


def unquoted(text: bytes) -> str:
    """A program's own bytes as they can stand in a sequence; to be encoded with `encoded`."""
    return text.translate(None, _CONTROLS).decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """What was painted, as bytes."""
    return text.encode("utf-8", "surrogateescape")


def protect(protection: int, on: bool) -> str:
    """Begin or end characters that can't be erased, in the way that a screen does it."""
    if protection == 1:
        return "\x1bV" if on else "\x1bW"
    return '\x1b[1"q' if on else '\x1b[0"q'


def mark(semantic: int, *, secondary: bool = False, at_start: bool = False) -> str:
    """Say what follows, as shells do (OSC 133): output, what the user typed, or a prompt."""
    match semantic:
        case 1:
            return "\x1b]133;B\x07"
        case 2 if secondary:
            return "\x1b]133;P;k=c\x07"
        case 2:
            # A prompt that is announced by A begins on a fresh line, which it must be on already.
            return "\x1b]133;A\x07" if at_start else "\x1b]133;P\x07"
    return "\x1b]133;C\x07"


class Wrap(Enum):
    """How a row goes over into the next one."""

    NONE = 0
    NARROW = 1
    """The row is full, and the next character finds no place in it."""
    WIDE = 2
    """The last column stays free, because the next character is too wide for it."""


def _forward(blanks: re.Match[str]) -> str:
    return f"\x1b[{blanks.end() - blanks.start()}C"


class Painter:
    """Paints rows that are `cols` wide. `char_width` is the emulator's idea of a character's width."""

    def __init__(self, cols: int, char_width: Callable[[int], int]) -> None:
        self._cols = cols
        self._char_width = char_width
        self._page: CellPage | None = None
        self._codes: dict[int, str] = {}

    def line(self, line: CellRow, *, wrap: Wrap = Wrap.NONE, protection: int = 2) -> str:
        """One row, from its first column with default style to default style.

        If it wraps, the cursor is left where the next character goes to the next row.
        """
        text = narrow_text(line)
        if text is None or line.page.cols > self._cols:
            return self._any(line, wrap, protection)
        painted = self._styled(line, text) if line.width == 2 else text
        if "\0" in painted:
            painted = _BLANKS.sub(_forward, painted)
        if wrap is Wrap.NARROW and (len(text) < self._cols or text[-1] == "\0"):
            painted += f"\x1b[{self._cols}G "
        return painted

    def _styled(self, line: CellRow, text: str) -> str:
        """Narrow characters with styles, of which the number is in the top byte of each cell."""
        page = line.page
        if page is not self._page:
            self._page, self._codes = page, {0: DEFAULT}
        codes, looks = self._codes, line.cells[3::4]
        out = []
        start = current = 0
        while looks:
            look = looks[0]
            rest = looks.lstrip(looks[:1])
            end = start + len(looks) - len(rest)
            piece = text[start:end]
            if look != current and piece.strip("\0"):
                current = look
                code = codes.get(look)
                if code is None:
                    code = codes[look] = sgr(page.styles[look >> 2])
                out.append(code)
            out.append(piece)
            start, looks = end, rest
        if current:
            out.append(DEFAULT)
        return "".join(out)

    def _any(self, line: CellRow, wrap: Wrap, protection: int) -> str:
        out: list[str] = []
        style, link, protected, semantic, x, sure = PLAIN, None, False, 0, 0, True
        cols = self._cols
        for run in runs(line):
            text, at = run.text, run.x
            if at + run.width > cols:
                break
            if not text:
                if run.style == PLAIN:
                    continue
                if wrap is Wrap.NARROW and at + run.width == cols:
                    text = " " * run.width
            if at != x or not sure:
                out.append(f"\x1b[{at - x}C" if sure else f"\x1b[{at + 1}G")
                x, sure = at, True
            if run.style != style:
                style = run.style
                out.append(sgr(style))
            if not text:
                out.append(f"\x1b[{run.width}X")
                continue
            if run.link != link:
                link = run.link
                out.append(linked(link))
            if run.protected != protected:
                protected = run.protected
                out.append(protect(protection, protected))
            if run.semantic != semantic:
                semantic = run.semantic
                out.append(mark(semantic, secondary=line.secondary_prompt, at_start=at == 0))
            out.append(self.text(run) if run.cluster else text)
            # Terminals disagree about the width of what is joined; the column says where to go on.
            x, sure = at + run.width, not run.cluster
        if link is not None:
            out.append(linked(None))
        if protected:
            out.append(protect(protection, False))
        if style != PLAIN:
            out.append(DEFAULT)
        if semantic:
            out.append(mark(0))
        if wrap is Wrap.WIDE:
            out.append(f"\x1b[{cols}G")
        elif wrap is Wrap.NARROW and x < cols:
            out.append(f"\x1b[{cols}G ")
        return "".join(out)

    def text(self, run: Run) -> str:
        """The text of a run; a cell of several characters is joined by some terminals only if asked to."""
        if not run.cluster:
            return run.text
        if run.text[0] == " ":
            return " " * run.width
        first, *rest = map(ord, run.text)
        width = self._char_width
        if width(first) == run.width and not any(map(width, rest)):
            return run.text
        return f"\x1b[?2027h{run.text}\x1b[?2027l"

    def between(self, line: CellRow, following: CellRow) -> tuple[Wrap, str]:
        """How a row wraps into the following one, and what stands between them."""
        if not line.wraps or line.page.cols != self._cols:
            return Wrap.NONE, "\r\n"
        first = next(runs(following), None)
        if first is None or not first.text or first.x:
            return Wrap.NARROW, " \r\x1b[X"
        char = first.text[0]
        wrap = Wrap.WIDE if self._char_width(ord(char)) == 2 and spacer_head(line) else Wrap.NARROW
        if not has_background(first.style):
            return wrap, ""
        # What scrolls in takes the background of the moment, so the wrap is made before the style is set.
        return wrap, (char if wrap is Wrap.WIDE else " ") + "\r"

    def rows(self, lines: list[CellRow], protection: int) -> list[str]:
        """Rows one below the other, each with what separates it from the next."""
        out = []
        for line, following in pairwise(lines):
            wrap, gap = self.between(line, following)
            out.append(self.line(line, wrap=wrap, protection=protection) + gap)
        if lines:
            out.append(self.line(lines[-1], protection=protection))
        return out
