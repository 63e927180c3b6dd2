"""What holds for any value and any text."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.formats.edn import MAX_TOKENS, PLAIN, BigInt, EdnError, dumps, loads, loads_all, reader
from fairlead.formats.lexing import apart, cut
from tests.formats.edn_examples import odd_texts, texts, values
from tests.formats.exactly import exactly

any_text = st.text() | odd_texts()


@given(values())
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert exactly(loads(dumps(value))) == exactly(value)


@given(st.integers())
def test_an_integer_that_is_no_long_comes_back_as_a_big_one(number: int) -> None:
    back = loads(dumps(number))
    assert back == number
    assert type(back) is (int if -(2**63) <= number < 2**63 else BigInt)


@given(st.datetimes(timezones=st.timezones()))
def test_a_datetime_comes_back_as_the_same_moment_in_utc(moment: datetime) -> None:
    try:
        expected = moment.astimezone(UTC)
    except OverflowError:
        with pytest.raises(EdnError, match="between the years 1 and 9999"):
            dumps(moment)
    else:
        assert exactly(loads(dumps(moment))) == exactly(expected)


@given(values() | st.text(st.characters(), max_size=8))
def test_a_value_is_written_as_one_line_of_utf_8(value: Any) -> None:
    whole, plain = dumps(value), dumps(value, dialect=PLAIN)
    for text in (whole, plain):
        assert "\n" not in text
        assert "\r" not in text
    assert loads(whole.encode()) is not ...
    if "#" not in whole:  # else keys may differ by their tags alone, which the plain dialect does not have
        assert loads(plain.encode()) is not ...


def read(text: str | bytes) -> list[Any] | EdnError:
    try:
        return loads_all(text)
    except EdnError as error:
        return error


@given(any_text)
@example('"')
@example('"a\\"')
@example("#:x{:1 2}")
@example("#:x{_/nil 2}")
@example("#{(#a (#a 1))}")
def test_any_text_is_read_or_refused_with_an_edn_error(text: str) -> None:
    outcome = read(text)
    if isinstance(outcome, EdnError):
        assert outcome.line is not None
        assert outcome.column is not None
        assert 1 <= outcome.line <= text.count("\n") + 1
        assert 1 <= outcome.column <= len(text) + 1
    else:
        again = loads_all(" ".join(map(dumps, outcome)))
        assert exactly(loads_all(" ".join(map(dumps, again)))) == exactly(again)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_with_an_edn_error(data: bytes) -> None:
    assert isinstance(read(data), list | EdnError)


@given(any_text)
@example('{"a\\\\" "b\\"c" :d [e,f]}')
def test_the_quick_way_cuts_a_text_as_the_full_expression_does(text: str) -> None:
    simple = apart(text, reader._SPECIAL)
    if simple is not None:
        between, strings = simple
        assert (cut(between, reader._BRACKETS, MAX_TOKENS), strings) == reader._tokens(text, MAX_TOKENS)


plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts | st.just([]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc") | texts, inner, max_size=3)
    ),
    max_leaves=8,
)


def with_strings(value: Any, word: str) -> Any:
    """The value with other strings in it, as many as before; the keys of a map stay different ones."""
    if isinstance(value, str):
        return value + word
    if isinstance(value, list):
        return [with_strings(item, word) for item in value]
    if isinstance(value, dict):
        return {
            key + word if isinstance(key, str) else key: with_strings(item, word)
            for key, item in value.items()
        }
    return value


@given(plain | values(), st.lists(texts, min_size=4, max_size=4, unique=True))
def test_a_shape_that_is_known_is_filled_with_the_strings_of_the_text(value: Any, words: list[str]) -> None:
    for word in words:
        text = dumps(with_strings(value, word))
        slowly = loads(text + ";")  # a comment makes the text one that has no shape
        assert exactly(loads(text)) == exactly(slowly)


def changed(value: Any) -> None:
    """Change every list and map in a value."""
    if isinstance(value, list):
        for item in value:
            changed(item)
        value.append("changed")
    elif isinstance(value, dict):
        for item in value.values():
            changed(item)
        value["changed"] = True


@given(plain)
def test_what_is_read_is_never_shared_with_what_was_read_before(value: Any) -> None:
    text = dumps(value)
    for _ in range(4):
        read = loads(text)
        assert exactly(read) == exactly(value)
        changed(read)
