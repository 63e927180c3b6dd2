"""Agent sessions for the two SDKs: what happens in one as small values, what can be asked of it, and the
connection on which a client follows it.

Does no I/O. A `Following` outlives its connection: after the daemon went away, `begin` starts it on the next
one, and what was missed comes first. A `Turn` is one that says something and ends with the turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

from .. import __version__
from ..formats.record import Record
from ..settings import Settings, key_names
from ..wire import rpc
from ..wire.faults import Broken
from ..wire.rpc_catalog import TOPICS
from .calls import Answer, Call, RequestError, call, plain

Outcome = Literal["done", "aborted", "interrupted", "failed"]

_FOR_US = ("command-result", "ui/frontend-action-requested")
"""Topics that only the client hears who asked, of whatever session."""
_WANTED = tuple(topic for topic in TOPICS if not topic.startswith("terminal/") and topic != "context/updated")


class TurnFailed(Exception):
    """A turn did not end well. `outcome` is `failed`, `aborted` or `interrupted`."""

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


# --- what happens -----------------------------------------------------------------------------------------


class AgentEvent(Record):
    """Something that happened in a session. `topic` and `data` are rpc-edn's, with plain names."""

    __slots__ = ("_source",)

    @property
    def topic(self) -> str:
        return self._from()[0]

    @property
    def data(self) -> dict[str, Any]:
        return self._from()[1]

    def _from(self) -> tuple[str, dict[str, Any]]:
        return getattr(self, "_source", ("", {}))


class Text(AgentEvent):
    """A piece of the answer."""

    text: str


class Thought(AgentEvent):
    """A piece of what the model thinks before it answers."""

    text: str


class Prompted(AgentEvent):
    """Somebody said something, this client or another."""

    text: str


class Message(AgentEvent):
    """An answer is whole, or as much of it as there will be."""

    text: str
    stop_reason: str
    usage: dict[str, Any]

    def __hash__(self) -> int:
        return hash((self.text, self.stop_reason))


class _Tool(AgentEvent):
    """Something about a call of a tool."""

    def __hash__(self) -> int:  # arguments and details are no keys
        return hash((type(self), getattr(self, "id", "")))


class ToolStarted(_Tool):
    """The model begins to write a call."""

    id: str
    name: str


class ToolRunning(_Tool):
    """A call runs, with these arguments."""

    id: str
    name: str
    arguments: dict[str, Any]


class ToolUpdate(_Tool):
    """What a call has given so far."""

    id: str
    name: str
    text: str
    details: dict[str, Any]


class ToolResult(_Tool):
    """What a call gave."""

    id: str
    name: str
    text: str
    details: dict[str, Any]
    is_error: bool


class ApprovalWanted(AgentEvent):
    """A call waits for consent: `agent.approve(event.id)` or `agent.deny(event.id)`, by anybody."""

    id: str
    tool: str
    summary: str
    """The call in one line."""
    reason: str
    """Why it is not simply allowed."""
    preview: str
    """A diff, the text of a new file, or the whole command."""


class ApprovalSettled(AgentEvent):
    """Somebody answered."""

    id: str
    allowed: bool
    by: str


class Failed(AgentEvent):
    """The model, or a compaction, failed."""

    message: str


class Retrying(AgentEvent):
    """The model could not answer and is asked again after `delay` seconds; the text of its answer so far is
    void."""

    attempt: int
    limit: int
    delay: float
    reason: str

    @property
    def line(self) -> str:
        """The same for people."""
        return f"retrying {self.attempt} of {self.limit} in {self.delay:g} s: {self.reason}"


class Updated(AgentEvent):
    """How the session is: `idle`, `streaming`, `retrying` or `compacting`, and how many calls wait for
    consent. `data` has all of it."""

    phase: str
    approvals: int

    @property
    def is_idle(self) -> bool:
        """Nothing goes on, and nothing waits for consent."""
        return self.phase == "idle" and not self.approvals


class TurnBegan(AgentEvent):
    """A turn began; they are counted from 1."""

    turn: int


class TurnEnded(AgentEvent):
    """A turn is over: `done`, `failed`, `aborted`, or `interrupted` by a person or the daemon's death."""

    outcome: Outcome


class Reported(AgentEvent):
    """A verifier has judged a turn: `confidence` is perfect, verified, partial, feedback or failed."""

    turn: int
    confidence: str
    summary: str
    verifier: str


