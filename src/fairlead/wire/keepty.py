"""keepty: binary frames over unix sockets, by which clients share a terminal.

A frame is `[u32 length][u8 version][u8 kind][payload]`, big-endian, where the length counts all after itself.
This module has the frames as messages, a decoder, and the two ends of a connection with their legal moves. It
does no I/O and has no clock: deadlines are named here and kept by the door. It imports little, because
`fairlead attach` starts with it.

Extra bytes after a payload's known fields are tolerated, as the real programs do. That is where a Hello and
its HelloAck carry our extension: the bytes `FL` and a byte of flags (`Wish`); a Hello with `SHOWN` then has
two texts, each after a byte with its length. Flags that a peer does not know it leaves out of what it
grants, so that both an older broker and an older client work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from enum import STRICT, Enum, IntEnum, IntFlag
from struct import Struct
from types import MappingProxyType

from ..formats.frozen import Frozen
from .faults import Broken, LocalError

PROTOCOL_VERSION = 1
MAX_PAYLOAD = 1_048_576
"""How long a payload may be."""
MAX_SIZE = 10_000
"""The largest number of columns or rows that we give to a terminal; the smallest is 1."""
REDRAW_COLS = 0xFFFF
"""A Resize to so many columns asks for a redraw: from a watcher always, from others if REDRAWS was
granted."""
PACE_COLS = 0xFFFE
"""A Resize to so many columns confirms output, if PACED was granted: as many pieces as it has rows."""
PACE_BYTES = 16 * 1024
"""How many bytes of output a piece has."""
PACE_WINDOW = 8
"""How many pieces may be on their way."""
MAX_NAME = 255
"""How many bytes a text of the extension may have."""
RING = "\a"
"""What a notice begins with if the person's terminal should ring."""
HELLO_DEADLINE = 5.0
"""Seconds from connecting until the whole Hello must be there."""
MAX_SOCKET_PATH = 107 if sys.platform == "linux" else 103
"""How many bytes the path of a unix socket may have."""

_HEADER = Struct(">IBB")
_LENGTH_BYTES, _HEADER_BYTES, _MIN_BODY = 4, 6, 2


class Role(IntEnum):
    """What a client wants to be."""

    WRITER = 1
    WATCHER = 2
    MONITOR = 3


class MessageKind(IntEnum):
    """What a frame is."""

    HELLO = 1
    HELLO_ACK = 2
    INPUT = 3
    OUTPUT = 4
    RESIZE = 5
    RESIZE_ACK = 6
    EXIT = 10
    SHUTDOWN = 11
    PING = 12
    PONG = 13
    ERROR = 127


class Wish(IntFlag, boundary=STRICT):
    """What a client asks for in the extension of its Hello, and what the broker grants in the HelloAck's."""

    NONE = 0
    REASONS = 1
    """An Error frame that says why, when something that it sent is ignored."""
    REDRAWS = 2
    """A Resize of REDRAW_COLS asks for a redraw, whoever it is from."""
    SCREEN_ONLY = 4
    """Redraws leave out the scrollback."""
    TAKEOVER = 8
    """A ResizeAck that names the writer, when another client has become that, or has left."""
    SHOWN = 16
    """The client shows the session in a terminal; it tells which one, and the session that this is in."""
    NOTICES = 32
    """Error frames with what the person should know and the program does not say."""
    DIRECT = 64
    """The program's terminal itself comes with the HelloAck, and a writer may type on it when all that it
    sent before was typed: a Pong says so, which comes only then. A Pong that was not asked for takes the
    terminal back."""
    PACED = 128
    """The client confirms output as it takes it, because it may be far away; with more than a window of it
    unconfirmed it is behind, and is shown the screen when it has caught up."""


_ALL_WISHES = sum(Wish)


# --- messages ---------------------------------------------------------------------------------------------

_U16, _U32, _I32 = (0, 0xFFFF), (0, 0xFFFFFFFF), (-0x80000000, 0x7FFFFFFF)
_SHOWN = 32  # how much of a payload a repr shows
_EXTENSION = b"FL"


