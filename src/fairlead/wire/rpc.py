"""rpc-edn: one EDN map a line, by which an editor or a program drives sessions.

A request is answered by one response or one error with the same id; events come at any time between them.
This module has the four kinds of frame, the rules of the envelope, the gate that lets only `handshake`
through at first, the table of pending requests, and both ends of a connection. What each op takes and each
event carries is in `rpc_catalog`. It does no I/O and runs no op.

Frames are written in EDN's plainest dialect (`edn.PLAIN`), as the simplest clients read no more than that.
The repr of a frame leaves out what it carries: that may be long, or a key that somebody logs in with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple

from ..formats import edn
from ..formats.edn import EdnError, Keyword
from ..formats.frozen import Frozen
from .faults import Broken, LocalError
from .lines import LineBuffer, LineTooLong
from .rpc_catalog import OPS, OWN_TOPICS, TOPICS, Op, fault_in_params, fault_in_target

PROTOCOL_VERSION: Final = "1.0"
MAJOR: Final = 1
FEATURES: Final = ("eql-graph", "eql-memory")
"""What every server of ours offers."""
MAX_LINE = 16 * 1024 * 1024
"""How many bytes a line may have."""
MAX_TOKENS = 500_000
"""How many atoms and brackets a line of a server may have: they cost far more memory than their bytes."""
MAX_REQUEST_TOKENS = 50_000
"""The same of a client's line. A text, or an image, is one atom."""
MAX_PENDING = 64
"""How many requests may be unanswered on a connection."""
MAX_ID = 256
"""How many characters a request's id may have: it is kept while the request is pending, and echoed."""
MAX_SEQ = 2**63 - 1
"""How far events are counted."""


class ErrorCode(StrEnum):
    """Every error code there is, by where it arises."""

    NOT_READY = "transport/not-ready"
    INVALID_FRAME = "transport/invalid-frame"
    MAX_PENDING_EXCEEDED = "transport/max-pending-exceeded"
    UNSUPPORTED_VERSION = "protocol/unsupported-version"
    INVALID_ENVELOPE = "protocol/invalid-envelope"
    INVALID_EVENT = "protocol/invalid-event-payload"
    INVALID_ID = "request/invalid-id"
    INVALID_OP = "request/invalid-op"
    INVALID_PARAMS = "request/invalid-params"
    INVALID_QUERY = "request/invalid-query"
    OP_NOT_SUPPORTED = "request/op-not-supported"
    SESSION_NOT_IDLE = "request/session-not-idle"
    NOT_FOUND = "request/not-found"
    UNKNOWN_MODEL = "request/unknown-model"
    NO_PENDING_LOGIN = "request/no-pending-login"
    NO_ACTIVE_DIALOG = "request/no-active-dialog"
    DIALOG_ID_MISMATCH = "request/dialog-id-mismatch"
    QUERY_FAILED = "runtime/query-failed"
    FAILED = "runtime/failed"


# --- frames -----------------------------------------------------------------------------------------------

Data = Mapping[Any, Any]


def fields(**values: Any) -> dict[Keyword, Any]:
    """A map with keywords as keys: `fields(session_id="s1")` is `{:session-id "s1"}`."""
    return {Keyword(name.replace("_", "-")): value for name, value in values.items()}


_ID, _KIND, _OP, _PARAMS = (Keyword(name) for name in ("id", "kind", "op", "params"))
_OK, _DATA, _EVENT, _SEQ, _TS = (Keyword(name) for name in ("ok", "data", "event", "seq", "ts"))
_CODE, _MESSAGE, _RETRYABLE = (Keyword(name) for name in ("error-code", "error-message", "retryable"))
_REQUEST, _RESPONSE, _ERROR = (Keyword(name) for name in ("request", "response", "error"))


def _value_text(value: object) -> str:
    """A value in a message; what has parts by its type alone: its repr may be as long and deep as a line."""
    is_long = isinstance(value, int) and abs(value) > MAX_SEQ  # Python may refuse to print it
    is_plain = not value or (isinstance(value, str | int | float | Keyword) and not is_long)
    return repr(value)[:MAX_ID] if is_plain else f"a {type(value).__name__}"


def _check_text(name: str, value: object) -> None:
    if type(value) is not str or not value:
        raise ValueError(f"{name} must be a non-empty string, not {_value_text(value)}")


