"""The ops of rpc-edn that keep something in mind, and find it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..agent.memory import Memory, MemoryFault
from ..agent.session import AgentSession
from ..database import DatabaseFault
from ..wire.rpc import ErrorCode, Request, fields
from . import agent_frames as frames
from .rpc import Caller, CallerHandler, OpError

Data = Mapping[Any, Any]

RECALLED = 20
"""How many entries of the memory are given unless it is said."""


class AgentMemory:
    """The memory of all sessions, if there is one. `session` finds the session that a request means."""

    def __init__(self, memory: Memory | None, session: Callable[[Request, Caller], AgentSession]) -> None:
        self._memory = memory
        self.session = session

    @property
    def ops(self) -> dict[str, CallerHandler]:
        return {"remember": self._remember, "recall": self._recall}

    async def noted(self, session: AgentSession, text: str, tags: Sequence[str]) -> int:
        """Remember something; gives its number."""
        if (memory := self._memory) is None:
            raise OpError(ErrorCode.FAILED, "there is no memory here")
        try:
            entry = await memory.thread.run(lambda: memory.remember(text, tags, session_id=session.id))
            return entry.id
        except DatabaseFault as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        except (MemoryFault, ValueError) as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None

    async def _remember(self, request: Request, caller: Caller) -> Data:
        session = self.session(request, caller)
        return fields(id=await self.noted(session, request.get("text"), list(request.get("tags") or ())))

    async def _recall(self, request: Request, caller: Caller) -> Data:
        if (memory := self._memory) is None:
            raise OpError(ErrorCode.FAILED, "there is no memory here")
        text, tags, limit = request.get("text"), list(request.get("tags") or ()), request.get("limit")
        try:
            found = await memory.thread.run(lambda: memory.recall(text, tags, limit or RECALLED))
        except DatabaseFault as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        except (MemoryFault, ValueError) as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None
        return fields(entries=[frames.plain(each._asdict()) for each in found])
