"""The SDK for asyncio drives real sessions of a real daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

import fairlead.aio
from fairlead.aio import Attached, Ended, Host, RequestError
from fairlead.client.links import MAX_LINKS, REQUESTS_A_LINK
from fairlead.events import Bell, Exited
from tests.hosting import WAIT, Hosting

ECHO = ["sh", "-c", "echo ready; while read line; do echo got $line; done"]


@pytest.fixture
def hosting(lent: Hosting) -> Hosting:
    return lent


def run(play: Callable[[Host], Awaitable[None]]) -> None:
    """Run a test in a loop of its own, with a host."""

    async def main() -> None:
        async with asyncio.timeout(4 * WAIT), fairlead.aio.connect() as host:
            await play(host)

    asyncio.run(main())


async def until(view: Attached, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        data = await view.read(timeout=WAIT)
        assert data, f"{text!r} did not come: {seen!r}"
        seen += data
    return seen


async def kill_daemon(hosting: Hosting) -> None:
    await asyncio.to_thread(hosting.kill_daemon)


async def pending(host: Host) -> int:
    """How many requests the daemon has yet to answer."""
    await host.terminals()  # behind what was sent before
    return sum(len(link._wire.pending) for link in host._links._links)


def test_a_session_is_started_typed_into_and_read(hosting: Hosting) -> None:
    async def play(host: Host) -> None:
        work = await host.start("work", ECHO, cols=100, rows=30)
        await work.wait_for("ready", timeout=20)
        await work.send("hello", "Enter")
        assert await work.wait_for(r"got \w+", regex=True, timeout=20) == "got hello"
        assert await work.screen() == "ready\nhello\ngot hello"
        assert (await work.screen(format="svg")).startswith("<svg")
        assert (await work.cells())["cols"] == 100
        await work.resize(90, 20)
        await work.paste("pasted\n")
        await work.wait_for("got pasted", timeout=20)
        await work.wait_quiet(0.05, timeout=20)
        assert (await work.cells())["cols"] == 90
        assert [row["name"] for row in await host.terminals()] == ["work"]
        assert (await work.search("hello"))[0]["text"].strip() == "hello"
        assert repr(await host.terminal("work")) == "<Terminal work>"
        assert await work.stop() == 129
        assert await host.terminals() == []
        assert (await host.status())["sessions"] == 0

    run(play)


def test_a_host_can_be_awaited_and_closed_by_hand(hosting: Hosting) -> None:
    async def main() -> None:
        host = await fairlead.aio.connect()
        work = await host.start("work", ECHO)
        view = await work.attach()
        await until(view, b"ready")
        await view.close()
        with pytest.raises(ConnectionError, match="this client has detached from session 'work'"):
            await view.read()
        await host.close()
        with pytest.raises(ConnectionError, match="this connection is closed"):
            await host.terminals()

    asyncio.run(main())


def test_what_cant_be_done_says_why(hosting: Hosting) -> None:
    async def play(host: Host) -> None:
        for missing in (host.terminal("nobody"), host.attach("nobody")):
            with pytest.raises(RequestError, match="no session 'nobody'") as error:
                await missing
            assert error.value.code == "request/not-found"
        work = await host.start("work", ["sh", "-c", "read line; exit 6"])
        with pytest.raises(RequestError, match="no-such-key"):
            await work.send("", "no-such-key")
        with pytest.raises(ValueError, match="no topic 'terminal/smell'"):
            _ = await host.events("terminal/smell")
        for seconds in (0, 0.1):
            with pytest.raises(TimeoutError, match=rf"'never' did not appear within {seconds} s"):
                await work.wait_for("never", timeout=seconds)
        await work.send("", "Enter")
        with pytest.raises(Ended) as ended:
            await work.wait_for("never", timeout=20)
        assert ended.value.code == 6
        assert await work.wait(timeout=20) == 6

    run(play)


def test_more_waits_than_a_connection_takes_run_at_once_and_hold_up_nothing(hosting: Hosting) -> None:
    many = 3 * REQUESTS_A_LINK

    async def play(host: Host) -> None:
        work = await host.start("work", ECHO, rows=200)
        waits = [asyncio.create_task(work.wait_for(f"got {number}.")) for number in range(many)]
        await asyncio.sleep(0)
        await work.wait_for("ready", timeout=20)
        assert not any(wait.done() for wait in waits)
        assert 1 < len(host._links._links) <= MAX_LINKS
        for number in range(many):
            await work.send(f"{number}.", "Enter")
        assert await asyncio.gather(*waits) == [f"got {number}." for number in range(many)]

    run(play)


def test_a_cancelled_wait_leaves_the_connection_as_it_was_and_ends_in_the_daemon_too(
    hosting: Hosting,
) -> None:
    async def play(host: Host) -> None:
        work = await host.start("work", ECHO)
        await work.wait_for("ready", timeout=20)
        for _ in range(3):
            waits = [asyncio.create_task(work.wait_for("never")) for _ in range(REQUESTS_A_LINK)]
            await asyncio.sleep(0.05)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            assert all(wait.cancelled() for wait in waits)
            assert await work.screen() == "ready"
        while await pending(host):
            pass
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await work.wait()
        await work.send("on", "Enter")
        await work.wait_for("got on", timeout=20)
        assert len(host._links._links) <= 2

    run(play)


def test_a_host_that_is_being_connected_can_be_cancelled(hosting: Hosting) -> None:
    async def main() -> None:
        async def connect() -> None:
            async with fairlead.aio.connect():
                raise AssertionError

        for _ in range(3):
            task = asyncio.create_task(connect())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with fairlead.aio.connect() as host:
            assert await host.terminals() == []

    asyncio.run(main())


def test_a_writer_types_resizes_and_sees_the_exit_code_and_a_watcher_only_looks(hosting: Hosting) -> None:
    async def play(host: Host) -> None:
        script = "echo ready; while read line; do test $line = end && exit 7; stty size; done"
        work = await host.start("work", ["sh", "-c", script])
        async with host.attach(work, "watcher") as watcher, host.attach("work", cols=90, rows=20) as view:
            await until(watcher, b"ready")
            assert view.pid > 0
            await view.write(b"size\r")
            await until(view, b"20 90")
            await view.resize(91, 21)
            await view.write(b"size\r")
            await until(view, b"21 91")
            await until(watcher, b"21 91")
            assert view.size == watcher.size == (91, 21)
            with pytest.raises(ValueError, match="a watcher can't write; attach as a writer"):
                await watcher.write(b"x")
            with pytest.raises(TimeoutError):
                await view.read(timeout=0.05)
            assert view.exit_code is None
            await view.write(b"end\r")
            assert [data async for data in view]
            assert view.exit_code == 7
            with pytest.raises(Ended):
                await view.write(b"too late")

    run(play)


def test_a_program_that_cant_be_executed_says_why(hosting: Hosting) -> None:
    async def play(host: Host) -> None:
        with pytest.raises(RequestError, match="can't start 'no-such-program'") as refused:
            await host.start("work", ["no-such-program"])
        assert refused.value.data["exit_code"] == 127
        work = await host.start("work", ["true"])
        await work.wait(timeout=20)
        async with work.attach("monitor") as view:
            assert repr(view) == "<Attached work as monitor>"

    run(play)


def test_a_session_that_is_full_refuses_another_client_with_the_reason(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosting.run("daemon", "stop")
    monkeypatch.setenv("FAIRLEAD_TERMINAL_MAX_CONNECTIONS", "1")

    async def play(host: Host) -> None:
        work = await host.start("work", ECHO)
        async with work.attach("monitor"):
            with pytest.raises(RequestError, match="reached its limit of clients"):
                _ = await work.attach("monitor")

    run(play)


@asynccontextmanager
async def closing(output: AsyncIterator[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    try:
        yield output
    finally:
        await output.aclose()  # type: ignore[attr-defined]


def test_output_goes_on_by_itself_when_the_daemon_is_killed(hosting: Hosting) -> None:
    async def play(host: Host) -> None:
        work = await host.start("work", ECHO)
        await work.wait_for("ready", timeout=20)
        async with closing(work.output()) as output:
            assert b"ready" in await anext(output)
            for number in range(3):
                await kill_daemon(hosting)
                assert b"ready" in await anext(output)  # drawn again
                await asyncio.to_thread(hosting.run, "send", "work", f"n{number}", "-k", "Enter")
                seen = b""
                while b"got n%d" % number not in seen:
                    seen += await anext(output)
        async with closing(work.output(reconnect=False)) as output:
            await anext(output)
            await kill_daemon(hosting)
            with pytest.raises(ConnectionError, match="the daemon closed the connection to session 'work'"):
                await anext(output)

    run(play)


def test_waits_go_on_when_the_daemon_is_killed_and_what_would_change_something_is_an_error(
    hosting: Hosting,
) -> None:
    async def play(host: Host) -> None:
        work = await host.start("work", ECHO)
        await work.wait_for("ready", timeout=20)
        waits = [asyncio.create_task(work.wait_for("got on")) for _ in range(10)]
        await asyncio.sleep(0.05)
        slow = await host.start("slow", ["sh", "-c", "trap '' TERM HUP; echo ready; sleep 100"])
        await slow.wait_for("ready", timeout=20)
        stopping = asyncio.create_task(slow.stop())
        await asyncio.sleep(0.05)
        await kill_daemon(hosting)
        with pytest.raises(ConnectionError, match="the daemon closed the connection"):
            await stopping
        await work.send("on", "Enter")
        assert await asyncio.gather(*waits) == ["got on"] * 10

    run(play)


def test_events_tell_what_happens(hosting: Hosting) -> None:
    async def play(host: Host) -> None:
        async with host.events("terminal/exited", "terminal/bell") as events:
            await host.start("work", ["sh", "-c", r"printf '\033]2;x\007\007'; exit 4"])
            assert await events.next(timeout=WAIT) == Bell("work")
            async for event in events:
                assert event == Exited("work", 4)
                break
            with pytest.raises(TimeoutError):
                await events.next(timeout=0.05)
            await kill_daemon(hosting)
            with pytest.raises(ConnectionError, match="events may have been missed"):
                await events.next(timeout=WAIT)

    run(play)
