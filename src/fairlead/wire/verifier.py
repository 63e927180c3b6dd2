"""Pi's verifier protocol: JSON envelopes, one a line, between a builder and those who check its turns.

The builder tells when a turn starts and stops; a verifier sends corrections (`prompt`) and its judgement
(`report`). This module has the envelopes, which side may send which, the rules of liveness, the parsing of a
report out of a verifier's message, and both ends of a connection. It does no I/O and has no clock: who calls
it says what time it is. How often a correction may loop is the business of `verify`.

A line ends at the byte 0x0A only. Neither of the real sides checks an envelope beyond its type, so neither
does a connection end for that here: an envelope of a known type with wrong fields is a `Malformed`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, NoReturn, cast, get_args

import msgspec

from .faults import Broken, LocalError
from .lines import LineBuffer, LineTooLong

MAX_ENVELOPE = 32 * 1024 * 1024
"""How many bytes a line may have."""
PING_INTERVAL = 10.0
"""Seconds between pings, on both sides."""
MAX_MISSES = 3
"""A peer that leaves this many pings unanswered is gone."""
ACK_DEADLINE = 60.0
"""Seconds that a verifier waits for the answer to its prompt."""
LAUNCH_PAUSE = 0.5
"""Seconds to wait after the socket of a real builder appears: a hello during its launch is forgotten."""
DIRECTORY = "/tmp/pi-verifier"
MAX_SOCKET_PATH = 100
"""How many bytes the path of a socket may have."""

Status = Literal["verified", "failed", "unsure"]
Confidence = Literal["perfect", "verified", "partial", "feedback", "failed"]
DeliverAs = Literal["followUp", "steer"]
EventName = Literal["start", "stop", "error"]
Outcome = Literal["done", "failed", "aborted", "interrupted", "lost"]
"""How a run ended: by itself, with an error, by a person (the next two), or with the program that ran it."""

CONFIDENCE_OF: dict[Status, Confidence] = {"verified": "verified", "failed": "feedback", "unsure": "failed"}
"""The confidence of a report that doesn't say it."""


# --- envelopes --------------------------------------------------------------------------------------------

_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair


class _Envelope(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", omit_defaults=True
):
    """What all envelopes share: names as in JavaScript on the wire, and no key for what is not said."""

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r:.{_SHOWN}}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({', '.join(shown)})"

    def encode(self) -> bytes:
        """The envelope as a line, byte for byte as JavaScript's JSON.stringify gives it."""
        try:
            return msgspec.json.encode(self) + b"\n"
        except UnicodeEncodeError:  # half of a surrogate pair in a text: JavaScript writes it as an escape
            text = json.dumps(msgspec.to_builtins(self), separators=(",", ":"), ensure_ascii=False)
            return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode("utf-8") + b"\n"


def _check(envelope: _Envelope, **wanted: Any) -> None:
    """An envelope with fields of the wrong type can't be made. A tuple lists the values that are allowed."""
    for name, kind in wanted.items():
        value = getattr(envelope, name)
        if isinstance(kind, tuple):
            good = value in kind
            expected = " or ".join(map(repr, kind))
        else:
            good = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
            expected = getattr(kind, "__name__", str(kind))
        if not good:
            raise ValueError(f"{name} of a {type(envelope).__name__} must be {expected}, not {value!r}")


class Hello(_Envelope, frozen=True, kw_only=True, tag="hello"):
    """The verifier is here."""

    role: Literal["verifier", "verifiable"]
    session_id: str
    pid: int
    since: int | None = None
    """Ours alone: the line of the session's file up to which this verifier has judged."""

    def __post_init__(self) -> None:
        _check(self, role=("verifier", "verifiable"), session_id=str, pid=int, since=int | None)


class HelloAck(_Envelope, frozen=True, kw_only=True, tag="hello_ack"):
    """The builder's answer, with its own session."""

    session_id: str

    def __post_init__(self) -> None:
        _check(self, session_id=str)


