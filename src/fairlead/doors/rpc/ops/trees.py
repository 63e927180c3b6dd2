"""The ops of rpc-edn about what sessions changed in their directories, and about worktrees of their own."""

from __future__ import annotations

from typing import Any

import msgspec

from ....sessions.directory import Directory
from ....trees.diff import NoDiff, TreeDiff
from ....trees.room import TreeRoom
from ....wire.rpc import ErrorCode, fields
from ..frames import plain
from ..handlers import FAULTS, Call, Data, op
from .sessions import meant, row_of

FAULTS |= {NoDiff: ErrorCode.FAILED}


class TreeOps:
    """What the sessions of a directory changed."""

    def __init__(self, directory: Directory, trees: TreeRoom) -> None:
        self._directory = directory
        self._trees = trees

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
