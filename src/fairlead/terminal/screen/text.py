"""Text of a screen: plain, with colours for another terminal, and searching in it."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...formats.patterns import compiled
from .cells import Run, narrow_text, runs
from .keyframe import PLAIN, CellRow
from .paint import DEFAULT, sgr

MAX_MATCHES = 1000
"""How many places a search gives unless told otherwise."""
MAX_SEARCHED_LINE = 16 * 1024
"""How many characters of a line are searched at once; no match reaches from one piece to the next."""
SEARCH_SECONDS = 3.0
"""How long a search may take: long enough for any sensible pattern on the longest scrollback."""
YIELD_EVERY = 64
"""After how many lines a search lets other threads run."""
MAX_LINE_TEXT = 4096
"""How much of a long line a match shows, around the place that was found."""


class Match(NamedTuple):
    """A place where something was found."""

    line: int
    """The row, counted from 0 at the oldest row of the scrollback."""
    printed: int
    """The line as it was printed, counted from 0 at the oldest."""
    column: int
    text: str
    """The whole line, with its soft wraps joined; a very long one is cut."""
    found: str


def row_text(line: CellRow) -> str:
    """The characters of a row, with spaces for blanks; blanks at the end are left out."""
    text = narrow_text(line)
    if text is not None:
        return text.replace("\0", " ")
    return "".join(run.text or " " * run.width for run in runs(line))


def split_row(line: CellRow, column: int, char_width: Callable[[int], int]) -> tuple[str, str]:
    """The characters of a row before a column and from it on: a column may have several of them, and a
    character two columns."""
    before = after = ""
    end = 0
    for run in runs(line):
        end = run.x + run.width
        text = run.text or " " * run.width
        size = len(text)
        if end > column:
            size = 0 if run.cluster else _within(text, column - run.x, char_width)
        before, after = before + text[:size], after + text[size:]
    return before + " " * max(0, column - end), after


def _within(text: str, columns: int, char_width: Callable[[int], int]) -> int:
    """How many characters of a text are in so many columns."""
    for at, char in enumerate(text):
        columns -= char_width(ord(char)) or 1
        if columns < 0:
            return at
    return len(text)


class Logical(NamedTuple):
    """A line as it was printed: rows that wrap into each other are one."""

    text: str
    starts: list[int]
    """Where in the text each row begins."""
    first: int
    """The number of the first row."""


def logical_lines(lines: list[CellRow]) -> Iterator[Logical]:
    """Join rows that wrap."""
    texts: list[str] = []
    starts: list[int] = []
    size = first = 0
    for number, line in enumerate(lines):
        text = row_text(line)
        starts.append(size)
        texts.append(text)
        size += len(text)
        if line.wraps and number + 1 < len(lines):
            continue
        yield Logical("".join(texts).rstrip(" "), starts, first)
        texts, starts, size, first = [], [], 0, number + 1


def plain(lines: list[CellRow], *, unwrap: bool) -> str:
    """Rows as text, without spaces at their ends and without blank rows at the end."""
    if unwrap:
        rows = [line.text for line in logical_lines(lines)]
    else:
        rows = [row_text(line).rstrip(" ") for line in lines]
    while rows and not rows[-1]:
        rows.pop()
    return "\n".join(rows)


def colored(lines: list[CellRow]) -> str:
    """Rows with the sequences for their styles and nothing else, one a line."""
    rows = []
    for line in lines:
        row, style = "", PLAIN
        for run in runs(line):
            if run.style != style:
                style = run.style
                row += sgr(style)
            row += run.text or " " * run.width
        if style == PLAIN:
            row = row.rstrip(" ")
        rows.append(row + (DEFAULT if style != PLAIN else ""))
    while rows and not rows[-1]:
        rows.pop()
    return "".join(f"{row}\n" for row in rows)


def search(
    lines: list[CellRow],
    needle: str,
    *,
    regex: bool,
    limit: int,
    char_width: Callable[[int], int],
    goes_on: Callable[[], bool] = lambda: True,
) -> list[Match]:
    """Find something in lines. It may run in any thread, and stops when `goes_on` is false.

    Raises `ValueError` for nothing to find and for a pattern that is none, and `TimeoutError` when it has
    taken `SEARCH_SECONDS`.
    """
    if not needle:
        raise ValueError("nothing to search for: the text is empty")
    pattern = compiled(needle, literal=not regex)
    deadline = time.monotonic() + SEARCH_SECONDS
    found: list[Match] = []
    for count, line in enumerate(logical_lines(lines)):
        if count % YIELD_EVERY == 0:
            time.sleep(0)
        for base in range(0, max(1, len(line.text)), MAX_SEARCHED_LINE):
            if not goes_on():
                return found
            _before(deadline)
            for match in pattern.finditer(line.text[base : base + MAX_SEARCHED_LINE]):
                if len(found) >= limit:
                    return found
                _before(deadline)
                at = base + match.start()
                row = bisect_right(line.starts, at) - 1
                number = line.first + row
                column = _column(lines[number], at - line.starts[row], char_width)
                found.append(Match(number, count, column, _around(line.text, at), match[0][:MAX_LINE_TEXT]))
    return found


def _before(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"the search took more than {SEARCH_SECONDS:g} s; use a simpler pattern")


def _around(text: str, at: int) -> str:
    if len(text) <= MAX_LINE_TEXT:
        return text
    start = max(0, min(at - MAX_LINE_TEXT // 2, len(text) - MAX_LINE_TEXT))
    return text[start : start + MAX_LINE_TEXT]


def _column(line: CellRow, offset: int, char_width: Callable[[int], int]) -> int:
    """The column of a character of a row's text."""
    if narrow_text(line) is not None:
        return offset
    for run in runs(line):
        size = len(run.text) or run.width
        if offset < size:
            return run.x + _width(run, offset, char_width)
        offset -= size
    return line.page.cols


def _width(run: Run, chars: int, char_width: Callable[[int], int]) -> int:
    if not run.text:
        return chars
    if run.cluster:
        return 0
    return sum(char_width(ord(char)) or 1 for char in run.text[:chars])
