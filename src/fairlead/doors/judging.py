"""What verifiers say of sessions: kept, told to everybody, and shown wherever a session is shown.

Between the rooms: builders are sessions of any kind, reports go to the store of `verify`, events to the
clients of rpc-edn. Who listens to `notice` is also told when a person is needed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ..agent import events
from ..agent.events import Event
from ..agent.session import AgentSession, Refused
from ..system.database import DatabaseFault
from ..verify.checks import process
from ..verify.outcome import judged_by_outcome
from ..verify.project import scratch
from ..verify.report import Confidence, Report, Status, capped, with_evidence
from ..verify.store import Judgement, Pending, ReportStore, with_call
from ..wire import verifier as wire
from ..wire.rpc import fields
from .verifier import Builder, Turn, VerifierDoor, log

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
UNNAMED = "remote"
"""The name of a verifier of another program."""
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
        return not self._session.is_idle or bool(self._session.approvals)

    @property
    def turns(self) -> list[Turn]:
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


class Judging:
    """The reports of all sessions, and the door by which they come."""

    def __init__(self, directories: Sequence[str], store: ReportStore, tell: Tell, *, max_loops: int) -> None:
        self.escalates: Callable[[str, int, str], None] = lambda session_id, turn, reason: None
        """Who is also told that a person is needed."""
        self.door = VerifierDoor(directories, self, max_loops=max_loops)
        self._max_loops = max_loops
        self._store = store
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
                found = await self._store.thread.run(self._store.latest)
                escalations = await self._store.thread.run(self._store.escalations)
                break
            except DatabaseFault as error:
                if str(error) != told:
                    log.warning("reports can't be read: %s", error)
                told = str(error)
                await asyncio.sleep(TROUBLE_PAUSE)
        forgotten, self._forgotten = self._forgotten or set(), None
        before = {id: Judgement.of(row) for id, row in found.items() if id not in forgotten}
        for id, (turn, reason) in escalations.items():
            if id not in forgotten:
                before[id] = with_call(before.get(id), turn, reason)
        self._latest = before | self._latest
        for builder in self.door.builders:
            self._call_again(builder)

    async def close(self) -> None:
        """Let what is being written have a moment; the store is closed by its owner."""
        self._is_closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=KEEP_WAIT)
        for task in list(self._tasks):
            task.cancel()

    def _soon(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

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
            case events.TurnEnded(outcome=outcome):
                turns = sessions.find(event.session_id).turns
                if turns:
                    ended = turns[-1] if outcome == "done" else turns[-1]._replace(outcome=outcome)
                    self.door.stopped(event.session_id, ended)
            case events.Failed(message=detail):
                self.door.failed(event.session_id, detail)

    def opened(self, builder: Builder) -> None:
        """Verifiers may come to a session. One that was sent back too often still needs a person."""
        self.door.open(builder)
        self._call_again(builder)

    def _call_again(self, builder: Builder) -> None:
        if self._is_stale(builder):
            self._outdate(builder.id)
        judgement = self.of(builder.id)
        turns = builder.turns
        if judgement is None or not turns or judgement.escalated or judgement.turn != turns[-1].number:
            return
        is_sent_back = judgement.confidence is Confidence.FEEDBACK
        if is_sent_back and turns[-1].corrections >= self._max_loops and not builder.is_working:
            self._latest[builder.id] = judgement._replace(escalated=judgement.summary)

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

    def _is_stale(self, builder: Builder) -> bool:
        """Whether what was said last is of an earlier turn."""
        judgement, turns = self.of(builder.id), builder.turns
        return judgement is not None and bool(turns) and judgement.turn < turns[-1].number

    def _outdate(self, session_id: str) -> None:
        judgement = self.of(session_id)
        if judgement is not None and not judgement.stale:
            self._latest[session_id] = judgement._replace(stale=True)
            self._write(lambda: self._store.outdate(session_id), f"that {session_id} had a later turn")

    def forget(self, session_id: str) -> None:
        """Another session has this id now: what was said is not of it."""
        judgement = self._latest.pop(session_id, None)
        if self._forgotten is not None:
            self._forgotten.add(session_id)
        if judgement is None or judgement.escalated:  # of one that is not read yet nobody knows
            self._settle(session_id)

    def of(self, session_id: str) -> Judgement | None:
        """What was said of a session last."""
        return self._latest.get(session_id)

    def escalations(self) -> dict[str, str]:
        """Why a person is needed, by session."""
        return {id: each.escalated for id, each in self._latest.items() if each.escalated}

    def _write(self, work: Callable[[], None], what: str) -> None:
        """Have something written down soon; `what` it is goes into the log if that can't be."""
        if not self._is_closed:
            _ = self._soon(self._written(work, what))

    async def _written(self, work: Callable[[], None], what: str) -> None:
        try:
            await self._store.thread.run(work)
        except DatabaseFault as error:
            log.warning("%s can't be kept: %s", what, error)

    def _settle(self, session_id: str) -> None:
        self._write(lambda: self._store.settle(session_id), f"that {session_id} needs no person any more")

    def left(self, builder: Builder) -> None:
        """A verifier has gone. If its process has, too, what it had begun is not verified."""
        asyncio.get_running_loop().call_later(GONE_WAIT, self.report_lost)

    def report_lost(self) -> None:
        """Report the verifications that nobody runs any more."""
        if not self._is_closed:
            _ = self._soon(self._report_lost())

    async def _report_lost(self) -> None:
        try:
            for session_id, report in await self._store.thread.run(self._take_lost):
                self._told(session_id, report)
        except DatabaseFault as error:
            log.warning("reports can't be kept: %s", error)

    def _take_lost(self) -> list[tuple[str, Report]]:
        """On the thread: end what is left of them, and write down that they are over."""
        lost = self._store.unfinished()
        for owner in {each.owner.partition(" ")[0] for each in lost}:
            process.end_orphans(of=int(owner))
        if lost:
            scratch.remove_stale()
        told = []
        for each in lost:
            if self._is_reported(each):  # only its end was not written down
                self._store.dismiss(each.id)
                continue
            report = each.not_verified("the verifier went away before it was done")
            if self._store.finish(each.id, report) is not None:
                told.append((each.session_id, report))
        return told

    def _is_reported(self, pending: Pending) -> bool:
        reports = self._store.list(session_id=pending.session_id, since=pending.begun, limit=SENT_AGAIN)
        return any((each.turn, each.verifier) == (pending.turn, pending.verifier) for each in reports)

    # --- verifiers ------------------------------------------------------------------------------------------

    def reported(self, builder: Builder, report: wire.Report) -> asyncio.Task[None] | str:
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
                self._store.add(report)

        writing = asyncio.ensure_future(self._store.thread.run(write))
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
            for each in self._store.list(session_id=report.session_id, limit=SENT_AGAIN)
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
        if report.confidence is Confidence.FAILED:  # it could not be judged
            self.escalated(session_id, report.turn, report.summary)

    def escalated(self, session_id: str, turn: int, reason: str) -> None:
        judgement = self.of(session_id)
        if judgement is not None and judgement.turn == turn and judgement.escalated:
            return
        self._latest[session_id] = with_call(judgement, turn, reason)
        self._write(
            lambda: self._store.escalate(session_id, turn, reason), f"that {session_id} needs a person"
        )
        self._tell("verify/escalated", fields(session_id=session_id, turn=turn, reason=reason))
        self.escalates(session_id, turn, reason)
