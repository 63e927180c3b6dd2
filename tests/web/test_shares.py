"""What a link that is shared may cost and tell: attacks of somebody who was let in to one session."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import sys
import threading
import time
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from fairlead.web import limits
from fairlead.web.frames import FrameProtocol
from fairlead.web.wired import BadRequest, BodyRoom, Held, json_of
from tests.hosting import WAIT
from tests.web.browser import Browser, ConsoleHosting


def asked(console: ConsoleHosting, op: str, **given: Any) -> threading.Thread:
    """A question that waits for its answer in a thread."""

    def ask() -> None:
        with DaemonConnection(Settings(console.hosting.environment), start=False) as control:
            control.ask(op, **given)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    return asking


def tokens(browser: Browser) -> set[str]:
    return {each["token"] for each in browser.op("approvals").data["approvals"]}


def test_a_share_learns_nothing_of_other_sessions_from_errors(
    console: ConsoleHosting, browser: Browser
) -> None:
    for name in ("tulip1", "tulip2"):
        console.hosting.start(name, "cat")
    guest, _ = console.share("tulip1", "writer")
    about = {"text": "Secret?", "title": "secret plan", "project": "/tmp/secret", "options": ["yes", "no"]}
    waiting = [asked(console, "ask_person", token=f"feedbeef0{each}", **about) for each in (1, 2)]
    console.hosting.until(lambda: {"feedbeef01", "feedbeef02"} <= tokens(browser))
    browser.op("approval_settle", token="feedbeef01", allowed=True, option="answer", text="yes")
    console.hosting.until(lambda: "feedbeef01" not in tokens(browser))
    absent = guest.op("approvals", token="0123456789")
    assert (absent.status, absent.code) == (404, "request/not-found")
    for token in ("feedbeef01", "feedbeef02", "feedbeef", "feed", "tulip2", "/tmp/secret", ""):
        for op, more in (("approvals", {}), ("approval_settle", {"allowed": False})):
            answer = guest.op(op, token=token, **more)
            assert (answer.status, answer.body) == (404, absent.body), (op, token)
    assert "feedbeef02" in tokens(browser)
    assert guest.op("verify_report", report=999_999).body == absent.body
    browser.op("approval_settle", token="feedbeef02", allowed=True, option="answer", text="yes")
    for each in waiting:
        each.join(WAIT)
    console.hosting.run("stop", "tulip1")

    def is_over() -> bool:
        answers = [guest.op(op) for op in ("terminal_screen", "terminal_lines", "session_find")]
        assert not any(b"tulip2" in each.body for each in answers), answers
        return all(each.status in (401, 404) for each in answers)

    console.hosting.until(is_over)
    console.hosting.run("stop", "tulip2")


ASKS = """
from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
with DaemonConnection(Settings(), start=False) as control:
    asked = {"name": "lily", "request_id": "abcdef0123", "what": "Run ls", "whole": "ls\\n" * 50}
    print(control.ask("terminal_permission", **asked))
