"""How Python values are printed as SBCL would print them, and the values that are Lisp's own."""

import copy
import math
import pickle
from collections import OrderedDict, namedtuple
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from typing import Any

import pytest

from fairlead.formats.sexp import QUOTE, Char, Dotted, Keyword, SexpError, Single, Symbol, dumps, loads

K, S = Keyword, Symbol
Point = namedtuple("Point", "x y")


class Level(IntEnum):
    LOW = 1


class Color(StrEnum):
    RED = "red"


PRINTED: list[tuple[Any, str]] = [
    ([], "NIL"),
    (None, "NIL"),
    (False, "NIL"),
    (True, "T"),
    ([[], None, [False]], "(NIL NIL (NIL))"),
    ([1, [2, [3]]], "(1 (2 (3)))"),
    ((), "#()"),
    ((1, ()), "#(1 #())"),
    (Dotted((1, 2), 3), "(1 2 . 3)"),
    (Dotted(([],), (1,)), "(NIL . #(1))"),
    (Dotted((Dotted((1,), 2),), "x"), '((1 . 2) . "x")'),
    ([QUOTE, S("X")], "(QUOTE X)"),
    (-(10**30), "-" + "1" + "0" * 30),
    (Fraction(-1, 2), "-1/2"),
    (Fraction(4, 2), "2"),
    (1.0, "1.0d0"),
    (-0.0, "-0.0d0"),
    (1e7, "1.0d7"),
    (0.001, "0.001d0"),
    (1e-4, "1.0d-4"),
    (1.1258999068426242e15, "1.1258999068426243d15"),
    (5e-324, "4.9406564584124654d-324"),
    (Single(1.5), "1.5"),
    (Single(-0.0), "-0.0"),
    (Single(1e7), "1.0e7"),
    (Single(0.1), "0.1"),
    (Single(1048576.25), "1048576.3"),
    (Single(2.0**87), "1.5474251e26"),
    (Single(2.0**-149), "1.4012985e-45"),
    ('a"\\\n\t\0é😀', '"a\\"\\\\\n\t\0é😀"'),
    (K("TYPE"), ":TYPE"),
    (K("type"), ":|type|"),
    (K("a|b\\"), r":|a\|b\\|"),
    (K("É"), ":É"),
    (K("é"), ":|é|"),
    (K(""), ":||"),
    (S("X", "PASSEPARTOUT:"), "PASSEPARTOUT:X"),
    (S("x", "PASSEPARTOUT::"), "PASSEPARTOUT::|x|"),
    (Char("a"), r"#\a"),
    (Char(" "), "#\\ "),
    (Char("\n"), r"#\Newline"),
    (Char("\x7f"), r"#\Rubout"),
    (Char("\x80"), r"#\C80"),
    (Char("\u00a0"), r"#\NO-BREAK_SPACE"),
    (Char("é"), r"#\LATIN_SMALL_LETTER_E_WITH_ACUTE"),
    (Char("日"), r"#\U65E5"),
    (Char("😀"), r"#\U1F600"),
    (Level.LOW, "1"),
    (Color.RED, '"red"'),
    (Point(1, 2), "#(1 2)"),
]


@pytest.mark.parametrize(
    ("value", "text"), PRINTED, ids=lambda case: ascii(case)[:40] if isinstance(case, str) else ""
)
def test_a_value_is_printed_as_sbcl_prints_it(value: Any, text: str) -> None:
    assert dumps(value) == text
    assert dumps([value, (value,)]) == f"({text} #({text}))"
    assert dumps(loads(text)) == text


