"""What every keeper does: own one program, keep its exit status, and serve one daemon at a time.

A daemon connects to the keeper's socket and is told everything; when it dies, the next one does the same. A
daemon is left only for one that claims its place and holds the daemons' lock; any other newcomer waits until
the present one has gone. How the program is started, what it prints and what it is given is for the kinds of
keepers to say: `keeper` has a PTY, `pipes` has pipes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import NotRequired, TypedDict

from .credentials import is_our_user, peer_pid
from .program import NOT_EXECUTABLE, StartError
from .protocol import BEGAN, NUMBER, Decoder, FrameKind, frame
from .sockets import listening

READ_SIZE = 65_536
AHEAD = 48 * 1024
"""How many bytes may be under way to a daemon, so that no session's flood keeps it from the others."""
SMALL_READ = 512
"""A read that gives less than this has emptied its source, most likely."""
KEEP_STATUS = 24 * 3600.0
"""Seconds that the exit status waits for a daemon to note it."""
LOCK = "daemon.lock"
"""The file in the runtime directory, one above ours, that has the present daemon's process id in it."""
MAX_NEWCOMERS = 8
"""How many connections may wait to be the daemon; one more and the oldest is closed."""
NEWCOMER_WAIT = 15.0
"""Seconds that one may wait: longer than an older daemon waits for STATE, and a newer one claims at once."""
LISTEN_LOOK = 5.0
"""Seconds between looks whether our socket is still there while there is no daemon."""
BACKLOG = 64
"""How many connections may wait to be accepted."""
MAX_CLAIM = 4096
"""How many bytes one that waits may send before it has claimed."""


class ProgramSpec(TypedDict):
    """What to keep: given to the nursery as JSON."""

    id: str
    command: list[str]
    cwd: str
    environment: dict[str, str]
    deferred: bool
    """Whether the program is started only when a daemon says so."""
    note: NotRequired[dict[str, object]]
    """The daemon's note to begin with."""


def read_some(descriptor: int, times: int) -> tuple[bytes, bool]:
    """What can be read now, in so many reads at most, and whether nothing can come any more."""
    chunks = []
    at_end = False
    try:
        for _ in range(times):
            data = os.read(descriptor, READ_SIZE)
            if not data:
                at_end = True
                break
            chunks.append(data)
            if len(data) < SMALL_READ:
                break
    except BlockingIOError:
        pass
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        at_end = True  # a terminal that was hung up: its session's leader has ended
    return b"".join(chunks), at_end


class Unwritten:
    """Bytes that wait until the program takes them."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: deque[memoryview] = deque()

    def put(self, data: bytes) -> None:
        self._parts.append(memoryview(data))
        self.size += len(data)

    def write(self, descriptor: int) -> int:
        """Write what can be written now; returns how many bytes that were. If the other end is gone, all that
        waits is dropped, and OSError is raised."""
        before = self.size
        try:
            while self._parts:
                part = self._parts[0]
                count = os.write(descriptor, part)
                self.size -= count
                if count == len(part):
                    self._parts.popleft()
                else:
                    self._parts[0] = part[count:]
        except BlockingIOError:
            pass
        except OSError:
            self._parts.clear()
            self.size = 0
            raise
        return before - self.size


class _Newcomer:
    """A connection that may become the daemon's: it waits to claim that, or for the present one to go."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.deadline = time.monotonic() + NEWCOMER_WAIT


