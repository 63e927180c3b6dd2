"""Fair turns at the event loop for what sessions print.

Drawing on an emulated screen takes 10 ns for a letter and 10 µs for a byte of some sequences, so what a
program prints is drawn for a measured time, and not by its size. A session that has used little time of late
is served at once. One that has used more than its share waits in a line; each pass of the event loop serves
one of the line for a slice of time, and everything else of the daemon comes in between. When too much waits
for a session, its source is not read any more: then its keeper waits, and its program.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from ..keeper.protocol import OFFSET, FrameKind

SLICE = 0.002
"""Seconds for which one session is served before others get their turn."""
AT_ONCE = 0.001
"""Seconds for which a session is served at once; it has its share for that long after a pause."""
SHARE = 0.25
"""The part of the time that a session may use and still be served at once."""
MAX_DEBT = 0.1
"""Seconds beyond its share after which a session's use is not counted any more: then it recovers soon."""
MAX_BACKLOG = 128 * 1024
"""Bytes that may wait for a session before its source is not read any more."""


class Source(Protocol):
    """One session and where its output comes from."""

    def heard(self, kind: int, payload: bytes) -> None:
        """Anything but output."""

    def printed(self, offset: int, data: bytes, seconds: float) -> int:
        """Take output for so long; tells how many bytes were taken, one at least."""

    def served(self) -> None:
        """Some of what waited has been taken."""

    def failed(self, error: Exception) -> None:
        """What waited can't be taken; nothing more of it will be given."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class FairLine:
    """Those who wait for their turn, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[FairFeed] = deque()
        self._is_due = False

    def join(self, feed: FairFeed) -> None:
        """Come last in the line."""
        self._waiting.append(feed)
        self._come_soon()

    def leave(self, feed: FairFeed) -> None:
        if feed in self._waiting:
            self._waiting.remove(feed)

    def _serve(self) -> None:
        """Serve the first one; if it wants more it is the last one then."""
        self._is_due = False
        if self._waiting:
            feed = self._waiting.popleft()
            if feed.serve():
                self._waiting.append(feed)
        self._come_soon()

    def _come_soon(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._serve)


class FairFeed:
    """What one session's source says, given to the session in order and in its turn."""

    def __init__(self, line: FairLine, source: Source) -> None:
        self._line = line
        self._source = source
        self._queue: deque[tuple[int, bytes]] = deque()
        self._taken = 0  # bytes of the first one in the queue that were taken
        self._size = 0
        self._paused = False
        self._debt = 0.0
        self._debt_at = 0.0
        self._then: Callable[[], None] | None = None

    @property
    def is_behind(self) -> bool:
        """True while something waits."""
        return bool(self._queue)

    @property
    def is_at_once(self) -> bool:
        """Whether what is put now reaches the session at once."""
        return not self._queue and self._used() <= AT_ONCE

    def put(self, kind: int, payload: bytes) -> None:
        """Give the session a frame: at once if nothing waits and it has its share, else in its turn."""
        waits = bool(self._queue)
        self._queue.append((kind, payload))
        self._size += len(payload)
        if waits:
            self._brake()
            return
        if self._used() > AT_ONCE or self._work(AT_ONCE):
            self._line.join(self)
            self._brake()

    def finish(self, then: Callable[[], None]) -> None:
        """Nothing more comes: call this when all was taken."""
        if self._queue:
            self._then = then
        else:
            then()

    def close(self) -> None:
        """Forget what waits."""
        self._queue.clear()
        self._size = self._taken = 0
        self._line.leave(self)
        if self._then is not None:
            then, self._then = self._then, None
            then()

    def serve(self) -> bool:
        """Take some of what waits; tells whether there is more."""
        try:
            self._work(SLICE)
        except Exception as error:
            self.close()
            self._source.failed(error)
            return False
        if self._paused and self._size < MAX_BACKLOG // 2:
            self._paused = False
            self._source.resume()
        self._source.served()
        if not self._queue and self._then is not None:
            self.close()
        return bool(self._queue)

    def _work(self, seconds: float) -> bool:
        """Take what waits for so long; tells whether there is more."""
        began = time.perf_counter()
        left = seconds
        queue = self._queue
        try:
            while queue and left > 0:
                kind, payload = queue[0]
                if kind != FrameKind.DATA:
                    self._drop_first()
                    self._source.heard(kind, payload)
                else:
                    self._print(payload, left)
                left = began + seconds - time.perf_counter()
        finally:
            self._debt = min(self._used() + time.perf_counter() - began, MAX_DEBT)
        return bool(queue)

    def _print(self, payload: bytes, seconds: float) -> None:
        start = OFFSET.size + self._taken
        offset = OFFSET.unpack_from(payload)[0] + self._taken
        data = payload[start:]
        taken = self._source.printed(offset, data, seconds)
        if not self._queue:  # closed meanwhile
            return
        if taken >= len(data):
            self._drop_first()
        else:
            self._taken += taken
            self._size -= taken

    def _drop_first(self) -> None:
        _, payload = self._queue.popleft()
        self._size -= len(payload) - self._taken
        self._taken = 0

    def _used(self) -> float:
        """How many seconds beyond its share the session has used of late."""
        now = time.perf_counter()
        self._debt = max(0.0, self._debt - (now - self._debt_at) * SHARE)
        self._debt_at = now
        return self._debt

    def _brake(self) -> None:
        if not self._paused and self._size > MAX_BACKLOG:
            self._paused = True
            self._source.pause()
