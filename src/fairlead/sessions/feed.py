"""The feed: one ordered log of what happens in the sessions of all kinds, as typed events with cursors.

Kinds post what happens in their sessions; verification, control and doors listen. Output of terminals is not
in the feed: it goes to viewers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct

from .session import PromptOutcome, Session, Turn

log = logging.getLogger("fairlead")

HOLD_SECONDS = 10.0
"""How long a turn that begins may be held up."""
MAX_KEPT = 1000
"""How many events can be read again by cursor."""


class FeedEvent(Struct, frozen=True):
    """Something happened in the session of this id."""

    session: str


class Created(FeedEvent, frozen=True):
    """It is new: what was known of an earlier session with this id does not apply to it."""

    began: float = 0.0
    """When it began, if others may have had its id; else 0."""
    by_agent: bool = False
    """Whether a command of an agent session made it."""


class Opened(FeedEvent, frozen=True):
    """Its turns can be followed from now on."""

    live: Session


class Closed(FeedEvent, frozen=True):
    """Its turns can't be followed any more; it may be opened again."""


class Changed(FeedEvent, frozen=True):
    """Its state, name or queue changed."""


class PromptStarted(FeedEvent, frozen=True):
    """A prompt is said now: what the session says until it ends is the answer."""

    prompt: str
    """The prompt's id."""


class PromptEnded(FeedEvent, frozen=True):
    """Nothing more follows from a prompt."""

    prompt: str
    outcome: PromptOutcome
    reason: str = ""


class SaidPiece(FeedEvent, frozen=True):
    """A piece of an answer. Not kept."""

    text: str


class Extended(FeedEvent, frozen=True):
    """There is more to read in it: a message, a call, a result. Not kept."""


class TurnBegan(FeedEvent, frozen=True):
    turn: Turn
    after: float | None = None
    """When it can have begun at the earliest, if that is only known by its end."""
    by_person: bool = True
    """Whether a person asked for it, and not a command of an agent session, or a rule."""


class TurnEnded(FeedEvent, frozen=True):
    turn: Turn


class ChangedAside(FeedEvent, frozen=True):
    """Its agent did something after the end of its last turn: a verdict on that turn does not cover it.
    Not kept."""


class Failed(FeedEvent, frozen=True):
    """Something went wrong, in a turn or between two."""

    reason: str


class WentOn(FeedEvent, frozen=True):
    """An agent's stop was answered with a correction: its turn, which had ended, goes on."""


class CorrectionSent(FeedEvent, frozen=True):
    """How far a correction has got: queued, sent, typed, started, refused, not-delivered."""

    state: str
    reason: str = ""


class Exited(FeedEvent, frozen=True):
    """Its program has ended."""

    code: int | None


class Signalled(FeedEvent, frozen=True):
    """Its program wants attention: `bell` or `notification`."""

    what: str
    details: Mapping[str, Any]


class VerdictGiven(FeedEvent, frozen=True):
    """A verifier's verdict on one of its turns."""

    turn: int
    confidence: str
    summary: str


class NeedsPerson(FeedEvent, frozen=True):
    """A person must look at it."""

    turn: int
    reason: str


Listener = Callable[[FeedEvent], None]


class Feed:
    """What happens in all sessions of a daemon."""

    def __init__(self) -> None:
        self._kept: deque[FeedEvent] = deque(maxlen=MAX_KEPT)
        self._listeners: list[Listener] = []
        self._holding: dict[str, asyncio.Future[Any]] = {}
        self.cursor = 0
        """The number of events so far, without those that are not kept."""

    def listen(self, listener: Listener) -> None:
        """Have `listener` called with each event, after those that listened before."""
        self._listeners.append(listener)

    def post(self, event: FeedEvent) -> None:
        """Pass an event to all listeners. The failure of one is logged and spares the others."""
        if not isinstance(event, SaidPiece | Extended | ChangedAside):
            self._kept.append(event)
            self.cursor += 1
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s of %s", type(event).__name__, event.session)

    def hold(self, session: str, until: asyncio.Future[Any]) -> None:
        """Have the turn that begins in a session wait for something; for listeners of its beginning."""
        self._holding[session] = until
        until.add_done_callback(lambda done: self._holding.pop(session, None))

    async def let_begin(self, session: str) -> None:
        """Wait until nothing holds up the turn that began in a session, or for as long as it may."""
        if (holding := self._holding.get(session)) is not None:
            await asyncio.wait([holding], timeout=HOLD_SECONDS)

    def since(self, cursor: int) -> list[FeedEvent]:
        """The events after a cursor, as far as they are kept."""
        first = self.cursor - len(self._kept)
        return list(islice(self._kept, max(0, cursor - first), None))
