"""What comes over WebSockets faster than anybody needs: it waits, costs no memory, and others have turns."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import select
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.server import ServerState
from websockets.exceptions import ConnectionClosed

from fairlead.system.settings import Settings
from fairlead.web import limits
from fairlead.web.access import Grant, Visitor
from fairlead.web.frames import TOO_FAST, FrameProtocol
from fairlead.web.hub import Hub
from fairlead.web.pace import MessagePace
from fairlead.web.terminals import TerminalDoor, _Page
from fairlead.wire import keepty
from tests.hosting import WAIT
from tests.web.browser import Browser, ConsoleHosting

TEXT, PING, MORE = 0x81, 0x89, 0x00


def frame(payload: bytes, kind: int = TEXT) -> bytes:
    length = len(payload)
    size = bytes([0x80 | length]) if length < 126 else b"\xfe" + struct.pack("!H", length)
    return bytes([kind]) + size + b"\0\0\0\0" + payload


def said(**message: Any) -> bytes:
    return frame(json.dumps(message).encode())


def upgrade(host: str, path: str, **headers: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{more}\r\n"
    ).encode()


@contextmanager
def opened(browser: Browser, path: str) -> Iterator[socket.socket]:
    """A WebSocket that reads only when it is told to."""
    with socket.create_connection(("127.0.0.1", browser.port), timeout=WAIT) as connection:
        connection.sendall(upgrade(browser.host, path, Origin=browser.base, Cookie=browser.cookie))
        found = b""
        while b"\r\n\r\n" not in found:
            found += connection.recv(4096)
        assert found.startswith(b"HTTP/1.1 101"), found
        yield connection


def flooded(connection: socket.socket, data: bytes, *, seconds: float, reads: bool) -> bool:
    """Send as much as is taken, for a while; true if the connection was closed."""
    end, at = time.monotonic() + seconds, 0
    connection.setblocking(False)
    try:
        while time.monotonic() < end:
            readable, writable, _ = select.select([connection] if reads else [], [connection], [], 0.1)
            if readable and not connection.recv(65_536):
                return True
            if writable:
                at = (at + connection.send(data[at:])) % len(data)
    except ConnectionError:
        return True
    return False


def resident(pid: int) -> int:
    """The megabytes of a process's memory."""
    [line] = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in each)
    return int(line.split()[1]) // 1024


@pytest.mark.parametrize("role", ["owner", "watcher"])
def test_streams_that_are_asked_for_and_never_read_cost_no_memory(
    console: ConsoleHosting, browser: Browser, role: str
) -> None:
    console.hosting.start("flooded", "cat")
    asking = browser if role == "owner" else console.share("flooded", "watcher")[0]
    numbers = range(60_000)
    data = b"".join(said(t="follow", n=each, session="z") for each in numbers)
    before = resident(console.pid)
    with opened(asking, "/api/live") as connection:
        flooded(connection, data, seconds=3, reads=False)
        assert resident(console.pid) - before < 40
        assert browser.op("session_list").status == 200
    console.hosting.run("stop", "flooded")


def test_a_page_that_asks_for_many_streams_too_many_is_closed(browser: Browser) -> None:
    with browser.live() as live:
        for number in range(3 * limits.MAX_STREAMS):
            live.say(t="follow", n=number)
        with pytest.raises(ConnectionClosed):
            live.until(1, "nothing")
        assert live.connection.close_code == 4429


