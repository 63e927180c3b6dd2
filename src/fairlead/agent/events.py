"""What happens in an agent session, told to whoever listens, after what is durable of it was journaled."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from ..sessions.session import PromptOutcome
from .messages import Message

Outcome = Literal["done", "aborted", "interrupted", "failed"]


class Choice(Struct, frozen=True):
    """An answer to a question of a third-party agent."""

    value: str
    """What we call it: allow, always, deny, or another word."""
    label: str
    """What the agent calls it."""
    id: str
    """By which the agent knows it."""


class Approval(Struct, frozen=True):
    """A tool call that waits for somebody's consent."""

    id: str
    call_id: str
    tool: str
    summary: str
    """The call in one line."""
    reason: str
    """Why it is not simply allowed."""
    preview: str = ""
    arguments: dict[str, Any] = {}
    paths: tuple[str, ...] = ()
    """The files that it would touch; consent is for these alone."""
    command: str | None = None
    asked_at: float = 0.0
    """Seconds since 1970; 0 if it was not written down."""
    session: str = ""
    """The session that asks: a fork has the questions of its parent in its journal, and must not ask them."""
    seen: str = ""
    """What the file held from which the preview was made; consent is for a change of this alone."""
    choices: tuple[Choice, ...] = ()
    """The answers that a hosted agent offers; empty for our own calls, which are allowed or not."""
    origin: str = ""
    """Which request of a hosted agent it is: the run of its program, and where in its output."""


class ConversationEvent(Struct, frozen=True):
    """Something happened in this session."""

    session_id: str


class Loaded(ConversationEvent, frozen=True):
    """It was made, or read from its journal."""


class Unloaded(ConversationEvent, frozen=True):
    """It was let go; its journal stays."""


class Updated(ConversationEvent, frozen=True):
    """Its state changed: phase, model, name, queues."""


class TextStreamed(ConversationEvent, frozen=True):
    text: str


class ThoughtStreamed(ConversationEvent, frozen=True):
    text: str


class MessageSaid(ConversationEvent, frozen=True):
    entry_id: str
    message: Message


class PromptEnded(ConversationEvent, frozen=True):
    """Nothing more comes of a prompt. It began with the message that has its id, unless it was dropped."""

    prompt: str
    outcome: PromptOutcome
    reason: str = ""


class ToolBegan(ConversationEvent, frozen=True):
    """A model begins to write a call. It is told again, with a title, of a third-party agent's call whose
    arguments are known and of which nobody knows yet whether it runs."""

    call_id: str
    name: str
    title: str = ""


class ToolArguments(ConversationEvent, frozen=True):
    """A piece of a call's arguments, as JSON text."""

    call_id: str
    arguments: str


class ToolTaken(ConversationEvent, frozen=True):
    """A call's turn has come: it is judged, asked about if need be, and run."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class ToolExecuting(ConversationEvent, frozen=True):
    call_id: str
    name: str
    arguments: dict[str, Any]


class ToolUpdated(ConversationEvent, frozen=True):
    call_id: str
    name: str
    text: str
    details: dict[str, Any]


class ToolEnded(ConversationEvent, frozen=True):
    call_id: str
    name: str
    text: str
    details: dict[str, Any]
    is_error: bool


class ApprovalWanted(ConversationEvent, frozen=True):
    approval: Approval


class ApprovalSettled(ConversationEvent, frozen=True):
    approval: Approval
    allowed: bool
    by: str


class TurnBegan(ConversationEvent, frozen=True):
    turn: int
    line: int
    """The journal's line with the prompt."""
    prompt: str
    prompt_id: str = ""


class TurnEnded(ConversationEvent, frozen=True):
    """A run is over: of a turn, or of a correction of it. The turn's lines, both included, count from 1."""

    turn: int
    prompt: str
    first_line: int
    last_line: int
    outcome: Outcome
    prompt_id: str = ""
    """Of the prompt that began the turn."""


class Retrying(ConversationEvent, frozen=True):
    """A model could not answer and will be asked again; what came of its answer is dropped."""

    attempt: int
    """Which repetition this will be, from 1 on."""
    limit: int
    """How many there will be at most."""
    delay: float
    """Seconds until then."""
    reason: str


class Failed(ConversationEvent, frozen=True):
    """A turn, or a compaction, ended with an error."""

    message: str
    is_said: bool = False
    """Whether the model's message, which came before, says it too."""


class Noticed(ConversationEvent, frozen=True):
    """Something that a person should know, and that changes nothing."""

    message: str


class WorkedAside(ConversationEvent, frozen=True):
    """The agent did something between two turns: what was said of its last turn does not cover that."""


class Compacted(ConversationEvent, frozen=True):
    summary: str
    tokens_before: int