"""
"""A hook of a session that asks for a permission."""


def test_a_share_sees_and_answers_its_own_questions_whole(console: ConsoleHosting, browser: Browser) -> None:
    console.hosting.start("lily", f"{sys.executable} -c '{ASKS}'; cat")
    guest, _ = console.share("lily", "writer")
    console.hosting.until(lambda: bool(tokens(guest)))
    [token] = tokens(guest)
    [row] = guest.op("approvals", token=token).data["approvals"]
    assert row["preview"].count("ls") >= 50
    assert guest.op("approvals", token=token[:6]).status == 404
    assert guest.op("approval_settle", token=token, allowed=False).status == 200
    again = guest.op("approval_settle", token=token, allowed=False)
    assert (again.status, again.code) == (404, "request/not-found")
    console.hosting.run("stop", "lily")


def head_of(browser: Browser, op: str, length: int) -> bytes:
    return (
        f"POST /api/ops/{op} HTTP/1.1\r\nHost: {browser.host}\r\nOrigin: {browser.base}\r\n"
        f"Cookie: {browser.cookie}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def test_what_a_share_may_not_ask_is_refused_before_its_body_comes(console: ConsoleHosting) -> None:
    console.hosting.start("iris", "cat")
    watcher, _ = console.share("iris", "watcher")
    writer, _ = console.share("iris", "writer")
    for browser, op, length, status in (
        (watcher, "terminal_start", limits.MAX_BODY, b"403"),
        (watcher, "absent", limits.MAX_BODY, b"404"),
        (watcher, "terminal_search", limits.MAX_WATCHER_BODY + 1, b"413"),
        (writer, "session_prompt", limits.MAX_WRITER_BODY + 1, b"413"),
    ):
        with socket.create_connection(("127.0.0.1", browser.port), timeout=WAIT) as connection:
            connection.sendall(head_of(browser, op, length))
            assert connection.recv(4096).split()[1] == status, op
    console.hosting.run("stop", "iris")


def test_a_body_of_very_many_values_is_refused(console: ConsoleHosting, browser: Browser) -> None:
    began = time.monotonic()
    keys = b'{"name":"x",' + b",".join(b'"k%d":1' % each for each in range(600_000)) + b"}"
    empties = b'{"name":"x","needle":[' + b"{}," * 2_000_000 + b"{}]}"
    quotes = b'{"name":["' + b'","' * 2_000_000 + b'"]}'
    for body in (keys, empties, quotes):
        answer = browser.ask("POST", "/api/ops/terminal_search", body)
        assert (answer.status, answer.code) == (400, "web/too-big")
    assert time.monotonic() - began < WAIT
    text = '{"[,]}\\",' * 300_000  # all of that in a string is one value
    answer = browser.op("terminal_search", name="absent", needle=text)
    assert (answer.status, answer.code) == (404, "request/not-found")


def test_a_text_to_look_for_is_short(console: ConsoleHosting, browser: Browser) -> None:
    console.hosting.start("aster", "echo found; cat")
    for given in ({"needle": "a" * 4001}, {"regex": "a" * 4001}):
        answer = browser.op("terminal_search", name="aster", **given)
        assert (answer.status, answer.code) == (400, "request/invalid-params")
    answer = browser.op("terminal_wait", name="aster", text="a" * 4001)
    assert (answer.status, answer.code) == (400, "request/invalid-params")
    assert browser.op("terminal_wait", name="aster", text="found", scrollback=True).data["matched"]
    console.hosting.run("stop", "aster")


def test_bodies_that_are_held_have_room_for_so_many_together() -> None:
    async def run() -> None:
        whole = BodyRoom(100)
        shares = BodyRoom(60, whole)
        scope = {"headers": [(b"content-type", b"application/json")]}
        never = asyncio.Event()

        async def body(data: bytes) -> Any:
            parts = [data]

            async def receive() -> dict[str, Any]:
                if not parts:
                    await never.wait()
                return {"type": "http.request", "body": parts.pop(), "more_body": True}

            return receive

        async def held(room: BodyRoom, data: bytes) -> None:
            with Held(room) as place:
                await json_of(scope, await body(data), held=place)

        slow = asyncio.ensure_future(held(shares, b" " * 50))
        while whole.left != 50:
            await asyncio.sleep(0)
        with pytest.raises(BadRequest, match="too much is being sent"):
            await held(shares, b" " * 20)
        other = asyncio.ensure_future(held(whole, b" " * 50))  # there is room for who is no share
        while whole.left:
            await asyncio.sleep(0)
        with pytest.raises(BadRequest, match="too much is being sent"):
            await held(shares, b" ")
        for each in (slow, other):
            each.cancel()
        await asyncio.gather(slow, other, return_exceptions=True)
        assert (whole.left, shares.left) == (100, 60)

    asyncio.run(asyncio.wait_for(run(), WAIT))


def test_pings_whose_answers_are_not_read_cost_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WS_RATE", "WS_BURST"):  # so many would be made to wait, then be the end of the connection
        monkeypatch.setattr(limits, name, 1e9)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await receive()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        config = uvicorn.Config(app, ws=FrameProtocol, ws_ping_interval=None, log_config=None)
        made: list[FrameProtocol] = []

        def connected() -> FrameProtocol:
            made.append(FrameProtocol(config, ServerState(), {}))
            return made[0]

        server = await loop.create_server(connected, "127.0.0.1", 0)
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.setblocking(False)
        await loop.sock_connect(plain, server.sockets[0].getsockname())
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        more = f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        await loop.sock_sendall(plain, (upgrade + more).encode())
        assert (await loop.sock_recv(plain, 4096)).startswith(b"HTTP/1.1 101")
        for number in range(160):
            frame = b"\x89\xfd\0\0\0\0" + f"{number:0125d}".encode()
            await loop.sock_sendall(plain, frame * 500)
            assert made[0].transport.get_write_buffer_size() < 2 * 1024 * 1024
        last, found = f"{159:0125d}".encode(), b""
        async with asyncio.timeout(WAIT):
            while last not in found:  # what was asked last is answered
                found = found[-200:] + await loop.sock_recv(plain, 65_536)
        plain.close()
        server.close()

    asyncio.run(run())
