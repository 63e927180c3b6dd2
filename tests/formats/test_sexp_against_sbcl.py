"""Our S-expressions beside a real SBCL's: what it makes of our texts, and of texts that are almost Lisp."""

import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fairlead.formats.sexp import Char, Keyword, SexpError, Single, dumps, loads
from tests.formats.oracles import Answer, Oracle, Refusal
from tests.formats.sexp_examples import characters, chars, floats, macros, names, numbers, odd_texts, values

# Measured, this takes three times as long and covers nothing that other tests don't.
pytestmark = [pytest.mark.xdist_group("sbcl"), pytest.mark.no_cover]

QUICKLY = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""A failure names its text, so there is no need to ask many more questions in order to shrink an example."""


def several(texts: st.SearchStrategy[Any], least: int = 4, most: int = 8) -> st.SearchStrategy[list[Any]]:
    return st.lists(texts, min_size=least, max_size=most)


def printed_by_both(sbcl: Oracle, many: list[Any]) -> None:
    texts = [dumps(value) for value in many]
    assert sbcl.ask(texts) == [[text] for text in texts]


@QUICKLY
@given(several(values()))
def test_sbcl_prints_what_it_reads_from_us_just_as_we_printed_it(sbcl: Oracle, many: list[Any]) -> None:
    printed_by_both(sbcl, many)


@QUICKLY
@given(several(floats, 20, 40))
def test_sbcl_and_we_give_a_float_the_same_digits(sbcl: Oracle, many: list[float]) -> None:
    printed_by_both(sbcl, many)


@QUICKLY
@given(several(chars, 20, 40))
def test_sbcl_and_we_print_a_character_in_the_same_way(sbcl: Oracle, many: list[Char]) -> None:
    printed_by_both(sbcl, many)


@QUICKLY
@given(several(names, 20, 40))
def test_sbcl_and_we_put_bars_around_the_same_names(sbcl: Oracle, many: list[str]) -> None:
    printed_by_both(sbcl, [Keyword(name) for name in many])
    escaped = [":|" + name.replace("\\", "\\\\").replace("|", "\\|") + "|" for name in many]
    assert sbcl.ask(escaped) == [[dumps(Keyword(name))] for name in many]


# --- texts that are not ours --------------------------------------------------------------------------------

NOT_LISTED = re.compile("not found in the|is not external in the|Lock on package")
"""We have no list of the symbols in a package, so we don't know that one is missing there."""

SKIPPED_BLANKS = re.compile(r"::[\s\"'();#`,]|::\Z")
"""SBCL goes on to the next token after two colons without a name."""
COLON_AS_LETTER = re.compile(r"[+-]\.:")
"""SBCL takes a colon after a sign and a dot for a letter."""
ESCAPED_CHARACTER = re.compile(r"#\\.[^\s\"'();`,]*[|\\]", re.DOTALL)
"""SBCL reads escapes in the name of a character."""
OTHER_DIGITS = re.compile(r"#\\[Uu][^\s\"'();`,]*[^\0-\x7f]")
"""SBCL takes other digits than ASCII in the code of a character."""


def read(text: str) -> Any:
    try:
        return loads(text)
    except SexpError as error:
        return error


def assert_agreement(text: str, answer: Answer) -> None:
    """That both refuse a text or read the same from it, where there is no reason to differ."""
    ours = read(text)
    if isinstance(answer, Refusal):
        assert isinstance(ours, SexpError) or NOT_LISTED.search(answer.message), (text, ours, answer)
    elif len(answer) != 1:
        assert isinstance(ours, SexpError), (text, ours, answer)
    elif isinstance(ours, SexpError):
        on_purpose = ours.message.startswith(("the reader macro", "'`' is not read", "',' is not read"))
        reasons = (SKIPPED_BLANKS, COLON_AS_LETTER, ESCAPED_CHARACTER, OTHER_DIGITS)
        assert on_purpose or any(reason.search(text) for reason in reasons), (text, ours, answer)
    else:
        assert [dumps(ours)] == answer, text


@QUICKLY
@given(several(odd_texts()))
def test_sbcl_and_we_read_the_same_texts_and_the_same_values(sbcl: Oracle, texts: list[str]) -> None:
    for text, answer in zip(texts, sbcl.ask(texts), strict=True):
        assert_agreement(text, answer)