class Escalated(AgentEvent):
    """A person is needed: a turn was sent back too often, or could not be judged."""

    turn: int
    reason: str


class Other(AgentEvent):
    """Anything else: `topic` and `data` tell."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self.topic)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Other) and (self.topic, self.data) == (other.topic, other.data)

    def __repr__(self) -> str:
        return f"Other({self.topic!r})"


Approve = bool | Callable[[ApprovalWanted], Any]
"""Whether calls that need consent get it: all, none, or as a function says: true, false or `"always"`."""


def _arguments(data: dict[str, Any]) -> dict[str, Any]:
    """What a call was given. As JSON if it is there: names on rpc-edn have no underscores."""
    import json

    try:
        given = json.loads(data.get("arguments") or "")
    except ValueError:
        given = data.get("parsed_args")
    return given if isinstance(given, dict) else {}


def _approval(data: dict[str, Any]) -> AgentEvent:
    summary = data.get("summary") or data.get("message") or data["title"]
    tool = data.get("tool_name") or ""
    return ApprovalWanted(
        data["dialog_id"], tool, summary, data.get("reason") or "", data.get("preview") or ""
    )


_EVENTS: Mapping[str, Callable[[dict[str, Any]], AgentEvent]] = {
    "assistant/delta": lambda data: Text(data["text"]),
    "assistant/thinking-delta": lambda data: Thought(data["text"]),
    "assistant/message": lambda data: Message(
        data.get("text") or "", data.get("stop_reason") or "", data.get("usage") or {}
    ),
    "session/prompted": lambda data: Prompted(data["text"]),
    "tool/start": lambda data: ToolStarted(data["tool_id"], data["tool_name"]),
    "tool/executing": lambda data: ToolRunning(data["tool_id"], data["tool_name"], _arguments(data)),
    "tool/update": lambda data: ToolUpdate(
        data["tool_id"], data["tool_name"], data["result_text"], data.get("details") or {}
    ),
    "tool/result": lambda data: ToolResult(
        data["tool_id"], data["tool_name"], data["result_text"], data.get("details") or {}, data["is_error"]
    ),
    "ui/dialog-requested": _approval,
    "ui/dialog-resolved": lambda data: ApprovalSettled(
        data["dialog_id"], data["allowed"], data.get("by") or ""
    ),
    "session/updated": lambda data: Updated(data["phase"], data.get("pending_approvals") or 0),
    "session/turn-began": lambda data: TurnBegan(data["turn"]),
    "session/turn-ended": lambda data: TurnEnded(data["outcome"]),
    "session/retrying": lambda data: Retrying(data["attempt"], data["limit"], data["delay"], data["reason"]),
    "verify/report": lambda data: Reported(
        data["turn"], data["confidence"], data["summary"], data.get("verifier") or ""
    ),
    "verify/escalated": lambda data: Escalated(data["turn"], data["reason"]),
    "error": lambda data: Failed(data["error_message"]),
}


def event_of(topic: str, data: dict[str, Any]) -> AgentEvent:
    """The value of an event."""
    make = _EVENTS.get(topic)
    event = Other() if make is None else make(data)
    object.__setattr__(event, "_source", (topic, data))
    return event


# --- what can be asked ------------------------------------------------------------------------------------


class Opened(Record):
    """A session that was found or made. `cursor` is where its events are by now, if that is known."""

    id: str
    created: bool
    cursor: str | None = None


def opening(name: str | None, cwd: str, continue_last: bool) -> Call[Opened]:
    def result(answer: Answer) -> Opened:
        return Opened(answer["session_id"], answer["created"], answer["cursor"])

    if name and continue_last:
        raise ValueError("either a name or continue_last: a name finds its session by itself")
    given = {"name": name or None, "continue": continue_last or None, "cwd": os.path.abspath(cwd)}
    return Call("open_session", given, result)


def told(id: str, op: str, **given: Any) -> Call[None]:
    """A call of which nothing is wanted but that it was done."""
    return call(op, session_id=id, **given)


def settled(id: str, dialog_id: str, answer: bool | str) -> Call[None]:
    """The answer to an approval: yes, no, or `always`. The first one holds, so it may be given again."""
    if not answer:
        return told(id, "cancel_dialog", dialog_id=dialog_id)
    return told(id, "resolve_dialog", dialog_id=dialog_id, result=answer if answer == "always" else True)


def state(id: str) -> Call[Answer]:
    return call("get_state", "state", session_id=id)


class Messages:
    """Messages of a session from one on, in as many answers as they take: the last ones come first."""

    def __init__(self, id: str, first: int = 0) -> None:
        self._id = id
        self._first = first
        self._begins: int | None = None
        self.found: list[Answer] = []

    @property
    def is_whole(self) -> bool:
        return self._begins is not None and self._begins <= self._first

    def next(self) -> Call[None]:
        """What to ask until all are found."""
        limit = None if self._begins is None else self._begins - self._first
        given = {"session_id": self._id, "from": self._first or None, "limit": limit}
        return Call("get_messages", given, self._take)

    def _take(self, answer: Answer) -> None:
        self.found[:0] = answer["messages"]
        self._begins = answer.get("first", self._first)


def message_count(id: str) -> Call[int]:
    return call("get_messages", "total", session_id=id, limit=1)


def last_text(id: str) -> Call[str]:
    return Call("get_last_assistant_text", {"session_id": id}, lambda answer: answer.get("text") or "")


def models() -> Call[list[Answer]]:
    return call("get_available_models", "models")


def interrupted(id: str) -> Call[str]:
    return Call("interrupt", {"session_id": id}, lambda answer: answer.get("dropped_steering_text") or "")


def compacted(id: str, instructions: str) -> Call[str]:
    return call("compact", "summary", session_id=id, custom_instructions=instructions or None)


def forked(id: str, entry_id: str) -> Call[str]:
    return call("fork", "session_id", session_id=id, entry_id=entry_id)


class AgentSession:
    """What an agent tells about itself, in both SDKs."""

    def __init__(self, opened: Opened, name: str) -> None:
        self.id = opened.id
        self.name = name
        """What it is called; empty if it has no name."""
        self.created = opened.created
        """Whether there was no such session before."""
        self.cursor = opened.cursor
        """Where its events were when it was opened: `events(since=agent.cursor)` misses none."""

    def __repr__(self) -> str:
        return f"<Agent {self.name or self.id}>"


# --- following --------------------------------------------------------------------------------------------


class Answered(Record):
    """A request of ours was answered: with data, or an error."""

    id: str
    data: dict[str, Any]
    error: RequestError | None = None


class Following:
    """A client's connection that hears what happens in one session, and may ask for things.

    Send `begin`, then what each `receive` gives to send. Until it is `ready` what comes is how the session is
    now, then what was missed since the cursor.
    """

    def __init__(self, session_id: str, since: str | None = None) -> None:
        self.session_id = session_id
        self.cursor = since
        """Where we are: whoever follows from here misses nothing."""
        self.ready = False
        """Whether all that was missed has come."""
        self.is_over = False
        """Whether nothing more is to be heard."""
        self.state: Updated | None = None
        """How the session is, as far as we heard."""
        self._wire = rpc.ClientConnection()
        self._lending: set[str] = set()  # requests that bring a key, whose answers are for nobody

    def begin(self) -> bytes:
        """What is to be sent first on a new connection."""
        self.ready = False
        self._wire = rpc.ClientConnection()
        self._lending.clear()
        names = key_names(Settings())
        return self._wire.handshake("fairlead", __version__, [rpc.INCREMENTS], key_names=names)

    def request(self, op: str, **params: Any) -> tuple[str, bytes]:
        """A request's id and its bytes, about this session."""
        given = {name: value for name, value in params.items() if value is not None}
        return self._wire.request(op, rpc.fields(session_id=self.session_id, **given))

    def receive(self, data: bytes) -> tuple[bytes, list[AgentEvent], list[Answered]]:
        """What is to be sent, what happened, and what was answered.

        Raises RequestError if there is no such session, and ConnectionError at the end.
        """
        if not data:
            raise ConnectionError("the daemon closed the connection")
        reply = b""
        events: list[AgentEvent] = []
        answers: list[Answered] = []
        for item in self._wire.receive(data):
            match item:
                case rpc.Response(op="handshake"):
                    reply += self._subscribing()
                case rpc.Response(op="subscribe"):
                    self.ready = True
                    if self.cursor is None:
                        self.cursor = plain(item.data).get("cursor")
                    reply += self._begun(events)
                case rpc.Event(topic="key/wanted"):
                    reply += self._lend(plain(item.data)["variable"])
                case rpc.Response(id=id) | rpc.Error(id=str(id)) if id in self._lending:
                    self._lending.discard(id)
                case rpc.Response(id=id):
                    answers.append(self._answered(Answered(id, plain(item.data) or {})))
                case rpc.Event() if not self.is_over:
                    self._heard(item, events)
                case rpc.Error(code=code, message=message, id=id):
                    error = RequestError(code, message)
                    if not self.ready or id is None:
                        raise error
                    answers.append(self._answered(Answered(id, {}, error)))
                case Broken(reason=reason):
                    raise ConnectionError(reason)
        return reply, events, answers

    def _lend(self, variable: str) -> bytes:
        """The daemon lacks a key that we said we have."""
        if variable not in key_names(Settings()):
            return b""
        id, line = self.request("lend_key", variable=variable, key=os.environ[variable])
        self._lending.add(id)
        return line

    def _subscribing(self) -> bytes:
        given = {"topics": list(_WANTED), "since": self.cursor}
        return self.request("subscribe", **given)[1]

    def _heard(self, frame: rpc.Event, events: list[AgentEvent]) -> None:
        data: dict[str, Any] = plain(frame.data)
        if data.get("session_id", self.session_id) != self.session_id and frame.topic not in _FOR_US:
            return
        self.cursor = data.get("cursor", self.cursor)
        event = event_of(frame.topic, data)
        if isinstance(event, Updated):
            self.state = event
        if self._told(event):
            events.append(event)

    def _begun(self, events: list[AgentEvent]) -> bytes:
        """All that was missed has come; what is to be sent now."""
        return b""

    def _told(self, event: AgentEvent) -> bool:
        """An event was heard; whether it is for the user."""
        return True

    def _answered(self, answer: Answered) -> Answered:
        """A request was answered."""
        return answer


