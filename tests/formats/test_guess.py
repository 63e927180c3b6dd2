"""Which word was probably meant."""

from __future__ import annotations

from fairlead.formats.guess import MAX_COMPARED, MAX_LENGTH, meant


def test_the_word_that_is_most_like_it_is_named() -> None:
    assert meant("wrok", ["tests", "work", "walk"]) == "; did you mean work?"
    assert meant("xyz", ["tests", "work"]) == ""


def test_neither_long_words_nor_very_many_are_compared() -> None:
    long = "x" * (MAX_LENGTH + 1)
    assert meant(long, [long]) == ""
    assert meant("x" * MAX_LENGTH, [long]) == ""
    assert meant("wrok", [*["tests"] * MAX_COMPARED, "work"]) == ""
