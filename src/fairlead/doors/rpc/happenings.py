"""The events of the feed as topics of rpc-edn, `sessions/…`, by which clients follow sessions of any kind."""

from __future__ import annotations

from typing import Any

from ...sessions import feed
from ...sessions.inbox import Inbox
from ...sessions.questions import Question
from ...sessions.state import StateChanged
from ...wire.rpc import fields
from .handlers import Clients

_QUESTIONS = "sessions/questions"


def follow(happenings: feed.Feed, inbox: Inbox, clients: Clients) -> None:
    """Tell the clients of a door what happens from now on; an event is encoded once for all of them."""

    def happened(event: feed.FeedEvent) -> None:
        if (found := _topic_of(event)) is not None and clients.want(topic := f"sessions/{found[0]}"):
            clients.event(topic, fields(session_id=event.session, **found[1]))

    def asked(question: Question) -> None:
        if clients.want(_QUESTIONS):
            about = {"session_id": question.session} if question.session is not None else {}
            clients.event(_QUESTIONS, fields(token=question.id, **about))

    happenings.listen(happened)
    inbox.on_changed.append(asked)


def _topic_of(event: feed.FeedEvent) -> tuple[str, dict[str, Any]] | None:
    """An event's topic and data, or None if it has no topic."""
    match event:
        case feed.Created():
            return "created", {}
        case feed.Opened(live=live):
            return "opened", {"kind": live.kind, "project": live.project}
        case feed.Closed():
            return "closed", {}
        case feed.Changed():
            return "changed", {}
        case StateChanged(activity=activity):
            return "state", activity.row
        case feed.PromptStarted(prompt=prompt):
            return "prompt-started", {"prompt_id": prompt}
        case feed.PromptEnded(prompt=prompt, outcome=outcome, reason=reason):
            return "prompt-ended", {"prompt_id": prompt, "outcome": outcome, "reason": reason}
        case feed.SaidPiece(text=text):
            return "said", {"text": text}
        case feed.TurnBegan(turn=turn):
            return "turn-began", {"turn": turn.number}
        case feed.TurnEnded(turn=turn):
            return "turn-ended", {"turn": turn.number, "outcome": turn.outcome}
        case feed.Failed(reason=reason):
            return "failed", {"reason": reason}
        case feed.CorrectionSent(state=state, reason=reason):
            return "correction", {"state": state, "reason": reason}
        case feed.Exited(code=code):
            return "exited", {"exit_code": code}
        case feed.Signalled(what=what):
            return "signalled", {"what": what}
        case feed.VerdictGiven(turn=number, confidence=confidence, summary=summary):
            return "judged", {"turn": number, "confidence": confidence, "summary": summary}
        case feed.NeedsPerson(turn=number, reason=reason):
            return "needs-person", {"turn": number, "reason": reason}
    return None
