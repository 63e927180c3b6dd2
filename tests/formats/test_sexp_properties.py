"""What holds for any value and any text."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.formats import sexp
from fairlead.formats.lexing import apart, cut
from fairlead.formats.sexp import MAX_TOKENS, SexpError, dumps, loads
from tests.formats.exactly import exactly
from tests.formats.sexp_examples import macros, odd_texts, values

any_text = st.text() | odd_texts() | st.lists(odd_texts() | macros, max_size=3).map(" ".join)


@given(values())
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    text = dumps(value)
    assert exactly(loads(text)) == exactly(value)
    assert exactly(loads(text.encode())) == exactly(value)


def read(text: str | bytes) -> Any:
    try:
        return loads(text)
    except SexpError as error:
        return error


@given(any_text)
@example('"')
@example('"a\\"')
@example("#\\a\ud800")
@example("||:a")
@example("8e38")
def test_any_text_is_read_or_refused_with_a_sexp_error(text: str) -> None:
    outcome = read(text)
    if isinstance(outcome, SexpError):
        assert outcome.line is not None
        assert outcome.column is not None
        assert 1 <= outcome.line <= text.count("\n") + 1
        assert 1 <= outcome.column <= len(text) + 1
    elif text.isascii():
        assert exactly(loads(dumps(outcome))) == exactly(outcome)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_with_a_sexp_error(data: bytes) -> None:
    read(data)


@given(any_text)
@example('(:a "b\\\\" "\\"" c)')
def test_the_quick_way_cuts_a_text_as_the_full_expression_does(text: str) -> None:
    simple = apart(text, sexp._SPECIAL)
    if simple is not None and simple[0].isprintable():
        between, strings = simple
        assert (cut(between, sexp._BRACKETS, MAX_TOKENS), strings) == sexp._tokens(text, MAX_TOKENS)


def changed(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            changed(item)
        value.append("changed")


@given(values())
def test_what_is_read_is_never_shared_with_what_was_read_before(value: Any) -> None:
    text = dumps(value)
    for _ in range(3):
        again = loads(text)
        assert exactly(again) == exactly(value)
        changed(again)


@given(values())
def test_a_comment_changes_nothing(value: Any) -> None:
    assert exactly(loads(f"#| a |# {dumps(value)} ; b")) == exactly(value)
