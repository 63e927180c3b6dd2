"""A line of text with a terminal's colours becomes cells, and nothing else of it reaches the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.strip import Strip

from fairlead.ui.dashboard.painted import strip_of


def text_of(strip: Strip) -> str:
    return "".join(segment.text for segment in strip)


def looks(text: str) -> list[tuple[str, str]]:
    return [(segment.text, str(segment.style)) for segment in strip_of(text, 12) if segment.text.strip()]


def test_colours_and_attributes_are_understood() -> None:
    assert looks("a\x1b[1;31mb\x1b[0mc")[1:] == [("b", "bold color(1)"), ("c", "none")]
    [(_, wide)] = looks("\x1b[38;2;1;2;3;48;5;200mx")
    assert "#010203" in wide
    assert "on color(200)" in wide
    assert looks("\x1b[1mx\x1b[22;4my")[1][1] == "not bold not dim underline"
    assert looks("\x1b[38;5mx") == [("x", "none")]


def test_what_is_cut_and_filled_has_the_width_that_was_asked_for() -> None:
    for text in (
        "",
        "short",
        "a much longer text than there is room",
        "日本語日本語日本語",
        "é" * 30,
        "👩‍👩‍👧‍👦" * 9,
    ):
        for width in (1, 2, 5, 12, 80):
            assert strip_of(text, width).cell_length == width


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x1b[10;10H",
        "\x07",
        "\x9b2J",
        "\u202eabc",
        "a\rb\nc",
        "\x1b(0",
        "\x00",
    ],
)
def test_what_controls_a_terminal_is_left_out_or_a_dot(text: str) -> None:
    shown = text_of(strip_of(f"x{text}y", 40))
    assert shown.isprintable()


@given(st.text(max_size=60), st.integers(1, 40))
def test_any_text_becomes_so_many_printable_cells(text: str, width: int) -> None:
    strip = strip_of(text, width)
    assert strip.cell_length == width
    assert not any(char in text_of(strip) for char in "\x1b\r\n\x07\x9b\u202e")


def test_without_colours_attributes_stay_and_in_ascii_everything_is_ascii() -> None:
    [segment, *_] = strip_of("\x1b[1;7;31mx", 1, has_colours=False)
    assert str(segment.style) == "bold reverse"
    assert text_of(strip_of("●›│─… 日本", 12, is_ascii=True)) == "*>|-~ ??    "


def test_a_line_without_end_is_looked_at_in_part() -> None:
    assert strip_of("x" * 10_000_000, 10).cell_length == 10
