"""Cells of a line, taken together into runs that look the same, and what a style means.

A `Run` is what all that shows a screen works with: the redraw for a client, text, pictures, the model for
other programs. Most lines are plain text and are one run, found without looking at each cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from struct import unpack
from typing import NamedTuple

from .keyframe import PLAIN, CellRow, Hyperlink, Rgb


class Run(NamedTuple):
    """Cells side by side that look the same. `text` is empty where nothing was printed."""

    x: int
    width: int
    text: str
    style: bytes = PLAIN
    link: Hyperlink | None = None
    protected: bool = False
    semantic: int = 0
    cluster: bool = False
    """One cell of several characters, or of a kind that terminals disagree about."""


class Style(NamedTuple):
    """How a cell looks. A colour is a number of the palette, an `Rgb`, or None for the default."""

    foreground: int | Rgb | None
    background: int | Rgb | None
    underline_color: int | Rgb | None
    bold: bool
    italic: bool
    faint: bool
    blink: bool
    inverse: bool
    invisible: bool
    strikethrough: bool
    overline: bool
    underline: int
    """0 for none, then single, double, curly, dotted, dashed."""


@lru_cache(maxsize=4096)
def style_of(packed: bytes) -> Style:
    """What a packed style says."""
    colors = (_color(packed[0:4]), _color(packed[4:8]), _color(packed[8:12]))
    flags = packed[12]
    return Style(
        *colors,
        bold=flags & 1 != 0,
        italic=flags & 2 != 0,
        faint=flags & 4 != 0,
        blink=flags & 8 != 0,
        inverse=flags & 16 != 0,
        invisible=flags & 32 != 0,
        strikethrough=flags & 64 != 0,
        overline=flags & 128 != 0,
        underline=packed[13] & 7,
    )


def _color(packed: bytes) -> int | Rgb | None:
    if packed[0] == 1:
        return packed[1]
    if packed[0] == 2:
        return Rgb(packed[1], packed[2], packed[3])
    return None


def spacer_head(line: CellRow) -> bool:
    """Whether the last column is left free because a wide character did not fit into it."""
    return line.width == 3 and len(line.cells) == line.page.cols * 8 and line.cells[-3] >> 2 & 3 == 3


def is_halved(line: CellRow, cols: int) -> bool:
    """Whether a wide character would be cut in half if only the first columns were left."""
    return line.width == 3 and len(line.cells) >= 8 * cols and line.cells[8 * cols - 3] >> 2 & 3 == 1


_WRITTEN = re.compile(r"[^\0]+|\0+")
_SAME = re.compile(rb"(.)\1*", re.DOTALL)
_LOW_BITS = bytes(byte & 3 for byte in range(256))
_REGIONAL = range(0x1F1E6, 0x1F200)
_SPACE = 0x20  # which is wide where a wide character was printed in a character set that has none
# Of a packed cell without its content: all that must be equal within a run, which is not the cell's width.
_LOOK = (1 << 38) - 1 & ~(3 << 16)
_BLANK = 1 << 40


def narrow_text(line: CellRow) -> str | None:
    """The characters of a line by column, with NUL for blanks, if it has only narrow ones; else None."""
    cells = line.cells
    match line.width:
        case 0:
            return cells.decode("latin-1")
        case 1:
            return cells.decode("utf-16-le")
        case 2 if not cells[0::4].translate(_LOW_BITS).strip(b"\0"):
            packed = int.from_bytes(cells, "little") >> 2 & _characters_mask(len(cells) // 4)
            return packed.to_bytes(len(cells), "little").decode("utf-32-le")
    return None


@lru_cache(maxsize=512)
def _characters_mask(cells: int) -> int:
    return int.from_bytes(b"\xff\xff\x1f\0" * cells, "little")


def runs(line: CellRow) -> Iterator[Run]:
    """The runs of a line, from the left. Blank cells at the end may be left out."""
    text = narrow_text(line)
    if text is None:
        size, code = (4, "I") if line.width == 2 else (8, "Q")
        yield from _mixed(line, unpack(f"<{len(line.cells) // size}{code}", line.cells))
        return
    looks = line.cells[3::4] if line.width == 2 else bytes(len(text))
    styles = line.page.styles
    for same in _SAME.finditer(looks):
        start, end = same.span()
        style = styles[looks[start] >> 2]
        for part in _WRITTEN.finditer(text, start, end):
            first, last = part.span()
            blank = text[first] == "\0"
            yield Run(first, last - first, "" if blank else part[0], PLAIN if blank else style)


def _mixed(line: CellRow, cells: tuple[int, ...]) -> Iterator[Run]:
    """Any cells: wide, joined, linked, protected, or blank with a background."""
    suffixes = line.suffixes or {}
    text: list[str] = []
    start, end = 0, len(cells)
    look = -1
    for x, cell in enumerate(cells):
        width = cell >> 42 & 3
        if width == 2:  # the right half of a wide character
            continue
        if width == 3:  # the column that a wide character did not fit into
            end = x
            break
        content = cell >> 2 & 0xFFFFFF
        blank = cell & 2 or not content
        # A blank's look is its background, which is in its content; that of a text is all but the content.
        now = cell & 0x3FFFFFF | _BLANK if blank else cell >> 26 & _LOOK
        alone = not blank and (cell & 1 or content in _REGIONAL or (width == 1 and content == _SPACE))
        if now != look or alone:
            if look >= 0:
                yield _run(line, start, x - start, text, look)
            start, text, look = x, [], now
        if alone:
            columns = 2 if width == 1 else 1
            whole = chr(content) + suffixes.get(x, "")
            yield _run(line, x, columns, [whole], look)._replace(cluster=True)
            look = -1
        elif not blank:
            text.append(chr(content))
    if look >= 0:
        yield _run(line, start, end - start, text, look)


def _run(line: CellRow, x: int, width: int, text: list[str], look: int) -> Run:
    if look & _BLANK:
        content = look >> 2 & 0xFFFFFF
        match look & 3:
            case 2:
                return Run(x, width, "", bytes((0, 0, 0, 0, 1, content & 255, *bytes(10))))
            case 3:
                red, green, blue = content & 255, content >> 8 & 255, content >> 16
                return Run(x, width, "", bytes((0, 0, 0, 0, 2, red, green, blue, *bytes(8))))
        return Run(x, width, "")
    link = line.page.links.get(look >> 22) if look >> 19 & 1 else None
    style = line.page.styles.get(look & 0xFFFF, PLAIN)
    return Run(x, width, "".join(text), style, link, look >> 18 & 1 == 1, look >> 20 & 3)
