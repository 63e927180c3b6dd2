"""Patterns that people write: linear in the text, and as `re` reads them as far as that goes."""

from __future__ import annotations

import re

import pytest

from fairlead.formats.patterns import MAX_PATTERN, PatternError, compiled

TEXT = "é ٣ x_1\u2003ab foo\x1cbar ½, “日本” — z9\n\tend"


@pytest.mark.parametrize(
    "pattern", [r"\w", r"\d", r"\s", r"\W", r"\D", r"\S", r"[\w]+", r"[^\s]+", r"[]\d]", r"\u00e9", "(?i)É"]
)
def test_classes_and_escapes_mean_what_they_mean_in_python(pattern: str) -> None:
    assert [found[0] for found in compiled(pattern).finditer(TEXT)] == re.findall(pattern, TEXT)


def test_a_pattern_that_backtracks_for_ages_is_answered_at_once() -> None:
    for hostile in (r"(a+)+$", r"^(a|a)*$", r"(.*a){20}$", r"^(([a-z])+.)+[A-Z]([a-z])+$"):
        assert compiled(hostile).search("a" * 5000 + "!") is None


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        (r"a(?=b)", "lookaround"),
        (r"(?<!a)b", "lookaround"),
        (r"(a)\1", "backreferences"),
        (r"(?P<x>a)(?P=x)", "backreferences"),
        (r"(?>a)", "atomic"),
        (r"a++", "possessive"),
        (r"(\w{20}){50}x{900}", "too large"),
        ("[", "missing ]"),
        ("a" * (MAX_PATTERN + 1), f"at most {MAX_PATTERN} characters"),
    ],
)
def test_what_cannot_be_linear_is_refused_with_a_sentence(pattern: str, complaint: str) -> None:
    with pytest.raises(PatternError, match=re.escape(complaint)):
        compiled(pattern)


def test_lines_groups_and_texts_are_as_with_re() -> None:
    assert compiled("^o.e$", multiline=True).search("two\none\n") is not None
    assert compiled("^o.e$").search("two\none\n") is None
    assert compiled(r"end\Z").search(TEXT) is not None
    found = compiled(r"(?P<word>fo+)|(b)").search(TEXT)
    assert found is not None
    assert (found.groups(), found.groupdict()) == ((None, "b"), {"word": None})
    assert compiled("a.c", literal=True).search("abc") is None
    assert compiled("A", literal=True, ignore_case=True).search("a") is not None
    wide = compiled("y").search("日本\U0001f600y")
    assert wide is not None
    assert wide.start() == 3


def test_half_a_surrogate_pair_is_some_character() -> None:
    found = compiled("a.b").search("a\ud800b")
    assert found is not None
    assert compiled("\ud800", literal=True).search("x") is None
