"""`WS /api/live`: what happens, for pages. One connection of a page has all of its streams: that of all
sessions, and those of the agent sessions that it shows. A browser opens at most six other connections to a
host, but many WebSockets, so that any number of pages stays live.

The page says `{"t": "follow", "n": 1, "session": ID, "since": CURSOR}`, without a session for all of them,
and `{"t": "leave", "n": 1}`; `n` is a number of its own for the stream. It gets arrays of events, each with
the stream's `n`, its `data`, the cursor after it as `id`, and for those about the stream itself their name
as `event`. An empty array comes now and then, so that it is noticed when one end has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from . import limits
from .accepting import pace_of
from .access import AccessRefused, Visitor
from .feeds import REFUSED, Feeds, Told
from .pace import MessagePace
from .wired import Receive, Scope, Send, encoded, sent_fault

PROTOCOL, NO_SESSION, TOO_MANY = 4400, 4401, 4429
"""Codes with which the connection is closed, as those of terminals."""
MAX_NUMBER = 2**31


class LiveClosed(Exception):
    """The page's connection is over."""

    def __init__(self, code: int = -1, reason: str = "") -> None:
        super().__init__(reason)
        self.code = code


class LiveDoor:
    """Answers `WS /api/live`."""

    def __init__(self, feeds: Feeds) -> None:
        self._feeds = feeds
        self.open = 0

    async def answer(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor) -> None:
        if visitor.pages >= (limits.MAX_PAGES if visitor.share is None else limits.MAX_SHARE_PAGES):
            await sent_fault(scope, send, 429, "web/too-many", "too many pages are open")
            return
        visitor.pages += 1
        self.open += 1
        try:
            await receive()
            await send({"type": "websocket.accept"})
            await _Live(self._feeds, send, visitor, pace_of(scope)).run(receive)
        finally:
            visitor.pages -= 1
            self.open -= 1


class _Live:
    """The connection of one page."""

    def __init__(self, feeds: Feeds, send: Send, visitor: Visitor, pace: MessagePace) -> None:
        self._feeds = feeds
        self._sending = send
        self._visitor = visitor
        self._pace = pace
        self._most = limits.MAX_STREAMS if visitor.share is None else limits.MAX_SHARE_STREAMS
        self._refused = 0
        self._streams: dict[int, asyncio.Task[None]] = {}
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, receive: Receive) -> None:
        """Serve the page until one side ends it."""
        tasks: list[asyncio.Future[None]] = [
            asyncio.ensure_future(self._hear(receive)),
            asyncio.ensure_future(self._until_ended()),
            asyncio.ensure_future(self._beat()),
            self._failed,
        ]
        code, reason = 1011, "the console failed"
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            error = next(iter(done)).exception()
            if isinstance(error, LiveClosed):
                code, reason = error.code, str(error)
            elif error is not None:
                raise error
        finally:
            ending = [*tasks, *self._streams.values()]
            for each in ending:
                each.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            if code >= 0:
                with contextlib.suppress(Exception):
                    await self._sent({"type": "websocket.close", "code": code, "reason": reason[:100]})

    async def _until_ended(self) -> None:
        await self._visitor.ended.wait()
        raise LiveClosed(NO_SESSION, "the right to be here has ended")

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(limits.HEARTBEAT_SECONDS)
            await self._sent({"type": "websocket.send", "text": "[]"})

    async def _sent(self, message: dict[str, Any]) -> None:
        """Send something. It waits for a page that does not read; `frames` drops one that never does."""
        try:
            await self._sending(message)
        except OSError:
            raise LiveClosed from None

    # --- what the page says -------------------------------------------------------------------------------

    async def _hear(self, receive: Receive) -> None:
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                raise LiveClosed
            try:
                said = json.loads(message.get("text") or "")
                kind, number = said["t"], said["n"]
                is_clear = type(number) is int and 0 <= number < MAX_NUMBER
            except (ValueError, TypeError, KeyError, RecursionError):
                is_clear = False
            if not is_clear:
                raise LiveClosed(PROTOCOL, "a message is a JSON object with `t` and a number `n`")
            if kind == "follow":
                await self._follow(number, said.get("session") or "", said.get("since") or "")
            elif kind == "leave":
                await self._leave(number)
            else:
                raise LiveClosed(PROTOCOL, "there is no such message")

    async def _follow(self, number: int, session: Any, since: Any) -> None:
        if type(session) is not str or type(since) is not str:
            raise LiveClosed(PROTOCOL, "a session and a cursor are texts")
        if number in self._streams:
            raise LiveClosed(PROTOCOL, "there is a stream of this number already")
        self._pace.spend(limits.FOLLOW_COST)
        if len(self._streams) >= self._most:  # told here: nothing more is read until the page has read that
            self._refused += 1
            if self._refused > self._most:
                raise LiveClosed(TOO_MANY, "too many event streams")
            why = encoded({"code": "web/too-many", "message": "too many event streams are open"})
            await self._tell(number, [Told(why, name=REFUSED)])
            return
        task = asyncio.ensure_future(self._pass_on(number, session, since))
        task.add_done_callback(self._over)
        self._streams[number] = task

    def _over(self, task: asyncio.Task[None]) -> None:
        """What fails in a stream ends the connection, so that the page comes again."""
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _leave(self, number: int) -> None:
        """End a stream; one that has ended by itself, or never was, is none."""
        task = self._streams.pop(number, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # --- what it gets -------------------------------------------------------------------------------------

    async def _pass_on(self, number: int, session: str, since: str) -> None:
        """Send what happens in one stream, until it is over."""
        pieces = self._feeds.stream(self._visitor, session, since)
        try:
            async for piece in pieces:
                await self._tell(number, piece)
        except AccessRefused as error:
            why = encoded({"code": error.code, "message": str(error)})
            await self._tell(number, [Told(why, name=REFUSED)])
        finally:
            await pieces.aclose()
            if self._streams.get(number) is asyncio.current_task():
                del self._streams[number]

    async def _tell(self, number: int, piece: list[Told]) -> None:
        if piece:
            events = b",".join(_event(number, each) for each in piece)
            await self._sent({"type": "websocket.send", "text": f"[{events.decode()}]"})


def _event(number: int, told: Told) -> bytes:
    name = b'"event":%b,' % encoded(told.name) if told.name else b""
    id = b'"id":%b,' % encoded(told.id) if told.id else b""
    return b'{"n":%d,%b%b"data":%b}' % (number, name, id, told.body)
