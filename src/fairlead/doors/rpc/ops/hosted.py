"""The ops of rpc-edn that only third-party agents need: which there are, and their modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....agent.conversation import Conversation
from ....formats.edn import Keyword
from ....hosted.program import HostedError
from ....hosted.room import HostedRoom
from ....wire.rpc import ErrorCode, fields
from ..handlers import FAULTS, Call, Data, op

FAULTS |= {HostedError: ErrorCode.FAILED}


class HostedOps:
    """The agents that can be hosted. `session` finds the session that a request means."""

    def __init__(self, room: HostedRoom, session: Callable[[Call], Conversation]) -> None:
        self._room = room
        self._session = session

    @op
    async def agents(self) -> Data:
        return fields(
            agents=[
                fields(
                    name=each.name,
                    about=each.agent.about,
                    command=list(each.agent.command),
                    path=each.path,
                    install=each.agent.install or None,
                    mode=each.agent.mode or None,
                    model=each.agent.model or None,
                    sandbox=each.agent.sandbox,
                    keys=list(each.agent.keys),
                    mcp_servers=[server.name for server in each.agent.mcp],
                )
                for each in self._room.programs
            ]
        )

    @op
    async def agent_check(self, call: Call, agent: str, cwd: str = "") -> Data:
        tried = await self._room.tried(agent, cwd or call.caller.cwd or "/")
        return fields(
            ok=not tried.fault,
            fault=tried.fault or None,
            title=tried.name or None,
            version=tried.version or None,
            can=list(tried.can),
            modes=list(tried.modes),
            models=list(tried.models),
            logins=list(tried.logins),
            notices=list(tried.notices),
        )

    @op
    async def set_mode(self, call: Call, mode: str) -> Data:
        session = self._session(call)
        return fields(mode=session.set_mode(mode), modes=list(session.modes))


def with_names(value: Any) -> Any:
    """A value in which keywords have become their names."""
    if isinstance(value, Mapping):
        return {with_names(key): with_names(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [with_names(inner) for inner in value]
    return value.name if isinstance(value, Keyword) else value
