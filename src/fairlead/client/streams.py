"""The streams of the SDK: a client of a terminal session, and what happens; `aio_streams` for asyncio.

What they do without I/O is in `view` and `following`; here are the sockets, and finding the next daemon.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from collections.abc import Iterator
from typing import Generic, Self, TypeVar

from ..events import AgentEvent, Event
from ..system.settings import Settings
from .calls import RequestError, answer_dialog, find_terminal, no_session
from .connection import READ_SIZE, DaemonConnection
from .following import Asking, FollowedTurn, Subscription
from .launch import connected, session_socket
from .reconnect import Reconnect
from .view import Attachment, SharedView

E = TypeVar("E", bound=Event)

ANSWER_WAIT = 5.0
"""Seconds until a session that does not let us in is an error."""
LET_IN_TRIES = 5
"""How often a session is asked to let us in: its socket or its daemon may go before it has answered."""


def let_in(view: SharedView, settings: Settings) -> tuple[socket.socket, list[bytes]]:
    """A connection on which a session has let its client in, and what it has shown by then."""
    for _ in range(LET_IN_TRIES - 1):
        with contextlib.suppress(ConnectionResetError):
            return _asked_in(view, settings)
    return _asked_in(view, settings)


def _asked_in(view: SharedView, settings: Settings) -> tuple[socket.socket, list[bytes]]:
    connection = session_socket(view.name, settings)
    if connection is None:
        with DaemonConnection(settings) as control:
            control.call(find_terminal(view.name))  # which says what it is instead
        raise no_session(view.name)
    output: list[bytes] = []
    try:
        connection.settimeout(ANSWER_WAIT)
        with contextlib.suppress(BrokenPipeError):  # it refused us already; reading says why
            connection.sendall(view.begin())
        while not view.is_open:
            data = connection.recv(READ_SIZE)
            if not data:
                raise ConnectionResetError(f"the daemon closed the connection to session {view.name!r}")
            output += view.receive(data)
    except BaseException:
        connection.close()
        raise
    return connection, output


class Connection:
    """Something with a connection to the daemon, which `with` closes."""

    _socket: socket.socket | None = None
    _closed = False
    _reconnects = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; sessions go on."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _reach(self, *, start: bool = True) -> None:
        """Get a connection on which all can go on."""
        raise NotImplementedError

    def _find_again(self, lost: ConnectionError) -> None:
        """Wait for the next daemon, which may die as well. The nursery starts it, else we do."""
        self._drop()
        if not self._reconnects:
            raise lost
        reconnect = Reconnect()
        while self._socket is None:
            try:
                self._reach(start=reconnect.may_start)
            except (ConnectionError, TimeoutError) as error:
                self._drop()
                time.sleep(reconnect.pause(error))


class Attached(Attachment, Connection):
    """A client of a session, which reads its output and, as a writer, sends input. Made by `attach`.

    Iterating yields output as it comes, the screen first, until the program ends; then `exit_code` is there.
    When the daemon restarts, the whole screen comes again and the rest after it, unless `reconnect` is false.
    """

    def __init__(self, view: SharedView, settings: Settings, *, reconnect: bool) -> None:
        super().__init__(view, reconnect=reconnect)
        self._settings = settings
        self._reach()

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def read(self, *, timeout: float | None = None) -> bytes:
        """Return the next output, empty after the program's end. Raises TimeoutError or ConnectionError."""
        while not self._output and self._view.exit_code is None:
            connection = self._connected()
            connection.settimeout(timeout)
            try:
                self._output += self._view.receive(connection.recv(READ_SIZE))
            except ConnectionError as lost:
                self._find_again(lost)
        return self._output.popleft() if self._output else b""

    def write(self, data: bytes) -> None:
        """Type. It waits while the program takes no input. Raises ConnectionError if it may be lost;
        reading still works then."""
        self._send(self._view.typed(data))

    def resize(self, cols: int, rows: int) -> None:
        """Ask for another size; `size` has it once the session has changed, as far as the output was read."""
        try:
            self._send(self._view.resized(cols, rows))
        except ConnectionError:
            if self._closed or not self._reconnects:  # else it is asked for again on the next connection
                raise

    def _send(self, frames: bytes) -> None:
        self._check_running()
        connection = self._connected()
        connection.settimeout(None)
        connection.sendall(frames)

    def _connected(self) -> socket.socket:
        self._check_open()
        if self._socket is None:  # it could not be found again in time; perhaps now
            self._reach()
        assert self._socket is not None
        return self._socket

    def _reach(self, *, start: bool = True) -> None:
        self._socket, output = let_in(self._view, self._settings)
        self._output += output


class EventStream(Connection, Generic[E]):
    """The events of a subscription."""

    def __init__(self, source: Subscription[E], settings: Settings) -> None:
        source.lends_keys = not settings.host
        self._source = source
        self._settings = settings
        self._events: deque[E] = deque()
        try:
            self._reach()
            while not source.accepted:
                self._receive(None)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[E]:
        try:
            while self._events or not self._source.is_over:
                yield self.next()
        finally:
            if isinstance(self._source, FollowedTurn):
                self.close()

    def next(self, *, timeout: float | None = None) -> E:
        """Return the next event. Raises TimeoutError, ConnectionError if the daemon is gone for good, and
        EOFError when the turn is over."""
        while not self._events:
            if self._source.is_over:
                raise EOFError("the turn has ended")
            if self._closed:
                raise ConnectionError("this event stream is closed")
            try:
                self._receive(timeout)
            except ConnectionError as lost:
                self._find_again(lost)
        return self._events.popleft()

    def _reach(self, *, start: bool = True) -> None:
        first = self._source.begin()
        self._socket = connected(self._settings, start=start)
        self._socket.sendall(first)
        while not self._source.ready:
            self._receive(ANSWER_WAIT)

    def _receive(self, timeout: float | None) -> None:
        if self._socket is None:
            raise ConnectionError("the daemon is not running")
        self._socket.settimeout(timeout)
        reply, events, _ = self._source.receive(self._socket.recv(READ_SIZE))
        self._events += events
        if reply:
            self._socket.sendall(reply)


class Events(EventStream[Event]):
    """What happens, from the moment this was made. Raises ConnectionError if the daemon goes away."""


class AgentEvents(EventStream[AgentEvent]):
    """What happens in an agent session. Made by `prompt`, and then over with the turn, or by `events`.

    When the daemon restarts, they continue, and what was missed comes first.
    """

    _reconnects = True

    @property
    def cursor(self) -> str | None:
        """Where we are: `events(since=cursor)` continues from here."""
        return self._source.cursor


def answer(control: DaemonConnection, turn: FollowedTurn, asking: Asking, timeout: float | None) -> str:
    """The answer of a turn, with consent as it was decided beforehand."""
    deadline = None if timeout is None else time.monotonic() + timeout
    with AgentEvents(turn, control.settings) as events, contextlib.suppress(EOFError):
        while True:
            left = None if deadline is None else max(0.001, deadline - time.monotonic())
            event = events.next(timeout=left)
            if (decided := asking.take(event)) is not None:
                # another client may have been first; the next daemon will ask again
                with contextlib.suppress(RequestError, ConnectionError):
                    control.call(answer_dialog(turn.session_id, event.data["dialog_id"], decided))
    return asking.answer()