def _check_map(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a map, not {_value_text(value)}")


class Request(Frozen):
    """A client asks for an op."""

    __slots__ = fields = ("id", "op", "params")
    hidden = ("params",)
    id: str
    op: str
    params: Data

    def __init__(self, id: str, op: str, params: Data | None = None) -> None:
        params = {} if params is None else params
        _check_text("id", id)
        _check_text("op", op)
        _check_map("params", params)
        self._fill(id, op, params)

    def get(self, name: str, default: Any = None) -> Any:
        """The parameter of this name, without its colon."""
        return self.params.get(Keyword(name), default)

    def envelope(self) -> Data:
        return {_ID: self.id, _KIND: _REQUEST, _OP: self.op, _PARAMS: self.params}


class Response(Frozen):
    """The answer to a request."""

    __slots__ = fields = ("id", "op", "data", "ok")
    hidden = ("data",)
    id: str
    op: str
    data: Any
    ok: bool

    def __init__(self, id: str, op: str, data: Any = None, ok: bool = True) -> None:
        _check_text("id", id)
        _check_text("op", op)
        if type(ok) is not bool:
            raise ValueError(f"ok must be true or false, not {_value_text(ok)}")
        self._fill(id, op, data, ok)

    def envelope(self) -> Data:
        envelope = {_ID: self.id, _KIND: _RESPONSE, _OP: self.op, _OK: self.ok}
        return envelope if self.data is None else envelope | {_DATA: self.data}


class Error(Frozen):
    """A request, or a line that isn't one, was refused or failed."""

    __slots__ = fields = ("code", "message", "id", "op", "data", "retryable")
    hidden = ("data",)
    code: str
    message: str
    id: str | None
    op: str | None
    data: Any
    retryable: bool | None

    def __init__(
        self,
        code: str,
        message: str,
        id: str | None = None,
        op: str | None = None,
        data: Any = None,
        retryable: bool | None = None,
    ) -> None:
        if isinstance(code, ErrorCode):
            code = code.value
        _check_text("code", code)
        _check_text("message", message)
        for name, value in (("id", id), ("op", op)):
            if value is not None:
                _check_text(name, value)
        if retryable is not None and type(retryable) is not bool:
            raise ValueError(f"retryable must be true or false, not {_value_text(retryable)}")
        self._fill(code, message, id, op, data, retryable)

    def envelope(self) -> Data:
        envelope: dict[Keyword, Any] = {_KIND: _ERROR}
        envelope |= {key: value for key, value in ((_ID, self.id), (_OP, self.op)) if value is not None}
        envelope |= {_CODE: self.code, _MESSAGE: self.message}
        more = ((_RETRYABLE, self.retryable), (_DATA, self.data))
        return envelope | {key: value for key, value in more if value is not None}


class Event(Frozen):
    """Something happened. `seq` counts on one connection, `ts` is an ISO time."""

    __slots__ = fields = ("topic", "data", "id", "seq", "ts")
    hidden = ("data",)
    topic: str
    data: Data
    id: str | None
    seq: int | None
    ts: str | None

    def __init__(
        self, topic: str, data: Data, id: str | None = None, seq: int | None = None, ts: str | None = None
    ) -> None:
        _check_text("topic", topic)
        _check_map("data", data)
        if seq is not None and (type(seq) is not int or not 0 < seq <= MAX_SEQ):
            raise ValueError(f"seq must be a positive integer, not {_value_text(seq)}")
        for name, value in (("id", id), ("ts", ts)):
            if value is not None:
                _check_text(name, value)
        self._fill(topic, data, id, seq, ts)

    def envelope(self) -> Data:
        envelope: dict[Keyword, Any] = {_KIND: _EVENT, _EVENT: self.topic, _DATA: self.data}
        more = ((_ID, self.id), (_SEQ, self.seq), (_TS, self.ts))
        return envelope | {key: value for key, value in more if value is not None}


class EventData(dict[Any, Any]):
    """The data of an event for many connections: it is written once, and must not change after that."""

    __slots__ = ("written",)
    written: bytes

    def __init__(self, data: Data) -> None:
        super().__init__(data)
        self.written = b""


Frame = Request | Response | Error | Event


def encode(frame: Frame) -> bytes:
    """The frame as a line."""
    envelope = frame.envelope()
    data = envelope.get(_DATA)
    if not isinstance(data, EventData):
        return _written(envelope) + b"\n"
    first = {key: envelope[key] for key in (_KIND, _EVENT, _DATA)}  # the same for all connections
    data.written = data.written or _written(first)[:-1]
    rest = _written({key: value for key, value in envelope.items() if key not in first})[1:] + b"\n"
    return data.written + (b", " if len(envelope) > len(first) else b"") + rest


def _written(envelope: Data) -> bytes:
    return edn.dumps(envelope, dialect=edn.PLAIN).encode("utf-8")


# --- a server's line, without its data ---------------------------------------------------------------------

_EVENT_HEAD, _ERROR_HEAD, _RESPONSE_HEAD = b'{:kind :event, :event "', b"{:kind :error, ", b'{:id "'
_SEQ_MARK, _TS_MARK, _ID_MARK, _DATA_MARK = b", :seq ", b', :ts "', b', :id "', b", :data "
_PLACE_MARKS = b', :session-id "', b', :cursor "'
_OP_MARK = b", :kind :response, :op "
_MAX_WRITTEN_ID = 6 * MAX_ID + 16
"""How many bytes an id takes in an event, each character written as `\\uXXXX`."""
_MAX_PLACE = 1024
"""How many bytes a session's id and a cursor take at the end of an event's data."""


class Outline(NamedTuple):
    """A line of a server of ours with its data unread, which may be megabytes.

    `encode` writes the keys in one order: a frame is known by its beginning, and an event's number by its
    end. What is between is data, and may look like anything.
    """

    line: bytes
    topic: str = ""
    """An event's topic. What has none is a response or an error."""
    id: str | None = None
    """The id of the request that a response or an error answers, or that caused an event."""
    op: str = ""
    code: str = ""
    """An error's code."""
    seq: int | None = None
    where: slice = slice(0)
    """Its data in the line,"""
    number: slice = slice(0)
    """and an event's number."""

    def data(self) -> Any:
        """Read an event's or a response's data."""
        return edn.loads(self.line[self.where])

    def place(self) -> tuple[str, str] | None:
        """The session that an event is of, and the cursor that it has then."""
        start, end = self.where.start, self.where.stop
        before, found, cursor = self.line[max(start, end - _MAX_PLACE) : end].rpartition(_PLACE_MARKS[1])
        if not found or cursor.find(b'"') != len(cursor) - 2:
            return None
        _, found, session = before.rpartition(_PLACE_MARKS[0])
        if found and session.find(b'"') == len(session) - 1 and b"\\" not in session:
            return session[:-1].decode(), cursor[:-2].decode()
        data = self.data()  # its session is somewhere before
        session_id = data.get(Keyword("session-id"))
        return (session_id, data[Keyword("cursor")]) if isinstance(session_id, str) else None

    def numbered(self, seq: int) -> bytes:
        """The line of an event with another number."""
        return self.line[: self.number.start] + b"%d" % seq + self.line[self.number.stop :]


def outline(line: bytes) -> Outline | None:
    """What a server of ours says on a line, or None if it is not written as `encode` does it."""
    try:
        if line.startswith(_EVENT_HEAD):
            return _event_outline(line)
        if line.startswith(_ERROR_HEAD):
            error = _parsed(edn.loads(line))
            assert isinstance(error, Error)  # by its beginning
            return Outline(line, "", error.id, error.op or "", error.code)
        if line.startswith(_RESPONSE_HEAD):
            id, end = _string_at(line, len(_RESPONSE_HEAD) - 1)
            if line.startswith(_OP_MARK, end):
                op, end = _string_at(line, end + len(_OP_MARK))
                start = line.find(_DATA_MARK, end) + len(_DATA_MARK)
                return Outline(line, "", id, op, where=slice(start, len(line) - 1))
    except ValueError:
        pass
    return None


def _event_outline(line: bytes) -> Outline | None:
    end = line.index(b'"', len(_EVENT_HEAD))
    topic, start = line[len(_EVENT_HEAD) : end].decode(), end + 1 + len(_DATA_MARK)
    if not line.startswith(_DATA_MARK, end + 1):
        return None
    at = line.rfind(_SEQ_MARK, start)
    number, found, ts = line[at + len(_SEQ_MARK) :].partition(_TS_MARK) if at >= 0 else (b"", b"", b"")
    if not found or not number.isdigit() or ts.find(b'"') != len(ts) - 2:
        return Outline(line, topic, where=slice(start, len(line) - 1))
    end, id = at, None
    if line[at - 1 : at] != b"}":  # the id of a request is between
        end = line.rindex(_ID_MARK, max(start, at - _MAX_WRITTEN_ID), at)
        id, _ = _string_at(line, end + len(_ID_MARK) - 1)
    place = slice(at + len(_SEQ_MARK), at + len(_SEQ_MARK) + len(number))
    return Outline(line, topic, id, seq=int(number), where=slice(start, end), number=place)


def _string_at(line: bytes, start: int) -> tuple[str, int]:
    """The string that begins there, and where it ends."""
    end = line.index(b'"', start + 1)
    while (end - len(line[:end].rstrip(b"\\"))) % 2:  # it is escaped
        end = line.index(b'"', end + 1)
    return str(edn.loads(line[start : end + 1])), end + 1


# --- a line, step by step ----------------------------------------------------------------------------------

_REQUEST_KEYS = frozenset({_ID, _KIND, _OP, _PARAMS})


def _echo(frame: Mapping[Any, Any], key: Keyword) -> str | None:
    """The frame's id or op, if it can be read."""
    value = frame.get(key)
    return value if type(value) is str and value.strip() and len(value) <= MAX_ID else None


def _names(keys: Iterable[Any]) -> list[str]:
    """Keys as text, a few of them."""
    return sorted(_name(key) for key in keys)[:16]


def _name(key: Any) -> str:
    try:
        return edn.dumps(key)[:MAX_ID]
    except EdnError:  # a number that can be read but not written, as 0xfff… of thousands of digits
        return f"a key that is a {type(key).__name__}"


def loaded(line: bytes | LineTooLong) -> dict[Any, Any] | Error:
    """The map on a line that a client sent, for `judge`. A long line takes a while: call it in a thread."""
    if isinstance(line, LineTooLong):
        return Error(ErrorCode.INVALID_FRAME, f"frame is longer than {line.limit} bytes")
    if not line.strip():
        return Error(ErrorCode.INVALID_FRAME, "empty frame")
    try:
        frame = edn.loads(line, max_tokens=MAX_REQUEST_TOKENS)
    except EdnError as error:
        detail = fields(detail=str(error))
        return Error(ErrorCode.INVALID_FRAME, "unable to parse EDN request frame", data=detail)
    if type(frame) is not dict:
        return Error(ErrorCode.INVALID_ENVELOPE, "request frame must be an EDN map")
    return frame


def _envelope_fault(frame: Mapping[Any, Any]) -> tuple[str, Data | None] | None:
    """What is wrong with a request's envelope."""
    if frame.get(_KIND) is not _REQUEST and frame.get(_KIND) != "request":
        return "request frame :kind must be :request", None
    if missing := {_ID, _OP} - frame.keys():
        return "request frame missing required keys", fields(missing=_names(missing))
    if extra := frame.keys() - _REQUEST_KEYS:
        return "request frame contains unsupported keys", fields(unsupported=_names(extra))
    return None


class State(Enum):
    """How far a connection has come."""

    NOT_READY = "not ready"
    READY = "ready"
    CLOSED = "closed"


class ServerConnection:
    """The server's end.

    `receive` gives requests to run and errors to send as they are, in order. Every request is answered once,
    by `respond` or `fail`. `event` gives the bytes of an event, or none if the client did not subscribe to
    its topic.
    """

    def __init__(
        self,
        ops: Mapping[str, Op] = OPS,
        topics: Mapping[str, tuple[str, ...]] = TOPICS,
        *,
        max_pending: int = MAX_PENDING,
        max_line: int = MAX_LINE,
    ) -> None:
        self.state = State.NOT_READY
        self.pending: dict[str, str] = {}
        """Each unanswered request's op, by its id."""
        self.subscribed: frozenset[str] = frozenset()
        """The topics that the client named; none means all."""
        self._ops = ops
        self._topics = topics
        self._max_pending = max_pending
        self._lines = LineBuffer(max_line)
        self._seq = 0

    def __repr__(self) -> str:
        return f"<ServerConnection {self.state.value}, {len(self.pending)} pending>"

    def receive(self, data: bytes) -> list[Request | Error | Broken]:
        """What the client asks for. After a Broken, send its reply and close."""
        received: list[Request | Error | Broken] = []
        for line in self.feed(data):
            received.append(self.judge(loaded(line)))
            if isinstance(received[-1], Broken):
                break
        return received

    def feed(self, data: bytes) -> list[bytes | LineTooLong]:
        """The lines that are complete with this data, for `loaded`."""
        return self._lines.feed(data) if self.state is not State.CLOSED else []

    def finish(self) -> list[bytes | LineTooLong]:
        """The last line, if it has no newline: nothing more will come."""
        return self._lines.finish() if self.state is not State.CLOSED else []

    def judge(self, frame: dict[Any, Any] | Error) -> Request | Error | Broken:
        """One line, by the protocol's steps in their order. Only an accepted request changes anything."""
        if isinstance(frame, Error):
            return frame
        id_, op = _echo(frame, _ID), _echo(frame, _OP)

        def refused(code: ErrorCode, message: str, data: Data | None = None) -> Error:
            return Error(code, message, id_, op, data)

        if fault := _envelope_fault(frame):
            return refused(ErrorCode.INVALID_ENVELOPE, *fault)
        if self.state is State.NOT_READY and op != "handshake":
            return refused(ErrorCode.NOT_READY, "handshake must complete before non-handshake requests")
        if id_ is None:
            return refused(ErrorCode.INVALID_ID, _why_no_text(frame[_ID], ":id"))
        if op is None:
            return refused(ErrorCode.INVALID_OP, _why_no_text(frame[_OP], ":op"))
        if id_ in self.pending:
            return refused(ErrorCode.INVALID_ID, "duplicate request :id")
        if len(self.pending) >= self._max_pending:
            return refused(ErrorCode.MAX_PENDING_EXCEEDED, "maximum pending requests exceeded")
        params = frame.get(_PARAMS)
        params = {} if params is None else params
        if type(params) is not dict:
            return refused(ErrorCode.INVALID_PARAMS, "request :params must be a map")
        if wrong := fault_in_target(params):
            return refused(ErrorCode.INVALID_PARAMS, wrong)
        known = self._ops.get(op)
        if known is None:
            supported = fields(supported_ops=sorted(self._ops))
            return refused(ErrorCode.OP_NOT_SUPPORTED, f"unsupported op: {op}", supported)
        if wrong := fault_in_params(op, known, params):
            return refused(ErrorCode.INVALID_PARAMS, wrong)
        if op == "handshake":
            version = offered_version(params)
            if version is None:
                wanted = "handshake requires :params :client-info :protocol-version string"
                return refused(ErrorCode.INVALID_PARAMS, wanted)
            if (major := major_of(version)) != str(MAJOR):
                self.state = State.CLOSED
                error = refused(ErrorCode.UNSUPPORTED_VERSION, f"unsupported protocol major: {major}")
                return Broken(error.message, encode(error))
            self.state = State.READY
        self.pending[id_] = op
        return Request(id_, op, params)

    def respond(self, id: str, data: Any = None, *, ok: bool = True) -> bytes:
        """The response to a pending request."""
        return self._answered(id, Response(id, self._op(id), data, ok))

    def fail(
        self, id: str, code: str, message: str, data: Any = None, *, retryable: bool | None = None
    ) -> bytes:
        """The error that answers a pending request."""
        return self._answered(id, Error(code, message, id, self._op(id), data, retryable))

    def _op(self, id: str) -> str:
        op = self.pending.get(id)
        if op is None:
            raise LocalError(f"no pending request has the id {id!r}")
        return op

    def _answered(self, id: str, answer: Response | Error) -> bytes:
        line = encode(answer)  # before anything changes: an answer that can't be written is none
        del self.pending[id]
        return line

    def event(self, topic: str, data: Data, *, id: str | None = None, ts: str | None = None) -> bytes:
        """An event with the next number, or nothing if the client is not subscribed to the topic."""
        required = self._topics.get(topic)
        if required is None:
            raise LocalError(f"no such topic: {topic}")
        if missing := [name for name in required if Keyword(name) not in data]:
            why = f"the event {topic} lacks {', '.join(missing)}"
            code = ErrorCode.INVALID_EVENT.value
            data = fields(error_code=code, error_message=why, event=topic, missing_keys=missing)
            topic = "error"
        if not self.wants(topic):
            return b""
        line = encode(Event(topic, data, id, self._seq + 1, ts))
        self._seq += 1
        return line

    def wants(self, topic: str) -> bool:
        """Whether the client gets this topic: one that it has named, or any of psi's if it named none."""
        return topic in self.subscribed if self.subscribed else topic not in OWN_TOPICS

    def subscribe(self, topics: Iterable[str] = ()) -> list[str]:
        """Add topics, dropping unknown ones. Gives the sorted set, as the response lists it."""
        self.subscribed |= self._topics.keys() & set(topics)
        return sorted(self.subscribed)

    def unsubscribe(self, topics: Iterable[str] = ()) -> list[str]:
        """Remove topics, all of them if none is named. Gives the sorted set, as the response lists it."""
        gone = frozenset(topics)
        self.subscribed = self.subscribed - gone if gone else frozenset()
        return sorted(self.subscribed)

    def close(self) -> None:
        """The connection is over."""
        self.state = State.CLOSED


def _why_no_text(value: object, name: str) -> str:
    if type(value) is str and value.strip():
        return f"request {name} must have at most {MAX_ID} characters"
    return f"request {name} must be a non-empty string"


def major_of(version: str) -> str:
    """The digits before the first dot, or `unknown`."""
    major = version.partition(".")[0]
    return major[:MAX_ID] if major.isascii() and major.isdigit() else "unknown"


def offered_version(params: Data) -> str | None:
    """The protocol version that a handshake's parameters offer."""
    name = Keyword("protocol-version")
    info = params.get(Keyword("client-info"))
    version = info.get(name) if isinstance(info, Mapping) else None
    if version is None:
        version = params.get(name)
    return version if type(version) is str and version.strip() else None


INCREMENTS: Final = "increments"
"""A feature that clients ask for: answers in pieces, and each message and call as the model makes it."""
RECEIPTS: Final = "receipts"
"""A feature that clients ask for: the response to a prompt has its id, by which events name it."""
HOSTS: Final = "hosts"
"""A feature that clients ask for: `HOST:NAME` is a session of another host, and `local:NAME` one of this."""
OUR_FEATURES: Final = (INCREMENTS, RECEIPTS)
"""What our own clients ask for."""


def offered_features(params: Data) -> frozenset[str]:
    """The features that a handshake's parameters name."""
    info = params.get(Keyword("client-info"))
    named = info.get(Keyword("features")) if isinstance(info, Mapping) else None
    if not isinstance(named, list | tuple | frozenset):
        return frozenset()
    return frozenset(each for each in named if type(each) is str)


def server_info(*, features: Iterable[str] = FEATURES, **more: Any) -> dict[Keyword, Any]:
    """The data of a handshake's response; `more` is session_id, model_id, thinking_level."""
    return fields(server_info=fields(protocol_version=PROTOCOL_VERSION, features=list(features), **more))


# --- the client's end --------------------------------------------------------------------------------------

_RESPONSE_KEYS = frozenset({_ID, _KIND, _OP, _OK, _DATA})
_ERROR_KEYS = frozenset({_KIND, _ID, _OP, _CODE, _MESSAGE, _RETRYABLE, _DATA})
_EVENT_KEYS = frozenset({_KIND, _EVENT, _DATA, _ID, _SEQ, _TS})


def _parsed(frame: Mapping[Any, Any]) -> Response | Error | Event:
    """A server's frame. Raises ValueError if the envelope is wrong."""
    kind = frame.get(_KIND)
    get: Callable[[Keyword], Any] = frame.get
    parsed: Response | Error | Event
    if kind is _RESPONSE:
        allowed = _RESPONSE_KEYS
        parsed = Response(get(_ID), get(_OP), get(_DATA), get(_OK))
    elif kind is _ERROR:
        allowed = _ERROR_KEYS
        parsed = Error(get(_CODE), get(_MESSAGE), get(_ID), get(_OP), get(_DATA), get(_RETRYABLE))
    elif kind is _EVENT:
        allowed = _EVENT_KEYS
        parsed = Event(get(_EVENT), get(_DATA), get(_ID), get(_SEQ), get(_TS))
    else:
        raise ValueError(f":kind must be :response, :error or :event, not {_name(kind)}")
    if extra := frame.keys() - allowed:
        raise ValueError(f"unsupported keys: {', '.join(_names(extra))}")
    return parsed


class ClientConnection:
    """The client's end.

    Begin with `handshake`. When its response has come, `request` gives the bytes of anything else. `receive`
    gives responses, errors and events as they come; a response or an error with an id ends that request.
    """

    def __init__(self, *, max_pending: int = MAX_PENDING, max_line: int = MAX_LINE) -> None:
        self.state = State.NOT_READY
        self.pending: dict[str, str] = {}
        """Each unanswered request's op, by its id."""
        self._max_pending = max_pending
        self._lines = LineBuffer(max_line)
        self._made = 0
        self._seq = 0

    def __repr__(self) -> str:
        return f"<ClientConnection {self.state.value}, {len(self.pending)} pending>"

    def handshake(
        self,
        name: str,
        version: str,
        features: Iterable[str] = (),
        *,
        key_names: Iterable[str] = (),
        agent: str = "",
        shown: bool = False,
        via: str = "",
    ) -> bytes:
        """The request that comes first. `key_names` are variables whose values the client will lend; `agent`
        is the agent for which it works, if no person is at its other end; `shown` says that a person looks at
        what it receives; `via` is what its person answers questions with."""
        info = fields(name=name, version=version, protocol_version=PROTOCOL_VERSION, features=list(features))
        info |= fields(shown=True) if shown else {}
        info |= fields(via=via) if via else {}
        lends = {"key_names": names} if (names := list(key_names)) else {}
        works_for = {"agent": agent} if agent else {}
        return self._sent("handshake", fields(client_info=info, **lends, **works_for))[1]

    def request(self, op: str, params: Data | None = None) -> tuple[str, bytes]:
        """A request's id and its bytes."""
        if self.state is not State.READY:
            raise LocalError(f"can't request {op}: the connection is {self.state.value}")
        return self._sent(op, params or {})

    def _sent(self, op: str, params: Data) -> tuple[str, bytes]:
        if self.state is State.CLOSED:
            raise LocalError("the connection is closed")
        if len(self.pending) >= self._max_pending:
            raise LocalError(f"{self._max_pending} requests are pending already")
        request = Request(f"req-{self._made + 1}", op, params)
        line = encode(request)
        self._made += 1
        self.pending[request.id] = op
        return request.id, line

    def receive(self, data: bytes) -> list[Response | Error | Event | Broken]:
        """What the server says. After a Broken, close."""
        received: list[Response | Error | Event | Broken] = []
        for line in self._lines.feed(data) if self.state is not State.CLOSED else ():
            if self.state is State.CLOSED:
                break
            try:
                received.append(self._checked_line(line))
            except ValueError as fault:
                self.state = State.CLOSED
                received.append(Broken(f"bad frame from the server: {fault}"))
        return received

    def _checked_line(self, line: bytes | LineTooLong) -> Response | Error | Event:
        if isinstance(line, LineTooLong):
            raise ValueError(f"a line of more than {line.limit} bytes")
        frame = edn.loads(line, max_tokens=MAX_TOKENS)
        if type(frame) is not dict:
            raise ValueError("not a map")
        parsed = _parsed(frame)
        if isinstance(parsed, Event):
            if parsed.seq is not None:
                if parsed.seq <= self._seq:
                    raise ValueError(f":seq {parsed.seq} after {self._seq}")
                self._seq = parsed.seq
        elif isinstance(parsed, Response):
            op = self.pending.get(parsed.id)
            if op is None or op != parsed.op:
                raise ValueError(
                    f"a response to {parsed.op[:MAX_ID]} {_value_text(parsed.id)}, which is not pending"
                )
            del self.pending[parsed.id]
            if op == "handshake" and parsed.ok:
                self.state = State.READY
        elif parsed.id is not None:
            self.pending.pop(parsed.id, None)
        return parsed

    def close(self) -> None:
        """The connection is over."""
        self.state = State.CLOSED
