"""A question is answered by one key, after all of it was on the screen for a moment, and not by accident."""

from __future__ import annotations

from fairlead.ui.dashboard.gate import MOMENT, QUIET, SETTLED, AnswerGate

LATER = max(MOMENT, QUIET) + 0.01


def shown(first: int = 0, end: int = 5, total: int = 5) -> AnswerGate:
    gate = AnswerGate(0.0)
    gate.shown(0.0, first, end, total)
    return gate


def test_a_key_answers_what_was_shown_for_a_moment() -> None:
    gate = shown()
    assert gate.key(LATER, "allow") == ""
    assert gate.settled(LATER) is None
    assert gate.settled(LATER + SETTLED) == "allow"
    assert gate.settled(LATER + 2 * SETTLED) is None


def test_a_key_that_comes_at_once_answers_nothing() -> None:
    gate = shown()
    assert gate.key(MOMENT / 2, "allow") == "read it first"
    assert gate.settled(10.0) is None


def test_a_key_that_is_held_answers_nothing_however_long() -> None:
    for first, step in ((0.5, 0.03), (0.25, 0.033), (0.66, 0.04), (0.2, 0.2)):
        gate, now = shown(), first
        while now < 10:
            gate.key(now, "allow")
            assert gate.settled(now) is None
            now += step
            assert gate.settled(now - 0.001) is None


def test_a_paste_answers_nothing_also_one_that_comes_as_keys() -> None:
    gate = shown()
    for number, char in enumerate("yes, do it\ny"):
        gate.key(LATER + number / 10_000, "allow" if char == "y" else None)
    assert gate.settled(100.0) is None
    gate = shown()
    for number, char in enumerate("xy"):
        gate.key(LATER + number / 10_000, "allow" if char == "y" else None)
    assert gate.settled(100.0) is None
    gate = shown()
    assert gate.key(LATER, "allow") == ""
    assert gate.pasted(LATER + 0.01) == "several keys at once: nothing was answered"
    assert gate.settled(100.0) is None


def test_nothing_is_answered_before_the_last_line_was_shown() -> None:
    gate = shown(0, 10, 25)
    assert gate.key(LATER, "allow") == "read all of it first: the rest is below"
    gate.shown(1.0, 10, 20, 25)
    assert gate.key(1.0 + LATER, "allow") == "read all of it first: the rest is below"
    gate.shown(2.0, 15, 25, 25)
    assert gate.key(2.0 + MOMENT / 2, "allow") == "read it first"
    assert gate.key(3.0, "allow") == ""
    assert gate.settled(4.0) == "allow"


def test_lines_that_were_scrolled_past_were_not_shown() -> None:
    gate = shown(0, 10, 100)
    gate.shown(1.0, 90, 100, 100)  # the End key
    assert gate.key(5.0, "allow") != ""
    assert not gate.is_whole(5.0)
    assert gate.next_line(5.0) == 10
    for number, first in enumerate(range(10, 100, 10)):
        gate.shown(6.0 + number, first, first + 10, 100)
    assert gate.is_whole(20.0)


def test_lines_of_another_width_are_other_lines() -> None:
    gate = shown(0, 10, 10)
    gate.shown(1.0, 0, 10, 30)
    assert not gate.is_whole(5.0)
