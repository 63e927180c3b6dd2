"""Background jobs, as psi's clients call them: the tool calls of a session that run, or ran lately.

A call that takes long is shown beside the conversation, as a widget of all of them and a status each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from ....agent import events
from ....agent.conversation import Conversation
from ....agent.events import ConversationEvent
from ....agent.ports import Job
from ....formats.edn import Keyword
from ....wire.rpc import ErrorCode, fields
from ..handlers import Call, Caller, Data, OpError, invalid, op

SHOWN_AFTER = 5.0
"""Seconds that a call runs before it is shown beside the conversation."""
STATUSES = ("running", "pending-cancel", "completed", "failed", "cancelled", "timed-out")
_OVER = ("completed", "failed", "cancelled", "timed-out")
_EXTENSION, _WIDGET = "psi-background-jobs", "background-jobs"


def jobs_of(session: Conversation, statuses: Sequence[str] = ()) -> list[Job]:
    """Those that run and those that ran lately, the oldest first."""
    found = [*session.past_jobs, *session.jobs.values()]
    return [job for job in found if not statuses or job.status in statuses]


def line_of(job: Job) -> str:
    return f"{job.call.id}  [{job.status}]  {job.call.name}"


def job_data(session: Conversation, job: Job) -> Data:
    """A job as clients know it."""
    is_over = job.status in _OVER
    summary = fields(
        job_id=job.call.id,
        tool_name=job.call.name,
        status=job.status,
        status_label=f"[{job.status}]",
        is_terminal=is_over,
        is_running=job.status == "running",
        is_cancelling=job.status == "pending-cancel",
        list_line=line_of(job),
    )
    return fields(
        job_id=job.call.id,
        thread_id=session.id,
        tool_call_id=job.call.id,
        tool_name=job.call.name,
        job_kind="tool-call",
        status=job.status,
        started_at=_time(job.began),
        completed_at=_time(job.ended),
        cancel_requested_at=_time(job.cancelled),
        terminal_payload=fields(text=job.said, is_error=job.is_error) if is_over else None,
        summary=summary,
    )


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class AgentJobs:
    """The ops about jobs. `session` finds the session that a request means."""

    def __init__(
        self,
        session: Callable[[Call], Conversation],
        loaded: Callable[[], Sequence[Conversation]],
    ) -> None:
        self._session = session
        self._loaded = loaded

    @op
    async def list_background_jobs(self, call: Call, statuses: list[Any] | None = None) -> Data:
        words = [each.name if isinstance(each, Keyword) else each for each in statuses or ()]
        if any(each not in STATUSES for each in words):
            raise invalid("statuses", f"a vector of {', '.join(STATUSES)}")
        session = self._session(call)
        return fields(jobs=[job_data(session, job) for job in jobs_of(session, words)])

    @op
    async def inspect_background_job(self, call: Call, job_id: str) -> Data:
        return fields(job=job_data(*self._find(call, job_id)))

    @op
    async def cancel_background_job(self, call: Call, job_id: str) -> Data:
        session, job = self._find(call, job_id)
        if job_id in session.jobs:
            session.end_job(job_id)
        return fields(accepted=True, job=job_data(session, job))

    def _find(self, call: Call, id: str) -> tuple[Conversation, Job]:
        session = self._session(call)
        job = job_of(session, id)
        if job is None:
            is_elsewhere = any(job_of(each, id) is not None for each in self._loaded())
            why = "Job not found in this thread" if is_elsewhere else "Job not found"
            raise OpError(ErrorCode.FAILED, why)
        return session, job


def job_of(session: Conversation, id: str) -> Job | None:
    return next((job for job in reversed(jobs_of(session)) if job.call.id == id), None)


class JobBoard:
    """What is shown of jobs beside the conversation. `sessions` are those that a client sees."""

    def __init__(self, sessions: Callable[[Caller], Sequence[Conversation]]) -> None:
        self._sessions = sessions
        self._shown: set[str] = set()

    def show(self, caller: Caller, *, first: bool = False) -> None:
        """All of it; the first time also that there are no specifications of widgets."""
        jobs = [
            job
            for session in self._sessions(caller)
            for job in session.jobs.values()
            if time.time() - job.began >= SHOWN_AFTER
        ]
        caller.event("ui/widgets-updated", fields(widgets=[_widget(jobs)] if jobs else []))
        if first:
            caller.event("ui/widget-specs-updated", {})
        statuses = [fields(extension_id=f"{_EXTENSION}/{job.call.id}", text=line_of(job)) for job in jobs]
        caller.event("ui/status-updated", fields(statuses=statuses))

    def heard(
        self, event: ConversationEvent, session: Conversation, callers: Callable[[], Sequence[Caller]]
    ) -> None:
        """Something happened in a session that these clients hear of."""

        def later() -> None:
            if isinstance(event, events.ToolExecuting) and event.call_id in session.jobs:
                self._shown.add(event.call_id)
                self._show_all(callers())

        if isinstance(event, events.ToolExecuting):
            asyncio.get_running_loop().call_later(SHOWN_AFTER, later)
        elif isinstance(event, events.ToolEnded) and event.call_id in self._shown:
            self._shown.discard(event.call_id)
            self._show_all(callers())

    def _show_all(self, callers: Sequence[Caller]) -> None:
        for caller in callers:
            self.show(caller)


def _widget(jobs: Sequence[Job]) -> Data:
    lines = [
        fields(text=line_of(job), action=fields(type="command", command=f"/job {job.call.id}"))
        for job in jobs
    ]
    return fields(
        extension_id=_EXTENSION,
        widget_id=_WIDGET,
        placement="left",
        content=[line_of(job) for job in jobs],
        content_lines=lines,
    )
