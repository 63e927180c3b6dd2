"""A terminal session in a browser: a WebSocket on one side, a client of keepty on the other.

A page watches until it takes the pen. keepty's clients are writers or watchers for as long as they are
connected, so the pen means another connection to the session, which begins with a redraw.

The page acknowledges output when its terminal has drawn it. While it owes more than the window, nothing is
read from the session: then the daemon leaves this client out, and shows it the screen afresh when it reads
again. So a page that lags costs neither memory nor the time of others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from ..client.calls import RequestError
from ..client.launch import session_socket
from ..client.links import close_writer
from ..wire import keepty
from ..wire.faults import Broken
from . import limits
from .accepting import pace_of
from .access import AccessRefused, Visitor
from .hub import Hub
from .pace import MessagePace
from .roles import may_write
from .shared import session_named, shared_row
from .wired import Receive, Scope, Send, sent_fault

WISHES = keepty.Wish.REASONS | keepty.Wish.REDRAWS | keepty.Wish.TAKEOVER | keepty.Wish.NOTICES
AGAIN_SECONDS = 0.1
"""Seconds until a session whose connection was lost is connected to again; the daemon is waited for first."""
MAX_NAME = 200

_BROWSERS = (
    *(("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("FxiOS/", "Firefox")),
    *(
        ("SamsungBrowser/", "Samsung Internet"),
        ("CriOS/", "Chrome"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ),
)
_SYSTEMS = (
    *(("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows")),
    *(("Mac OS X", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux")),
)
"""What is in the names of browsers, and what that means; the first one that is there."""

PROTOCOL, NO_SESSION, NO_RIGHT, NOT_FOUND = 4400, 4401, 4403, 4404
"""Codes with which the connection is closed."""


class PageClosed(Exception):
    """The page's connection is over."""

    def __init__(self, code: int = 1000, fault: str = "", message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.fault = fault


class Away(Exception):
    """The session's connection is over."""


class TerminalDoor:
    """Answers `WS /api/terminals/ID`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.open = 0
        self.bytes_out = self.bytes_in = 0

    async def answer(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor, name: str) -> None:
        share = visitor.share
        try:
            name = session_named(share, name)
        except AccessRefused as error:
            await sent_fault(scope, send, error.status, error.code, str(error))
            return
        if share is not None and share.kind != "terminal":
            await sent_fault(scope, send, 404, "request/not-found", "the shared session has no terminal")
            return
        if visitor.role == "answerer":
            await sent_fault(scope, send, 403, "web/role", "this token may not see terminals")
            return
        if visitor.terminals >= (limits.MAX_TERMINALS if share is None else limits.MAX_SHARE_TERMINALS):
            await sent_fault(scope, send, 429, "web/too-many", "too many terminals are open")
            return
        if not name or len(name) > MAX_NAME or "/" in name or "\0" in name:
            await sent_fault(scope, send, 404, "request/not-found", "there is no such session")
            return
        await receive()
        await send({"type": "websocket.accept"})
        visitor.terminals += 1
        self.open += 1
        page = _Page(self, self._hub, send, visitor, name, pace_of(scope))
        try:
            await page.run(receive)
        finally:
            visitor.terminals -= 1
            self.open -= 1


class _Page:
    """One page that shows one terminal."""

    def __init__(
        self, door: TerminalDoor, hub: Hub, send: Send, visitor: Visitor, name: str, pace: MessagePace
    ) -> None:
        self._door = door
        self._hub = hub
        self._send = send
        self._visitor = visitor
        self._name = name
        self._pace = pace
        self._is_redrawing = False  # whether the session was asked for a redraw and has said nothing since
        self._redraws_again = False  # and it was asked for again meanwhile
        self._settings = hub.settings  # what leads to the daemon that has the session
        self._wants_pen = False
        self._has_pen = False
        self._asked = (0, 0)  # the size with which the pen is taken
        self._unacked = 0
        self._room = asyncio.Event()
        self._room.set()
        self._wire = keepty.ClientConnection()
        self._writer: asyncio.StreamWriter | None = None
        self._anew = False  # whether the session is to be connected to in another role

    # --- the whole ----------------------------------------------------------------------------------------

    async def run(self, receive: Receive) -> None:
        """Serve the page until one side ends it."""
        tasks = [
            asyncio.ensure_future(self._hear(receive)),
            asyncio.ensure_future(self._show()),
            asyncio.ensure_future(self._until_ended()),
        ]
        code, reason = 1000, ""
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                error = each.exception()
                if isinstance(error, PageClosed):
                    code, reason = error.code, str(error)
                    if error.fault:
                        await self._tell(t="error", code=error.fault, message=reason)
                elif error is not None:
                    raise error
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._drop()
            if code >= 0:
                with contextlib.suppress(Exception):
                    await self._send({"type": "websocket.close", "code": code, "reason": reason[:100]})

    async def _until_ended(self) -> None:
        await self._visitor.ended.wait()
        raise PageClosed(NO_SESSION, "web/no-session", "the right to be here has ended")

    async def _tell(self, **message: Any) -> None:
        await self._send({"type": "websocket.send", "text": json.dumps(message)})

    async def _drop(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await close_writer(writer)

    # --- from the session to the page ---------------------------------------------------------------------

    async def _show(self) -> None:
        """Show the session until it has ended; a daemon that dies is waited for."""
        is_lost = False
        while True:
            self._anew = False
            self._leave_room()
            try:
                reader = await self._connect()
                if is_lost:
                    is_lost = False
                    await self._tell(t="back")
                await self._pass_on(reader)
            except (Away, ConnectionError, TimeoutError, OSError) as error:
                await self._drop()
                if not is_lost:
                    is_lost = True
                    await self._tell(t="away", why=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
                if self._settings.host:
                    await self._hub.back(self._settings)

    async def _connect(self) -> asyncio.StreamReader:
        """Become a client of the session, in the role that is wanted."""
        await self._drop()
        await self._hub.here()  # which looks for it, and knows whether it was stopped
        role = keepty.Role.WRITER if self._wants_pen else keepty.Role.WATCHER
        wire = self._wire = keepty.ClientConnection()
        self._is_redrawing = self._redraws_again = False
        name = self._name
        if self._visitor.share is None:
            self._settings, name = await self._hub.place(name)
        found = await asyncio.to_thread(session_socket, name, self._settings)
        if found is None:
            raise PageClosed(NOT_FOUND, "request/not-found", f"no terminal session {self._name!r}")
        reader, writer = await asyncio.open_unix_connection(sock=found, limit=limits.READ_SIZE)
        self._writer = writer
        if self._visitor.share is not None:  # after connecting: another one of its name may have just begun
            try:
                await shared_row(self._hub, self._visitor.share)
            except (AccessRefused, RequestError) as error:
                raise PageClosed(NOT_FOUND, error.code, str(error)) from None
        size = self._asked if self._wants_pen else (0, 0)
        writer.write(wire.send(keepty.Hello(role, *size, WISHES, name=page_name(self._visitor.grant.label))))
        return reader

    async def _pass_on(self, reader: asyncio.StreamReader) -> None:
        """Pass on what the session says. Returns when it is to be connected to anew."""
        while not self._anew:
            await self._room.wait()
            data = await reader.read(limits.READ_SIZE)
            if self._anew:
                return
            if not data:
                raise Away("the daemon closed the connection")
            if (output := self._wire.only_output(data)) is not None:
                await self._output(output)
            else:
                await self._take(self._wire.receive(data))

    def _connect_anew(self) -> None:
        """Have `_pass_on` return, whatever it waits for."""
        self._anew = True
        self._room.set()
        if self._writer is not None:
            self._writer.close()  # which still sends what was typed; the reader finds the end

    async def _take(self, messages: list[keepty.Message | Broken]) -> None:
        output: list[bytes] = []
        for message in messages:
            if isinstance(message, keepty.Output):
                output.append(message.data)
                continue
            if output:
                await self._output(b"".join(output))
                output = []
            await self._said(message)
        if output:
            await self._output(b"".join(output))

    async def _output(self, data: bytes) -> None:
        self._unacked += len(data)
        self._door.bytes_out += len(data)
        self._leave_room()
        await self._send({"type": "websocket.send", "bytes": data})
        if self._is_redrawing:
            self._is_redrawing = False
            if self._redraws_again:
                await self._redraw()

    async def _redraw(self) -> None:
        """Have the session draw its screen; one redraw waits at the most, and one after it."""
        if self._is_redrawing:
            self._redraws_again = True
        elif self._writer is not None and self._wire.state is keepty.State.OPEN:  # else it begins with one
            self._is_redrawing, self._redraws_again = True, False
            await self._write([keepty.Resize(keepty.REDRAW_COLS, 0)])

    async def _said(self, message: keepty.Message | Broken) -> None:
        match message:
            case keepty.HelloAck(cols=cols, rows=rows):
                await self._tell(t="size", cols=cols, rows=rows)
                self._has_pen = self._wants_pen
                await self._tell_pen()
                await self._tell(t="redraw")
            case keepty.ResizeAck(cols=cols, rows=rows, writer=writer):
                if writer is None:
                    await self._tell(t="size", cols=cols, rows=rows)
                else:  # somebody else writes now, or has left; who wants the pen again takes it
                    self._has_pen = self._wants_pen = False
                    await self._tell_pen(writer)
            case keepty.Exit(code=code):
                await self._tell(t="ended", code=code)
                raise PageClosed
            case keepty.Error(text=text):
                if self._wire.state is keepty.State.GREETED:
                    raise PageClosed(NO_RIGHT, "runtime/failed", text)
                await self._tell(t="said", text=text)
            case Broken(reason=reason):
                raise Away(reason)

    async def _tell_pen(self, by: str | None = None) -> None:
        await self._tell(t="pen", mine=self._has_pen, by=by, may=may_write(self._visitor))

    # --- from the page to the session ---------------------------------------------------------------------

    async def _hear(self, receive: Receive) -> None:
        """Do what the page says."""
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                raise PageClosed(-1)
            data = message.get("bytes")
            if data is not None:
                await self._typed(bytes(data))
            else:
                await self._told(message.get("text") or "")

    async def _typed(self, data: bytes) -> None:
        if not self._has_pen or not may_write(self._visitor):
            await self._tell(t="error", code="web/no-pen", message="only who has the pen can type")
            return
        self._door.bytes_in += len(data)
        await self._write([*keepty.Input.split(data)])

    async def _write(self, messages: list[keepty.Message]) -> None:
        writer = self._writer
        if writer is None or self._wire.state is not keepty.State.OPEN:
            return
        for each in messages:
            writer.write(self._wire.send(each))
        with contextlib.suppress(ConnectionError):  # who reads sees it
            await writer.drain()

    async def _told(self, text: str) -> None:
        try:
            message = json.loads(text)
            kind = message["t"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise PageClosed(PROTOCOL, "web/protocol", "a text must be a JSON object with a `t`") from None
        match kind:
            case "ack":
                self._acked(message.get("bytes"))
            case "take-pen":
                if not may_write(self._visitor):
                    await self._tell(t="error", code="web/role", message="this link may only watch")
                    return
                self._pace.spend(limits.PEN_COST)
                self._asked = _size(message) or (0, 0)
                self._wants_pen = True
                self._connect_anew()
            case "drop-pen":
                if self._wants_pen:
                    self._pace.spend(limits.PEN_COST)
                    self._wants_pen = self._has_pen = False
                    self._connect_anew()
            case "resize":
                size = _size(message)
                if size is None:
                    raise PageClosed(PROTOCOL, "web/protocol", "a size has cols and rows from 1 to 10000")
                if self._has_pen:
                    self._asked = size
                    await self._write([keepty.Resize(*size)])
            case "redraw":
                self._pace.spend(limits.REDRAW_COST)
                await self._redraw()
            case _:
                raise PageClosed(PROTOCOL, "web/protocol", "there is no such message")

    def _acked(self, count: Any) -> None:
        if type(count) is not int or not 0 <= count <= self._unacked:
            raise PageClosed(PROTOCOL, "web/protocol", "more was acknowledged than was sent")
        self._unacked -= count
        self._leave_room()

    def _leave_room(self) -> None:
        """Read on if the page owes little enough."""
        if self._unacked < limits.WINDOW:
            self._room.set()
        else:
            self._room.clear()


def page_name(label: str) -> str:
    """What others are told of a page that writes, by what its browser calls itself."""
    browser = next((name for mark, name in _BROWSERS if mark in label), "")
    system = next((name for mark, name in _SYSTEMS if mark in label), "")
    return " on ".join(each for each in (f"a page in {browser}" if browser else "a page", system) if each)


def _size(message: dict[str, Any]) -> tuple[int, int] | None:
    cols, rows = message.get("cols"), message.get("rows")
    if type(cols) is not int or type(rows) is not int:
        return None
    in_range = 1 <= cols <= keepty.MAX_SIZE and 1 <= rows <= keepty.MAX_SIZE
    return (cols, rows) if in_range else None
