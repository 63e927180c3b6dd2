"""The keeper of pipes: the process that owns a program which talks over its standard input and output.

What the program prints is kept until a daemon confirms it, which it does with a blob of its own state: "what
lies before this offset is in here". The next daemon gets the last blob and everything since, so that it
handles each line once. What memory can't hold goes to a file (`backlog`); when that is full as well the
keeper stops reading, and the program waits. Of the standard error only the end is kept.

What a daemon writes has numbers. A number that was accepted is never written again, so a daemon that does not
know whether its last words were heard says them once more.

The program has ended when its own process has. What others still print to its pipes is not its own: they get
a SIGHUP, as from a terminal that is closed, and nobody reads them any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import struct
import termios
from typing import NotRequired

from .backlog import Backlog
from .base import READ_SIZE, ProgramKeeper, ProgramSpec, Unwritten, read_some
from .program import NO_ROOM, StartError, start
from .protocol import (
    ACCEPTED,
    ENDED,
    MAX_BLOB,
    MAX_WRITE,
    OFFSET,
    PIPES_VERSION,
    SEQUENCE,
    FrameKind,
    Stdin,
    frame,
)

IN_MEMORY = 512 * 1024
"""How many printed bytes that no daemon has confirmed are kept in memory."""
ON_DISK = 256 * 1024 * 1024
"""How many more of them are kept in a file, before the program must wait."""
INPUT_QUEUE = 1024 * 1024
"""When so many bytes wait for the program to read them, no more lines are accepted."""
STDERR_TAIL = 64 * 1024
"""How many of the last bytes of the standard error are kept."""
MAX_READS = 4
"""How often a pipe is read before anything else gets its turn."""
MAX_FRAMES = 16
"""How many frames of what was printed are sent before anything else gets its turn."""


class PipeSpec(ProgramSpec):
    """A program with pipes, and what is kept of it."""

    directory: str
    """Where the file is that memory's excess goes to."""
    in_memory: NotRequired[int]
    on_disk: NotRequired[int]
    input_queue: NotRequired[int]


