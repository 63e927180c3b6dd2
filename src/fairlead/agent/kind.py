"""Agent sessions as one of the kinds that the directory has: those that are open, and those used lately."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from ..formats.shown import middle, visible
from ..sessions.directory import NoSession, NotSupported, Summary
from ..sessions.feed import Changed, Feed, FeedEvent, PromptEnded, PromptStarted, TurnEnded
from ..sessions.session import PastPrompt, Prompt, PromptStage, Receipt
from ..system.database import DatabaseFault
from .conversation import Conversation
from .events import Outcome
from .journal import JournalError, Said
from .live import LiveAgent
from .log_lines import log_lines
from .messages import User, text_of
from .ports import Busy, Refused
from .recall.transcripts import Transcript, Transcripts
from .receipts import moment, past_prompts, receipt_of
from .store import AgentStore, NotFound

LISTED = 1000
"""How many sessions that are not open are looked at for a list, the last used first: more than a day has."""
SCAN_SECONDS = 0.05
"""How long journals are looked through for a list; the rest comes the next time."""
LISTED_SECONDS = 86_400.0
"""How long after it was used last a session that is not open is listed."""
MAX_DROPPED = 4000
"""How many characters are given back of each prompt that was not said."""
MAX_WHAT = 80
"""How many characters of what was said last are shown."""


class AgentKind:
    """The sessions of a store that are of one kind: with our own agent, or with a third-party one.
    `transcripts` knows those that are not open; `feed` has what happens."""

    names = ("agent", "hosted")
    gives_ids = True

    def __init__(self, store: AgentStore, transcripts: Transcripts, feed: Feed, name: str = names[0]) -> None:
        self.name = name
        self._store = store
        self._transcripts = transcripts
        # by session, while somebody waits for it
        self._changed: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        feed.listen(self._happened)

    def _happened(self, event: FeedEvent) -> None:
        """Something happened in a session: who waits for it looks again."""
        if isinstance(event, TurnEnded | Changed | PromptStarted | PromptEnded) and (
            changed := self._changed.get(event.session)
        ):
            changed.set()

    async def list(self, *, brief: bool) -> Sequence[Summary]:
        rows = {each.id: each for each in await self._recent() if _kind_of(each) == self.name}
        opened = self._opened
        found = [_of_open(each) for each in opened if each.name or _last_prompt(each)]
        known = {each.id for each in opened}
        return found + [_of_row(row) for row in rows.values() if row.id not in known]

    @property
    def _opened(self) -> Sequence[Conversation]:
        return [each for each in self._store.loaded if each.kind == self.name]

    async def _recent(self) -> Sequence[Transcript]:
        oldest = time.time() - LISTED_SECONDS
        try:
            rows = await self._transcripts.thread.run(self._scanned)
        except DatabaseFault:  # those that are open are worth more than the others
            return []
        # as of those that are open: who has a name is there, though nobody has asked it for anything
        return [row for row in rows if (row.message_count or row.name) and moment(row.modified) > oldest]

    def _scanned(self) -> Sequence[Transcript]:
        """On the index's thread: what it knows, after a short look at what changed."""
        self._transcripts.scan(SCAN_SECONDS)
        return self._transcripts.list(limit=LISTED)

    async def find(self, word: str, *, every: bool) -> Sequence[Summary]:
        opened = list(reversed(self._opened))
        for each in opened:
            if each.id == word:
                return [_of_open(each)]
        found = [_of_open(each) for each in opened if each.name == word or each.id.startswith(word)]
        if not every and any(each.name == word for each in found):
            return found
        known = {each.id for each in opened}
        try:
            rows = await self._transcripts.thread.run(lambda: self._transcripts.meant(word, SCAN_SECONDS))
        except DatabaseFault as fault:
            if not found:
                raise NoSession(f"can't look for agent sessions: {fault}") from None
            rows = []
        found += [_of_row(row) for row in rows if row.id not in known and _kind_of(row) == self.name]
        if not found:  # its journal may be too new for the index
            with contextlib.suppress(NotFound, JournalError):
                await self._store.prepare(word)
                session = self._store.find(word)
                if session.kind == self.name:
                    found.append(_of_open(session))
        return found

    def name_of(self, id: str) -> str | None:
        session = self._store.get(id)
        return (session.name or None) if session is not None else None

    def state_of(self, id: str) -> str | None:
        session = self._store.get(id)
        return session.state if session is not None and session.kind == self.name else None

    async def _conversation(self, id: str) -> Conversation:
        try:
            await self._store.prepare(id)
            return self._store.find(id)
        except (NotFound, JournalError) as error:
            raise NoSession(str(error)) from None

    async def stop(self, id: str) -> Mapping[str, Any]:
        """End its turn and what waits to be said. The session stays: it can be talked with again."""
        session = await self._conversation(id)
        was_working = not session.is_idle
        dropped = [middle(text, MAX_DROPPED, "see the journal") for text in session.prompts.queued]
        session.prompts.drop("stopped before it was sent")
        session.abort()
        agent_ended = await session.end_agent()
        return {"stopped": was_working, "dropped": dropped, "agent_ended": agent_ended}

    async def remove(self, id: str) -> Mapping[str, str]:
        """Move its journal to the trash, and end its agent's program if there is one."""
        session = await self._conversation(id)
        _check_rest(session)
        await session.end_agent()
        _check_rest(session)  # somebody may have said something meanwhile
        try:
            return {"path": self._store.remove(session)}
        except (Refused, JournalError) as error:
            raise NotSupported(str(error)) from None

    async def prompt(self, id: str, prompt: Prompt) -> int | None:
        session = await self._conversation(id)
        try:
            session.follow_up(prompt.text, id=prompt.id)
        except (Busy, Refused, JournalError) as error:
            raise NotSupported(str(error)) from None
        return len(session.prompts.queued) or None

    async def receipt(self, id: str, prompt: str) -> Receipt | None:
        session = await self._conversation(id)
        session.go_on()
        return receipt_of(session, prompt)

    async def receipts(self, id: str) -> Sequence[PastPrompt]:
        session = await self._conversation(id)
        session.go_on()
        return past_prompts(session)

    async def withdraw(self, id: str, prompt: str, reason: str) -> bool:
        return (await self._conversation(id)).prompts.drop(reason, prompt)

    async def reached(self, id: str, prompt: str, stage: PromptStage) -> None:
        changed = self._changed.setdefault(id, asyncio.Event())
        while (receipt := await self.receipt(id, prompt)) is not None and not receipt.has_reached(stage):
            changed.clear()
            await changed.wait()

    async def live(self, id: str) -> LiveAgent:
        return LiveAgent(await self._conversation(id))

    async def interrupt(self, id: str, prompt: str | None = None) -> None:
        session = await self._conversation(id)
        if prompt is None:
            session.abort()
        else:
            session.end_prompt(prompt)

    async def make(self, name: str, project: str) -> str:
        try:
            await self._store.check_name(name)
            session = self._store.create(project)
            session.set_name(name)
        except (Refused, JournalError) as error:
            raise NotSupported(str(error)) from None
        return session.id

    async def lines(self, id: str) -> Sequence[str]:
        session = await self._conversation(id)
        return await asyncio.to_thread(log_lines, session)  # it may be long

    async def settled(self, id: str) -> Outcome | None:
        session = await self._conversation(id)
        changed = self._changed.setdefault(id, asyncio.Event())
        while not session.is_idle or session.pending_messages:
            changed.clear()
            await changed.wait()
        return session.outcome


