"""Tables and paragraphs for the terminal that a command prints to, however narrow it is.

What does not go to a terminal is not cut: a script wants all of it. `ls` uses this, so it imports little.
"""

from __future__ import annotations

import os
import sys

from ..formats.columns import CUT, cut, fill, padded, width_of
from .output import EQUIVALENTS, has_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MARKS = {ord(mark): EQUIVALENTS[mark] for mark in "×—…"}  # of ours, in tables
GAP = "  "
"""What stands between two columns."""
LEAST_FLEXIBLE = 12
"""How many columns the flexible one gets at the least, as long as others can be left out instead."""
LEAST_FIRST = 8
"""To how many columns the first one may be cut."""
MAX_CELL = 1000
"""How many characters a cell has at most in which something is shown by its name."""
USUAL_WIDTH = 80
"""How wide a terminal is that does not say it."""


def terminal_width() -> int | None:
    """How many columns standard output has, if it is a terminal."""
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or USUAL_WIDTH
    except OSError:
        return USUAL_WIDTH


def paragraphs(text: str, indent: str = "    ") -> str:
    """Lines that fit the terminal; what goes on in another one is indented."""
    width = terminal_width()
    if width is None:
        return text
    return "\n".join(fill(line, width, "", indent) for line in text.split("\n"))


def table(
    rows: Sequence[Sequence[str]],
    *,
    drops: Sequence[str] = (),
    flexible: str | None = None,
    least: int = LEAST_FLEXIBLE,
    paint: Mapping[str, Callable[[str, str], str]] | None = None,
) -> None:
    """Print rows, the first of which is the head: see `table_lines`."""
    for line in table_lines(rows, drops=drops, flexible=flexible, least=least, paint=paint):
        print(line)


def table_lines(
    rows: Sequence[Sequence[str]],
    *,
    drops: Sequence[str] = (),
    flexible: str | None = None,
    least: int = LEAST_FLEXIBLE,
    paint: Mapping[str, Callable[[str, str], str]] | None = None,
) -> list[str]:
    """Rows as lines of a table, the first of which is the head.

    On a terminal they fit: columns are left out in the order of `drops` until the flexible one, or the last,
    has `least` columns; that is cut, and then the first. `paint` colours a cell; it also gets it with the
    spaces after it. What a cell must not do to a terminal is shown by its name.
    """
    rows = [
        [cell if cell.isascii() and cell.isprintable() else _harmless(cell) for cell in row] for row in rows
    ]
    width = terminal_width()
    heads = list(rows[0])
    widths = {head: max(width_of(row[at]) for row in rows) for at, head in enumerate(heads)}
    shown = heads
    if width is not None:
        shown = _fitted(heads, widths, drops, flexible or heads[-1], least, width)
    mark = CUT if _can_print(CUT) else "~"
    lines = []
    for number, row in enumerate(rows):
        cells = []
        for head, cell in zip(heads, row):
            if head in shown:
                cell = cut(cell, widths[head], mark)
                cells.append(padded(cell, widths[head]))
                if number and paint and head in paint:
                    cells[-1] = paint[head](cell, cells[-1])
        line = GAP.join(cells).rstrip()
        lines.append(line.translate(_MARKS) if has_ascii() else line)
    return lines


def _harmless(cell: str) -> str:
    from ..formats.shown import one_line, visible

    return visible(cell) if cell.isprintable() else one_line(cell, MAX_CELL)


def _fitted(
    heads: list[str], widths: dict[str, int], drops: Sequence[str], flexible: str, least: int, width: int
) -> list[str]:
    """Which columns are shown; the widths of the flexible one and the first are cut in place."""
    shown = list(heads)
    first = heads[0]

    def room() -> int:
        """What is left for the flexible column."""
        return width - sum(widths[head] + len(GAP) for head in shown if head != flexible)

    least = min(widths[flexible], least)
    for head in drops:
        if room() >= least:
            break
        if head in shown:
            shown.remove(head)
    if room() < least and first in shown and first != flexible:
        widths[first] = max(min(LEAST_FIRST, widths[first]), widths[first] - (least - room()))
    for head in reversed(heads):  # a terminal for nobody, but it is not wrapped either
        if room() < 1 and head != flexible and head in shown:
            shown.remove(head)
    widths[flexible] = max(1, min(widths[flexible], room()))
    return shown


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
