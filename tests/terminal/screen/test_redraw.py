"""A terminal that is shown a redraw, and then what follows, is like one that was shown everything."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.terminal.screen.redraw import RESET
from fairlead.terminal.screen.screen import Screen
from tests.terminal.comparing import account, differences, frame_of
from tests.terminal.streams import COLS, MADE, ROWS, SMALL, recorded, streams

PLENTY = 8 * 1024 * 1024
CUTS = 60
"""At how many places a long stream is cut."""
DIRT = (
    b"\x1b[?1049h\x1b[1;31mjunk\x1b[?2004h\x1b[5;6r\x1b[?6h\x1b]2;old\x07\x1b[>1u\x1b]4;1;#abcdef\x07\x1b[?7l"
    b"\x1b(0\x1b[4h\x1b[3g\x1b[3 q\x1b]8;;http://old\x07\x1b]133;A\x07\x1b[?1003h\x1b]0;unfinished"
)
"""What an earlier program may have left behind in a client's terminal."""


def shown(redraw: bytes, like: Screen, before: bytes = b"") -> Screen:
    """A terminal of the same size, after a redraw."""
    screen = Screen(like.cols, like.rows)
    screen.feed(before)
    screen.feed(redraw)
    return screen


def assert_same(expected: Screen, got: Screen) -> None:
    assert not differences(forgotten(account(expected), account(got)), account(got))


def forgotten(expected: dict[str, object], got: dict[str, object]) -> dict[str, object]:
    """An account without the last character where it can't be kept.

    A redraw always prints something, and for a cursor that waits to wrap it prints what is there.
    """
    waits = any(expected.get(f"{name}.pending_wrap") for name in ("primary", "alternate"))
    if expected["terminal.last_char"] is None or waits:
        expected["terminal.last_char"] = got["terminal.last_char"]
    return expected


def check_cuts(stream: bytes, cuts: list[int], cols: int, rows: int, before: bytes = b"") -> None:
    whole, fed = Screen(cols, rows), Screen(cols, rows)
    whole.feed(stream)
    end = account(whole)
    at = 0
    for cut in cuts:
        fed.feed(stream[at:cut])
        at = cut
        redraw = fed.redraw(PLENTY)
        client = shown(redraw, fed, before)
        now = account(client)
        problems = differences(forgotten(account(fed), now), now)
        assert not problems, f"after {stream[max(0, cut - 40) : cut]!r}: {problems}\n{redraw!r}"
        client.feed(stream[cut:])
        problems = differences(forgotten(dict(end), account(client)), account(client))
        assert not problems, f"at the end, cut after {stream[max(0, cut - 40) : cut]!r}: {problems}"
        client.close()


