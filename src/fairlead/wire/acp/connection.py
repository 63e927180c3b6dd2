"""Both ends of a connection: the client's, for third-party agents, and the agent's, for editors.

`receive` returns what the peer sent, judged by the table in `rules`; `request`, `notify`, `respond` and
`fail` return the bytes of what we may send, or raise a LocalError. A peer's breach is a `CallRefused` or an
`Ignored`.

    >>> client = ClientConnection()
    >>> id, line = client.request(Initialize(protocol_version=VERSION))
    >>> line
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\\n'

`save` returns a connection's whole state between two lines; a connection made from it goes on in the middle
of a turn. Bytes after the last newline are not part of it: who restores a connection feeds them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import chain
from typing import Any, ClassVar

import msgspec

from .. import jsonrpc
from ..faults import Broken, LocalError
from ..jsonrpc import Envelope, Error, ErrorCode, Id, JsonRpcFault
from ..lines import LineBuffer, LineTooLong
from . import rules
from .base import Wire
from .limits import MAX_COMPLAINTS, MAX_LINE, MAX_OPEN, MAX_SESSIONS
from .messages import (
    VERSION,
    Cancel,
    Cancelled,
    CancelRequest,
    Initialize,
    InitializeResult,
    NewSessionResult,
    PermissionResult,
    RequestPermission,
    Selected,
)
from .reading import Unreadable, read
from .rules import METHOD_OF, METHODS, Before, Effect, Method, Refusal, Side
from .updates import KnownUpdate, OtherUpdate, SessionUpdate

_PROMPT = "session/prompt"
_PERMISSION = "session/request_permission"
_QUESTIONS = (_PERMISSION, "elicitation/create")


class State(Enum):
    """What a session does, in the words of the protocol's second version."""

    RUNNING = "running"
    IDLE = "idle"
    REQUIRES_ACTION = "requires_action"
    """The agent waits for a person's answer."""


# --- what comes -------------------------------------------------------------------------------------------


class Request(msgspec.Struct, frozen=True):
    """The peer asks for something: answer it once, by `respond` or `fail`."""

    id: Id
    method: str
    params: Any


class Notification(msgspec.Struct, frozen=True):
    """The peer reports something: for a client, mostly a `SessionUpdate`."""

    method: str
    params: Any


class CallAnswer(msgspec.Struct, frozen=True):
    """The result of a request of ours."""

    id: Id
    method: str
    session: str | None
    result: Any


class CallFailure(msgspec.Struct, frozen=True):
    """A request of ours failed, or its answer can't be read."""

    id: Id
    method: str
    session: str | None
    error: Error


class CallRefused(msgspec.Struct, frozen=True):
    """A request that the protocol itself answers: send the reply."""

    reason: str
    reply: bytes


class Ignored(msgspec.Struct, frozen=True):
    """Something that has no answer and no meaning here."""

    reason: str


Item = Request | Notification | CallAnswer | CallFailure | CallRefused | Ignored | Broken


# --- what is kept -----------------------------------------------------------------------------------------


class OpenRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request without an answer yet."""

    id: Id
    method: str
    session: str | None = None
    options: tuple[str, ...] = ()
    """The ids that a permission offers."""


class Saved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a connection."""

    next_id: int = 0
    ours: tuple[OpenRequest, ...] = ()
    theirs: tuple[OpenRequest, ...] = ()
    client: Initialize | None = None
    agent: InitializeResult | None = None
    """There once initialize was answered."""
    sessions: dict[str, bool] = msgspec.field(default_factory=dict)
    """Whether each session is open yet."""
    cancelled: tuple[str, ...] = ()
    """The sessions whose turn was cancelled and has not ended."""
    complaints: int = 0
    """How many lines without a readable id got an error."""
    closed: bool = False


