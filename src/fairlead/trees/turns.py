"""Follows the turns of all sessions, so that what they change can be undone: a turn waits until its files are
known, as far as its kind can wait, and then begins."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ..sessions import feed
from ..sessions.feed import HOLD_SECONDS, Feed, FeedEvent
from ..system.settings import Settings
from .snapshots import forget_old
from .undoing import Undoer, Undone

log = logging.getLogger("fairlead")


class TurnSnapshots:
    """The snapshots of a daemon's turns. One thread takes them, one after the other."""

    def __init__(self, settings: Settings, sessions: Feed) -> None:
        self._settings = settings
        self._home = Path(settings.state_dir, "undo")
        self._undoer = Undoer(self._home)
        self._thread = ThreadPoolExecutor(1, "undo")
        self._feed = sessions
        self._projects: dict[str, str] = {}
        sessions.listen(self._happened)

    def open(self) -> None:
        """Begin to finish what the last daemon was undoing."""
        self._submit(self._finish)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _finish(self) -> None:
        for said in self._undoer.finish():
            log.warning("%s", said)
        for name in ("trees", "sessions"):
            forget_old(self._home / name)

    def _happened(self, event: FeedEvent) -> None:
        id = event.session
        match event:
            case feed.Created():
                self._submit(lambda: self._undoer.forget(id))
            case feed.Opened(live=live):
                self._projects[id] = live.project
            case feed.Closed():
                self._projects.pop(id, None)
            case feed.TurnBegan(turn=turn, after=None) if self._is_wanted(id):
                project, deadline = self._projects[id], time.monotonic() + HOLD_SECONDS
                taken = self._submit(lambda: self._undoer.began(id, turn.number, project, deadline))
                if taken is not None:
                    self._feed.hold(id, asyncio.wrap_future(taken))
            case feed.TurnEnded(turn=turn) if self._is_wanted(id):
                self._submit(lambda: self._undoer.ended(id, turn.number))

    def _is_wanted(self, session: str) -> bool:
        return session in self._projects and self._settings.flag("undo", "enabled")

    def _submit(self, work: Callable[[], None]) -> Future[None] | None:
        def done() -> None:
            try:
                work()
            except Exception:
                log.exception("a snapshot of a turn failed")

        try:
            return self._thread.submit(done)
        except RuntimeError:  # the daemon ends
            return None

    async def undo(
        self,
        session: str,
        *,
        turns: int,
        redo: bool,
        is_dry: bool,
        force: bool,
        name_of: Callable[[str], str],
    ) -> Undone:
        """Put files back as they were before the last turns of a session. Raises UndoFault."""

        def work() -> Undone:
            return self._undoer.undo(
                session, turns=turns, redo=redo, is_dry=is_dry, force=force, name_of=name_of
            )

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
