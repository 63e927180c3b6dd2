"""The keeper: the process that owns one PTY and the program in it, and drains it for a daemon that may die.

It holds what must survive the daemon: the PTY's end, the program and its exit status, the last keyframe (a
blob that only the daemon understands) and everything that was printed or resized since. The daemon connects
to the keeper's socket, is told all that, and from then on gets every byte as it comes; when it dies, the next
one does the same. There is one daemon at a time. It is left only for one that claims its place and holds the
daemons' lock; any other newcomer waits until the present one has gone.

If the program prints more than a window of bytes without a new keyframe, the keeper stops reading: the
program waits, and nothing is lost or grows without bound. A daemon also gets the PTY's end itself, with
STATE, to type on it without a detour; what the terminal has no room for it gives to the keeper as INPUT, no
more than a window ahead of what is counted back (TAKEN), so that this too outlives the daemon.

While somebody types, the daemon may borrow the terminal and read it too, into memory that both share
(`loan`). The keeper then reads nothing until it is given back or the daemon dies; either way it takes what
was read from that memory, so that it has every byte as if it had read them.
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
from typing import NamedTuple, NotRequired, TypedDict

from . import loan, terminal
from .credentials import is_our_user, peer_pid
from .protocol import (
    BEGAN,
    BORROW,
    KEYFRAME,
    LENT,
    MARK,
    MAX_NOTE,
    NUMBER,
    OFFSET,
    RESIZE,
    VERSION,
    Decoder,
    Kind,
    frame,
)
from .sockets import listening

WINDOW = 8 * 1024 * 1024
"""How many printed bytes are kept for a daemon that has not confirmed them with a keyframe."""
INPUT_WINDOW = 256 * 1024
"""How many bytes of input a daemon may send before the program's terminal has taken them."""
MAX_INPUT = 4 * INPUT_WINDOW
"""More input than this, from a daemon that does not count, is dropped."""
READ_SIZE = 65_536
AHEAD = 48 * 1024
"""How many bytes may be under way to a daemon, so that no session's flood keeps it from the others."""
SMALL_READ = 512
"""A read that gives less than this has emptied the PTY, most likely."""
MAX_BURST = 16
"""How often the PTY is read before anything else gets its turn."""
SECOND_LOOK = 0.04
"""Seconds after which a program whose terminal grew wider gets SIGWINCH again: some redraw too early."""
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


class Spec(TypedDict):
    """What to keep: given to the nursery as JSON."""

    id: str
    command: list[str]
    cwd: str
    environment: dict[str, str]
    cols: int
    rows: int
    deferred: bool
    """Whether the program is started only when a daemon says so."""
    note: NotRequired[dict[str, object]]
    """The daemon's note to begin with."""


class _Mark(NamedTuple):
    """A place in the output where the size changed."""

    offset: int
    cols: int
    rows: int
    generation: int


class _Tail:
    """What happened since the last keyframe: printed bytes, and the places where the size changed."""

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self._chunks: deque[bytes] = deque()
        self._marks: list[_Mark] = []

    def __len__(self) -> int:
        return self.end - self.start

    def print(self, data: bytes) -> None:
        self._chunks.append(data)
        self.end += len(data)

    def resize(self, cols: int, rows: int, generation: int) -> _Mark:
        mark = _Mark(self.end, cols, rows, generation)
        self._marks.append(mark)
        return mark

    def forget(self, offset: int, generation: int) -> None:
        """Drop what a keyframe at this offset has in it."""
        if not self.start <= offset <= self.end:
            raise ValueError(f"a keyframe at {offset}, outside of {self.start} to {self.end}")
        while self._chunks and self.start + len(self._chunks[0]) <= offset:
            self.start += len(self._chunks.popleft())
        if self.start < offset:
            self._chunks[0] = self._chunks[0][offset - self.start :]
            self.start = offset
        self._marks = [mark for mark in self._marks if mark.generation > generation]

    def frames(self) -> list[bytes]:
        """All of it, in order, as it was told when it happened."""
        frames = []
        offset = self.start
        marks = deque(self._marks)
        for chunk in self._chunks:
            while marks and marks[0].offset < offset + len(chunk):
                mark = marks.popleft()
                before, chunk = chunk[: mark.offset - offset], chunk[mark.offset - offset :]
                if before:
                    frames.append(frame(Kind.DATA, OFFSET.pack(offset), before))
                    offset = mark.offset
                frames.append(frame(Kind.RESIZED, MARK.pack(*mark)))
            frames.append(frame(Kind.DATA, OFFSET.pack(offset), chunk))
            offset += len(chunk)
        return frames + [frame(Kind.RESIZED, MARK.pack(*mark)) for mark in marks]


