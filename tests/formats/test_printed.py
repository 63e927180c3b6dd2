"""What a program printed, as lines: what a reader would see, wherever it is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats import printed
from fairlead.formats.printed import Printed


def split(data: bytes) -> list[str]:
    lines = Printed(as_shown=True)
    found = lines.feed(data)
    return [*found, lines.begun] if lines.begun else found


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", []),
        (b"one\ntwo\r\nthree", ["one", "two", "three"]),
        (b"\n\r\n\n", ["", "", ""]),
        (b"trailing  \n", ["trailing"]),
        (b"\x1b[1;31mred\x1b[0m and \x1b[38:2::1:2:3mmore\x1b[m\n", ["red and more"]),
        (b"\x1b]0;a title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", ["textlink"]),
        (b"\x1bP+q544e\x1b\\dcs \x1b_apc\x1b\\gone\n", ["dcs gone"]),
        (b"\x1b(Bset\x1b7\x1b8\x1b=\x1b>\x1bM\n", ["set"]),
        (b"10%\r55%\r100%\n", ["100%"]),
        (b"a long one\rshort\n", ["shortg one"]),
        (b"a long one\r\x1b[Kshort\n", ["short"]),
        (b"a long one\x1b[2K\rshort\n", ["short"]),
        (b"a long one\r\x1b[1Kshort\n", ["shortg one"]),
        (b"abc\b\bX\n", ["aXc"]),
        (b"\b\bx\n", ["x"]),
        (b"a\tb\tc\n12345678\tx\n", ["a       b       c", "12345678        x"]),
        (b"a\x1b[3Cb\x1b[Cc\n", ["a   b c"]),
        ("grüße 日本 🎈\n".encode(), ["grüße 日本 🎈"]),
        (b"bad \xff\xfe bytes\n", ["bad \ufffd\ufffd bytes"]),
        (b"bell\x07 nul\x00 shift\x0e\x0f del\x7f\n", ["bell nul shift del"]),
        (b"before\n\x1b[?1049hdrawn\nby vim\n\x1b[?1049lafter\n", ["before", "after"]),
        (b"\x1b\x1b[31mtwice\n", ["twice"]),
        (b"a\x1b[5Cb\n", ["a     b"]),
        (b"abc\r\x1b[2Cd\n", ["abd"]),
        (b"abc\x1b[2Kd\n", ["   d"]),
        (b"abc\x1b[1Kd\n", ["   d"]),
        (b"abcd\x1b[2D\x1b[1Ke\n", ["  ed"]),
        (b"abc\x1b[3Gd\x1b[Ge\n", ["ebd"]),
        (b"one\x1b[?1049hdrawn\x1b[2K\x1b[9Cx\n\x1b[?1049l two\n", ["one two"]),
        (b"a\x1b[99999999999999999999Cb\x1b[999999Dc\n", ["c" + " " * 1000 + "b"]),
    ],
)
def test_lines_are_what_a_reader_would_see(data: bytes, wanted: list[str]) -> None:
    assert split(data) == wanted


PIECES = st.lists(
    st.sampled_from(
        [
            b"text",
            b"\r\n",
            b"\n",
            b"\r",
            b"\b",
            b"\t",
            b"\x1b[31m",
            b"\x1b[K",
            b"\x1b[2K",
            b"\x1b[1K",
            b"\x1b[3C",
            b"\x1b[2D",
            b"\x1b[4G",
            b"\x1b]2;t\x07",
            b"\x1b]8;;u\x1b\\",
            b"\x1bPq\x1b\\",
            b"\x1b[?1049h",
            b"\x1b[?1049l",
            b"\x1b(B",
            "日本é".encode(),
        ]
    )
).map(b"".join)


@given(data=PIECES, cuts=st.lists(st.integers(0, 200)))
def test_it_does_not_matter_where_it_is_cut(data: bytes, cuts: list[int]) -> None:
    lines = Printed(as_shown=True)
    found: list[str] = []
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    for start, end in pairwise(places):
        found += lines.feed(data[start:end])
    whole = Printed(as_shown=True)
    assert (found, lines.begun) == (whole.feed(data), whole.begun)


@given(data=st.binary())
def test_any_bytes_give_lines_without_control_characters(data: bytes) -> None:
    for line in split(data):
        assert all(char >= " " and char != "\x7f" for char in line)


def test_a_line_that_was_begun_before_goes_on() -> None:
    assert Printed("$ ").feed(b"ls\r\n") == ["$ ls"]
    assert Printed(alternate=True).feed(b"drawn\n\x1b[?1049lshown\n") == ["shown"]


def test_an_endless_line_and_an_endless_sequence_take_no_endless_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Printed(max_line=10).feed(b"x" * 25 + b"\n" + b"y" * 11 + b"\nz\n") == [
        *("x" * 10, "x" * 10, "x" * 5, "y" * 10, "y", "z")
    ]
    monkeypatch.setattr(printed, "MAX_SEQUENCE", 10)
    lines = Printed(as_shown=True)
    assert lines.feed(b"\x1b]2;" + b"y" * 25) == []
    assert lines.feed(b"z\n") == ["z"]


def test_tabs_and_spaces_at_the_end_stay_unless_it_is_as_shown() -> None:
    data = b"a\tb  \n\tc  \nplain\n"
    assert Printed().feed(data) == ["a\tb  ", "\tc  ", "plain"]
    assert Printed(as_shown=True).feed(data) == ["a       b", "        c", "plain"]


def test_both_who_follow_and_agents_see_the_same_lines() -> None:
    data = b"a\x1b[5Cb\nabc\x1b[2Kd\nx\n\x1b[?1049hdrawn\n\x1b[?1049ly\n"
    assert Printed().feed(data) == Printed(as_shown=True).feed(data) == ["a     b", "   d", "x", "y"]
