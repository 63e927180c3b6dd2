"""The ops of rpc-edn about what sessions changed in their directories, and about worktrees of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from shlex import quote
from typing import Any

import msgspec

from ....sessions.directory import Directory, NoSession, UnknownSession
from ....sessions.inbox import calling_agent
from ....system.files import at_home
from ....trees.diff import NoDiff, TreeDiff
from ....trees.making import WorktreeFault
from ....trees.planning import UndoFault
from ....trees.records import WorktreeRecord
from ....trees.room import TreeRoom, told
from ....trees.turns import TurnSnapshots
from ....wire.rpc import ErrorCode, fields
from ..frames import plain
from ..handlers import FAULTS, Call, Data, OpError, op, outside_sandbox
from .sessions import meant, row_of

FAULTS |= {NoDiff: ErrorCode.FAILED, WorktreeFault: ErrorCode.FAILED, UndoFault: ErrorCode.FAILED}
MAX_CHANGED = 1000
"""How many files are named that would be lost."""
MAX_FORMER_NAMED = 8
"""How many sessions that are gone are named if several are meant."""
AT_WORK = ("running", "working", "asks")
"""The states of sessions that do something in their directory,"""
IN_TURN = ("working", "asks")
"""and of those that do it in a turn."""


class TreeOps:
    """What the sessions of a directory changed."""

    def __init__(self, directory: Directory, trees: TreeRoom, snapshots: TurnSnapshots) -> None:
        self._directory = directory
        self._trees = trees
        self._snapshots = snapshots

    @op
    async def session_diff(self, call: Call, name: str = "", other: str = "", brief: bool = False) -> Data:
        _, found = (await meant(self._directory, call, name))[0]
        if other:
            _, second = await self._directory.find(other)
            diff = await self._trees.compare(found.project, second.project)
            return fields(session=row_of(found), other=row_of(second), **_told(diff, brief))
        told = await self._trees.diff(found.project)
        since = "worktree" if self._trees.worktree_of(found.project) else "commit" if told.base else "nothing"
        return fields(
            session=row_of(found),
            since=since,
            base=told.base,
            branch=told.branch,
            commits=[plain(msgspec.to_builtins(each)) for each in told.commits],
            ahead=told.ahead,
            **_told(told.diff, brief),
        )

    @op
    async def session_undo(
        self,
        call: Call,
        name: str = "",
        turns: int = 1,
        dry_run: bool = False,
        force: bool = False,
        redo: bool = False,
        digest: str = "",
    ) -> Data:
        if force:
            _check_person("undo what others changed")
        id, session = await self._undone(call, name, is_dry=dry_run)
        rows = await self._directory.list(brief=True)
        names = {each.id: each.name for each in rows}
        working = {each.name: each.project for each in rows if each.is_open and each.state in IN_TURN}
        undone = await self._snapshots.undo(
            id,
            turns=turns,
            redo=redo,
            is_dry=dry_run,
            force=force,
            digest=digest,
            name_of=lambda id: names.get(id) or self._directory.name_of(id) or id,
            working=working,
        )
        return fields(
            session=session,
            turns=list(undone.turns),
            top=undone.top,
            files=[_known(msgspec.structs.asdict(each)) for each in undone.files],
            others=list(undone.others),
            left=list(undone.left),
            unrecorded=list(undone.unrecorded),
            notes=list(undone.notes),
            refusal=undone.refusal or None,
            digest=undone.digest or None,
        )

    async def _undone(self, call: Call, name: str, *, is_dry: bool) -> tuple[str, Data]:
        """The session whose turns are meant, by its id and its row, also one that is gone. Raises
        NoSession or OpError."""
        try:
            _, found = (await meant(self._directory, call, name))[0]
            return found.id, row_of(found)
        except UnknownSession:
            former = await self._snapshots.former(name or call.session_id or "")
            if not former:
                raise
        if not is_dry:
            _check_person("undo what a session did that is gone")
        if len(former) > 1:
            ids = ", ".join(each.id for each in former[:MAX_FORMER_NAMED])
            more = len(former) - MAX_FORMER_NAMED
            ids += f" and {more} more" if more > 0 else ""
            why = f"{len(former)} sessions that are gone are meant by {name!r}: {ids}; give the id of one"
            raise OpError(ErrorCode.NOT_FOUND, why)
        [gone] = former
        return gone.id, fields(id=gone.id, name=gone.name, project=gone.project, state="ended")

    @op
    async def worktree_add(self, name: str, project: str, branch: str = "", revision: str = "") -> Data:
        if agent := calling_agent.get():
            with contextlib.suppress(NoSession):
                if (await self._directory.with_id(agent))[1].more.get("sandbox"):
                    raise outside_sandbox("making a worktree")
        entered = await self._trees.enter(name, at_home(project), branch, revision)
        return fields(
            worktree=_row(entered.record),
            created=entered.is_new,
            project=entered.project,
            notes=entered.notes,
        )

    @op
    async def worktree_list(self) -> Data:
        await self._trees.count(self._trees.records.all())
        sessions = await self._directory.list(brief=True)
        rows = []
        for record in self._trees.records.all():
            inside = [each for each in sessions if self._trees.worktree_of(each.project) == record]
            named = [{"name": each.name, "kind": each.kind, "state": each.state} for each in inside]
            shown = self._trees.shown(record.path) or {}
            rows.append(fields(**told(record), **_counts(shown), sessions=[plain(each) for each in named]))
        return fields(worktrees=rows)

    @op
    async def worktree_losses(self, name: str) -> Data:
        record = await self._record(name)
        lost = await self._trees.losses(record)
        return fields(
            worktree=_row(record),
            losses=str(lost),
            changed=list(lost.changed[:MAX_CHANGED]),
            commits=lost.commits,
            ignored=lost.ignored,
            digest=lost.digest,
        )

    @op
    async def worktree_merge_preview(self, name: str, into: str = "", message: str = "") -> Data:
        record = await self._record(name)
        would = await self._trees.merge_preview(record, into, message)
        return fields(
            worktree=_row(record),
            into=would.into,
            commits=[plain(msgspec.to_builtins(each)) for each in would.commits],
            ahead=would.ahead,
            uncommitted=list(would.uncommitted),
            files=[_known(msgspec.structs.asdict(each)) for each in would.files],
            total=would.total,
            insertions=would.insertions,
            deletions=would.deletions,
            refusal=would.refusal or None,
            digest=would.digest,
        )

    @op
    async def worktree_merge(self, name: str, into: str = "", message: str = "", digest: str = "") -> Data:
        _check_person("merge the work of a session")
        record = await self._record(name)
        came = await self._trees.merge(record, into, message, digest)
        return fields(
            worktree=_row(record), into=came.into, commit=came.commit, files=came.files, merged=came.is_merged
        )

    @op
    async def worktree_remove(self, name: str, force: bool = False, digest: str = "") -> Data:
        _check_person("remove a worktree")
        record = await self._record(name)
        for each in await self._directory.list(brief=True):
            is_inside = self._trees.worktree_of(each.project) == record
            if is_inside and each.is_open and each.state in AT_WORK:
                why = (
                    f"{each.name} is {each.state} in {record.path}; `fairlead stop {quote(each.name)}` first"
                )
                raise OpError(ErrorCode.SESSION_NOT_IDLE, why)
        removed = await self._trees.remove(record, force=force, digest=digest)
        return fields(worktree=_row(removed), kept=removed.kept or None)

    async def _record(self, name: str) -> WorktreeRecord:
        """The worktree of a session, by the name that the session had or has. Raises OpError."""
        record = self._trees.records.named(name)
        if record is None:
            with contextlib.suppress(NoSession):
                _, found = await self._directory.find(name)
                record = self._trees.worktree_of(found.project)
        if record is None:
            why = f"no worktree was made for {name!r}; `fairlead worktree ls` lists them"
            raise OpError(ErrorCode.NOT_FOUND, why)
        return record


def _check_person(what: str) -> None:
    """Raises OpError if an agent's command asks."""
    if agent := calling_agent.get():
        why = f"only a person may {what}, and a command of an agent session ({agent:.80}) asks"
        raise OpError(ErrorCode.FAILED, why)


def _row(record: WorktreeRecord) -> Data:
    return fields(**told(record))


def _counts(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in ("changed", "ahead") if name in shown}


def _told(diff: TreeDiff, brief: bool) -> dict[str, Any]:
    files = [_known(msgspec.structs.asdict(each)) for each in diff.files]
    return {
        "files": files,
        "total": diff.total,
        "insertions": diff.insertions,
        "deletions": diff.deletions,
        "left_out": list(diff.left_out),
        **({} if brief else {"patch": diff.patch, "cut": diff.is_cut}),
    }


def _known(facts: dict[str, Any]) -> Data:
    """What is known of a file: what is empty, false or 0 is left out."""
    return fields(**{name.removeprefix("is_"): each for name, each in facts.items() if each})
