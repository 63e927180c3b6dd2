"""How Python values are written as EDN."""

import json
import math
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest

from fairlead.formats.edn import (
    CLOJURE,
    PLAIN,
    BigInt,
    Char,
    Distinct,
    EdnError,
    FrozenMap,
    Keyword,
    Symbol,
    Tagged,
    Vector,
    dumps,
    loads,
)

K, S = Keyword, Symbol
MOMENT = datetime(2026, 1, 31, 12, 30, 45, 123456, UTC)
NUMBER = UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")

WRITTEN: list[tuple[Any, str, str]] = [
    # value, as Clojure reads it back, as the simplest readers do
    (None, "nil", "nil"),
    (True, "true", "true"),
    (False, "false", "false"),
    (0, "0", "0"),
    (-(2**63), "-9223372036854775808", "-9223372036854775808"),
    (2**63, "9223372036854775808N", "9223372036854775808"),
    (BigInt(5), "5N", "5"),
    (0.0, "0.0", "0.0"),
    (-0.0, "-0.0", "-0.0"),
    (1.5, "1.5", "1.5"),
    (0.001, "0.001", "0.001"),
    (0.00099, "9.9E-4", "9.9E-4"),
    (9999999.0, "9999999.0", "9999999.0"),
    (1e7, "1.0E7", "1.0E7"),
    (-1.25e-10, "-1.25E-10", "-1.25E-10"),
    (5e-324, "5.0E-324", "5.0E-324"),
    (1.7976931348623157e308, "1.7976931348623157E308", "1.7976931348623157E308"),
    (math.inf, "##Inf", "nil"),
    (-math.inf, "##-Inf", "nil"),
    (math.nan, "##NaN", "nil"),
    (Decimal("1.50"), "1.50M", "1.5"),
    (Decimal("1e5"), "1E+5M", "100000.0"),
    (Decimal("1e400"), "1E+400M", "nil"),
    (Decimal("-0"), "-0M", "-0.0"),
    (Fraction(1, 2), "1/2", "0.5"),
    (Fraction(-4, 2), "-2", "-2.0"),
    (Fraction(10**400, 3), f"{10**400}/3", "nil"),
    ("", '""', '""'),
    ('a"\\\n\r\t\b\f', r'"a\"\\\n\r\t\b\f"', r'"a\"\\\n\r\t\b\f"'),
    ("\0\x1f\x7f\u2028é😀", '"\\u0000\\u001f\x7f\u2028é😀"', '"\\u0000\\u001f\x7f\u2028é😀"'),
    ("\ud83d", r'"\ud83d"', r'"\ud83d"'),
    (K("a/b"), ":a/b", ":a/b"),
    (S("a/b"), "a/b", '"a/b"'),
    (Char("a"), r"\a", '"a"'),
    (Char("\n"), r"\newline", r'"\n"'),
    (Char(" "), r"\space", '" "'),
    (Char("\0"), r"\u0000", r'"\u0000"'),
    (Char("\u00a0"), r"\u00a0", '"\u00a0"'),
    (Char("("), r"\(", '"("'),
    ([1, [2, []]], "[1 [2 []]]", "[1 [2 []]]"),
    ((1, (2, ())), "(1 (2 ()))", "[1 [2 []]]"),
    (Vector((1,)), "[1]", "[1]"),
    ({}, "{}", "{}"),
    ({K("a"): 1, "b": [2], (3,): {}}, '{:a 1, "b" [2], (3) {}}', '{:a 1, "b" [2], [3] {}}'),
    (FrozenMap({1: Vector()}), "{1 []}", "{1 []}"),
    (frozenset({1}), "#{1}", "[1]"),
    ({2}, "#{2}", "[2]"),
    (frozenset(), "#{}", "[]"),
    (Tagged(S("a/b"), [1]), "#a/b [1]", "[1]"),
    ([Tagged(S("a"), Tagged(S("b"), None)), 1], "[#a #b nil 1]", "[nil 1]"),
    ({Distinct(1.0): Distinct("x")}, '{1.0 "x"}', '{1.0 "x"}'),
    (MOMENT, '#inst "2026-01-31T12:30:45.123456-00:00"', '"2026-01-31T12:30:45.123456Z"'),
    (
        MOMENT.replace(microsecond=500000),
        '#inst "2026-01-31T12:30:45.500-00:00"',
        '"2026-01-31T12:30:45.500Z"',
    ),
    (
        MOMENT.astimezone(timezone(timedelta(hours=-5, minutes=-30))),
        '#inst "2026-01-31T12:30:45.123456-00:00"',
        '"2026-01-31T12:30:45.123456Z"',
    ),
    (datetime(1, 1, 1, tzinfo=UTC), '#inst "0001-01-01T00:00:00.000-00:00"', '"0001-01-01T00:00:00.000Z"'),
    (NUMBER, f'#uuid "{NUMBER}"', f'"{NUMBER}"'),
]


