"""The op of rpc-edn that tells what happened in a session: its turns, from all that is known of them.

Files and reports are read in threads, for one request after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ....sessions.directory import Directory, Kind, NotSupported, UnknownSession
from ....sessions.inbox import Inbox
from ....sessions.session import Session, Turn
from ....sessions.timeline import (
    MAX_TEXT,
    MAX_TURNS,
    TURNS,
    HookedTool,
    HooksTold,
    TimedPrompt,
    TimedTurn,
    ToldByHooks,
    TurnStep,
    bounded,
    join_prompts,
    join_questions,
    join_tools,
    read_turns,
    trim,
)
from ....verify.store import ListedReport, Pending, ReportStore
from ....wire.rpc import fields
from ..handlers import Call, Data, op
from .sessions import meant, row_of

MAX_REPORTS = 1000
"""How many reports of a session are looked at: the last ones."""
MAX_ASIDE = 100
"""How many questions are told that were asked in no turn: the last ones."""
_NOTHING = HooksTold(None, (), ())


class _Past(NamedTuple):
    """What a timeline is made of."""

    id: str
    row: Data
    turns: Sequence[Turn]
    file: str
    began: float
    tools: Sequence[HookedTool] = ()
    prompts: Sequence[TimedPrompt] = ()
    is_working: bool = False


class TimelineOps:
    """What happened in the sessions of a directory, with the questions of an inbox and the reports."""

    def __init__(self, directory: Directory, inbox: Inbox, store: ReportStore) -> None:
        self._directory = directory
        self._inbox = inbox
        self._store = store
        self._reading = asyncio.Lock()

    @op
    async def timeline(self, call: Call, name: str = "", limit: int = TURNS) -> Data:
        past = await self._past(call, name)
        wanted = past.turns[-max(1, min(limit, MAX_TURNS)) :]
        async with self._reading:
            turns, known = await asyncio.to_thread(read_turns, past.file, wanted)
            reports, pending = await self._store.thread.run(lambda: self._checks(past.id, past.began))
        if turns and past.is_working:
            turns[-1].outcome, turns[-1].ended = "working", 0.0
        join_tools(turns, past.tools)
        join_prompts(turns, past.prompts)
        is_cut = len(past.turns) > len(turns)
        aside = join_questions(turns, known, self._inbox.asked_in(past.id), is_cut=is_cut)
        _join_checks(turns, reports, pending)
        bounded(turns)
        trim(aside, MAX_ASIDE)
        return fields(
            session=past.row,
            turns=[{**_known(each), **fields(steps=list(map(_known, each.steps)))} for each in turns],
            total=len(past.turns),
            aside=[_known(each) for each in aside],
        )

    async def _past(self, call: Call, name: str) -> _Past:
        """The session that is meant, or the last one of its name that is gone. Raises NoSession, OpError."""
        try:
            kind, found = (await meant(self._directory, call, name))[0]
        except UnknownSession:
            for each in self._directory.kinds:
                word = name or call.session_id or ""
                if isinstance(each, ToldByHooks) and (gone := await asyncio.to_thread(each.former, word)):
                    known = {"kind": each.name, "project": gone.project, "agent": gone.agent}
                    gone_row = fields(id=gone.id, name=gone.id, state="ended", **known)
                    return _Past(gone.id, gone_row, list(gone.turns), gone.file, gone.began, gone.tools)
            raise
        told = kind.told_by_hooks(found.id) if isinstance(kind, ToldByHooks) else _NOTHING
        live = told.live if isinstance(kind, ToldByHooks) else await _live(kind, found.id)
        row = row_of(found)
        if live is None:
            return _Past(found.id, row, [], "", found.started_at or 0.0, told.tools, told.prompts)
        turns, is_working = list(live.turns), live.is_working
        return _Past(found.id, row, turns, live.file, live.began, told.tools, told.prompts, is_working)

    def _checks(self, id: str, began: float) -> tuple[list[ListedReport], list[Pending]]:
        reports = self._store.list(session_id=id, since=began or None, limit=MAX_REPORTS)
        running = [each for each in self._store.unfinished(everyones=True) if each.session_id == id]
        return reports, [each for each in running if each.begun >= began]


def _known(value: TimedTurn | TurnStep) -> Data:
    """What is known of a turn or a step: what is empty or 0 is left out."""
    found = {name: getattr(value, name) for name in value.__struct_fields__ if name != "steps"}
    return fields(**{name: each for name, each in found.items() if each})


async def _live(kind: Kind, id: str) -> Session | None:
    try:
        return await kind.live(id)
    except NotSupported:
        return None


def _join_checks(turns: list[TimedTurn], reports: list[ListedReport], pending: list[Pending]) -> None:
    by_number = {each.number: each for each in turns}
    for report in reports:
        if (turn := by_number.get(report.turn)) is not None:
            turn.steps.append(
                TurnStep(
                    "check",
                    report.time - report.duration,
                    report.verifier[:MAX_TEXT],
                    report.summary[:MAX_TEXT],
                    report.time,
                    report.confidence.word,
                    cost=report.cost,
                )
            )
    for check in pending:
        if (turn := by_number.get(check.turn)) is not None:
            turn.steps.append(TurnStep("check", check.begun, check.verifier[:MAX_TEXT]))