class Message(Frozen):
    """A frame. It is checked when it is made and can't be changed, so an invalid one does not exist."""

    __slots__ = ()

    kind: MessageKind

    def _set(self, name: str, value: int, bounds: tuple[int, int]) -> None:
        if not isinstance(value, int) or not bounds[0] <= value <= bounds[1]:
            raise ValueError(f"{name} must be an integer from {bounds[0]} to {bounds[1]}, not {value!r}")
        object.__setattr__(self, name, value)

    def _shown(self, name: str) -> str:
        return _brief(getattr(self, name))

    def payload(self) -> bytes:
        """The bytes after the header."""
        return b""

    def encode(self) -> bytes:
        """The whole frame."""
        payload = self.payload()
        return _HEADER.pack(len(payload) + _MIN_BODY, PROTOCOL_VERSION, self.kind) + payload


def _brief(value: object) -> str:
    if isinstance(value, bytes | str) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!r}…({len(value)} {'bytes' if isinstance(value, bytes) else 'characters'})"
    return str(value.name) if isinstance(value, Enum) else repr(value)


class Hello(Message):
    """The client's first frame: what it wants to be, and the size of its terminal."""

    __slots__ = ("cols", "name", "role", "rows", "terminal", "wishes", "within")
    kind = MessageKind.HELLO
    fields = ("role", "cols", "rows", "wishes", "terminal", "within", "name")
    hidden = ("terminal", "within", "name")
    layout = Struct(">BHH")

    role: Role
    cols: int
    rows: int
    wishes: Wish
    terminal: str
    """The client's terminal, with SHOWN."""
    within: str
    """The session that the client says it runs in, with SHOWN."""
    name: str
    """Who the client says it is, for other people."""

    def __init__(
        self,
        role: Role,
        cols: int,
        rows: int,
        wishes: Wish = Wish.NONE,
        terminal: str = "",
        within: str = "",
        name: str = "",
    ) -> None:
        object.__setattr__(self, "role", Role(role))
        self._set("cols", cols, _U16)
        self._set("rows", rows, _U16)
        object.__setattr__(self, "wishes", Wish(wishes))
        shown = bool(wishes & Wish.SHOWN)
        object.__setattr__(self, "terminal", terminal if shown else "")
        object.__setattr__(self, "within", within if shown else "")
        object.__setattr__(self, "name", name)

    def payload(self) -> bytes:
        extension = _extension(self.wishes)
        texts = (self.terminal, self.within, self.name) if self.name else (self.terminal, self.within)
        if self.wishes & Wish.SHOWN or (self.wishes and self.name):
            for text in texts:
                encoded = text.encode("utf-8", "replace")[:MAX_NAME]
                extension += bytes((len(encoded),)) + encoded
        return self.layout.pack(self.role, self.cols, self.rows) + extension


class HelloAck(Message):
    """The broker's first frame: the program's process id (0 before it is started) and the terminal's size."""

    __slots__ = ("cols", "pid", "rows", "wishes")
    kind = MessageKind.HELLO_ACK
    fields = ("pid", "cols", "rows", "wishes")
    layout = Struct(">IHH")

    pid: int
    cols: int
    rows: int
    wishes: Wish

    def __init__(self, pid: int, cols: int, rows: int, wishes: Wish = Wish.NONE) -> None:
        self._set("pid", pid, _U32)
        self._set("cols", cols, _U16)
        self._set("rows", rows, _U16)
        object.__setattr__(self, "wishes", Wish(wishes))

    def payload(self) -> bytes:
        return self.layout.pack(self.pid, self.cols, self.rows) + _extension(self.wishes)


def _extension(wishes: Wish) -> bytes:
    return _EXTENSION + bytes((wishes,)) if wishes else b""


class _Raw(Message):
    """A frame whose payload is any bytes."""

    __slots__ = ("data",)
    fields = ("data",)

    data: bytes

    def __init__(self, data: bytes) -> None:
        if type(data) is not bytes:
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        if len(data) > MAX_PAYLOAD:
            raise ValueError(f"data of {len(data)} bytes; a frame holds at most {MAX_PAYLOAD}")
        _set_data(self, data)

    def payload(self) -> bytes:
        return self.data

    @classmethod
    def split(cls, data: bytes) -> Iterator[_Raw]:
        """As many frames as the data needs."""
        for start in range(0, len(data), MAX_PAYLOAD):
            yield cls(data[start : start + MAX_PAYLOAD])


_set_data = _Raw.__dict__["data"].__set__  # the quickest way past our own __setattr__; every output takes it


class Input(_Raw):
    """What the client's keyboard says to the program."""

    __slots__ = ()
    kind = MessageKind.INPUT


class Output(_Raw):
    """What the program says to the terminal."""

    __slots__ = ()
    kind = MessageKind.OUTPUT