class Prompt(_Envelope, frozen=True, kw_only=True, tag="prompt"):
    """A correction for the builder's agent. Without `deliver_as` it follows the running turn."""

    session_id: str
    message: str
    deliver_as: DeliverAs | None = None
    correlation_id: str

    def __post_init__(self) -> None:
        deliveries = (None, *get_args(DeliverAs))
        _check(self, session_id=str, message=str, deliver_as=deliveries, correlation_id=str)


class PromptAck(_Envelope, frozen=True, kw_only=True, tag="prompt_ack"):
    """Whether the correction was queued, and if not, why."""

    session_id: str
    correlation_id: str
    ok: bool
    error: str | None = None

    def __post_init__(self) -> None:
        _check(self, session_id=str, correlation_id=str, ok=bool, error=str | None)


class Report(_Envelope, frozen=True, kw_only=True, tag="report"):
    """What a verifier found about a turn. Without a confidence, it is the one of its status."""

    session_id: str
    turn_index: int
    status: Status
    confidence: Confidence | None = None
    summary: str
    sections: dict[str, str]
    raw: str
    evidence: dict[str, Any] | None = None
    """Ours alone: what the report is based on."""

    def __post_init__(self) -> None:
        _check(
            self, session_id=str, turn_index=int, status=get_args(Status), summary=str, sections=dict, raw=str
        )
        _check(self, confidence=(None, *get_args(Confidence)), evidence=dict | None)
        for title, body in self.sections.items():
            if not isinstance(title, str) or not isinstance(body, str):
                raise ValueError(
                    f"sections of a Report must be texts by their titles, not {title!r}: {body!r}"
                )
        if self.confidence is None:
            msgspec.structs.force_setattr(self, "confidence", CONFIDENCE_OF[self.status])


class Event(_Envelope, frozen=True, kw_only=True, tag="event"):
    """A turn started or stopped, or something went wrong. Lines are those of the session's file, from 1."""

    name: EventName
    session_id: str
    turn_index: int | None = None
    detail: str | None = None
    timestamp: int | float
    user_prompt: str | None = None
    session_file_start_line: int | None = None
    session_file_end_line: int | None = None
    outcome: Outcome | None = None
    """Ours alone: how the run that stopped ended; `detail` says why if it failed."""

    def __post_init__(self) -> None:
        _check(self, outcome=(None, *get_args(Outcome)))
        _check(self, name=get_args(EventName), session_id=str, turn_index=int | None, detail=str | None)
        _check(self, timestamp=int | float, user_prompt=str | None)
        _check(self, session_file_start_line=int | None, session_file_end_line=int | None)
        if isinstance(self.timestamp, float):
            if not math.isfinite(self.timestamp):
                raise ValueError(f"timestamp of an Event must be finite, not {self.timestamp}")
            if self.timestamp.is_integer():  # JavaScript writes 5, not 5.0
                msgspec.structs.force_setattr(self, "timestamp", int(self.timestamp))


class Ping(_Envelope, frozen=True, kw_only=True, tag="ping"):
    """Are you there?"""

    nonce: str

    def __post_init__(self) -> None:
        _check(self, nonce=str)


class Pong(_Envelope, frozen=True, kw_only=True, tag="pong"):
    """Yes, I am."""

    nonce: str

    def __post_init__(self) -> None:
        _check(self, nonce=str)


class Bye(_Envelope, frozen=True, kw_only=True, tag="bye"):
    """This side is leaving."""

    reason: str

    def __post_init__(self) -> None:
        _check(self, reason=str)


Envelope = Hello | HelloAck | Prompt | PromptAck | Report | Event | Ping | Pong | Bye


class Malformed(msgspec.Struct, frozen=True):
    """An envelope of a known type whose fields are wrong. The connection lives."""

    type: str
    reason: str
    raw: dict[str, Any]


class Misdirected(msgspec.Struct, frozen=True):
    """An envelope that this peer may not send. It is dropped."""

    envelope: Envelope
    reason: str


