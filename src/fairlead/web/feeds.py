"""What happens to all sessions, or in one agent session, with cursors: the one place for both doors through
which it is read, server-sent events (`events`) and the pages' WebSocket (`live`).

What waits for a reader is bounded; one that does not read fast enough is told to fetch everything again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from ..client.aio_streams import AgentEvents
from ..client.calls import RequestError
from ..client.following import AgentSubscription
from . import limits, roles
from .access import AccessRefused, Visitor
from .hub import Hub, NumberedEvent
from .shared import session_named
from .wired import encoded

MAX_CURSOR = 200
"""Characters of a cursor or of a session's id."""
MAX_PIECE = 1024 * 1024
"""How many bytes of an agent's events are read before the page gets them."""
HELLO, RESET, REFUSED = "hello", "reset", "refused"
"""Events about the stream itself. After `refused` it is over."""


class Told(NamedTuple):
    """One event, however it is sent."""

    body: bytes
    """JSON."""
    id: str = ""
    """The cursor after it; one without leaves the reader's as it is."""
    name: str = ""
    """HELLO, RESET, REFUSED, or empty for what happens."""


Pieces = AsyncGenerator[list[Told], None]
"""Events, as many at a time as there are."""


class _Waiting:
    """What waits for one reader. Beyond its limits only that is left that it is behind."""

    def __init__(self) -> None:
        self._queue: list[Told] = []
        self._size = 0
        self._more = asyncio.Event()
        self._is_behind = False

    def put(self, told: Told) -> None:
        if self._is_behind:
            return
        self._size += len(told.body)
        if len(self._queue) >= limits.MAX_EVENTS_WAITING or self._size > limits.MAX_BYTES_WAITING:
            self._queue, self._size = [], 0
            self._is_behind = True
        else:
            self._queue.append(told)
        self._more.set()

    async def take(self) -> list[Told] | None:
        """All that waits; None if the reader is behind."""
        await self._more.wait()
        self._more.clear()
        if self._is_behind:
            self._is_behind = False
            return None
        taken, self._queue, self._size = self._queue, [], 0
        return taken


class _AgentEvents(AgentEvents):
    @property
    def has_more(self) -> bool:
        """True if the next event is here already."""
        return bool(self._events)


class Feeds:
    """Makes streams of events for visitors, and counts them."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.open = 0
        self._last: deque[tuple[int, bytes]] = deque(maxlen=1)

    async def stream(self, visitor: Visitor, session: str = "", since: str = "") -> Pieces:
        """What happens in an agent session, or to all sessions if none is named, from a cursor on if that is
        known. Raises AccessRefused at its first event."""
        if len(since) > MAX_CURSOR or len(session) > MAX_CURSOR:
            raise AccessRefused("a cursor or id is too long", "request/invalid-params", 400)
        if visitor.streams >= (limits.MAX_STREAMS if visitor.share is None else limits.MAX_SHARE_STREAMS):
            raise AccessRefused("too many event streams are open", "web/too-many", 429)
        if session:
            session = _session_for(visitor, session)
        visitor.streams += 1
        self.open += 1
        is_share = visitor.share is not None
        of_agent = self._of_agent(session, since, is_share=is_share) if session else None
        pieces = of_agent or self._of_all(visitor, since)
        try:
            async for piece in pieces:
                yield piece
        finally:
            visitor.streams -= 1
            self.open -= 1
            await pieces.aclose()

    def _hello(self, cursor: str) -> Told:
        daemon = "away" if self._hub.is_away else "here"
        return Told(encoded({"cursor": cursor, "daemon": daemon}), cursor, HELLO)

    def _reset(self) -> Told:
        return Told(encoded({"cursor": self._hub.cursor}), self._hub.cursor, RESET)

    # --- of all sessions ----------------------------------------------------------------------------------

    async def _of_all(self, visitor: Visitor, since: str) -> Pieces:
        waiting = _Waiting()

        def told(happening: NumberedEvent) -> None:
            if _is_for(visitor, happening):
                waiting.put(self._told(happening))

        missed = self._hub.since(since) if since else []
        stop = self._hub.listen(told)
        try:
            first = [self._hello(self._hub.cursor)]
            if missed is None:
                first.append(self._reset())
            yield first + [self._told(each) for each in missed or () if _is_for(visitor, each)]
            while True:
                taken = await waiting.take()
                yield taken if taken is not None else [self._reset()]
        finally:
            stop()

    def _told(self, happening: NumberedEvent) -> Told:
        """All pages are told one after the other, so that the last one is encoded once for all of them."""
        if not self._last or self._last[0][0] != happening.number:
            about = {"topic": happening.topic, "data": happening.data}
            self._last.append((happening.number, encoded(about)))
        return Told(self._last[0][1], self._hub.cursor_at(happening.number))

    # --- of one agent session -----------------------------------------------------------------------------

    async def _of_agent(self, session: str, since: str, *, is_share: bool) -> Pieces:
        """What happens in one agent session, here or on another host; goes on with the next daemon."""
        settings, id = (self._hub.settings, session) if is_share else await self._hub.place(session)
        source = AgentSubscription(id, since or None, so_far=True)
        yield [self._hello(since)]
        while True:
            events = _AgentEvents(source, settings)
            try:
                async with events:
                    while True:
                        piece = [_of_turn(await events.next())]
                        size = len(piece[0].body)
                        while events.has_more and size < MAX_PIECE:
                            piece.append(_of_turn(await events.next()))
                            size += len(piece[-1].body)
                        yield piece
            except RequestError as error:
                yield [Told(encoded({"code": error.code, "message": str(error)}), name=REFUSED)]
                return
            except (ConnectionError, TimeoutError, OSError) as error:
                yield [Told(encoded({"topic": "web/away", "data": {"why": str(error)}}))]
                await self._hub.back(settings)
                await asyncio.sleep(limits.PEER_SECONDS / 10)
                yield [Told(encoded({"topic": "web/back", "data": {}}))]


def _session_for(visitor: Visitor, session: str) -> str:
    """The id of the agent session that a visitor names. Raises AccessRefused."""
    share = visitor.share
    session = session_named(share, session)
    if share is not None and share.kind == "terminal":
        raise AccessRefused(
            "the shared session is a terminal; its events are those of all sessions", "request/not-found", 404
        )
    return session


def _of_turn(event: Any) -> Told:
    """An event with its own cursor: the subscription's is already that of the last one that has come."""
    cursor = event.data.get("cursor")
    about = {"topic": event.topic, "data": event.data}
    return Told(encoded(about), str(cursor) if cursor else "")


def _is_for(visitor: Visitor, happening: NumberedEvent) -> bool:
    if happening.topic.startswith("web/"):
        return visitor.role == "owner" or happening.topic in ("web/away", "web/back")
    return visitor.share is None or roles.is_about(visitor.share, happening.data)
