"""The connection on which a client receives events: of all sessions, of one agent session, or of one turn.

Does no I/O: the SDKs' streams and the chat do that. An `AgentSubscription` outlives its connection: after the
daemon went away, `begin` starts it on the next one, and what was missed comes first.
"""

from __future__ import annotations

import os
from typing import Any, Generic, NamedTuple, TypeVar

from .. import __version__
from ..events import (
    AgentEvent,
    ApprovalWanted,
    Approve,
    Event,
    Failed,
    Message,
    Outcome,
    Retrying,
    Text,
    Thought,
    TurnEnded,
    Updated,
    agent_event,
    host_event,
)
from ..system.settings import Settings, key_names
from ..wire import rpc
from ..wire.faults import Broken
from ..wire.rpc_catalog import TOPICS
from .calls import RequestError, plain
from .pieces import Piece, Speech

E = TypeVar("E", bound=Event)


_FOR_US = ("command-result", "ui/frontend-action-requested")
"""Topics sent only to the client that asked, of whatever session."""
_USUAL = tuple(topic for topic in TOPICS if not topic.startswith(("sessions/", "hosts/")))
"""What is followed if nothing is named: `sessions/…` have the same again, of sessions of any kind."""
_WANTED = tuple(topic for topic in _USUAL if not topic.startswith("terminal/") and topic != "context/updated")


PROMPT_ENDED = "sessions/prompt-ended"


class TurnFailed(Exception):
    """A turn did not end well. `outcome` is `failed`, `aborted` or `interrupted`."""

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class Answered(NamedTuple):
    """A request of ours was answered: with data, or an error."""

    id: str
    data: dict[str, Any]
    error: RequestError | None = None


class Subscription(Generic[E]):
    """A connection that subscribes to topics. Send `begin`, then what each `receive` returns to send."""

    _end = "the daemon closed the connection"
    shown = False
    """Whether a person looks at what it receives. A script's is none."""
    lends_keys = False
    """Whether the daemon may ask for keys of our environment that it lacks. That of another host may not."""
    via = ""
    """What that person answers questions with, as others are told of it."""
    _hosts: bool | None = None

    def __init__(self, topics: tuple[str, ...], since: str | None = None) -> None:
        self.cursor = since
        """Where we are: whoever follows from here misses nothing."""
        self.ready = False
        """True if no event is missed from now on."""
        self.accepted = True
        """False until a turn began, if this is one."""
        self.is_over = False
        """True if no more events will come."""
        self._topics = topics
        self._wire = rpc.ClientConnection()
        self._lending: set[str] = set()  # requests that bring a key, whose answers are for nobody

    def begin(self) -> bytes:
        """What is to be sent first on a new connection."""
        self.ready = False
        self._wire = rpc.ClientConnection()
        self._lending.clear()
        names = self._key_names()
        return self._wire.handshake(
            "fairlead", __version__, rpc.OUR_FEATURES, key_names=names, shown=self.shown, via=self.via
        )

    def request(self, op: str, **params: Any) -> tuple[str, bytes]:
        """A request's id and its bytes."""
        given = {name: value for name, value in params.items() if value is not None}
        return self._wire.request(op, rpc.fields(**given))

    def receive(self, data: bytes) -> tuple[bytes, list[E], list[Answered]]:
        """What is to be sent, what happened, and what was answered.

        Raises RequestError if the subscription is refused, and ConnectionError at the end.
        """
        if not data:
            raise ConnectionError(self._end)
        reply = b""
        events: list[E] = []
        answers: list[Answered] = []
        for item in self._wire.receive(data):
            match item:
                case rpc.Response(op="handshake"):
                    reply += self._greeted()
                case rpc.Response(op="subscribe"):
                    self.ready = True
                    self.cursor = self.cursor or plain(item.data).get("cursor")
                    reply += self._begun(events)
                case rpc.Response(id=id) | rpc.Error(id=str(id)) if id in self._lending:
                    self._lending.discard(id)
                case rpc.Response(id=id):
                    answers += self._answered(Answered(id, plain(item.data) or {}), events)
                case rpc.Event():
                    reply += self._received(item.topic, plain(item.data), events)
                case rpc.Error(code=code, message=message, id=id):
                    error = RequestError(code, message)
                    if not self.ready or id is None:
                        raise error
                    answers += self._answered(Answered(id, {}, error), events)
                case Broken(reason=reason):
                    raise ConnectionError(reason)
        return reply, events, answers

    def _greeted(self) -> bytes:
        """The handshake was answered; returns what is to be sent now."""
        given = {"topics": list(self._topics), "since": self.cursor, "hosts": self._hosts}
        return self.request("subscribe", **given)[1]

    def _key_names(self) -> list[str]:
        """Variables whose values we would lend to the daemon."""
        return []

    def _begun(self, events: list[E]) -> bytes:
        """All that was missed has come; returns what is to be sent now."""
        return b""

    def _received(self, topic: str, data: dict[str, Any], events: list[E]) -> bytes:
        """Add to the events what is for the user; returns what is to be sent."""
        raise NotImplementedError

    def _answered(self, answer: Answered, events: list[E]) -> list[Answered]:
        """A request was answered: returns it if it is the user's, else adds to the events what follows."""
        return [answer]


