"""The prompts of one session: those that wait to be said, those that the running turn answers, and how each
of them ended.

A prompt that waits is in the journal before it is accepted. So the next program that reads the journal knows
what was never said, and says that instead of losing it.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ..formats.shown import middle
from ..sessions.session import RESTARTED, PromptOutcome
from . import events
from .context import DROPPED, QUEUED
from .events import ConversationEvent
from .journal import Custom, Journal, JournalError
from .messages import User, text_of
from .ports import Refused

MAX_QUEUED = 100
"""How many messages may wait to be said."""
MAX_RETURNED = 1024 * 1024
"""How many characters are given back of what was not said."""


class Prompts:
    """What waits to be said, in its order, and what was said in the run that goes on."""

    def __init__(self, journal: Journal, tell: Callable[[ConversationEvent], None]) -> None:
        self.steering: deque[User] = deque()
        """What is said before the model is asked the next time."""
        self.follow_ups: deque[User] = deque()
        """What is said when the turn is done."""
        self._id = journal.header.id
        self._journal = journal
        self._tell = tell
        self._running: list[str] = []
        self._is_aborting = False
        self._later: list[ConversationEvent] = []  # what is told after the end of a run that is aborted
        self._fault = ""

    def __len__(self) -> int:
        return len(self.steering) + len(self.follow_ups)

    @property
    def waiting(self) -> Sequence[User]:
        return (*self.steering, *self.follow_ups)

    @property
    def queued(self) -> list[str]:
        """The texts of the prompts that wait; corrections are none."""
        return [text_of(each) for each in self.waiting if each.prompt is not msgspec.UNSET]

    # --- waiting ------------------------------------------------------------------------------------------

    def queue(self, said: User, *, steer: bool) -> None:
        """Have something said later. Raises Refused, or JournalError."""
        if len(self) >= MAX_QUEUED:
            raise Refused(f"{MAX_QUEUED} messages wait already")
        if said.prompt is not msgspec.UNSET:
            waiting = {"id": said.prompt, "session": self._id, "text": text_of(said)}
            self._journal.append(Custom(QUEUED, waiting))
        (self.steering if steer else self.follow_ups).append(said)
        self._tell(events.Updated(self._id))

    def drop_steering(self, reason: str) -> str:
        """Forget what was meant for this turn: words, which are returned, and corrections of it."""
        self.drop_corrections()
        dropped = list(self.steering)
        self.steering.clear()
        for said in dropped:
            self._dropped(said, reason)
        return middle("\n".join(map(text_of, dropped)), MAX_RETURNED, "see the journal")

    def drop_corrections(self) -> None:
        """Forget the corrections of a turn that is not done."""
        self.steering = deque(said for said in self.steering if said.origin != "correction")
        self.follow_ups = deque(said for said in self.follow_ups if said.origin != "correction")

    def drop(self, reason: str, id: str | None = None) -> bool:
        """Don't say what waits, or only one prompt of it. True if there was any."""
        dropped = [each for each in self.waiting if id in (None, each.prompt)]
        self.steering = deque(each for each in self.steering if id not in (None, each.prompt))
        self.follow_ups = deque(each for each in self.follow_ups if id not in (None, each.prompt))
        for said in dropped:
            self._dropped(said, reason)
        return bool(dropped)

    def _dropped(self, said: User, reason: str) -> None:
        if said.prompt is not msgspec.UNSET:
            with contextlib.suppress(JournalError):  # then the next reader of the journal says it
                self._journal.append(Custom(DROPPED, {"id": said.prompt, "reason": reason}))
            ended = events.PromptEnded(self._id, said.prompt, "dropped", reason)
            if self._is_aborting:
                self._later.append(ended)
            else:
                self._tell(ended)

    def drop_lost(self, queued: Iterable[str]) -> None:
        """Journal that what waited when the last program ended is dropped."""
        for id in queued:
            with contextlib.suppress(JournalError):
                self._journal.append(Custom(DROPPED, {"id": id, "reason": RESTARTED}))

    # --- saying -------------------------------------------------------------------------------------------

    def take_late(self) -> None:
        """Steering that came too late for its turn is said as a turn of its own."""
        late = [
            User(each.content, each.timestamp, prompt=each.prompt)
            for each in self.steering
            if each.origin == "steer"
        ]
        self.follow_ups.extendleft(reversed(late))
        self.steering.clear()

    def heard(self, event: ConversationEvent) -> None:
        """Follow what the session tells: what is said, and why a turn failed."""
        match event:
            case events.MessageSaid(message=User(prompt=str(id))):
                self._running.append(id)
            case events.Failed(message=fault):
                self._fault = fault

    def abort(self) -> str:
        """The run will be over in a moment: what is dropped till then ends after it, as prompts do in their
        order. Returns what was meant for this turn."""
        self._is_aborting = True
        return self.drop_steering("aborted before it was sent")

    def end(self, outcome: PromptOutcome) -> None:
        """The run is over, and with it all that was said in it."""
        running, self._running = self._running, []
        reason, self._fault = self._fault if outcome == "failed" else "", ""
        for id in running:
            self._tell(events.PromptEnded(self._id, id, outcome, reason))
        self.end_abort()

    def end_abort(self) -> None:
        """What was aborted is over."""
        self._is_aborting = False
        while self._later:
            self._tell(self._later.pop(0))

    def go_on(self, ids: Sequence[str]) -> None:
        """A run goes on that another daemon began with these."""
        self._running += [id for id in ids if id not in self._running]

    def is_running(self, id: str) -> bool:
        return id in self._running

    def close(self) -> None:
        """The session is closed: what runs is lost, and what waits is told by the journal's next reader."""
        self.end("interrupted")
        for said in self.waiting:
            if said.prompt is not msgspec.UNSET:
                reason = "the session was closed before it was sent"
                self._tell(events.PromptEnded(self._id, said.prompt, "dropped", reason))