@pytest.mark.parametrize(
    ("value", "clojure", "plain"), WRITTEN, ids=lambda case: ascii(case)[:40] if isinstance(case, str) else ""
)
def test_a_value_is_written_in_both_dialects(value: Any, clojure: str, plain: str) -> None:
    assert dumps(value) == dumps(value, dialect=CLOJURE) == clojure
    assert dumps(value, dialect=PLAIN) == plain
    assert dumps([value, {K("k"): value}]) == f"[{clojure} {{:k {clojure}}}]"
    loads(clojure)
    loads(plain)


class Level(IntEnum):
    LOW = 1


class Color(StrEnum):
    RED = "red"


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()

    def __repr__(self) -> str:
        return self.upper()


class Odd(float):
    __slots__ = ()

    def __repr__(self) -> str:
        return "odd"


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Level.LOW, "1"),
        (Color.RED, '"red"'),
        (Loud("quiet"), '"quiet"'),
        (Odd(1.5), "1.5"),
        (Point(1, 2), "(1 2)"),
        (OrderedDict(b=1, a=2), '{"b" 1, "a" 2}'),
        (defaultdict(list, a=[1]), '{"a" [1]}'),
        (Counter("aa"), '{"a" 2}'),
        ({Level.LOW: Color.RED, Point(1, 2): OrderedDict()}, '{1 "red", (1 2) {}}'),
        ([Level.LOW, Point(1, 2), 3], "[1 (1 2) 3]"),
    ],
)
def test_a_value_of_a_subclass_is_written_as_its_base(value: Any, text: str) -> None:
    assert dumps(value) == text


@dataclass
class Anything:
    x: int = 1


class Plain(Enum):
    A = 1


class Nowhere(tzinfo):
    def utcoffset(self, _: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "can't write a object as EDN"),
        (b"bytes", "can't write a bytes as EDN"),
        (bytearray(), "can't write a bytearray as EDN"),
        (1j, "can't write a complex as EDN"),
        (range(3), "can't write a range as EDN"),
        (deque([1]), "can't write a deque as EDN"),
        (iter([1]), "can't write a list_iterator as EDN"),
        (date(2026, 1, 1), "can't write a date as EDN"),
        (timedelta(1), "can't write a timedelta as EDN"),
        (Anything(), "can't write a Anything as EDN"),
        (Plain.A, "can't write a Plain as EDN"),
        (int, "can't write a type as EDN"),
        (datetime(2026, 1, 1), "can't write a datetime without a time zone as EDN"),
        (datetime(2026, 1, 1, tzinfo=Nowhere()), "can't write a datetime without a time zone as EDN"),
        (Decimal("NaN"), "can't write the decimal NaN as EDN"),
        (Decimal("sNaN"), "can't write the decimal sNaN as EDN"),
        (Decimal("-Infinity"), "can't write the decimal -Infinity as EDN"),
        (Decimal("1e2147483648"), "can't write the decimal 1E+2147483648 as EDN"),
        (Decimal("1.5e-2147483647"), "can't write the decimal 1.5E-2147483647 as EDN"),
    ],
    ids=lambda case: case if isinstance(case, str) else type(case).__name__,
)
def test_a_value_that_edn_can_t_hold_is_refused(value: Any, message: str) -> None:
    for whole in (value, [1, value], {"a": value}, Tagged(S("a"), value)):
        with pytest.raises(EdnError) as caught:
            dumps(whole)
        assert str(caught.value) == caught.value.message == message
        assert caught.value.line is None
        assert caught.value.column is None


def test_a_moment_that_is_not_in_the_calendar_in_utc_is_refused() -> None:
    moment = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    with pytest.raises(EdnError, match="is not between the years 1 and 9999 in UTC"):
        dumps(moment)


def test_a_decimal_that_is_no_number_is_nil_in_plain_edn() -> None:
    numbers = [Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")]
    assert dumps(numbers, dialect=PLAIN) == "[nil nil nil]"


def test_a_key_that_can_t_be_written_is_refused() -> None:
    with pytest.raises(EdnError, match="can't write a bytes as EDN"):
        dumps({b"a": 1})


def test_a_dialect_can_be_made_of_another() -> None:
    """A caller that has types of its own adds them to a copy."""
    loud = CLOJURE._replace(scalars={**CLOJURE.scalars, bytes: lambda data: json.dumps(data.decode())})
    assert dumps([b"a", {1: b"b"}], dialect=loud) == '["a" {1 "b"}]'


def test_a_large_collection_is_written_whole() -> None:
    items = list(range(1000))
    assert dumps(items) == "[" + " ".join(map(str, items)) + "]"
    entries = dict(zip(items, items, strict=True))
    assert dumps(entries) == "{" + ", ".join(f"{item} {item}" for item in items) + "}"
