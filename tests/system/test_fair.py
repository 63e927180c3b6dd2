"""What a program prints is drawn in slices of time, in order, and others get their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given

from fairlead.client.connection import DaemonConnection
from fairlead.keeper.protocol import OFFSET, FrameKind
from fairlead.system.fair import MAX_BACKLOG, FairFeed, FairLine
from fairlead.system.settings import Settings
from fairlead.terminal.screen.keyframe import SavedMode
from fairlead.terminal.screen.screen import Screen
from tests.hosting import Hosting
from tests.terminal.comparing import frame_of
from tests.terminal.streams import streams


class Slow:
    """A source whose session takes a few bytes at a time, however long it has."""

    def __init__(self, line: FairLine, at_a_time: int) -> None:
        self.feed = FairFeed(line, self)
        self.said: list[str] = []
        self.taken = b""
        self._at_a_time = at_a_time

    def heard(self, kind: int, payload: bytes) -> None:
        self.said.append(f"{FrameKind(kind).name} after {len(self.taken)}")

    def printed(self, offset: int, data: bytes, seconds: float) -> int:
        assert offset == len(self.taken)
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() <= end:
            pass
        self.taken += data[: self._at_a_time]
        return min(len(data), self._at_a_time)

    def served(self) -> None:
        pass

    def failed(self, error: Exception) -> None:
        self.said.append(f"failed: {error}")

    def pause(self) -> None:
        self.said.append("pause")

    def resume(self) -> None:
        self.said.append("resume")


def data(offset: int, text: bytes) -> tuple[int, bytes]:
    return FrameKind.DATA, OFFSET.pack(offset) + text


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


def test_frames_come_in_order_and_in_pieces_and_the_end_comes_last() -> None:
    async def run() -> list[str]:
        slow = Slow(FairLine(), 3)
        slow.feed.put(*data(0, b"abcdefgh"))
        assert slow.feed.is_behind
        slow.feed.put(FrameKind.RESIZED, b"")
        slow.feed.put(*data(8, b"ijk"))
        slow.feed.finish(lambda: slow.said.append(f"end after {len(slow.taken)}"))
        await until(lambda: len(slow.said) == 2)
        assert slow.taken == b"abcdefghijk"
        return slow.said

    assert asyncio.run(run()) == ["RESIZED after 8", "end after 11"]


def test_a_source_that_is_too_far_ahead_is_not_read_until_it_is_behind_less() -> None:
    async def run() -> list[str]:
        slow = Slow(FairLine(), MAX_BACKLOG // 4)
        slow.feed.put(*data(0, bytes(MAX_BACKLOG)))
        slow.feed.put(*data(MAX_BACKLOG, bytes(MAX_BACKLOG)))
        await until(lambda: not slow.feed.is_behind)
        return slow.said

    assert asyncio.run(run()) == ["pause", "resume"]


def test_those_who_wait_take_turns_and_the_loop_runs_in_between() -> None:
    async def run() -> None:
        line = FairLine()
        first, second = Slow(line, 1), Slow(line, 1)
        for each in (first, second):
            each.feed.put(*data(0, b"x" * 20))
        passes = 0
        while first.feed.is_behind or second.feed.is_behind:
            assert abs(len(first.taken) - len(second.taken)) <= 1
            await asyncio.sleep(0)
            passes += 1
        assert passes >= 30

    asyncio.run(run())


def test_a_feed_that_is_closed_gives_nothing_more_and_one_that_fails_says_so_once() -> None:
    async def run() -> None:
        line = FairLine()
        slow, failing = Slow(line, 1), Slow(line, 1)
        slow.feed.put(*data(0, b"xyz"))
        slow.feed.close()
        failing.feed.put(*data(0, b"xyz"))
        failing.taken += b"?"  # so that the next offset is wrong
        await until(lambda: bool(failing.said))
        assert not failing.feed.is_behind
        assert slow.taken == b"x"

    asyncio.run(run())


@given(streams)
def test_a_screen_that_is_fed_without_time_shows_the_same(stream: bytes) -> None:
    with Screen(20, 5) as whole, Screen(20, 5) as sliced:
        whole.feed(stream)
        taken = 0
        while taken < len(stream):
            more = sliced.feed_for(stream[taken:], 0.0)
            assert more > 0
            taken += more
        assert sliced.redraw(1 << 20) == whole.redraw(1 << 20)


@pytest.mark.parametrize("flood", [b"\x1bc", b"A\x1b[999999999b", b"\x1b#8"])
def test_no_flood_is_drawn_for_longer_than_there_is_time(flood: bytes) -> None:
    with Screen(200, 50) as screen:
        stream = flood * 3000
        assert screen.feed_for(stream, 0.002) < len(stream)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 4096])
def test_columns_are_never_switched_however_the_wish_is_cut(size: int) -> None:
    stream = b"\x1b[?40h\x1b[?3hA\x1b[1\x1b[?40h\x1b[?7;0040;25h\x1b[?3l" * 20
    with Screen(90, 10) as screen:
        for start in range(0, len(stream), size):
            screen.feed(stream[start : start + size])
            assert not frame_of(screen).terminal.modes & SavedMode.ALLOW_COLUMNS_132
        assert screen.text() == "A" * 20


def test_a_sequence_without_an_end_costs_no_more_the_longer_it_is() -> None:
    with Screen(80, 24) as screen:
        screen.feed(b"\x1b]0;" + b"x" * 600_000)
        assert screen.feed_for(b"x" * 16_384, 1.0) == 16_384
        screen.feed(b"\x07" + "é€".encode() * 200_000 + b"\r\nend")
        assert screen.text().endswith("end")


def test_another_sessions_echo_does_not_wait_for_a_flood() -> None:
    hosting = Hosting()
    try:
        hosting.start("echo", "stty raw; echo ready; cat >/dev/null")
        hosting.wait_text("echo", "ready")
        # so many resets take a second or more
        flood = r"import os; input('begun'); os.write(1, b'\x1bc.' * 60_000 + b'drawn'); input()"
        hosting.run("start", "flood", "-d", "--", "python3", "-c", flood)
        hosting.wait_text("flood", "begun")
        with DaemonConnection(Settings(hosting.environment), start=False) as control:
            control.ask("terminal_send", name="flood", keys=["Enter"])
            while "begun" in control.ask("terminal_screen", name="flood")["screen"]:
                pass
            for number in range(10):
                control.ask("terminal_send", name="echo", text=f"key{number}")
                control.ask("terminal_wait", name="echo", text=f"key{number}", timeout=20)
            assert "drawn" not in control.ask("terminal_screen", name="flood")["screen"]
            control.ask("terminal_wait", name="flood", text="drawn", timeout=30)
    finally:
        hosting.close()


def test_a_flood_of_notifications_is_noticed_in_slices_too() -> None:
    """A notification costs a thousand times what a letter costs, so only the first ones are told."""
    stream = b"\x1b]9;a\x07" * 20_000
    told = 0
    with Screen(80, 24) as screen:
        while stream:
            stream = stream[screen.feed_for(stream, 0.0) :]
            told += len(screen.take_events())
    assert 0 < told < 2000
