"""A question is answered by one key, after all of it was on the screen for a moment, and not by accident."""

from __future__ import annotations

from fairlead.ui.dashboard.gate import MOMENT, QUIET, SETTLED, TYPED, AnswerGate

LATER = max(MOMENT, QUIET) + 0.01


class Watched(AnswerGate):
    """A gate that is looked at all the time, as the dashboard does."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self._now = 0.0
        self._at = (0, 0, 0)

    def look(self, now: float) -> None:
        while self._now < now:
            self._now = min(now, self._now + 0.1)
            super().shown(self._now, *self._at)

    def shown(self, now: float, first: int, end: int, total: int) -> None:
        self.look(now)
        self._at = first, end, total
        super().shown(now, first, end, total)

    def key(self, now: float, answer: str | None) -> str:
        self.look(now)
        return super().key(now, answer)

    def settled(self, now: float) -> str | None:
        self.look(now)
        return super().settled(now)


def shown(first: int = 0, end: int = 5, total: int = 5) -> AnswerGate:
    gate = Watched()
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
    gate.shown(20.0, 90, 100, 100)
    assert gate.is_whole(20.0)


def test_lines_of_another_width_are_other_lines() -> None:
    gate = shown(0, 10, 10)
    gate.shown(1.0, 0, 10, 30)
    assert not gate.is_whole(5.0)


def test_what_was_typed_while_we_were_stopped_answers_nothing() -> None:
    gate = AnswerGate(0.0)
    gate.shown(0.0, 0, 5, 5)
    assert gate.key(60.0, "allow") == "read it first"  # nobody knows when it was typed
    assert not gate.is_whole(60.0)


def test_a_key_that_came_while_we_were_stopped_is_waited_for() -> None:
    gate = shown()
    assert gate.key(LATER, "allow") == ""
    assert AnswerGate.settled(gate, LATER + 60.0) is None  # stopped: the next key is not read yet
    gate.key(LATER + 60.0, "allow")
    assert gate.settled(LATER + 70.0) is None


def test_a_question_that_can_not_be_shown_is_not_answered() -> None:
    gate = shown()
    gate.hidden()
    assert gate.key(LATER, "allow") == "read it first"


def test_a_text_is_sent_by_an_enter_that_no_paste_brought() -> None:
    for pause, is_sent in ((TYPED / 10, False), (TYPED * 2, True)):
        gate = AnswerGate(0.0, TYPED)
        for number in range(10):
            gate.shown(number / 10, 0, 1, 1)
        gate.key(1.0, None)
        assert (gate.key(1.0 + pause, "blue") == "") == is_sent
        for number in range(10):
            gate.shown(1.1 + number / 10, 0, 1, 1)
        assert gate.settled(2.1) == ("blue" if is_sent else None)


def test_after_we_were_stopped_all_begins_again() -> None:
    gate = shown()
    assert gate.key(LATER, "allow") == ""
    gate.interrupted(LATER + 0.1)
    assert gate.settled(LATER + 5) is None  # it was pressed before
    gate = shown()
    assert gate.key(LATER, None) == ""
    gate.interrupted(LATER)
    assert gate.key(LATER + 0.001, "allow") == "read it first"
    gate.shown(LATER + 0.1, 0, 5, 5)
    assert gate.key(LATER + MOMENT / 2, "allow") == "read it first"
    assert gate.key(LATER + MOMENT / 2 + LATER, "allow") == ""


def test_a_long_pause_between_two_looks_is_seen_by_either_clock() -> None:
    for ours, days, is_pause in ((0.1, 0.1, False), (60, 60, True), (0.1, 60, True), (0.1, -60, True)):
        gate = shown()
        assert not gate.has_paused(LATER, 5000.0)
        assert gate.has_paused(LATER + ours, 5000.0 + days) == is_pause
        assert (gate.key(LATER + ours, "allow") == "") != is_pause