_TYPES: dict[str, type[Envelope]] = {
    kind.__struct_config__.tag: kind  # type: ignore[misc]
    for kind in (Hello, HelloAck, Prompt, PromptAck, Report, Event, Ping, Pong, Bye)
}
_DECODER = msgspec.json.Decoder(Envelope)
_SHOWN = 200  # how much of a bad line a reason shows


def decode(line: bytes) -> Envelope | Malformed | Broken:
    """The envelope on a line. It is Broken if it is no JSON object or its type is unknown."""
    try:
        envelope: Envelope = _DECODER.decode(line)
        return envelope
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _explained(line)


def _explained(line: bytes) -> Envelope | Malformed | Broken:
    """What is wrong with a line that msgspec refused. It may be right: JSON allows half a surrogate pair."""
    try:
        raw = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as fault:
        return Broken(f"not JSON: {fault}; got {_brief(line)}")
    if not isinstance(raw, dict) or "type" not in raw:
        return Broken(f'an envelope must be an object with a "type"; got {_brief(line)}')
    kind = raw["type"]
    if not isinstance(kind, str) or kind not in _TYPES:
        return Broken(f"unknown envelope type {kind!r:.{_SHOWN}}; expected one of {', '.join(_TYPES)}")
    try:
        converted: Envelope = msgspec.convert(raw, _TYPES[kind])
        return converted
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as fault:
        return Malformed(kind, f"{kind}: {fault}", raw)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _brief(line: bytes) -> str:
    text = line[:_SHOWN].decode("utf-8", "replace")
    return repr(text) if len(line) <= _SHOWN else f"{text!r}…(+{len(line) - _SHOWN} bytes)"


# --- who may send what ------------------------------------------------------------------------------------


class Side(Enum):
    """The two ends."""

    BUILDER = "builder"
    VERIFIER = "verifier"


MAY_SEND: dict[Side, frozenset[type[Envelope]]] = {
    Side.VERIFIER: frozenset({Hello, Prompt, Report, Ping, Pong, Bye}),
    Side.BUILDER: frozenset({HelloAck, PromptAck, Event, Ping, Pong, Bye}),
}


def check_direction(envelope: Envelope, sender: Side) -> None:
    """Raise a LocalError if this side may not send this envelope."""
    if type(envelope) not in MAY_SEND[sender]:
        raise LocalError(_not_for(envelope, sender))


def _not_for(envelope: Envelope, sender: Side) -> str:
    kind = envelope.__struct_config__.tag
    allowed = ", ".join(tag for tag, each in _TYPES.items() if each in MAY_SEND[sender])
    return f"a {sender.value} may not send {kind}; it may send {allowed}"


# --- liveness ---------------------------------------------------------------------------------------------


class Liveness:
    """When to ping, and when to give up. The caller gives the time, in seconds of any clock that only grows.

    Call `due` at `next` or later; it gives a Ping to send, or None if the peer must be taken for gone. Call
    `heard` with each Pong.
    """

    def __init__(self, now: float, interval: float = PING_INTERVAL, max_misses: int = MAX_MISSES) -> None:
        self.next = now + interval
        self._interval = interval
        self._max_misses = max_misses
        self._unanswered: list[str] = []
        self._sent = 0

    def due(self, now: float) -> Ping | None:
        """The next ping, or None if the last ones went unanswered."""
        if len(self._unanswered) >= self._max_misses:
            return None
        self.next = now + self._interval
        self._sent += 1
        ping = Ping(nonce=f"{self._sent}")
        self._unanswered.append(ping.nonce)
        return ping

    def heard(self, pong: Pong) -> None:
        """The peer answered one of our pings."""
        if pong.nonce in self._unanswered:
            self._unanswered.clear()


# --- connections ------------------------------------------------------------------------------------------


class State(Enum):
    """How far a connection has come."""

    OPEN = "open"
    LEAVING = "leaving"
    """One side said bye: nothing more is sent."""
    CLOSED = "closed"


