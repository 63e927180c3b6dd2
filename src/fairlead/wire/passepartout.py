"""Passepartout: Lisp plists with their length before them, over TCP.

A frame is six hex digits and then that many characters (not bytes) of UTF-8, which hold one S-expression. A
daemon greets with a HELLO; then both sides send messages: plists with a `:type`. This module has the framing,
the messages, their validation, the sanitizer, access to plists in any case of the keys, and both ends of a
connection. It does no I/O; what a message leads to is the business of `control`.

Only broken framing ends a connection. What is framed rightly but is no message is an `Invalid` with a `:LOG`
reply that says why.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import lru_cache
from io import StringIO
from typing import Any

from ..formats import sexp
from ..formats.sexp import Dotted, Keyword, SexpError
from .faults import Broken, LocalError

MAX_CHARACTERS = 0xFFFFFF
"""How many characters a frame can hold: six hex digits can't say more."""
MAX_UNPROVEN_CHARACTERS = 4096
"""How many a frame may hold before its sender has proved to be our user."""
MAX_BLANKS = 4096
"""How many blanks may stand before a frame."""
CAPABILITIES = ("AUTH", "ORG-AST")
WRONG_TOKEN = "the token is wrong"
"""What a daemon says to an Auth that proves nothing."""

_HEADER = 6
_SHOWN = 200  # how much of a message its repr shows
_BLANKS = " \n\t\r"
_NOT_HEX = re.compile("[^0-9A-Fa-f]")


# --- framing ----------------------------------------------------------------------------------------------


class Decoder:
    """Takes bytes as they come and gives the text of each frame.

    Nothing is allocated by a length that the peer claims: what is kept is what has come. A header that can't
    be one is refused at its first wrong character.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self.max_characters = max_characters
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._header = ""
        self._blanks = 0
        self._body: StringIO | None = None
        self._missing = 0  # characters of the body that have not come
        self._broken = False

    @property
    def pending(self) -> int:
        """How many characters of an unfinished frame are kept."""
        return len(self._header) + (self._body.tell() if self._body else 0)

    def feed(self, data: bytes) -> list[str | Broken]:
        """The frames that are complete with this data. A Broken is the last one ever."""
        return list(self.each(data))

    def each(self, data: bytes) -> Iterator[str | Broken]:
        """The same one by one, so that a frame may change the limit for the next. Go to its end."""
        if self._broken:
            return
        fault = ""
        try:
            text = self._utf8.decode(data)
        except UnicodeDecodeError as error:
            text = str(error.object[: error.start], "utf-8")
            fault = f"invalid UTF-8: {error.reason}"
        at = 0
        while at < len(text):
            try:
                at = self._header_from(text, at) if self._body is None else self._body_from(text, at)
            except ValueError as error:
                fault = str(error)
                break
            if self._body is not None and not self._missing:
                yield self._body.getvalue()
                self._body = None
        if fault:
            yield self._break(fault)

    def _header_from(self, text: str, at: int) -> int:
        if not self._header:
            start = at
            while at < len(text) and text[at] in _BLANKS:
                at += 1
            self._blanks += at - start
            if self._blanks > MAX_BLANKS:
                raise ValueError(f"more than {MAX_BLANKS} blanks before a frame")
        taken = text[at : at + _HEADER - len(self._header)]
        self._header += taken
        if wrong := _NOT_HEX.search(self._header):
            raise ValueError(f"a frame must begin with six hex digits, not {self._header[: wrong.end()]!r}")
        if len(self._header) == _HEADER:
            self._missing = int(self._header, 16)
            if self._missing > self.max_characters:
                raise ValueError(
                    f"a frame of {self._missing} characters; at most {self.max_characters} are allowed"
                )
            self._header = ""
            self._blanks = 0
            self._body = StringIO()
        return at + len(taken)

    def _body_from(self, text: str, at: int) -> int:
        assert self._body is not None
        taken = text[at : at + self._missing]
        self._missing -= len(taken)
        self._body.write(taken)
        return at + len(taken)

    def end(self) -> Broken | None:
        """The stream is over. It is a fault if it ends in the middle of a frame's text."""
        if self._broken or self._body is None:
            return None
        return self._break(f"the stream ended with {self._missing} characters of a frame missing")

    def _break(self, reason: str) -> Broken:
        self._broken = True
        self._header = ""
        self._body = None
        return Broken(reason)