class _Connection:
    """What both ends share."""

    side: ClassVar[Side]
    peer: ClassVar[Side]

    def __init__(self, saved: Saved | None = None, *, max_line: int = MAX_LINE) -> None:
        saved = saved or Saved()
        self.client = saved.client
        """What the client said of itself."""
        self.agent = saved.agent
        """What the agent said of itself, once `initialize` was answered."""
        self.ours: dict[Id, OpenRequest] = {each.id: each for each in saved.ours}
        """Our requests that the peer has not answered."""
        self.theirs: dict[Id, OpenRequest] = {each.id: each for each in saved.theirs}
        """The peer's requests that we have not answered."""
        self.closed = saved.closed
        self._next_id = saved.next_id
        self._sessions = dict(saved.sessions)
        self._cancelled = set(saved.cancelled)
        self._complaints = saved.complaints
        self._lines = LineBuffer(max_line)

    def __repr__(self) -> str:
        ready = "closed" if self.closed else "ready" if self.agent else "new"
        return (
            f"<{type(self).__name__} {ready}, {len(self._sessions)} sessions,"
            f" {len(self.ours)} requests of ours and {len(self.theirs)} of the peer are open>"
        )

    def save(self) -> Saved:
        """The state after the last whole line."""
        return Saved(
            next_id=self._next_id,
            ours=tuple(self.ours.values()),
            theirs=tuple(self.theirs.values()),
            client=self.client,
            agent=self.agent,
            sessions=dict(self._sessions),
            cancelled=tuple(sorted(self._cancelled)),
            complaints=self._complaints,
            closed=self.closed,
        )

    @property
    def sessions(self) -> list[str]:
        """The sessions that are open."""
        return [name for name, is_open in self._sessions.items() if is_open]

    def state(self, session: str) -> State:
        """What a session does now, from the requests that are open."""
        methods = {each.method for each in self._open_requests() if each.session == session}
        if not methods.isdisjoint(_QUESTIONS):
            return State.REQUIRES_ACTION
        return State.RUNNING if _PROMPT in methods else State.IDLE

    def permissions(self, session: str) -> list[Id]:
        """The permissions of a session that are not answered."""
        open_ones = (each for each in self._open_requests() if each.method == _PERMISSION)
        return [each.id for each in open_ones if each.session == session]

    def _open_requests(self) -> Iterable[OpenRequest]:
        return chain(self.ours.values(), self.theirs.values())

    def close(self) -> None:
        """The connection is over."""
        self.closed = True

    # --- receiving ---

    def receive(self, data: bytes) -> list[Item]:
        """What the peer sent, in order. After a Broken, close."""
        received: list[Item] = []
        for line in self._lines.feed(data) if not self.closed else ():
            if self.closed:
                break
            item = self._checked_line(line)
            if item is not None:
                received.append(item)
        return received

    def _checked_line(self, line: bytes | LineTooLong) -> Item | None:
        if isinstance(line, LineTooLong):
            reason = f"a line of more than {line.limit} bytes"
            return self._faulty(jsonrpc.fault_of(line.head, ErrorCode.INVALID_REQUEST, reason))
        if not line or line.isspace():
            return None
        message = jsonrpc.decode(line)
        if isinstance(message, JsonRpcFault):
            return self._faulty(message)
        if message.method is msgspec.UNSET:
            return self._answered(message)
        if message.id is msgspec.UNSET:
            return self._notified(message)
        return self._requested(message)

    def _faulty(self, fault: JsonRpcFault) -> Item:
        """A line that is no message: an error for the peer, or the end of the request that it answers."""
        if fault.is_answer:
            request = self.ours.pop(fault.id, None) if fault.id is not None else None
            return self._failed(request, fault.reason) if request else Ignored(fault.reason)
        if fault.id is None:
            self._complaints += 1
            if self._complaints > MAX_COMPLAINTS:
                return Ignored(fault.reason)
        return self._refused(fault.id, Refusal(fault.code, fault.reason))

    def _refused(self, id_: Id | None, refusal: Refusal) -> CallRefused:
        """An error for the peer. It must not answer a request that is open under the same id."""
        known = None if id_ in self.theirs else id_
        return CallRefused(refusal.reason, jsonrpc.error(known, Error(refusal.code, refusal.reason)))

    def _requested(self, message: Envelope) -> Item:
        id_: Id = message.id
        method = METHODS.get(message.method)
        if id_ in self.theirs:
            return self._refused(id_, Refusal(ErrorCode.INVALID_REQUEST, f"the id {id_!r:.100} is open"))
        if method is None or method.result is None:
            unknown = f"no such request: {message.method!r:.100}"
            return self._refused(id_, Refusal(ErrorCode.METHOD_NOT_FOUND, unknown))
        if refusal := self._why_never(method, self.peer):
            return self._refused(id_, refusal)
        try:
            params: Wire = read(method.params, message.params)
        except Unreadable as fault:
            return self._refused(id_, Refusal(ErrorCode.INVALID_PARAMS, f"{method.name}: {fault}"))
        if refusal := self._why_not_now(method, params, self.peer):
            return self._refused(id_, refusal)
        if isinstance(params, RequestPermission) and params.session_id in self._cancelled:
            reply = jsonrpc.result(id_, PermissionResult(outcome=Cancelled()))
            return CallRefused("the turn was cancelled", reply)
        self._begin(self.theirs, id_, method, params)
        return Request(id_, method.name, params)

    def _notified(self, message: Envelope) -> Item:
        method = METHODS.get(message.method)
        if method is None or method.result is not None:
            return Ignored(f"no such notification: {message.method!r:.100}")
        refusal = self._why_never(method, self.peer)
        if refusal is None:
            try:
                params: Wire = read(method.params, message.params)
            except Unreadable as fault:
                return Ignored(f"{method.name}: {fault}")
            refusal = self._why_not_now(method, params, self.peer)
        if refusal is not None:
            return Ignored(refusal.reason)
        self._note_cancel(params)
        return Notification(method.name, params)

    def _answered(self, message: Envelope) -> Item:
        if message.id is None:
            return Ignored(f"the peer could not read a line of ours: {_error(message.error).message:.200}")
        request = self.ours.pop(message.id, None)
        if request is None:
            return Ignored(f"an answer to {message.id!r:.100}, which is not open")
        if message.error:
            return self._failed(request, _error(message.error))
        kind = METHODS[request.method].result
        assert kind is not None
        try:
            result: Wire = read(kind, message.result)
        except Unreadable as fault:
            return self._failed(request, f"{request.method}: {fault}")
        if wrong := self._wrong_with(request, result):
            return self._failed(request, wrong)
        if isinstance(result, InitializeResult) and result.protocol_version != VERSION:
            self.closed = True
            return Broken(
                f"the agent speaks version {result.protocol_version} of the protocol, not {VERSION}"
            )
        self._end(request, result)
        return CallAnswer(request.id, request.method, request.session, result)

    def _failed(self, request: OpenRequest, error: Error | str) -> CallFailure:
        self._end(request, None)
        if isinstance(error, str):
            error = Error(ErrorCode.UNREADABLE, error)
        return CallFailure(request.id, request.method, request.session, error)

    # --- the rules ---

    def _why_never(self, method: Method, sender: Side) -> Refusal | None:
        """Why the sender can't send this now, whatever the parameters."""
        if refusal := rules.direction(method, sender):
            return refusal
        if method.before is Before.NOTHING:
            if self.client is not None:
                return Refusal(ErrorCode.INVALID_REQUEST, f"{method.name} comes only once")
            return None
        if self.agent is None or self.client is None:
            return Refusal(ErrorCode.INVALID_REQUEST, f"initialize must be answered before {method.name}")
        if not method.capability:
            return None
        receiver = self.agent.agent_capabilities if sender is Side.CLIENT else self.client.client_capabilities
        return rules.offered(method, receiver)

    def _why_not_now(self, method: Method, params: Wire, sender: Side) -> Refusal | None:
        """Why the sender can't send these parameters now."""
        session: str | None = getattr(params, "session_id", None)
        if session is not None and (refusal := self._why_not_in(session, method, sender)):
            return refusal
        mine = self.ours if sender is self.side else self.theirs
        if method.result is None:
            other = params.request_id if isinstance(params, CancelRequest) else None
            if other is not None and other not in mine:
                return Refusal(ErrorCode.NOT_FOUND, f"no request {other!r:.100} is open")
            return None
        if len(mine) >= MAX_OPEN:
            return Refusal(ErrorCode.INTERNAL, f"{MAX_OPEN} requests are open already")
        if method.effect in (Effect.CREATES, Effect.OPENS) and session not in self._sessions:
            creating = sum(METHODS[each.method].effect is Effect.CREATES for each in mine.values())
            if len(self._sessions) + creating >= MAX_SESSIONS:
                return Refusal(ErrorCode.INTERNAL, f"there are {MAX_SESSIONS} sessions already")
        return rules.content_offered(params, self.agent.agent_capabilities) if self.agent else None

    def _why_not_in(self, session: str, method: Method, sender: Side) -> Refusal | None:
        """Why a method can't be used in a session."""
        is_open = self._sessions.get(session)
        if method.before is Before.KNOWN and is_open is None:
            # an agent may report on a new session before it has told its id
            if sender is not self.side and any(
                METHODS[each.method].effect is Effect.CREATES for each in self.ours.values()
            ):
                return None
            return Refusal(ErrorCode.NOT_FOUND, f"there is no session {session!r:.100}")
        if method.before in (Before.OPEN, Before.IDLE) and not is_open:
            return Refusal(ErrorCode.NOT_FOUND, f"no session {session!r:.100} is open")
        if method.before is Before.IDLE and self._is_prompted(session):
            return Refusal(ErrorCode.INVALID_REQUEST, f"the session {session!r:.100} has an open prompt")
        return None

    def _is_prompted(self, session: str) -> bool:
        return any(each.method == _PROMPT and each.session == session for each in self._open_requests())

    def _wrong_with(self, request: OpenRequest, result: Wire) -> str | None:
        """What is wrong with a result, although its fields are right."""
        if isinstance(result, NewSessionResult) and result.session_id in self._sessions:
            return f"the session {result.session_id!r:.100} is not new"
        outcome = result.outcome if isinstance(result, PermissionResult) else None
        if isinstance(outcome, Selected) and outcome.option_id not in request.options:
            return f"the option {outcome.option_id!r:.100} was not offered"
        return None

    # --- what changes ---

    def _begin(self, requests: dict[Id, OpenRequest], id_: Id, method: Method, params: Wire) -> None:
        """A request is open from now on."""
        session: str | None = getattr(params, "session_id", None)
        options = params.options if isinstance(params, RequestPermission) else ()
        requests[id_] = OpenRequest(id_, method.name, session, tuple(each.option_id for each in options))
        if method.effect is Effect.OPENS and session is not None:
            self._sessions.setdefault(session, False)
        if isinstance(params, Initialize):
            self.client = params

    def _end(self, request: OpenRequest, result: Wire | None) -> None:
        """A request was answered: with a result, or without one because it failed."""
        effect, session = METHODS[request.method].effect, request.session or ""
        if isinstance(result, NewSessionResult):
            self._sessions[result.session_id] = True
        elif effect is Effect.OPENS and result is not None:
            self._sessions[session] = True
        elif effect is Effect.OPENS and not self._sessions.get(session):
            self._sessions.pop(session, None)
        elif effect is Effect.CLOSES and result is not None:
            self._sessions.pop(session, None)
            self._cancelled.discard(session)
        elif request.method == _PROMPT:
            self._cancelled.discard(session)
        elif isinstance(result, InitializeResult):
            self.agent = result
        elif request.method == "initialize":
            self.client = None

    def _note_cancel(self, params: Wire) -> None:
        if isinstance(params, Cancel) and self._is_prompted(params.session_id):
            self._cancelled.add(params.session_id)

    # --- sending ---

    def request(self, params: Wire) -> tuple[int, bytes]:
        """A request's id and its line. The type of the parameters names the method."""
        method = self._sendable(params, is_request=True)
        line = jsonrpc.request(self._next_id, method.name, params)
        id_ = self._next_id
        self._next_id += 1
        self._begin(self.ours, id_, method, params)
        return id_, line

    def notify(self, params: Wire) -> bytes:
        """The line of a notification. The type of the parameters names the method."""
        method = self._sendable(params, is_request=False)
        data: Any = params
        if isinstance(params, SessionUpdate) and isinstance(params.update, OtherUpdate):
            data = {"sessionId": params.session_id, "update": params.update.data}
        line = jsonrpc.notification(method.name, data)
        self._note_cancel(params)
        return line

    def _sendable(self, params: Wire, *, is_request: bool) -> Method:
        method = METHOD_OF.get(type(params))
        if method is None or is_request != (method.result is not None):
            what = "request" if is_request else "notification"
            raise LocalError(f"{type(params).__name__} are no parameters of a {what}")
        if self.closed:
            raise LocalError(f"can't send {method.name}: the connection is closed")
        refusal = self._why_never(method, self.side) or self._why_not_now(method, params, self.side)
        if refusal:
            raise LocalError(f"can't send {method.name}: {refusal.reason}")
        return method

    def respond(self, id: Id, result: Wire) -> bytes:
        """The line that answers a request of the peer."""
        request = self._answerable(id)
        kind = METHODS[request.method].result
        if kind is None or not isinstance(result, kind):
            raise LocalError(f"{type(result).__name__} is no result of {request.method}")
        if wrong := self._wrong_with(request, result):
            raise LocalError(f"can't answer {request.method}: {wrong}")
        line = jsonrpc.result(id, result)
        del self.theirs[id]
        self._end(request, result)
        return line

    def fail(self, id: Id, code: int, message: str, data: Any = None) -> bytes:
        """The line that answers a request of the peer with an error."""
        request = self._answerable(id)
        line = jsonrpc.error(id, Error(code, message, data))
        del self.theirs[id]
        self._end(request, None)
        return line

    def _answerable(self, id_: Id) -> OpenRequest:
        if self.closed:
            raise LocalError("can't answer: the connection is closed")
        request = self.theirs.get(id_)
        if request is None:
            raise LocalError(f"no request of the peer has the id {id_!r:.100}")
        return request


