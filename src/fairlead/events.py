"""What happens to sessions, as small values. Each has rpc-edn's `topic` and `data`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from .formats.record import Record

Outcome = Literal["done", "aborted", "interrupted", "failed"]
PromptStage = Literal["queued", "written", "accepted", "started", "ended"]
"""How far a prompt has got."""


class Event(Record):
    """Something that happened. `topic` and `data` are rpc-edn's, with plain names, and empty in an event that
    was not received."""

    __slots__ = ("_source",)

    @property
    def topic(self) -> str:
        return self._received()[0]

    @property
    def data(self) -> dict[str, Any]:
        return self._received()[1]

    def __hash__(self) -> int:  # the first field is a string or a number; others may be dicts
        return hash((type(self), self._values()[:1]))

    def _received(self) -> tuple[str, dict[str, Any]]:
        return getattr(self, "_source", ("", {}))


# --- what happens to all sessions -------------------------------------------------------------------------


class Started(Event):
    """A session's program was started."""

    name: str
    pid: int


class Exited(Event):
    """A session's program has ended."""

    name: str
    exit_code: int


class Title(Event):
    """A program named its window."""

    name: str
    title: str


class Bell(Event):
    """A program rang the bell."""

    name: str


class Notification(Event):
    """A program wants somebody's attention."""

    name: str
    title: str
    body: str


class Progress(Event):
    """A program says how far it is: `remove`, `set`, `error`, `indeterminate` or `pause`."""

    name: str
    state: str
    percent: int | None


# --- what happens in sessions of any kind -----------------------------------------------------------------


class SessionEvent(Event):
    """Something that happened in a session of any kind."""


class SessionOpened(SessionEvent):
    """Its turns can be followed from now on."""

    session_id: str
    kind: str
    project: str


class SessionClosed(SessionEvent):
    """Its turns can't be followed any more; it may be opened again."""

    session_id: str


class SessionChanged(SessionEvent):
    """Its state, name or queue changed: `Host.session` finds how it is now."""

    session_id: str


class SessionState(SessionEvent):
    """It does something else: `working`, `waits`, `idle`, `ended` or `unknown`. `question` is what it waits
    for, and `seen` is false if a turn has ended that nobody has looked at."""

    session_id: str
    state: str
    question: str
    seen: bool


class PromptStarted(SessionEvent):
    """A prompt is said now: what the session says until it ends is the answer."""

    session_id: str
    prompt_id: str


class PromptEnded(SessionEvent):
    """Nothing more follows from a prompt; one that was `dropped` was never said."""

    session_id: str
    prompt_id: str
    outcome: str
    reason: str


class SessionSaid(SessionEvent):
    """A piece of an answer."""

    session_id: str
    text: str


class SessionTurnBegan(SessionEvent):
    """A turn began; they are counted from 1."""

    session_id: str
    turn: int


class SessionTurnEnded(SessionEvent):
    """A turn is over, or a correction of it."""

    session_id: str
    turn: int
    outcome: str


class SessionFailed(SessionEvent):
    """Something went wrong, in a turn or between two."""

    session_id: str
    reason: str


class SessionJudged(SessionEvent):
    """A verifier has judged a turn."""

    session_id: str
    turn: int
    confidence: str
    summary: str


class SessionNeedsPerson(SessionEvent):
    """A person must look at it."""

    session_id: str
    turn: int
    reason: str


class Happened(Event):
    """Anything else, as rpc-edn has it, with plain names."""

    topic: str
    data: dict[str, Any]


# --- what happens in an agent session ---------------------------------------------------------------------


class AgentEvent(Event):
    """Something that happened in an agent session."""

    @property
    def prompt_id(self) -> str:
        """Which prompt this is, or began the turn: of `Prompted`, `TurnBegan`, `TurnEnded`, else empty."""
        return str(self.data.get("prompt_id") or "")


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


class ToolStarted(AgentEvent):
    """The model begins to write a call."""

    id: str
    name: str


class ToolRunning(AgentEvent):
    """A call runs, with these arguments."""

    id: str
    name: str
    arguments: dict[str, Any]


class ToolUpdate(AgentEvent):
    """What a call has given so far."""

    id: str
    name: str
    text: str
    details: dict[str, Any]


class ToolResult(AgentEvent):
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


class PersonAsked(AgentEvent):
    """An agent wants to know something from a person: `fairlead approvals answer`, or any other client."""

    id: str
    text: str
    """The whole question."""
    choices: list[str]
    """The answers that it offers; none: it takes any text."""


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
        """True if nothing runs, and nothing waits for consent."""
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
    """Anything else: see `topic` and `data`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Other) and (self.topic, self.data) == (other.topic, other.data)

    def __hash__(self) -> int:
        return hash(self.topic)

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
    if data.get("kind") == "input":
        choices = [each["label"] for each in data.get("options") or () if each["value"] != "deny"]
        return PersonAsked(data["dialog_id"], data.get("preview") or "", choices)
    summary = data.get("summary") or data.get("message") or data["title"]
    tool = data.get("tool_name") or ""
    return ApprovalWanted(
        data["dialog_id"], tool, summary, data.get("reason") or "", data.get("preview") or ""
    )


_AGENT_EVENTS: Mapping[str, Callable[[dict[str, Any]], AgentEvent]] = {
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


def _in_session(kind: type[SessionEvent]) -> Callable[[dict[str, Any]], Event]:
    """Makes an event whose fields are called as in its data."""
    return lambda data: kind(*(data[name] for name in kind.fields))


_HOST_EVENTS: Mapping[str, Callable[[dict[str, Any]], Event]] = {
    "terminal/started": lambda data: Started(data["name"], data["pid"]),
    "terminal/exited": lambda data: Exited(data["name"], data["exit_code"]),
    "terminal/title": lambda data: Title(data["name"], data["title"]),
    "terminal/bell": lambda data: Bell(data["name"]),
    "terminal/notification": lambda data: Notification(data["name"], data.get("title") or "", data["body"]),
    "terminal/progress": lambda data: Progress(data["name"], data["state"], data.get("percent")),
    "sessions/opened": _in_session(SessionOpened),
    "sessions/closed": _in_session(SessionClosed),
    "sessions/changed": _in_session(SessionChanged),
    "sessions/state": _in_session(SessionState),
    "sessions/prompt-started": _in_session(PromptStarted),
    "sessions/prompt-ended": _in_session(PromptEnded),
    "sessions/said": _in_session(SessionSaid),
    "sessions/turn-began": _in_session(SessionTurnBegan),
    "sessions/turn-ended": _in_session(SessionTurnEnded),
    "sessions/failed": _in_session(SessionFailed),
    "sessions/judged": _in_session(SessionJudged),
    "sessions/needs-person": _in_session(SessionNeedsPerson),
}


def host_event(topic: str, data: dict[str, Any]) -> Event:
    """An event of `Host.events`."""
    make = _HOST_EVENTS.get(topic)
    event = Happened(topic, data) if make is None else make(data)
    object.__setattr__(event, "_source", (topic, data))
    return event


def agent_event(topic: str, data: dict[str, Any]) -> AgentEvent:
    """An event of an agent session."""
    make = _AGENT_EVENTS.get(topic)
    event = Other() if make is None else make(data)
    object.__setattr__(event, "_source", (topic, data))
    return event