def frame(value: Any) -> bytes:
    """A value as a frame, sanitized. Raises a LocalError for what can't be framed."""
    try:
        text = sexp.dumps(sanitized(value))
    except SexpError as error:
        raise LocalError(f"can't be sent: {error}") from None
    if len(text) > MAX_CHARACTERS:
        raise LocalError(f"a message of {len(text)} characters; a frame holds at most {MAX_CHARACTERS}")
    return f"{len(text):06X}{text}".encode()


# --- plists -----------------------------------------------------------------------------------------------

TRANSIENT = frozenset({"REPLY-STREAM", "SOCKET", "STREAM"})
"""Keys of what lives only inside of a daemon."""
_TOO_DEEP = f"the value nests deeper than {sexp.MAX_DEPTH}, or holds itself"


def plist(**fields: Any) -> list[Any]:
    """A plist: `plist(type=Keyword("EVENT"))` is `(:TYPE :EVENT)`."""
    return [item for name, value in fields.items() for item in (_key(name), value)]


@lru_cache(256)
def _key(name: str) -> Keyword:
    return Keyword(name.upper().replace("_", "-"))


def is_plist(value: Any) -> bool:
    """Whether a value is a list of keywords each followed by a value."""
    return (
        isinstance(value, list) and not len(value) % 2 and all(isinstance(key, Keyword) for key in value[::2])
    )


def proto_get(value: Any, *path: str, default: Any = None) -> Any:
    """What stands under a key of a plist, in any case of letters; with more keys, of the plist there."""
    for key in path:
        if not isinstance(value, list):
            return default
        wanted = key.upper()
        for name, found in zip(value[::2], value[1::2]):
            if isinstance(name, Keyword) and name.name.upper() == wanted:
                value = found
                break
        else:
            return default
    return value


def _is_keyword(value: Any, name: str) -> bool:
    return isinstance(value, Keyword) and value.name.upper() == name


def _is_transient(value: Any) -> bool:
    return isinstance(value, Keyword) and value.name.upper() in TRANSIENT


def sanitized(value: Any, depth: int = sexp.MAX_DEPTH) -> Any:
    """The value without the transient keys of its plists, at any depth. Every other list stays as it was.

    `(:STREAM :SOCKET)` could be a plist or a list of names; names of transient things are no values, so a
    list that has one in the place of a value is data. A SexpError says that lists nest too deep to be sent.
    """
    if not isinstance(value, list):
        return value
    if depth == 0:
        raise SexpError(_TOO_DEEP)
    items = [sanitized(item, depth - 1) if isinstance(item, list) else item for item in value]
    if not any(map(_is_transient, items)):
        return items
    if not is_plist(items) or any(map(_is_transient, items[1::2])):
        return items
    pairs = zip(items[::2], items[1::2])
    return [part for key, kept in pairs if not _is_transient(key) for part in (key, kept)]


# --- messages ---------------------------------------------------------------------------------------------


class Type(StrEnum):
    """What a message can be."""

    REQUEST = "REQUEST"
    EVENT = "EVENT"
    RESPONSE = "RESPONSE"
    LOG = "LOG"
    STATUS = "STATUS"


