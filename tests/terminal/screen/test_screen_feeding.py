"""Feeding: no bytes and no sizes hurt, and memory stays under a bound."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.terminal.screen.screen import (
    FEED_SLICE,
    FLOOD_PAUSE,
    MAX_CELLS,
    MAX_SIZE,
    MAX_UNFINISHED,
    Screen,
    Title,
    fit,
)
from tests.terminal.comparing import account, frame_of
from tests.terminal.streams import streams


@pytest.mark.parametrize(
    ("asked", "given_"),
    [
        ((80, 24), (80, 24)),
        ((0, 0), (1, 1)),
        ((-5, 3), (1, 3)),
        ((65535, 1), (MAX_SIZE, 1)),
        ((1, 65535), (1, MAX_SIZE)),
        ((65535, 65535), (MAX_SIZE, MAX_CELLS // MAX_SIZE)),
        ((10_000, 10_000), (10_000, 100)),
    ],
)
def test_an_absurd_size_becomes_the_nearest_possible(asked: tuple[int, int], given_: tuple[int, int]) -> None:
    assert fit(*asked) == given_
    screen = Screen(*asked)
    assert (screen.cols, screen.rows) == given_
    screen.feed(b"some text\r\n" * 5)
    screen.resize(7, 3)
    screen.resize(*asked)
    assert (screen.cols, screen.rows) == given_
    frame = frame_of(screen)
    assert (frame.terminal.cols, frame.terminal.rows) == given_


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_garbage_does_not_hurt(pieces: list[bytes]) -> None:
    screen, whole = Screen(20, 5), Screen(20, 5)
    for piece in pieces:
        screen.feed(piece)
        screen.take_events()
    whole.feed(b"".join(pieces))
    assert account(screen) == account(whole)
    screen.redraw(1 << 20)
    screen.svg()
    screen.cells()


@given(streams, st.lists(st.tuples(st.integers(0, 70), st.integers(0, 20)), max_size=4))
def test_resizing_in_between_does_not_hurt(stream: bytes, sizes: list[tuple[int, int]]) -> None:
    screen = Screen(20, 5)
    step = len(stream) // (len(sizes) + 1) + 1
    for number, size in enumerate(sizes):
        screen.feed(stream[number * step : (number + 1) * step])
        screen.resize(*size)
        assert (screen.cols, screen.rows) == fit(*size)
        screen.redraw(1 << 20)
        Screen.restore(screen.snapshot()).close()


@pytest.mark.parametrize("leave", [b"", b"\x1b[?1049l\x1b[31mon \x1b]8;;http://a\x07", b"\x1b]0;unfinished"])
@pytest.mark.parametrize("before", [b"", b"x", b"\x1b[2;4r\x1b[?6h", b"\x1b[?7l", b"\x1b[44m", b"\x1bV"])
def test_wide_characters_that_do_not_fit_any_more_do_no_harm(before: bytes, leave: bytes) -> None:
    for cols in range(1, 12):
        screen = Screen(12, 4)
        screen.feed(b"\x1b[?1049h" + before + "日本語".encode() * 5 + leave)
        shown = screen.alternate, screen.modes
        unfinished, link = frame_of(screen).unfinished, frame_of(screen).active.link
        screen.resize(cols, 4)
        assert (screen.alternate, screen.modes) == shown
        after = frame_of(screen)
        assert after.unfinished == unfinished
        assert (after.active.link and after.active.link.uri) == (link and link.uri)
        Screen.restore(screen.snapshot()).close()
        screen.resize(12, 4)
        screen.snapshot()
        screen.redraw(10_000)


def test_lines_are_wrapped_anew_even_where_wrapping_is_off() -> None:
    for cols in range(1, 12):
        screen = Screen(12, 4)
        screen.feed("x日本語日本\r\n日本語日本語\x1b[?7l".encode())
        screen.resize(cols, 4)
        assert not screen.modes.wrap
        Screen.restore(screen.snapshot()).close()
        if cols > 1:
            assert screen.text(scrollback=True, unwrap=True) == "x日本語日本\n日本語日本語"


BOMBS = {
    "title": (b"\x1b]0;", b"x", b"\x07"),
    "clipboard": (b"\x1b]52;c;", b"QUFB", b"\x1b\\"),
    "unknown OSC": (b"\x1b]12345;", b"x;", b"\x07"),
    "notification": (b"\x1b]99;", b"x", b"\x07"),
    "device control": (b"\x1bP+q", b"41", b"\x1b\\"),
    "image": (b"\x1b_Gf=100;", b"AAAA", b"\x1b\\"),
    "privacy message": (b"\x1b^", b"x", b"\x1b\\"),
    "start of string": (b"\x1bX", b"x", b"\x1b\\"),
    "parameters": (b"\x1b[", b"1;", b"m"),
    "one parameter": (b"\x1b[", b"9", b"m"),
    "intermediates": (b"\x1b[", b"$", b"p"),
    "escape": (b"\x1b", b"#", b"8"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_an_endless_sequence_is_cut_and_the_screen_goes_on(name: str) -> None:
    start, body, end = BOMBS[name]
    screen = Screen(20, 4)
    screen.feed(b"before " + start)
    for _ in range(6):
        screen.feed(body * (MAX_UNFINISHED // len(body) // 2))
        restored = Screen.restore(screen.snapshot())
        assert len(frame_of(screen).unfinished) <= MAX_UNFINISHED
        assert len(screen.redraw(MAX_UNFINISHED + 10_000)) <= MAX_UNFINISHED + 10_000
        restored.close()
    screen.feed(end + b"after")
    assert screen.text() == "before after"
    restored = Screen.restore(screen.snapshot())
    assert restored.text() == "before after"


def test_controls_inside_of_an_endless_sequence_still_work() -> None:
    screen = Screen(20, 40)
    screen.feed(b"\x1b[" + b"1;" * MAX_UNFINISHED)
    for _ in range(30):
        screen.feed(b"\n" + b"1;" * FEED_SLICE)
    assert len(frame_of(screen).unfinished) <= MAX_UNFINISHED
    screen.feed(b"mx")
    assert screen.text() == "\n" * 30 + "x"


def test_a_sequence_as_long_as_allowed_is_kept_whole() -> None:
    screen = Screen(20, 4)
    data = b"QUFB" * 10_000
    screen.feed(b"\x1b]52;c;" + data[:30_000])
    screen = Screen.restore(screen.snapshot())
    screen.feed(data[30_000:] + b"\x07")
    (event,) = screen.take_events()
    assert event.data == b"AAA" * 10_000  # type: ignore[union-attr]


def test_a_flood_of_bells_is_not_listened_to_for_long() -> None:
    screen = Screen(20, 4)
    screen.feed(b"\x07" * 200_000)
    assert len(screen.take_events()) == 1
    screen.feed(b"\x07\x1b]2;unheard\x07")
    assert screen.take_events() == []
    screen.feed(b"x" * FLOOD_PAUSE)
    assert screen.take_events() == [Title("unheard")]
    screen.feed(b"\x1b[c")
    assert screen.take_replies()


def test_feeding_bit_by_bit_is_feeding_at_once() -> None:
    stream = bytes(range(256)) * 300 + "日本語\x1b[31m".encode() * 3000
    at_once, bit_by_bit = Screen(40, 10), Screen(40, 10)
    at_once.feed(stream)
    for start in range(0, len(stream), 61):
        bit_by_bit.feed(stream[start : start + 61])
    assert account(at_once) == account(bit_by_bit)


# A new interpreter, because the highest use of memory that a process had is never forgotten.
_HUNDRED_MEGABYTES = """
import resource, sys
from fairlead.terminal.screen.screen import Screen
unit = 1 if sys.platform == "darwin" else 1024
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
screen = Screen(120, 40, scrollback_lines=10_000, scrollback_bytes=16 * 1024 * 1024)
line = b"".join(b"\\x1b[38;5;%dmword%d \\x1b[0m" % (n, n) for n in range(20)) + "語".encode() + b"\\r\\n"
block = line * (1_000_000 // len(line))
for n in range(100):
    screen.feed(block)
    screen.take_events(), screen.take_replies()
    if n % 20 == 0:
        screen.snapshot(), screen.redraw(1_048_576)
print(screen.scrollback_rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - base)
"""
MEMORY_BOUND = 64 * 1024 * 1024
"""Scrollback of 16 MiB, a keyframe and a redraw of it, and what the allocator holds back."""


def test_a_hundred_megabytes_of_output_stay_in_bounded_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HUNDRED_MEGABYTES], capture_output=True, text=True, check=True
    )
    rows, grown = map(int, done.stdout.split())
    assert rows >= 5000
    assert grown < MEMORY_BOUND


def test_a_closed_screen_is_freed_and_says_so() -> None:
    screen = Screen(20, 4)
    with screen:
        screen.feed(b"x")
    screen.close()
    assert "closed" in repr(screen)
    for use in (lambda: screen.feed(b"x"), screen.snapshot, screen.text, lambda: screen.redraw(1000)):
        with pytest.raises(ValueError, match="the screen is closed"):
            use()


_MANY_SCREENS = """
import resource
from fairlead.terminal.screen.screen import Screen
def cycle(count):
    for _ in range(count):
        screen = Screen(120, 40)
        screen.feed(b"\\x1b[31msome text\\r\\n" * 500)
        Screen.restore(screen.snapshot()).close()
        screen.redraw(100_000)
        screen.close()
cycle(50)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cycle(500)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_screens_that_come_and_go_leave_nothing_behind() -> None:
    done = subprocess.run([sys.executable, "-c", _MANY_SCREENS], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 10 * 1024 * 1024