def output_frames(data: bytes) -> list[bytes]:
    """The frames of some output: mostly one."""
    if 0 < len(data) <= MAX_PAYLOAD:
        return [_HEADER.pack(len(data) + _MIN_BODY, PROTOCOL_VERSION, MessageKind.OUTPUT) + data]
    return [output.encode() for output in Output.split(data)]


class Resize(Message):
    """The client's terminal has a new size."""

    __slots__ = ("cols", "rows")
    kind = MessageKind.RESIZE
    fields = ("cols", "rows")
    layout = Struct(">HH")

    cols: int
    rows: int

    def __init__(self, cols: int, rows: int) -> None:
        self._set("cols", cols, _U16)
        self._set("rows", rows, _U16)

    def payload(self) -> bytes:
        return self.layout.pack(self.cols, self.rows)


class ResizeAck(Message):
    """The terminal has this size now; all output before this frame was made for the old one.

    For clients that wish TAKEOVER it may carry, as an extension, who writes now instead of them ("" is
    nobody).
    """

    __slots__ = ("cols", "generation", "rows", "writer")
    kind = MessageKind.RESIZE_ACK
    fields = ("generation", "cols", "rows", "writer")
    hidden = ("writer",)
    layout = Struct(">IHH")

    generation: int
    cols: int
    rows: int

    writer: str | None

    def __init__(self, generation: int, cols: int, rows: int, writer: str | None = None) -> None:
        self._set("generation", generation, _U32)
        self._set("cols", cols, _U16)
        self._set("rows", rows, _U16)
        object.__setattr__(self, "writer", writer)

    def payload(self) -> bytes:
        packed = self.layout.pack(self.generation, self.cols, self.rows)
        if self.writer is None:
            return packed
        return packed + _EXTENSION + self.writer.encode("utf-8", "replace")[:MAX_NAME]


class Exit(Message):
    """The program has ended; 128 + n when a signal n ended it."""

    __slots__ = ("code",)
    kind = MessageKind.EXIT
    fields = ("code",)
    layout = Struct(">i")

    code: int

    def __init__(self, code: int) -> None:
        self._set("code", code, _I32)

    def payload(self) -> bytes:
        return self.layout.pack(self.code)


class Shutdown(Message):
    """The client asks for the program's end."""

    __slots__ = ()
    kind = MessageKind.SHUTDOWN


class Ping(Message):
    """The client asks whether the broker lives."""

    __slots__ = ()
    kind = MessageKind.PING


class Pong(Message):
    """The broker's answer to a Ping."""

    __slots__ = ()
    kind = MessageKind.PONG


class Error(Message):
    """A sentence that says what was wrong."""

    __slots__ = ("text",)
    kind = MessageKind.ERROR
    fields = ("text",)

    text: str

    def __init__(self, text: str) -> None:
        if type(text) is not str:
            raise TypeError(f"text must be str, not {type(text).__name__}")
        if len(text.encode("utf-8")) > MAX_PAYLOAD:
            raise ValueError(f"an error of more than {MAX_PAYLOAD} bytes")
        object.__setattr__(self, "text", text)

    def payload(self) -> bytes:
        return self.text.encode("utf-8")


class Malformed:
    """A frame of a known kind whose payload is wrong: too short, or no such role."""

    __slots__ = ("kind", "reason")

    def __init__(self, kind: MessageKind, reason: str) -> None:
        self.kind = kind
        self.reason = reason

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Malformed) and (self.kind, self.reason) == (other.kind, other.reason)

    def __hash__(self) -> int:
        return hash((self.kind, self.reason))

    def __repr__(self) -> str:
        return f"Malformed({self.kind.name}, {self.reason!r})"


# --- decoding ---------------------------------------------------------------------------------------------


def _parser(
    message: Callable[..., Message], layout: Struct, kind: MessageKind
) -> Callable[[bytes], Message | Malformed]:
    """How to read a payload that begins with these fields."""

    def parse(payload: bytes) -> Message | Malformed:
        if len(payload) < layout.size:
            return Malformed(kind, f"{kind.name} has {len(payload)} bytes of payload; it needs {layout.size}")
        fields = layout.unpack_from(payload)
        extension = payload[layout.size :]
        if kind is MessageKind.RESIZE_ACK and extension[:2] == _EXTENSION:
            return message(*fields, extension[2:].decode("utf-8", "replace"))
        if kind not in (MessageKind.HELLO, MessageKind.HELLO_ACK):
            return message(*fields)
        wishes, texts = Wish.NONE, []
        if extension[:2] == _EXTENSION and len(extension) > 2:
            wishes = Wish(extension[2] & _ALL_WISHES)
            if kind is MessageKind.HELLO:
                texts = _texts(extension[3:])
        try:
            return message(*fields, wishes, *texts)
        except ValueError:
            return Malformed(kind, f"no role {fields[0]}; expected 1 (writer), 2 (watcher) or 3 (monitor)")

    return parse