class PipeKeeper(ProgramKeeper):
    """A program and its three pipes."""

    def __init__(self, spec: PipeSpec, listener: socket.socket) -> None:
        """Keep this program; daemons come to the listener."""
        super().__init__(spec, listener)
        self._note = spec.get("note", {})
        self._backlog = Backlog(
            spec["directory"], spec.get("in_memory", IN_MEMORY), spec.get("on_disk", ON_DISK)
        )
        self._blob: bytes | None = None
        self._stdin = self._stdout = self._stderr = -1
        self._errors = bytearray()
        self._ended_by = 0  # the signal
        self._input = Unwritten()
        self._max_input = spec.get("input_queue", INPUT_QUEUE)
        self._input_state = Stdin.OPEN
        self._accepted = 0  # the number of the last line
        self._told_waiting = 0  # how many bytes of input the daemon thinks wait
        self._told = 0  # the offset up to which the daemon was told what was printed
        self._told_closed = self._told_exit = False
        self._handlers |= {
            FrameKind.CONFIRM: self._on_confirm,
            FrameKind.WRITE: self._on_write,
            FrameKind.CLOSE_STDIN: self._on_close_stdin,
            FrameKind.ASK_STDERR: self._on_ask_stderr,
        }

    # --- the program --------------------------------------------------------------------------------------

    def _launch(self) -> int:
        spec = self._program
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            try:
                pipes = [_pipe(ours, theirs, ours_writes=number == 0) for number in (0, 1, 2)]
            except OSError as error:
                why = f"can't start {spec['command'][0]!r}: {error.strerror}"
                raise StartError(why, NO_ROOM) from None

            def take() -> None:
                for number, (_, end) in enumerate(pipes):
                    os.dup2(end, number)

            pid = start(spec["command"], spec["cwd"], spec["environment"], take)
            ours.pop_all()
        self._stdin, self._stdout, self._stderr = (end for end, _ in pipes)
        self._write_stdin()
        return pid

    def _look_for_work(self) -> None:
        if self._stdin >= 0:
            self._watch(
                self._stdin, selectors.EVENT_WRITE if self._input.size else 0, lambda _: self._write_stdin()
            )
        if self._stdout >= 0:
            wanted = selectors.EVENT_READ if self._backlog.has_room else 0
            self._watch(self._stdout, wanted, lambda _: self._read_stdout())
        if self._stderr >= 0:
            self._watch(self._stderr, selectors.EVENT_READ, lambda _: self._read_stderr())

    def _close(self, descriptor: int) -> int:
        """Close an end of ours; gives -1, which stands for one that is closed."""
        if descriptor >= 0:
            self._watch(descriptor, 0, lambda _: None)
            self._watched.pop(descriptor, None)
            os.close(descriptor)
        return -1

    def _read_stdout(self) -> None:
        if self._stdout < 0:  # closed since the selector saw it
            return
        printed, at_end = read_some(self._stdout, MAX_READS)
        self._backlog.add(printed)
        if at_end:
            self._stdout = self._close(self._stdout)
        self._tell_printed()

    def _read_stderr(self) -> None:
        if self._stderr < 0:
            return
        data, at_end = read_some(self._stderr, MAX_READS)
        self._keep_errors(data)
        if at_end:
            self._stderr = self._close(self._stderr)

    def _keep_errors(self, data: bytes) -> None:
        self._errors += data
        if len(self._errors) > 2 * STDERR_TAIL:
            del self._errors[:-STDERR_TAIL]

    def _write_stdin(self) -> None:
        """Give the program what it takes, and tell the daemon if that changes much."""
        if self._stdin < 0:
            return
        try:
            self._input.write(self._stdin)
        except OSError:  # nobody will read it
            self._input_state = Stdin.GONE
        if self._input_state is Stdin.GONE or (self._input_state is Stdin.CLOSED and not self._input.size):
            self._stdin = self._close(self._stdin)
            self._tell_accepted()
        elif self._input.size < self._max_input // 2 <= self._told_waiting:
            self._tell_accepted()

    def _ended(self, code: int) -> None:
        self._ended_by = max(0, -code)
        for number in (signal.SIGHUP, signal.SIGCONT):  # those of its group that it left behind
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)
        super()._ended(code)

    def _finish(self) -> None:
        """Take what the program had written when it ended, which is no more than its pipes can hold."""
        if self._stdout >= 0:
            self._backlog.add(_rest(self._stdout))
        if self._stderr >= 0:
            self._keep_errors(_rest(self._stderr))
        self._stdin, self._stdout, self._stderr = map(self._close, (self._stdin, self._stdout, self._stderr))
        if self._input_state is Stdin.OPEN:
            self._input_state = Stdin.GONE
        self._over()
        self._tell_printed()

    # --- the daemon ---------------------------------------------------------------------------------------

    def _greet(self, connection: socket.socket) -> None:
        self._told = self._backlog.start
        self._told_closed = self._told_exit = False
        self._told_waiting = self._input.size
        self._tell(FrameKind.STATE, json.dumps(self._state()).encode())
        if self._blob is not None:
            self._tell(FrameKind.CONFIRMED, OFFSET.pack(self._backlog.start), self._blob)
        if self._failure:
            self._tell(FrameKind.FAILED, self._failure.encode())
        self._tell_printed()

    def _state(self) -> dict[str, object]:
        return {
            **super()._state(),
            "version": PIPES_VERSION,
            "keeper": os.getpid(),
            "note": self._note,
            "has_blob": self._blob is not None,
            "offset": self._backlog.start,
            "printed": self._backlog.end,
            "accepted": self._accepted,
            "waiting": self._input.size,
            "stdin": self._input_state,
            "input_queue": self._max_input,
        }

    def _sent_all(self) -> None:
        self._tell_printed()

    def _tell_printed(self) -> None:
        """Tell the daemon more of what was printed, as long as its connection takes it; at last the end."""
        for _ in range(MAX_FRAMES):
            if self._daemon is None or self._outgoing or self._told == self._backlog.end:
                break
            self._send(self._next_frame())
        else:
            if self._daemon is not None and not self._outgoing and self._told < self._backlog.end:
                self._send_later(self._next_frame())
        if self._daemon is None or self._told < self._backlog.end:
            return
        if self._stdout < 0 and not self._is_unstarted and not self._told_closed:
            self._told_closed = True
            self._tell(FrameKind.DATA, OFFSET.pack(self._told))
        if self._is_over and self._exit is not None and not self._told_exit:
            self._told_exit = True
            self._on_ask_stderr(b"")
            self._tell(FrameKind.EXITED, ENDED.pack(self._exit, self._ended_by))

    def _next_frame(self) -> bytes:
        data = self._backlog.read(self._told, READ_SIZE)
        offset = OFFSET.pack(self._told)
        self._told += len(data)
        return frame(FrameKind.DATA, offset, data)

    def _tell_accepted(self, *, refused: bool = False) -> None:
        self._told_waiting = self._input.size
        state = Stdin.FULL if refused and self._input_state is Stdin.OPEN else self._input_state
        self._tell(FrameKind.ACCEPTED, ACCEPTED.pack(self._accepted, self._input.size, state))

    # --- what it asks for -----------------------------------------------------------------------------------

    def _on_confirm(self, payload: bytes) -> None:
        (offset,) = OFFSET.unpack_from(payload)
        blob = payload[OFFSET.size :]
        if len(blob) > MAX_BLOB:
            raise ValueError(f"a state of {len(blob)} bytes; expected at most {MAX_BLOB}")
        self._backlog.forget(offset)
        self._blob = blob
        self._told = max(self._told, offset)

    def _on_write(self, payload: bytes) -> None:
        (sequence,) = SEQUENCE.unpack_from(payload)
        line = payload[SEQUENCE.size :]
        if len(line) > MAX_WRITE:
            raise ValueError(f"a line of {len(line)} bytes; expected at most {MAX_WRITE}")
        if (
            sequence == self._accepted + 1
            and self._input_state is Stdin.OPEN
            and self._input.size < self._max_input
        ):
            self._accepted = sequence
            self._input.put(line)
            self._write_stdin()
        self._tell_accepted(refused=sequence > self._accepted)

    def _on_close_stdin(self, payload: bytes) -> None:
        if self._input_state is Stdin.OPEN:
            self._input_state = Stdin.CLOSED
            self._write_stdin()

    def _on_ask_stderr(self, payload: bytes) -> None:
        self._tell(FrameKind.STDERR, bytes(self._errors[-STDERR_TAIL:]))


def _pipe(ours: contextlib.ExitStack, theirs: contextlib.ExitStack, *, ours_writes: bool) -> tuple[int, int]:
    """A new pipe's ends, ours, which doesn't block, and the program's; each stack closes its own."""
    reading, writing = os.pipe()
    mine, other = (writing, reading) if ours_writes else (reading, writing)
    ours.callback(os.close, mine)
    theirs.callback(os.close, other)
    os.set_blocking(mine, False)
    return mine, other


def _rest(descriptor: int) -> bytes:
    """What a pipe holds now."""
    (count,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))
    return os.read(descriptor, count) if count else b""
