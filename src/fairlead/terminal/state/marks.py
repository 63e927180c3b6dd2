"""The marks by which shells tell where a prompt and where a command begins (OSC 133)."""

from __future__ import annotations

import re

INTRODUCER = b"\x1b]133;"
_MARK = re.compile(rb"\x1b\]133;([ABCD])[;\x07\x1b]")
SEARCHED = 4096
"""How many bytes at the end of what is printed at once are searched: the last mark counts, and in a flood
the rest would cost as much as drawing it."""
MAX_TAIL = 64
"""How many bytes of a mark that has begun are kept."""


class PromptMarks:
    """Finds them in what a program prints: A and B, a prompt; C, a command's output; D, its end."""

    def __init__(self) -> None:
        self._tail = b""

    def last(self, data: bytes) -> str | None:
        """The last mark that has become whole with this data.

        >>> marks = PromptMarks()
        >>> marks.last(b"x\\x1b]133;"), marks.last(b"C\\x07 y"), marks.last(b"z")
        (None, 'C', None)
        """
        if len(data) > SEARCHED:
            data = data[-SEARCHED:]
            self._tail = b""
        if not self._tail and INTRODUCER not in data:
            self._tail = _begun(data)
            return None
        data = self._tail + data
        start = data.rfind(INTRODUCER)
        found = None
        for match in _MARK.finditer(data, max(0, start - MAX_TAIL)):
            found = match[1].decode()
        tail = data[start:] if start >= 0 else b""
        self._tail = tail if tail and len(tail) < MAX_TAIL and not _MARK.match(tail) else _begun(data)
        return found


def _begun(data: bytes) -> bytes:
    """The part of the introducer that the data ends with."""
    end = data[-len(INTRODUCER) :]
    at = end.rfind(b"\x1b")
    return end[at:] if at >= 0 and INTRODUCER.startswith(end[at:]) else b""
