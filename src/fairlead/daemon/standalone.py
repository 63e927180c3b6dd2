"""`fairlead rpc --standalone`: agent sessions in one process with their one client, and no daemon.

The journals are those of the daemon; one that the daemon has open can't be opened here. Commands run in
terminals of this process. When the client is through, turns are ended and the process with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

from ..agent.parts import ABORT_GRACE
from ..agent.tools.terminals import LocalTerminals
from ..doors.rpc.server import RpcDoor
from ..sessions.feed import Feed
from ..system.settings import Settings, safe_dir
from .agents import AgentRoom


async def _serve(settings: Settings) -> int:
    room = AgentRoom(settings, LocalTerminals(), lambda: door.callers, Feed())
    door = RpcDoor(settings, {}, room.ops)
    await room.judging.open()
    for fault in room.store.open():
        print(f"fairlead rpc: an agent session can't be loaded: {fault}", file=sys.stderr)
    output = open(os.dup(sys.stdout.fileno()), "wb", buffering=0)  # noqa: SIM115 - the door closes it
    serving = asyncio.ensure_future(door.serve(sys.stdin.buffer, output))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    busy = [session for session in room.store.loaded if not session.is_idle]
    for session in busy:
        session.abort()
    if busy:
        await asyncio.wait([asyncio.ensure_future(each.idle()) for each in busy], timeout=ABORT_GRACE)
    await room.close("session_shutdown")
    return 0


def run(settings: Settings) -> int:
    """Be the backend of who is at our standard input and output."""
    safe_dir(settings.state_dir)
    safe_dir(settings.sessions_dir)
    return asyncio.run(_serve(settings))
