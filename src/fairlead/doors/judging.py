"""What verifiers say of sessions: kept, told to everybody, and shown wherever a session is shown.

Between the rooms: builders are sessions of any kind, reports go to the store of `verify`, events to the
clients of rpc-edn. Who listens to `notice` is also told when a person is needed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from ..agent import events
from ..agent.events import Event
from ..agent.session import AgentSession, Refused
from ..verify import process, scratch
from ..verify.report import Confidence, Report, Status, with_evidence
from ..verify.store import Listed, Pending, ReportStore, StoreFault
from ..wire import verifier as wire
from ..wire.rpc import fields
from .verifier import Builder, Turn, VerifierDoor, log

Data = Mapping[Any, Any]
GONE_WAIT = 1.0
"""Seconds after which a verifier's process should be gone, if its connection is."""
SENT_AGAIN = 20
"""Among how many of a session's last reports one that is sent again is looked for."""
Tell = Callable[[str, Data], None]
"""Tells everybody: a topic and its data."""


class Sessions(Protocol):
    """The agent sessions."""

    def find(self, id: str) -> AgentSession: ...


class AgentBuilder:
    """An agent session, as the verifier door sees it."""

    def __init__(self, session: AgentSession) -> None:
        self.id = session.id
        self.project = str(session.cwd)
        self._session = session

    @property
    def is_working(self) -> bool:
        return not self._session.is_idle

    @property
    def turns(self) -> list[Turn]:
        turns = self._session.turns
        if turns:
            waiting = self._session.waiting_corrections
            turns[-1] = turns[-1]._replace(corrections=turns[-1].corrections + waiting)
        return list(turns)

    def correct(self, text: str, *, steer: bool) -> None:
        try:
            self._session.correct(text, steer=steer)
        except Refused as error:
            raise ValueError(str(error)) from None


class Judgement(NamedTuple):
    """What was said of a session last."""

    turn: int
    confidence: Confidence
    summary: str
    verifier: str
    escalated: str = ""
    """Why a person is needed, if one is."""

    @property
    def line(self) -> str:
        """In a few words, for status lines."""
        call = f", a person is needed: {self.escalated}" if self.escalated else ""
        return f"turn {self.turn}: {self.confidence.value}{call}"

    @property
    def shown(self) -> dict[str, Any]:
        return {
            "turn": self.turn,
            "confidence": self.confidence.value,
            "colour": self.confidence.colour,
            "summary": self.summary,
            "verifier": self.verifier,
            "escalated": self.escalated or None,
        }