class _Connection:
    """One end of a connection.

    `receive` gives what the peer says, `send` the bytes of what we may say, and `answer` the reply that the
    protocol itself demands, if any.
    """

    side: Side
    peer: Side

    def __init__(self, session_id: str, *, max_envelope: int = MAX_ENVELOPE) -> None:
        self.session_id = check_session_id(session_id)
        self.state = State.OPEN
        self.misdirected = 0
        """How many envelopes came in the wrong direction."""
        self._lines = LineBuffer(max_envelope)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.session_id} {self.state.value}>"

    def receive(self, data: bytes) -> list[Envelope | Malformed | Misdirected | Broken]:
        """What the peer says. After a Broken, send its reply and close."""
        received: list[Envelope | Malformed | Misdirected | Broken] = []
        for line in self._lines.feed(data) if self.state is not State.CLOSED else ():
            if self.state is State.CLOSED:
                break
            if line == b"":
                continue
            item = self._checked_line(line)
            if isinstance(item, Broken):
                reply = Bye(reason=item.reason).encode() if self.state is State.OPEN else b""
                item = Broken(item.reason, reply)
                self.close()
            elif isinstance(item, Bye):
                self.state = State.LEAVING
            received.append(item)
        return received

    def _checked_line(self, line: bytes | LineTooLong) -> Envelope | Malformed | Misdirected | Broken:
        if isinstance(line, LineTooLong):
            return Broken(f"an envelope of more than {line.limit} bytes")
        item = decode(line)
        if isinstance(item, Malformed | Broken) or type(item) in MAY_SEND[self.peer]:
            return item
        self.misdirected += 1
        return Misdirected(item, _not_for(item, self.peer))

    def send(self, envelope: Envelope) -> bytes:
        """The bytes of an envelope that this side may send now, else a LocalError."""
        check_direction(envelope, self.side)
        if self.state is not State.OPEN:
            raise LocalError(f"nothing can be sent when {self.state.value}")
        if isinstance(envelope, Bye):
            self.state = State.LEAVING
        return envelope.encode()

    def answer(self, envelope: Envelope | Malformed | Misdirected | Broken) -> Envelope | None:
        """What the protocol itself demands as a reply, if anything can still be sent."""
        return self._demanded(envelope) if self.state is State.OPEN else None

    def _demanded(self, envelope: Envelope | Malformed | Misdirected | Broken) -> Envelope | None:
        return Pong(nonce=envelope.nonce) if isinstance(envelope, Ping) else None

    def close(self) -> None:
        """The connection is over."""
        self.state = State.CLOSED


class BuilderConnection(_Connection):
    """The builder's end: it tells of turns and takes prompts and reports."""

    side, peer = Side.BUILDER, Side.VERIFIER

    def _demanded(self, envelope: Envelope | Malformed | Misdirected | Broken) -> Envelope | None:
        """A HelloAck, a Pong, or the PromptAck for a prompt that can't be taken at all."""
        if isinstance(envelope, Hello):
            return HelloAck(session_id=self.session_id)
        if isinstance(envelope, Prompt) and envelope.session_id != self.session_id:
            return self.ack(
                envelope, f"session {envelope.session_id!r} is not here; this is {self.session_id!r}"
            )
        if isinstance(envelope, Malformed) and envelope.type == "prompt":
            correlation = envelope.raw.get("correlationId")
            known = correlation if isinstance(correlation, str) else ""
            return PromptAck(
                session_id=self.session_id, correlation_id=known, ok=False, error=envelope.reason
            )
        return super()._demanded(envelope)

    def ack(self, prompt: Prompt, error: str | None = None) -> PromptAck:
        """The answer to a prompt: queued, or refused for a reason."""
        return PromptAck(
            session_id=self.session_id,
            correlation_id=prompt.correlation_id,
            ok=error is None,
            error=error,
        )


class VerifierConnection(_Connection):
    """The verifier's end: begin with `send(hello(pid))`."""

    side, peer = Side.VERIFIER, Side.BUILDER

    def hello(self, pid: int, since: int | None = None) -> Hello:
        """The first envelope."""
        return Hello(role="verifier", session_id=self.session_id, pid=pid, since=since)


