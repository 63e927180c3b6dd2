"""Our EDN beside a real Clojure's: what it makes of our texts, and of texts that are not quite EDN."""

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fairlead.formats.edn import EdnError, dumps, loads, loads_all
from tests.formats.edn_examples import exact_atoms, keywords, odd_texts, values
from tests.formats.exactly import exactly
from tests.formats.oracles import Oracle, Refusal

# Measured, this takes three times as long and covers nothing that other tests don't.
pytestmark = [pytest.mark.xdist_group("clojure"), pytest.mark.no_cover]

QUICKLY = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""A failure names its text, so there is no need to ask many more questions in order to shrink an example."""


@QUICKLY
@given(
    st.lists(
        st.recursive(
            exact_atoms | st.text(st.characters(codec="utf-8", exclude_categories=["C"])),
            lambda inner: st.one_of(
                st.lists(inner, max_size=4),
                st.lists(inner, max_size=4).map(tuple),
                st.dictionaries(keywords, inner, max_size=8),
            ),
            max_leaves=8,
        ),
        min_size=4,
        max_size=8,
    )
)
def test_clojure_prints_what_it_reads_from_us_just_as_we_printed_it(clojure: Oracle, many: list[Any]) -> None:
    texts = [dumps(value) for value in many]
    assert clojure.ask(texts) == [[text] for text in texts]


@QUICKLY
@given(st.lists(values(), min_size=4, max_size=8))
def test_clojure_reads_what_we_print_as_the_same_value(clojure: Oracle, many: list[Any]) -> None:
    # sets and large maps have another order there, and doubles other digits before JDK 19
    for value, answer in zip(many, clojure.ask([dumps(value) for value in many]), strict=True):
        assert not isinstance(answer, Refusal), (dumps(value), answer)
        (printed,) = answer
        assert exactly(loads(printed), ordered=False) == exactly(value, ordered=False)


@QUICKLY
@given(st.lists(odd_texts(), min_size=4, max_size=8))
def test_clojure_and_we_read_the_same_texts_and_the_same_values(clojure: Oracle, texts: list[str]) -> None:
    for text, answer in zip(texts, clojure.ask(texts), strict=True):
        ours = read(text)
        if isinstance(answer, Refusal):
            assert isinstance(ours, EdnError), (text, answer)
        else:
            assert not isinstance(ours, EdnError), (text, ours, answer)
            theirs = [loads(printed) for printed in answer]
            assert exactly(theirs, ordered=False) == exactly(ours, ordered=False), text


def read(text: str) -> list[Any] | EdnError:
    """What the text holds. An integer that is no long becomes the BigInt that it is printed as."""
    try:
        return [loads(dumps(value)) for value in loads_all(text)]
    except EdnError as error:
        return error


@pytest.mark.parametrize(
    ("text", "theirs", "why"),
    [
        ("#:x{:1 2}", ["{:x/1 2}"], "Clojure makes a keyword that it could not read"),
        ("#:x{_/nil 2}", ["{nil 2}"], "Clojure makes a symbol that it would read as nil"),
        ('#inst "0000-01-01"', ['#inst "0001-01-01T00:00:00.000-00:00"'], "a datetime has no year 0"),
        ('#inst "9999-12-31T23:59:59-01:00"', ['#inst "10000-01-01T00:59:59.000-00:00"'], "nor a year 10000"),
        (
            '#uuid "123456789-1-1-1-1"',
            ['#uuid "23456789-0001-0001-0001-000000000001"'],
            "digits would be lost without a word",
        ),
        ("\\u٠٠٤١", ["\\A"], "the digits of a code are ASCII"),
        ("[" * 600 + "]" * 600, ["[" * 600 + "]" * 600], "depth is limited"),
        ("9" * 5000, ["9" * 5000 + "N"], "digits are limited"),
    ],
)
def test_what_clojure_reads_and_we_refuse_on_purpose(
    clojure: Oracle, text: str, theirs: list[str], why: str
) -> None:
    assert clojure.ask([text]) == [theirs]
    with pytest.raises(EdnError):
        loads_all(text)


def test_what_we_read_and_clojure_refuses(clojure: Oracle) -> None:
    text = "#:a ;why not\n{:b 1}"  # a comment is no token, so we can't see it
    (answer,) = clojure.ask([text])
    assert isinstance(answer, Refusal)
    assert dumps(loads(text)) == "{:a/b 1}"


def test_what_clojure_and_we_read_as_different_values(clojure: Oracle) -> None:
    # java.util.Date counts by the Julian calendar before 1582-10-15, and in milliseconds
    texts = ['#inst "1582-10-10T00:00:00Z"', '#inst "2020-01-01T00:00:00.123456Z"']
    assert clojure.ask(texts) == [
        ['#inst "1582-10-20T00:00:00.000-00:00"'],
        ['#inst "2020-01-01T00:00:00.123-00:00"'],
    ]
    assert [dumps(loads(text)) for text in texts] == [
        '#inst "1582-10-10T00:00:00.000-00:00"',
        '#inst "2020-01-01T00:00:00.123456-00:00"',
    ]
