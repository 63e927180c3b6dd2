"""Limits: whatever is too deep, too long or too much is a SexpError, and work grows no faster than the text.

Nothing here is timed. The texts are long enough that quadratic work would not end.
"""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.formats import sexp
from fairlead.formats.sexp import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_DOTTED_TAIL,
    MAX_EXPONENT,
    MAX_LENGTH,
    MAX_NAME,
    MAX_TOKENS,
    Dotted,
    Keyword,
    SexpError,
    dumps,
    loads,
)

# Measured, this takes three times as long and covers nothing that other tests don't.
pytestmark = pytest.mark.no_cover

MANY = 100_000
LONG = 2_000_000


def nested(depth: int, opener: str = "(", closer: str = ")", inside: str = "1") -> str:
    return opener * depth + inside + closer * depth


@pytest.mark.parametrize(
    ("opener", "closer", "levels"),
    [("(", ")", 1), ("#(", ")", 1), ("(a . #(", "))", 2), ("('", ")", 2), ("'", "", 1)],
)
def test_lists_nest_as_deep_as_the_limit_and_no_deeper(opener: str, closer: str, levels: int) -> None:
    for limit in (20, 21):
        assert loads(nested(limit // levels, opener, closer), max_depth=limit)
        with pytest.raises(SexpError, match=f"nest deeper than {limit}"):
            loads(nested(limit // levels + 1, opener, closer), max_depth=limit)


def test_a_list_after_a_dot_nests_like_any_other() -> None:
    assert loads(nested(20, "(a . ", ")"), max_depth=20) == Dotted((sexp.Symbol("A"),) * 20, 1)
    with pytest.raises(SexpError, match="lists nest deeper than 20"):
        loads(nested(21, "(a . ", ")"), max_depth=20)


def test_the_named_limits_are_the_defaults() -> None:
    assert loads(nested(MAX_DEPTH))
    with pytest.raises(SexpError, match=f"lists nest deeper than {MAX_DEPTH}"):
        loads(nested(MAX_DEPTH + 1))
    with pytest.raises(SexpError, match=f"lists and quotes nest deeper than {MAX_DEPTH}"):
        loads("'" * (MAX_DEPTH + 1) + "a")
    assert loads("9" * MAX_DIGITS) == int("9" * MAX_DIGITS)
    with pytest.raises(SexpError, match=f"a number of {MAX_DIGITS + 1} characters; at most {MAX_DIGITS}"):
        loads("9" * (MAX_DIGITS + 1))
    with pytest.raises(SexpError, match=f"a text of {MAX_LENGTH + 1} characters; at most {MAX_LENGTH}"):
        loads(" " * (MAX_LENGTH + 1))
    with pytest.raises(SexpError, match=f"more than {MAX_TOKENS} atoms and brackets"):
        loads("()" * MAX_TOKENS)
    assert loads(f"1e-{MAX_EXPONENT}") == 0
    assert loads("é" * MAX_NAME) == sexp.Symbol("É" * MAX_NAME)
    with pytest.raises(SexpError, match=f"a name of {MAX_NAME + 1} characters; at most {MAX_NAME}"):
        loads("é" * (MAX_NAME + 1))
    assert dumps(sexp.Symbol("É" * (MAX_NAME + 1))) == f"|{'É' * (MAX_NAME + 1)}|"


@pytest.mark.parametrize("text", ["(a b c)", "(a ;c\nb c)", '("a" "b" c)', "('a b)", "#| |#(a b #\\c)"])
def test_a_text_has_as_many_tokens_as_the_limit_and_no_more(text: str) -> None:
    assert len(loads(text, max_tokens=5)) > 1
    with pytest.raises(SexpError, match="more than 4 atoms and brackets"):
        loads(text, max_tokens=4)


@pytest.mark.parametrize("number", ["12345", "-1.25", "12/34", "1.5d0", "12e10"])
def test_a_number_is_as_long_as_the_limit_and_no_longer(number: str) -> None:
    assert loads(number, max_digits=5) == loads(number)
    with pytest.raises(SexpError, match="a number of 5 characters; at most 4 are allowed"):
        loads(number, max_digits=4)


def test_a_name_that_looks_like_a_number_may_be_longer() -> None:
    assert loads("1-2-3-4", max_digits=4) == sexp.Symbol("1-2-3-4")


def test_a_text_is_as_long_as_the_limit_in_characters() -> None:
    assert loads("(é)".encode(), max_length=3) == [sexp.Symbol("É")]
    with pytest.raises(SexpError, match="a text of 4 characters; at most 3 are allowed"):
        loads("(éé)".encode(), max_length=3)


def test_a_list_after_a_dot_is_as_long_as_the_limit_and_no_longer() -> None:
    assert len(loads(f"(a . ({'b ' * MAX_DOTTED_TAIL}))")) == MAX_DOTTED_TAIL + 1
    with pytest.raises(SexpError, match=f"a list of more than {MAX_DOTTED_TAIL} elements after a dot"):
        loads(f"(a . ({'b ' * (MAX_DOTTED_TAIL + 1)}))")
    assert len(loads(f"({'b ' * MANY} . c)").items) == MANY


@pytest.mark.parametrize(
    "text",
    [
        nested(MANY),
        nested(MANY, "#(", ")"),
        nested(MANY, "(a . ", ")"),
        "(" * LONG,
        ")" * LONG,
        "'" * MANY + "a",
        "'" * MANY,
        ("(" + "'" * 200) * 200 + "a" + ")" * 200,
        "(" + "'a . " * MANY + ")",
        "(" + ". " * MANY + ")",
        "9" * 1_000_000,
        "1/" + "3" * 1_000_000,
        "0." + "1" * 1_000_000,
        "1e" + "9" * 1_000_000,
        "1d" + "9" * 4000,
        '"' * (MANY + 1),
        '"' + '\\"' * LONG,
        '"\\' + '"\n' * MANY,
        "|" + "\\|" * LONG,
        "|" + "\n|" * (2 * MANY),
        "a|" + "\\|\n" * MANY,
        "|" + "\n;\\|" * MANY,
        "#|" * (2 * MANY),
        "#| |# " * MANY + "#|",
        '#|"' * MANY,
        '"' + "#|" * LONG,
        "\\" * (2 * MANY + 1),
        "#\\" + "a" * LONG,
        "#\\U" + "1" * LONG,
        "e" + "\u0301\u0323" * MANY,
        "#\\" + "a|b|" * MANY,
        ":" * LONG,
        "a:" * MANY,
        "||" * MANY + ":",
        "." * LONG,
        "#" * LONG,
        "`" * LONG,
        "(#1=a " * MANY,
        "#.(loop)",
        "#1000000000(1)",
        "#*" + "1" * LONG,
        ":a " * MANY,
    ],
    ids=lambda text: f"{text[:12]!r}…",
)
def test_too_much_of_anything_is_a_sexp_error(text: str) -> None:
    with pytest.raises(SexpError):
        loads(text)
    assert loads("(1)") == [1]


def listing(count: int, item: Callable[[int], str]) -> str:
    return "(" + " ".join(map(item, range(count))) + ")"


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ('("' + "x" * 5_000_000 + '")', 1),
        ('("' + "\\n" * MANY + '")', 1),
        ('("' + '\\"' * (LONG // 4) + '")', 1),
        ("(:" + "a" * LONG + ")", 1),
        ("(|" + "a" * LONG + "|)", 1),
        ("(" + "\\a" * MANY + ")", 1),
        ("(" + "|a|" * MANY + ")", 1),
        ("(|" + "e\u0301\u0323" * MANY + "|)", 1),
        ("(#\\U" + "0" * LONG + ")", 1),
        (";" + "x" * LONG + "\n(1)", 1),
        (";\n" * LONG + "(1)", 1),
        ("#|" + "x" * LONG + "|#(1)", 1),
        ("#|" * MANY + "|#" * MANY + "(1)", 1),
        ("#||#" * MANY + "(1)", 1),
        ("(" + "'a " * MANY + ")", MANY),
        ("(" + "(a . b)" * (MANY // 10) + ")", MANY // 10),
        ("(" + "1.5d0 " * MANY + ")", MANY),
        (listing(MANY, str), MANY),
    ],
    ids=lambda case: f"{case[:12]!r}…" if isinstance(case, str) else "",
)
def test_a_long_text_is_read_to_its_end(text: str, length: int) -> None:
    assert len(loads(text)) == length


def test_very_many_keywords_leave_nothing_behind() -> None:
    def met() -> int:
        return sum(name.startswith("MANY-") for name in Keyword._known)

    read = loads(listing(2 * MANY, lambda number: f":many-{number}"))
    assert met() == 2 * MANY
    del read
    gc.collect()
    assert met() <= sexp._MAX_KNOWN_ATOMS
    sexp._known_atoms.clear()
    gc.collect()
    assert met() == 0


def test_known_tokens_are_bounded() -> None:
    for number in range(3 * sexp._MAX_KNOWN_ATOMS):
        loads(f"bounded{number}")
    assert len(sexp._known_atoms) <= sexp._MAX_KNOWN_ATOMS


# --- writing ----------------------------------------------------------------------------------------------


def in_a_list(value: Any) -> Any:
    return [value]


def in_a_vector(value: Any) -> Any:
    return (value,)


def before_a_dot(value: Any) -> Any:
    return Dotted((value,), 1)


@pytest.mark.parametrize("wrap", [in_a_list, in_a_vector, before_a_dot])
def test_a_value_that_nests_too_deep_is_not_written(wrap: Callable[[Any], Any]) -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert dumps(value)
    for further in (1, MANY):
        for _ in range(further):
            value = wrap(value)
        with pytest.raises(SexpError, match=f"the value nests deeper than {MAX_DEPTH}, or holds itself"):
            dumps(value)


def test_a_value_that_holds_itself_is_not_written() -> None:
    items: list[Any] = [1]
    items.append((items,))
    with pytest.raises(SexpError, match="holds itself"):
        dumps(items)


def test_an_integer_that_python_would_not_print_is_not_written() -> None:
    with pytest.raises(SexpError, match="an integer of 99999 bits is too long to write"):
        dumps([2**99_999 - 1])


def test_reading_and_writing_need_no_more_of_pythons_stack_for_deep_values() -> None:
    text = nested(MAX_DEPTH)
    limit = sys.getrecursionlimit()
    depth = 0
    frame: Any = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 40)
    try:
        assert dumps(loads(text)) == text
    finally:
        sys.setrecursionlimit(limit)
