"""Sharing a session's terminal: what `fairlead attach` does. Imports little, so that it starts at once.

One loop waits for the keyboard, the session, the terminal and signals at once, and blocks on none of them:
leaving works while the program takes no input, keys go through while the terminal takes no output. When the
daemon dies the client waits for the next one and goes on: the session did not notice either.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time

from ..settings import SettingError, Settings
from ..wire import keepty
from ..wire.faults import Broken
from .launch import ABSENT_TRIES, RECONNECT_WAIT, reached, reached_daemon, spawn
from .own_terminal import Gone, OwnTerminal
from .typed import Typed

READ_SIZE = 65_536
FRAME_SIZE = 16 * 1024
"""How many bytes of input go into one frame."""
HELLO_WAIT = 5.0
"""Seconds until a session that does not answer is an error."""
RETRY_PAUSE = 0.02
"""Seconds between two looks for a daemon that is not there."""
NURSERY_GRACE = 0.5
"""Seconds that the nursery has to start the next daemon, before we do it."""
MAX_UNSENT = 1024 * 1024
"""How many typed bytes wait for a program that takes none; then the keyboard has to wait too."""
STALLED = 2.0
"""Seconds after which a program that takes nothing counts as stuck. What is typed into a full queue is then
lost with a bell, as a terminal does it, so that the keys for leaving are still seen."""
LAST_WORDS_WAIT = 0.5
"""Seconds that what was typed before leaving has to get through."""

_SIGNALS = (signal.SIGWINCH, signal.SIGCONT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_CTRL_C = 3
_WIDEST = 0xFFFF


class _Left(Exception):
    """Sharing is over: the exit code, and what to tell the person."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code


