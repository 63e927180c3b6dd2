"""What both formats stand on: places of errors, cutting text, digits of floats, depth, names, writing."""

import doctest
import importlib
import math
import struct
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats.edn import EdnError
from fairlead.formats.faults import TextError, line_and_column, token_text, utf8
from fairlead.formats.floats import digits_of, notation, shortest
from fairlead.formats.lexing import apart, cut, is_closed, spaced
from fairlead.formats.names import Name
from fairlead.formats.nesting import nests_deeper
from fairlead.formats.sexp import SexpError
from fairlead.formats.writing import digits

MODULES = [
    "asciicast",
    "edn",
    "edn.reader",
    "edn.shapes",
    "edn.values",
    "edn.writer",
    "faults",
    "floats",
    "lexing",
    "names",
]
MODULES += ["nesting", "sexp", "writing"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    module = importlib.import_module(f"fairlead.formats.{name}")
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted > 0 or name not in ("edn", "sexp")


# --- faults -----------------------------------------------------------------------------------------------


@given(st.text("ab\n", max_size=12), st.data())
def test_a_line_and_a_column_count_from_one(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    line, column = line_and_column(text, offset)
    assert sum(len(before) + 1 for before in text.split("\n")[: line - 1]) + column - 1 == offset


def test_only_the_beginning_of_a_long_token_is_shown() -> None:
    assert token_text("a" * 40) == "a" * 40
    assert token_text("a" * 41) == "a" * 40 + "…"


@pytest.mark.parametrize("error", [EdnError, SexpError])
def test_bytes_that_are_no_utf_8_are_an_error_of_the_format(error: type[TextError]) -> None:
    assert utf8("é".encode(), error) == utf8("é", error) == "é"
    with pytest.raises(error, match="the text is not UTF-8 at byte 2"):
        utf8(b"ab\xffc", error)


# --- lexing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "between", "strings"),
    [
        ("a b", "a b", []),
        ('a"b"c', 'a " c', ["b"]),
        ('"a\\"b" "\\\\"', ' "   " ', ['a\\"b', "\\\\"]),
        ('"é;#"', ' " ', ["é;#"]),
    ],
)
def test_the_strings_of_a_simple_text_are_taken_out(text: str, between: str, strings: list[str]) -> None:
    assert apart(text, ";#") == (between, strings)


@pytest.mark.parametrize("text", ["a;b", "a#b", '"a', '"a\\"', "é", "a\\b", '\\" "a"', '"\\n\0"', '"\\n" \1'])
def test_a_text_that_is_not_simple_is_left_alone(text: str) -> None:
    assert apart(text, ";#") is None


def test_what_is_between_strings_is_cut_at_blanks_and_brackets() -> None:
    assert cut("(a(b c)) \n\t d", spaced("()"), 9) == ["(", "a", "(", "b", "c", ")", ")", "d"]
    assert cut("a(b", spaced("[]"), 9) == ["a(b"]
    assert len(cut("a b(c)", spaced("()"), 2)) == len(cut("()()", spaced("()"), 1)) + 1 == 3


@pytest.mark.parametrize(
    ("token", "whole"),
    [
        ('"', False),
        ('""', True),
        ('"a', False),
        ('"\\"', False),
        ('"\\\\"', True),
        ('"\\\\\\"', False),
        ('"a"', True),
    ],
)
def test_a_string_is_whole_if_its_last_quote_is_not_escaped(token: str, whole: bool) -> None:
    assert is_closed(token) is whole


# --- floats -----------------------------------------------------------------------------------------------


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_digits_of_a_float_are_those_of_its_repr(value: float) -> None:
    sign, digits, point = digits_of(repr(value))
    assert float(f"{sign}0.{digits or '0'}e{point}") == value
    assert not digits or (digits[0] != "0" and digits[-1] != "0")


@given(st.floats(min_value=2.0**-1022, allow_infinity=False))
def test_the_shortest_digits_are_as_many_as_python_finds(value: float) -> None:
    _, expected, place = digits_of(repr(value))
    digits, point = shortest(value, 53)
    assert float(f"0.{digits}e{point}") == value
    assert (len(digits), point) == (len(expected), place)
    assert abs(int(digits) - int(expected)) <= 1  # Python decides a tie in another way


def test_the_shortest_digits_are_found_where_the_logarithm_is_rounded_up() -> None:
    assert shortest(99.99999999999999, 53) == ("9999999999999999", 2)
    assert shortest(100.0, 53) == ("1", 3)


@given(st.integers(0x00800000, 0x7F7FFFFF))
def test_the_shortest_digits_of_a_single_tell_it_from_its_neighbours(bits: int) -> None:
    below, value, above = (
        struct.unpack(">f", struct.pack(">I", bits + step))[0] if bits + step < 0x7F800000 else math.inf
        for step in (-1, 0, 1)
    )
    digits, point = shortest(value, 24)
    read = float(f"0.{digits}e{point}")
    assert abs(read - value) <= min(abs(read - below), abs(read - above))
    assert len(digits) <= 9


@pytest.mark.parametrize(
    ("digits", "point", "text"),
    [
        ("", 0, "-0.0x"),
        ("1", 1, "-1.0x"),
        ("1", -2, "-0.001x"),
        ("1", -3, "-1.0e-4"),
        ("12345678", 7, "-1234567.8x"),
        ("1", 7, "-1000000.0x"),
        ("1", 8, "-1.0e7"),
        ("125", 11, "-1.25e10"),
        ("125", 0, "-0.125x"),
    ],
)
def test_a_float_is_plain_from_a_thousandth_up_to_ten_million(digits: str, point: int, text: str) -> None:
    assert notation("-", digits, point, marker="e", plain_suffix="x") == text


# --- nesting, names, writing --------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "depth"), [(1, 0), ([], 1), ([1, [2], [[3]]], 3), ([(1, [2])], 1)])
def test_depth_is_counted_in_collections(value: Any, depth: int) -> None:
    assert not nests_deeper([value], {list: iter}, depth)
    assert depth == 0 or nests_deeper([value], {list: iter}, depth - 1)


def test_a_name_that_many_threads_make_at_once_is_one_object() -> None:
    class Word(Name):
        __slots__ = ()

    start, made = threading.Barrier(8), []

    def make() -> None:
        start.wait()
        made.extend([Word(f"w{number}") for number in range(200)])

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1600
    assert len(set(map(id, made))) == 200
    assert str(made[0]) == made[0].literal == made[0].name
    assert repr(Word("w")) == "Word('w')"


def test_digits_of_an_integer_that_python_does_not_convert_are_an_error_of_the_format() -> None:
    assert digits(True, EdnError) == "1"
    with pytest.raises(SexpError, match="an integer of 20000 bits is too long to write"):
        digits(2**20000 - 1, SexpError)