class _Server:
    """A server of one connection whose application counts the messages that it gets."""

    def __init__(self) -> None:
        self.made: list[FrameProtocol] = []
        self.taken = 0
        self.turns = 0
        self.closely = 0  # messages after which nobody else had a turn
        self.most_waiting = 0
        self.closed = asyncio.Event()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        last = -1
        while (await receive())["type"] == "websocket.receive":
            self.taken += 1
            self.closely += self.turns == last
            last = self.turns
            self.most_waiting = max(self.most_waiting, self.made[0].queue.qsize())
        self.closed.set()

    async def others(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turns += 1

    def protocol(self, config: uvicorn.Config) -> FrameProtocol:
        self.made.append(FrameProtocol(config, ServerState(), {}))
        return self.made[0]

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A client of it that was accepted."""
        config = uvicorn.Config(
            self.app, interface="asgi3", ws=FrameProtocol, ws_ping_interval=None, log_config=None
        )
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: self.protocol(config), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(upgrade("x", "/"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        other = asyncio.ensure_future(self.others())
        try:
            yield reader, writer
        finally:
            other.cancel()
            writer.transport.abort()
            server.close()


def test_messages_are_taken_at_a_pace_and_others_have_turns_between() -> None:
    async def run() -> None:
        server = _Server()
        async with server.connected() as (_, writer):
            began = time.monotonic()
            writer.write(said(t="leave", n=1) * 50_000)
            while server.taken < limits.WS_BURST + 100:
                await asyncio.sleep(0.01)
            assert server.taken <= limits.WS_BURST + limits.WS_RATE * (time.monotonic() - began) + 1
            assert server.closely == 0
            assert server.most_waiting <= limits.WS_PIECE // 6
            assert not server.made[0].transport.is_reading()

    asyncio.run(asyncio.wait_for(run(), WAIT))


@pytest.mark.parametrize("kind", [TEXT, PING], ids=["messages", "pings"])
def test_a_connection_that_is_driven_is_closed(monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    monkeypatch.setattr(limits, "WS_DRIVEN_SECONDS", 0.3)
    monkeypatch.setattr(limits, "WS_CLOSE_SECONDS", 0.5)

    async def run() -> None:
        server = _Server()
        async with server.connected() as (reader, writer):
            writer.write(frame(b"", kind) * 50_000)
            await server.closed.wait()
            found = b""
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(65_536):
                    found = found[-65_536:] + data
            assert server.made[0].disconnected
            assert not found or struct.pack("!H", TOO_FAST) + b"too many messages" in found

    asyncio.run(asyncio.wait_for(run(), WAIT))


def test_a_message_in_endless_pieces_is_refused() -> None:
    async def run() -> None:
        server = _Server()
        async with server.connected() as (_, writer):
            writer.write(frame(b"", TEXT & 0x7F) + frame(b"", MORE) * (limits.WS_MAX_FRAGMENTS + 10))
            await server.closed.wait()
            assert len(server.made[0].frames) <= limits.WS_MAX_FRAGMENTS
            assert server.taken == 0

    asyncio.run(asyncio.wait_for(run(), WAIT))


def test_one_redraw_waits_at_the_most_and_one_after_it() -> None:
    async def run() -> None:
        async def send(message: Any) -> None:
            pass

        hub = Hub(Settings())
        visitor = Visitor(Grant(id="x", digest="", role="owner", since=0, until=2e9), None)
        page = _Page(TerminalDoor(hub), hub, send, visitor, "work", MessagePace(1, 1))
        ours, daemons = socket.socketpair()
        _, page._writer = await asyncio.open_unix_connection(sock=ours)
        page._wire.send(keepty.Hello(keepty.Role.WATCHER, 0, 0))
        page._wire.receive(keepty.HelloAck(1, 80, 24).encode())
        asks = keepty.Resize(keepty.REDRAW_COLS, 0).encode()
        for count in (2, 1, 0):  # one goes out; what came meanwhile makes one more
            for _ in range(100 if count == 2 else 0):
                await page._told('{"t": "redraw"}')
            if count:
                assert daemons.recv(65_536) == asks
            await page._output(b"the screen")
        daemons.setblocking(False)
        with pytest.raises(BlockingIOError):
            daemons.recv(1)
        page._writer.close()
        daemons.close()

    asyncio.run(asyncio.wait_for(run(), WAIT))


def test_nothing_is_written_to_a_connection_that_is_closing(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        server = _Server()
        async with server.connected() as _:
            made = server.made[0]
            made.transport.abort()  # as after a reset, before the protocol is told
            made.conn.receive_data(frame(b"", PING) * 100)
            made.handle_events()
            with pytest.raises(ClientDisconnected):
                await made.send({"type": "websocket.send", "text": "x"})
            await server.closed.wait()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(run(), WAIT))
    assert [each.getMessage() for each in caplog.records if "socket.send" in each.getMessage()] == []


def test_a_pace_counts_in_all_that_it_is_within() -> None:
    now = [0.0]
    whole = MessagePace(10, 20, clock=lambda: now[0])
    first, second = (MessagePace(5, 10, whole, clock=lambda: now[0]) for _ in range(2))
    first.spend(10)
    assert first.wait == 0
    first.spend(5)
    assert (first.wait, second.wait, whole.wait) == (1, 0, 0)
    second.spend(10)
    assert (second.wait, whole.wait) == (0.5, 0.5)
    now[0] = 1.0
    assert (first.wait, second.wait) == (0, 0)
    assert (first.driven, second.driven) == (1, 0)
    now[0] = 2.0
    assert first.driven == 0