@QUICKLY
@given(several(numbers | names.filter(bool) | characters, 20, 40))
def test_sbcl_and_we_take_the_same_tokens_for_numbers_names_and_characters(
    sbcl: Oracle, tokens: list[str]
) -> None:
    for token, answer in zip(tokens, sbcl.ask(tokens), strict=True):
        assert_agreement(token, answer)


@QUICKLY
@given(several(macros, 1, 30))
def test_what_a_reader_macro_makes_is_never_read(sbcl: Oracle, texts: list[str]) -> None:
    sbcl.ask(texts)  # and nothing of it does any harm there
    for text in texts:
        assert isinstance(read(text), SexpError), text


_decimals = st.builds(
    lambda sign, digits, point, marker, exponent: (
        f"{sign}{digits[:point]}.{digits[point:]}{marker}{exponent}"
    ),
    st.sampled_from(["", "-"]),
    st.text("0123456789", min_size=1, max_size=25),
    st.integers(0, 25),
    st.sampled_from("esfdl"),
    st.one_of(st.integers(-330, 310), st.integers(-60, 45), st.integers(-20, 20)),
)


@QUICKLY
@given(several(_decimals, 20, 40))
def test_sbcl_and_we_read_a_decimal_as_the_same_float(sbcl: Oracle, texts: list[str]) -> None:
    for text, answer in zip(texts, sbcl.ask(texts), strict=True):
        ours = read(text)
        if isinstance(answer, list) and isinstance(ours, float) and [dumps(ours)] != answer:
            # it loses bits of a ratio that is large, and then rounds what is left in the wrong direction
            exact, theirs = Fraction(re.sub("[sfdl]", "e", text)), loads(answer[0])
            assert abs(exact) > 1, text
            assert abs(exact - Fraction(ours)) < abs(exact - Fraction(theirs)), text
        else:
            assert_agreement(text, answer)


@pytest.mark.parametrize(
    ("text", "theirs", "ours"),
    [
        # a name that we don't know as one of CL's keeps the prefix it came with
        ("passepartout::car", ["CAR"], "PASSEPARTOUT::CAR"),
        ("passepartout::frame-message", ["PASSEPARTOUT:FRAME-MESSAGE"], "PASSEPARTOUT::FRAME-MESSAGE"),
        # what has no name in Unicode 3.2 is written by its code, which any Lisp reads
        ("#\\GRINNING_FACE", ["#\\GRINNING_FACE"], "#\\U1F600"),
        # Python's Unicode is younger than SBCL's, so it knows what this stands for
        ("㋿", ["㋿"], "令和"),
        # SBCL leaves the bars out, and then reads a number
        ("|٣|", ["٣"], "|٣|"),
        # SBCL's own reader is off by one place here
        ("505855128.5", ["5.058551e8"], "5.0585514e8"),
    ],
)
def test_what_sbcl_and_we_read_as_different_values(
    sbcl: Oracle, text: str, theirs: list[str], ours: str
) -> None:
    assert sbcl.ask([text]) == [theirs]
    assert dumps(loads(text)) == ours


@pytest.mark.parametrize(
    ("text", "theirs", "why"),
    [
        ("#\\UD800", ["#\\UD800"], "half of a surrogate pair can't be sent as UTF-8"),
        ("#\\Spac\\e", ["#\\ "], "the name of a character has no escapes"),
        ("#\\U+²b", ["#\\+"], "the code of a character has ASCII digits"),
        ("-.:a", ["|-.:A|"], "a colon ends the name of a package"),
        (":: a", [":A"], "a keyword has a name"),
        ("cl-user::x", ["X"], "only packages are named that a peer is sure to have"),
        ("1 2", ["1", "2"], "one text holds one form"),
        ("(" * 300 + ")" * 300, ["(" * 299 + "NIL" + ")" * 299], "depth is limited"),
        ("9" * 5000, ["9" * 5000], "digits are limited"),
    ],
)
def test_what_sbcl_reads_and_we_refuse_on_purpose(
    sbcl: Oracle, text: str, theirs: list[str], why: str
) -> None:
    assert sbcl.ask([text]) == [theirs]
    with pytest.raises(SexpError):
        loads(text)


def test_what_we_read_and_sbcl_refuses(sbcl: Oracle) -> None:
    # we have no list of the symbols of a package
    for text in ("cl:nosuch", "cl::nosuch", "passepartout:nosuch"):
        (answer,) = sbcl.ask([text])
        assert isinstance(answer, Refusal)
        assert loads(text)
    assert type(loads("1.5")) is Single
