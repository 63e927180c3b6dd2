"""Follows the turns of all sessions, so that what they change can be undone: a turn waits until its files are
known, as far as its kind can wait, and then begins."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ..sessions import feed
from ..sessions.feed import HOLD_SECONDS, Feed, FeedEvent
from ..sessions.session import Session
from ..system.settings import Settings
from .planning import Undone
from .snapshots import forget_old
from .turn_records import FormerSession
from .undoing import Undoer

log = logging.getLogger("fairlead")

NOT_TOLD = "its agent reports no beginnings of turns"


class TurnSnapshots:
    """The snapshots of a daemon's turns. One thread takes them, one after the other."""

    def __init__(self, settings: Settings, sessions: Feed) -> None:
        self._settings = settings
        self._home = Path(settings.state_dir, "undo")
        self._undoer = Undoer(self._home)
        self._thread = ThreadPoolExecutor(1, "undo")
        self._feed = sessions
        self._live: dict[str, Session] = {}
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
                self._live[id] = live
            case feed.Closed() | feed.Exited():
                gone_at = time.time()
                self._submit(lambda: self._undoer.gone(id, gone_at))
                if isinstance(event, feed.Closed):
                    self._live.pop(id, None)
            case feed.TurnBegan(turn=turn, after=after) if id in self._live:
                project, called = self._live[id].project, self._live[id].name
                deadline = time.monotonic() + HOLD_SECONDS
                why = "" if self._settings.flag("undo", "enabled") else "[undo] enabled is false"
                if why := why or (NOT_TOLD if after is not None else ""):
                    self._submit(lambda: self._undoer.missed(id, turn.number, project, why, called))
                    return
                taken = self._submit(lambda: self._undoer.began(id, turn.number, project, deadline, called))
                if taken is not None:
                    self._feed.hold(id, asyncio.wrap_future(taken))
            case feed.TurnEnded(turn=turn) if id in self._live:
                project, at = self._live[id].project, time.time()
                self._submit(lambda: self._undoer.ended(id, turn.number, project, at))

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

    async def former(self, word: str) -> list[FormerSession]:
        """The sessions of which turns are known and that a word means, also those that have ended."""
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._thread, self._undoer.former, word))

    async def undo(
        self,
        session: str,
        *,
        turns: int,
        redo: bool,
        is_dry: bool,
        force: bool,
        digest: str = "",
        name_of: Callable[[str], str],
        working: Mapping[str, str],
    ) -> Undone:
        """Put files back as they were before the last turns of a session. `working` has the projects of
        sessions that work now, by name. Raises UndoFault."""

        def work() -> Undone:
            return self._undoer.undo(
                session,
                turns=turns,
                redo=redo,
                is_dry=is_dry,
                force=force,
                digest=digest,
                name_of=name_of,
                working=working,
            )

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
