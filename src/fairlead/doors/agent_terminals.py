"""Where an agent's commands run in the daemon: terminal sessions, which anybody may watch while they last.

Between the rooms: the agent's tools want something that runs commands, and the terminal room has sessions.
A command's session is called `agent-`, the beginning of the agent session's id, and a number.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..agent.tools.terminals import COLUMNS, ROWS, end_all
from ..terminal.host import HostError, TerminalHost
from ..terminal.ports import ProgramState
from ..terminal.session import TerminalSession

MAX_UNREAD = 16 * 1024 * 1024
"""How many printed bytes wait to be read; then the oldest are dropped."""
_WITHOUT_INPUT = ["/bin/sh", "-c", 'exec "$@" </dev/null', "sh"]
"""Nobody is there to answer, so a command that asks must not wait."""


class HostTerminals:
    """Runs commands as terminal sessions of a host."""

    def __init__(self, host: TerminalHost) -> None:
        self._host = host
        self._numbers = itertools.count(1)

    async def start(
        self, name: str, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], of: str = ""
    ) -> SessionRunning:
        """Start a command. Raises OSError."""
        try:
            session = await self._host.start(
                self._name(name),
                [*_WITHOUT_INPUT, *argv],
                cwd=str(cwd),
                environment=environment,
                cols=COLUMNS,
                rows=ROWS,
                deferred=True,  # so that nothing is printed before we listen
                note={"agent": name, "tool_of": of or name},
            )
        except (HostError, TimeoutError) as error:
            raise OSError(str(error)) from None
        running = SessionRunning(self._host, session)
        session.start(COLUMNS, ROWS)
        return running

    def _name(self, agent: str) -> str:
        """A name that no session has; one of a daemon that was killed may still be there."""
        names = (f"agent-{agent[:8]}-{number}" for number in self._numbers)
        return next(name for name in names if name not in self._host.sessions)

    async def end_orphans(self) -> None:
        """End the commands of agents that another daemon has left, and forget those that have ended since:
        nobody waits for them any more."""
        for session in list(self._host.sessions.values()):
            if "agent" in session.note:
                if session.state is not ProgramState.ENDED:
                    with contextlib.suppress(HostError, TimeoutError):
                        await self._host.stop(session.id, hang_up=False)
                if session in self._host:
                    self._host.forget(session)


class SessionRunning:
    """A command in its terminal session."""

    def __init__(self, host: TerminalHost, session: TerminalSession) -> None:
        self._host = host
        self._session = session
        self._unread: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        session.taps.add(self._printed)
        session.watchers.add(self._changed.set)

    def _printed(self, data: bytes) -> None:
        self._unread.append(data)
        self._size += len(data)
        while self._size > MAX_UNREAD:
            self._size -= len(self._unread.popleft())
        self._changed.set()

    async def read(self) -> bytes:
        await asyncio.sleep(0)  # one that prints without end must not have the loop for itself
        while not self._unread:
            if self._session.state is ProgramState.ENDED:
                return b""
            self._changed.clear()
            await self._changed.wait()
        data = b"".join(self._unread)
        self._unread.clear()
        self._size = 0
        return data

    async def wait(self) -> int:
        return await self._host.ended(self._session)

    async def kill(self) -> int:
        if not self._session.pid:
            return 0
        # by session alone: the keeper has the terminal open, too
        ended, _ = await end_all(self._session.pid)
        return ended

    async def close(self) -> None:
        self._session.taps.discard(self._printed)
        self._session.watchers.discard(self._changed.set)
        if self._session.state is not ProgramState.ENDED:
            with contextlib.suppress(HostError):
                await self._host.stop(self._session.id, hang_up=False)
        if self._session in self._host:
            self._host.forget(self._session)
