"""How many lines the transcripts of agents in terminals have.

Any program may name any file, and one of 250 MiB takes a while. So they are counted one after the other on a
thread of their own, which keeps no other work of the daemon waiting. Of a file that has grown only what is
new is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import IO, NamedTuple

from ..system.opening import open_file

MAX_TRANSCRIPT = 256 * 1024 * 1024
"""How many bytes of a transcript are counted."""
MAX_WAITING = 64
"""How many may wait to be counted."""
MAX_REMEMBERED = 200
"""Of how many files it is known how far they were counted."""
BLOCK = 1024 * 1024
TAIL = 64
"""How many bytes before the place up to which a file was counted must be the same as they were."""


class TooMany(Exception):
    """Too many transcripts wait to be counted."""


class _Counted(NamedTuple):
    offset: int = 0
    lines: int = 0
    tail: bytes = b""


class TranscriptLines:
    """Counts lines of files, and remembers them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "transcripts")
        self._waiting = 0
        self._known: dict[tuple[int, int], _Counted] = {}  # by device and inode, the last one at the end

    async def count(self, path: str) -> int:
        """How many lines a file has; 0 if there is none. Raises TooMany."""
        if not path:
            return 0
        if self._waiting >= MAX_WAITING:
            raise TooMany(f"{MAX_WAITING} transcripts wait to be counted")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._count, path)
        finally:
            self._waiting -= 1

    def _count(self, path: str) -> int:
        with contextlib.suppress(OSError), open_file(path) as file:
            about = os.fstat(file.fileno())
            place = about.st_dev, about.st_ino
            counted = _read_on(file, self._known.pop(place, _Counted()))
            self._known[place] = counted
            if len(self._known) > MAX_REMEMBERED:
                del self._known[next(iter(self._known))]
            return counted.lines
        return 0


def _read_on(file: IO[bytes], before: _Counted) -> _Counted:
    """Count what came after what was counted, or all if that has changed."""
    file.seek(before.offset - len(before.tail))
    if file.read(len(before.tail)) != before.tail:
        before = _Counted()
    offset, lines, tail = before
    file.seek(offset)
    while offset < MAX_TRANSCRIPT and (block := file.read(BLOCK)):
        offset += len(block)
        lines += block.count(b"\n")
        tail = (tail + block)[-TAIL:]
    return _Counted(offset, lines, tail)