def _error(raw: msgspec.Raw) -> Error:
    try:
        return msgspec.json.decode(raw, type=Error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Error(ErrorCode.UNREADABLE, f"an error that can't be read: {bytes(raw)[:200]!r}")


class ClientConnection(_Connection):
    """Our end towards an agent. Begin with `request(Initialize(protocol_version=VERSION))`."""

    side, peer = Side.CLIENT, Side.AGENT

    def cancel(self, session: str) -> bytes:
        """Cancel a session's turn. The open permissions are answered in the same bytes, as they must be."""
        lines = [self.notify(Cancel(session_id=session))]
        answer = PermissionResult(outcome=Cancelled())
        lines += (self.respond(id_, answer) for id_ in self.permissions(session))
        return b"".join(lines)


class AgentConnection(_Connection):
    """Our end towards an editor."""

    side, peer = Side.AGENT, Side.CLIENT

    def withdraw(self, id: Id) -> bytes:
        """Take back a request of ours: what the client still answers is ignored."""
        line = self.notify(CancelRequest(request_id=id))
        self._end(self.ours.pop(id), None)
        return line

    def update(self, session: str, update: KnownUpdate | OtherUpdate) -> bytes:
        """The line that reports something in a session."""
        return self.notify(SessionUpdate(session_id=session, update=update))
