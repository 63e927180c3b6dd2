"""What a keeper and the daemon say to each other: the private protocol that must outlive both.

A frame is `[u32 length][u8 kind][payload]`, big-endian, where the length counts all after itself. The keeper
begins with STATE, the last keyframe and all that happened since; from then on both talk freely. Offsets count
the bytes that the program has printed since its start. A daemon's first frame is CLAIM: a keeper that has a
daemon leaves it only for one that claims its place and holds the daemons' lock.

A keeper of pipes begins with STATE, CONFIRMED if there is any, and all that was printed since; DATA without
bytes says that the program closed its output. It takes each WRITE once, in the order of their numbers.

A newer daemon must be able to talk to an older keeper: kinds are only ever added, STATE carries the keeper's
version, and either side skips a kind that it does not know.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

VERSION = 2
"""Version 1 knew neither CLAIM nor HANG_UP, and let any newcomer take its daemon's place."""
PIPES_VERSION = 1
"""The version that a keeper of pipes tells."""
MAX_FRAME = 64 * 1024 * 1024
"""How long a frame may be; the longest is a keyframe."""
MAX_NOTE = 64 * 1024
"""How many bytes of JSON a daemon's note may have."""
MAX_BLOB = 16 * 1024 * 1024
"""How many bytes the state may have that a daemon gives to a keeper of pipes."""
MAX_WRITE = 48 * 1024 * 1024
"""How many bytes one WRITE may carry: a prompt with pictures in it is long."""

_HEADER = Struct(">IB")
_LENGTH = 4
OFFSET = Struct(">Q")
KEYFRAME = Struct(">QI")
RESIZE = Struct(">HHI")
MARK = Struct(">QHHI")
NUMBER = Struct(">i")
LENT = Struct(">IQ")
BORROW = Struct(">I")
BEGAN = Struct(">d")
SEQUENCE = Struct(">Q")
ACCEPTED = Struct(">QIB")
ENDED = Struct(">ii")


class Stdin(IntEnum):
    """What became of the input of a program with pipes."""

    OPEN = 0
    FULL = 1
    """The last WRITE was not accepted: it must be sent again when there is room."""
    CLOSED = 2
    """The daemon closed it; what was accepted before is still written."""
    GONE = 3
    """The program closed it or ended; what it had not read is lost."""


class FrameKind(IntEnum):
    """What a frame is. The keeper sends those below 16."""

    STATE = 1
    """JSON: version, id, command, pid, size, when it started, the daemon's note if any, and so on."""
    KEYFRAME = 2
    """Offset, generation and blob: the screen at that offset, after the resize of that generation."""
    DATA = 3
    """Offset and what the program printed there."""
    RESIZED = 4
    """Offset, columns, rows, generation: the size changed there."""
    EXITED = 5
    """The exit code; 128 + n after a signal n. Nothing follows it. A keeper of pipes adds n, else 0."""
    FAILED = 6
    """A sentence: why the command could not be started. EXITED follows."""
    TAKEN = 7
    """How many bytes of input the program's terminal has taken since the last one."""
    STARTED = 8
    """The program's process id."""
    LENT = 9
    """The number of a BORROW and an offset: the daemon reads the terminal from there on."""
    ENDING = 10
    """The program has ended while the terminal is lent: the keeper wants it back."""
    BEGAN = 11
    """When the program was started, if that was put off: the time that STATE tells from now on."""
    CONFIRMED = 12
    """Offset and blob: the last CONFIRM."""
    ACCEPTED = 13
    """The number of the last WRITE that was accepted, how many bytes the program has not read yet, and what
    its input is (`Stdin`). It answers every WRITE, and comes when there is room again."""
    STDERR = 14
    """The end of what the program wrote to its standard error."""

    INPUT = 16
    """What is typed."""
    RESIZE = 17
    """Columns, rows, generation."""
    SIGNAL = 18
    """A signal for the program's process group."""
    SET_KEYFRAME = 19
    """Offset, generation and blob: what lies before it may be forgotten."""
    START = 20
    """Columns, rows, generation: start the program at this size, if that was put off."""
    DISMISS = 21
    """The exit status has been noted; the keeper may go."""
    SET_NOTE = 22
    """A JSON object that only daemons understand: the next one is told it in STATE."""
    CLAIM = 23
    """JSON, pid and version of a daemon that takes the place of the one before it."""
    HANG_UP = 24
    """SIGHUP and SIGCONT as from a terminal that is closed: for the foreground and for the program itself."""
    BORROW = 25
    """A number: the daemon wants to read the terminal itself, into the memory that came with STATE."""
    RETURN = 26
    """The keeper reads again. What the daemon read is in the shared memory, and not told to it again."""
    CONFIRM = 27
    """Offset and blob: what was printed before it is in this state of the daemon's, and may be forgotten."""
    WRITE = 28
    """A number and bytes for the program's input. Numbers begin with 1 and have no gaps; one that was
    accepted before is only answered."""
    CLOSE_STDIN = 29
    """Close the program's input once all that was accepted is written."""
    ASK_STDERR = 30
    """STDERR is wanted; it also comes before EXITED."""


def frame(kind: FrameKind, *parts: bytes) -> bytes:
    """A frame as bytes."""
    payload = b"".join(parts)
    return _HEADER.pack(len(payload) + 1, kind) + payload


class Decoder:
    """Takes bytes as they come and gives (kind, payload) pairs. Raises ValueError if a frame can't be one."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._needed = _LENGTH + 1

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The frames that are complete with this data."""
        if self._kept or len(data) < self._needed:
            self._kept += data
            if len(self._kept) < self._needed:
                return []
            data = bytes(self._kept)
            self._kept.clear()
        frames = []
        start, end = 0, len(data)
        self._needed = _LENGTH + 1
        while end - start > _LENGTH:
            length, kind = _HEADER.unpack_from(data, start)
            if not 1 <= length <= MAX_FRAME:
                raise ValueError(f"a frame of {length} bytes; expected 1 to {MAX_FRAME}")
            stop = start + _LENGTH + length
            if stop > end:
                self._needed = _LENGTH + length
                break
            frames.append((kind, data[start + _LENGTH + 1 : stop]))
            start = stop
        if start < end:
            self._kept += memoryview(data)[start:]
        return frames
