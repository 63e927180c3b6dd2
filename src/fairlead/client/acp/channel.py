"""A connection to the daemon that is found again when it is lost. Never waits: who has it calls `look`,
`readable` and `writable` when it is time.

What was asked and not answered when the daemon died is asked again on the next connection, or fails, or is
forgotten, as whoever asked said: it may or may not have been done.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from ...events import Event
from ...formats.edn import EdnError
from ...system.settings import SettingError, Settings
from ...wire.rpc import MAX_LINE, MAX_PENDING, ErrorCode
from ..calls import RequestError
from ..connection import READ_SIZE
from ..following import Answered, Subscription
from ..launch import reached, saw_daemon, want_daemon
from ..reconnect import RETRY_PAUSE, Reconnect

E = TypeVar("E", bound=Event)
E_contra = TypeVar("E_contra", bound=Event, contravariant=True)
Then = Callable[[Answered], None]
Fate = Literal["again", "fails", "forgotten"]
"""What becomes of a request when the daemon dies before it has answered."""

MAX_SENT = MAX_PENDING // 2
"""How many requests are on their way; others wait until these are answered."""
AWAY_PAUSE = 1.0
"""Seconds between two looks for a daemon that was stopped, or can't start."""
UNSURE = "the daemon stopped before it answered; the request may or may not have been carried out"


class _Asked(NamedTuple):
    op: str
    params: dict[str, Any]
    then: Then
    fate: Fate


class Following(Protocol[E_contra]):
    """Who has a channel, and is told what comes of it."""

    def began(self) -> None:
        """The daemon was found, and no event is missed from now on."""

    def lost(self) -> None:
        """The daemon went away."""

    def happened(self, event: E_contra) -> None: ...

    def refused(self, error: RequestError, *, for_good: bool) -> None:
        """The daemon does not want us; or there is none, and it is looked for now and then."""


class Channel(Generic[E]):
    """Requests and events of one connection."""

    def __init__(
        self, settings: Settings, source: Subscription[E], reconnect: Reconnect, user: Following[E]
    ) -> None:
        self.socket: socket.socket | None = None
        self.source = source
        self._settings = settings
        self._reconnect = reconnect
        self._user = user
        self._unsent = b""
        self._waiting: deque[_Asked] = deque()
        self._sent: dict[str, _Asked] = {}
        self._look_at = 0.0
        self._is_away = False  # no daemon could be started
        self._is_new = True
        want_daemon(settings)
        reconnect.reached()

    # --- asking ---------------------------------------------------------------------------------------------

    def ask(self, op: str, then: Then, /, *, fate: Fate = "again", **params: Any) -> None:
        """Ask for something."""
        if self.socket is None and self._is_away:
            want_daemon(self._settings)
            self._reconnect.reached()
            self._is_away, self._is_new, self._look_at = False, True, 0.0
        self._waiting.append(_Asked(op, params, then, fate))
        self._send()

    @property
    def is_asking(self) -> bool:
        return bool(self._waiting or self._sent or self._unsent)

    def _send(self) -> None:
        while self._waiting and self.socket is not None and self.source.ready and len(self._sent) < MAX_SENT:
            asked = self._waiting.popleft()
            try:
                id, line = self.source.request(asked.op, **asked.params)
            except EdnError as error:
                asked.then(_error(str(error), ErrorCode.INVALID_PARAMS))
                continue
            if len(line) > MAX_LINE:
                asked.then(_error(f"{asked.op} is longer than {MAX_LINE} bytes", ErrorCode.INVALID_PARAMS))
                continue
            self._sent[id] = asked
            self._unsent += line

    # --- the connection -------------------------------------------------------------------------------------

    @property
    def wants_to_write(self) -> bool:
        return bool(self._unsent)

    @property
    def pause(self) -> float | None:
        """Seconds until `look` is due."""
        return max(0.0, self._look_at - time.monotonic()) if self.socket is None else None

    def look(self) -> None:
        """Look for the daemon, if there is none and it is time."""
        now = time.monotonic()
        if self.socket is not None or now < self._look_at:
            return
        self._look_at = now + (AWAY_PAUSE if self._is_away else RETRY_PAUSE)
        try:
            found = reached(self._settings.rpc_path, 0)
        except BlockingIOError:  # so many wait for it that there is no room for one more
            found = None
        if found is not None:
            found.setblocking(False)
            saw_daemon(self._settings)
            self.socket, self._is_new, self._is_away = found, False, False
            self._unsent = self.source.begin()
        elif not self._is_away:
            try:
                self._reconnect.look(self._settings, start=self._is_new)
            except (ConnectionError, SettingError) as error:
                self._give_up(str(error))

    def _give_up(self, why: str) -> None:
        self._is_away = True
        asked, self._waiting = list(self._waiting), deque()
        for each in asked:
            each.then(_error(why))
        self._user.refused(RequestError(ErrorCode.FAILED, why), for_good=False)

    def writable(self) -> None:
        assert self.socket is not None
        try:
            self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()

    def readable(self) -> None:
        assert self.socket is not None
        try:
            data = self.socket.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        # one line after the other: what an answer says is of the moment between two events
        for line in _lines(data):
            if self.socket is None:  # because of the line before
                return
            try:
                self._receive(line)
            except RequestError as error:
                self.close()
                self._user.refused(error, for_good=True)
            except OSError:
                self._lose()
        self._send()

    def _receive(self, data: bytes) -> None:
        was_ready = self.source.ready
        reply, events, answers = self.source.receive(data)
        self._unsent += reply
        for event in events:
            self._user.happened(event)
        if self.source.ready and not was_ready:
            self._reconnect.reached()
            self._user.began()
        for answer in answers:
            if (asked := self._sent.pop(answer.id, None)) is not None:
                asked.then(answer)

    def _lose(self) -> None:
        """The daemon went away."""
        assert self.socket is not None
        self.socket.close()
        self.socket = None
        if self.source.ready:
            self._reconnect.reached()
        self.source.ready = False
        self._unsent, self._look_at = b"", 0.0
        sent, self._sent = self._sent, {}
        unsure = [*sent.values(), *self._waiting]
        self._waiting = deque(each for each in unsure if each.fate == "again")
        self._user.lost()
        for each in unsure:
            if each.fate == "fails":
                each.then(_error(UNSURE))

    def close(self) -> None:
        """Nothing more is asked or told."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        self._look_at = float("inf")
        self._waiting.clear()
        self._sent.clear()
        self._unsent = b""


def _lines(data: bytes) -> list[bytes]:
    """Data cut after each newline; the end of a connection is one empty piece."""
    *whole, rest = data.split(b"\n")
    lines = [line + b"\n" for line in whole]
    return [*lines, rest] if rest or not lines else lines


def _error(why: str, code: str = ErrorCode.FAILED) -> Answered:
    return Answered("", {}, RequestError(code, why))
