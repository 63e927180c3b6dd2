"""The ops of rpc-edn about verification: where a session's verifiers connect, and what they have said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ....agent.session import AgentSession
from ....terminal.host import Host
from ....verify.store import ReportStore
from ....wire.rpc import ErrorCode, fields
from ...terminal_turns import TerminalTurns
from ...verifier import VerifierDoor
from ..frames import plain
from ..handlers import Data, OpError, op

LISTED = 100
"""How many reports are given unless it is said."""


class VerifyOps:
    """Where verifiers connect. `named` finds an agent session by its name or id; `door` has the sockets."""

    def __init__(
        self,
        door: VerifierDoor,
        named: Callable[[str], Awaitable[AgentSession | None]],
        host: Host,
        turns: TerminalTurns,
        store: ReportStore,
    ) -> None:
        self._door = door
        self._named = named
        self._host = host
        self._turns = turns
        self._store = store

    def _path(self, session_id: str) -> str:
        try:
            return self._door.path(session_id)
        except ValueError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None

    @op
    async def verify_target(self, name: str) -> Data:
        session = await self._named(name)
        if session is not None:
            return fields(
                session_id=session.id,
                kind="agent",
                socket=self._path(session.id),
                project=str(session.cwd),
                file=session.journal.path,
                model=f"{session.model.provider}/{session.model.id}",
                line=max((turn.last_line for turn in session.turns), default=0),
            )
        terminal = self._host.find(name)
        builder = self._turns.builder(terminal)
        return fields(
            session_id=terminal.id,
            kind="terminal",
            socket=self._path(terminal.id),
            project=builder.project,
            file=builder.known.file or None,
            model=None,
            line=max((turn.last_line for turn in builder.turns), default=0),
        )

    @op
    async def verify_reports(self, session_id: str | None = None, limit: int = LISTED) -> Data:
        found = await self._store.thread.run(lambda: self._store.list(session_id=session_id, limit=limit))
        return fields(reports=[plain(each._asdict()) for each in found])
