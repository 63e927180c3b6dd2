"""Text with styles: pieces, lines of pieces, and what paints them. Pure functions.

A style is words with spaces between them, such as `bold cyan`; they mean the same in Rich, so what is drawn
here can be shown by a dashboard as well as be written to a terminal.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TextIO

from ..formats.columns import width_of

Row = tuple[str, str]
"""A text and its style."""
Line = list[Row]
"""A row of a terminal, in pieces."""

STYLES = {
    "bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "strike": "9",
    "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
}  # fmt: skip
_JOINERS = ("\u200d", "\ufe0f")
"""What makes one picture of characters beside it."""


class Marks(NamedTuple):
    """What stands for the parts of a text that are drawn."""

    bullet: str = "•"
    quote: str = "│"
    rule: str = "─"
    cross: str = "┼"
    open: str = "☐"
    done: str = "☑"
    cut: str = "…"


ASCII = Marks("*", "|", "-", "+", "[ ]", "[x]", "~")
"""For terminals that show nothing else."""


def marks_of(output: TextIO) -> Marks:
    """Those that an output can show."""
    return Marks() if output.encoding.lower().startswith("utf") else ASCII


@lru_cache(256)
def _code(style: str) -> str:
    return ";".join(STYLES[word] for word in style.split())


class Paint:
    """Styles, or none of them where nobody wants colours."""

    def __init__(self, is_on: bool) -> None:
        self.is_on = is_on

    def __call__(self, row: Row | Line) -> str:
        if isinstance(row, list):
            return "".join(map(self, row))
        text, style = row
        return f"\x1b[{_code(style)}m{text}\x1b[0m" if style and text and self.is_on else text


def plain(line: Row | Line) -> str:
    """A line's text without its styles."""
    return "".join(text for text, _ in line) if isinstance(line, list) else line[0]


def line_width(line: Line) -> int:
    """How many columns a line takes."""
    return sum(width_of(text) for text, _ in line)


def add_to(line: Line, text: str, style: str) -> None:
    """Put a text at a line's end, into its last piece if that has the same style."""
    if line and line[-1][1] == style:
        line[-1] = line[-1][0] + text, style
    elif text:
        line.append((text, style))


def fitting(text: str, room: int) -> int:
    """How many of a text's characters have room; marks and joined pictures stay whole where they can.

    >>> fitting("日本語", 5), fitting("abc", 5)
    (2, 3)
    """
    if text.isascii():
        return min(len(text), max(0, room))
    at = 0
    while at < len(text) and (room := room - width_of(text[at])) >= 0:
        at += 1
    whole = at
    while 0 < whole < len(text) and (text[whole] in _JOINERS or text[whole - 1] == "\u200d"):
        whole -= 1
    return whole or at


def broken(line: Line, width: int) -> list[Line]:
    """A line in rows of at most so many columns, as a terminal breaks it."""
    rows: list[Line] = []
    row: Line = []
    room = width = max(2, width)
    for text, style in line:
        rest = text
        while rest:
            if count := fitting(rest, room):
                row.append((rest[:count], style))
                room -= width_of(rest[:count])
                rest = rest[count:]
            if rest:
                rows.append(row)
                row, room = [], width
    return [*rows, row]
