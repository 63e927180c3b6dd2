"""How many lines a program has ended, so that those that are kept have the numbers they were printed with.

A line ends with a line feed, as for those who follow a session; the alternate screen has no lines. Does
no I/O: a session counts what it hears, and notes the count with each keyframe for the next daemon.
"""

from __future__ import annotations

import re
from typing import Any

KEYFRAMES = 2
"""How many keyframes' counts are noted: a daemon may die after a note and before its keyframe."""

_SWITCH = re.compile(rb"\x1b\[\?(?:47|1047|1049)[hl]")


class LineCount:
    """The lines that have ended, and whether any of them are gone from the scrollback."""

    def __init__(self) -> None:
        self.ended: int | None = 0
        """None if nobody counted from the start."""
        self.are_lost = False
        self.is_hidden = False
        """Whether the alternate screen is shown."""
        self._noted: list[list[int]] = []

    def add(self, data: bytes, is_hidden: bool) -> None:
        """Count what was printed; `is_hidden` tells which screen is shown after it."""
        hidden, self.is_hidden = self.is_hidden, is_hidden
        if self.ended is None:
            return
        start = 0
        for switch in _SWITCH.finditer(data) if b"?" in data else ():  # which is quick to see
            if not hidden:
                self.ended += data.count(b"\n", start, switch.start())
            hidden, start = switch[0].endswith(b"h"), switch.end()
        if not hidden:
            self.ended += data.count(b"\n", start)

    def note(self, offset: int) -> list[list[int]]:
        """What the next daemon has to know if it begins with the keyframe at this offset."""
        if self.ended is not None:
            self._noted = [*self._noted, [offset, self.ended, int(self.are_lost)]][-KEYFRAMES:]
        return self._noted

    def restore(self, noted: Any, offset: int, is_hidden: bool) -> None:
        """Go on from the keyframe at this offset."""
        self.is_hidden = is_hidden
        self.ended = None
        for place, ended, lost in noted or ():
            if place == offset:
                self._noted = [[place, ended, lost]]
                self.ended, self.are_lost = ended, bool(lost)
