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
from ..verify.store import Judgement, Pending, ReportStore, with_call
from ..wire import verifier as wire
from ..wire.rpc import fields
from .proof import Programs
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
        self._forgotten: set[str] | None = set()  # None once what was said before is known
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def open(self) -> None:
        """Read what was said before."""
        await asyncio.wait([self._soon(self._load())], timeout=LOAD_WAIT)

    async def _load(self) -> None:
        told = ""
        while True:
            try:
                found = await self.reports.thread.run(self.reports.latest)
                escalations = await self.reports.thread.run(self.reports.escalations)
                break
            except DatabaseFault as error:
                if str(error) != told:
                    log.warning("reports can't be read: %s", error)
                told = str(error)
                await asyncio.sleep(TROUBLE_PAUSE)
        forgotten, self._forgotten = self._forgotten or set(), None
        before = {id: Judgement.of(row) for id, row in found.items() if id not in forgotten}
        for id, (turn, reason, asked_at) in escalations.items():
            if id not in forgotten:
                before[id] = with_call(before.get(id), turn, reason)
                self._ask(id, reason, asked_at)
        self._latest = before | self._latest
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

    def _happened(self, event: feed.Event) -> None:
        id = event.session
        match event:
            case feed.Created():
                self.forget(id)
            case feed.Opened(live=live):
                self.opened(live)
            case feed.Closed():
                self.door.close(id)
            case feed.TurnBegan(turn=turn, after=after):
                self.began(id)
                self.door.started(id, turn, after)
            case feed.TurnEnded(turn=turn):
                self.door.stopped(id, turn)
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

    def opened(self, builder: Session) -> None:
        """Verifiers may come to a session. One that was sent back too often still needs a person."""
        self.door.open(builder)
        self._call_again(builder)

    def _call_again(self, builder: Session) -> None:
        if self._is_stale(builder):
            self._outdate(builder.id)
        judgement = self.of(builder.id)
        if judgement is not None and judgement.escalated:
            self._ask(builder.id, judgement.escalated)  # now with its name and project
        turns = builder.turns
        if judgement is None or not turns or judgement.escalated or judgement.turn != turns[-1].number:
            return
        is_sent_back = judgement.confidence is Confidence.FEEDBACK
        if is_sent_back and turns[-1].corrections >= self._max_loops and not builder.is_working:
            self._latest[builder.id] = judgement._replace(escalated=judgement.summary)
            self._ask(builder.id, judgement.summary)

    def began(self, session_id: str) -> None:
        """A person has asked for something: whatever they were called for is seen to, and what was said is of
        an earlier turn."""
        self.dismiss(session_id)
        self._outdate(session_id)

    def dismiss(self, session_id: str) -> None:
        """A person has seen what they were called for."""
        judgement = self.of(session_id)
        if judgement is not None and judgement.escalated:
            self._latest[session_id] = judgement._replace(escalated="")
            self._settle(session_id)

    def _is_stale(self, builder: Session) -> bool:
        """Whether what was said last is of an earlier turn."""
        judgement, turns = self.of(builder.id), builder.turns
        return judgement is not None and bool(turns) and judgement.turn < turns[-1].number

    def _outdate(self, session_id: str) -> None:
        judgement = self.of(session_id)
        if judgement is not None and not judgement.stale:
            self._latest[session_id] = judgement._replace(stale=True)
            self._write(lambda: self.reports.outdate(session_id), f"that {session_id} had a later turn")

    def forget(self, session_id: str) -> None:
        """Another session has this id now: what was said is not of it."""
        judgement = self._latest.pop(session_id, None)
        if self._forgotten is not None:
            self._forgotten.add(session_id)
        if judgement is None or judgement.escalated:  # of one that is not read yet nobody knows
            self._settle(session_id)

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

    def _ask(self, session_id: str, reason: str, asked_at: float | None = None) -> None:
        """Have a person look at a session."""
        known = self._inbox.escalation(session_id)
        if asked_at is None:
            asked_at = known.asked_at if known is not None else time.time()
        live = self._live(session_id)
        question = Question(
            id=_token(session_id),
            kind="escalation",
            session=session_id,
            session_name=live.name if live is not None else "",
            project=live.project if live is not None else "",
            title="needs a person",
            what=reason,
            options=(DISMISS,),
            asked_at=asked_at,
        )
        self._inbox.ask(question, self)

    async def answered(self, question: Question, answer: Answer) -> None:
        """A person has seen it."""
        self.dismiss(question.session or "")

    def fate(self, question: Question) -> Asker | None:
        """What became of a call that is not repeated: see `Inbox.reconcile`."""
        return None if self._forgotten is None else self  # the file may be readable later

    def _settle(self, session_id: str) -> None:
        self._inbox.withdraw(_token(session_id), "it needs no person any more")
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
            for session_id, report in await self.reports.thread.run(self._take_lost):
                self._told(session_id, report)
        except DatabaseFault as error:
            log.warning("reports can't be kept: %s", error)

    def _take_lost(self) -> list[tuple[str, Report]]:
        """On the thread: end what is left of them, and write down that they are over."""
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
            if self.reports.finish(each.id, report) is not None:
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
        return self._soon(self._keep(builder.id, whole))

    async def _keep(self, session_id: str, report: Report) -> None:
        """Write a report down and tell everybody of it."""

        def write() -> None:
            if not self._is_kept(report):
                self.reports.add(report)

        writing = asyncio.ensure_future(self.reports.thread.run(write))
        await asyncio.wait([writing], timeout=KEEP_WAIT)
        self._told(session_id, report)
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

    def _told(self, session_id: str, report: Report) -> None:
        """Tell everybody of a report."""
        judgement = Judgement(report.turn, report.confidence, report.summary, report.verifier)
        before = self.of(session_id)
        if before is not None and before.turn == report.turn and report.status is not Status.VERIFIED:
            judgement = judgement._replace(escalated=before.escalated)
        elif before is not None and before.escalated:
            self._settle(session_id)
        self._latest[session_id] = judgement
        if any(each.id == session_id and self._is_stale(each) for each in self.door.builders):
            self._outdate(session_id)
        data = fields(
            session_id=session_id,
            status=report.status.value,
            kind=report.kind,
            sections={section.title: section.text for section in report.sections},
            **self._latest[session_id].shown,
        )
        self._tell("verify/report", data)
        self._feed.post(feed.Judged(session_id, report.turn, report.confidence.value, report.summary))
        if report.confidence is Confidence.FAILED:  # it could not be judged
            self.escalated(session_id, report.turn, report.summary)

    def escalated(self, session_id: str, turn: int, reason: str) -> None:
        judgement = self.of(session_id)
        if judgement is not None and judgement.turn == turn and judgement.escalated:
            return
        self._latest[session_id] = with_call(judgement, turn, reason)
        self._write(
            lambda: self.reports.escalate(session_id, turn, reason), f"that {session_id} needs a person"
        )
        self._ask(session_id, reason, time.time())
        self._tell("verify/escalated", fields(session_id=session_id, turn=turn, reason=reason))
        self._feed.post(feed.NeedsPerson(session_id, turn, reason))


def _token(session_id: str) -> str:
    """The id of the question that a session needs a person: the same after a restart."""
    return hashlib.sha256(session_id.encode("utf-8", "replace")).hexdigest()[:TOKEN]
