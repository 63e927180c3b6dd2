"""The SDK: terminal sessions from a Python program.

    import fairlead

    with fairlead.connect() as host:
        work = host.start("work", ["bash"])
        work.send("make test", "Enter")
        work.wait_for("passed", timeout=600)
        print(work.screen())

The daemon is started if need be. What can't be done is a `RequestError` that says why. If the daemon goes
away, calls that only look or wait go on with the next one; one that would have changed something is a
`ConnectionError`, as it may have been done or not, and the next call finds the next daemon.

A `Host` and what comes from it are for one thread. Another thread opens its own; that is cheap.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..settings import Settings
from ..wire import keepty
from . import calls
from .calls import Ended, Format, RequestError
from .control import READ_SIZE, Control
from .events import Event, Subscription
from .launch import RECONNECT_WAIT, connected, session_socket
from .view import Attachment, RoleName, View

__all__ = ["Attached", "Ended", "Events", "Host", "RequestError", "Terminal", "connect"]

ANSWER_WAIT = 5.0
"""Seconds until a session that does not let us in is an error."""


def let_in(view: View, settings: Settings) -> tuple[socket.socket, list[bytes]]:
    """A connection on which a session has let its client in, and what it has shown by then."""
    connection = session_socket(keepty.socket_path(view.name, os.environ), settings)
    if connection is None:
        raise calls.no_session(view.name)
    output: list[bytes] = []
    try:
        connection.settimeout(ANSWER_WAIT)
        with contextlib.suppress(BrokenPipeError):  # it refused us already; reading tells why
            connection.sendall(view.begin())
        while not view.is_open:
            output += view.receive(connection.recv(READ_SIZE))
    except BaseException:
        connection.close()
        raise
    return connection, output


class Attached(Attachment):
    """A client of a session: what it prints, and for a writer also what it is told. Made by `attach`.

    Iterating gives output as it comes, the screen first, until the program ends; then `exit_code` is there.
    When the daemon goes away, the next one is found and the screen comes afresh, unless `reconnect` is false.
    """

    def __init__(self, view: View, settings: Settings, *, reconnect: bool) -> None:
        super().__init__(view, reconnect=reconnect)
        self._settings = settings
        self._socket: socket.socket | None = self._opened()

    def __enter__(self) -> Attached:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def read(self, *, timeout: float | None = None) -> bytes:
        """The next output; nothing when the program has ended. Raises TimeoutError or ConnectionError."""
        while not self._output and self._view.exit_code is None:
            connection = self._connected()
            connection.settimeout(timeout)
            try:
                self._output += self._view.receive(connection.recv(READ_SIZE))
            except ConnectionError:
                self._drop()
                if not self._reconnect:
                    raise
                self._find_again()
        return self._output.popleft() if self._output else b""

    def write(self, data: bytes) -> None:
        """Type. It waits while the program takes no input. Raises ConnectionError if it may be lost;
        reading goes on then."""
        self._send(self._view.typed(data))

    def resize(self, cols: int, rows: int) -> None:
        """Ask for another size; `size` has it when the session has taken it up, which output tells."""
        try:
            self._send(self._view.resized(cols, rows))
        except ConnectionError:
            if self._closed or not self._reconnect:  # else it is asked for again on the next connection
                raise

    def close(self) -> None:
        """Leave the session; it goes on."""
        self._closed = True
        self._drop()

    def _send(self, frames: bytes) -> None:
        self._check_running()
        connection = self._connected()
        connection.settimeout(None)
        connection.sendall(frames)

    def _connected(self) -> socket.socket:
        self._check_open()
        if self._socket is None:  # it could not be found again in time; perhaps now
            self._socket = self._opened()
        return self._socket

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _find_again(self) -> None:
        """Wait for the next daemon, which may die as well."""
        deadline = time.monotonic() + RECONNECT_WAIT
        while self._socket is None:
            try:
                self._socket = self._opened()
            except ConnectionError:
                if time.monotonic() > deadline:
                    raise

    def _opened(self) -> socket.socket:
        connection, output = let_in(self._view, self._settings)
        self._output += output
        return connection


class Events:
    """What happens, from the moment this was made. Raises ConnectionError if the daemon goes away."""

    def __init__(self, settings: Settings, topics: tuple[str, ...]) -> None:
        self._subscription = Subscription(topics)
        self._events: deque[Event] = deque()
        self._socket = connected(settings)
        try:
            self._socket.sendall(self._subscription.begin())
            while not self._subscription.ready:
                self._receive()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        while True:
            yield self.next()

    def next(self, *, timeout: float | None = None) -> Event:
        """The next event. Raises TimeoutError."""
        self._socket.settimeout(timeout)
        while not self._events:
            self._receive()
        return self._events.popleft()

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> None:
        reply, events = self._subscription.receive(self._socket.recv(READ_SIZE))
        self._events += events
        if reply:
            self._socket.sendall(reply)


class Terminal:
    """One terminal session."""

    def __init__(self, control: Control, name: str) -> None:
        self.name = name
        self._control = control

    def __repr__(self) -> str:
        return f"<Terminal {self.name}>"

    def send(self, text: str = "", *keys: str) -> None:
        """Type a text, then named keys: `send("ls", "Enter")`, `send("", "C-c")`."""
        self._control.call(calls.send(self.name, text, keys))

    def paste(self, text: str) -> None:
        """Give a text as a paste, bracketed if the program asked for that."""
        self._control.call(calls.paste(self.name, text))

    def screen(self, *, format: Format = "text", scrollback: bool = False) -> str:
        """What is on the screen, as text, or with colours as `ansi`, `html` or `svg`."""
        return self._control.call(calls.screen(self.name, format, scrollback))

    def cells(self) -> dict[str, Any]:
        """What is on the screen, with colours, cursor, modes and title."""
        return self._control.call(calls.cells(self.name))

    def search(self, text: str, *, regex: bool = False) -> list[dict[str, Any]]:
        """Where a text is, on the screen and in what has scrolled away: line, column and the line's text."""
        return self._control.call(calls.search(self.name, text, regex))

    def wait_for(self, text: str, *, regex: bool = False, timeout: float | None = None) -> str:
        """Wait until the screen shows a text; gives what matched. Raises TimeoutError or Ended."""
        return self._control.call(calls.wait_for(self.name, text, regex, timeout))

    def wait_quiet(self, seconds: float, *, timeout: float | None = None) -> None:
        """Wait until the program has printed nothing for so long. Raises TimeoutError or Ended."""
        self._control.call(calls.wait_quiet(self.name, seconds, timeout))

    def wait(self, *, timeout: float | None = None) -> int:
        """Wait until the program has ended; gives its exit code. Raises TimeoutError."""
        return self._control.call(calls.wait(self.name, timeout))

    def resize(self, cols: int, rows: int) -> None:
        """Give the terminal another size."""
        self._control.call(calls.resize(self.name, cols, rows))

    def stop(self) -> int:
        """End the program; gives its exit code."""
        return self._control.call(calls.stop(self.name))

    def attach(
        self, role: RoleName = "writer", *, cols: int = 0, rows: int = 0, reconnect: bool = True
    ) -> Attached:
        """Be a client of this session, at a size if one is given: `with work.attach() as view: …`."""
        view = View(self.name, role, cols, rows)
        return Attached(view, self._control.settings, reconnect=reconnect)

    def output(self, *, reconnect: bool = True) -> Iterator[bytes]:
        """What the program prints, as it comes: the screen first, then everything, until it ends. When the
        daemon goes away it goes on with the next one, the screen first again, unless told not to."""
        with self.attach("monitor", reconnect=reconnect) as view:
            yield from view