class ProgramKeeper:
    """One program. `run` returns when the program has ended and its status was noted."""

    def __init__(self, spec: ProgramSpec, listener: socket.socket) -> None:
        """Keep this program; daemons come to the listener."""
        self._program = spec
        self._made_at = time.monotonic()
        self._pid = 0
        self._started_at = time.time()
        self._failure = ""
        self._exit: int | None = None
        self._exited_at = 0.0  # by the monotonic clock, which never jumps
        self._is_over = False  # the program has ended, and nothing more comes from it
        self._give_up: float | None = None  # when nobody has come for the exit status
        self._dismissed = False
        self._listener = listener
        self._daemon: socket.socket | None = None
        self._newcomers: list[_Newcomer] = []
        self._decoder = Decoder()
        self._outgoing: deque[bytes] = deque()
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, int] = {}  # the events of the program's descriptors that are looked for
        self._handlers: dict[int, Callable[[bytes], None]] = {
            FrameKind.SIGNAL: self._on_signal,
            FrameKind.START: self._on_start,
            FrameKind.DISMISS: self._on_dismiss,
        }

    # --- what a kind of keeper says -------------------------------------------------------------------------

    def _launch(self) -> int:
        """Start the program; returns its process id. Raises StartError."""
        raise NotImplementedError

    def _look_for_work(self) -> None:
        """Before each wait: say which descriptors to `_watch`."""
        raise NotImplementedError

    def _worked(self) -> None:
        """After each wait."""

    def _next_look(self) -> float | None:
        """The moment at which a wait must end."""
        return None

    def _finish(self) -> None:
        """The program has ended: once all that it printed is taken, be `_over`."""
        raise NotImplementedError

    def _greet(self, connection: socket.socket) -> None:
        """Tell a new daemon all there is."""
        raise NotImplementedError

    def _sent_all(self) -> None:
        """The daemon's connection has room for more."""

    def _daemon_gone(self) -> None:
        """There is no daemon any more."""

    # --- the loop -----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Keep the program until it has ended and a daemon has noted it."""
        bell, ringer = socket.socketpair()
        for end in (bell, ringer, self._listener):
            end.setblocking(False)
        signal.set_wakeup_fd(ringer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, stack: None)
        for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGTTOU):
            signal.signal(ignored, signal.SIG_IGN)
        self._selector.register(bell, selectors.EVENT_READ, lambda events: self._reap(bell))
        self._selector.register(self._listener, selectors.EVENT_READ, lambda events: self._accept())
        if not self._program["deferred"]:
            self._start()
        while not self._dismissed and (self._give_up is None or time.monotonic() < self._give_up):
            self._look_for_work()
            for key, events in self._selector.select(self._timeout()):
                key.data(events)
            self._look_at_newcomers()
            if self._daemon is None:
                self._listen_again()
            self._worked()
        if self._daemon is not None:
            self._daemon.close()

    def _timeout(self) -> float | None:
        times = [moment for moment in (self._next_look(), self._give_up) if moment is not None]
        times += [newcomer.deadline for newcomer in self._newcomers]
        if self._daemon is None:
            times.append(time.monotonic() + LISTEN_LOOK)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _watch(self, descriptor: int, wanted: int, ready: Callable[[int], None]) -> None:
        """Look at a descriptor for these events from now on, or for none."""
        watched = self._watched.get(descriptor, 0)
        if wanted == watched:
            return
        if not watched:
            self._selector.register(descriptor, wanted, ready)
        elif not wanted:
            self._selector.unregister(descriptor)
        else:
            self._selector.modify(descriptor, wanted, ready)
        self._watched[descriptor] = wanted

    # --- the program --------------------------------------------------------------------------------------

    @property
    def _is_unstarted(self) -> bool:
        return not self._pid and self._exit is None

    def _start(self) -> None:
        cwd = self._program["cwd"]
        try:
            if not os.path.isdir(cwd):
                raise StartError(f"no such directory: {cwd}", NOT_EXECUTABLE)
            self._pid = self._launch()
        except StartError as error:
            self._failure = str(error)
            self._exit = error.code
            self._exited_at = time.monotonic()
            self._tell(FrameKind.FAILED, self._failure.encode())
            self._finish()
        else:
            self._started_at = time.time()
            self._tell(FrameKind.BEGAN, BEGAN.pack(self._started_at))
            self._tell(FrameKind.STARTED, NUMBER.pack(self._pid))

    def _reap(self, bell: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            bell.recv(4096)
        if not self._pid or self._exit is not None:
            return
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._ended(os.waitstatus_to_exitcode(status))

    def _ended(self, code: int) -> None:
        """The program has ended, with a code or by a signal, which is negative."""
        self._exit = 128 - code if code < 0 else code
        self._exited_at = time.monotonic()
        self._finish()

    def _over(self) -> None:
        """The program has ended, and all that it printed was taken."""
        self._is_over = True
        self._give_up = time.monotonic() + KEEP_STATUS

    def _signal(self, number: int) -> None:
        if self._pid and self._exit is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)

    # --- the daemon ---------------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if not is_our_user(connection):
            connection.close()
            return
        connection.setblocking(False)
        if self._daemon is None:
            self._serve(connection)
            return
        if len(self._newcomers) >= MAX_NEWCOMERS:
            self._turn_away(self._newcomers[0])
        newcomer = _Newcomer(connection)
        self._newcomers.append(newcomer)
        self._selector.register(connection, selectors.EVENT_READ, lambda events: self._hear(newcomer))

    def _hear(self, newcomer: _Newcomer) -> None:
        """One that waits says something: if it claims the daemon's place and may, it has it."""
        if newcomer not in self._newcomers:  # it was turned away since the selector saw it
            return
        try:
            data = newcomer.connection.recv(MAX_CLAIM)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        newcomer.received += data
        try:
            frames = Decoder().feed(newcomer.received) if len(newcomer.received) <= MAX_CLAIM else None
        except ValueError:
            frames = None
        if not data or frames is None or (frames and not self._may_claim(newcomer, *frames[0])):
            self._turn_away(newcomer)
        elif frames:
            self._drop_daemon()
            self._promote(newcomer)

    def _may_claim(self, newcomer: _Newcomer, kind: int, payload: bytes) -> bool:
        """Whether this is a claim by the process that holds the daemons' lock, if that can be known."""
        try:
            if kind != FrameKind.CLAIM or not isinstance(json.loads(payload), dict):
                return False
        except (ValueError, RecursionError):
            return False
        holder, peer = self._lock_holder(), peer_pid(newcomer.connection)
        return holder is None or peer is None or holder == peer

    def _lock_holder(self) -> int | None:
        """The daemon that has written itself into the lock of the runtime directory that we are in."""
        try:
            runtime = os.path.dirname(os.path.dirname(self._listener.getsockname()))
            with open(f"{runtime}/{LOCK}", "rb") as lock:
                return int(lock.read(32))
        except (OSError, ValueError):  # there is none, or it was told to stop
            return None

    def _turn_away(self, newcomer: _Newcomer) -> None:
        self._newcomers.remove(newcomer)
        self._selector.unregister(newcomer.connection)
        newcomer.connection.close()

    def _promote(self, newcomer: _Newcomer) -> None:
        """One that waited is the daemon now; what it has said beside its claim is heard."""
        self._newcomers.remove(newcomer)
        self._selector.unregister(newcomer.connection)
        self._serve(newcomer.connection)
        self._take(newcomer.received)

    def _look_at_newcomers(self) -> None:
        """Those who waited too long go; without a daemon the last who came is served, claim or not."""
        for newcomer in [each for each in self._newcomers if time.monotonic() >= each.deadline]:
            self._turn_away(newcomer)
        if self._daemon is None and self._newcomers:
            self._promote(self._newcomers[-1])

    def _serve(self, connection: socket.socket) -> None:
        """Make this the daemon's connection: tell it all there is."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, AHEAD)
        self._daemon = connection
        self._decoder = Decoder()
        self._selector.register(connection, selectors.EVENT_READ, self._daemon_ready)
        self._greet(connection)

    def _state(self) -> dict[str, object]:
        """What STATE tells of any keeper's program."""
        now = time.monotonic()
        return {
            "id": self._program["id"],
            "command": self._program["command"],
            "cwd": self._program["cwd"],
            "deferred": self._program["deferred"] and self._is_unstarted,
            "pid": self._pid,
            "started_at": self._started_at,
            "age": now - self._made_at,
            **({} if self._exit is None else {"ended_for": now - self._exited_at}),
        }

    def _tell(self, kind: FrameKind, *parts: bytes) -> None:
        if self._daemon is not None:
            self._send(frame(kind, *parts))

    def _send(self, data: bytes) -> None:
        if self._daemon is None:
            return
        if not self._outgoing:
            data = self._sent(data)
            if not data or self._daemon is None:
                return
        self._send_later(data)

    def _send_later(self, data: bytes) -> None:
        """Send this when the daemon's connection has room."""
        assert self._daemon is not None
        if not self._outgoing:
            self._selector.modify(
                self._daemon, selectors.EVENT_READ | selectors.EVENT_WRITE, self._daemon_ready
            )
        self._outgoing.append(data)

    def _sent(self, data: bytes) -> bytes:
        """Send what the socket takes; gives the rest."""
        assert self._daemon is not None
        try:
            return data[self._daemon.send(data) :]
        except BlockingIOError:
            return data
        except OSError:
            self._drop_daemon()
            return b""

    def _daemon_ready(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            while self._outgoing and self._daemon is not None:
                data = self._outgoing.popleft()
                if rest := self._sent(data):
                    self._outgoing.appendleft(rest)
                    break
            else:
                if self._daemon is not None:
                    self._selector.modify(self._daemon, selectors.EVENT_READ, self._daemon_ready)
                    self._sent_all()
        if events & selectors.EVENT_READ and self._daemon is not None:
            try:
                data = self._daemon.recv(READ_SIZE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if data:
                self._take(data)
            else:
                self._drop_daemon()

    def _take(self, data: bytes) -> None:
        """Do what the daemon asks for."""
        try:
            for kind, payload in self._decoder.feed(data):
                if handle := self._handlers.get(kind):
                    handle(payload)
        except (OSError, ValueError, struct.error):  # not a daemon that we understand
            self._drop_daemon()

    def _drop_daemon(self) -> None:
        if self._daemon is not None:
            daemon, self._daemon = self._daemon, None
            self._selector.unregister(daemon)
            daemon.close()
        self._outgoing.clear()
        self._daemon_gone()
        self._listen_again()

    def _listen_again(self) -> None:
        """Make our socket anew if somebody deleted it: without it the next daemon does not find us."""
        path = self._listener.getsockname()
        if os.path.lexists(path):
            return
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            listener = listening(path, BACKLOG)
        except OSError:  # the next look may do it
            return
        listener.setblocking(False)
        self._selector.unregister(self._listener)
        self._listener.close()
        self._listener = listener
        self._selector.register(listener, selectors.EVENT_READ, lambda events: self._accept())

    # --- what it asks for -----------------------------------------------------------------------------------

    def _on_signal(self, payload: bytes) -> None:
        self._signal(NUMBER.unpack(payload)[0])

    def _on_start(self, payload: bytes) -> None:
        if self._is_unstarted:
            self._start()

    def _on_dismiss(self, payload: bytes) -> None:
        if self._is_over or self._is_unstarted:
            self._dismissed = True