def _texts(encoded: bytes) -> list[str]:
    """The three texts of a Hello's extension; what is not there is empty."""
    found = []
    for _ in range(3):
        length = encoded[0] if encoded else 0
        found.append(encoded[1 : 1 + length].decode("utf-8", "replace"))
        encoded = encoded[1 + length :]
    return found


def _error(payload: bytes) -> Error:
    """What is no UTF-8 is replaced by a longer character, so the text is cut to what a frame holds."""
    text = payload.decode("utf-8", "replace").encode("utf-8")
    return Error(text[:MAX_PAYLOAD].decode("utf-8", "ignore"))


_PARSERS: dict[int, Callable[[bytes], Message | Malformed]] = {
    MessageKind.OUTPUT: Output,
    MessageKind.INPUT: Input,
    MessageKind.SHUTDOWN: lambda _: Shutdown(),
    MessageKind.PING: lambda _: Ping(),
    MessageKind.PONG: lambda _: Pong(),
    MessageKind.ERROR: _error,
    **{
        message.kind: _parser(message, message.layout, message.kind)
        for message in (Hello, HelloAck, Resize, ResizeAck, Exit)
    },
}


class Decoder:
    """Takes bytes as they come and gives messages.

    Nothing is allocated by a length that the peer claims: what is kept is what has come. A frame that can't
    be one is refused as soon as its length, version or kind is there, without waiting for the rest.
    """

    def __init__(self, max_payload: int = MAX_PAYLOAD) -> None:
        self._max_body = max_payload + _MIN_BODY
        self._kept = bytearray()
        self._needed = _LENGTH_BYTES  # with fewer bytes than this there is nothing to decide
        self._broken = False

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished frame are kept."""
        return len(self._kept)

    def feed(self, data: bytes) -> list[Message | Malformed | Broken]:
        """The messages that are complete with this data. A Broken is the last one ever."""
        if self._broken:
            return []
        if self._kept or len(data) < self._needed:
            self._kept += data
            if len(self._kept) < self._needed:
                return []
            data = bytes(self._kept)
            self._kept.clear()
        messages: list[Message | Malformed | Broken] = []
        start, end = 0, len(data)
        while end - start >= _HEADER_BYTES:
            length, version, kind = _HEADER.unpack_from(data, start)
            parse = _PARSERS.get(kind)
            if parse is None or version != PROTOCOL_VERSION or not _MIN_BODY <= length <= self._max_body:
                return self._refuse(messages, length, version, kind)
            stop = start + _LENGTH_BYTES + length
            if stop > end:
                break
            messages.append(parse(data[start + _HEADER_BYTES : stop]))
            start = stop
        left = end - start
        self._needed = _LENGTH_BYTES
        if left >= _LENGTH_BYTES:
            length = int.from_bytes(data[start : start + _LENGTH_BYTES])
            if not _MIN_BODY <= length <= self._max_body:
                return self._refuse(messages, length)
            self._needed = _HEADER_BYTES if left < _HEADER_BYTES else _LENGTH_BYTES + length
        if left:
            self._kept += memoryview(data)[start:]
        return messages

    def _refuse(
        self,
        messages: list[Message | Malformed | Broken],
        length: int,
        version: int = PROTOCOL_VERSION,
        kind: int = MessageKind.ERROR,
    ) -> list[Message | Malformed | Broken]:
        if length < _MIN_BODY:
            reason = f"frame too short: {length} bytes (min {_MIN_BODY})"
        elif length > self._max_body:
            reason = f"frame too large: {length} bytes (max {self._max_body})"
        elif version != PROTOCOL_VERSION:
            reason = f"unsupported protocol version: {version} (expected {PROTOCOL_VERSION})"
        else:
            reason = f"unknown kind: {kind}"
        self._broken = True
        messages.append(Broken(reason))
        return messages


# --- connections ------------------------------------------------------------------------------------------

_OUTPUT_MARK = bytes((PROTOCOL_VERSION, MessageKind.OUTPUT))


class State(Enum):
    """How far a connection has come; the same at both ends."""

    CONNECTED = "connected"
    GREETED = "greeted"
    """The client's Hello is there."""
    OPEN = "open"
    """The broker's HelloAck is there too."""
    ENDED = "ended"
    """The program has ended, and so has the broker's part."""
    CLOSED = "closed"