class Health(StrEnum):
    """How a daemon is."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    UNHEALTHY = "UNHEALTHY"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, repr=False)
class Message:
    """A valid message. `get("payload", "action")` reads it; `plist` is what is framed."""

    plist: list[Any]
    type: Type = field(init=False)

    def __repr__(self) -> str:
        try:
            text = sexp.dumps(sanitized(self.plist))
        except SexpError as error:
            return f"Message(<{error}>)"
        return f"Message({text[:_SHOWN]!r}{'…' if len(text) > _SHOWN else ''})"

    def __post_init__(self) -> None:
        if not is_plist(self.plist):
            raise ValueError("Message must be a plist")
        kind = proto_get(self.plist, "type")
        name = kind.name.upper() if isinstance(kind, Keyword) else ""
        if name not in Type.__members__:
            shown = "a list" if kind and isinstance(kind, list | tuple | Dotted) else sexp.dumps(kind)
            raise ValueError(f"Invalid message type {shown[:64]!r}; expected one of {', '.join(Type)}")
        object.__setattr__(self, "type", Type[name])
        object.__setattr__(self, "plist", _copied(self.plist))

    def get(self, *path: str, default: Any = None) -> Any:
        """What stands under a key, or under a key of the plist under a key."""
        return proto_get(self.plist, *path, default=default)


_HOLDS = (list, tuple, Dotted)


def _copied(value: Any, depth: int = sexp.MAX_DEPTH) -> Any:
    """Lists of its own, so that a message stays as it is when the caller's list changes."""
    if not isinstance(value, _HOLDS):
        return value
    if depth == 0:
        raise ValueError(_TOO_DEEP)
    inner = value.items if isinstance(value, Dotted) else value
    items = [_copied(item, depth - 1) if isinstance(item, _HOLDS) else item for item in inner]
    if isinstance(value, Dotted):
        return Dotted(tuple(items), _copied(value.tail, depth - 1))
    return items if isinstance(value, list) else tuple(items)


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A question that is answered at once, before anything else."""

    @property
    def plist(self) -> list[Any]:
        return plist(type=Keyword("HEALTH-CHECK"))


@dataclass(frozen=True, slots=True)
class HealthResponse:
    """The answer: how the daemon is, and whether it has looked."""

    status: Health
    checked: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", Health(self.status))
        object.__setattr__(self, "checked", bool(self.checked))

    @property
    def plist(self) -> list[Any]:
        return plist(type=Keyword("HEALTH-RESPONSE"), status=Keyword(self.status), checked_p=self.checked)


@dataclass(frozen=True, slots=True)
class Hello:
    """A daemon's first message."""

    version: str
    capabilities: tuple[str, ...] = CAPABILITIES

    def __post_init__(self) -> None:
        if not isinstance(self.version, str):
            raise ValueError(f"version must be a string, not {self.version!r}")
        object.__setattr__(self, "capabilities", tuple(self.capabilities))
        if not all(isinstance(name, str) for name in self.capabilities):
            raise ValueError(f"capabilities must be strings, not {self.capabilities!r}")

    @property
    def plist(self) -> list[Any]:
        payload = plist(
            action=Keyword("HANDSHAKE"),
            version=self.version,
            capabilities=list(map(Keyword, self.capabilities)),
        )
        return plist(type=Keyword("EVENT"), payload=payload)


@dataclass(frozen=True, slots=True)
class Auth:
    """A client's proof that it is our user. The token is in no repr."""

    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.token, str):
            raise ValueError("the token must be a string")

    @property
    def plist(self) -> list[Any]:
        return plist(type=Keyword("REQUEST"), payload=plist(action=Keyword("AUTH"), token=self.token))


Sendable = Message | HealthCheck | HealthResponse | Hello | Auth


@dataclass(frozen=True, slots=True)
class Invalid:
    """What was framed rightly but is no message, or not allowed now. `reply` says why to its sender."""

    reason: str
    reply: bytes


def event(payload: list[Any], **more: Any) -> Message:
    """An event: `event(plist(sensor=Keyword("HEARTBEAT")))`."""
    return Message(plist(type=Keyword("EVENT"), **more, payload=payload))


def user_input(text: str, source: str = "tui") -> Message:
    """What a person said to a client."""
    return event(plist(sensor=Keyword("USER-INPUT"), text=text), meta=plist(source=Keyword(source.upper())))


def log(text: str, level: str = "error") -> Message:
    """A line for the other side's log, which is how a daemon says what was wrong."""
    return Message(plist(type=Keyword("LOG"), payload=plist(level=Keyword(level.upper()), text=text)))


# --- connections ------------------------------------------------------------------------------------------


class State(Enum):
    """How far a connection has come."""

    CONNECTED = "connected"
    GREETED = "greeted"
    CLOSED = "closed"


_MAY_SEND: Mapping[str, Mapping[State, frozenset[type[Sendable]]]] = {
    "daemon": {
        State.CONNECTED: frozenset({Hello}),
        State.GREETED: frozenset({Message, HealthResponse}),
    },
    "client": dict.fromkeys((State.CONNECTED, State.GREETED), frozenset({Message, HealthCheck, Auth})),
}
"""What each side may send; only a daemon's HELLO changes the state."""


class _Connection:
    """One end of a connection."""

    _us: str

    def __init__(self, max_characters: int) -> None:
        self.state = State.CONNECTED
        self._decoder = Decoder(max_characters)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state.value}>"

    def send(self, message: Sendable) -> bytes:
        """The frame of a message that this side may send now, else a LocalError."""
        if type(message) not in _MAY_SEND[self._us].get(self.state, ()):
            raise LocalError(f"a {self._us} can't send a {type(message).__name__} when {self.state.value}")
        data = frame(message.plist)
        if isinstance(message, Hello):
            self.state = State.GREETED
        return data

    @property
    def pending(self) -> int:
        """How many characters of an unfinished frame are kept."""
        return self._decoder.pending

    def end(self) -> Broken | None:
        """The peer will send no more. It is a fault in the middle of a frame."""
        broken = None if self.state is State.CLOSED else self._decoder.end()
        self.close()
        return broken

    def close(self) -> None:
        """The connection is over."""
        self.state = State.CLOSED


