"""Passepartout's frames: six hex digits, then so many characters, however the bytes are split."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.wire.faults import Broken, LocalError
from fairlead.wire.passepartout import (
    MAX_BLANKS,
    MAX_CHARACTERS,
    Decoder,
    frame,
)
from tests.wire.passepartout_frames import framed, in_pieces


def fed(decoder: Decoder, pieces: list[bytes]) -> list[str | Broken]:
    return [item for piece in pieces for item in decoder.feed(piece)]


# --- characters, not bytes --------------------------------------------------------------------------------

TEXTS = {
    "ASCII": '"plain"',
    "two bytes": '"Grüße"',
    "three bytes": '"日本語 €"',
    "four bytes": '"𝄞 😀 \U0010ffff"',
    "combining marks": '"e\u0301 o\u0308\u0323 👩\u200d💻"',
    "controls": '"\0 \x01 \x7f \x85 \u2028"',
    "line ends": '"a\nb\r\nc\rd\te"',
    "text like a header": '"00000500000A"',
}
each_text = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


@each_text
def test_the_header_counts_characters(text: str) -> None:
    value = text[1:-1]
    assert frame(value) == framed(text)
    assert int(frame(value)[:6], 16) == len(text)


@each_text
def test_a_frame_is_the_same_wherever_its_bytes_are_split(text: str) -> None:
    data = framed(text) + framed("NIL")
    for cut in range(len(data) + 1):
        assert fed(Decoder(), [data[:cut], data[cut:]]) == [text, "NIL"]


@each_text
def test_a_frame_may_come_byte_by_byte(text: str) -> None:
    decoder = Decoder()
    data = framed(text)
    assert fed(decoder, [data[at : at + 1] for at in range(len(data) - 1)]) == []
    assert decoder.feed(data[-1:]) == [text]
    assert decoder.pending == 0


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
cuts = st.lists(st.integers(0, 400), max_size=30)


@given(st.lists(st.tuples(st.text(" \n\t\r", max_size=3), texts), max_size=8), cuts)
def test_any_split_of_a_stream_gives_the_same_frames(frames: list[tuple[str, str]], cuts: list[int]) -> None:
    stream = b"".join(blanks.encode() + framed(text) for blanks, text in frames)
    decoder = Decoder()
    assert fed(decoder, in_pieces(stream, cuts)) == [text for _, text in frames]
    assert (decoder.pending, decoder.end()) == (0, None)


junk = st.one_of(
    st.binary(max_size=12),
    st.text("0123456789abcdefABCDEFgG+-_ \n٣", max_size=12).map(str.encode),
    texts.map(framed),
)


@given(st.lists(junk, max_size=6).map(b"".join), cuts)
def test_any_split_of_any_bytes_gives_the_same_frames_and_the_same_fault(
    data: bytes, cuts: list[int]
) -> None:
    whole, split = Decoder(max_characters=100), Decoder(max_characters=100)
    assert fed(split, in_pieces(data, cuts)) == whole.feed(data)
    assert (split.pending, split.end()) == (whole.pending, whole.end())


def test_a_frame_can_be_as_long_as_its_header_can_say() -> None:
    longest = "a" * (MAX_CHARACTERS - 2)
    data = frame(longest)
    assert data[:8] == b'FFFFFF"a'
    assert Decoder().feed(data) == [f'"{longest}"']


# --- headers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [b"00000a", b"00000A", b"00000a".upper()])
def test_a_header_may_be_in_any_case(header: bytes) -> None:
    assert Decoder().feed(header + b"0123456789") == ["0123456789"]


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("G", "G"),
        ("(:TYPE", "("),
        ("00000G", "00000G"),
        ("00G000", "00G"),
        ("+00005", "+"),
        ("-00005", "-"),
        ("0_0005", "0_"),
        ("0x0005", "0x"),
        ("00 005", "00 "),
        ("0000\n5", "0000\\n"),
        ("00005 ", "00005 "),
        ("٠٠٠٠٠٥", "٠"),
        ("0000０5", "0000０"),
        ("\ufeff00005", "\\ufeff"),
        ("\x0b00005", "\\x0b"),
        ("\u00a000005", "\\xa0"),
        ("\x00", "\\x00"),
    ],
)
def test_a_header_is_refused_at_its_first_wrong_character(header: str, shown: str) -> None:
    fault = Broken(f"a frame must begin with six hex digits, not '{shown}'")
    whole, slow = Decoder(), Decoder()
    assert whole.feed(header.encode() + b"(:A 1)") == [fault]
    first_wrong = next(at for at, letter in enumerate(header) if letter not in "0123456789ABCDEFabcdef")
    assert slow.feed(header[:first_wrong].encode()) == []
    assert slow.feed(header[first_wrong].encode()) == [fault]


def test_a_frame_of_no_characters_is_a_frame() -> None:
    assert Decoder().feed(b"000000") == [""]
    assert Decoder().feed(b"000000000000000003NIL") == ["", "", "NIL"]
    assert fed(Decoder(), [b"00000", b"0", b"000003NIL"]) == ["", "NIL"]


@pytest.mark.parametrize(("length", "limit"), [(11, 10), (0xFFFFFF, 10), (1, 0)])
def test_a_frame_above_the_limit_is_refused_when_its_header_is_complete(length: int, limit: int) -> None:
    decoder = Decoder(max_characters=limit)
    assert decoder.feed(b"%06X" % length) == [
        Broken(f"a frame of {length} characters; at most {limit} are allowed")
    ]


def test_a_frame_at_the_limit_is_taken_whatever_the_number_of_its_bytes() -> None:
    assert Decoder(max_characters=4).feed(framed("😀😀😀😀")) == ["😀😀😀😀"]


def test_the_limit_may_change_between_two_frames_of_the_same_data() -> None:
    decoder = Decoder(max_characters=3)
    frames = decoder.each(framed("NIL") + framed("12345"))
    assert next(frames) == "NIL"
    decoder.max_characters = 5
    assert list(frames) == ["12345"]


def test_a_claimed_length_allocates_nothing() -> None:
    decoders = [Decoder() for _ in range(10)]
    tracemalloc.start()
    try:
        for decoder in decoders:
            decoder.feed(b"FFFFFF(")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
    assert [decoder.pending for decoder in decoders] == [1] * 10


def test_pending_counts_the_characters_of_an_unfinished_frame() -> None:
    decoder = Decoder()
    seen = []
    for piece in ("   ", "00", "0004", "é", "日", "1", "2"):
        decoder.feed(piece.encode())
        seen.append(decoder.pending)
    assert seen == [0, 2, 0, 1, 2, 3, 0]


# --- blanks -----------------------------------------------------------------------------------------------


def test_blanks_between_frames_are_skipped() -> None:
    assert Decoder().feed(b" \n\t\r000003NIL\r\n\r\n000001T ") == ["NIL", "T"]


@pytest.mark.parametrize("size", [1, 7, MAX_BLANKS, MAX_BLANKS + 1])
def test_the_limit_of_blanks_holds_across_feeds(size: int) -> None:
    blanks = b" \n\t\r" * (MAX_BLANKS // 4)
    pieces = [blanks[at : at + size] for at in range(0, len(blanks), size)]
    assert fed(Decoder(), [*pieces, b"000001T"]) == ["T"]
    too_many = Decoder()
    assert fed(too_many, pieces) == []
    assert too_many.feed(b" 000001T") == [Broken("more than 4096 blanks before a frame")]


def test_blanks_are_counted_anew_before_each_frame() -> None:
    blanks = b" " * MAX_BLANKS
    assert fed(Decoder(), [blanks, b"000001T", blanks, b"000001T" + blanks]) == ["T", "T"]


def test_blanks_inside_of_a_frame_are_its_text() -> None:
    assert Decoder().feed(framed(" " * 5000) + framed("\n")) == [" " * 5000, "\n"]


# --- the end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("came", ["", " \n", "0", "000", "00002", "000003NIL", "000003NIL\n0000"])
def test_a_stream_may_end_between_frames_and_in_a_header(came: str) -> None:
    decoder = Decoder()
    decoder.feed(came.encode())
    assert decoder.end() is None


@pytest.mark.parametrize(
    ("came", "missing"),
    [(b"000003", 3), (b"000003N", 2), (b"000003NI", 1), (b"FFFFFF", 0xFFFFFF), (b"000002a\xf0\x9f\x98", 1)],
)
def test_a_stream_that_ends_in_a_body_is_broken(came: bytes, missing: int) -> None:
    decoder = Decoder()
    assert decoder.feed(came) == []
    assert decoder.end() == Broken(f"the stream ended with {missing} characters of a frame missing")
    assert (decoder.end(), decoder.pending) == (None, 0)


# --- faults -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (b"\xff", "invalid start byte"),
        (b"\x80", "invalid start byte"),
        (b"\xc0\x80", "invalid start byte"),
        (b"\xc3(", "invalid continuation byte"),
        (b"\xed\xa0\x80", "invalid continuation byte"),
        (b"\xf4\x90\x80\x80", "invalid continuation byte"),
    ],
)
@pytest.mark.parametrize("before", [b"", b"000005ab"], ids=["in a header", "in a body"])
def test_invalid_utf8_is_broken_after_the_frames_before_it(before: bytes, wrong: bytes, why: str) -> None:
    expected: list[str | Broken] = ["NIL", "T", Broken(f"invalid UTF-8: {why}")]
    data = b"000003NIL000001T" + before + wrong
    assert Decoder().feed(data) == expected
    assert fed(Decoder(), [data[at : at + 1] for at in range(len(data))]) == expected


def test_what_is_wrong_first_is_what_is_reported() -> None:
    assert Decoder().feed(b"000001T00G\xff") == [
        "T",
        Broken("a frame must begin with six hex digits, not '00G'"),
    ]


@pytest.mark.parametrize("broken", [b"G", b"FFFFFF", b"\xff", b" " * 4097])
def test_nothing_comes_after_a_broken(broken: bytes) -> None:
    decoder = Decoder(max_characters=10)
    [*_, fault] = decoder.feed(broken + b"000003NIL")
    assert isinstance(fault, Broken)
    assert decoder.feed(b"000003NIL") == []
    assert decoder.end() is None


# --- what can't be framed ---------------------------------------------------------------------------------


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def holding_itself(times: int) -> list[Any]:
    value: list[Any] = []
    value.extend([value] * times)
    return value


UNSENDABLE = {
    "a lone surrogate": ("a\ud800b", "half of a surrogate pair can't be sent as UTF-8"),
    "infinity": (float("inf"), "inf can't be printed readably"),
    "not a number": (float("nan"), "nan can't be printed readably"),
    "an object": ([object()], "can't write a object as an S-expression"),
    "bytes": (b"x", "can't write a bytes as an S-expression"),
    "too deep": (nested(257), "the value nests deeper than 256, or holds itself"),
    "too deep vectors": (((nested(255),),), "the value nests deeper than 256, or holds itself"),
    "a list in itself": (holding_itself(1), "the value nests deeper than 256, or holds itself"),
    "a list in itself twice": (holding_itself(2), "the value nests deeper than 256, or holds itself"),
}


@pytest.mark.parametrize(("value", "why"), UNSENDABLE.values(), ids=UNSENDABLE)
def test_what_lisp_could_not_read_is_not_framed(value: Any, why: str) -> None:
    with pytest.raises(LocalError) as raised:
        frame(value)
    assert str(raised.value) == f"can't be sent: {why}"


def test_the_deepest_value_that_is_read_is_framed() -> None:
    text = "(" * 255 + "NIL" + ")" * 255
    assert frame(nested(256)) == framed(text)


def test_a_text_of_more_than_six_digits_is_not_framed() -> None:
    with pytest.raises(LocalError) as raised:
        frame("a" * (0x1000000 - 2))
    assert str(raised.value) == "a message of 16777216 characters; a frame holds at most 16777215"