def attach(name: str, *, watch: bool = False) -> int:
    """Share a session until it ends or the person leaves. Gives the exit code."""
    try:
        path = keepty.socket_path(name, os.environ)
    except ValueError as error:
        print(f"fairlead attach: {error}", file=sys.stderr)
        return 2
    bell, ringer = socket.socketpair()
    for each in (bell, ringer):
        each.setblocking(False)
    previous = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    signal.set_wakeup_fd(ringer.fileno(), warn_on_full_buffer=False)
    try:
        with bell, ringer, OwnTerminal() as terminal, _Sharing(name, path, terminal, bell, watch) as sharing:
            while True:
                sharing.turn()
    except _Left as left:
        if str(left) and select.select([], [sys.stderr], [], 0)[1]:  # not to one that takes no output
            print(left, file=sys.stderr)
        return left.code
    except Gone:
        return 128 + signal.SIGHUP
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Sharing:
    """One session, shared: the connection to it if there is one, and what waits to be sent."""

    def __init__(self, name: str, path: str, terminal: OwnTerminal, bell: socket.socket, watch: bool) -> None:
        self._name = name
        self._path = path
        self._terminal = terminal
        self._bell = bell
        self._watch = watch
        self._settings = Settings()
        self._keys = Typed()
        self._wire = keepty.ClientConnection()
        self._connection: socket.socket | None = None
        self._typed = bytearray()  # what was typed and is in no frame yet
        self._input = b""  # what the frame that is being sent has of it
        self._frame = b""  # the rest of the frame that is being sent
        self._resized = False
        self._typing_over = False
        self._sent_at = time.monotonic()
        self._ending: _Left | None = None
        self._was_there = False
        self._lost_at = time.monotonic()
        self._greeted_at = 0.0
        self._absent = 0
        self._spawned = False

    def __enter__(self) -> _Sharing:
        return self

    def __exit__(self, *error: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def turn(self) -> None:
        """Wait until anything can be done and do it. Raises _Left in the end, or Gone."""
        terminal = self._terminal
        if self._connection is None and self._ending is None:
            self._reach()
        connection = self._connection
        reading: list[int | socket.socket] = [self._bell]
        writing: list[int | socket.socket] = []
        if self._takes_keys():
            reading.append(terminal.input)
        if connection is not None and not terminal.behind:
            reading.append(connection)
        if connection is not None and self._has_frame():
            writing.append(connection)
        if terminal.unshown:
            writing.append(terminal.output)
        elif self._ending is not None:
            raise self._ending
        readable, writable, _ = select.select(reading, writing, [], self._pause())
        if self._bell in readable:
            self._signalled()
        if terminal.input in readable:
            self._read_keys()
        if terminal.output in writable:
            self._show()
        if self._connection is None or self._connection is not connection:
            return
        try:
            if connection in readable:  # first, as it may tell why nothing can be sent
                self._receive(connection.recv(READ_SIZE))
            if connection in writable and self._connection is connection:
                self._send(connection)
            if self._wire.state is keepty.State.GREETED and self._is_over(self._greeted_at, HELLO_WAIT):
                raise _Left(1, f"fairlead attach: session {self._name!r} does not answer")
        except BlockingIOError:
            pass
        except OSError:
            self._lose()

    def _pause(self) -> float | None:
        """Seconds until something is to be done though nothing happens."""
        if self._connection is None:
            return RETRY_PAUSE if self._ending is None else None
        if self._wire.state is keepty.State.GREETED:
            return HELLO_WAIT
        return STALLED if len(self._typed) >= MAX_UNSENT else None

    @staticmethod
    def _is_over(since: float, wait: float) -> bool:
        return time.monotonic() - since >= wait

    # --- the session --------------------------------------------------------------------------------------

    def _reach(self) -> None:
        """Look once for the session; a daemon may yet have to be started to make its socket."""
        try:
            connection = reached(self._path)
            if connection is None:
                self._look_for_daemon()
                return
        except (OSError, SettingError) as error:
            raise _Left(1, f"fairlead attach: {error}") from None
        connection.setblocking(False)
        self._connection = connection
        self._wire = keepty.ClientConnection()
        role = keepty.Role.WATCHER if self._watch else keepty.Role.WRITER
        self._frame = self._wire.send(keepty.Hello(role, *self._terminal.size, keepty.Wish.NOTICES))
        self._resized = False
        self._greeted_at = time.monotonic()

    def _look_for_daemon(self) -> None:
        daemon = reached_daemon(self._settings)
        if daemon is not None:  # it opens the sockets of its sessions before its own
            daemon.close()
            self._absent += 1
            if self._absent >= ABSENT_TRIES:
                missing = f"no session {self._name!r}; `fairlead ls` lists them"
                gone = f"session {self._name!r} is gone"
                raise _Left(1, f"fairlead attach: {gone if self._was_there else missing}")
            return
        self._absent = 0
        if not self._spawned and (not self._was_there or self._is_over(self._lost_at, NURSERY_GRACE)):
            self._spawned = True
            spawn(self._settings)
        if self._is_over(self._lost_at, RECONNECT_WAIT):
            raise _Left(1, f"fairlead attach: the daemon is gone; see {self._settings.log_path}")

    def _lose(self) -> None:
        """The daemon went away. What it has of a frame that was not whole it has not understood."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._frame:
            self._typed[:0] = self._input
        self._frame = self._input = b""
        if self._wire.state is keepty.State.OPEN:
            self._lost_at = time.monotonic()
            self._spawned = False
            self._absent = 0
        elif self._ending is None:
            if self._is_over(self._lost_at, RECONNECT_WAIT):
                raise _Left(1, f"fairlead attach: session {self._name!r} lets nobody in")
            time.sleep(RETRY_PAUSE)

    def _receive(self, data: bytes) -> None:
        if not data:
            self._lose()
            return
        for message in self._wire.receive(data):
            if isinstance(message, keepty.Output):
                self._terminal.show(message.data)
            elif isinstance(message, keepty.HelloAck):
                self._was_there = True
            elif isinstance(message, keepty.Exit):
                self._ending = _Left(message.code, f"session {self._name} ended with {message.code}")
                self._lose()
                return
            elif isinstance(message, keepty.Error):
                if self._wire.state is not keepty.State.OPEN:
                    raise _Left(1, f"fairlead attach: {message.text}")
                self._terminal.show(f"\r\nfairlead: {message.text}\r\n".encode())
            elif isinstance(message, Broken):
                self._lose()
                return

    def _has_frame(self) -> bool:
        """Whether there is something to send, which nothing but a Hello is until the session has answered."""
        if not self._frame and self._wire.state is keepty.State.OPEN:
            if self._resized:
                self._resized = False
                cols, rows = self._terminal.size
                self._frame = self._wire.send(keepty.Resize(_WIDEST if self._watch else cols, rows))
            elif self._typed:
                self._input = bytes(self._typed[:FRAME_SIZE])
                del self._typed[:FRAME_SIZE]
                self._frame = self._wire.send(keepty.Input(self._input))
        return bool(self._frame)

    def _send(self, connection: socket.socket) -> None:
        self._frame = self._frame[connection.send(self._frame) :]
        self._sent_at = time.monotonic()
        if not self._frame:
            self._input = b""

    # --- the person ---------------------------------------------------------------------------------------

    def _takes_keys(self) -> bool:
        if self._typing_over:
            return False
        if len(self._typed) < MAX_UNSENT:
            return True
        return self._terminal.is_typed and self._is_over(self._sent_at, STALLED)

    def _read_keys(self) -> None:
        typed = self._terminal.read(READ_SIZE)
        if not typed:
            self._typing_over = True
        elif self._watch:
            for key, _ in self._keys.keys(typed):
                if key in (ord("q"), _CTRL_C):
                    self._leave()
                self._resized = self._resized or key == ord("r")
        else:
            end = self._keys.detaches(typed)
            if len(self._typed) < MAX_UNSENT:
                self._typed += typed[:end]
            else:
                self._terminal.show(b"\a")
            if end is not None:
                self._last_words()
                self._leave()

    def _leave(self) -> None:
        raise _Left(0, f"left {self._name}; `fairlead attach {self._name}` comes back")

    def _last_words(self) -> None:
        """Send what was typed before leaving, if the session takes it now."""
        deadline = time.monotonic() + LAST_WORDS_WAIT
        with contextlib.suppress(OSError):
            while self._connection is not None and self._has_frame():
                left = max(0.0, deadline - time.monotonic())
                if not select.select([], [self._connection], [], left)[1]:
                    break
                self._send(self._connection)

    def _show(self) -> None:
        try:
            self._terminal.flush()
        except BrokenPipeError:  # who read our output has gone
            raise _Left(128 + signal.SIGPIPE) from None

    def _signalled(self) -> None:
        for number in self._bell.recv(64):
            if number == signal.SIGWINCH:
                self._resized = True
            elif number == signal.SIGCONT:  # the shell has used the terminal meanwhile
                self._terminal.make_raw()
                self._lose()
            elif number in _SIGNALS:
                raise _Left(128 + number)
