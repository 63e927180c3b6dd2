"""Waiting for a text: what a program prints from a moment on, and what is on its screen.

A look at the screen now and then would miss what scrolls off or is drawn over between two looks. So all that
is printed is held as text until it was searched, within limits. Where a wait began is noted with the keeper
of the session, so that the next daemon goes on from there when the client asks again. Does no I/O and does
not search.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from ..formats.printed import Drawn
from .ports import ProgramState
from .session import TerminalSession

MAX_HELD = 4 * 1024 * 1024
"""How many characters wait to be searched; then the oldest are dropped, and who waits is told."""
PRESSING = 256 * 1024
"""With so many it is time to search them."""
OVERLAP = 4096
"""How many characters before the new ones are searched again: a match may have begun there."""
MAX_NOTED = 32
"""How many waits are noted with a session; then the oldest are forgotten."""
MAX_REQUEST_ID = 64
"""How many characters the id of a wait may have."""
_MIDDLE = "\0"
"""What stands for the part of a line that was cut off, so that the rest does not look like its beginning."""


class TextWatch:
    """What somebody who waits for a text looks at. `close` it."""

    def __init__(self, session: TerminalSession, id: str = "", *, overlap: int = 0) -> None:
        self.missed = 0
        """How many characters were dropped before they could be searched."""
        self._session = session
        self._id = id
        self._overlap = OVERLAP + overlap
        self._drawn = Drawn()
        self._held: deque[str] = deque()
        self._chars = 0
        self._tail = ""
        self._pressing = asyncio.Event()
        noted = session.note.get("waits") or {}
        self._since = session.offset
        self._ended = session.count.ended
        if id in noted:
            self._since, self._ended = noted[id]
        elif id:
            noted = dict(list(noted.items())[1 - MAX_NOTED :])
            session.remember(waits=noted | {id: [self._since, self._ended]})
        session.taps.add(self._heard)

    def close(self) -> None:
        self._session.taps.discard(self._heard)

    def forget(self) -> None:
        """It was answered: nobody asks again."""
        noted = self._session.note.get("waits") or {}
        if self._id in noted and self._session.state is not ProgramState.ENDED:
            self._session.remember(waits={id: each for id, each in noted.items() if id != self._id} or None)

    @property
    def _is_behind(self) -> bool:
        """True while this daemon is told again what was printed before the wait began."""
        return self._session.offset < self._since

    def _heard(self, data: bytes) -> None:
        before = self._since - (self._session.offset - len(data))
        if text := self._drawn.feed(data[max(0, before) :]):
            self._hold(text)

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._chars += len(text)
        while self._chars > MAX_HELD:
            size = len(self._held.popleft())
            self._chars -= size
            self.missed += size
            self._tail = _MIDDLE
        if self._chars > PRESSING:
            self._pressing.set()

    def earlier(self, *, scrollback: bool) -> Callable[[Callable[[], bool]], None]:
        """Take the beginning of the line in which the cursor is, and what was printed since the wait began
        if that was long ago. The result is to be called before `take`, in any thread."""
        ended, now = 0, self._session.count.ended
        if scrollback:
            ended = sys.maxsize - 1
        elif self._ended is not None and now is not None and not self._is_behind:
            ended = now - self._ended
        if self._session.screen.is_closed or self._is_behind:
            return lambda goes_on: None
        read = self._session.screen.before_cursor(ended)

        def take(goes_on: Callable[[], bool]) -> None:
            self._tail = read()

        return take

    def take(self) -> list[str]:
        """What to search now: what was printed since the last time, and what is shown."""
        if self._is_behind:
            return []
        printed = self._tail + "".join(self._held)
        self._held.clear()
        self._chars = 0
        self._pressing.clear()
        self._tail = printed
        if (cut := len(printed) - self._overlap) > 0:
            line = printed.find("\n", cut) + 1
            self._tail = printed[line:] if line else _MIDDLE + printed[cut:]
        return [printed, *([] if self._session.screen.is_closed else self._session.screen.readings())]

    async def rest(self, seconds: float) -> None:
        """Pause until so much was printed that it has to be searched, but no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._pressing.wait()
