"""Agent sessions as the model of all sessions has them: live sessions, and what they post to the feed."""

from __future__ import annotations

from collections.abc import Iterator

from ..sessions import feed
from ..sessions.session import NOT_BY_A_PERSON
from . import context, events
from .conversation import Conversation
from .events import ConversationEvent
from .messages import User
from .ports import Refused
from .store import AgentStore


class LiveAgent:
    """An agent session whose turns can be followed, checked and sent back."""

    began = 0.0

    def __init__(self, session: Conversation) -> None:
        self.id = session.id
        self.kind = session.kind
        self.project = str(session.cwd)
        self.file = session.journal.path
        self._session = session

    @property
    def name(self) -> str:
        return self._session.name

    @property
    def model(self) -> str:
        return f"{self._session.model.provider}/{self._session.model.id}"

    @property
    def is_working(self) -> bool:
        return not self._session.is_idle or bool(self._session.approvals)

    @property
    def turns(self) -> list[context.JournalTurn]:
        turns = self._session.turns
        if turns:
            waiting = self._session.waiting_corrections
            turns[-1] = turns[-1]._replace(corrections=turns[-1].corrections + waiting)
        return list(turns)

    def correct(self, text: str, *, steer: bool) -> None:
        if self._session.is_idle and self._session.approvals:
            raise ValueError("a question of this turn waits for an answer")
        try:
            self._session.correct(text, steer=steer)
        except Refused as error:
            raise ValueError(str(error)) from None


def posted(store: AgentStore, event: ConversationEvent) -> Iterator[feed.FeedEvent]:
    """What an event of an agent session is to the feed."""
    id = event.session_id
    match event:
        case events.Loaded():
            yield feed.Opened(id, LiveAgent(store.find(id)))
        case events.Unloaded():
            yield feed.Closed(id)
        case events.Updated():
            yield feed.Changed(id)
        case events.TextStreamed(text=text):
            yield feed.SaidPiece(id, text)
        case events.MessageSaid(message=message):
            if isinstance(message, User) and isinstance(message.prompt, str):
                yield feed.PromptStarted(id, message.prompt)
            yield feed.Extended(id)
        case events.PromptEnded(prompt=prompt, outcome=outcome, reason=reason):
            yield feed.PromptEnded(id, prompt, outcome, reason)
        case events.TurnBegan():
            turn = store.find(id).turns[-1]
            yield feed.TurnBegan(id, turn, by_person=not turn.prompt_id.startswith(NOT_BY_A_PERSON))
        case events.TurnEnded(outcome=outcome):
            if turns := store.find(id).turns:
                yield feed.TurnEnded(
                    id, turns[-1] if outcome == "done" else turns[-1]._replace(outcome=outcome)
                )
        case events.WorkedAside():
            yield feed.ChangedAside(id)
        case events.Failed(message=reason):
            yield feed.Failed(id, reason)