class Turn(Following):
    """Says something, and follows the session until the turn is over. If the daemon dies in the middle and
    the turn with it, the last event says that it was interrupted."""

    def __init__(self, session_id: str, text: str) -> None:
        super().__init__(session_id)
        self.accepted = False
        """Whether the turn began."""
        self._text = text
        self._asked = ""
        self._was_said = False

    def _begun(self, events: list[AgentEvent]) -> bytes:
        if not self._asked:
            self._asked, line = self.request("prompt", message=self._text)
            return line
        if not self.is_over and self.state is not None and self.state.is_idle:
            outcome: Outcome = "interrupted" if self.state.data.get("was_interrupted") else "done"
            ended = event_of("session/turn-ended", {"session_id": self.session_id, "outcome": outcome})
            events.append(ended)
            self.is_over = True
        return b""

    def _told(self, event: AgentEvent) -> bool:
        # what was said is told before the answer; what comes before it is of the turn before
        self._was_said = self._was_said or (bool(self._asked) and event == Prompted(self._text))
        self.is_over = self.accepted and isinstance(event, TurnEnded)
        return self.accepted or self._was_said

    def _answered(self, answer: Answered) -> Answered:
        if answer.id == self._asked:
            if answer.error is not None:
                raise answer.error
            self.accepted = True
        return answer


class Asking:
    """What `ask` gathers from a turn's events: the answer, and why there is none."""

    def __init__(self, approve: Approve) -> None:
        self._approve = approve
        self._text = ""
        self._failure = ""
        self._outcome = "interrupted"
        self.is_cut = False
        """Whether the answer ended at the model's limit."""

    def heard(self, event: AgentEvent) -> Any:
        """Take up an event. For one that wants consent gives what was decided, else None; a function's answer
        may have to be awaited."""
        match event:
            case Message(text, stop_reason) if text:
                self._text = text
                self.is_cut = stop_reason == "length"
            case Failed(message):
                self._failure = message
            case TurnEnded(outcome):
                self._outcome = outcome
            case ApprovalWanted():
                return self._approve(event) if callable(self._approve) else self._approve
        return None

    @property
    def text(self) -> str:
        """What was said last, of whatever turn it is."""
        return self._text

    def answer(self) -> str:
        """The answer's text. Raises TurnFailed."""
        if self._outcome != "done":
            raise TurnFailed(self._outcome, self._failure or f"the turn was {self._outcome}")
        return self._text
