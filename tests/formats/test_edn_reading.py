"""What EDN becomes in Python."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest

from fairlead.formats.edn import (
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
    loads_all,
)
from tests.formats.exactly import exactly

K, S = Keyword, Symbol

TABLE: list[tuple[str, Any]] = [
    ("nil", None),
    ("true", True),
    ("false", False),
    ("1", 1),
    ("0x1f", 31),
    ("2r101", 5),
    ("1N", BigInt(1)),
    ("1.5", 1.5),
    ("##Inf", math.inf),
    ("##NaN", math.nan),
    ("1.5M", Decimal("1.5")),
    ("1/2", Fraction(1, 2)),
    ('"text"', "text"),
    (r"\c", Char("c")),
    (":key", K("key")),
    ("symbol", S("symbol")),
    ("[1 2]", [1, 2]),
    ("(1 2)", (1, 2)),
    ("{:a 1}", {K("a"): 1}),
    ("#{1}", frozenset({1})),
    ('#inst "2020-02-29T12:30:45.123456Z"', datetime(2020, 2, 29, 12, 30, 45, 123456, UTC)),
    ('#uuid "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"', UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")),
    ("#other value", Tagged(S("other"), S("value"))),
]
"""Each row of the table at the head of the module."""

ATOMS: list[tuple[str, Any]] = [
    ("-0", 0),
    ("017", 15),
    ("-017N", BigInt(-15)),
    ("36rZz", 1295),
    ("-16Rff", -255),
    ("1e3", 1000.0),
    ("1.e-2", 0.01),
    ("-0.0", -0.0),
    ("1e400", math.inf),
    ("##-Inf", -math.inf),
    ("-0M", Decimal(0)),
    ("1e5M", Decimal("1e5")),
    ("1e2147483647M", Decimal("1e2147483647")),
    ("4/2", 2),
    ("-4/6", Fraction(-2, 3)),
    ("9223372036854775808", 2**63),
    (r'"\t\n\r\b\f\"\\"', '\t\n\r\b\f"\\'),
    (r'"\u00e9\u20AC"', "é€"),
    (r'"\uD83D\uDE00"', "😀"),
    (r'"\uDE00\uD83D"', "\ude00\ud83d"),
    (r'"\0 \7 \12 \101\377"', "\0 \7 \n A\xff"),
    (r'"\1;\12[\7\\\7"', "\1;\n[\7\\\7"),
    ('"a\nb\r\u2028"', "a\nb\r\u2028"),
    ('"; #_ [ \\" ]"', '; #_ [ " ]'),
    (r"\newline", Char("\n")),
    (r"\space", Char(" ")),
    (r"\ ", Char(" ")),
    (r"\u0041", Char("A")),
    (r"\o101", Char("A")),
    (r"\o7", Char("\7")),
    (r"\o", Char("o")),
    (r"\u", Char("u")),
    (r"\\", Char("\\")),
    ('\\"', Char('"')),
    (r"\;", Char(";")),
    (r"\,", Char(",")),
    (r"[\(\)\a]", [Char("("), Char(")"), Char("a")]),
    (":a.b/c", K("a.b/c")),
    (":1", K("1")),
    (":/", K("/")),
    (":a//", K("a//")),
    ("/", S("/")),
    ("a/b/c", S("a/b/c")),
    ("a'#%", S("a'#%")),
    ("NIL", S("NIL")),
    ("𝟎", S("𝟎")),
    ("[+a -b .c ... + -]", [S("+a"), S("-b"), S(".c"), S("..."), S("+"), S("-")]),
    (",\t\x0b\x0c\x1c\x1f\u1680\u2000\u2028\u3000 1 ; one", 1),
    ("[1;one\r2;two\n3]", [1, 2, 3]),
]

PREFIXED: list[tuple[str, Any]] = [
    ("#_ 1 2", 2),
    ("#_#_ 1 2 3", 3),
    ("1 #_ 2", 1),
    ("[#_ 1]", []),
    ("[1 #_ #_ 2 3 4]", [1, 4]),
    ("{:a #_ 1 2}", {K("a"): 2}),
    ("{#_ :a 1 #_ #_ 2 3 4}", {1: 4}),
    ("#a #_ 1 2", Tagged(S("a"), 2)),
    ("#_ #a 1 2", 2),
    ("#_ ^b c 2", 2),
    ("#_ ##Inf 2", 2),
    ("#_{:a 1}#{1}", frozenset({1})),
    ("##\n;c\nInf", math.inf),
    ("##^a Inf", math.inf),
    ("^:a [1]", [1]),
    ("#^:a [1]", [1]),
    ("^{:a 1} {:b 2}", {K("b"): 2}),
    ('^"t" (1)', (1,)),
    ("^t #{1}", frozenset({1})),
    ("^a ^b c", S("c")),
    ("^ #_x a #_y b", S("b")),
    ("#a/b #c 1", Tagged(S("a/b"), Tagged(S("c"), 1))),
    ("#a[1]", Tagged(S("a"), [1])),
    ("#é nil", Tagged(S("é"), None)),
    ("#a#b 1", Tagged(S("a#b"), 1)),
    (
        "#:n{:a 1 b 2 :m/c 3 :_/d 4 _/e 5 6 7 :/ 8}",
        {K("n/a"): 1, S("n/b"): 2, K("m/c"): 3, K("d"): 4, S("e"): 5, 6: 7, K("n//"): 8},
    ),
    ("#: n ,{:a 1}", {K("n/a"): 1}),
    ("#:n{}", {}),
    ("#:#_x n{:a 1}", {K("n/a"): 1}),
    ("#:^m n{:a 1}", {K("n/a"): 1}),
    ("#:n{1 :a 1.0 :b}", {1: K("a"), Distinct(1.0): K("b")}),
]


@pytest.mark.parametrize(
    ("text", "value"),
    [*TABLE, *ATOMS, *PREFIXED],
    ids=lambda case: ascii(case) if isinstance(case, str) else "",
)
def test_a_text_is_read_as_its_value(text: str, value: Any) -> None:
    assert exactly(loads(text)) == exactly(value)
    assert exactly(loads(text.encode("utf-8"))) == exactly(value)


@pytest.mark.parametrize(
    ("text", "value"), TABLE, ids=lambda case: ascii(case) if isinstance(case, str) else ""
)
def test_a_value_of_the_table_is_written_and_comes_back(text: str, value: Any) -> None:
    assert exactly(loads(dumps(value))) == exactly(value)


def test_loads_all_gives_every_form() -> None:
    assert loads_all("1 [2] #_3 :d") == [1, [2], K("d")]
    assert loads_all(" ;nothing") == []


# --- keys -------------------------------------------------------------------------------------------------


def test_a_map_keeps_the_order_of_the_text() -> None:
    assert list(loads("{:c 1 :a 2 :b 3}")) == [K("c"), K("a"), K("b")]


def test_a_vector_or_a_map_that_is_a_key_is_hashable_there() -> None:
    read = loads("{[1 [2]] :a, {:b [3]} :c, #t [4] :d, ([5]) :e}")
    assert exactly(list(read)) == exactly(
        [
            Vector((1, Vector((2,)))),
            FrozenMap({K("b"): Vector((3,))}),
            Tagged(S("t"), Vector((4,))),
            (Vector((5,)),),
        ]
    )
    assert read[(1, (2,))] == K("a")
    assert dumps(read) == "{[1 [2]] :a, {:b [3]} :c, #t [4] :d, ([5]) :e}"


def test_an_element_of_a_set_is_hashable_there() -> None:
    read = loads("#{[1] {:a {:b []}} #{[2]}}")
    inner = FrozenMap({K("a"): FrozenMap({K("b"): Vector()})})
    assert exactly(read) == exactly(frozenset({Vector((1,)), inner, frozenset({Vector((2,))})}))
    assert exactly(loads(dumps(read))) == exactly(read)


def test_values_beside_keys_that_are_vectors_stay_lists() -> None:
    assert exactly(loads("{[1] [2]}")) == exactly({Vector((1,)): [2]})


@pytest.mark.parametrize(
    "text",
    [
        "{1 :a, 1.0 :b, true :c}",
        "{0 :a, false :b, 0.0 :c, 0M :d}",
        "{[1] :a, [1.0] :b, [true] :c}",
        "{{1 2} :a, {1.0 2} :b, {1 2.0} :c}",
        "{#a 1 :a, #a 1.0 :b}",
        "{(1) :a, [1.0] :b}",
    ],
)
def test_keys_that_only_python_takes_for_equal_stay_apart(text: str) -> None:
    read = loads(text)
    assert dumps(read) == text
    assert exactly(loads(dumps(read))) == exactly(read)
    assert len(read) == text.count(":")


def test_elements_that_only_python_takes_for_equal_stay_apart() -> None:
    read = loads("#{1 1.0 true [1] [1.0] #{1} #{1.0}}")
    assert len(read) == 7
    assert exactly(loads(dumps(read))) == exactly(read)
    kept = [1, 1.0, True, Vector((1,)), Vector((1.0,)), frozenset({1}), frozenset({1.0})]
    assert {exactly(element) for element in read} == {exactly(element) for element in kept}


def test_the_first_of_such_keys_is_found_as_it_is_and_the_others_as_distinct() -> None:
    read = loads("{1 :a, 1.0 :b, true :c}")
    assert (read[1], read[Distinct(1.0)], read[Distinct(True)]) == (K("a"), K("b"), K("c"))
    assert Distinct(1) not in read


@pytest.mark.parametrize(
    ("text", "duplicate"),
    [
        ("{:a 1 :a 2}", "key :a"),
        ("{1 2 1N 3}", "key 1N"),
        ("{0.0 1 -0.0 2}", "key -0.0"),
        ("{1M 1 1.0M 2}", "key 1.0M"),
        ("{[1] 1 (1) 2}", "key (1)"),
        ("{1 :a 1.0 :b 1.0 :c}", "key 1.0"),
        ("{##NaN 1 ##NaN 2}", "key ##NaN"),
        ("{#{1} 1 #{1N} 2}", "key #{1N}"),
        ("#{1 1}", "element 1"),
        ("#{[1] [1]}", "element [1]"),
        ("#{{:a 1 :b 2} {:b 2 :a 1}}", "element {:b 2, :a 1}"),
        ("#{#a [1] #a (1)}", "element #a (1)"),
        ("#:n{:a 1 :n/a 2}", "key :n/a"),
    ],
)
def test_what_is_equal_in_clojure_is_a_duplicate(text: str, duplicate: str) -> None:
    with pytest.raises(EdnError) as caught:
        loads(text)
    assert caught.value.message == f"duplicate {duplicate}"


# --- moments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2020", datetime(2020, 1, 1, tzinfo=UTC)),
        ("2020Z", datetime(2020, 1, 1, tzinfo=UTC)),
        ("2020-02", datetime(2020, 2, 1, tzinfo=UTC)),
        ("2020-02-29", datetime(2020, 2, 29, tzinfo=UTC)),
        ("2020-02-29T12", datetime(2020, 2, 29, 12, tzinfo=UTC)),
        ("2020-02-29T12:30", datetime(2020, 2, 29, 12, 30, tzinfo=UTC)),
        ("2020-02-29T12:30:45", datetime(2020, 2, 29, 12, 30, 45, tzinfo=UTC)),
        ("2020-02-29T12:30:45.1", datetime(2020, 2, 29, 12, 30, 45, 100000, UTC)),
        ("2020-02-29T12:30:45.1234567891234Z", datetime(2020, 2, 29, 12, 30, 45, 123456, UTC)),
        ("2020-02-29T00:30-05:30", datetime(2020, 2, 29, 6, 0, tzinfo=UTC)),
        ("2020-01-01T00:00+01:00", datetime(2019, 12, 31, 23, 0, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2017, 1, 1, tzinfo=UTC)),
        ("2016-12-31T23:59:60.5Z", datetime(2017, 1, 1, 0, 0, 0, 500000, UTC)),
    ],
)
def test_an_instant_may_leave_out_what_is_small(text: str, moment: datetime) -> None:
    assert exactly(loads(f'#inst "{text}"')) == exactly(moment)


def test_a_uuid_may_leave_out_leading_zeros_and_has_any_case() -> None:
    assert loads('#uuid "1-2-3-4-ABC"') == UUID("00000001-0002-0003-0004-000000000abc")
