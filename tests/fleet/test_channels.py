"""Streams between machines: what is lost, too much or senseless ends them; credit holds back who sends."""

import asyncio
import struct
from collections.abc import Awaitable, Callable

import pytest

from fairlead.fleet import channels, limits
from fairlead.fleet.channels import FleetStream, StreamClosed, StreamKey

Ends = tuple[FleetStream, FleetStream]


def joined(lose: Callable[[int, bytes], bool] = lambda number, data: False) -> Ends:
    """Two ends back to back; what `lose` says is lost on the way from the first to the second."""
    ends: list[FleetStream] = []
    count = [0]

    def publish(to: int) -> Callable[[str, bytes], Awaitable[None]]:
        async def said(subject: str, data: bytes) -> None:
            count[0] += to
            if not (to == 1 and lose(count[0], data)):
                ends[to].take(data)

        return said

    for to in (1, 0):
        ends.append(FleetStream(StreamKey("peer", "id"), "subject", publish(to), lambda key: None))
    return ends[0], ends[1]


def test_bytes_arrive_as_they_were_sent_and_their_end_too() -> None:
    async def tried() -> None:
        first, second = joined()
        data = bytes(range(256)) * 4096  # four windows
        got = bytearray()

        async def read() -> None:
            while piece := await second.receive():
                got.extend(piece)
                await second.took(len(piece))

        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            await first.send(data)
            await first.end()
        assert bytes(got) == data
        first.close()
        async with asyncio.timeout(30):
            assert await second.closed == ""

    asyncio.run(tried())


def test_nobody_sends_more_than_a_window_that_was_not_taken() -> None:
    async def tried() -> None:
        first, second = joined()
        sending = asyncio.ensure_future(first.send(bytes(2 * limits.WINDOW)))
        for _ in range(100):
            await asyncio.sleep(0)
        held = 0
        while held < limits.WINDOW:
            held += len(await second.receive())
        assert held == limits.WINDOW
        assert not sending.done()
        await second.took(held)
        while held < 2 * limits.WINDOW:
            held += len(await second.receive())
        await sending
        first.close()

    asyncio.run(tried())


def test_a_message_that_is_lost_ends_the_stream_at_both_ends() -> None:
    async def tried() -> None:
        first, second = joined(lambda number, data: number == 2)
        await first.send(b"one")
        await first.send(b"two")
        assert not second.closed.done()
        await first.send(b"three")
        async with asyncio.timeout(30):
            assert "lost" in await second.closed
            assert "lost" in await first.closed
        with pytest.raises(StreamClosed, match="lost"):
            await first.send(b"four")

    asyncio.run(tried())


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"short",
        struct.pack(">BQ", 77, 0),
        struct.pack(">BQ", channels.CREDIT, 0) + b"x",
        struct.pack(">BQQ", channels.CREDIT, 0, 10),  # for what was never sent
        struct.pack(">BQ", channels.DATA, 0),
        struct.pack(">BQ", channels.DATA, 0) + bytes(limits.WINDOW + 1),
        struct.pack(">BQ", channels.DATA, 5) + b"from the future",
    ],
)
def test_what_makes_no_sense_ends_the_stream(message: bytes) -> None:
    async def tried() -> None:
        _, second = joined()
        second.take(message)
        assert second.closed.result()

    asyncio.run(tried())


def test_an_end_that_falls_silent_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PING_SECONDS", 0.01)
    monkeypatch.setattr(limits, "SILENCE_SECONDS", 0.05)

    async def tried() -> None:
        first, second = joined(lambda number, data: True)
        async with asyncio.timeout(30):
            assert await second.closed == "the other end is silent"
            first.close()

    asyncio.run(tried())