# --- reports ----------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r"^ {0,3}(#{1,3})[ \t]+(.*)$")
_FIELD = re.compile(  # a template's choice, verified|failed, is no answer
    r"^[\s>*_`-]*(STATUS|CONFIDENCE)[\s*_`]*:[\s*_`]*([A-Za-z]++)(?!\s*\|)", re.IGNORECASE
)
_FOCUS = "what did you verify"


class ReportError(ValueError):
    """A verifier's message that holds no report."""


def parse_report(message: str, session_id: str, turn_index: int) -> Report:
    """The report in a verifier's message: what stands below its last heading `## Report`.

    A line `STATUS:` must be there; `CONFIDENCE:` and the level-3 sections may be. Raises ReportError.
    """
    fields: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    section: list[str] | None = None
    inside = found = False
    for level, text in _marked(message):
        if level in (1, 2):
            inside = level == 2 and text.strip("*_: ").casefold() == "report"
            if inside:
                found = True
                fields, sections, section = {}, {}, None
        elif not inside:
            continue
        elif level == 3:
            section = sections.setdefault(text, [])
        else:
            if match := _FIELD.match(text):
                fields.setdefault(match[1].casefold(), match[2].casefold())
            if section is not None:
                section.append(text)
    status = fields.get("status")
    if not found:
        raise ReportError("the message has no heading '## Report'")
    if status not in get_args(Status):
        raise ReportError(
            f"below '## Report' there must be STATUS: verified, failed or unsure, not {status!r}"
        )
    confidence = fields.get("confidence")
    bodies = {title: "\n".join(lines).strip() for title, lines in sections.items()}
    focus = next((body for title, body in bodies.items() if title.casefold().rstrip(" ?:") == _FOCUS), "")
    return Report(
        session_id=session_id,
        turn_index=turn_index,
        status=cast(Status, status),
        confidence=cast(Confidence, confidence) if confidence in get_args(Confidence) else None,
        summary=focus.partition("\n")[0].strip() or f"{status} for turn {turn_index}",
        sections=bodies,
        raw=message,
    )


def _marked(message: str) -> Iterator[tuple[int, str]]:
    """The lines of a Markdown text, each with its level if it is a heading up to level 3, else with 0."""
    fence = ""
    for line in message.split("\n"):
        line = line.rstrip("\r")
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif mark:
            fence = mark[1]
        elif heading := _HEADING.match(line):
            yield len(heading[1]), _title(heading[2])
            continue
        yield 0, line


def _title(text: str) -> str:
    """A heading's text without the marks that may close it: `Report ##` is `Report`, `C#` stays."""
    text = text.rstrip(" \t")
    bare = text.rstrip("#")
    return bare.rstrip(" \t") if not bare or bare[-1] in " \t" else text


# --- where the sockets are --------------------------------------------------------------------------------


def check_session_id(session_id: str) -> str:
    """The id, if it can be part of a socket's path; else a ValueError."""
    if not session_id or re.search(r"[/\0\s]", session_id) or session_id in (".", ".."):
        raise ValueError(f"a session id is not empty and has no slash, NUL or white space: {session_id!r}")
    return session_id


def socket_path(session_id: str, directory: str = DIRECTORY) -> str:
    """The path of a session's socket. Raises ValueError for an id or a path that can't be."""
    path = f"{directory}/{check_session_id(session_id)}.sock"
    length = len(path.encode("utf-8", "surrogateescape"))
    if length > MAX_SOCKET_PATH:
        raise ValueError(
            f"the socket's path has {length} bytes; at most {MAX_SOCKET_PATH} are possible: {path}"
        )
    return path


def breadcrumb_path(session_id: str, cwd: str) -> str:
    """The file in a project that holds the path of its session's socket and a newline."""
    return f"{cwd}/.pi/state/verifier-{check_session_id(session_id)}.sock.ref"
