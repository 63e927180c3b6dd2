"""Sharing a session's terminal: what `fairlead attach` does. Imports little, so that it starts at once.

The terminal is put into raw mode and given back whatever happens. When the daemon dies the client waits for
the next one and goes on: the session did not notice either.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Iterator

from ..settings import Settings
from ..wire import keepty
from ..wire.faults import Broken

DETACH_MARKS = b",,,"
READ_SIZE = 65_536
RECONNECT_WAIT = 15.0
"""Seconds that the client waits for a daemon that died to come back."""
HELLO_WAIT = 5.0
"""Seconds until a session that does not answer is an error."""

_RESTORE = (
    b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[?1l\x1b>"
    b"\x1b[<u\x1b[?25h\x1b[0m\x1b[r\x1b[999;1H\r\n"
)
"""Takes back every mode that a session may have turned on."""


class Detached(Exception):
    """The person left; the session goes on."""


class _Keys:
    """Finds the detach keys in what is typed, across reads; everything else passes."""

    def __init__(self) -> None:
        self._commas = 0

    def passed(self, typed: bytes) -> bytes:
        """What goes to the program. Raises Detached at three commas and a d."""
        passed = bytearray()
        for value in typed:
            if value == b","[0]:
                self._commas += 1
            elif value == b"d"[0] and self._commas >= len(DETACH_MARKS):
                raise Detached
            else:
                self._commas = 0
            passed.append(value)
        return bytes(passed)


def attach(name: str, *, watch: bool = False) -> int:
    """Share a session until it ends or the person leaves. Gives the exit code."""
    settings = Settings()
    try:
        path = keepty.socket_path(name, os.environ)
    except ValueError as error:
        print(f"fairlead attach: {error}", file=sys.stderr)
        return 2
    connection = _connect(path, settings, time.monotonic())
    if connection is None:
        print(f"fairlead attach: no session {name!r}; `fairlead ls` lists them", file=sys.stderr)
        return 1
    with _raw_terminal():
        try:
            while True:
                code = _share(connection, watch=watch)
                if code is not None:
                    return code
                found = _connect(path, settings, time.monotonic() + RECONNECT_WAIT)
                if found is None:
                    break
                connection = found
        except Detached:
            sys.stdout.buffer.write(_RESTORE)
            print(f"left {name}; `fairlead attach {name}` comes back", file=sys.stderr)
            return 0
    print(f"fairlead attach: the daemon is gone and so is {name!r}", file=sys.stderr)
    return 1


def _connect(path: str, settings: Settings, deadline: float) -> socket.socket | None:
    """A connection to the session; if there is no socket, a daemon may yet have to be started to make it."""
    tried = False
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            return connection
        except OSError:
            connection.close()
        if not tried:
            tried = True
            from .launch import NoDaemon, connected

            with contextlib.suppress(NoDaemon, OSError):
                connected(settings).close()
                continue
        if time.monotonic() > deadline:
            return None
        time.sleep(0.02)


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """The terminal in raw mode, and as it was in the end."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return 80, 24
    return size.columns, size.lines


def _share(connection: socket.socket, *, watch: bool) -> int | None:
    """Carry bytes between terminal and session. Gives the exit code, or None if the daemon went away."""
    wire = keepty.ClientConnection()
    role = keepty.Role.WATCHER if watch else keepty.Role.WRITER
    keys = _Keys()
    bell, ringer = socket.socketpair()
    ringer.setblocking(False)
    previous = signal.signal(signal.SIGWINCH, lambda number, stack: ringer.send(b"!"))
    standard_input = sys.stdin.fileno()
    inputs = [connection, bell, standard_input]
    out = sys.stdout.fileno()
    with connection, bell, ringer:
        try:
            connection.sendall(wire.send(keepty.Hello(role, *_size())))
            while True:
                ready, _, _ = select.select(inputs, [], [])
                if connection in ready:
                    data = connection.recv(READ_SIZE)
                    if not data:
                        return None
                    for message in wire.receive(data):
                        if isinstance(message, keepty.Output):
                            _write(out, message.data)
                        elif isinstance(message, keepty.Exit):
                            _write(out, _RESTORE)
                            return message.code
                        elif isinstance(message, keepty.Error):
                            _write(out, f"\r\nfairlead: {message.text}\r\n".encode())
                        elif isinstance(message, Broken):
                            return None
                if bell in ready:
                    bell.recv(16)
                    connection.sendall(wire.send(keepty.Resize(*_size())))
                if standard_input in ready:
                    typed = os.read(standard_input, READ_SIZE)
                    if not typed:
                        inputs.remove(standard_input)
                    elif watch:
                        if typed[:1] in (b"q", b"\x03"):
                            raise Detached
                        if typed[:1] == b"r":
                            connection.sendall(wire.send(keepty.Resize(0xFFFF, _size()[1])))
                    else:
                        connection.sendall(wire.send(keepty.Input(keys.passed(typed))))
        except (BrokenPipeError, ConnectionResetError):
            return None
        finally:
            signal.signal(signal.SIGWINCH, previous)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
