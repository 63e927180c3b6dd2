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
from functools import partial

from ..agent.kind import AgentKind
from ..agent.ports import ABORT_GRACE
from ..agent.tools.terminals import LocalTerminals
from ..doors.rpc import happenings
from ..doors.rpc.handlers import Clients, handlers_of
from ..doors.rpc.ops.approvals import ApprovalOps
from ..doors.rpc.ops.sessions import SessionOps
from ..doors.rpc.ops.verify import VerifyOps
from ..doors.rpc.server import RpcDoor
from ..sessions.directory import Directory
from ..sessions.feed import Feed
from ..sessions.inbox import Inbox
from ..sessions.state import States
from ..system.settings import Settings, safe_dir
from .agents import AgentRoom, verification


async def _serve(settings: Settings) -> int:
    clients, feed, inbox = Clients(), Feed(), Inbox()
    judging = verification(settings, clients, feed, inbox)
    directory = Directory(inbox, judging.shown, States(feed, "", clients.look_at))
    check_free = partial(directory.check_free, but=AgentKind.names)
    room = AgentRoom(settings, LocalTerminals(), clients, feed, inbox, judging, check_free)
    directory.add(AgentKind(room.store, room.transcripts, feed))
    handlers = handlers_of(
        SessionOps(directory, feed),
        VerifyOps(judging.door, directory, judging.reports),
        ApprovalOps(inbox),
    )
    door = RpcDoor(settings, handlers, room.ops, clients, directory=directory)
    directory.follow(feed)
    happenings.follow(feed, inbox, clients)
    await judging.open()
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
    judging.door.close_all("session_shutdown")
    await room.close()
    await judging.close()
    return 0


def run(settings: Settings) -> int:
    """Be the backend of who is at our standard input and output."""
    safe_dir(settings.state_dir)
    safe_dir(settings.sessions_dir)
    return asyncio.run(_serve(settings))