def _check_rest(session: Conversation) -> None:
    """Raises NotSupported if a session has something to do."""
    name = session.name or session.id
    if session.approvals:
        raise NotSupported(f"{name} asks for consent; answer it first: `fairlead approvals`")
    if not session.is_idle or session.pending_messages:
        raise NotSupported(f"{name} is working; `fairlead stop {name}` ends its turn")


def _last_prompt(session: Conversation) -> str:
    """What was said to it last."""
    for entry in reversed(session.journal.entries):
        if isinstance(entry.body, Said) and isinstance(entry.body.message, User):
            return text_of(entry.body.message)
    return ""


def _short(text: str) -> str:
    return visible(" ".join(text[: 4 * MAX_WHAT].split()))[:MAX_WHAT]


def _of_open(session: Conversation) -> Summary:
    entries = session.journal.entries
    last = moment(entries[-1].timestamp if entries else session.journal.header.timestamp)
    return Summary(
        id=session.id,
        kind=session.kind,
        name=session.name or session.id,
        project=str(session.cwd),
        state=session.state,
        what=_short(_last_prompt(session)),
        started_at=moment(session.journal.header.timestamp),
        idle=max(0.0, time.time() - last) if session.is_idle else 0.0,
        can=("chat",),
        more={
            **session.more,
            "queued": len(session.prompts.queued),
            **({"unsaid": len(session.unsaid)} if session.unsaid else {}),
            "outcome": session.outcome,
            "fault": _short(session.turns[-1].fault) if session.state == "failed" else "",
        },
    )


def _of_row(row: Transcript) -> Summary:
    return Summary(
        id=row.id,
        kind=_kind_of(row),
        name=row.name or row.id,
        project=row.cwd,
        state="failed" if row.is_failed else "idle",
        is_open=False,
        what=_short(row.last_prompt or row.first_message),
        started_at=moment(row.created),
        idle=max(0.0, time.time() - moment(row.modified)),
        can=("chat",),
        more={
            "file": row.path,
            "one_shot": bool(row.is_one_shot),
            "fault": _short(row.fault) if row.is_failed else "",
            **({"agent": row.agent} if row.agent else {}),
            **({"cost": round(row.cost, 6)} if row.cost else {}),
        },
    )


def _kind_of(row: Transcript) -> str:
    return AgentKind.names[row.agent is not None]