_Moves = Mapping[State, Mapping[MessageKind, State]]

CLIENT_MOVES: _Moves = {
    State.CONNECTED: {MessageKind.HELLO: State.GREETED},
    **{
        state: dict.fromkeys(
            (MessageKind.INPUT, MessageKind.RESIZE, MessageKind.SHUTDOWN, MessageKind.PING), state
        )
        for state in (State.GREETED, State.OPEN, State.ENDED)
    },
}
"""What a client may send, and the state after it."""

BROKER_MOVES: _Moves = {
    State.CONNECTED: {MessageKind.ERROR: State.CLOSED},
    State.GREETED: {MessageKind.HELLO_ACK: State.OPEN, MessageKind.ERROR: State.GREETED},
    State.OPEN: {
        **dict.fromkeys(
            (MessageKind.OUTPUT, MessageKind.RESIZE_ACK, MessageKind.PONG, MessageKind.ERROR), State.OPEN
        ),
        MessageKind.EXIT: State.ENDED,
    },
}
"""What a broker may send, and the state after it."""


class _Connection:
    """One end: a decoder, a state, and which moves are ours and which the peer's."""

    _us: str
    _ours: _Moves
    _theirs: _Moves

    def __init__(self) -> None:
        self.state = State.CONNECTED
        self._decoder = Decoder()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state.value}>"

    def send(self, message: Message) -> bytes:
        """The bytes of a message that we may send now, else a LocalError; the state moves on."""
        after = self._ours.get(self.state, {}).get(message.kind)
        if after is None:
            raise LocalError(f"a {self._us} can't send {message.kind.name} when {self.state.value}")
        self.state = after
        return message.encode()

    def close(self) -> None:
        """The connection is over."""
        self.state = State.CLOSED


class BrokerConnection(_Connection):
    """The broker's end.

    Call `receive` with what comes. The first message is the client's Hello: answer it with
    `send(HelloAck(…))`, one Output with the screen, then whatever happens, and an Exit last. What a client
    sends later is to be judged by `verdict`, as it depends on who holds the terminal now.
    """

    _ours, _theirs, _us = BROKER_MOVES, CLIENT_MOVES, "broker"

    def receive(self, data: bytes) -> list[Message | Malformed | Broken]:
        """The client's messages. After a Broken, send its reply and close."""
        if self.state is State.CLOSED:
            return []
        messages = self._decoder.feed(data)
        if self.state is State.CONNECTED and messages:
            first = messages[0]
            if isinstance(first, Hello):
                self.state = State.GREETED
            elif not isinstance(first, Broken):
                reason = (
                    first.reason if isinstance(first, Malformed) else f"expected HELLO, not {first.kind.name}"
                )
                messages = [Broken(f"bad first frame: {reason}")]
        if messages and isinstance(broken := messages[-1], Broken):
            self.close()
            messages[-1] = Broken(broken.reason, Error(broken.reason).encode())
        return messages


class ClientConnection(_Connection):
    """The client's end.

    Begin with `send(Hello(…))`. Then `receive` gives a HelloAck (or an Error that says why not), and from
    then on what the broker sends, until an Exit.
    """

    _ours, _theirs, _us = CLIENT_MOVES, BROKER_MOVES, "client"

    def only_output(self, data: bytes) -> bytes | None:
        """The payload if the data is one whole Output, as most are, and nothing is kept: a short way past
        `receive`. Otherwise nothing has happened, and `receive` is to be called."""
        if (
            self.state is State.OPEN
            and data[4:6] == _OUTPUT_MARK
            and len(data) == int.from_bytes(data[:4]) + _LENGTH_BYTES
            and not self._decoder.pending
            and len(data) <= MAX_PAYLOAD
        ):
            return data[_HEADER_BYTES:]
        return None

    def receive(self, data: bytes) -> list[Message | Broken]:
        """The broker's messages. After a Broken, close."""
        if self.state is State.CLOSED:
            return []
        allowed: list[Message | Broken] = []
        for message in self._decoder.feed(data):
            if self.state is State.CLOSED:  # by an Error that the broker sent instead of a HelloAck
                break
            if isinstance(message, Message):
                after = self._theirs.get(self.state, {}).get(message.kind)
                if after is not None:
                    self.state = after
                    allowed.append(message)
                    continue
                message = Broken(f"a broker can't send {message.kind.name} when {self.state.value}")
            self.close()
            allowed.append(message if isinstance(message, Broken) else Broken(message.reason))
            break
        return allowed


