"""A screen whose lowest rows are drawn again and again while a conversation grows above them.

Only what changed is written: a row that grows gets what is new in it, and a row that is complete stays where
it is and is never touched again. Writes only through the function that it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ...formats.columns import cut, width_of
from ..styled import Line, Paint, Row, broken, line_width, plain

_UNCERTAIN = re.compile("[\u00ad\u200d\ufe0f\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")
"""Of what these are part of, terminals disagree how wide it is."""
MAX_MOVED = 3
"""By how many rows others are moved down; for more, all are written again."""


class ChatScreen:
    """Lines that stay, and below them rows that are drawn again when anything changes.

    No row is as wide as the terminal, so a resize can only break rows, never join them, and it is known how
    many there are afterwards.
    """

    def __init__(self, write: Callable[[str], None], size: Callable[[], tuple[int, int]], paint: Paint):
        self._write = write
        self._size = size
        self.paint = paint
        self._above: list[Line] = []
        self._rows: list[Line] = []
        self._cursor = (0, 0)
        self._drawn_for: tuple[int, int] | None = None  # the terminal's size

    @property
    def columns(self) -> int:
        """How wide a row may be."""
        return max(8, self._size()[0] - 1)

    @property
    def lines(self) -> int:
        return max(4, self._size()[1])

    def say(self, rows: Iterable[Row | Line], indent: str = "") -> None:
        """Lines that stay; they are shown when the screen is drawn next."""
        self._above += [[(indent, ""), *_line(row)] if indent else _line(row) for row in rows]

    def draw(self, rows: Sequence[Row | Line], cursor: tuple[int, int], *, always: bool = False) -> None:
        """Show what was said, and these rows below it, with the cursor in one of them."""
        limit, columns = self.lines - 1, self.columns
        left_out = max(0, len(rows) - limit)
        shown = [_fitted(_line(row), columns) for row in rows[left_out:]]
        place = max(0, cursor[0] - left_out), min(cursor[1], columns)
        is_new = always or self._drawn_for != self._size()
        if not is_new and not self._above and (shown, place) == (self._rows, self._cursor):
            return
        lines = [*self._above, *shown]
        if is_new:
            text, at = self._erased() + "\n".join(map(self.paint, lines)), (len(lines) - 1, -1)
        else:
            text, at = self._changed(lines, columns)
        text += _moved(at, (len(self._above) + place[0], place[1]))
        self._above.clear()
        self._rows, self._cursor, self._drawn_for = shown, place, self._size()
        self._write(text)

    def leave(self) -> None:
        """Take the rows away; what was said stays."""
        self._write(self._erased() + "".join(f"{self.paint(line)}\n" for line in self._above))
        self._above.clear()
        self._rows, self._cursor, self._drawn_for = [], (0, 0), None

    def _changed(self, lines: list[Line], columns: int) -> tuple[str, tuple[int, int]]:
        """What makes the rows that are shown these lines, and where the cursor is afterwards."""
        rows, parts, at = self._made_room(lines, columns)
        for number, line in enumerate(lines):
            before = rows[number] if number < len(rows) else None
            if line == before:
                continue
            if before is None:
                parts.append(_moved(at, (number - 1, at[1])) + "\n" + self.paint(line))
                at = number, line_width(line)
                continue
            width = line_width(line)
            if width > columns:  # the terminal breaks it, and all is elsewhere from there on
                rest = "\n".join(map(self.paint, lines[number:]))
                return "".join([*parts, _moved(at, (number, 0)), "\x1b[J", rest]), (len(lines) - 1, -1)
            start, changed = _difference(before, line)
            parts.append(_moved(at, (number, start)) + self.paint(changed))
            if line_width(before) > width:
                parts.append("\x1b[K")
            at = number, width
        if len(lines) < len(rows):
            parts += [_moved(at, (len(lines), 0)), "\x1b[J"]
            at = len(lines), 0
        return "".join(parts), at

    def _made_room(self, lines: list[Line], columns: int) -> tuple[list[Line], list[str], tuple[int, int]]:
        """Move the lowest rows down, if they stay the same and rows come above them. Returns the rows that
        are shown then, what has to be written for that, and where the cursor is afterwards."""
        old, more = self._rows, len(lines) - len(self._rows)
        same = 0
        while same < min(len(old), len(lines)) and old[-1 - same] == lines[-1 - same]:
            same += 1
        is_worth_it = 0 < more <= MAX_MOVED and 0 < same < len(old)
        if not is_worth_it or any(line_width(line) > columns for line in lines):
            return old, [], self._cursor
        first, last = len(old) - same, len(old) - 1
        room = [_moved(self._cursor, (last, 0)), "\n" * more, f"\x1b[{more + same - 1}A\x1b[{more}L"]
        return [*old[:first], *([] for _ in range(more)), *old[first:]], room, (first, 0)

    def _erased(self) -> str:
        if self._drawn_for is None:
            return ""
        columns = max(1, self._size()[0])
        before = self._rows[: self._cursor[0]]
        up = sum(max(1, -(-line_width(line) // columns)) for line in before) + self._cursor[1] // columns
        return "\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J"


def _line(row: Row | Line) -> Line:
    return row if isinstance(row, list) else [row]


def _fitted(line: Line, columns: int) -> Line:
    if line_width(line) <= columns:
        return line
    return [(cut(plain(line), columns), line[0][1])] if len(line) == 1 else broken(line, columns)[0]


def _moved(at: tuple[int, int], to: tuple[int, int]) -> str:
    """What moves the cursor; a column below 0 is one that is not known."""
    (row, column), (wanted, place) = at, to
    text = ""
    if wanted < row:
        text = f"\x1b[{row - wanted}A"
    elif wanted > row:
        text, column = "\n" * (wanted - row), 0
    if column == place:
        return text
    if place == 0:
        return text + "\r"
    return text + (f"\x1b[{place - column}C" if 0 <= column < place else f"\x1b[{place + 1}G")


def _difference(before: Line, line: Line) -> tuple[int, Line]:
    """In which column two lines begin to differ, and the rest of the second one."""
    column = 0
    for index, (text, style) in enumerate(line):
        if index >= len(before):
            return column, line[index:]
        old, old_style = before[index]
        if (text, style) == (old, old_style):
            if _UNCERTAIN.search(text):
                return 0, line
            column += width_of(text)
            continue
        if _UNCERTAIN.search(text):
            return 0, line
        same = _same(old, text) if style == old_style else 0
        return column + width_of(text[:same]), [(text[same:], style), *line[index + 1 :]]
    return column, []


def _same(before: str, text: str) -> int:
    """How many characters two texts begin with that are the same; a mark stays with what it is on."""
    if text.startswith(before):
        same = len(before)
    else:
        same = next((at for at, (a, b) in enumerate(zip(before, text, strict=False)) if a != b), len(text))
    is_mark = True
    while same and is_mark:
        is_mark = any(
            each and width_of(each) == 0 for each in (before[same : same + 1], text[same : same + 1])
        )
        same -= is_mark
    return same
