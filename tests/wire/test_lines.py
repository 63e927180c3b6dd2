"""Lines: they end at 0x0A only, however the input is split, and a long one is given up once."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.wire.lines import MAX_HEAD, LineBuffer, LineTooLong
from tests.wire.cutting import bytewise, cuts, pieces

LIMIT = 8
LONG = LineTooLong(LIMIT)


def fed(chunks: list[bytes], limit: int = LIMIT) -> list[bytes | LineTooLong]:
    buffer = LineBuffer(limit)
    return [line for chunk in chunks for line in buffer.feed(chunk)]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b""], []),
        ([b"a"], []),
        ([b"\n"], [b""]),
        ([b"a\n"], [b"a"]),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a\n\n\nb\n"], [b"a", b"", b"", b"b"]),
        ([b"a", b"b", b"c\nd", b"\n"], [b"abc", b"d"]),
        ([b"a", b"\n"], [b"a"]),
        ([b"a\r\n"], [b"a\r"]),
        ([b"a\rb\n"], [b"a\rb"]),
        (["\u2028\u2029\n".encode()], ["\u2028\u2029".encode()]),
        ([b"\x85\x0b\x0c\x1c\n"], [b"\x85\x0b\x0c\x1c"]),
        ([b"12345678\n"], [b"12345678"]),
        ([b"1234", b"5678", b"\n"], [b"12345678"]),
        ([b"123456789\n"], [LONG]),
        ([b"12345678", b"9\n"], [LONG]),
        ([b"12345678", b"9", b"\n"], [LONG]),
        ([b"123456789"], [LONG]),
        ([b"123456789", b"123456789", b"123456789"], [LONG]),
        ([b"123456789", b"\nnext\n"], [LONG, b"next"]),
        ([b"ok\n123456789\nnext\n"], [b"ok", LONG, b"next"]),
        ([b"123456789\n123456789\n"], [LONG, LONG]),
        ([b"123456789", b"9\n123456789", b"9\nnext\n"], [LONG, LONG, b"next"]),
    ],
)
def test_lines_end_at_a_newline_and_nowhere_else(
    chunks: list[bytes], lines: list[bytes | LineTooLong]
) -> None:
    assert fed(chunks) == lines
    assert fed(bytewise(b"".join(chunks))) == lines


@given(st.lists(st.binary(max_size=12) | st.sampled_from([b"", b"\r", b"\n"]), max_size=12), cuts)
def test_any_split_gives_the_same_lines_and_keeps_no_more_than_the_limit(
    parts: list[bytes], places: list[int]
) -> None:
    stream = b"\n".join(parts)
    *whole, rest = stream.split(b"\n")
    expected = [line if len(line) <= LIMIT else LONG for line in whole] + [LONG] * (len(rest) > LIMIT)
    for chunks in (pieces(stream, places), bytewise(stream), [stream]):
        buffer = LineBuffer(LIMIT)
        lines: list[bytes | LineTooLong] = []
        for chunk in chunks:
            lines += buffer.feed(chunk)
            assert buffer.pending <= LIMIT
        assert lines == expected
        assert buffer.pending == (len(rest) if len(rest) <= LIMIT else 0)


def test_an_endless_line_costs_no_memory() -> None:
    buffer, chunk = LineBuffer(1000), b"x" * 4096
    buffer.feed(chunk)
    tracemalloc.start()
    for _ in range(1000):
        assert buffer.feed(chunk) == []
        assert buffer.pending == 0
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 1024


def test_a_line_that_was_too_long_tells_the_limit() -> None:
    assert repr(LineTooLong(5)) == "TooLong(5)"
    assert LineTooLong(5) == LineTooLong(5) != LineTooLong(6)
    assert LineTooLong(5) != 5
    assert hash(LineTooLong(5)) == hash(LineTooLong(5))


@pytest.mark.parametrize("limit", [8, 3000])
def test_a_line_that_was_too_long_keeps_its_beginning(limit: int) -> None:
    stream = bytes(range(14, 256)) * 20
    for chunks in (
        [stream, b"\n"],
        [stream + b"\n"],
        bytewise(stream + b"\n"),
        [stream[:5], stream[5:] + b"\n"],
    ):
        (long,) = fed(chunks, limit)
        assert isinstance(long, LineTooLong)
        assert long.head == stream[: min(limit, MAX_HEAD)]
