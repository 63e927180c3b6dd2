"""What verifiers say of sessions: kept, told to everybody, and shown wherever a session is shown.

It listens to the feed, so sessions of any kind are verified; reports go to the store of `verify`, events to
the clients of rpc-edn. That a session needs a person is a question in the inbox.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from ..formats.shown import middle
from ..sessions import feed
from ..sessions.feed import Feed
from ..sessions.inbox import Asker, Inbox
from ..sessions.questions import DISMISS, Answer, Question
from ..sessions.session import Session
from ..system.database import DatabaseFault
from ..verify.checks import process
from ..verify.outcome import judged_by_outcome
from ..verify.project import scratch
from ..verify.report import Confidence, Report, Status, capped, with_evidence
from ..verify.store import FORMER, Escalation, Judgement, Pending, ReportStore, with_call
from ..wire import verifier as wire
from ..wire.rpc import fields
from .peer_proof import Programs
from .verifier import VerifierDoor, log

Data = Mapping[Any, Any]
LOAD_WAIT = 1.0
"""Seconds that a start waits for what was said before; what takes longer comes later."""
KEEP_WAIT = 1.0
"""Seconds after which a report is told to everybody, written down or not: the file may be locked."""
TROUBLE_PAUSE = 10.0
"""Seconds until a file that can't be read is tried again."""
GONE_WAIT = 1.0
"""Seconds after which a verifier's process should be gone, if its connection is."""
SENT_AGAIN = 20
"""Among how many of a session's last reports one that is sent again is looked for."""
TOKEN = 16
"""How many characters the id of a question has."""
FORMER_SESSION = "the session that it is about has ended"
GREEN = (Confidence.VERIFIED, Confidence.PERFECT)
SHOWN_DETAILS = 8000
"""How many characters of what was found are shown to who is called."""
UNNAMED = "remote"
"""The name of a verifier of another program."""
Tell = Callable[[str, Data], None]
"""Tells everybody: a topic and its data."""