@pytest.mark.parametrize(
    ("name", "barred"),
    [
        ("ABC", False),
        ("A-B", False),
        ("A1", False),
        ("*X*", False),
        ("1+", False),
        ("+1", True),
        ("1", True),
        ("1E5", True),
        ("1EE5", False),
        ("1A", True),
        ("1AB", False),
        ("A1B", False),
        ("/2/", False),
        ("1/2", True),
        ("+/", False),
        ("^1", True),
        ("1_", True),
        ("1-", False),
        ("+.A1", True),
        ("+.AB1", True),
        (".AB1", False),
        ("+A1", True),
        ("+AB1", False),
        (".", True),
        ("..", True),
        ("-.", False),
        (".1", True),
        ("1É", True),
        ("1日", False),
        ("1*", False),
        ("a", True),
        ("ǅ", True),
        ("Ⅷ", True),
        ("日本", False),
        ("A B", True),
        ("A\u2028B", False),
        ("A\u00a0B", True),
        ("A\x7f", True),
        ("A:B", True),
        ("A#B", True),
    ],
)
def test_a_name_has_bars_just_where_sbcl_prints_them(name: str, barred: bool) -> None:
    for value in (Keyword(name), Symbol(name)):
        assert ("|" in dumps(value)) is barred
        assert loads(dumps(value)) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "can't write a object as an S-expression"),
        ({}, "can't write a dict as an S-expression"),
        (OrderedDict(), "can't write a OrderedDict as an S-expression"),
        ({1}, "can't write a set as an S-expression"),
        (b"a", "can't write a bytes as an S-expression"),
        (1j, "can't write a complex as an S-expression"),
        (Decimal(1), "can't write a Decimal as an S-expression"),
        (math.inf, "inf can't be printed readably"),
        (-math.inf, "-inf can't be printed readably"),
        (math.nan, "nan can't be printed readably"),
        (Single(math.inf), "inf can't be printed readably"),
        (Single(math.nan), "nan can't be printed readably"),
        ("\ud800", "half of a surrogate pair can't be sent as UTF-8"),
        (K("\udfff"), "half of a surrogate pair can't be sent as UTF-8"),
        (S("A\ud800"), "half of a surrogate pair can't be sent as UTF-8"),
    ],
    ids=lambda case: case if isinstance(case, str) and case.isascii() else type(case).__name__,
)
def test_a_value_that_can_t_be_printed_is_refused(value: Any, message: str) -> None:
    for whole in (value, [1, value], Dotted((1,), value)) if value != {} else (value,):
        with pytest.raises(SexpError) as caught:
            dumps(whole)
        assert str(caught.value) == caught.value.message == message
        assert (caught.value.line, caught.value.column) == (None, None)


def test_a_single_is_rounded_when_it_is_made() -> None:
    assert Single(0.1) != 0.1
    assert Single(0.1) == Single(Single(0.1)) == 0.10000000149011612
    assert isinstance(Single(1), float)
    for too_large in (1e39, -3.5e38):
        with pytest.raises(ValueError, match="is too large for a single float"):
            Single(too_large)


@pytest.mark.parametrize("text", ["", "ab", chr(0xD800)])
def test_a_character_is_one_that_can_be_sent(text: str) -> None:
    with pytest.raises(ValueError, match="not a single character"):
        Char(text)


@pytest.mark.parametrize(("name", "python"), [("NIL", r"\[\]"), ("T", "True")])
def test_nil_and_t_are_no_symbols(name: str, python: str) -> None:
    with pytest.raises(ValueError, match=f"the symbol {name} is {python} in Python"):
        Symbol(name)
    assert Symbol(name.lower()).literal == f"|{name.lower()}|"
    assert Symbol(name, "PASSEPARTOUT::").package == "PASSEPARTOUT::"


def test_a_dotted_list_has_something_before_the_dot_and_no_list_after_it() -> None:
    with pytest.raises(ValueError, match="needs something before the dot"):
        Dotted((), 1)
    tails: list[Any] = [[], [1], None, False, Dotted((1,), 2)]
    for tail in tails:
        with pytest.raises(ValueError, match="what follows the dot must not be a list"):
            Dotted((1,), tail)


def test_lisps_values_can_be_copied_and_sent() -> None:
    for value in (S("A", "PASSEPARTOUT:"), Char("a"), Dotted((1,), K("B")), Single(0.1)):
        for other in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert (type(other), other) == (type(value), value)
            assert dumps(other) == dumps(value)


def test_a_symbol_is_a_value_that_shows_how_it_is_printed() -> None:
    assert S("A") == S("A") != S("A", "PASSEPARTOUT:")
    assert {S("A"): 1}[S("A")] == 1
    assert (str(S("a")), str(K("A"))) == ("|a|", ":A")
    with pytest.raises(AttributeError):
        S("A").name = "B"  # type: ignore[misc]
