"""Looking for a host again and again, for clients with a loop of their own, such as attach and the chat."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence

from ...system.settings import Settings
from ...wire import link
from ..reconnect import HOST_PAUSE, HOST_WAIT
from . import dial

LOOK_PAUSE = 0.05
"""Seconds between two looks whether a link that is being made is there."""


class Looking:
    """A link that is wanted. Nothing in here waits."""

    def __init__(self, settings: Settings, what: Sequence[str]) -> None:
        self.why = ""
        """Why the host was away when it was tried last; empty if it was not."""
        self.is_absent = False
        """True if there is no such session there."""
        self.due = 0.0
        """When to look next."""
        self._settings = settings
        self._what = what
        self._dialing: dial.Dialing | None = None
        self._lost_at = time.monotonic()

    def reached(self) -> None:
        """There was a link until now, or something was heard on it."""
        self._lost_at = time.monotonic()
        self.why = ""

    def look(self) -> socket.socket | None:
        """Return the link if there is one by now; the caller owns it. Raises HostAway if the host was away
        for too long, and HostRefused."""
        now = time.monotonic()
        if now < self.due:
            return None
        try:
            if self._dialing is None:
                self._dialing = dial.Dialing(self._settings.host, self._what, self._settings)
            found = self._dialing.receive()
        except dial.HostAway as error:
            self._dialing = None
            self.why = error.why
            self.due = now + HOST_PAUSE
            if now - self._lost_at > HOST_WAIT:
                raise
            return None
        except BaseException:
            self._dialing = None
            raise
        if found is None:
            self.due = now + LOOK_PAUSE
            return None
        greeting = self._dialing.greeting
        self._dialing = None
        self.is_absent = greeting is not None and greeting.word == link.ABSENT
        return found

    def close(self) -> None:
        if self._dialing is not None:
            self._dialing.close()
            self._dialing = None