class Host:
    """A connection to the daemon."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._control = Control(settings)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; sessions go on."""
        self._control.close()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        cwd: str = ".",
        environment: Mapping[str, str] | None = None,
        cols: int = 80,
        rows: int = 24,
    ) -> Terminal:
        """Start a program that keeps running."""
        self._control.call(calls.start(name, command, cwd, environment, cols, rows))
        return Terminal(self._control, name)

    def terminal(self, name: str) -> Terminal:
        """A session that is there."""
        self._control.call(calls.find(name))
        return Terminal(self._control, name)

    def terminals(self) -> list[dict[str, Any]]:
        """All sessions, as `fairlead ls --json` shows them."""
        return self._control.call(calls.terminals())

    def status(self) -> dict[str, Any]:
        """How the daemon is: its version, process id and more, as `fairlead daemon status --json` tells."""
        return self._control.call(calls.status())

    def attach(
        self,
        terminal: str | Terminal,
        role: RoleName = "writer",
        *,
        cols: int = 0,
        rows: int = 0,
        reconnect: bool = True,
    ) -> Attached:
        """Be a client of a session, as `Terminal.attach`."""
        if isinstance(terminal, str):
            terminal = Terminal(self._control, terminal)
        return terminal.attach(role, cols=cols, rows=rows, reconnect=reconnect)

    def events(self, *topics: str) -> Events:
        """What happens from now on, to all sessions: `with host.events("terminal/exited") as events: …`.
        All topics if none is named."""
        return Events(self._control.settings, topics)


def connect(settings: Settings | None = None) -> Host:
    """Connect to the daemon, which is started if need be."""
    return Host(settings)
