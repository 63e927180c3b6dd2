"""The worktrees of a daemon's sessions and what sessions changed: the loop's side of what git does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ..system.settings import Settings
from .diff import SessionDiff, TreeDiff, compared, session_diff
from .records import WorktreeRecord, WorktreeRecords

THREADS = 2
"""How many repositories are looked at at once; the others wait."""

T = TypeVar("T")


class TreeRoom:
    """What is known of all worktrees, and what can be done with them."""

    def __init__(self, settings: Settings) -> None:
        self.records = WorktreeRecords(f"{settings.state_dir}/worktrees")
        self._threads = ThreadPoolExecutor(THREADS, "trees")

    async def open(self) -> None:
        """Read what is known of worktrees."""
        await self._beside(self.records.load)

    def close(self) -> None:
        """Begin nothing more; what is being done is finished or taken up by the next daemon."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def worktree_of(self, project: str) -> WorktreeRecord | None:
        """The worktree that a session works in."""
        return self.records.holding(project)

    async def diff(self, project: str) -> SessionDiff:
        """What is different in a session's directory since it began. Raises NoDiff."""
        record = self.worktree_of(project)
        return await self._beside(lambda: session_diff(Path(project), record.base if record else ""))

    async def compare(self, one: str, other: str) -> TreeDiff:
        """How the files of one session's directory differ from those of another. Raises NoDiff."""
        return await self._beside(lambda: compared(Path(one), Path(other)))

    async def _beside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
