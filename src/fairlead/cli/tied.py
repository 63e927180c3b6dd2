"""`fairlead run --tied`: the turn lasts no longer than whoever runs the command.

The daemon aborts the turn when this process goes away, however it dies; and this process ends when its
standard input does. When the daemon itself dies in the middle, nobody knows how far the turn has come: an
exit code of its own tells that, after the next daemon was told to say nothing more of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable

from ..client.calls import RequestError
from ..client.launch import NoDaemon
from ..client.links import DaemonLink
from ..system.settings import Settings

GONE = 75
"""The daemon went away in the middle; sysexits' EX_TEMPFAIL."""
CLOSED = 129
"""Standard input was closed: as after SIGHUP."""
LOOK_WAIT = 1.0
"""Seconds until it is known that the daemon has died when something else failed first."""

Hold = Callable[[str], Awaitable[None]]


class _Tie:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._link: DaemonLink | None = None
        self._session = ""
        self._held = asyncio.Event()

    async def hold(self, session: str) -> None:
        """From now on the daemon aborts the session's turn when we go away."""
        self._link = await DaemonLink.open(self._settings)
        self._session = session
        self._held.set()
        # its answer only comes if it is refused; then, or with the daemon's end, `lost` ends
        await asyncio.sleep(0)

    async def lost(self) -> None:
        """Returns when the daemon has gone. Raises RequestError if it does not know how to hold on to us."""
        await self._held.wait()
        assert self._link is not None
        with contextlib.suppress(ConnectionError):
            await self._link.ask("session_tie", {"session_id": self._session}, waits=True)

    async def silence(self) -> None:
        """See to it that the next daemon does not go on with it."""
        with contextlib.suppress(RequestError, NoDaemon, OSError):
            link = await DaemonLink.open(self._settings)
            try:
                await link.ask("session_stop", {"session_id": self._session}, waits=False)
            finally:
                await link.close()

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()


async def tied(settings: Settings, work: Callable[[Hold], Awaitable[int]]) -> int:
    """Do something for as long as standard input is open and the daemon lives; its exit code, GONE or
    CLOSED."""
    tie = _Tie(settings)
    working = asyncio.ensure_future(work(tie.hold))
    lost = asyncio.ensure_future(tie.lost())
    closed = asyncio.ensure_future(_closed())
    try:
        await asyncio.wait({working, lost, closed}, return_when=asyncio.FIRST_COMPLETED)
        if working.done() and (working.cancelled() or working.exception() is not None):
            await asyncio.wait({lost}, timeout=LOOK_WAIT)
        if lost.done():
            lost.result()
            working.cancel()
            await asyncio.wait({working})
            await tie.silence()
            print("fairlead run: the daemon went away in the middle", file=sys.stderr)
            return GONE
        if not working.done():
            return CLOSED
        return working.result()
    finally:
        for each in (working, lost, closed):
            each.cancel()
        await asyncio.gather(working, lost, closed, return_exceptions=True)
        await tie.close()


async def _closed() -> None:
    """Returns when standard input is closed."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = sys.stdin.fileno()

    def read() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            ended.set()

    loop.add_reader(descriptor, read)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
