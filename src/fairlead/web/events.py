"""Server-sent events: what happens to all sessions, or in one agent session, with cursors.

A page that does not read fast enough is told to fetch everything again; what waits for it is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

from ..client.aio_streams import AgentEvents
from ..client.calls import RequestError
from ..client.following import AgentSubscription
from . import limits, roles
from .access import AccessRefused, Visitor
from .hub import Hub, NumberedEvent
from .shared import session_named
from .wired import Receive, Scope, Send, encoded, header, sent_fault

log = logging.getLogger("fairlead.web")

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
MAX_CURSOR = 200
MAX_FIELDS = 10
MAX_PIECE = 1024 * 1024
"""How many bytes of an agent's events are read before the page gets them."""


class _Waiting:
    """What waits for one page. It never grows beyond its limit: then only that is left that it is behind."""

    def __init__(self) -> None:
        self._queue: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._is_behind = False

    def put(self, piece: bytes) -> None:
        if self._is_behind:
            return
        if len(self._queue) >= limits.MAX_EVENTS_WAITING:
            self._queue.clear()
            self._is_behind = True
        else:
            self._queue.append(piece)
        self._more.set()

    async def take(self, cursor: str) -> bytes:
        """All that waits, or that the page is behind."""
        await self._more.wait()
        self._more.clear()
        if self._is_behind:
            self._is_behind = False
            return event_bytes({"cursor": cursor}, id=cursor, name="reset")
        taken = b"".join(self._queue)
        self._queue.clear()
        return taken


class _AgentEvents(AgentEvents):
    @property
    def has_more(self) -> bool:
        """True if the next event is here already."""
        return bool(self._events)


def event_bytes(data: Any, *, id: str = "", name: str = "") -> bytes:
    """One event as a browser's EventSource reads it. JSON has no line's end in it."""
    lines = [b"event: " + name.encode()] if name else []
    if id:
        lines.append(b"id: " + id.encode())
    return b"\n".join((*lines, b"data: " + encoded(data), b"", b""))


class EventStreams:
    """Answers `GET /api/events`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.open = 0

    async def answer(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=MAX_FIELDS)
        except ValueError:
            await sent_fault(scope, send, 400, "request/invalid-params", "too many parameters")
            return
        since = header(scope, b"last-event-id") or (query.get("since") or [""])[0]
        session = (query.get("session") or [""])[0]
        if len(since) > MAX_CURSOR or len(session) > MAX_CURSOR:
            await sent_fault(scope, send, 400, "request/invalid-params", "a cursor or id is too long")
            return
        if visitor.streams >= limits.MAX_STREAMS:
            await sent_fault(scope, send, 429, "web/too-many", "too many event streams are open")
            return
        try:
            if session:
                session = self._session_for(visitor, session)
        except AccessRefused as error:
            await sent_fault(scope, send, error.status, error.code, str(error))
            return
        visitor.streams += 1
        self.open += 1
        try:
            pieces = self._of_agent(session, since) if session else self._of_all(visitor, since)
            await _stream(pieces, scope, receive, send, visitor)
        finally:
            visitor.streams -= 1
            self.open -= 1

    def _session_for(self, visitor: Visitor, session: str) -> str:
        share = visitor.share
        session = session_named(share, session)
        if share is not None and share.kind == "terminal":
            raise AccessRefused(
                "the shared session is a terminal; its events are those of /api/events",
                "request/not-found",
                404,
            )
        return session

    def _hello(self, cursor: str) -> bytes:
        daemon = "away" if self._hub.is_away else "here"
        return event_bytes({"cursor": cursor, "daemon": daemon}, id=cursor, name="hello")

    # --- of all sessions ----------------------------------------------------------------------------------

    async def _of_all(self, visitor: Visitor, since: str) -> AsyncIterator[bytes]:
        waiting = _Waiting()

        def told(happening: NumberedEvent) -> None:
            if _is_for(visitor, happening):
                waiting.put(self._told(happening))

        missed = self._hub.since(since) if since else []
        stop = self._hub.listen(told)
        try:
            first = self._hello(self._hub.cursor)
            if missed is None:
                first += event_bytes({"cursor": self._hub.cursor}, id=self._hub.cursor, name="reset")
            yield first + b"".join(self._told(each) for each in missed or () if _is_for(visitor, each))
            while True:
                yield await waiting.take(self._hub.cursor)
        finally:
            stop()

    def _told(self, happening: NumberedEvent) -> bytes:
        about = {"topic": happening.topic, "data": happening.data}
        return event_bytes(about, id=self._hub.cursor_at(happening.number))

    # --- of one agent session -----------------------------------------------------------------------------

    async def _of_agent(self, session: str, since: str) -> AsyncIterator[bytes]:
        """What happens in one agent session; goes on with the next daemon."""
        source = AgentSubscription(session, since or None, so_far=True)
        yield self._hello(since)
        while True:
            events = _AgentEvents(source, self._hub.settings)
            try:
                async with events:
                    while True:
                        event = await events.next()
                        piece = bytearray(self._of_turn(event))
                        while events.has_more and len(piece) < MAX_PIECE:
                            piece += self._of_turn(await events.next())
                        yield bytes(piece)
            except RequestError as error:
                yield event_bytes({"code": error.code, "message": str(error)}, name="refused")
                return
            except (ConnectionError, TimeoutError, OSError) as error:
                yield event_bytes({"topic": "web/away", "data": {"why": str(error)}})
                while self._hub.is_away:
                    await self._hub.changed.wait()
                await asyncio.sleep(limits.PEER_SECONDS / 10)
                yield event_bytes({"topic": "web/back", "data": {}})

    @staticmethod
    def _of_turn(event: Any) -> bytes:
        """An event with its own cursor: the subscription's is already that of the last one that has come. One
        without leaves the page's as it is."""
        cursor = event.data.get("cursor")
        return event_bytes({"topic": event.topic, "data": event.data}, id=str(cursor) if cursor else "")


def _is_for(visitor: Visitor, happening: NumberedEvent) -> bool:
    if happening.topic.startswith("web/"):
        return visitor.role == "owner" or happening.topic in ("web/away", "web/back")
    return visitor.share is None or roles.is_about(visitor.share, happening.data)


async def _stream(
    pieces: AsyncIterator[bytes], scope: Scope, receive: Receive, send: Send, visitor: Visitor
) -> None:
    """Send pieces as they come, and a comment now and then, until who reads goes or may not read any more."""
    await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
    ending: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(_gone(receive)),
        asyncio.ensure_future(visitor.ended.wait()),
    ]
    next_piece: asyncio.Future[bytes] | None = None
    try:
        while not any(each.done() for each in ending):
            next_piece = next_piece or asyncio.ensure_future(anext(pieces))
            await asyncio.wait(
                [next_piece, *ending],
                timeout=limits.HEARTBEAT_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if any(each.done() for each in ending):
                break
            piece = b": still here\n\n"
            if next_piece.done():
                try:
                    piece = next_piece.result()
                except StopAsyncIteration:
                    break
                finally:
                    next_piece = None
            async with asyncio.timeout(limits.STALL_SECONDS):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        log.info("a page has not read its events for %g s; it was dropped", limits.STALL_SECONDS)
    finally:
        left = ending if next_piece is None else [*ending, next_piece]
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await pieces.aclose()  # type: ignore[attr-defined]


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
