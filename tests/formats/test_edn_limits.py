"""Limits: whatever is too deep, too long or too much is an EdnError, and work grows no faster than the text.

Nothing here is timed. The texts are long enough that quadratic work would not end.
"""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.formats.edn import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_KEY_DEPTH,
    MAX_LENGTH,
    EdnError,
    FrozenMap,
    Keyword,
    Symbol,
    Tagged,
    dumps,
    loads,
    loads_all,
    reader,
)
from fairlead.formats.edn.reader import MAX_SAME_HASH

# Measured, this takes three times as long and covers nothing that other tests don't.
pytestmark = pytest.mark.no_cover

FEW, MANY = 20_000, 100_000
LONG = 2_000_000


def nested(depth: int, opener: str = "[", closer: str = "]", inside: str = "1") -> str:
    return opener * depth + inside + closer * depth


@pytest.mark.parametrize(
    ("opener", "closer"), [("[", "]"), ("(", ")"), ("{:a ", "}"), ("#{", "}"), ("[#a ", "]"), ("[^b ", "]")]
)
def test_collections_nest_as_deep_as_the_limit_and_no_deeper(opener: str, closer: str) -> None:
    limit = 20
    allowed = limit // 2 if "#a" in opener else limit
    assert loads(nested(allowed, opener, closer, inside="x"), max_depth=limit)
    with pytest.raises(EdnError, match="nest deeper than 20"):
        loads(nested(allowed + 1, opener, closer, inside="x"), max_depth=limit)


def test_the_named_limits_are_the_defaults() -> None:
    assert loads(nested(MAX_DEPTH))
    with pytest.raises(EdnError, match=f"collections nest deeper than {MAX_DEPTH}"):
        loads(nested(MAX_DEPTH + 1))
    assert loads("9" * MAX_DIGITS) == int("9" * MAX_DIGITS)
    with pytest.raises(EdnError, match=f"a number of {MAX_DIGITS + 1} characters; at most {MAX_DIGITS}"):
        loads("9" * (MAX_DIGITS + 1))
    with pytest.raises(EdnError, match=f"a text of {MAX_LENGTH + 1} characters; at most {MAX_LENGTH}"):
        loads(" " * (MAX_LENGTH + 1))


@pytest.mark.parametrize("number", ["12345", "-1234", "0x123", "1.234", "12/34", "1234N", "1e100", "+1.5M"])
def test_a_number_is_as_long_as_the_limit_and_no_longer(number: str) -> None:
    for _ in range(2):  # whether or not it has been met before
        assert loads(number, max_digits=len(number)) == loads(number)
        with pytest.raises(EdnError, match=f"a number of {len(number)} characters"):
            loads(number, max_digits=len(number) - 1)


def test_the_limit_of_digits_holds_for_short_numbers_that_are_known() -> None:
    assert loads_all("-12 0 1.5 12") == [-12, 0, 1.5, 12]
    for number in ("-12", "1.5", "12"):
        with pytest.raises(EdnError, match="at most 1 are allowed"):
            loads(number, max_digits=1)


def test_a_text_is_as_long_as_the_limit_and_no_longer() -> None:
    assert loads("[1]", max_length=3) == [1]
    with pytest.raises(EdnError, match="a text of 4 characters; at most 3 are allowed"):
        loads("[12]", max_length=3)


@pytest.mark.parametrize(
    ("opener", "closer"), [("(", ")"), ("[", "]"), ("#{", "}"), ("{1 ", "}"), ("#a ", ""), ("{", " 1}")]
)
def test_a_key_nests_as_deep_as_its_limit_and_no_deeper(opener: str, closer: str) -> None:
    for text in ("#{%s}", "{%s 1}", "[{2 [#{%s}]}]"):
        assert loads(text % nested(MAX_KEY_DEPTH, opener, closer))
        with pytest.raises(EdnError, match=f"a key or an element of a set nests deeper than {MAX_KEY_DEPTH}"):
            loads(text % nested(MAX_KEY_DEPTH + 1, opener, closer))


def test_keys_that_are_deep_and_equal_are_compared() -> None:
    deep = nested(MAX_KEY_DEPTH, "(", ")", "%s")
    assert len(loads(f"#{{{deep % '1'} {deep % '1.0'} {deep % 'true'}}}")) == 3
    with pytest.raises(EdnError, match="duplicate element"):
        loads(f"#{{{deep % '1'} {deep % '1'}}}")


@pytest.mark.parametrize(
    "text",
    [
        nested(MANY),
        nested(MANY, "{:a ", "}"),
        nested(MANY, "#{", "}"),
        "[" * LONG,
        "{" * MANY,
        "#a " * MANY + "1",
        "#a #_x " * MANY + "1",
        "#a [#_x " * MANY + "1",
        ("[" + "#a " * 200) * 200 + "1" + "]" * 200,
        "{" + ("(" + "#a " * 200) * 200 + "1" + ")" * 200 + " 1}",
        "^a " * MANY,
        "#_" * MANY,
        "##" * MANY,
        "#:a" * MANY,
        "9" * 1_000_000,
        "-" + "9" * 1_000_000 + "N",
        "1/" + "3" * 1_000_000,
        "0." + "1" * 1_000_000 + "M",
        "16r" + "f" * 1_000_000,
        '"' * (MANY + 1),
        '["' + "\\u00e" * MANY,
        '"' + '\\"' * LONG,
        '"\\' + '"\n' * MANY,
        '"' + "\n;" * MANY,
        '\\"' * MANY + '"',
        ('"a" ' * MANY)[:-2],
        "a@ " * MANY,
        "#" * MANY,
        "\\" * (2 * MANY + 1),
    ],
    ids=lambda text: f"{text[:12]!r}…",
)
def test_too_much_of_anything_is_an_edn_error(text: str) -> None:
    with pytest.raises(EdnError):
        loads(text)
    assert loads("[1]") == [1]


