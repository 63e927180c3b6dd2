"""What a session prints never resets a person's terminal, erases its scrollback or leaves its screen."""

from __future__ import annotations

import pytest

from fairlead.terminal.screen.screen import Screen
from fairlead.ui.own_terminal import ENTER_ALTERNATE
from fairlead.ui.translate import MAX_HELD, REDRAW, Translator, is_whole

MINE = b"mine\r\n" * 100
HOSTILE = [
    b"\x1bc", b"\x1b\nc", b"\x1b\x1bc", b"\x1b]0;title\x1bc", b"\x1b[3J", b"\x1b[?3J", b"\x1b[0003J",
    b"\x1b[\r3J", b"\x1b[3;1J", b"\x1b[?1049l", b"\x1b[?47l", b"\x1b[?1047l", b"\x1b[?25;1049;7l",
    b"\x1b[?1049s\x1b[?1049h\x1b[?1049r", b"\x1b[?001049l", b"\x1b[?1049\x07l", b"\x1b[31m\x1bc" * 50,
]  # fmt: skip
HARMLESS = [
    b"text", b"\x1b[2J\x1b[H", b"\x1b[J", b"\x1b[?25l\x1b[?2004h", b"\x1b[1;31mJ\x1b(B", b"\x1b[33m",
    b"\x1b]2;a title\x07", b"\x1b[?1048h", b"\xf0\x9f\x98\x80\x1b[0m", b"\x1b7\x1b8\x1bM", b"\x1b[?1;7h",
]  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE)
def test_the_persons_screen_and_scrollback_stay_however_the_output_is_cut(data: bytes) -> None:
    for cut in range(len(data) if len(data) < 100 else 1):
        translator = Translator(alternate=True)
        with Screen(80, 24) as screen:
            screen.feed(MINE)
            before = screen.text(scrollback=True)
            screen.feed(ENTER_ALTERNATE)
            for part in (b"a" + data[:cut], data[cut:] + b"z"):
                screen.feed(translator.translate(part))
            assert screen.alternate
            assert "z" in screen.text()
            screen.feed(b"\x1b[?1049l")
            assert screen.text(scrollback=True) == before


@pytest.mark.parametrize("data", [each for each in HOSTILE if b"c" in each or b"J" in each])
def test_on_the_main_screen_the_scrollback_stays(data: bytes) -> None:
    translator = Translator(alternate=False)
    with Screen(80, 24) as screen:
        screen.feed(MINE)
        screen.feed(translator.translate(data))
        assert screen.text(scrollback=True).count("mine") >= 77


@pytest.mark.parametrize("data", HARMLESS)
def test_what_is_harmless_is_passed_on_unchanged(data: bytes) -> None:
    for cut in range(len(data) + 1):
        translator = Translator(alternate=True)
        assert translator.translate(data[:cut]) + translator.translate(data[cut:]) == data
        assert not translator.redraw_wanted


def test_a_switch_of_screens_wants_a_redraw_but_not_one_in_a_redraw() -> None:
    translator = Translator(alternate=True)
    translator.translate(REDRAW + b"\x07\x1b[?1049hrows\x1b[?47l\x1b[Hmore")
    assert not translator.redraw_wanted
    translator.translate(b"\x1b[?1049l")
    assert translator.redraw_wanted


def test_a_sequence_without_end_and_a_flood_of_resets_stay_bounded() -> None:
    translator = Translator(alternate=True)
    assert len(translator.translate(b"\x1b[" + b"1" * 10 * MAX_HELD)) > 9 * MAX_HELD
    assert len(translator.translate(b"A\x1bc" * 10_000)) < 50_000
    assert translator.translate(b"text") == b"text"


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"text", True), (b"\x1b[31m", True), (b"\x1b[31", False), (b"\x1b", False), (b"\xc3", False),
        (b"\xc3\xa9", True), (b"\xf0\x9f\x98", False), (b"\x1b]2;title", False), (b"\x1b]2;title\x07", True),
        (b"\x1b]2;title\x1b\\", True), (b"\x1bPq", False),
    ],
)  # fmt: skip
def test_where_something_can_be_put_in_is_known(data: bytes, whole: bool) -> None:
    assert is_whole(data) is whole
