"""Looking backwards through what was typed before, as ^R does it in a shell. Does no I/O."""

from __future__ import annotations

from collections.abc import Sequence

from ..styled import Row
from .line import InputLine, Key

MAX_QUERY = 200
"""How many characters are looked for."""


class HistorySearch:
    """Shows in the line what it finds. Give it each key while `is_open`."""

    def __init__(self, line: InputLine) -> None:
        self._line = line
        self._entries: Sequence[str] = ()
        self._query = ""
        self._draft = ""
        self._place = 0  # of what is found, from the end, beginning with 1
        self.is_open = False

    def open(self) -> None:
        self.is_open = True
        self._entries = self._line.entries
        self._query, self._draft, self._place = "", self._line.text, 0

    def close(self, *, keep: bool = True) -> None:
        """Leave it with what was found in the line, or with what was typed before."""
        self.is_open = False
        if not keep:
            self._line.set(self._draft)

    def press(self, key: Key) -> bool:
        """Take a key. False if it is for the line as it is now, which is no longer searched for."""
        match key:
            case "text", text:
                self._look_for((self._query + text)[:MAX_QUERY], again=False)
            case "paste", text:
                self._look_for((self._query + text.split("\n")[0])[:MAX_QUERY], again=False)
            case "key", "search":
                self._look_for(self._query, again=True)
            case "key", "backspace":
                self._place = 0
                self._look_for(self._query[:-1], again=False)
            case "key", "escape":
                self.close()
            case "key", "cancel" | "interrupt":
                self.close(keep=False)
            case _:
                self.close()
                return False
        return True

    def _look_for(self, query: str, *, again: bool) -> None:
        self._query = query
        if not query:
            self._line.set(self._draft)
            return
        count = len(self._entries)
        first = self._place + 1 if again else max(1, self._place)
        for place in range(first, count + 1):
            if query in (entry := self._entries[count - place]):
                self._place = place
                self._line.set(entry)
                return
        if not again:
            self._place = count + 1  # nothing

    @property
    def row(self) -> Row:
        found = not self._query or 0 < self._place <= len(self._entries)
        return f"search: {self._query}", "" if found else "red"

    @property
    def hint(self) -> Row:
        return "^R older · Enter sends · Esc keeps it · ^G back", "dim"