def listing(count: int, item: Callable[[int], str]) -> str:
    return "[" + " ".join(map(item, range(count))) + "]"


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ('["' + "x" * 5_000_000 + '"]', 1),
        ('["' + "\\n" * MANY + '"]', 1),
        ('["' + "\\uD83D\\uDE00" * MANY + '"]', 1),
        ('["' + '\\"' * (LONG // 4) + '"]', 1),
        ("[:" + "a" * LONG + "]", 1),
        (";" + "x" * LONG + "\n[1]", 1),
        (";\n" * LONG + "[1]", 1),
        ("," * LONG + "[1]", 1),
        ("[" + "#_x " * MANY + "]", 0),
        ("[" + "#_" * MANY + "x " * MANY + "1]", 1),
        ("[" + "#a 1 " * MANY + "]", MANY),
        ("[" + "^a b " * MANY + "]", MANY),
        ("[" + "#:a{:b 1}" * FEW + "]", FEW),
        ("[" + "#{1}[2](3){4 5}" * FEW + "]", 4 * FEW),
        (listing(FEW, lambda number: f"#{{{number} {number}.0}}"), FEW),
        (listing(MANY, str), MANY),
    ],
    ids=lambda case: f"{case[:12]!r}…" if isinstance(case, str) else "",
)
def test_a_long_text_is_read_to_its_end(text: str, length: int) -> None:
    assert len(loads(text)) == length


def test_a_large_map_with_keys_that_must_be_told_apart_is_read() -> None:
    text = "{" + " ".join(f"{number} 1 {number}.0 2 [{number}] 3" for number in range(FEW)) + "}"
    assert len(loads(text)) == 3 * FEW


def test_very_many_keywords_leave_nothing_behind() -> None:
    def met() -> int:
        return sum(name.startswith("many/") for name in Keyword._known)

    read = loads(listing(2 * MANY, lambda number: f":many/k{number}"))
    assert met() == 2 * MANY
    del read
    gc.collect()
    assert met() <= reader._MAX_KNOWN_ATOMS
    reader._known_atoms.clear()
    gc.collect()
    assert met() == 0


def test_known_tokens_and_shapes_are_bounded() -> None:
    for number in range(3 * reader._MAX_KNOWN_ATOMS):
        loads(f"[bounded{number}]")
    assert len(reader._known_atoms) <= reader._MAX_KNOWN_ATOMS
    assert len(reader._shapes._shapes) <= 256


@pytest.mark.parametrize("brackets", ["{%s}", "#{%s}", "{[%s] 1}"])
def test_a_crowd_of_keys_with_the_same_hash_is_refused(brackets: str) -> None:
    """They can be foreseen for numbers, and to tell them apart takes time with the square of their number."""

    def keys(count: int) -> str:
        numbers = (str(1 + number * (2**61 - 1)) for number in range(count))
        if brackets.startswith("{["):
            return "] 1 [".join(numbers)
        return (" 1 " if brackets.startswith("{") else " ").join(numbers) + " 1" * brackets.startswith("{")

    assert len(loads(brackets % keys(MAX_SAME_HASH))) == MAX_SAME_HASH
    for count in (MAX_SAME_HASH + 1, FEW):
        with pytest.raises(EdnError, match=f"{count} keys of a map or elements of a set have the same hash"):
            loads(brackets % keys(count))


def test_many_pairs_of_keys_that_share_a_hash_are_no_crowd() -> None:
    assert (
        len(loads("#{" + " ".join(f"{number} {number + 2**61 - 1}" for number in range(1, 100)) + "}")) == 198
    )


# --- writing ----------------------------------------------------------------------------------------------


def in_a_list(value: Any) -> Any:
    return [value]


def in_a_map(value: Any) -> Any:
    return {"a": value}


def in_a_key(value: Any) -> Any:
    return FrozenMap({value: 1})


def in_a_tag(value: Any) -> Any:
    return Tagged(Symbol("a"), value)


@pytest.mark.parametrize("wrap", [in_a_list, in_a_map, in_a_tag, in_a_key])
def test_a_value_that_nests_too_deep_is_not_written(wrap: Callable[[Any], Any]) -> None:
    value: Any = 1
    for depth in range(1, MAX_DEPTH + 1):
        value = wrap(value)
        if depth in (1, 100, MAX_DEPTH):
            assert dumps(value)
    for _ in range(MAX_DEPTH, MANY):
        value = wrap(value)
    with pytest.raises(EdnError, match=r"the value nests deeper than \d+, or holds itself"):
        dumps(value)


def test_a_value_that_holds_itself_is_not_written() -> None:
    items: list[Any] = [1]
    items.append(items)
    entries: dict[str, Any] = {}
    entries["self"] = [entries]
    for value in (items, entries):
        with pytest.raises(EdnError, match="holds itself"):
            dumps(value)


def test_an_integer_that_python_would_not_print_is_not_written() -> None:
    with pytest.raises(EdnError, match="an integer of 99999 bits is too long to write"):
        dumps(2**99_999 - 1)


def test_what_was_read_at_the_limit_can_be_written() -> None:
    for text in (nested(MAX_DEPTH), nested(MAX_DEPTH // 2, "[#a ", "]")):
        assert dumps(loads(text)) == text


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


@pytest.mark.parametrize("text", ["[1 2 3]", "[1 #_0]"])
def test_a_text_of_too_many_tokens_is_refused_also_when_its_shape_is_known(text: str) -> None:
    for _ in range(3):
        loads(text)
        with pytest.raises(EdnError, match="more than 4 atoms and brackets"):
            loads(text, max_tokens=4)
