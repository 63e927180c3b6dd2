"""Dialing hosts for the daemon's loop: what may block is done in threads, waiting is done on the loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..client.hosts.dial import Dialing
from ..system.settings import Settings
from . import limits

T = TypeVar("T")


class Dialer:
    """Dials hosts, a few at a time, so that many that are away hold nobody up."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool = ThreadPoolExecutor(limits.MAX_DIALING, "hosts-dial")
        self._room = asyncio.Semaphore(limits.MAX_DIALING)

    async def control(self, host: str) -> socket.socket:
        """A stream to the daemon of a host. Raises HostAway, HostRefused, SettingError or OSError."""
        async with self._room:
            dialing = await self._done(
                lambda: Dialing(host, ["control"], self._settings, asks=False), lambda made: made.close()
            )
            try:
                while True:
                    await _readable(dialing)
                    stream = await self._done(dialing.receive, lambda made: made.close() if made else None)
                    if stream is not None:
                        return stream
            except BaseException:
                dialing.close()
                raise

    async def _done(self, do: Callable[[], T], undo: Callable[[T], Any]) -> T:
        """What a function returns that may block; if nobody waits for that any more, it is undone."""
        doing = asyncio.get_running_loop().run_in_executor(self._pool, do)
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:

            def over(done: asyncio.Future[T]) -> None:
                if not done.cancelled() and done.exception() is None:
                    undo(done.result())

            doing.add_done_callback(over)
            with contextlib.suppress(Exception):  # a thread must not have it in hand while it is closed
                await asyncio.shield(doing)
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


async def _readable(dialing: Dialing) -> None:
    """Wait until there is something to be received, or it is to be given up."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    descriptor = dialing.fileno()
    loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        async with asyncio.timeout(max(0.0, dialing.until - time.monotonic()) + 0.1):
            await ready
    except TimeoutError:
        pass
    finally:
        loop.remove_reader(descriptor)