# --- who may do what --------------------------------------------------------------------------------------


class Standing(Enum):
    """What a client is at this moment."""

    WRITER = "the writer"
    FORMER = "a writer that another has taken over from"
    WATCHER = "a watcher"
    MONITOR = "a monitor"


class Verdict(Enum):
    """What the broker does with a client's message."""

    ACT = "act"
    REDRAW = "redraw"
    """Send this client a fresh screen; the terminal keeps its size."""
    ANSWER = "answer"
    """Send a Pong."""
    IGNORE = "ignore"


_VERDICTS: Mapping[tuple[MessageKind, Standing], Verdict] = MappingProxyType(
    {
        (MessageKind.INPUT, Standing.WRITER): Verdict.ACT,
        (MessageKind.RESIZE, Standing.WRITER): Verdict.ACT,
        (MessageKind.RESIZE, Standing.WATCHER): Verdict.REDRAW,
        (MessageKind.SHUTDOWN, Standing.WRITER): Verdict.ACT,
        (MessageKind.SHUTDOWN, Standing.MONITOR): Verdict.ACT,
        **{(MessageKind.PING, standing): Verdict.ANSWER for standing in Standing},
    }
)
"""What is not here is ignored."""


def verdict(
    message: Message | Malformed, standing: Standing, *, has_writer: bool = True, cols: int = 0
) -> tuple[Verdict, str]:
    """What to do with a client's message, and if it is to be ignored, why.

    `has_writer` is whether anyone is the writer now, `cols` the terminal's width.
    """
    if isinstance(message, Malformed):
        return Verdict.IGNORE, message.reason
    kind = message.kind
    if kind is MessageKind.SHUTDOWN and standing is Standing.FORMER and not has_writer:
        return Verdict.ACT, ""
    decided = _VERDICTS.get((kind, standing), Verdict.IGNORE)
    if decided is Verdict.REDRAW and isinstance(message, Resize) and message.cols < cols:
        return Verdict.IGNORE, f"a watcher's RESIZE asks for a redraw only at {cols} columns or more"
    if decided is Verdict.IGNORE:
        if kind is MessageKind.HELLO:
            return decided, "HELLO is only for the beginning"
        if kind in CLIENT_MOVES[State.OPEN]:
            return decided, f"{kind.name} from {standing.value} is ignored"
        return decided, f"{kind.name} is not for a client to send"
    return decided, ""


def clamped(size: int) -> int:
    """A number of columns or rows that no emulator minds."""
    return max(1, min(size, MAX_SIZE))


# --- where the sockets are --------------------------------------------------------------------------------


def socket_dir(environ: Mapping[str, str]) -> str:
    """The directory of keepty's sockets in an environment."""
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return f"{runtime}/keepty"
    return f"{(environ.get('TMPDIR') or '/tmp').rstrip('/')}/keepty"


def socket_dirs(environ: Mapping[str, str], own: str) -> tuple[str, ...]:
    """Where our sessions have their sockets: keepty's directory if each user has one, else also our `own`
    before it, as another user may have made keepty's."""
    shared = socket_dir(environ)
    return (shared,) if environ.get("XDG_RUNTIME_DIR") else (own, shared)


def socket_path(session_id: str, environ: Mapping[str, str], directory: str = "") -> str:
    """The path of a session's socket, at keepty's place or in a directory. Raises ValueError for an id or a
    path that can't be."""
    if not session_id or "/" in session_id or "\0" in session_id:
        raise ValueError(f"a session's name must not be empty or contain a slash or NUL: {session_id!r}")
    path = f"{directory or socket_dir(environ)}/keepty-{session_id}.sock"
    length = len(path.encode("utf-8", "surrogateescape"))
    if length > MAX_SOCKET_PATH:
        raise ValueError(
            f"the name is too long: the socket's path has {length} bytes, at most {MAX_SOCKET_PATH} are"
            f" possible: {path}"
        )
    return path
