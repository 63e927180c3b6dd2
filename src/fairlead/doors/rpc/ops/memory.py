"""The ops of rpc-edn that keep something in mind, and find it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ....agent.conversation import Conversation
from ....agent.recall.memory import Memory, MemoryFault
from ....system.database import DatabaseFault
from ....wire.rpc import ErrorCode, fields
from .. import frames
from ..handlers import Call, Data, OpError, op

T = TypeVar("T")
RECALLED = 20
"""How many entries of the memory are given unless it is said."""


class AgentMemory:
    """The memory of all sessions, if there is one. `session` finds the session that a request means."""

    def __init__(self, memory: Memory | None, session: Callable[[Call], Conversation]) -> None:
        self._memory = memory
        self.session = session

    async def noted(self, session: Conversation, text: str, tags: Sequence[str]) -> int:
        """Remember something; returns its number."""
        return (await self._run(lambda memory: memory.remember(text, tags, session_id=session.id))).id

    async def _run(self, work: Callable[[Memory], T]) -> T:
        if (memory := self._memory) is None:
            raise OpError(ErrorCode.FAILED, "this process has no memory store")
        try:
            return await memory.thread.run(lambda: work(memory))
        except DatabaseFault as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        except (MemoryFault, ValueError) as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None

    @op
    async def remember(self, call: Call, text: str, tags: list[str] | None = None) -> Data:
        return fields(id=await self.noted(self.session(call), text, tags or []))

    @op
    async def recall(
        self, call: Call, text: str, tags: list[str] | None = None, limit: int = RECALLED
    ) -> Data:
        found = await self._run(lambda memory: memory.recall(text, tags or [], limit))
        return fields(entries=[frames.plain(each._asdict()) for each in found])
