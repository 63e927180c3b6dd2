"""Keyframes: a screen that is restored is the screen that was kept."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.terminal.screen.keyframe import ANSI_MODES, PRIVATE_MODES
from fairlead.terminal.screen.screen import MAX_CELLS, KeyframeError, Screen
from tests.terminal.comparing import account, frame_of
from tests.terminal.streams import COLS, MADE, ROWS, SMALL, recorded, streams


@pytest.mark.parametrize("name", [*recorded(), *MADE])
def test_a_restored_screen_is_the_same_and_goes_on_the_same(name: str) -> None:
    stream = recorded().get(name) or MADE[name]()
    whole = Screen(COLS, ROWS)
    whole.feed(stream)
    randomly = random.Random(name)
    kept, at = Screen(COLS, ROWS), 0
    for cut in sorted(randomly.randrange(len(stream)) for _ in range(25)):
        kept.feed(stream[at:cut])
        at = cut
        blob = kept.snapshot()
        restored = Screen.restore(blob)
        assert account(restored) == account(kept)
        restored.feed(stream[cut:])
        assert account(restored) == account(whole)
        kept.close()
        kept = Screen.restore(blob)


# The library forgets that a cursor waits to wrap if the column is not the last one, which only margins bring.
@pytest.mark.parametrize("name", [name for name in SMALL if name != "left and right margins"])
def test_a_small_stream_can_be_kept_at_every_byte(name: str) -> None:
    screen = Screen(20, 6)
    for byte in SMALL[name]:
        screen.feed(bytes([byte]))
        screen = Screen.restore(screen.snapshot())
    whole = Screen(20, 6)
    whole.feed(SMALL[name])
    assert account(screen) == account(whole)


@given(streams, st.data())
def test_any_stream_can_be_kept_anywhere(stream: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(stream)))
    screen, whole = Screen(20, 6), Screen(20, 6)
    whole.feed(stream)
    screen.feed(stream[:cut])
    restored = Screen.restore(screen.snapshot())
    restored.feed(stream[cut:])
    assert account(restored) == account(whole)
    assert restored.redraw(1 << 20) == whole.redraw(1 << 20)


def test_limits_hold_after_restoring() -> None:
    screen = Screen(80, 24, scrollback_lines=5000)
    screen.feed(b"line\r\n" * 5000)
    blob = screen.snapshot()
    fewer = Screen.restore(blob, scrollback_lines=1000)
    assert fewer.scrollback_rows < 2000
    fewer.feed(b"line\r\n" * 5000)
    assert fewer.scrollback_rows < 2000
    assert Screen.restore(blob, scrollback_lines=5000).scrollback_rows == screen.scrollback_rows
    none = Screen.restore(blob, scrollback_lines=0, scrollback_bytes=0)
    assert none.text() == screen.text()
    assert none.scrollback_rows < 1000


def test_a_restored_screen_keeps_title_directory_and_says_nothing_of_them() -> None:
    screen = Screen(20, 3)
    screen.feed(b"\x1b]2;title\x07\x1b]7;file:///tmp\x07\x1b[c\x07")
    restored = Screen.restore(screen.snapshot())
    assert (restored.title, restored.cwd) == ("title", "/tmp")
    assert restored.take_events() == []
    assert restored.take_replies() == b""
    restored.feed(b"\x1b]2;title\x07")
    assert restored.take_events() == []


@pytest.mark.parametrize(
    ("blob", "complaint"),
    [
        (b"", "not a keyframe"),
        (b"garbage that is long enough to be looked at", "not a keyframe: it should begin with b'GHOSTSNP'"),
        (b"GHOSTSNP\x02\x00" + bytes(40), "of version 2, and only 1 can be read"),
        (b"GHOSTSNP\x01\x00" + bytes(40), "damaged: its screen would be 0×0"),
        (b"GHOSTSNP\x01\x00\x01\x00\0\0\0\0\0\0\0\0\xff\xff\xff\xff" + bytes(40), "would be 65535×65535"),
    ],
)
def test_what_is_no_keyframe_is_refused(blob: bytes, complaint: str) -> None:
    with pytest.raises(KeyframeError, match=complaint):
        Screen.restore(blob)


def test_a_damaged_keyframe_is_refused_wherever_it_is_damaged() -> None:
    screen = Screen(20, 4)
    screen.feed(b"some \x1b[31mtext\x1b[?1049h\x1b[44mmore\x1b[K\x1b]0;unfinished")
    blob = screen.snapshot()
    for size in range(0, len(blob), 7):
        with pytest.raises(KeyframeError):
            Screen.restore(blob[:size])
    for at in range(0, len(blob), 5):
        bad = blob[:at] + bytes([blob[at] ^ 0x55]) + blob[at + 1 :]
        with pytest.raises(KeyframeError):
            Screen.restore(bad)
    with pytest.raises(KeyframeError, match="there are 3 more"):
        Screen.restore(blob + b"xyz")


@pytest.mark.parametrize("start", [b"\x1b_", b"\x1b_Gx", b"\x1b^", b"\x1bX"])
@pytest.mark.parametrize("control", [b"\x90", b"\x9b", b"\x9d"])
def test_a_sequence_that_the_library_can_not_keep_is_given_up(start: bytes, control: bytes) -> None:
    screen = Screen(20, 4)
    screen.feed(b"before" + start + control)
    assert Screen.restore(screen.snapshot()).text() == "before"
    screen.feed(start + control)
    assert screen.text() == "before"
    screen.feed(b"\x1b\\after")
    assert screen.text() == "beforeafter"


def test_a_screen_that_the_library_can_not_keep_is_cleared() -> None:
    screen = Screen(100, 4)
    screen.feed(b"\x1b[?40h\x1b[?1049hx" + "日".encode() * 200 + b"\x1b[?1049l\x1b[?3h\x1b[?3lprimary")
    restored = Screen.restore(screen.snapshot())
    assert restored.text() == screen.text() == "primary"
    assert (screen.cols, screen.alternate) == (100, False)


@given(st.binary(max_size=300))
def test_garbage_is_no_keyframe(garbage: bytes) -> None:
    for blob in (garbage, b"GHOSTSNP\x01\x00" + garbage):
        with pytest.raises(KeyframeError):
            Screen.restore(blob)


def test_the_largest_screen_can_be_kept() -> None:
    screen = Screen(10_000, 10_000)
    assert screen.cols * screen.rows <= MAX_CELLS
    screen.feed(b"\x1b[44m\x1b[2Jx")
    assert Screen.restore(screen.snapshot()).text() == "x"


@pytest.mark.parametrize("mode", [*ANSI_MODES, *PRIVATE_MODES])
def test_the_bits_of_the_modes_are_the_librarys(mode: int) -> None:
    """What `keyframe.py` believes of the pinned library's snapshots; a new version has to pass here first."""
    number = f"{ANSI_MODES[mode]}" if mode in ANSI_MODES else f"?{PRIVATE_MODES[mode]}"  # type: ignore[index]
    screen = Screen(20, 3)
    before = frame_of(screen).terminal
    screen.feed(f"\x1b[{number}{'l' if before.modes & mode else 'h'}".encode())
    if number not in ("?3", "?40"):  # 132 columns are never allowed
        assert frame_of(screen).terminal.modes ^ before.modes == mode
    assert before.modes == before.default_modes == before.saved_modes
