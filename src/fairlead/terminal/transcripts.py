"""What agents in terminals have used, as their own transcripts say: tokens, what these cost, and how full the
context is.

A transcript only grows. Each is read on from where the last look ended, a bounded part at a time, so a long
one is known only after some looks: until then nothing is said of it. Everything here blocks: call it in a
thread.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections import deque
from collections.abc import Mapping
from threading import Lock
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from ..system.opening import open_file

MAX_LOOK = 16 * 1024 * 1024
"""How many bytes are read in one look, of all transcripts together."""
MAX_LINE = 4 * 1024 * 1024
"""How long a line may be; one that is longer counts for nothing."""
MAX_IDS = 64
"""How many messages are remembered: the parts of one are lines of their own, near each other."""

_BAD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class TranscriptUse(Struct, frozen=True):
    """What an agent has used since its transcript began."""

    tokens: int = 0
    """Those that were read from a cache are among them."""
    cost: float = 0.0
    """In dollars; 0 if the transcript has no prices."""
    context_tokens: int = 0
    """What its last answer was made from, and that answer."""


class _Line(Struct, rename="camel"):
    """What matters in a line."""

    type: str = ""
    is_sidechain: bool = False
    message: Any = None


_decode = msgspec.json.Decoder(_Line).decode


class _Transcript:
    """A file, as far as it was read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._begin()

    def _begin(self) -> None:
        self.use = TranscriptUse()
        self.is_whole = False
        self._file = (0, 0)
        self._offset = 0
        self._skips = False  # in the middle of a line that is too long
        self._ids: deque[str] = deque(maxlen=MAX_IDS)

    def read_on(self, room: int) -> int:
        """Read what is new, at most so many bytes. Returns how many it were. Raises OSError."""
        found = os.stat(self.path)
        if (found.st_dev, found.st_ino) == self._file and found.st_size == self._offset:
            return 0
        with open_file(self.path) as file:
            found = os.fstat(file.fileno())
            if (found.st_dev, found.st_ino) != self._file or found.st_size < self._offset:
                self._begin()
                self._file = (found.st_dev, found.st_ino)
            began = self._offset
            file.seek(began)
            self._take(file, room)
            self.is_whole = self._offset - began < room
            return max(1, self._offset - began)

    def _take(self, file: BinaryIO, room: int) -> None:
        while room > 0 and (line := file.readline(MAX_LINE)):
            room -= len(line)
            if line.endswith(b"\n"):
                if not self._skips and b'"usage"' in line:
                    self._count(line)
                self._skips = False
            elif len(line) == MAX_LINE:
                self._skips = True
            else:
                return  # it is still being written
            self._offset += len(line)

    def _count(self, raw: bytes) -> None:
        try:
            line = _decode(raw)
        except _BAD:
            return
        message = line.message
        if not isinstance(message, dict) or not isinstance(usage := message.get("usage"), dict):
            return
        if line.type == "message":  # Pi's
            cost = usage.get("cost")
            price = cost.get("total") if isinstance(cost, dict) else 0.0
            read = _sum(usage, "input", "cacheRead", "cacheWrite")
            said = _sum(usage, "output")
        else:  # Claude's
            id = message.get("id")
            if isinstance(id, str):
                if id in self._ids:
                    return
                self._ids.append(id)
            price = 0.0
            read = _sum(usage, "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            said = _sum(usage, "output_tokens")
        if not isinstance(price, int | float) or not math.isfinite(price) or price < 0:
            price = 0.0
        self.use = TranscriptUse(
            self.use.tokens + read + said,
            self.use.cost + price,
            self.use.context_tokens if line.is_sidechain else read + said,
        )


def _sum(usage: Mapping[str, Any], *names: str) -> int:
    counts = (usage.get(name) for name in names)
    return sum(each for each in counts if type(each) is int and 0 < each < 1 << 40)


class TranscriptFigures:
    """The transcripts of all sessions that have one."""

    def __init__(self) -> None:
        self._known: dict[str, _Transcript] = {}
        self._lock = Lock()

    def look(self, paths: Mapping[str, str]) -> None:
        """Read on in the transcripts of these sessions, by their ids; the others are forgotten."""
        if not self._lock.acquire(blocking=False):
            return  # somebody looks just now
        try:
            known = {}
            for id, path in paths.items():
                found = self._known.get(id)
                known[id] = found if found is not None and found.path == path else _Transcript(path)
            self._known = known
            left = MAX_LOOK
            for each in known.values():
                if left <= 0:
                    break
                with contextlib.suppress(OSError, ValueError):
                    left -= each.read_on(left)
        finally:
            self._lock.release()

    def of(self, id: str) -> TranscriptUse | None:
        """What a session has used, as far as that was read; None if it is not known."""
        found = self._known.get(id)
        return found.use if found is not None and found.is_whole else None
