"""The pages' WebSocket: all that happens over one connection, and what waits for one that does not read."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fairlead.system.settings import Settings
from fairlead.web import limits
from fairlead.web.access import Grant, Visitor
from fairlead.web.feeds import HELLO, RESET, Feeds
from fairlead.web.frames import FrameProtocol
from fairlead.web.hub import Hub
from fairlead.web.wired import Receive, Scope, Send
from tests.hosting import WAIT
from tests.web.browser import Browser, ConsoleHosting


def test_one_connection_has_all_sessions_and_each_agent_that_is_followed(
    console: ConsoleHosting, browser: Browser
) -> None:
    home = console.hosting.environment["HOME"]
    ids = [browser.op("open_session", name=name, cwd=home).data["session_id"] for name in ("rose", "ivy")]
    with browser.live() as live:
        hello = live.follow(1)
        assert (hello["event"], hello["data"]["daemon"]) == ("hello", "here")
        for number, id in enumerate(ids, 2):
            assert live.follow(number, id)["event"] == "hello"
        for number, id in enumerate(ids, 2):
            assert browser.op("prompt", session_id=id, message="hello").status == 200
            live.until(number, "session/turn-began", session_id=id)
            live.until(number, "session/turn-ended", session_id=id)
        live.say(t="leave", n=2)
        live.say(t="leave", n=2)  # what is over is over
        live.say(t="leave", n=99)
        console.hosting.start("seen", "cat")
        live.until(1, "terminal/started", name="seen")
        assert browser.op("prompt", session_id=ids[0], message="hello").status == 200
        assert browser.op("prompt", session_id=ids[1], message="hello").status == 200
        while (event := live.take())["data"].get("topic") != "session/turn-ended":
            assert event["n"] != 2
        assert live.follow(2, ids[0])["event"] == "hello"
    console.hosting.run("stop", "seen")


def test_a_connection_that_comes_back_gets_what_was_missed_of_each_stream(
    console: ConsoleHosting, browser: Browser
) -> None:
    id = browser.op("open_session", name="fern", cwd=console.hosting.environment["HOME"]).data["session_id"]
    with browser.live() as live:
        live.follow(1)
        live.follow(2, id)
        console.hosting.start("before", "cat")
        of_all = live.until(1, "terminal/started", name="before")["id"]
        assert browser.op("prompt", session_id=id, message="hello").status == 200
        of_agent = live.until(2, "session/turn-began", session_id=id)["id"]
        live.until(2, "session/turn-ended", session_id=id)
    console.hosting.run("stop", "before")
    with browser.live() as live:
        assert live.follow(7, since=of_all)["event"] == "hello"
        live.until(7, "terminal/exited", name="before")
        live.follow(8, id, of_agent)
        live.until(8, "session/turn-ended", session_id=id)
        for number, cursor in enumerate(("nonsense", "00000000-7"), 20):
            live.follow(number, since=cursor)
            assert live.take() | {"id": "", "data": {}} == {
                "n": number,
                "event": "reset",
                "id": "",
                "data": {},
            }


def test_a_stream_that_is_refused_leaves_the_others(browser: Browser, console: ConsoleHosting) -> None:
    with browser.live() as live:
        live.follow(1)
        assert live.follow(2, "absent")["event"] == "hello"
        refused = live.take()
        assert (refused["n"], refused["event"], refused["data"]["code"]) == (
            2,
            "refused",
            "request/not-found",
        )
        assert live.follow(3, "x" * 1000)["data"]["code"] == "request/invalid-params"
        for number in range(100, 100 + limits.MAX_STREAMS - 1):
            assert live.follow(number)["event"] == "hello"
        assert live.follow(4)["data"]["code"] == "web/too-many"
        console.hosting.start("still", "cat")
        live.until(1, "terminal/started", name="still")
        console.hosting.run("stop", "still")


@pytest.mark.parametrize(
    "said",
    [
        *("", "[]", "{", '{"t": "follow"}', '{"t": "follow", "n": "1"}', '{"t": "follow", "n": -1}'),
        *('{"t": "follow", "n": true}', '{"t": "follow", "n": 1, "session": 7}', '{"t": "shout", "n": 1}'),
        *("[" * 60_000, b'{"t": "follow", "n": 1}'),
    ],
    ids=lambda said: repr(said[:30]),
)
def test_what_makes_no_sense_ends_the_connection(browser: Browser, said: str | bytes) -> None:
    with browser.live() as live:
        live.connection.send(said)
        with pytest.raises(ConnectionClosed):
            live.take()
        assert live.connection.close_code == 4400


def test_a_number_stands_for_one_stream(browser: Browser) -> None:
    with browser.live() as live:
        live.follow(1)
        live.say(t="follow", n=1)
        with pytest.raises(ConnectionClosed):
            live.take()
        assert live.connection.close_code == 4400


def test_who_may_not_be_here_any_more_hears_nothing_more(console: ConsoleHosting) -> None:
    console.hosting.start("lent", "cat")
    guest, id = console.share("lent", "watcher")
    with guest.live() as live:
        live.follow(1)
        console.hosting.run("web", "--revoke", id)
        with pytest.raises(ConnectionClosed):
            live.take()
        assert live.connection.close_code == 4401
    with pytest.raises(InvalidStatus) as refused, guest.live():
        pass
    assert refused.value.response.status_code == 401
    console.hosting.run("stop", "lent")


def test_a_guest_has_the_events_of_its_session_only(console: ConsoleHosting, browser: Browser) -> None:
    id = browser.op("open_session", name="moss", cwd=console.hosting.environment["HOME"]).data["session_id"]
    console.hosting.start("given", "cat")
    guest, _ = console.share("given", "watcher")
    with guest.live() as live:
        live.follow(1)
        assert live.follow(2, id)["data"]["code"] == "web/share"
        assert live.follow(3, "given")["data"]["code"] == "request/not-found"  # a terminal
        console.hosting.start("hidden", "cat")
        console.hosting.run("stop", "hidden")
        console.hosting.run("stop", "given")
        while (event := live.take()["data"])["topic"] != "terminal/exited":
            assert "hidden" not in (event["data"].get("session_id"), event["data"].get("name"))
        assert event["data"]["name"] == "given"
    with contextlib.ExitStack() as pages:
        for _ in range(limits.MAX_SHARE_PAGES):
            pages.enter_context(guest.live())
        with pytest.raises(InvalidStatus) as refused, guest.live():
            pass
        assert refused.value.response.status_code == 429
    console.hosting.run("web", "--revoke", "all")


def test_what_waits_for_a_reader_is_bounded_in_number_and_bytes() -> None:
    async def run() -> None:
        hub = Hub(Settings())
        feeds = Feeds(hub)
        visitor = Visitor(Grant(id="x", digest="", role="owner", since=0, until=2e9), None)
        sizes = {"x": limits.MAX_EVENTS_WAITING, "x" * 100_000: limits.MAX_BYTES_WAITING // 90_000}
        for text, count in sizes.items():
            pieces = feeds.stream(visitor)
            assert [each.name for each in await anext(pieces)] == [HELLO]
            for _ in range(count):
                hub.post("sessions/changed", {"session_id": text})
            hub.post("sessions/changed", {"session_id": "late"})
            behind = await anext(pieces)
            assert [(each.name, each.id) for each in behind] == [(RESET, hub.cursor)]
            hub.post("sessions/changed", {"session_id": "later"})
            assert [b"later" in each.body for each in await anext(pieces)] == [True]
            await pieces.aclose()
        assert (visitor.streams, feeds.open) == (0, 0)

    asyncio.run(run())


def test_a_page_that_never_reads_is_dropped() -> None:
    async def run() -> None:
        ended = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await send({"type": "websocket.accept"})
            try:
                while True:
                    await send({"type": "websocket.send", "text": "x" * 65_536})
            finally:
                ended.set()

        bound = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            ws=FrameProtocol,
            ws_ping_interval=0.1,
            ws_ping_timeout=0.1,
            lifespan="off",
            log_config=None,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[bound]))
        _, writer = await asyncio.open_connection(*bound.getsockname(), limit=2**10)
        key = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        key += "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
        writer.write(f"GET / HTTP/1.1\r\nHost: here\r\n{key}\r\n".encode())
        async with asyncio.timeout(WAIT):
            await ended.wait()
        server.should_exit = True
        await serving
        writer.close()

    asyncio.run(run())


def test_what_happens_after_it_was_asked_who_one_is_comes_with_the_stream(
    console: ConsoleHosting, browser: Browser
) -> None:
    cursor = browser.ask("GET", "/api/me").data["cursor"]
    console.hosting.start("between", "cat")  # a page fetches its lists meanwhile
    with browser.live() as live:
        assert live.follow(1, since=cursor)["event"] == "hello"
        live.until(1, "terminal/started", name="between")
    console.hosting.run("stop", "between")