class Requests(Subscription[Event]):
    """A connection that is for requests alone."""

    def __init__(self) -> None:
        super().__init__(())

    def _greeted(self) -> bytes:
        self.ready = True
        return b""

    def _received(self, topic: str, data: dict[str, Any], events: list[Event]) -> bytes:
        return b""


class Watching(Subscription[Event]):
    """Receives what happens to all sessions, once it is ready: of some topics, or of the usual ones."""

    _end = "the daemon closed the connection; events may have been missed"

    def __init__(self, topics: tuple[str, ...], *, hosts: bool = False) -> None:
        """With `hosts` also what happens in sessions of other hosts."""
        if unknown := set(topics) - TOPICS.keys():
            raise ValueError(f"no topic {min(unknown)!r}; there are {', '.join(sorted(TOPICS))}")
        super().__init__(topics or _USUAL)
        self._hosts = hosts or None

    def _received(self, topic: str, data: dict[str, Any], events: list[Event]) -> bytes:
        if self.ready:
            events.append(host_event(topic, data))
        return b""


class AgentSubscription(Subscription[AgentEvent]):
    """Receives what happens in one agent session. Until it is `ready`, its state now comes, then what was
    missed since the cursor. With `receipts` it also receives how each prompt ended, and with `so_far` the
    beginning of a message that is being said already.

    The next daemon does not repeat the pieces of a message: it is asked how far the message was said, and
    what we lack of it comes as one piece. Pieces that come before its answer are part of that.
    """

    def __init__(
        self, session_id: str, since: str | None = None, *, receipts: bool = False, so_far: bool = False
    ) -> None:
        super().__init__((*_WANTED, PROMPT_ENDED) if receipts else _WANTED, since)
        self.session_id = session_id
        self.state: Updated | None = None
        """The last state of the session that we received."""
        self._speech = Speech()
        if not so_far:
            self._speech.skip()
        self._viewing = ""  # our request for what is being said

    def begin(self) -> bytes:
        if self.ready:
            self._speech.lose()
        self._viewing = ""
        return super().begin()

    def _begun(self, events: list[AgentEvent]) -> bytes:
        if self._speech.is_known:
            return b""
        self._viewing, line = self.request("get_view")
        return line

    def _answered(self, answer: Answered, events: list[AgentEvent]) -> list[Answered]:
        if answer.id != self._viewing:
            return [answer]
        state = answer.data.get("state") or {}  # older daemons don't know
        if state.get("phase") == "idle":
            self._speech.end()
        self._add(self._speech.catch_up(state.get("answer") or ()), events)
        for call in state.get("begun") or ():
            events.append(agent_event("tool/start", {"session_id": self.session_id, **call}))
        return []

    def _add(self, pieces: list[Piece], events: list[AgentEvent]) -> None:
        for is_thought, text in pieces:
            topic = "assistant/thinking-delta" if is_thought else "assistant/delta"
            event = agent_event(topic, {"session_id": self.session_id, "text": text, "cursor": self.cursor})
            if self._is_wanted(event):
                events.append(event)

    def _spoken(self, event: AgentEvent, events: list[AgentEvent]) -> bool:
        """Take a piece or the end of a message. What we missed of it comes first; true if that is all."""
        match event:
            case Text(text) | Thought(text):
                piece = isinstance(event, Thought), text
                pieces = self._speech.add(*piece)
                if pieces == [piece]:
                    return False
                self._add(pieces, events)
                return True
            case Message():
                was_known = self._speech.is_known
                rest = self._speech.end(event.data.get("content") or ())
                self._add([] if was_known else rest, events)
            case Retrying() | TurnEnded():
                self._speech.end()
        return False

    def request(self, op: str, **params: Any) -> tuple[str, bytes]:
        """A request's id and its bytes, about this session."""
        return super().request(op, session_id=self.session_id, **params)

    def _key_names(self) -> list[str]:
        return key_names(Settings()) if self.lends_keys else []

    def _lend(self, variable: str) -> bytes:
        """The daemon lacks a key that we said we have."""
        if variable not in self._key_names():
            return b""
        id, line = self.request("lend_key", variable=variable, key=os.environ[variable])
        self._lending.add(id)
        return line

    def _received(self, topic: str, data: dict[str, Any], events: list[AgentEvent]) -> bytes:
        if topic == "key/wanted":
            return self._lend(data["variable"])
        is_ours = data.get("session_id", self.session_id) == self.session_id or topic in _FOR_US
        if is_ours and not self.is_over:
            self.cursor = data.get("cursor", self.cursor)
            event = agent_event(topic, data)
            if isinstance(event, Updated):
                self.state = event
            if not self._spoken(event, events) and self._is_wanted(event):
                events.append(event)
        return b""

    def _is_wanted(self, event: AgentEvent) -> bool:
        """True if an event that we received is for the user."""
        return True


