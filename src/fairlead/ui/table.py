"""Tables of Markdown: columns as wide as their cells where there is room, else with wrapped cells, and where
there is none at all, a line for every cell. Pure."""

from __future__ import annotations

import re

from .flow import Flow
from .inline import Inline
from .styled import Line, Marks, add_to, line_width

MAX_COLUMNS = 40
"""How many columns a table has; one with more is drawn as it is written."""
MAX_ROWS = 100
"""How many rows decide how wide the columns are; later ones fit in."""
ROOM_FOR_LATER = 16
"""How wide columns become for rows that are not known yet, where there is room."""
LEAST_COLUMN = 4
"""How narrow a column may become."""

_CELLS = re.compile(r"(?<!\\)\|")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_RULE = re.compile(r"(:?)-+(:?)")


def cells(row: str) -> list[str]:
    """The cells of a row as it is written.

    >>> cells("| a | b\\\\|c |")
    ['a', 'b|c']
    """
    row = row.strip().removeprefix("|")
    row = row[:-1] if row.endswith("|") and not row.endswith("\\|") else row
    return [cell.strip().replace("\\|", "|") for cell in _CELLS.split(row)]


def alignments(row: str) -> list[str] | None:
    """How the columns are aligned, `<`, `^` or `>`, if this is the row below a table's head.

    >>> alignments("|:-|-:|:-:|---|"), alignments("| a |")
    (['<', '>', '^', '<'], None)
    """
    found = [_RULE.fullmatch(cell) for cell in cells(row)]
    if not all(found):
        return None
    return [("^" if each[1] else ">") if each[2] else "<" for each in found if each]


class Table:
    """A table that grows by rows."""

    def __init__(self, head: list[str], aligned: list[str], marks: Marks, *, is_plain: bool) -> None:
        self._head, self._aligned = head, aligned
        self._marks, self._is_plain = marks, is_plain
        self._rows: list[list[str]] = []
        self._widths: list[int] | None = None
        self._is_drawn = False
        self.count = 0

    def add(self, row: list[str]) -> None:
        """One more row; cells without a column are left out, as others do."""
        missing = len(self._head) - len(row)
        self._rows.append(row[: len(self._head)] + [""] * missing)
        self.count += 1

    @property
    def is_due(self) -> bool:
        """True if so many rows wait that they are drawn."""
        return len(self._rows) >= MAX_ROWS

    def draw(self, room: int) -> list[Line]:
        """The rows that are not drawn yet, the first time below the head."""
        rows, self._rows = self._rows, []
        if not self._is_drawn:
            least = ROOM_FOR_LATER if len(rows) >= MAX_ROWS else 1
            self._widths = self._fitted(rows, room, least)
        lines: list[Line] = []
        if self._widths is None:
            for row in rows:
                lines += [[]] if self._is_drawn else []
                self._is_drawn = True
                lines += self._stacked(row, room)
            return lines
        if not self._is_drawn:
            self._is_drawn = True
            lines += self._row(self._head, self._widths, "bold")
            rule = f"{self._marks.rule}{self._marks.cross}{self._marks.rule}"
            lines.append([(rule.join(self._marks.rule * width for width in self._widths), "dim")])
        for row in rows:
            lines += self._row(row, self._widths, "")
        return lines

    def _fitted(self, rows: list[list[str]], room: int, least: int) -> list[int] | None:
        """How wide each column is, or None if they have no room beside each other."""
        room -= 3 * (len(self._head) - 1)
        wanted = [max(least, self._widest(column)) for column in zip(self._head, *rows, strict=True)]
        if sum(wanted) <= room:
            return wanted
        if room < LEAST_COLUMN * len(wanted):
            return None
        low, high = LEAST_COLUMN, max(wanted)
        while low < high:  # the widest columns are narrowed until all have room
            middle = (low + high + 1) // 2
            if sum(min(each, middle) for each in wanted) <= room:
                low = middle
            else:
                high = middle - 1
        return [min(each, low) for each in wanted]

    def _widest(self, column: tuple[str, ...]) -> int:
        return max(line_width(line) for text in column for line in self._flowed(text, 10_000, ""))

    def _flowed(self, text: str, width: int, style: str) -> list[Line]:
        flow = Flow(width, [], [], least=1)
        Inline(flow, style, is_plain=self._is_plain).feed(_BREAK.sub(" ", text), is_last=True)
        return flow.finish()

    def _row(self, row: list[str], widths: list[int], style: str) -> list[Line]:
        columns = [self._flowed(text, width, style) for text, width in zip(row, widths, strict=True)]
        lines = []
        for number in range(max(map(len, columns))):
            line: Line = []
            for index, column in enumerate(columns):
                if index:
                    add_to(line, f" {self._marks.quote} ", "dim")
                cell = column[number] if number < len(column) else []
                left = max(0, widths[index] - line_width(cell))
                before = {"<": 0, "^": left // 2, ">": left}[self._aligned[index]]
                add_to(line, " " * before, "")
                for text, how in cell:
                    add_to(line, text, how)
                if index < len(columns) - 1:
                    add_to(line, " " * (left - before), "")
            lines.append(line)
        return lines

    def _stacked(self, row: list[str], room: int) -> list[Line]:
        lines: list[Line] = []
        for name, text in zip(self._head, row, strict=True):
            flow = Flow(room, [], [("  ", "")])
            for part, style in ((f"{name}: ", "bold"), (_BREAK.sub(" ", text), "")):
                Inline(flow, style, is_plain=self._is_plain).feed(part, is_last=True)
            lines += flow.finish()
        return lines
