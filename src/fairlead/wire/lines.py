"""Cutting a stream of bytes into lines, for the protocols that have one message a line.

A line ends at the byte 0x0A and nowhere else: U+2028, U+2029 and a lone carriage return are data. A line that
is longer than the limit is given up as a whole, is reported once, and reading goes on after its end.
"""

from __future__ import annotations

MAX_HEAD = 1024
"""How many bytes of a line that was too long are kept: what it was can often be told from them."""


class LineTooLong:
    """Stands for a line that was longer than allowed. `head` is its beginning."""

    __slots__ = ("head", "limit")

    def __init__(self, limit: int, head: bytes = b"") -> None:
        self.limit = limit
        self.head = head

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LineTooLong) and self.limit == other.limit

    def __hash__(self) -> int:
        return hash(self.limit)

    def __repr__(self) -> str:
        return f"TooLong({self.limit})"


class LineBuffer:
    """Takes bytes as they come and gives complete lines, without their newlines.

    It never keeps more than one line within the limit, and a byte is looked at once however the input is
    split.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept = bytearray()
        self._skipping = False  # the rest of a line that was too long

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished line are kept."""
        return len(self._kept)

    def feed(self, data: bytes) -> list[bytes | LineTooLong]:
        """The lines that are complete with this data."""
        *ends, start = data.split(b"\n")
        lines: list[bytes | LineTooLong] = []
        for end in ends:
            if self._skipping:
                self._skipping = False
            elif len(self._kept) + len(end) > self.limit:
                lines.append(self._too_long(bytes(self._kept[:MAX_HEAD]) + end[:MAX_HEAD]))
            elif self._kept:
                lines.append(bytes(self._kept) + end)
            else:
                lines.append(end)
            self._kept.clear()
        if not self._skipping:
            self._kept += start
            if len(self._kept) > self.limit:
                lines.append(self._too_long(bytes(self._kept[:MAX_HEAD])))
                self._kept.clear()
                self._skipping = True
        return lines

    def _too_long(self, start: bytes) -> LineTooLong:
        return LineTooLong(self.limit, start[: min(self.limit, MAX_HEAD)])

    def finish(self) -> list[bytes | LineTooLong]:
        """The last line, if it has no newline and nothing more will come."""
        last = bytes(self._kept)
        self._kept.clear()
        self._skipping = False
        return [last] if last.strip() else []
