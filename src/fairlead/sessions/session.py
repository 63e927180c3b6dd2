"""What a session of any kind is to the rest of the program: its turns, its prompts, and who can do more."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from ..wire.verifier import Outcome
from .inbox import calling_agent

NOT_BY_A_PERSON = "auto-"
"""How the ids of prompts begin that a command of an agent session sent, or a rule."""

PromptOutcome = Literal["done", "failed", "aborted", "interrupted", "dropped"]
"""How a prompt ended. One that is dropped was accepted and never said."""
RESTARTED = "the daemon restarted before it was sent"
"""Why what waited for the last daemon is dropped."""
WITHDRAWN = "withdrawn before it was sent"
"""Why a prompt is dropped that a person takes back."""
MAX_RECEIPTS = 100
"""Of how many prompts of a session the receipts are listed, the last ones."""
MAX_WORDS = 80
"""How many characters of a prompt stand beside its receipt."""


class Prompt(Struct, frozen=True):
    """Something that a session is asked for. What follows refers to its id, never to its text."""

    id: str
    text: str
    by: str = ""
    """Who asks: a client, a rule, a verifier."""
    patience: float = 0.0
    """Seconds that it may wait until nothing is in the way; 0: it is refused if something is."""


def new_id(given: str = "") -> str:
    """An id that no other prompt has, or one that was made elsewhere. It tells whether a person asks."""
    return (NOT_BY_A_PERSON if calling_agent.get() else "") + (given or uuid.uuid4().hex)


def new_prompt(text: str, by: str = "") -> Prompt:
    """A prompt with an id of its own."""
    return Prompt(new_id(), text, by)


class Turn(Protocol):
    """A turn of a session. Lines are those of its file, from 1, both included."""

    @property
    def number(self) -> int: ...

    @property
    def prompt(self) -> str: ...

    @property
    def first_line(self) -> int: ...

    @property
    def last_line(self) -> int: ...

    @property
    def corrections(self) -> int:
        """How often it was sent back, including corrections that are still queued."""

    @property
    def outcome(self) -> Outcome:
        """How its last run ended; meaningless while the turn runs."""

    @property
    def fault(self) -> str:
        """Why it failed, if it did."""


class Session(Protocol):
    """A live session whose turns can be followed, checked and sent back."""

    @property
    def id(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def began(self) -> float:
        """When it began, in seconds since 1970, if another may have its id later; else 0."""

    @property
    def name(self) -> str:
        """What people call it; empty if it has no name."""

    @property
    def project(self) -> str:
        """The directory that it works in."""

    @property
    def file(self) -> str:
        """The file that its turns' lines are in; empty if there is none."""

    @property
    def model(self) -> str:
        """`provider/id` of the model that works there; empty if that is not known."""

    @property
    def is_working(self) -> bool:
        """True while its last turn runs."""

    @property
    def turns(self) -> Sequence[Turn]: ...

    def correct(self, text: str, *, steer: bool) -> None:
        """Send the last turn back. Raises ValueError with the reason if that is not possible."""


@runtime_checkable
class Typing(Protocol):
    """A kind into whose sessions text can be typed."""

    async def type(self, id: str, text: str, *, enter: bool) -> None:
        """Type a text, and perhaps press Enter. Raises NoSession or NotSupported."""


PromptStage = Literal["queued", "written", "accepted", "started", "ended"]
STAGES: tuple[PromptStage, ...] = ("queued", "written", "accepted", "started", "ended")


class Receipt(Struct, frozen=True):
    """How far a prompt has got, and when it got there, in seconds since 1970. It is `written` when it was
    put where its agent reads: that is no delivery. When the agent has taken it, it is `accepted`."""

    state: PromptStage
    written: float = 0.0
    accepted: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    place: int = 0
    """Its place among those that wait, from 1."""
    outcome: PromptOutcome | None = None
    reason: str = ""
    text: str = ""
    """What the agent said last in answer to it."""
    waits_for: str = ""
    """What is in the way of one that waits, if that is known."""
    blocked: bool = False
    """True if that is, or was until it was dropped, something that a person has to clear away: a dialog, a
    menu, a draft, another program. An agent that works is not."""

    def has_reached(self, stage: PromptStage) -> bool:
        return STAGES.index(self.state) >= STAGES.index(stage)


class PastPrompt(Struct, frozen=True):
    """A prompt that a session got, and what became of it."""

    id: str
    asked: float
    """When it was given, in seconds since 1970; 0 if that is not known."""
    words: str
    """How it begins, in one line."""
    receipt: Receipt


@runtime_checkable
class Receiving(Protocol):
    """A kind that knows what became of each prompt, also of those before a restart."""

    async def receipts(self, id: str) -> Sequence[PastPrompt]:
        """The last prompts of a session, in their order. Raises NoSession."""

    async def withdraw(self, id: str, prompt: str, reason: str) -> bool:
        """Don't say a prompt that waits; true if it did. Raises NoSession."""

    async def receipt(self, id: str, prompt: str) -> Receipt | None:
        """How far a session has got with a prompt; None if it has none of this id. Raises NoSession."""

    async def reached(self, id: str, prompt: str, stage: PromptStage) -> None:
        """Wait until a prompt that the session has got so far, or is ended. Raises NoSession."""


@runtime_checkable
class Opening(Protocol):
    """A kind that has to find its sessions when the daemon starts, and to let go of them when it stops."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class SaysState(Protocol):
    """A kind whose sessions say themselves what they do."""

    def state_of(self, id: str) -> str | None:
        """The state of a session that is open, in the words of lists; None if it is not."""


@runtime_checkable
class Explaining(Protocol):
    """A kind of which it is found out what its sessions do."""

    def weighed(self, id: str) -> Sequence[Mapping[str, Any]]:
        """All that says what a session does, and what came of each. Raises NoSession."""


@runtime_checkable
class Removing(Protocol):
    """A kind whose sessions can be removed when they do nothing any more."""

    async def remove(self, id: str) -> Mapping[str, str]:
        """Remove a session; returns where what it has said is kept as `path`, if it is. Raises NoSession, or
        NotSupported, which says what to do first."""


@runtime_checkable
class Making(Protocol):
    """A kind whose sessions need nothing but a name and a directory to begin."""

    async def make(self, name: str, project: str) -> str:
        """Make a session and return its id. Raises NotSupported."""
