"""Markdown drawn in a terminal while it comes: rows that are complete, and below them those that are not.

A line is drawn when it is known what it is, a paragraph row by row, a table when its last row is there. What
is complete is never drawn again, so it may be printed and scroll away. The rows depend on the text and the
width alone, not on the pieces in which it came. A line feed ends a line, as on GitHub's comments; emphasis
does not go on in the next line.

The text is a stranger's: nothing of it controls the terminal, every character is looked at a bounded number
of times, and what is kept of it is bounded. Pure: it writes nothing.
"""

from __future__ import annotations

import copy
import re
from typing import NamedTuple

from ..formats.shown import SEQUENCE, TAB, dotted
from .flow import Flow
from .inline import Inline
from .styled import Line, Marks, broken, line_width
from .syntax import Highlighter
from .table import MAX_COLUMNS, Table, alignments, cells

MAX_HELD = 4096
"""How many characters of a line are waited for to know what it is; how long a line of code stays whole."""
MAX_SEQUENCE = 300
"""How many characters an escape sequence may have that is left out."""
MAX_DEPTH = 10
"""How deep quotes and lists are nested."""
UNICODE = Marks()

_UNDECIDED = re.compile(r"[ \t>#*_+=~`|0-9.)\[\]xX-]*(?:(?:```|~~~|\|).*)?\Z")
_QUOTE = re.compile(r" {0,3}> ?")
_ITEM = re.compile(r"( *)([-*+]|\d{1,9}[.)])([ \t]{1,4}|\Z)")
_TASK = re.compile(r"\[([ xX])\] ")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}\Z")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|\Z)")
_FENCE = re.compile(r" *(`{3,}|~{3,})[ \t]*([^`]*)\Z")
_INDENTED = 4
_HEADINGS = {1: "bold underline", 2: "bold", 3: "bold"}


class _Item(NamedTuple):
    """A list's item that lines may belong to: where its mark is in the text, where its text begins there, and
    in which column it is drawn."""

    mark: int
    text: int
    drawn: int


class _Fence(NamedTuple):
    """Code that has begun: what ends it, how far it is indented, and what stands before its lines."""

    mark: str
    indent: int
    quotes: int
    before: Line
    code: Highlighter

    def text(self, line: str) -> str | None:
        """A line without what stands before its code; None if it is not in the quote that the code is in."""
        at = 0
        for _ in range(self.quotes):
            if (found := _QUOTE.match(line, at)) is None:
                return None
            at = found.end()
        line = line[at:].expandtabs(TAB)
        return line[min(self.indent, len(line) - len(line.lstrip(" "))) :]

    def is_end(self, text: str) -> bool:
        """True if a line of code ends it."""
        text = text.strip()
        return len(text) >= len(self.mark) and text == self.mark[0] * len(text)


class _Head(NamedTuple):
    """What may be the head of a table, and what stands before it and the rows below."""

    text: str
    before: Line
    after: Line


