"""The keeper: the process that owns one PTY and the program in it, and drains it for a daemon that may die.

It holds what must survive the daemon: the PTY's end, the program and its exit status, the last keyframe (a
blob that only the daemon understands) and everything that was printed or resized since. The daemon connects
to the keeper's socket, is told all that, and from then on gets every byte as it comes; when it dies, the next
one does the same (`base`).

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
import json
import os
import selectors
import signal
import socket
import time
from collections import deque
from functools import partial
from typing import NamedTuple

from . import loan, terminal
from .base import ProgramKeeper, ProgramSpec, Unwritten, read_some
from .program import start
from .protocol import (
    BORROW,
    KEYFRAME,
    LENT,
    MARK,
    MAX_NOTE,
    NUMBER,
    OFFSET,
    RESIZE,
    VERSION,
    FrameKind,
    frame,
)

WINDOW = 8 * 1024 * 1024
"""How many printed bytes are kept for a daemon that has not confirmed them with a keyframe."""
INPUT_WINDOW = 256 * 1024
"""How many bytes of input a daemon may send before the program's terminal has taken them."""
MAX_INPUT = 4 * INPUT_WINDOW
"""More input than this, from a daemon that does not count, is dropped."""
MAX_BURST = 16
"""How often the PTY is read before anything else gets its turn."""
SECOND_LOOK = 0.04
"""Seconds after which a program whose terminal grew wider gets SIGWINCH again: some redraw too early."""


class Spec(ProgramSpec):
    """A program for a PTY of this size."""

    cols: int
    rows: int


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
                    frames.append(frame(FrameKind.DATA, OFFSET.pack(offset), before))
                    offset = mark.offset
                frames.append(frame(FrameKind.RESIZED, MARK.pack(*mark)))
            frames.append(frame(FrameKind.DATA, OFFSET.pack(offset), chunk))
            offset += len(chunk)
        return frames + [frame(FrameKind.RESIZED, MARK.pack(*mark)) for mark in marks]