_EARLIER = "of an earlier connection"
"""The id of a request that no answer will come for: each connection counts its requests from one."""


class FollowedTurn(AgentSubscription):
    """Sends a prompt, and follows the session until the turn is over. If the daemon dies in the middle and
    the turn with it, the last event says that it was interrupted."""

    def __init__(self, session_id: str, text: str) -> None:
        super().__init__(session_id)
        self.accepted = False
        self._text = text
        self._asked = ""
        self._prompt_id = ""

    def _begun(self, events: list[AgentEvent]) -> bytes:
        if not self._asked:
            self._asked, line = self.request("prompt", message=self._text)
            return line
        self._asked = _EARLIER
        if not self.is_over and self.state is not None and self.state.is_idle:
            outcome: Outcome = "interrupted" if self.state.data.get("was_interrupted") else "done"
            self._finish(outcome, events)
        return super()._begun(events)

    def _finish(self, outcome: Outcome, events: list[AgentEvent]) -> None:
        ended = {"session_id": self.session_id, "outcome": outcome, "prompt_id": self._prompt_id}
        events.append(agent_event("session/turn-ended", ended))
        self.is_over = True

    def _received(self, topic: str, data: dict[str, Any], events: list[AgentEvent]) -> bytes:
        is_here = data.get("session_id") == self.session_id and not self.is_over
        if is_here and topic in ("session/turn-began", "session/turn-ended"):
            prompt_id = data.get("prompt_id") or self._prompt_id
            if self._prompt_id not in ("", prompt_id):  # ours was lost with the daemon before
                self._finish("interrupted", events)
        return super()._received(topic, data, events)

    def _is_wanted(self, event: AgentEvent) -> bool:
        # we are answered before our turn begins; what comes before that is of another one
        self.is_over = self.accepted and isinstance(event, TurnEnded)
        return self.accepted or event.topic == "ui/notification"  # which is for a person, whenever it comes

    def _answered(self, answer: Answered, events: list[AgentEvent]) -> list[Answered]:
        if answer.id == self._asked:
            if answer.error is not None:
                raise answer.error
            self.accepted = True
            self._prompt_id = answer.data.get("prompt_id") or ""  # older daemons have none
        return super()._answered(answer, events)


class Asking:
    """What `ask` gathers from a turn's events: the answer, and why there is none."""

    def __init__(self, approve: Approve) -> None:
        self._approve = approve
        self.text = ""
        """What was said last, of whatever turn it is."""
        self._failure = ""
        self._outcome = "interrupted"
        self.is_cut = False
        """True if the answer was cut at the model's limit."""

    def take(self, event: AgentEvent) -> Any:
        """Take an event. Returns what was decided about one that wants consent, else None; a function's
        decision may have to be awaited."""
        match event:
            case Message(text, stop_reason) if text:
                self.text = text
                self.is_cut = stop_reason == "length"
            case Failed(message):
                self._failure = message
            case TurnEnded(outcome):
                self._outcome = outcome
            case ApprovalWanted():
                return self._approve(event) if callable(self._approve) else self._approve
        return None

    def answer(self) -> str:
        """The answer's text. Raises TurnFailed."""
        if self._outcome != "done":
            raise TurnFailed(self._outcome, self._failure or f"the turn was {self._outcome}")
        return self.text
