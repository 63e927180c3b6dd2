"""The ops of rpc-edn that take any session, whatever its kind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, cast
from weakref import WeakValueDictionary

from msgspec import structs

from ....formats.edn import Keyword
from ....sessions.directory import Directory, InTheWay, Kind, NoKind, NoSession, NotSupported, Summary
from ....sessions.feed import Feed, FeedEvent, SaidPiece
from ....sessions.inbox import calling_agent
from ....sessions.session import (
    MAX_RECEIPTS,
    NOT_BY_A_PERSON,
    WITHDRAWN,
    Explaining,
    Prompt,
    PromptStage,
    Receipt,
    Receiving,
    Removing,
    new_id,
)
from ....system.settings import LOCAL
from ....wire.rpc import ErrorCode, fields
from ..elsewhere import HOST_PARAM, FarHosts, own_place
from ..frames import plain
from ..handlers import FAULTS, Call, Data, OpError, accepted, invalid, op

ID = Keyword("id")
MAX_LINES = 50_000
"""How many lines `session_lines` gives at the most."""
MAX_REASON = 400
"""How many characters are kept of why a prompt is withdrawn."""
MAX_ID = 100
"""How many characters the id of a prompt may have."""
FOLLOW_WAIT = 30.0
"""Seconds that `session_lines` waits for a line at the most; less than a client's patience."""
FOLLOW_PAUSE = 0.1
"""Seconds between two looks at a session that changes: each reads all of it."""
MAX_WAIT = 24 * 3600.0
"""Seconds that `session_wait` waits at the most."""
FAULTS |= {
    NoSession: ErrorCode.NOT_FOUND,
    NotSupported: ErrorCode.FAILED,
    InTheWay: lambda error: OpError(ErrorCode.FAILED, str(error), fields(blocked=True)),
    NoKind: ErrorCode.INVALID_PARAMS,
}


