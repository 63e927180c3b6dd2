"""The daemon: builds the rooms and joins them. It may be killed at any moment; no session may notice.

There is one for each runtime directory, held by a lock. Started on first use by any command, started again by
the nursery when it dies, and ended by SIGTERM or `fairlead daemon stop`, which leaves all sessions running.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from . import __version__
from .doors.keepty import KeeptyDoor
from .doors.rpc import RpcDoor
from .doors.terminal_ops import terminal_ops
from .settings import Settings, safe_dir
from .terminal.host import Host
from .terminal.session import Event, Session
from .wire.rpc import Request, fields

log = logging.getLogger("fairlead")


class AlreadyRunning(Exception):
    """Another daemon has this runtime directory."""


class Daemon:
    """All rooms of one daemon."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._host = Host(settings, self._happened)
        self._keepty = KeeptyDoor(settings)
        own = {"daemon_status": self._status, "daemon_stop": self._stop, "daemon_restart": self._restart}
        self._rpc = RpcDoor(settings, {**terminal_ops(self._host), **own})
        self._started_at = time.time()
        self._over = asyncio.Event()
        self._again = False
        self._opening: set[asyncio.Task[None]] = set()

    async def run(self) -> bool:
        """Serve until told to stop. Tells whether to start again, with the code that is installed now."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._over.set)
        await self._host.open([sys.executable, "-m", "fairlead", "daemon", "run"])
        while self._opening:
            await asyncio.wait(self._opening)
        await self._rpc.open()
        log.info("serving %d sessions in %s", len(self._host.sessions), self._settings.runtime_dir)
        await self._over.wait()
        self._rpc.close()
        for session in list(self._host.sessions.values()):
            self._keepty.close(session)
        await self._host.close(for_good=not self._again)
        return self._again

    def _happened(self, session: Session, event: Event) -> None:
        match event.topic:
            case "opened":
                task = asyncio.get_running_loop().create_task(self._open(session))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
            case "forgotten":
                self._keepty.close(session)
            case _:
                self._rpc.event(event.topic, fields(**event.data))

    async def _open(self, session: Session) -> None:
        try:
            await self._keepty.open(session)
        except (OSError, ValueError) as error:
            log.warning("session %s has no keepty socket: %s", session.id, error)

    # --- ops of its own -----------------------------------------------------------------------------------

    async def _status(self, request: Request) -> Mapping[Any, Any]:
        return fields(
            version=__version__,
            pid=os.getpid(),
            started_at=self._started_at,
            sessions=len(self._host.sessions),
            runtime_dir=self._settings.runtime_dir,
        )

    async def _stop(self, request: Request) -> Mapping[Any, Any]:
        asyncio.get_running_loop().call_soon(self._over.set)
        return fields(accepted=True, started_at=self._started_at)

    async def _restart(self, request: Request) -> Mapping[Any, Any]:
        self._again = True
        return await self._stop(request)


def run(settings: Settings) -> None:
    """Be the daemon. Raises AlreadyRunning if there is one."""
    safe_dir(settings.runtime_dir)
    safe_dir(settings.state_dir)
    lock = os.open(f"{settings.runtime_dir}/daemon.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlreadyRunning(f"a daemon serves {settings.runtime_dir} already") from None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    async def serve() -> bool:
        return await Daemon(settings).run()

    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    if asyncio.run(serve()):
        os.execv(sys.executable, [sys.executable, "-m", "fairlead", "daemon", "run"])