class Judging:
    """The reports of all sessions, and the door by which they come."""

    def __init__(
        self,
        directories: Sequence[str],
        store: ReportStore,
        feed: Feed,
        inbox: Inbox,
        tell: Tell,
        *,
        max_loops: int,
        ping_interval: float = wire.PING_INTERVAL,
        programs: Programs = dict,
    ) -> None:
        """Reports of `programs` are refused: an agent judges neither itself nor another."""
        self.door = VerifierDoor(
            directories, self, max_loops=max_loops, ping_interval=ping_interval, programs=programs
        )
        feed.listen(self._happened)
        self._feed = feed
        self._inbox = inbox
        inbox.register("escalation", self.fate)
        self._max_loops = max_loops
        self.reports = store
        self._tell = tell
        self._latest: dict[str, Judgement] = {}
        self._began: dict[str, float] = {}  # when the sessions began whose ids others may have had
        self._changed_aside: dict[str, float] = {}  # when sessions did something after their last turn
        self._made_by_people: set[str] = set()
        self._is_loaded = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def open(self) -> None:
        """Read what was said before, and remove what another daemon has left."""
        removing = self._soon(asyncio.to_thread(self.door.remove_dead))
        await asyncio.wait([removing, self._soon(self._load())], timeout=LOAD_WAIT)

    async def _load(self) -> None:
        told = ""
        while True:
            try:
                found = await self.reports.thread.run(self.reports.judgements)
                break
            except DatabaseFault as error:
                if str(error) != told:
                    log.warning("reports can't be read: %s", error)
                told = str(error)
                await asyncio.sleep(TROUBLE_PAUSE)
        self._is_loaded = True
        self._latest, since = found, self._latest
        for id in found:
            if not self._forget_former(id) and id not in since:
                self._ask(id)
        self._latest |= since
        for question in self._inbox.open():
            if question.kind == "escalation" and not question.lost:
                fate = self._take_up(question)
                if isinstance(fate, str):
                    self._inbox.lose(question.id, fate)
                elif fate is None:
                    self._inbox.withdraw(question.id, "it needs no person any more")
        for builder in self.door.builders:
            self._call_again(builder)

    async def close(self) -> None:
        """Let what is being written have a moment."""
        self._is_closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=KEEP_WAIT)
        for task in list(self._tasks):
            task.cancel()
        await self.reports.aclose()

    def _soon(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- sessions -------------------------------------------------------------------------------------------

    def _happened(self, event: feed.FeedEvent) -> None:
        id = event.session
        match event:
            case feed.Created(began=began, by_agent=by_agent):
                self.created(id, began, by_agent=by_agent)
            case feed.Opened(live=live):
                self.opened(live)
            case feed.Closed():
                self.door.close(id)
            case feed.TurnBegan(turn=turn, after=after, by_person=by_person):
                self._changed_aside.pop(id, None)
                self.began(id, by_person=by_person)
                self.door.started(id, turn, after)
            case feed.TurnEnded(turn=turn):
                self._outdate_early(id, turn.number)
                self.door.stopped(id, turn)
            case feed.ChangedAside():
                self._changed_aside[id] = time.time()
                self._outdate(id)
            case feed.Failed(reason=reason):
                self.door.failed(id, reason)
            case feed.CorrectionSent(state=state, reason=reason):
                self._tell("verify/receipt", fields(session_id=id, state=state, reason=reason or None))
                session = self._live(id)
                if state == "not-delivered" and session is not None and session.turns:
                    why = f"a correction was not delivered: {reason}"
                    self.escalated(id, session.turns[-1].number, why)

    def _live(self, session_id: str) -> Session | None:
        return next((each for each in self.door.builders if each.id == session_id), None)

    def created(self, session_id: str, began: float, *, by_agent: bool) -> None:
        """A session is new: what was said of an earlier one with its id is not of it."""
        self._began[session_id] = began
        (self._made_by_people.discard if by_agent else self._made_by_people.add)(session_id)
        self._forget_former(session_id)

    def _forget_former(self, session_id: str) -> bool:
        """Forget what was said of an earlier session with this id, if that is what is known. A person who
        made the new one has seen what they were called for; else the call is shown as lost."""
        judgement, began = self.of(session_id), self._began.get(session_id, 0.0)
        if judgement is None or judgement.is_of(began):
            return False
        del self._latest[session_id]
        if judgement.escalated:
            token = _token(session_id, judgement)
            if session_id in self._made_by_people:
                self._inbox.withdraw(token, "a new session has the name")
            else:
                self._inbox.lose(token, FORMER_SESSION)
            self._write(lambda: self.reports.settle(session_id), f"that an earlier {session_id} is gone")
        return True

    def opened(self, builder: Session) -> None:
        """Verifiers may come to a session. One that was sent back too often still needs a person."""
        self._began[builder.id] = builder.began
        self._forget_former(builder.id)
        self.door.open(builder)
        self._call_again(builder)

    def _call_again(self, builder: Session) -> None:
        if self._is_stale(builder):
            self._outdate(builder.id)
        if builder.turns and not builder.is_working and builder.turns[-1].outcome != "done":
            self._outdate_early(builder.id, builder.turns[-1].number)  # whenever it was said
        judgement = self.of(builder.id)
        if judgement is not None and judgement.escalated:
            self._ask(builder.id)  # now with its name and project
        turns = builder.turns
        if judgement is None or not turns or judgement.turn != turns[-1].number:
            return
        is_sent_back = judgement.confidence is Confidence.FEEDBACK
        is_called = judgement.called == judgement.turn  # a person may have seen it since
        is_too_often = turns[-1].corrections >= self._max_loops
        if is_sent_back and is_too_often and not is_called and not builder.is_working:
            self._call(builder.id, judgement.turn, judgement.summary)

    def began(self, session_id: str, *, by_person: bool) -> None:
        """A session was asked for something: what was said is of an earlier turn. A person who asks has seen
        to what they were called for."""
        if by_person:
            self.dismiss(session_id)
        self._outdate(session_id)

    def dismiss(self, session_id: str) -> None:
        """A person has seen what they were called for."""
        judgement = self.of(session_id)
        if judgement is not None and judgement.escalated:
            self._latest[session_id] = judgement._replace(escalated="")
            self._settle(session_id, judgement)

    def _is_stale(self, builder: Session) -> bool:
        """Whether what was said last is of an earlier turn."""
        judgement, turns = self.of(builder.id), builder.turns
        return judgement is not None and bool(turns) and judgement.turn < turns[-1].number

    def _is_before_change(self, session_id: str, report: Report) -> bool:
        """Whether a check began before its session did something after its last turn."""
        changed = self._changed_aside.get(session_id)
        return changed is not None and (not report.duration or report.time - report.duration <= changed)

    def _outdate_early(self, session_id: str, turn: int) -> None:
        """A turn has ended: that it was verified while it went on says nothing of its end."""
        judgement = self.of(session_id)
        if judgement is not None and judgement.turn == turn and judgement.confidence in GREEN:
            self._outdate(session_id)

    def _outdate(self, session_id: str) -> None:
        judgement = self.of(session_id)
        if judgement is not None and not judgement.stale:
            self._latest[session_id] = judgement._replace(stale=True)
            self._write(lambda: self.reports.outdate(session_id), f"that {session_id} had a later turn")

    def shown(self, session_id: str) -> dict[str, Any] | None:
        """The same as it is listed."""
        judgement = self.of(session_id)
        return judgement.shown if judgement is not None else None

    def of(self, session_id: str) -> Judgement | None:
        """What was said of a session last."""
        return self._latest.get(session_id)

    def _write(self, work: Callable[[], None], what: str) -> None:
        """Have something written down soon; `what` it is goes into the log if that can't be."""
        if not self._is_closed:
            _ = self._soon(self._written(work, what))

    async def _written(self, work: Callable[[], None], what: str) -> None:
        try:
            await self.reports.thread.run(work)
        except DatabaseFault as error:
            log.warning("%s can't be kept: %s", what, error)

    # --- the inbox ------------------------------------------------------------------------------------------

    def _ask(self, session_id: str) -> None:
        """Have a person look at a session, if one is needed."""
        judgement = self.of(session_id)
        if judgement is None or not judgement.escalated:
            return
        token = _token(session_id, judgement)
        known, live = self._inbox.known(token), self._live(session_id)
        said = judgement.summary if judgement.summary != judgement.escalated else ""
        question = Question(
            id=token,
            kind="escalation",
            session=session_id,
            session_name=live.name if live is not None else known.session_name if known else "",
            project=live.project if live is not None else known.project if known else "",
            title="needs a person",
            what=judgement.escalated,
            whole=known.whole if known else judgement.details,
            reason=known.reason if known else said,
            options=(DISMISS,),
            asked_at=known.asked_at if known else time.time(),
            about=str(judgement.called),
        )
        self._inbox.ask(question, self)

    async def answered(self, question: Question, answer: Answer) -> None:
        """A person has seen it."""
        session_id = question.session or ""
        judgement = self.of(session_id)
        if judgement is not None and _token(session_id, judgement) == question.id:
            self.dismiss(session_id)

    def fate(self, question: Question) -> Asker | str | None:
        """What became of a call that is not repeated: see `Inbox.reconcile`."""
        return self._take_up(question) if self._is_loaded else self  # the file may be readable later

    def _take_up(self, question: Question) -> Asker | str | None:
        """Go on with a call that only the inbox's file knows: the reports' file was locked."""
        session_id, turn = question.session or "", question.about
        judgement = self.of(session_id)
        if not turn.isdigit() or (judgement is not None and judgement.called >= int(turn)):
            return self if judgement is not None and _token(session_id, judgement) == question.id else None
        began = self._began.get(session_id, 0.0)
        call = Escalation(int(turn), question.what, question.asked_at, began)
        if _token(session_id, with_call(None, call)) != question.id:
            return FORMER_SESSION
        self._latest[session_id] = with_call(judgement, call)
        self._keep_call(session_id, call)
        return self

    def _settle(self, session_id: str, judgement: Judgement) -> None:
        self._inbox.withdraw(_token(session_id, judgement), "it needs no person any more")
        self._write(lambda: self.reports.settle(session_id), f"that {session_id} needs no person any more")

    def left(self, builder: Session) -> None:
        """A verifier has gone. If its process has, too, what it had begun is not verified."""
        asyncio.get_running_loop().call_later(GONE_WAIT, self.report_lost)

    def report_lost(self) -> None:
        """Report the verifications that nobody runs any more."""
        if not self._is_closed:
            _ = self._soon(self._report_lost())

    async def _report_lost(self) -> None:
        try:
            began = dict(self._began)
            for session_id, report in await self.reports.thread.run(lambda: self._take_lost(began)):
                self._take_verdict(session_id, report, began.get(session_id, 0.0))
        except DatabaseFault as error:
            log.warning("reports can't be kept: %s", error)

    def _take_lost(self, began: Mapping[str, float]) -> list[tuple[str, Report]]:
        """On the thread: end what is left of them, and write down that they are over. Returns those of
        sessions that are still the ones that `began` then."""
        lost = self.reports.unfinished()
        for owner in {each.owner.partition(" ")[0] for each in lost}:
            process.end_orphans(of=int(owner))
        if lost:
            scratch.remove_stale()
        told = []
        for each in lost:
            if self._is_reported(each):  # only its end was not written down
                self.reports.dismiss(each.id)
                continue
            report = each.not_verified("the verifier went away before it was done")
            current = began.get(each.session_id, 0.0)
            is_current = each.begun >= current
            done = self.reports.finish(each.id, report, began=current if is_current else FORMER)
            if done is not None and is_current:
                told.append((each.session_id, report))
        return told

    def _is_reported(self, pending: Pending) -> bool:
        reports = self.reports.list(session_id=pending.session_id, since=pending.begun, limit=SENT_AGAIN)
        return any((each.turn, each.verifier) == (pending.turn, pending.verifier) for each in reports)

    # --- verifiers ------------------------------------------------------------------------------------------

    def reported(self, builder: Session, report: wire.Report) -> asyncio.Task[None] | str:
        turn = next((each for each in builder.turns if each.number == report.turn_index), None)
        if turn is None:
            log.warning("a report on turn %s of %s was refused", report.turn_index, builder.id)
            return f"session {builder.id} has no turn {report.turn_index}"
        whole = msgspec.structs.replace(with_evidence(report), project=builder.project, time=time.time())
        if not whole.verifier:  # Pi's verifier does not say its name
            whole = msgspec.structs.replace(whole, verifier=UNNAMED)
        if whole.lines is None:
            whole = msgspec.structs.replace(whole, lines=(turn.first_line, turn.last_line))
        is_going_on = builder.is_working and turn.number == builder.turns[-1].number
        whole = capped(whole if is_going_on else judged_by_outcome(whole, turn.outcome))
        return self._soon(self._keep(builder, whole, is_early=is_going_on))

    async def _keep(self, builder: Session, report: Report, *, is_early: bool) -> None:
        """Write a report down and tell everybody of it; one that `is_early` came before its turn's end."""
        is_late = bool(builder.turns) and report.turn < builder.turns[-1].number

        def write() -> None:
            if not self._is_kept(report):
                self.reports.add(report, began=builder.began, stale=is_late)

        writing = asyncio.ensure_future(self.reports.thread.run(write))
        await asyncio.wait([writing], timeout=KEEP_WAIT)
        self._take_verdict(builder.id, report, builder.began)
        if is_early and not builder.is_working:
            self._outdate_early(builder.id, report.turn)
        try:
            await writing
        except DatabaseFault as error:
            log.warning("a report can't be kept: %s", error)

    def _is_kept(self, report: Report) -> bool:
        """Whether the daemon before us was killed when it had kept this report and not said so yet."""
        wanted = (report.turn, report.verifier, report.summary, report.duration, report.tree)
        return bool(report.duration) and any(
            (each.turn, each.verifier, each.summary, each.duration, each.tree) == wanted
            for each in self.reports.list(session_id=report.session_id, limit=SENT_AGAIN)
        )

    def _take_verdict(self, session_id: str, report: Report, began: float) -> None:
        """Tell everybody of a report, unless another session than the one that `began` then has the id."""
        if self._began.get(session_id, began) != began:
            log.warning("a report on an earlier session %s is only kept", session_id)
            return
        said = Judgement(report.turn, report.confidence, report.summary, report.verifier, began=began)
        said = said._replace(at=report.time, details=_findings(report))
        before, live = self.of(session_id), self._live(session_id)
        is_last = live is not None and bool(live.turns) and live.turns[-1].number <= report.turn
        is_older = before is not None and before.turn > report.turn and not is_last
        if is_older:
            said = said._replace(stale=True)
        else:
            is_right = before is not None and before.called == report.turn
            if before is not None and before.escalated and is_right and report.status is Status.VERIFIED:
                self.dismiss(session_id)
                before = self.of(session_id)
            if before is not None:
                said = said._replace(escalated=before.escalated, called=before.called)
            self._latest[session_id] = said
            if (live is not None and self._is_stale(live)) or self._is_before_change(session_id, report):
                self._outdate(session_id)
                said = self._latest[session_id]
        data = fields(
            session_id=session_id,
            status=report.status.value,
            kind=report.kind,
            sections={section.title: section.text for section in report.sections},
            **said.shown,
        )
        self._tell("verify/report", data)
        self._feed.post(feed.VerdictGiven(session_id, report.turn, report.confidence.value, report.summary))
        is_superseded = is_older or (live is not None and bool(live.turns) and not is_last)
        if report.confidence is Confidence.FAILED and not is_superseded:  # it could not be judged
            self.escalated(session_id, report.turn, report.summary)

    def escalated(self, session_id: str, turn: int, reason: str) -> None:
        judgement = self.of(session_id)
        if judgement is not None and judgement.called == turn and judgement.escalated:
            return
        self._call(session_id, turn, reason)
        self._tell("verify/escalated", fields(session_id=session_id, turn=turn, reason=reason))
        self._feed.post(feed.NeedsPerson(session_id, turn, reason))

    def _call(self, session_id: str, turn: int, reason: str) -> None:
        """A person is needed, for a later turn than before if one was."""
        before = self.of(session_id)
        if before is not None and before.escalated:
            self._inbox.withdraw(_token(session_id, before), "a later turn needs a person")
        call = Escalation(turn, reason, time.time(), self._began.get(session_id, 0.0))
        self._latest[session_id] = with_call(before, call)
        self._keep_call(session_id, call)
        self._ask(session_id)

    def _keep_call(self, session_id: str, call: Escalation) -> None:
        self._write(
            lambda: self.reports.escalate(session_id, call.turn, call.reason, began=call.began),
            f"that {session_id} needs a person",
        )


def _token(session_id: str, judgement: Judgement) -> str:
    """The id of the question that a session needs a person for a turn: the same after a restart."""
    call = f"{session_id}\0{judgement.began}\0{judgement.called}\0{judgement.escalated}"
    return hashlib.sha256(call.encode("utf-8", "replace")).hexdigest()[:TOKEN]


def _findings(report: Report) -> str:
    """What was found, for who is called."""
    sections = "\n\n".join(f"{each.title}\n{each.text}" for each in report.sections)
    return middle(sections, SHOWN_DETAILS, f"`fairlead reports {report.session_id}` lists the report")
