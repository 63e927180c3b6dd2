"""Texts that people are asked about: visible, as long as there is room, and never only their beginning."""

from __future__ import annotations

import doctest
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.formats import shown
from fairlead.formats.shown import asked_about, asker, middle, name_fault, one_line, several_lines, visible

ODD = st.text(st.sampled_from("ab \n\t\r\x00\x1b\u202e\u200b\u3164\ufe0f\u00a0é日\u2028"), max_size=300)
LONG = st.builds(lambda text, count: text * count, ODD, st.sampled_from([1, 3, 500]))


def test_the_examples() -> None:
    assert doctest.testmod(shown).failed == 0


@given(LONG, st.integers(80, 400))
def test_everything_is_seen_and_has_room(text: str, room: int) -> None:
    line, lines = one_line(text, room), several_lines(text, lines=10, characters=room)
    assert "\n" not in line
    assert len(line) <= room
    assert len(lines.split("\n")) <= 11
    for char in line + lines.replace("\n", ""):
        assert char == " " or category(char)[0] not in "CZ"
        assert char not in "\u3164\ufe0f"


@given(LONG)
def test_the_end_is_never_out_of_sight(text: str) -> None:
    text += "; touch pwned"
    assert one_line(text, 80).endswith("touch pwned")
    assert several_lines(text, lines=6, characters=80).endswith("touch pwned")
    assert middle(text, 40).endswith("touch pwned")


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_what_is_hidden_is_counted(before: int, after: int) -> None:
    text = "x" * before + "y" * after
    kept = middle(text, 100, "look there")
    if len(text) <= 100:
        assert kept == text
    else:
        assert f"[{len(text) - 100} characters are hidden here: look there]" in kept
        assert len(kept) < 160


@pytest.mark.parametrize(
    "char", ["\x00", "\x1b", "\r", "\x7f", "\x9b", "\u200b", "\u202e", "\u2066", "\ue000"]
)
def test_each_character_that_is_not_seen_has_its_name(char: str) -> None:
    assert visible(f"a{char}b") == f"a<U+{ord(char):04X}>b"


def test_a_question_has_all_its_parts_once() -> None:
    who = asker("gar\x1bden", "0c0b2e1a-88", "/srv/gar\u202eden")
    assert who == "session gar<U+001B>den (0c0b2e1a) in /srv/gar<U+202E>den"
    parts = {"reason": "it runs", "who": who, "lines": 9, "characters": 99}
    assert asked_about(what="$ make", whole="make", **parts) == f"$ make\nit runs\n{who}"  # type: ignore[arg-type]
    long = asked_about(what="$ a ⏎ b", whole="a\nb", **parts)  # type: ignore[arg-type]
    assert long == f"$ a ⏎ b\nit runs\n{who}\na\nb"


def test_combining_characters_do_not_draw_over_their_neighbours() -> None:
    words = "e\u0301te\u0301 ว่าอย่างนี้ हिन्दी שָׁלוֹם"
    assert visible(words) == words
    assert visible("no\u0338" + "\u0335" * 40).count("<U+0335>") == 36
    assert visible("\u0338x \u0338y\n\u0338z").count("<U+0338>") == 3
    assert name_fault("a" + "\u0301" * 20)
    assert not name_fault("caf\u00e9 e\u0301")


def test_what_draws_nothing_or_over_others_is_named() -> None:
    for char in "\U0001d159\U00016fe4\U00011a47\U0001107f\u0488\u20dd\ufffc\u303f":
        assert visible(f"a{char}b") == f"a<U+{ord(char):04X}>b"
    assert visible("\u0300b \u0300") == "<U+0300>b <U+0300>"
    assert visible("e\u0301") == "e\u0301"
