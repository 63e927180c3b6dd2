"""The ops of rpc-edn about verification: where a session's verifiers connect, and what they have said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..agent.session import AgentSession
from ..database import DatabaseFault
from ..terminal.host import Host, HostError
from ..verify.store import ReportStore, StoreFault
from ..wire.rpc import ErrorCode, Request, fields
from .agent_frames import plain
from .rpc import Handler, OpError
from .terminal_turns import TerminalTurns
from .verifier import VerifierDoor

LISTED = 100
"""How many reports are given unless it is said."""


def verify_ops(
    door: VerifierDoor,
    named: Callable[[str], Awaitable[AgentSession | None]],
    host: Host,
    turns: TerminalTurns,
    store: ReportStore,
) -> dict[str, Handler]:
    """Each op's function. `named` finds an agent session by its name or id; `door` has the sockets."""

    def path(session_id: str) -> str:
        try:
            return door.path(session_id)
        except ValueError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None

    async def target(request: Request) -> Mapping[Any, Any]:
        name = request.get("name")
        session = await named(name)
        if session is not None:
            return fields(
                session_id=session.id,
                kind="agent",
                socket=path(session.id),
                project=str(session.cwd),
                file=session.journal.path,
                model=f"{session.model.provider}/{session.model.id}",
                line=max((turn.last_line for turn in session.turns), default=0),
            )
        try:
            terminal = host.find(name)
        except HostError as error:
            raise OpError(ErrorCode.NOT_FOUND, str(error)) from None
        builder = turns.builder(terminal)
        return fields(
            session_id=terminal.id,
            kind="terminal",
            socket=path(terminal.id),
            project=builder.project,
            file=builder.known.file or None,
            model=None,
            line=max((turn.last_line for turn in builder.turns), default=0),
        )

    async def reports(request: Request) -> Mapping[Any, Any]:
        id, limit = request.get("session-id"), request.get("limit") or LISTED
        try:
            found = await store.thread.run(lambda: store.list(session_id=id, limit=limit))
        except (StoreFault, DatabaseFault) as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        return fields(reports=[plain(each._asdict()) for each in found])

    return {"verify_target": target, "verify_reports": reports, **turns.ops}