class _Newcomer:
    """A connection that may become the daemon's: it waits to claim that, or for the present one to go."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""
        self.deadline = time.monotonic() + NEWCOMER_WAIT


class Keeper:
    """One PTY and its program. `run` returns when the program has ended and its status was noted."""

    def __init__(self, spec: Spec, listener: socket.socket, ends: tuple[int, int]) -> None:
        """Keep this program in a terminal with these two ends; daemons come to the listener."""
        self._spec = spec
        self._made_at = time.monotonic()
        self._cols, self._rows = spec["cols"], spec["rows"]
        self._generation = 0
        self._pid = 0
        self._started_at = time.time()
        self._printed_at: float | None = None  # by the monotonic clock, as the other one may jump
        self._failure = ""
        self._exit: int | None = None
        self._told_exit = False
        self._exited_at = 0.0  # by the monotonic clock, which never jumps
        self._give_up: float | None = None  # when nobody has come for the exit status
        self._dismissed = False
        self._keyframe: bytes | None = None
        self._note = spec.get("note")
        self._tail = _Tail()
        self._ours, self._theirs = ends
        memory = loan.create()
        self._loan = loan.Loan(memory) if memory >= 0 else None
        self._lent = False  # the daemon reads the PTY, and we don't
        self._drained = False  # nothing can come from the PTY any more
        self._watched = 0  # the events of the PTY that the selector looks at
        self._second_look: float | None = None
        self._input: deque[bytes] = deque()
        self._input_size = 0
        self._listener = listener
        self._daemon: socket.socket | None = None
        self._answered = 0  # questions of the program before this offset were the last daemon's to answer
        self._newcomers: list[_Newcomer] = []
        self._decoder = Decoder()
        self._outgoing: deque[bytes] = deque()
        self._selector = selectors.DefaultSelector()

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
        if not self._spec["deferred"]:
            self._start()
        while not self._dismissed and (self._give_up is None or time.monotonic() < self._give_up):
            self._watch_terminal()
            for key, events in self._selector.select(self._timeout()):
                key.data(events)
            self._look_at_newcomers()
            if self._daemon is None:
                self._listen_again()
            if self._second_look is not None and time.monotonic() >= self._second_look:
                self._second_look = None
                self._signal_foreground(signal.SIGWINCH)
        if self._daemon is not None:
            self._daemon.close()

    def _timeout(self) -> float | None:
        times = [moment for moment in (self._second_look, self._give_up) if moment is not None]
        times += [newcomer.deadline for newcomer in self._newcomers]
        if self._daemon is None:
            times.append(time.monotonic() + LISTEN_LOOK)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _watch_terminal(self) -> None:
        """Look at the PTY for what can be done now: take output if there is room, give input if any."""
        wanted = 0
        if not self._drained and not self._lent and len(self._tail) < WINDOW:
            wanted |= selectors.EVENT_READ
        if self._input:
            wanted |= selectors.EVENT_WRITE
        if wanted == self._watched:
            return
        if not self._watched:
            self._selector.register(self._ours, wanted, self._terminal_ready)
        elif not wanted:
            self._selector.unregister(self._ours)
        else:
            self._selector.modify(self._ours, wanted, self._terminal_ready)
        self._watched = wanted

    # --- the program --------------------------------------------------------------------------------------

    def _start(self) -> None:
        spec = self._spec
        try:
            if not os.path.isdir(spec["cwd"]):
                raise terminal.StartError(f"no such directory: {spec['cwd']}", terminal.NOT_EXECUTABLE)
            self._pid = terminal.start(spec["command"], spec["cwd"], spec["environment"], self._theirs)
        except terminal.StartError as error:
            self._failure = str(error)
            self._exit = error.code
            self._exited_at = time.monotonic()
            self._tell(Kind.FAILED, self._failure.encode())
            self._finish_if_drained()
        else:
            self._started_at = time.time()
            self._tell(Kind.BEGAN, BEGAN.pack(self._started_at))
            self._tell(Kind.STARTED, NUMBER.pack(self._pid))

    def _reap(self, bell: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            bell.recv(4096)
        if not self._pid or self._exit is not None:
            return
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self._exit = 128 - code if code < 0 else code
                self._exited_at = time.monotonic()
                self._finish_if_drained()

    def _finish_if_drained(self) -> None:
        """The program has ended: tell it once all that it printed is told."""
        if self._exit is None or self._told_exit:
            return
        if self._lent:
            self._tell(Kind.ENDING)
            return
        while not self._drained and len(self._tail) < WINDOW:
            if not self._read_terminal():
                self._drained = True
        if self._drained:
            self._told_exit = True
            self._give_up = time.monotonic() + KEEP_STATUS
            self._tell(Kind.EXITED, NUMBER.pack(self._exit))

    def _signal(self, number: int) -> None:
        if self._pid and self._exit is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)

    def _signal_foreground(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(os.tcgetpgrp(self._ours), number)

    # --- its terminal -------------------------------------------------------------------------------------

    def _terminal_ready(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._write_terminal()
        if events & selectors.EVENT_READ:
            self._read_terminal()
            self._finish_if_drained()

    def _read_terminal(self) -> bool:
        """Take what the program printed, for a while; tells whether there was anything."""
        if self._lent:
            return False
        chunks = []
        try:
            for _ in range(MAX_BURST):
                data = os.read(self._ours, READ_SIZE)
                if not data:
                    self._drained = True
                    break
                chunks.append(data)
                if len(data) < SMALL_READ:
                    break
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self._drained = True  # the terminal was hung up: its session's leader has ended
        if not chunks:
            return False
        printed = b"".join(chunks)
        self._printed_at = time.monotonic()
        offset = self._tail.end
        self._tail.print(printed)
        self._tell(Kind.DATA, OFFSET.pack(offset), printed)
        return True

    def _write_terminal(self) -> None:
        taken = 0
        try:
            while self._input:
                data = self._input[0]
                count = os.write(self._ours, data)
                taken += count
                if count == len(data):
                    self._input.popleft()
                else:
                    self._input[0] = data[count:]
        except BlockingIOError:
            pass
        except OSError:  # the terminal is gone: nobody will read it
            taken = self._input_size
            self._input.clear()
        if taken:
            self._input_size -= taken
            self._tell(Kind.TAKEN, NUMBER.pack(taken))

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
            if kind != Kind.CLAIM or not isinstance(json.loads(payload), dict):
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
        with contextlib.suppress(OSError):  # a connection that is new has room for this
            ends = [self._ours] if self._loan is None else [self._ours, self._loan.descriptor]
            socket.send_fds(connection, [frame(Kind.STATE, json.dumps(self._state()).encode())], ends)
        if self._keyframe is not None:
            self._tell(Kind.KEYFRAME, self._keyframe)
        for told in self._tail.frames():
            self._send(told)
        if self._failure:
            self._tell(Kind.FAILED, self._failure.encode())
        if self._told_exit and self._exit is not None:
            self._tell(Kind.EXITED, NUMBER.pack(self._exit))

    def _state(self) -> dict[str, object]:
        now = time.monotonic()
        more: dict[str, object] = {} if self._note is None else {"note": self._note}
        if self._exit is not None:
            more["ended_for"] = now - self._exited_at
        return more | {
            "version": VERSION,
            "id": self._spec["id"],
            "command": self._spec["command"],
            "cwd": self._spec["cwd"],
            "deferred": self._spec["deferred"] and not self._pid and self._exit is None,
            "pid": self._pid,
            "cols": self._cols,
            "rows": self._rows,
            "generation": self._generation,
            "started_at": self._started_at,
            "age": now - self._made_at,
            "untaken": self._input_size,
            "quiet": None if self._printed_at is None else now - self._printed_at,
            "printed": self._tail.end,
            "answered": self._answered,
            "window": WINDOW,
            "input_window": INPUT_WINDOW,
        }

    def _tell(self, kind: Kind, *parts: bytes) -> None:
        if self._daemon is not None:
            self._send(frame(kind, *parts))

    def _send(self, data: bytes) -> None:
        if self._daemon is None:
            return
        if not self._outgoing:
            data = self._sent(data)
            if not data or self._daemon is None:
                return
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
                if handle := _HANDLERS.get(kind):
                    handle(self, payload)
        except (OSError, ValueError, struct.error):  # not a daemon that we understand
            self._drop_daemon()

    def _drop_daemon(self) -> None:
        if self._daemon is not None:
            daemon, self._daemon = self._daemon, None
            self._selector.unregister(daemon)
            daemon.close()
        self._outgoing.clear()
        self._take_back()
        self._answered = self._tail.end
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

    def _take_back(self) -> None:
        """Read the terminal ourselves again, after what the daemon has read of it."""
        if self._lent and self._loan is not None:
            self._lent = False
            printed, moment = self._loan.take()
            if printed:
                self._tail.print(printed)
                self._printed_at = moment or time.monotonic()
            self._finish_if_drained()

    # --- what it asks for -----------------------------------------------------------------------------------

    def _on_input(self, payload: bytes) -> None:
        if not payload or self._input_size + len(payload) > MAX_INPUT:
            return
        self._input.append(payload)
        self._input_size += len(payload)
        if len(self._input) == 1:
            self._write_terminal()

    def _on_resize(self, payload: bytes) -> None:
        cols, rows, generation = RESIZE.unpack(payload)
        while len(self._tail) < WINDOW and self._read_terminal():
            pass  # what was printed so far belongs to the old size
        grew = cols > self._cols
        self._cols, self._rows, self._generation = cols, rows, generation
        with contextlib.suppress(OSError):
            terminal.set_size(self._ours, cols, rows)
        if grew:
            self._second_look = time.monotonic() + SECOND_LOOK
        self._tell(Kind.RESIZED, MARK.pack(*self._tail.resize(cols, rows, generation)))

    def _on_signal(self, payload: bytes) -> None:
        self._signal(NUMBER.unpack(payload)[0])

    def _on_hang_up(self, payload: bytes) -> None:
        if not self._pid or self._exit is not None:
            return
        groups = [self._pid]
        with contextlib.suppress(OSError):
            if (foreground := os.tcgetpgrp(self._ours)) > 0 and foreground != self._pid:
                groups.insert(0, foreground)
        for group in groups:
            for number in (signal.SIGHUP, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, number)

    def _on_keyframe(self, payload: bytes) -> None:
        offset, generation = KEYFRAME.unpack_from(payload)
        self._tail.forget(offset, generation)
        self._keyframe = payload
        self._finish_if_drained()

    def _on_borrow(self, payload: bytes) -> None:
        if self._loan is None or self._lent or self._drained or not self._pid:
            return
        self._lent = True
        self._tell(Kind.LENT, LENT.pack(BORROW.unpack(payload)[0], self._tail.end))
        self._finish_if_drained()

    def _on_return(self, payload: bytes) -> None:
        self._take_back()

    def _on_note(self, payload: bytes) -> None:
        if len(payload) > MAX_NOTE:
            return
        try:
            note = json.loads(payload)
        except RecursionError:
            note = None
        if not isinstance(note, dict):
            raise ValueError("a note that is not an object")
        self._note = note

    def _on_start(self, payload: bytes) -> None:
        if self._pid or self._exit is not None:
            return
        self._on_resize(payload)
        self._start()

    def _on_dismiss(self, payload: bytes) -> None:
        never_started = not self._pid and self._exit is None
        if self._told_exit or never_started:
            self._dismissed = True


_HANDLERS: dict[int, Callable[[Keeper, bytes], None]] = {
    Kind.INPUT: Keeper._on_input,
    Kind.RESIZE: Keeper._on_resize,
    Kind.SIGNAL: Keeper._on_signal,
    Kind.SET_KEYFRAME: Keeper._on_keyframe,
    Kind.START: Keeper._on_start,
    Kind.DISMISS: Keeper._on_dismiss,
    Kind.SET_NOTE: Keeper._on_note,
    Kind.HANG_UP: Keeper._on_hang_up,
    Kind.BORROW: Keeper._on_borrow,
    Kind.RETURN: Keeper._on_return,
}