class Markdown:
    """One text, from its beginning to its end."""

    def __init__(self, width: int, marks: Marks = UNICODE, *, is_plain: bool = False) -> None:
        """`is_plain` is for where there are no styles: code keeps its backticks, headings their signs."""
        self.width = width
        """How wide rows may be; it may change at any time."""
        self._marks, self._is_plain = marks, is_plain
        self._rows: list[Line] = []
        self._escape = ""  # an escape sequence that is not whole yet
        self._line = ""  # a line of which it is not known what it is
        self._flow: Flow | None = None  # a line that is being drawn
        self._inline: Inline | None = None
        self._fence: _Fence | None = None
        self._head: _Head | None = None
        self._table: Table | None = None
        self._items: list[_Item] = []
        self._quotes = 0
        self._blank: Line | None = None  # an empty row, if something follows
        self._has_begun = self._is_code = False

    def feed(self, text: str) -> list[Line]:
        """More of the text. Returns the rows that are complete."""
        first, *more = self._safe(text).split("\n")
        self._take(first)
        for line in more:
            self._end_line()
            self._take(line)
        return self._taken()

    def end(self) -> list[Line]:
        """The text has ended. Returns the last rows; another text may follow."""
        escape, self._escape = self._escape, ""
        self._take(dotted(escape))
        if self._line or self._inline is not None:
            self._end_line()
        self._end_table()
        if self._fence is not None:
            self._end_fence(self._fence)
        self._items, self._quotes, self._blank = [], 0, None
        self._has_begun = self._is_code = False
        return self._taken()

    def open(self) -> list[Line]:
        """The rows of what is not complete, as if it ended here."""
        if self._flow is not None and self._inline is not None:
            flow = self._flow.clone()
            self._inline.preview(flow)
            return flow.finish()
        line = self._line
        if self._fence is not None:
            code = self._fence.text(line)
            row = copy.copy(self._fence.code).line(code or "")
            return broken([*self._fence.before, *row], self.width) if line else []
        rows: list[Line] = []
        if self._table is not None and self._table.count:
            rows.append([(f"{self._marks.cut} a table, so far of {self._table.count} rows", "dim")])
        elif self._head is not None:
            rows.append([*self._head.before, (self._head.text, "")])
        rows += [[(line.expandtabs(TAB), "")]] if line else []
        return [row for each in rows for row in broken(each, self.width)]

    # --- text that is safe ----------------------------------------------------------------------------------

    def _safe(self, text: str) -> str:
        """Leave out escape sequences, and show a dot for any other control character."""
        text, self._escape = self._escape + text, ""
        if "\x1b" not in text:
            return dotted(text)
        parts, at = [], 0
        while (start := text.find("\x1b", at)) >= 0:
            parts.append(text[at:start])
            end = min(len(text), start + MAX_SEQUENCE)
            line_end = text.find("\n", start, end)
            is_whole = line_end >= 0 or end < len(text)
            found = SEQUENCE.match(text, start, line_end if line_end >= 0 else end)
            if found is None and not is_whole:
                self._escape = text[start:]
                return dotted("".join(parts))
            parts.append("" if found else "·")
            at = found.end() if found else start + 1
        return dotted("".join([*parts, text[at:]]))

    # --- lines ----------------------------------------------------------------------------------------------

    def _taken(self) -> list[Line]:
        if self._flow is not None:
            self._rows += self._flow.rows
            self._flow.rows = []
        rows, self._rows = self._rows, []
        return rows

    def _take(self, text: str) -> None:
        """More of a line."""
        if not text:
            return
        if self._inline is not None:
            self._inline.feed(text)
            return
        self._line += text
        if self._fence is not None:
            self._split_code(self._fence)
        elif len(self._line) > MAX_HELD or not _UNDECIDED.match(self._line):
            line, self._line = self._line, ""
            self._end_table()
            self._begin(line[:MAX_HELD])
            if self._inline is not None:
                self._inline.feed(line[MAX_HELD:])

    def _end_line(self) -> None:
        if self._inline is None:
            line, self._line = self._line, ""
            if (self._fence is not None and self._code(self._fence, line)) or self._in_table(line):
                return
            self._begin(line, is_whole=True)
        if self._flow is not None and self._inline is not None:
            self._inline.feed("", is_last=True)
            self._rows += self._flow.finish()
            self._flow = self._inline = None

    def _begin(self, line: str, *, is_whole: bool = False) -> None:
        """Know what a line is, by its beginning or by all of it, and draw it or begin to."""
        text = line.lstrip(" \t>")
        rest = line[: len(line) - len(text)].expandtabs(TAB) + text
        bars, rest = self._quoted(rest, is_outer=True)
        quotes = len(bars) and len(bars[0][0]) // 2
        if quotes != self._quotes:
            self._items, self._quotes = [], quotes
        if is_whole and not rest.strip():
            self._blank = bars
            return
        if is_whole and _RULE.match(rest):
            self._items = []
            self._show([[*bars, (self._marks.rule * max(1, self.width - line_width(bars)), "dim")]])
            return
        room = max(0, self.width // 2 - line_width(bars))
        first, indent, rest = self._listed(rest, room)
        base = self._items[-1].text if self._items else 0
        is_code = not first and indent >= base + _INDENTED and self._may_be_code
        column = min(room, (self._items[-1].drawn if self._items else 0) + (0 if first else indent - base))
        after = [*bars, (" " * column, "")] if column > 0 else bars
        before = [*bars, *first] if first else after
        inner, rest = self._quoted(rest) if not is_code else ([], rest)
        before, after = [*before, *inner], [*after, *inner]
        if is_code:
            self._paragraph(before, after, rest, is_literal=True)
        elif is_whole and (fence := _FENCE.match(rest)) and (fence[1][0] == "~" or "`" not in fence[2]):
            language = fence[2].split()[0] if fence[2].split() else ""
            indent = base if first else indent
            self._show([[*before, (f"{self._marks.rule * 3} {language}".rstrip(), "dim")]])
            self._fence = _Fence(fence[1], indent, quotes, after, Highlighter(language))
        elif is_whole and rest.startswith("|"):
            self._head = _Head(rest, before, after)
        elif heading := _HEADING.match(rest):
            if self._blank is None and not first:
                self._blank = bars
            rest = rest if self._is_plain else rest[heading.end() :]
            self._paragraph(before, after, rest, _HEADINGS.get(len(heading[1]), "bold"))
        else:
            self._paragraph(before, after, rest)
        self._is_code = is_code

    @property
    def _may_be_code(self) -> bool:
        """True if an indented line is code, and not the rest of a paragraph."""
        return self._is_code or self._blank is not None or not self._has_begun

    def _quoted(self, rest: str, *, is_outer: bool = False) -> tuple[Line, str]:
        """The bars of the quotes that a line is in, and what is behind their marks. What is indented below a
        list's item is in the item, not around it."""
        quotes = at = 0
        within = self._items[-1].mark + 2 if is_outer and self._items else MAX_HELD
        while quotes < MAX_DEPTH and (found := _QUOTE.match(rest, at)):
            if quotes == self._quotes and found[0].index(">") >= within:
                break
            quotes, at = quotes + 1, found.end()
        return [(f"{self._marks.quote} " * quotes, "dim")] if quotes else [], rest[at:]

    def _listed(self, rest: str, room: int) -> tuple[Line, int, str]:
        """The mark of a list's item, how far a line is indented, and the line without both."""
        indent = len(rest) - len(rest.lstrip(" "))
        items = self._items
        found = _ITEM.match(rest)
        if found and indent >= (items[-1].text if items else 0) + _INDENTED and self._may_be_code:
            found = None
        while items and indent < items[-1].mark + 2:
            items.pop()
        drawn, offset = items[-1].drawn if items else 0, 0
        first: Line = [(" " * min(room, drawn), "")] if found and drawn else []
        while found and len(items) < MAX_DEPTH:
            mark = f"{found[2] if found[2][0].isdigit() else self._marks.bullet} "
            first.append((mark, ""))
            drawn += len(mark)
            items.append(_Item(offset + len(found[1]), offset + found.end(), drawn))
            offset += found.end()
            rest = rest[found.end() :]
            found = _ITEM.match(rest)
        if first and (task := _TASK.match(rest)):
            is_open = task[1] == " "
            mark, style = (self._marks.open, "") if is_open else (self._marks.done, "green")
            first.append((f"{mark} ", style))
            rest = rest[task.end() :]
        return first, indent, rest.lstrip(" ")

    # --- blocks ---------------------------------------------------------------------------------------------

    def _show(self, rows: list[Line]) -> None:
        """Rows that are complete, below an empty one if there was one."""
        if self._blank is not None and self._has_begun:
            self._rows.append(self._blank)
        self._blank = None
        self._has_begun = True
        self._rows += rows

    def _paragraph(
        self, before: Line, after: Line, rest: str, style: str = "", *, is_literal: bool = False
    ) -> None:
        """A line of words, of which more may come."""
        self._show([])
        self._flow = Flow(self.width, before, after)
        self._inline = Inline(self._flow, style, is_plain=self._is_plain, is_literal=is_literal)
        self._inline.feed(rest)

    def _split_code(self, fence: _Fence) -> None:
        """Show a line of code in parts if it is too long."""
        while len(self._line) > MAX_HELD:
            part, self._line = self._line[:MAX_HELD], self._line[MAX_HELD:]
            self._show([[*fence.before, *fence.code.line(part.expandtabs(TAB))]])

    def _code(self, fence: _Fence, line: str) -> bool:
        """A line of code, or the end of it. Returns false if it is neither."""
        text = fence.text(line)
        if text is not None and not fence.is_end(text):
            self._show([[*fence.before, *fence.code.line(text)]])
            return True
        self._end_fence(fence)
        return text is not None

    def _end_fence(self, fence: _Fence) -> None:
        self._fence = None
        self._show([[*fence.before, (self._marks.rule * 3, "dim")]])

    def _in_table(self, line: str) -> bool:
        """Take a whole line if it goes on with a table."""
        text = line.lstrip(" \t>")
        head = self._head
        if head is not None and text.startswith("|"):
            if self._table is not None:
                self._table.add(cells(text))
                if self._table.is_due:
                    self._draw_table(self._table, head)
                return True
            names, aligned = cells(head.text), alignments(text)
            if aligned is not None and len(aligned) == len(names) <= MAX_COLUMNS:
                self._table = Table(names, aligned, self._marks, is_plain=self._is_plain)
                return True
        self._end_table()
        return False

    def _draw_table(self, table: Table, head: _Head) -> None:
        rows = table.draw(max(1, self.width - line_width(head.before)))
        if rows:
            self._show([[*head.before, *rows[0]], *([*head.after, *row] for row in rows[1:])])
            self._head = head._replace(before=head.after)

    def _end_table(self) -> None:
        """No more rows: draw what waits, if anything does."""
        head, table = self._head, self._table
        if head is None:
            return
        if table is not None:
            self._draw_table(table, head)
        else:
            self._paragraph(head.before, head.after, head.text)
            assert self._flow is not None
            assert self._inline is not None
            self._inline.feed("", is_last=True)
            self._rows += self._flow.finish()
            self._flow = self._inline = None
        self._head = self._table = None
