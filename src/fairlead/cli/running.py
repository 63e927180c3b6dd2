"""The loop of `fairlead run`: prompt, check, send back, until it holds or a person is needed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Any, NamedTuple

import msgspec

from .. import events
from ..client import aio
from ..client.calls import RequestError
from ..formats.columns import printable
from ..system.settings import Settings
from ..verify import outcome
from ..verify.follow import BuilderGone, TurnFollower
from ..verify.report import Report, Status, render
from .arguments import Failure
from .tied import Hold, tied
from .verifier import (
    DENIED,
    FAILED,
    UNSURE,
    VERIFIED,
    DurableChecker,
    Wanted,
    checked,
    checker,
    coloured,
    find_target,
    printable_lines,
    show,
    waker,
    warnings,
)


class RunJob(NamedTuple):
    """What is to be done."""

    prompt: str
    name: str | None
    model: str
    allows_all: bool
    as_json: bool
    is_quiet: bool
    agent: str | None = None
    """The third-party agent that does it."""
    mode: str | None = None
    sandbox: bool | None = None
    is_tied: bool = False
    """Whether the turn is aborted when our standard input is closed, or we go away."""
    worktree: str = ""
    """The branch of a worktree in which it works."""


async def run(settings: Settings, job: RunJob, wanted: Wanted) -> int:
    """Do it; gives the exit code."""
    if job.is_tied:
        return await tied(settings, lambda hold: _run(settings, job, wanted, hold))
    return await _run(settings, job, wanted, None)


async def _run(settings: Settings, job: RunJob, wanted: Wanted, hold: Hold | None) -> int:
    checked(settings, wanted, job.model, os.getcwd(), job.agent)
    async with aio.connect(settings) as host:
        place = os.getcwd()
        if job.worktree:
            place = (await host.worktree(job.name or "", cwd=place, branch=job.worktree))["project"]
        agent = await host.agent(
            job.name,
            cwd=place,
            agent=job.agent,
            mode=job.mode,
            model=job.model or None,
            sandbox=job.sandbox,
            once=True,
        )
        if hold is not None:
            await hold(agent.id)
        target = find_target(settings, agent.id)
        checking = checker(settings, target, wanted)
        for warning in await warnings(wanted, checking):
            _say(warning)
        writing = DurableChecker(settings, target, checking)
        follower = TurnFollower(
            target.socket,
            target.session_id,
            writing.check,
            since=target.line,
            began=checking.began,
            told=_say,
            missed=waker(settings, target),
        )
        await checking.began(None)
        begun = asyncio.Event()
        showing = asyncio.ensure_future(_show(agent, job, begun))
        judging = asyncio.ensure_future(_judge(follower, writing))
        try:
            await _first(follower.is_settled.wait(), judging)
            asking = asyncio.ensure_future(_ask(agent, job.prompt, begun))
            await asyncio.wait([asking, judging], return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                asking.result()  # a session that is busy says so here
            report, code = await judging
        except BuilderGone as gone:
            raise Failure(str(gone)) from None
        finally:
            checking.close()
            for task in (showing, judging):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, BuilderGone, ConnectionError):
                    await task
    _print(report, as_json=job.as_json)
    return code


async def _ask(agent: aio.Agent, prompt: str, begun: asyncio.Event) -> None:
    """Begin the turn, and wait for its end; what happens in it is shown elsewhere."""
    async for _ in agent.prompt(prompt):
        begun.set()


async def _first(waiting: Any, judging: asyncio.Task[Any]) -> None:
    """Wait for something, unless judging ends before."""
    task = asyncio.ensure_future(waiting)
    await asyncio.wait([task, judging], return_when=asyncio.FIRST_COMPLETED)
    if judging.done():
        task.cancel()
        judging.result()


async def _judge(follower: TurnFollower, writing: DurableChecker) -> tuple[Report, int]:
    async for judged in follower.judgements():
        writing.keep(judged.report)
        _STREAM.end_line()
        show(judged, quiet=True, to_stderr=True)
        if judged.stop.outcome in ("failed", "aborted", "interrupted"):
            _say(f"fairlead run: {judged.report.summary}")
            return judged.report, FAILED
        if judged.report.status is Status.VERIFIED:
            is_denied = any(each.title == outcome.DENIED for each in judged.report.sections)
            return judged.report, DENIED if is_denied else VERIFIED
        if judged.report.status is Status.UNSURE:
            return judged.report, UNSURE
        if judged.refusal:
            return judged.report, FAILED
    raise BuilderGone("the session ended")


async def _show(agent: aio.Agent, job: RunJob, begun: asyncio.Event) -> None:
    """What the agent says and does in our turn, and answers to what it asks in it."""
    async with agent.events() as happening:
        async for event in happening:
            if isinstance(event, events.ApprovalWanted):
                await begun.wait()  # a session with a question of another turn does not let ours begin
            await _take(agent, event, job)


async def _take(agent: aio.Agent, event: events.AgentEvent, job: RunJob) -> None:
    match event:
        case events.Text(text=text) if not job.is_quiet:
            _STREAM.write("\n".join(map(printable, text.split("\n"))))
        case events.Message() if not job.is_quiet:
            _STREAM.end_line()
        case events.Retrying():
            _say(event.line)
        case events.ToolResult(name=name, is_error=True, text=text) if not job.is_quiet:
            _say(f"● {name} failed: {text[:200]}")
        case events.ApprovalWanted(id=id, summary=summary):
            if not job.allows_all:
                _say(f"denied: {summary}: nobody could be asked; use --yes")
            with contextlib.suppress(RequestError):  # it may be told twice, or another client was first
                await (agent.approve(id) if job.allows_all else agent.deny(id))


def _print(report: Report, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(report).decode())
    else:
        whole = printable_lines(render(report))
        print(f"{coloured(report.confidence)}  {printable(report.summary)}\n\n{whole}")


class _Stream:
    """What the agent says, on stderr as it comes. Other lines begin on a line of their own."""

    def __init__(self) -> None:
        self._is_in_line = False

    def write(self, text: str) -> None:
        print(text, end="", file=sys.stderr, flush=True)
        self._is_in_line = not text.endswith("\n") if text else self._is_in_line

    def end_line(self) -> None:
        if self._is_in_line:
            self.write("\n")


_STREAM = _Stream()


def _say(line: str) -> None:
    _STREAM.end_line()
    print(printable(line), file=sys.stderr, flush=True)