class ServerConnection(_Connection):
    """The daemon's end: begin with `send(Hello(version))`.

    A peer is proven to be our user from the start, because its socket belongs to the user, or by an Auth with
    a token that `is_token` knows. Until then only health checks come through, and a frame must be small.
    """

    _us = "daemon"

    def __init__(
        self,
        *,
        proven: bool = False,
        is_token: Callable[[str], bool] = lambda token: False,
        max_characters: int = MAX_CHARACTERS,
        max_tokens: int = sexp.MAX_TOKENS,
    ) -> None:
        super().__init__(max_characters if proven else min(max_characters, MAX_UNPROVEN_CHARACTERS))
        self.proven = proven
        self._is_token = is_token
        self._max_characters = max_characters
        self._max_tokens = max_tokens

    def receive(self, data: bytes) -> list[Message | HealthCheck | Auth | Invalid | Broken]:
        """What the client says. Send an Invalid's reply. After a Broken, send its reply and close."""
        received: list[Message | HealthCheck | Auth | Invalid | Broken] = []
        for text in self._decoder.each(data) if self.state is not State.CLOSED else ():
            if isinstance(text, Broken):
                self.close()
                received.append(Broken(text.reason, frame(log(text.reason).plist)))
                break
            try:
                received.append(self._checked_value(sexp.loads(text, max_tokens=self._max_tokens)))
            except ValueError as fault:
                reason = str(fault)
                received.append(Invalid(reason, frame(log(reason).plist)))
        return received

    def _checked_value(self, value: Any) -> Message | HealthCheck | Auth:
        if _is_keyword(proto_get(value, "type"), "HEALTH-CHECK"):
            return HealthCheck()
        message = Message(value)
        if message.type is Type.REQUEST and _is_keyword(message.get("payload", "action"), "AUTH"):
            auth = Auth(message.get("payload", "token"))
            if not self._is_token(auth.token):
                raise ValueError(WRONG_TOKEN)
            self.proven = True
            self._decoder.max_characters = self._max_characters
            return auth
        if not self.proven:
            raise ValueError("only a health check or (:ACTION :AUTH :TOKEN …) is taken before you are known")
        return message


class ClientConnection(_Connection):
    """A client's end: `receive` gives the daemon's Hello first, then what it says."""

    _us = "client"

    def __init__(self, *, max_characters: int = MAX_CHARACTERS) -> None:
        super().__init__(max_characters)

    def receive(self, data: bytes) -> list[Hello | Message | HealthResponse | Invalid | Broken]:
        """What the daemon says. An Invalid has nothing to send back. After a Broken, close."""
        received: list[Hello | Message | HealthResponse | Invalid | Broken] = []
        for text in self._decoder.each(data) if self.state is not State.CLOSED else ():
            item: Hello | Message | HealthResponse | Invalid | Broken
            if isinstance(text, Broken):
                item = text
            else:
                try:
                    item = self._checked_value(sexp.loads(text))
                except ValueError as fault:
                    item = Invalid(str(fault), b"")
            if self.state is State.CONNECTED and not isinstance(item, Hello | Broken):
                item = Broken("a daemon must begin with a HELLO")
            received.append(item)
            if isinstance(item, Broken):
                self.close()
                break
            self.state = State.GREETED
        return received

    def _checked_value(self, value: Any) -> Hello | Message | HealthResponse:
        if _is_keyword(proto_get(value, "type"), "HEALTH-RESPONSE"):
            status = proto_get(value, "status")
            name = status.name.upper() if isinstance(status, Keyword) else ""
            known = Health(name) if name in Health.__members__ else Health.UNKNOWN
            return HealthResponse(known, proto_get(value, "checked-p", default=[]) != [])
        message = Message(value)
        is_event = message.type is Type.EVENT and self.state is State.CONNECTED
        if is_event and _is_keyword(message.get("payload", "action"), "HANDSHAKE"):
            listed = message.get("payload", "capabilities")
            capabilities = listed if isinstance(listed, list) else ()
            named = tuple(each.name for each in capabilities if isinstance(each, Keyword))
            return Hello(message.get("payload", "version", default=""), named)
        return message
