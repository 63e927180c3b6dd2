"""The worktrees of a daemon's sessions and what sessions changed: the loop's side of what git does.

What changes a repository is done one after the other, in one thread; what only looks, in others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..system.repository import identity_of
from ..system.settings import Settings
from . import making
from .changing import LOOK_AGAIN
from .diff import SessionDiff, TreeDiff, compared, session_diff
from .making import WorktreeFault, WorktreeLosses
from .merging import MergePreview, WorktreeMerge, finish_merges, merge, preview
from .records import MAX_RECORDS, WorktreeRecord, WorktreeRecords

log = logging.getLogger("fairlead")

THREADS = 2
"""How many repositories are looked at at once; the others wait."""

BESIDE = "beside"
"""The place of worktrees if none is set."""
MAX_COUNTED = 50
"""How many worktrees are looked at for a list of them,"""
COUNT_SECONDS = 3.0
"""and for how long the list waits for that."""
COUNT_PAUSE = 5.0
"""Seconds between two looks at how much changed in a worktree, for lists,"""
FAILED_PAUSE = 60.0
"""and after one that failed, which may have taken long."""

T = TypeVar("T")


class EnteredWorktree(NamedTuple):
    """The worktree that a session is to work in."""

    record: WorktreeRecord
    is_new: bool
    notes: list[str]
    """What somebody who works there should know."""

    @property
    def project(self) -> str:
        """The directory for the session: where it was asked for, if the commit has that."""
        return self.record.project if os.path.isdir(self.record.project) else self.record.path


class WorktreeCounts(NamedTuple):
    """How far a worktree is from where it began, at some moment."""

    changed: int
    """Files that are not committed."""
    ahead: int
    """Commits since the base."""
    at: float


class TreeRoom:
    """What is known of all worktrees, and what can be done with them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.records = WorktreeRecords(f"{settings.state_dir}/worktrees")
        self._merges = Path(settings.state_dir, "merges")
        self._counts: dict[str, WorktreeCounts] = {}
        self._counting: set[str] = set()
        self._failed: dict[str, float] = {}
        self._looking = ThreadPoolExecutor(THREADS, "trees")
        self._changing = ThreadPoolExecutor(1, "worktrees")

    async def open(self) -> None:
        """Read what is known of worktrees, and begin to finish what the last daemon did not."""
        await self._look(self.records.load)
        self._changing.submit(self._finish)

    def close(self) -> None:
        """Begin nothing more; what is being done is finished or taken up by the next daemon."""
        for each in (self._looking, self._changing):
            each.shutdown(wait=False, cancel_futures=True)

    # --- looking ------------------------------------------------------------------------------------------

    def worktree_of(self, project: str) -> WorktreeRecord | None:
        """The worktree that a session works in."""
        return self.records.holding(project)

    def shown(self, project: str) -> Mapping[str, Any] | None:
        """What lists tell of the worktree that a session works in: as it was when somebody looked last, which
        begins another look. None if it works in none."""
        if (record := self.worktree_of(project)) is None:
            return None
        counts = self._counts.get(record.path)
        if record.path not in self._counting and (
            counts is None or counts.at < time.monotonic() - COUNT_PAUSE
        ):
            self._counting.add(record.path)
            try:
                self._looking.submit(self._count, record)
            except RuntimeError:  # the daemon ends
                self._counting.discard(record.path)
        known = {"changed": counts.changed, "ahead": counts.ahead} if counts is not None else {}
        return {name: getattr(record, name) for name in ("path", "branch", "base", "into")} | known

    async def count(self, records: Sequence[WorktreeRecord]) -> None:
        """Look at how much changed in worktrees, for as long as a list may take."""
        looks = [self._look(partial(self._count, each)) for each in records[:MAX_COUNTED]]
        if looks:
            await asyncio.wait(list(map(asyncio.ensure_future, looks)), timeout=COUNT_SECONDS)

    def _count(self, record: WorktreeRecord) -> None:
        try:
            if self._failed.get(record.path, -FAILED_PAUSE) > time.monotonic() - FAILED_PAUSE:
                return
            self._failed.pop(record.path, None)
            changed, ahead = making.counted(record)
            self._counts[record.path] = WorktreeCounts(changed, ahead, time.monotonic())
        except WorktreeFault:
            self._counts.pop(record.path, None)
            self._failed[record.path] = time.monotonic()
        finally:
            self._counting.discard(record.path)

    async def diff(self, project: str) -> SessionDiff:
        """What is different in a session's directory since it began. Raises NoDiff."""
        record = self.worktree_of(project)
        return await self._look(lambda: session_diff(Path(project), record.base if record else ""))

    async def compare(self, one: str, other: str) -> TreeDiff:
        """How the files of one session's directory differ from those of another. Raises NoDiff."""
        return await self._look(lambda: compared(Path(one), Path(other)))

    async def losses(self, record: WorktreeRecord) -> WorktreeLosses:
        """What would be lost with a worktree. Raises WorktreeFault."""
        return await self._look(lambda: making.losses(record))

    # --- changing -----------------------------------------------------------------------------------------

    async def enter(self, name: str, project: str, branch: str = "", revision: str = "") -> EnteredWorktree:
        """The worktree of a session of this name: the one that it has, or a new one. Raises WorktreeFault."""
        return await self._change(lambda: self._enter(name, project, branch, revision))

    def _enter(self, name: str, project: str, branch: str, revision: str) -> EnteredWorktree:
        place = self._settings.text("worktrees", "directory")
        if (found := self.records.named(name)) is not None:
            return EnteredWorktree(self._checked(found, project, branch, revision), False, [])
        if len(self.records) >= MAX_RECORDS:
            raise WorktreeFault(
                f"there are {MAX_RECORDS} worktrees already; `fairlead worktree ls` lists them"
            )
        plan = making.planned(
            name,
            Path(project),
            branch=branch,
            revision=revision,
            place="" if place == BESIDE else place,
            fallback=f"{self._settings.state_dir}/worktrees.d",
        )
        self.records.put(plan)
        try:
            making.make(plan)
        except BaseException:
            making.unmake(plan)
            self.records.drop(plan)
            raise
        made = _ready(plan)
        self.records.put(made)
        return EnteredWorktree(made, True, making.notes_on(made))

    def _checked(self, found: WorktreeRecord, project: str, branch: str, revision: str) -> WorktreeRecord:
        """The worktree that a name has, if it is what is asked for."""
        with making.worktree_faults():
            common = making.common_of(Path(project))
        rid = f"`fairlead worktree rm {quote(found.name)}` removes it"
        if common != found.repository:
            raise WorktreeFault(f"{found.name} has a worktree of another repository, {found.path}; {rid}")
        if not os.path.isdir(found.path):
            kept = f"what was committed is on the branch {found.branch}"
            raise WorktreeFault(f"the worktree of {found.name}, {found.path}, was deleted: {kept}; {rid}")
        if revision or branch not in ("", found.branch):
            was = f"{found.path}, on branch {found.branch}"
            raise WorktreeFault(f"{found.name} has a worktree already: {was}; {rid}")
        making.check_own(found, Path(found.path))
        return found

    async def remove(
        self, record: WorktreeRecord, *, force: bool = False, digest: str = ""
    ) -> WorktreeRecord:
        """Remove a worktree. What is nowhere else is a reason not to; with `force` it is kept under a ref
        that the record names. With the digest of its losses, only if these are the same now. Raises
        WorktreeFault."""
        return await self._change(lambda: self._remove(record, force, digest))

    def _remove(self, record: WorktreeRecord, force: bool, digest: str = "") -> WorktreeRecord:
        lost = making.losses(record)
        if digest and digest != lost.digest:
            raise WorktreeFault(LOOK_AGAIN)
        if lost.left_out:
            what = ", ".join(lost.left_out[:5])
            raise WorktreeFault(f"{record.path} has what git can't keep: {what}; move it away first")
        if lost and not force:
            message = " -m MESSAGE" if lost.changed else ""  # without one nothing is committed
            merges = f"`fairlead worktree merge {quote(record.name)}{message}` merges it"
            how = f"{merges}, --force keeps it under a ref"
            raise WorktreeFault(f"{record.path} has {lost}; {how}")
        kept = ""
        if lost:
            with making.worktree_faults():
                identity = identity_of(Path(record.repository))
            kept = f"refs/fairlead/kept/{record.branch}-{time.strftime('%Y%m%d-%H%M%S')}"
            making.keep(record, lost, kept, identity)
        aside = f"{record.path}.removed-{os.getpid()}"
        leaving = msgspec.structs.replace(record, state="removing", aside=aside, tree=lost.tree, kept=kept)
        self.records.put(leaving)
        self._finish_removing(leaving)
        return leaving

    def _finish_removing(self, record: WorktreeRecord) -> None:
        """Remove what was decided to be removed, if nothing has changed since."""
        if os.path.lexists(record.path):
            os.rename(record.path, record.aside)
        if os.path.lexists(record.aside) and making.losses(record, record.aside).tree != record.tree:
            os.rename(record.aside, record.path)
            self.records.put(_ready(record))
            raise WorktreeFault(f"{record.path} was changed just now; it was left as it is")
        self._delete(msgspec.structs.replace(record, state="deleting"))

    def _delete(self, record: WorktreeRecord) -> None:
        self.records.put(record)
        making.remove(record, is_kept=bool(record.kept))
        self.records.drop(record)

    async def merge(
        self, record: WorktreeRecord, into: str = "", message: str = "", digest: str = ""
    ) -> WorktreeMerge:
        """Merge the work in a worktree into the branch that it came from, or another. With the digest of a
        preview, only what that showed. Raises WorktreeFault, and then that branch is as it was."""
        return await self._change(
            lambda: merge(record, self._merges, into=into, message=message, digest=digest)
        )

    async def merge_preview(self, record: WorktreeRecord, into: str = "", message: str = "") -> MergePreview:
        """What merging would do. Raises WorktreeFault."""
        return await self._look(lambda: preview(record, self._merges, into=into, message=message))

    def _finish(self) -> None:
        """Finish what the last daemon began, or take it back."""
        for said in finish_merges(self._merges):
            log.warning("%s", said)
        for record in self.records.all():
            try:
                if record.state == "making":
                    making.make(record)
                    self.records.put(_ready(record))
                elif record.state == "deleting":
                    self._delete(record)
                elif record.state == "removing" and os.path.lexists(record.aside):
                    self._finish_removing(record)
                elif record.state == "removing":
                    self.records.put(
                        msgspec.structs.replace(record, state="ready", aside="", tree="", kept="")
                    )
            except Exception as error:
                log.warning("the worktree %s: %s", record.path, error)

    async def _look(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._looking, work)

    async def _change(self, work: Callable[[], T]) -> T:
        """Do what must not be left half done because the client that asked goes away."""
        running: asyncio.Future[T] = asyncio.get_running_loop().run_in_executor(self._changing, work)
        return await asyncio.shield(running)


def _ready(record: WorktreeRecord) -> WorktreeRecord:
    return msgspec.structs.replace(record, state="ready", aside="", tree="", kept="")


def told(record: WorktreeRecord) -> dict[str, Any]:
    """What people and programs are told of a worktree."""
    names = ("name", "path", "branch", "base", "into", "repository", "origin", "made_at", "state")
    return {name: getattr(record, name) for name in names}