class SessionOps:
    """The sessions of a directory."""

    def __init__(self, directory: Directory, feed: Feed, elsewhere: FarHosts | None = None) -> None:
        self._directory = directory
        self._elsewhere = elsewhere
        # by session, while somebody waits for more lines of it
        self._extended: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        self._stopping: set[asyncio.Task[None]] = set()
        feed.listen(self._happened)

    def _happened(self, event: FeedEvent) -> None:
        if not isinstance(event, SaidPiece) and (extended := self._extended.get(event.session)):
            extended.set()

    @op
    async def session_list(self, kind: str | None = None, brief: bool = False, hosts: bool = False) -> Data:
        self._directory.states.look_again()
        found = await self._directory.list(kind=kind, brief=brief)
        rows, questions = [row_of(each) for each in found], self._directory.questions
        if not hosts:
            return fields(sessions=rows, questions=questions)
        elsewhere = self._elsewhere
        here = [
            {**row, HOST_PARAM: LOCAL, ID: own_place(each.id, elsewhere)}
            for row, each in zip(rows, found, strict=True)
        ]
        if elsewhere is not None:
            await elsewhere.begun()
        there = elsewhere.sessions(kind) if elsewhere is not None else ()
        known = elsewhere.hosts() if elsewhere is not None else ()
        return fields(sessions=[*here, *there], questions=questions, hosts=[fields(**each) for each in known])

    @op
    async def session_find(self, call: Call, name: str = "") -> Data:
        (_, found), *others = await meant(self._directory, call, name)
        return fields(session=row_of(found), **_others(others))

    @op
    async def session_state(self, call: Call, name: str = "") -> Data:
        kind, found = (await meant(self._directory, call, name))[0]
        if isinstance(kind, Explaining):
            weighed = kind.weighed(found.id)
        else:
            evidence, question = found.activity.row["evidence"], found.activity.question
            weighed = [{**evidence, "question": question, "fate": "counts"}] if evidence else []
        return fields(session=row_of(found), weighed=[plain(each) for each in weighed])

    @op
    async def session_seen(self, call: Call, name: str = "") -> Data:
        if agent := calling_agent.get():
            why = f"only a person can have seen it, and a command of an agent session ({agent:.80}) asks"
            raise OpError(ErrorCode.FAILED, why)
        self._directory.states.seen((await meant(self._directory, call, name))[0][1].id)
        return fields(accepted=True)

    @op
    async def session_stop(self, call: Call, name: str = "") -> Data:
        (kind, found), *others = await meant(self._directory, call, name)
        return fields(session=row_of(found), **_others(others), **await kind.stop(found.id))

    @op
    async def session_tie(self, call: Call, name: str = "") -> Data:
        kind, found = (await meant(self._directory, call, name))[0]
        try:
            await asyncio.Event().wait()
        finally:
            stopping = asyncio.get_running_loop().create_task(self._let_go(kind, found.id))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)
        return fields(accepted=True)

    @staticmethod
    async def _let_go(kind: Kind, id: str) -> None:
        """Stop what a session does of whose client nothing is left."""
        with contextlib.suppress(NoSession, NotSupported):
            await kind.stop(id)

    @op
    async def session_remove(self, call: Call, name: str = "") -> Data:
        if agent := calling_agent.get():
            why = f"only a person may remove sessions, and a command of an agent session ({agent:.80}) asks"
            raise OpError(ErrorCode.FAILED, why)
        (kind, found), *others = await meant(self._directory, call, name)
        if not isinstance(kind, Removing):
            raise NotSupported(f"{kind.name} sessions can't be removed; `fairlead stop` ends what they do")
        if found.waits_for:
            raise NotSupported(f"{found.name} asks: {found.waits_for}; answer it first: `fairlead approvals`")
        return fields(session=row_of(found), **_others(others), **await kind.remove(found.id))

    @op
    async def session_prompt(
        self, call: Call, text: str, name: str = "", prompt_id: str = "", timeout: float = 0.0
    ) -> Data:
        kind, found = (await meant(self._directory, call, name))[0]
        prompt = Prompt(new_id(prompt_id), text, patience=min(timeout, MAX_WAIT))
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
    async def prompt_receipt(
        self,
        call: Call,
        prompt_id: str,
        name: str = "",
        timeout: float = 0.0,
        stage: str = "ended",
    ) -> Data:
        kind, found = (await meant(self._directory, call, name))[0]
        if not isinstance(kind, Receiving):
            raise NotSupported(f"{kind.name} sessions give no receipts for prompts")
        if timeout:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(timeout, MAX_WAIT)):
                    await kind.reached(found.id, prompt_id, cast(PromptStage, stage))
        if (receipt := await kind.receipt(found.id, prompt_id)) is None:
            raise OpError(ErrorCode.NOT_FOUND, f"{found.name!r} has no prompt {prompt_id!r:.80}")
        if timeout:
            _, found = await self._directory.with_id(found.id)
        return _receipt_row(receipt, found)

    @op
    async def prompt_receipts(self, call: Call, name: str = "", limit: int = MAX_RECEIPTS) -> Data:
        kind, found = (await meant(self._directory, call, name))[0]
        if not isinstance(kind, Receiving):
            raise NotSupported(f"{kind.name} sessions give no receipts for prompts")
        rows = [
            {**_receipt_row(each.receipt, found), **fields(id=each.id, asked=each.asked, words=each.words)}
            for each in (await kind.receipts(found.id))[-limit:]
        ]
        return fields(session=row_of(found), receipts=rows)

    @op
    async def prompt_withdraw(
        self, call: Call, prompt_id: str, name: str = "", reason: str = WITHDRAWN
    ) -> Data:
        kind, found = (await meant(self._directory, call, name))[0]
        if not isinstance(kind, Receiving):
            raise NotSupported(f"{kind.name} sessions give no receipts for prompts")
        if (agent := calling_agent.get()) and not prompt_id.startswith(NOT_BY_A_PERSON):
            id = new_id(prompt_id)  # what an agent sent is known by this
            if await kind.receipt(found.id, id) is None:
                why = f"only a person may withdraw a person's prompt, and an agent session ({agent:.80}) asks"
                raise OpError(ErrorCode.FAILED, why)
            prompt_id = id
        withdrawn = await kind.withdraw(found.id, prompt_id, reason[:MAX_REASON])
        return fields(withdrawn=withdrawn)

    @op
    async def session_lines(
        self,
        call: Call,
        name: str = "",
        limit: int = MAX_LINES,
        from_: int | None = None,
        timeout: float = FOLLOW_WAIT,
    ) -> Data:
        """The last lines, or the lines from a number on as soon as there are any."""
        kind, found = (await meant(self._directory, call, name))[0]
        limit = min(limit, MAX_LINES)
        if from_ is None:
            texts = without_end(await kind.lines(found.id))
            first = len(texts) - len(texts[-limit:]) + 1
        else:
            texts = await self._from(kind, found.id, from_, min(timeout, FOLLOW_WAIT))
            first = min(from_, len(texts) + 1)
        lines = texts[first - 1 :][:limit]
        return fields(lines=list(lines), first=first, oldest=1, complete=True, next=first + len(lines))

    async def _from(self, kind: Kind, id: str, line: int, timeout: float) -> Sequence[str]:
        """All lines, when that line is there or the time is over."""
        extended = self._extended.setdefault(id, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while True:
                    extended.clear()
                    texts = without_end(await kind.lines(id))
                    if len(texts) >= line:
                        return texts
                    await extended.wait()
                    await asyncio.sleep(FOLLOW_PAUSE)
        return without_end(await kind.lines(id))

    @op
    async def session_wait(self, call: Call, name: str = "", timeout: float = MAX_WAIT) -> Data:
        kind, found = (await meant(self._directory, call, name))[0]
        try:
            async with asyncio.timeout(min(timeout, MAX_WAIT)):
                outcome = await kind.settled(found.id)
        except TimeoutError:
            return fields(matched=False, reason="timeout")
        return fields(matched=True, reason="idle", **({} if outcome is None else {"outcome": outcome}))


async def meant(directory: Directory, call: Call, name: str) -> Sequence[tuple[Kind, Summary]]:
    """The session that a request means: those of the name, else that of the id. Raises NoSession, OpError."""
    if name:
        return await directory.find_all(name)
    if call.session_id is None:
        raise OpError(ErrorCode.INVALID_PARAMS, "expected :name or :session-id")
    return [await directory.with_id(call.session_id)]


def _receipt_row(receipt: Receipt, found: Summary) -> dict[Any, Any]:
    """A receipt, with what a prompt that is not ended waits for as far as the session's state tells that."""
    activity, waits_for = found.activity, receipt.waits_for
    if not waits_for and receipt.state != "ended" and activity.state == "waits":
        waits_for = f"{found.name} asks: {activity.question or found.waits_for or 'something'}"
        receipt = structs.replace(receipt, blocked=True)
    elif not waits_for and receipt.state == "queued" and activity.state == "working":
        waits_for = f"{found.name} is working"
    receipt = structs.replace(receipt, waits_for=waits_for)
    known = {name: getattr(receipt, name) for name in receipt.__struct_fields__}
    return dict(fields(**{name: value for name, value in known.items() if value}))


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