class Keeper(ProgramKeeper):
    """One PTY and its program."""

    def __init__(self, spec: Spec, listener: socket.socket, ends: tuple[int, int]) -> None:
        """Keep this program in a terminal with these two ends; daemons come to the listener."""
        super().__init__(spec, listener)
        self._cols, self._rows = spec["cols"], spec["rows"]
        self._generation = 0
        self._printed_at: float | None = None  # by the monotonic clock, as the other one may jump
        self._keyframe: bytes | None = None
        self._note = spec.get("note")
        self._tail = _Tail()
        self._ours, self._theirs = ends
        memory = loan.create()
        self._loan = loan.Loan(memory) if memory >= 0 else None
        self._lent = False  # the daemon reads the PTY, and we don't
        self._drained = False  # nothing can come from the PTY any more
        self._second_look: float | None = None
        self._input = Unwritten()
        self._answered = 0  # questions of the program before this offset were the last daemon's to answer
        self._handlers |= {
            FrameKind.INPUT: self._on_input,
            FrameKind.RESIZE: self._on_resize,
            FrameKind.SET_KEYFRAME: self._on_keyframe,
            FrameKind.SET_NOTE: self._on_note,
            FrameKind.HANG_UP: self._on_hang_up,
            FrameKind.BORROW: self._on_borrow,
            FrameKind.RETURN: self._on_return,
        }

    # --- the loop -----------------------------------------------------------------------------------------

    def _look_for_work(self) -> None:
        """Look at the PTY for what can be done now: take output if there is room, give input if any."""
        wanted = 0
        if not self._drained and not self._lent and len(self._tail) < WINDOW:
            wanted |= selectors.EVENT_READ
        if self._input.size:
            wanted |= selectors.EVENT_WRITE
        self._watch(self._ours, wanted, self._terminal_ready)

    def _next_look(self) -> float | None:
        return self._second_look

    def _worked(self) -> None:
        if self._second_look is not None and time.monotonic() >= self._second_look:
            self._second_look = None
            with contextlib.suppress(OSError):
                os.killpg(os.tcgetpgrp(self._ours), signal.SIGWINCH)

    # --- the program --------------------------------------------------------------------------------------

    def _launch(self) -> int:
        spec = self._program
        set_up = partial(terminal.take, self._theirs)
        return start(spec["command"], spec["cwd"], spec["environment"], set_up)

    def _finish(self) -> None:
        """Tell that the program has ended once all that it printed is told."""
        if self._exit is None or self._is_over:
            return
        if self._lent:
            self._tell(FrameKind.ENDING)
            return
        while not self._drained and len(self._tail) < WINDOW:
            if not self._read_terminal():
                self._drained = True
        if self._drained:
            self._over()
            self._tell(FrameKind.EXITED, NUMBER.pack(self._exit))

    # --- its terminal -------------------------------------------------------------------------------------

    def _terminal_ready(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._write_terminal()
        if events & selectors.EVENT_READ:
            self._read_terminal()
            self._finish()

    def _read_terminal(self) -> bool:
        """Take what the program printed, for a while; tells whether there was anything."""
        if self._lent:
            return False
        printed, at_end = read_some(self._ours, MAX_BURST)
        self._drained |= at_end
        if not printed:
            return False
        self._printed_at = time.monotonic()
        offset = self._tail.end
        self._tail.print(printed)
        self._tell(FrameKind.DATA, OFFSET.pack(offset), printed)
        return True

    def _write_terminal(self) -> None:
        waiting = self._input.size
        try:
            taken = self._input.write(self._ours)
        except OSError:  # the terminal is gone: nobody will read it
            taken = waiting
        if taken:
            self._tell(FrameKind.TAKEN, NUMBER.pack(taken))

    # --- the daemon ---------------------------------------------------------------------------------------

    def _greet(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # a connection that is new has room for this
            ends = [self._ours] if self._loan is None else [self._ours, self._loan.descriptor]
            socket.send_fds(connection, [frame(FrameKind.STATE, json.dumps(self._state()).encode())], ends)
        if self._keyframe is not None:
            self._tell(FrameKind.KEYFRAME, self._keyframe)
        for told in self._tail.frames():
            self._send(told)
        if self._failure:
            self._tell(FrameKind.FAILED, self._failure.encode())
        if self._is_over and self._exit is not None:
            self._tell(FrameKind.EXITED, NUMBER.pack(self._exit))

    def _state(self) -> dict[str, object]:
        now = time.monotonic()
        note: dict[str, object] = {} if self._note is None else {"note": self._note}
        return {
            **super()._state(),
            **note,
            "version": VERSION,
            "cols": self._cols,
            "rows": self._rows,
            "generation": self._generation,
            "untaken": self._input.size,
            "quiet": None if self._printed_at is None else now - self._printed_at,
            "printed": self._tail.end,
            "answered": self._answered,
            "window": WINDOW,
            "input_window": INPUT_WINDOW,
        }

    def _daemon_gone(self) -> None:
        self._take_back()
        self._answered = self._tail.end

    def _take_back(self) -> None:
        """Read the terminal ourselves again, after what the daemon has read of it."""
        if self._lent and self._loan is not None:
            self._lent = False
            printed, moment = self._loan.take()
            if printed:
                self._tail.print(printed)
                self._printed_at = moment or time.monotonic()
            self._finish()

    # --- what it asks for -----------------------------------------------------------------------------------

    def _on_input(self, payload: bytes) -> None:
        waiting = self._input.size
        if not payload or waiting + len(payload) > MAX_INPUT:
            return
        self._input.put(payload)
        if not waiting:
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
        self._tell(FrameKind.RESIZED, MARK.pack(*self._tail.resize(cols, rows, generation)))

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
        self._finish()

    def _on_borrow(self, payload: bytes) -> None:
        if self._loan is None or self._lent or self._drained or not self._pid:
            return
        self._lent = True
        self._tell(FrameKind.LENT, LENT.pack(BORROW.unpack(payload)[0], self._tail.end))
        self._finish()

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
        if self._is_unstarted:
            self._on_resize(payload)
            self._start()
