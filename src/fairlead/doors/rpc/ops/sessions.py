"""The ops of rpc-edn that take any session, whatever its kind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from ....sessions.directory import Directory, Kind, NoKind, NoSession, NotSupported, Summary
from ....sessions.session import Prompt, Receiving, new_id
from ....wire.rpc import ErrorCode, fields
from ..frames import plain
from ..handlers import FAULTS, Call, Data, OpError, accepted, invalid, op

MAX_LINES = 50_000
"""How many lines `session_lines` gives at the most."""
MAX_ID = 100
"""How many characters the id of a prompt may have."""
MAX_WAIT = 24 * 3600.0
"""Seconds that `session_wait` waits at the most."""
FAULTS |= {
    NoSession: ErrorCode.NOT_FOUND,
    NotSupported: ErrorCode.FAILED,
    NoKind: ErrorCode.INVALID_PARAMS,
}


class SessionOps:
    """The sessions of a directory."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    @op
    async def session_list(self, kind: str | None = None, brief: bool = False) -> Data:
        found = await self._directory.list(kind=kind, brief=brief)
        return fields(sessions=[row_of(each) for each in found], questions=self._directory.questions)

    @op
    async def session_find(self, name: str) -> Data:
        (_, found), *others = await self._directory.find_all(name)
        return fields(session=row_of(found), **_others(others))

    @op
    async def session_stop(self, name: str) -> Data:
        (kind, found), *others = await self._directory.find_all(name)
        return fields(session=row_of(found), **_others(others), **await kind.stop(found.id))

    @op
    async def session_prompt(self, call: Call, name: str, text: str, prompt_id: str = "") -> Data:
        kind, found = await self._directory.find(name)
        prompt = Prompt(new_id(prompt_id), text)
        known = None
        if prompt_id:
            if len(prompt_id) > MAX_ID:
                raise invalid("prompt-id", f"at most {MAX_ID} characters")
            if not isinstance(kind, Receiving):
                raise NotSupported(f"{kind.name} sessions keep no ids of prompts; leave out prompt-id")
            known = await kind.receipt(found.id, prompt.id)
        place = await kind.prompt(found.id, prompt) if known is None else known.place or None
        waits = {} if place is None else {"queued": place}
        return accepted(call, prompt.id, session=row_of(found), **waits)

    @op
    async def prompt_receipt(self, name: str, prompt_id: str, timeout: float = 0.0) -> Data:
        kind, found = await self._directory.find(name)
        if not isinstance(kind, Receiving):
            raise NotSupported(f"{kind.name} sessions give no receipts for prompts")
        if timeout:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(timeout, MAX_WAIT)):
                    await kind.ended(found.id, prompt_id)
        if (receipt := await kind.receipt(found.id, prompt_id)) is None:
            raise OpError(ErrorCode.NOT_FOUND, f"{found.name!r} has no prompt {prompt_id!r:.80}")
        known = {name: getattr(receipt, name) for name in receipt.__struct_fields__}
        return fields(**{name: value for name, value in known.items() if value})

    @op
    async def session_lines(self, name: str, limit: int = MAX_LINES) -> Data:
        kind, found = await self._directory.find(name)
        texts = without_end(await kind.lines(found.id))
        shown = texts[-min(limit, MAX_LINES) :]
        return fields(lines=list(shown), first=len(texts) - len(shown) + 1, oldest=1, complete=True)

    @op
    async def session_wait(self, name: str, timeout: float = MAX_WAIT) -> Data:
        kind, found = await self._directory.find(name)
        try:
            async with asyncio.timeout(min(timeout, MAX_WAIT)):
                outcome = await kind.settled(found.id)
        except TimeoutError:
            return fields(matched=False, reason="timeout")
        return fields(matched=True, reason="idle", **({} if outcome is None else {"outcome": outcome}))


def without_end(texts: Sequence[str]) -> Sequence[str]:
    """Lines without the empty ones at their end: a screen has those below what was printed."""
    size = len(texts)
    while size and not texts[size - 1].strip():
        size -= 1
    return texts[:size]


def _others(found: Sequence[tuple[Kind, Summary]]) -> dict[str, list[Data]]:
    """What an answer says of other sessions of the same name, if there are any."""
    return {"others": [row_of(each) for _, each in found]} if found else {}


def row_of(found: Summary) -> Data:
    return fields(**{key: plain(value) for key, value in found.row.items()})
