"""Sharing a session of another host: the line to it may be slow, or away for minutes.

What is typed meanwhile waits, and is sent once when the line is back; how many keys wait is said in the
bottom row, as they can't be seen in the program yet. A Ping goes with the keys, and its Pong says that they
have arrived. What comes is confirmed, so that no more of it is on its way than a moment's worth: who falls
behind is shown the screen afresh by the session, and not the backlog.
"""

from __future__ import annotations

import re
import socket
import time

from ..client.hosts.looking import Looking
from ..system.settings import Settings
from ..wire import keepty

SLOW_SECONDS = 0.4
"""Seconds after which a key that has not arrived is told of."""
AWAY_SECONDS = 1.0
"""Seconds after which it is told that the line is away."""
_KEY = re.compile(rb"\x1b[\[O][0-?]*[ -/]*[@-~]|\x1b?[\x00-\x7f]|[\xc0-\xff][\x80-\xbf]*|[\x80-\xbf]")
"""A key as a terminal sends it, roughly: an escape sequence, or a character."""


class FarLine:
    """What is known of the line to a session of another host."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.host = settings.host
        self.looking = Looking(settings, ["terminal", name])
        self.terminal_of = f"{socket.gethostname()}:"
        """What is put before the name of a terminal of ours, which is none there."""
        self._sent = 0  # keys that were sent on this connection
        self._asked = 0  # those that the Ping on its way is for
        self._is_asked = False
        self._arrived = 0
        self._waits_since: float | None = None
        self._away_since: float | None = time.monotonic()
        self._unsure = 0  # keys that were on their way when the line went away
        self._received = 0  # bytes that are not confirmed yet

    def opened(self) -> None:
        """The session has let us in."""
        self._away_since = None
        self.looking.reached()

    def lost(self, unsent: bytes) -> None:
        """The line is gone; of the keys that were sent, these will be sent again."""
        self._unsure += max(0, self._sent - self._arrived - keys_in(unsent))
        self._sent = self._asked = self._arrived = self._received = 0
        self._is_asked = False
        if self._away_since is None:
            self._away_since = time.monotonic()

    def typed(self, data: bytes) -> None:
        """These keys are sent now."""
        self._sent += keys_in(data)

    def heard(self, size: int) -> None:
        """So many bytes of output have come and are shown."""
        self._received += size

    def answered(self) -> None:
        """A Pong came: what was sent before the Ping has arrived."""
        self._is_asked = False
        self._arrived = self._asked

    def frame(self) -> bytes:
        """What is to be sent now, if anything."""
        if self._received >= keepty.PACE_BYTES:
            count, self._received = divmod(self._received, keepty.PACE_BYTES)
            return keepty.Resize(keepty.PACE_COLS, min(count, 0xFFFF)).encode()
        if self._sent > self._asked and not self._is_asked:
            self._is_asked, self._asked = True, self._sent
            return keepty.Ping().encode()
        return b""

    @property
    def wants_to_send(self) -> bool:
        return self._received >= keepty.PACE_BYTES or (self._sent > self._asked and not self._is_asked)

    def said(self, waiting: bytes | bytearray, way_out: str) -> str:
        """What the person should know of the line now; `waiting` was typed and is not sent."""
        now = time.monotonic()
        keys = self._sent - self._arrived + keys_in(waiting)
        if not keys:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = now
        count = "1 key waits" if keys == 1 else f"{keys} keys wait"
        if self._away_since is not None and now - self._away_since >= AWAY_SECONDS:
            left = [f"{self.host} is away, reconnecting", *([count] if keys else [])]
            return "; ".join([*left, *([self._unsure_said] if self._unsure else []), f"{way_out} detaches"])
        if self._waits_since is not None and now - self._waits_since >= SLOW_SECONDS:
            return f"slow line to {self.host}: {count}"
        if self._unsure and self._away_since is None:
            return self._unsure_said
        return ""

    @property
    def _unsure_said(self) -> str:
        what = "1 key was" if self._unsure == 1 else f"{self._unsure} keys were"
        return f"{what} on the way when the line broke, and may be lost"

    def pressed(self) -> None:
        """The person goes on, and has read what was said."""
        if self._away_since is None:
            self._unsure = 0

    @property
    def due(self) -> float | None:
        """When something is to be said or looked at, though nothing happens."""
        times = []
        if self._away_since is not None:
            times += [self.looking.due, self._away_since + AWAY_SECONDS]
        if self._waits_since is not None:
            times.append(self._waits_since + SLOW_SECONDS)
        now = time.monotonic()
        return min((each for each in times if each > now), default=None)


def keys_in(data: bytes | bytearray) -> int:
    """How many keys these bytes are."""
    return sum(1 for _ in _KEY.finditer(bytes(data)))