class Judging:
    """The reports of all sessions, and the door by which they come."""

    def __init__(self, directory: str, store: ReportStore, tell: Tell, *, max_loops: int) -> None:
        self.escalates: Callable[[str, int, str], None] = lambda session_id, turn, reason: None
        """Who is also told that a person is needed."""
        self.door = VerifierDoor(directory, self, max_loops=max_loops)
        self._max_loops = max_loops
        self._store = store
        self._tell = tell
        self._latest: dict[str, Judgement] = {}
        self._is_loaded = False

    # --- sessions -------------------------------------------------------------------------------------------

    def heard(self, sessions: Sessions, event: Event) -> None:
        """Something happened in an agent session."""
        match event:
            case events.Loaded():
                self.opened(AgentBuilder(sessions.find(event.session_id)))
            case events.Unloaded():
                self.door.close(event.session_id)
            case events.TurnBegan():
                self.began(event.session_id)
                self.door.started(event.session_id, sessions.find(event.session_id).turns[-1])
            case events.TurnEnded():
                turns = sessions.find(event.session_id).turns
                if turns:
                    self.door.stopped(event.session_id, turns[-1])
            case events.Failed(message=detail):
                self.door.failed(event.session_id, detail)

    def opened(self, builder: Builder) -> None:
        """Verifiers may come to a session. One that was sent back too often still needs a person."""
        self.door.open(builder)
        judgement = self.of(builder.id)
        turns = builder.turns
        if judgement is None or not turns or judgement.escalated or judgement.turn != turns[-1].number:
            return
        is_sent_back = judgement.confidence is Confidence.FEEDBACK
        if is_sent_back and turns[-1].corrections >= self._max_loops and not builder.is_working:
            self._latest[builder.id] = judgement._replace(escalated=judgement.summary)

    def began(self, session_id: str) -> None:
        """A person has asked for something: whatever they were called for is seen to."""
        judgement = self.of(session_id)
        if judgement is not None and judgement.escalated:
            self._latest[session_id] = judgement._replace(escalated="")

    def forget(self, session_id: str) -> None:
        """Another session has this id now: what was said is not of it."""
        self.of(session_id)
        self._latest.pop(session_id, None)

    def of(self, session_id: str) -> Judgement | None:
        """What was said of a session last."""
        if not self._is_loaded:
            self._is_loaded = True
            try:
                found = self._store.latest()
            except StoreFault as error:
                log.warning("reports can't be read: %s", error)
                found = {}
            self._latest = {id: _judgement(row) for id, row in found.items()} | self._latest
        return self._latest.get(session_id)

    def left(self, builder: Builder) -> None:
        """A verifier has gone. If its process has, too, what it had begun is not verified."""
        asyncio.get_running_loop().call_later(GONE_WAIT, self.report_lost)

    def report_lost(self) -> None:
        """Report the verifications that nobody runs any more."""
        try:
            lost = self._store.unfinished()
            for owner in {each.owner.partition(" ")[0] for each in lost}:
                process.end_orphans(of=int(owner))
            if lost:
                scratch.remove_stale()
            for each in lost:
                if self._is_reported(each):  # only its end was not written down
                    self._store.dismiss(each.id)
                    continue
                report = each.not_verified("the verifier went away before it was done")
                if self._store.finish(each.id, report) is not None:
                    self._told(each.session_id, report)
        except StoreFault as error:
            log.warning("reports can't be kept: %s", error)

    def _is_reported(self, pending: Pending) -> bool:
        reports = self._store.list(session_id=pending.session_id, since=pending.begun, limit=SENT_AGAIN)
        return any((each.turn, each.verifier) == (pending.turn, pending.verifier) for each in reports)

    # --- verifiers ------------------------------------------------------------------------------------------

    def reported(self, builder: Builder, report: wire.Report) -> None:
        turn = next((each for each in builder.turns if each.number == report.turn_index), None)
        whole = msgspec.structs.replace(with_evidence(report), project=builder.project, time=time.time())
        if turn is not None and whole.lines is None:
            whole = msgspec.structs.replace(whole, lines=(turn.first_line, turn.last_line))
        try:
            if not self._is_kept(whole):
                self._store.add(whole)
        except StoreFault as error:
            log.warning("a report can't be kept: %s", error)
        self._told(builder.id, whole)

    def _is_kept(self, report: Report) -> bool:
        """Whether the daemon before us was killed when it had kept this report and not said so yet."""
        wanted = (report.turn, report.verifier, report.summary, report.duration, report.tree)
        return bool(report.duration) and any(
            (each.turn, each.verifier, each.summary, each.duration, each.tree) == wanted
            for each in self._store.list(session_id=report.session_id, limit=SENT_AGAIN)
        )

    def _told(self, session_id: str, report: Report) -> None:
        """Tell everybody of a report."""
        judgement = Judgement(report.turn, report.confidence, report.summary, report.verifier)
        before = self.of(session_id)
        if before is not None and before.turn == report.turn and report.status is not Status.VERIFIED:
            judgement = judgement._replace(escalated=before.escalated)
        self._latest[session_id] = judgement
        data = fields(
            session_id=session_id,
            status=report.status.value,
            kind=report.kind,
            sections={section.title: section.text for section in report.sections},
            **judgement.shown,
        )
        self._tell("verify/report", data)
        if report.confidence is Confidence.FAILED:  # it could not be judged
            self.escalated(session_id, report.turn, report.summary)

    def escalated(self, session_id: str, turn: int, reason: str) -> None:
        judgement = self.of(session_id)
        if judgement is None or judgement.turn != turn:
            judgement = Judgement(turn, Confidence.FAILED, reason, "")
        if judgement.escalated:
            return
        self._latest[session_id] = judgement._replace(escalated=reason)
        self._tell("verify/escalated", fields(session_id=session_id, turn=turn, reason=reason))
        self.escalates(session_id, turn, reason)


def _judgement(row: Listed) -> Judgement:
    escalated = row.summary if row.confidence is Confidence.FAILED else ""
    return Judgement(row.turn, row.confidence, row.summary, row.verifier, escalated)