def spread(stream: bytes) -> list[int]:
    """Places to cut a stream at: every Nth byte, and the end."""
    step = max(1, len(stream) // CUTS)
    return [*range(step // 2, len(stream), step), len(stream)]


@pytest.mark.parametrize("name", recorded())
def test_a_recorded_program_goes_on_after_a_redraw(name: str) -> None:
    stream = recorded()[name]
    check_cuts(stream, spread(stream), COLS, ROWS)


@pytest.mark.parametrize("name", MADE)
def test_a_made_stream_goes_on_after_a_redraw(name: str) -> None:
    stream = MADE[name]()
    check_cuts(stream, spread(stream), COLS, ROWS)


@pytest.mark.parametrize("name", SMALL)
def test_a_small_stream_goes_on_after_a_redraw_at_every_byte(name: str) -> None:
    stream = SMALL[name]
    check_cuts(stream, list(range(len(stream) + 1)), 20, 6)


@pytest.mark.parametrize("name", SMALL)
def test_a_terminal_that_was_used_before_shows_the_same(name: str) -> None:
    stream = SMALL[name]
    check_cuts(stream, [len(stream) // 2, len(stream)], 20, 6, before=DIRT)


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (5, 1), (1, 7), (200, 60)])
def test_any_size_can_be_redrawn(size: tuple[int, int]) -> None:
    stream = b"a few words\r\n\x1b[31mthat do not fit\x1b[0m\x1b[44m\x1b[K\r\n\x1b[?1049hand \x1b[2;2Hmore"
    check_cuts(stream, list(range(0, len(stream), 3)), *size)


@given(streams, st.data())
def test_any_stream_goes_on_after_a_redraw(stream: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(stream)))
    check_cuts(stream, [cut], 20, 6)


@given(streams)
def test_a_redraw_of_a_redraw_is_the_same(stream: bytes) -> None:
    first = Screen(20, 6)
    first.feed(stream)
    once = first.redraw(PLENTY)
    assert shown(once, first).redraw(PLENTY) == shown(shown(once, first).redraw(PLENTY), first).redraw(PLENTY)


def test_scrollback_is_as_much_as_fits_and_the_newest() -> None:
    screen = Screen(40, 5)
    for number in range(2000):
        screen.feed(b"\x1b[3%dmline %d\x1b[0m \xe6\x97\xa5 and more\r\n" % (number % 8, number))
    everything = account(screen)["scrollback"]
    for limit in (400, 1000, 3_333, 20_000, 50_000):
        redraw = screen.redraw(limit)
        assert len(redraw) <= limit
        client = account(shown(redraw, screen))
        kept = client.pop("scrollback")
        assert kept == everything[len(everything) - len(kept) :]
        assert not differences(
            {key: value for key, value in account(screen).items() if key != "scrollback"}, client
        )
        assert len(kept) > (limit - 400) // 60


def test_without_scrollback_only_the_screen_is_sent() -> None:
    screen = Screen(40, 5)
    screen.feed(b"".join(b"line %d\r\n" % number for number in range(100)))
    client = shown(screen.redraw(PLENTY, scrollback=False), screen)
    assert client.scrollback_rows == 0
    assert client.text() == screen.text()


def test_three_hundred_thousand_lines_are_redrawn_from_their_end() -> None:
    screen = Screen(80, 24)
    screen.feed(b"".join(b"%d\r\n" % number for number in range(1, 300_001)))
    redraw = screen.redraw(1_048_576)
    client = shown(redraw, screen)
    assert client.text(scrollback=True).splitlines() == screen.text(scrollback=True).splitlines()
    assert client.text().splitlines()[-1] == "300000"


def test_the_scrollback_of_the_primary_screen_lies_below_the_alternate_one() -> None:
    screen = Screen(20, 4)
    screen.feed(b"".join(b"line %d\r\n" % number for number in range(30)) + b"\x1b[?1049h\x1b[Heditor")
    client = shown(screen.redraw(PLENTY), screen)
    assert client.text() == "editor"
    client.feed(b"\x1b[?1049l")
    assert client.text(scrollback=True).splitlines() == [f"line {number}" for number in range(30)]


def test_a_screen_that_does_not_fit_loses_rows_from_the_top() -> None:
    screen = Screen(80, 24)
    for row in range(24):
        screen.feed(b"\x1b[%d;1H" % (row + 1))
        screen.feed(b"".join(b"\x1b[38;2;%d;1;1m%d" % (column, row % 10) for column in range(80)))
    redraw = screen.redraw(10_000)
    assert len(redraw) <= 10_000
    want, have = screen.text().splitlines(), shown(redraw, screen).text().splitlines()
    assert have[-1] == want[-1]
    lost = sum(not row for row in have)
    assert 0 < lost < 24
    assert have[lost:] == want[lost:]


def test_the_hidden_screen_loses_its_rows_first() -> None:
    screen = Screen(80, 24)
    screen.feed(b"\x1b[32mprimary \x1b[0m" * 200 + b"\x1b[?1049h\x1b[Halternate")
    redraw = screen.redraw(900)
    assert len(redraw) <= 900
    assert shown(redraw, screen).text() == "alternate"


def test_a_limit_that_not_even_the_state_fits_into_is_refused() -> None:
    screen = Screen(80, 24)
    screen.feed(b"\x1b]2;" + b"t" * 500 + b"\x07")
    with pytest.raises(
        ValueError, match=r"a redraw of this screen takes at least \d+ bytes, and 100 were allowed"
    ):
        screen.redraw(100)


def test_a_redraw_starts_with_a_reset() -> None:
    assert Screen(5, 2).redraw(1000).startswith(RESET.encode())


def test_a_plain_screen_is_redrawn_with_nothing_special() -> None:
    screen = Screen(20, 3)
    screen.feed(b"plain\r\n\x1b[31mred\x1b[0m")
    body = screen.redraw(PLENTY).removeprefix(RESET.encode())
    assert body == b"plain\r\n\x1b[0;31mred\x1b[0m\r\n\x1b[2;3H\x1b[0;31md\x1b[0m\x1b[2;4H\x1b[0m"


def test_a_program_can_not_change_the_size_of_its_redraw() -> None:
    screen = Screen(80, 24)
    screen.feed(b"\x1b[?40h\x1b[?3hwide?\x1b[?3l")
    state = frame_of(screen).terminal
    assert (state.cols, state.rows) == (screen.cols, screen.rows) == (80, 24)
    assert shown(screen.redraw(PLENTY), screen).text() == screen.text()


def test_a_screen_without_a_blank_is_redrawn_though_its_last_character_is_not_on_it() -> None:
    screen = Screen(5, 2)
    screen.feed(b"x\x1b#8")
    client = shown(screen.redraw(PLENTY), screen)
    assert client.text() == screen.text() == "EEEEE\nEEEEE"


def test_a_line_that_wraps_before_a_wide_character_has_no_gap_there() -> None:
    screen = Screen(20, 3)
    screen.feed(b"a" * 19 + "日本".encode())
    assert shown(screen.redraw(PLENTY), screen).text(unwrap=True) == "a" * 19 + "日本"


def test_a_wide_character_that_became_a_space_leaves_what_follows_in_its_place() -> None:
    screen = Screen(20, 3)
    screen.feed("\x1b(Aa日b\x1b(B c".encode())
    client = shown(screen.redraw(PLENTY), screen)
    assert [client.search(char)[0].column for char in "abc"] == [0, 3, 5]


def test_a_resized_screen_is_redrawn_at_its_new_size() -> None:
    randomly = random.Random(5)
    screen = Screen(40, 10)
    for _ in range(60):
        screen.feed(
            b"some words \x1b[3%dmthat wrap " % randomly.randrange(8) * randomly.randrange(9) + b"\r\n"
        )
        screen.resize(randomly.randrange(1, 90), randomly.randrange(1, 30))
        now = shown(screen.redraw(PLENTY), screen)
        assert now.text(scrollback=True) == screen.text(scrollback=True)
        assert now.cursor == screen.cursor
