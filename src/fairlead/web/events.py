"""`GET /api/events`: what happens as server-sent events, for programs. Pages have `live`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from urllib.parse import parse_qs

from . import limits
from .accepting import drop_connection
from .access import AccessRefused, Visitor
from .feeds import Feeds, Pieces, Told
from .wired import Receive, Scope, Send, header, sent_fault

log = logging.getLogger("fairlead.web")

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
MAX_FIELDS = 10


def event_bytes(told: Told) -> bytes:
    """One event as a browser's EventSource reads it. JSON has no line's end in it."""
    lines = [b"event: " + told.name.encode()] if told.name else []
    if told.id:
        lines.append(b"id: " + told.id.encode())
    return b"\n".join((*lines, b"data: " + told.body, b"", b""))


class EventStreams:
    """Answers `GET /api/events`."""

    def __init__(self, feeds: Feeds) -> None:
        self._feeds = feeds

    async def answer(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        try:
            query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=MAX_FIELDS)
        except ValueError:
            await sent_fault(scope, send, 400, "request/invalid-params", "too many parameters")
            return
        since = header(scope, b"last-event-id") or (query.get("since") or [""])[0]
        session = (query.get("session") or [""])[0]
        pieces = self._feeds.stream(visitor, session, since)
        try:
            first = await anext(pieces)
        except AccessRefused as error:
            await sent_fault(scope, send, error.status, error.code, str(error))
            return
        await _stream(first, pieces, scope, receive, send, visitor)


async def _stream(
    first: list[Told], pieces: Pieces, scope: Scope, receive: Receive, send: Send, visitor: Visitor
) -> None:
    """Send pieces as they come, and a comment now and then, until who reads goes or may not read any more."""
    ending: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(_gone(receive)),
        asyncio.ensure_future(visitor.ended.wait()),
    ]
    next_piece: asyncio.Future[list[Told]] | None = None
    try:
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        body = b"".join(map(event_bytes, first))
        while True:
            async with asyncio.timeout(limits.STALL_SECONDS):
                await send({"type": "http.response.body", "body": body, "more_body": True})
            next_piece = next_piece or asyncio.ensure_future(anext(pieces))
            await asyncio.wait(
                [next_piece, *ending],
                timeout=limits.HEARTBEAT_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if any(each.done() for each in ending):
                break
            body = b": still here\n\n"
            if next_piece.done():
                try:
                    body = b"".join(map(event_bytes, next_piece.result()))
                except StopAsyncIteration:
                    break
                finally:
                    next_piece = None
        await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        log.info("a page has not read its events for %g s; it was dropped", limits.STALL_SECONDS)
        drop_connection(scope)
    finally:
        left = ending if next_piece is None else [*ending, next_piece]
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await pieces.aclose()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
