"""Reconnecting: when a client whose daemon went away tries again, for how long, and what it says.

A daemon that dies is restarted by its nursery, else by a client that misses it. One that was stopped or can't
start (`StartFailed`) is not waited for, nor one that hangs. Blocking clients call `again`; those of asyncio
sleep for what `pause` returns; `attach` and the chat call `look` in loops of their own. Imports little.
"""

from __future__ import annotations

import time

from .launch import HungDaemon, NoDaemon, StartFailed, Starting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ..system.settings import Settings
    from .calls import Call

    T = TypeVar("T")

LOST = "lost the daemon; reconnecting"
RECONNECTED = "reconnected: the daemon restarted"

RECONNECT_WAIT = 15.0
"""Seconds that a client waits for a daemon that died to come back."""
ABSENCE = 60.0
"""Seconds without any daemon until what waits for a session gives up; it outlives any number of restarts."""
NURSERY_GRACE = 0.5
"""Seconds that the nursery has to start the next daemon, before we do it."""
HOST_WAIT = 900.0
"""Seconds that a client waits for another host to come back: a line may be away for minutes."""
HOST_PAUSE = 1.0
"""Seconds between two tries to reach another host."""
RETRY_PAUSE = 0.02
"""Seconds between two looks for a daemon that is not there."""
MAX_REPEATS = 8
"""How often a call that only looks is made again because the daemon went away."""


class Reconnect:
    """Decides whether to look for the next daemon once more. Owns the daemon that it starts for that."""

    def __init__(self, wait: float = RECONNECT_WAIT, *, tries: int | None = None) -> None:
        self._wait = wait
        self._tries = tries
        self._lost_at = time.monotonic()
        self._starting: Starting | None = None

    def reached(self) -> None:
        """A daemon was there until now: the wait for the next one begins anew."""
        self._lost_at = time.monotonic()
        if self._starting is not None:
            self._starting.close()
            self._starting = None

    @property
    def is_over(self) -> bool:
        """True if it was waited for long enough."""
        return time.monotonic() - self._lost_at > self._wait

    @property
    def may_start(self) -> bool:
        """True if the nursery should have started the next daemon by now."""
        return time.monotonic() - self._lost_at > NURSERY_GRACE

    def pause(self, error: OSError) -> float:
        """Return the seconds until the next try; raise the error of the last one if there shall be none."""
        if self._tries is not None:
            self._tries -= 1
        if self._tries == -1 or isinstance(error, StartFailed | HungDaemon):
            raise error
        if is_away(error):
            if time.monotonic() - self._lost_at > max(self._wait, HOST_WAIT):
                raise error
            return HOST_PAUSE
        if self.is_over:
            raise error
        return RETRY_PAUSE

    def again(self, connect: Callable[[], T]) -> T:
        """Return what `connect` does as soon as it works; the next daemon may die as well."""
        while True:
            try:
                return connect()
            except (ConnectionError, TimeoutError) as error:
                time.sleep(self.pause(error))

    def look(self, settings: Settings, *, start: bool = False) -> None:
        """Note that there is no daemon; start one if the nursery does not, or at once. Never waits. Raises
        NoDaemon."""
        if self._starting is None and (start or self.may_start):
            self._starting = Starting(settings)
        if self._starting is not None:
            self._starting.check()
        if self.is_over:
            raise NoDaemon(f"the daemon did not come back; see {settings.log_path}")


def is_away(error: Exception) -> bool:
    """True if a host can't be reached, which may change by itself. By name: importing it takes time."""
    return type(error).__name__ == "HostAway"


def repeating(call: Call[Any]) -> Reconnect:
    """For a call. One that changes something is not made again, as it may have been done."""
    if call.waits:
        return Reconnect(ABSENCE)
    return Reconnect(tries=MAX_REPEATS if call.is_repeatable else 0)
