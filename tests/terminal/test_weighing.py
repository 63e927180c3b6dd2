"""Which of several things that say what a program does is believed, and when a screen closes it."""

from __future__ import annotations

import pytest

from fairlead.sessions.state import DoesNow, Evidence, Source
from fairlead.terminal.state.marks import PromptMarks
from fairlead.terminal.state.weighing import ANSWERED, ANSWERED_WAIT, Claim, next_look, weigh


def claim(source: Source, says: DoesNow, at: float = 0.0, question: str = "", since: float = 0.0) -> Claim:
    return Claim(Evidence(source, says, at, "words"), question, since)


def counting(now: float, *claims: Claim) -> tuple[str, str, str]:
    found = weigh({each.evidence.source: each for each in claims}, now)
    (winner,) = [each for each in found if each.fate == "counts"]
    return winner.evidence.source, winner.evidence.says, winner.question


def test_the_strongest_source_counts_and_the_others_say_why_not() -> None:
    claims = [
        claim("process", "working"),
        claim("screen", "idle"),
        claim("protocol", "waits", question="rm?"),
    ]
    found = weigh({each.evidence.source: each for each in claims}, 9.0)
    assert [(each.evidence.source, each.fate) for each in found] == [
        ("protocol", "counts"),
        ("screen", "protocol is stronger"),
        ("process", "protocol is stronger"),
    ]
    assert weigh({}, 9.0) == []


@pytest.mark.parametrize(
    ("hook", "screen", "closes_after"),
    [
        ("waits", "working", 1.0),  # the dialog is gone
        ("waits", "idle", 1.0),
        ("working", "idle", 1.5),  # a person stopped it, which calls no hook
        ("working", "waits", 0.3),  # a dialog that no hook told of
        ("idle", "working", 1.0),  # it was told to go on
    ],
)
def test_a_screen_closes_what_a_hook_said_after_it_had_time_to_be_drawn(
    hook: DoesNow, screen: DoesNow, closes_after: float
) -> None:
    said = claim("hook", hook, 100.0)
    shown = claim("screen", screen, 100.0, since=50.0)
    assert counting(100.0 + closes_after - 0.1, said, shown)[:2] == ("hook", hook)
    assert counting(100.01 + closes_after, said, shown)[:2] == ("screen", screen)
    later = claim("screen", screen, 103.0, since=103.0)  # it is shown only since then
    assert counting(103.0, said, later)[:2] == ("hook", hook)
    assert next_look({"hook": said, "screen": later}, 103.0) == pytest.approx(closes_after)


def test_a_process_closes_what_is_told_to_the_terminal_and_no_hook() -> None:
    reads = claim("process", "waits", 100.0, "Delete all?", since=100.0)
    assert counting(101.0, claim("osc", "working", 90.0), reads) == ("process", "waits", "Delete all?")
    assert counting(101.0, claim("hook", "working", 90.0), reads)[:2] == ("hook", "working")
    runs = claim("process", "working", 100.0, since=50.0)
    assert counting(101.0, claim("osc", "idle", 90.0), runs)[:2] == ("osc", "idle")


def test_a_hook_that_agrees_with_the_screen_counts_with_the_dialogs_words() -> None:
    said, shown = claim("hook", "waits", 1.0), claim("screen", "waits", 2.0, "Do you want to run make?")
    assert counting(60.0, said, shown) == ("hook", "waits", "Do you want to run make?")
    assert next_look({"hook": said, "screen": shown}, 60.0) is None


def test_marks_of_a_shell_are_found_however_they_are_cut() -> None:
    text = b"\x1b]133;A\x07$ \x1b]133;B\x07ls\r\n\x1b]133;C;x=1\x1b\\out\r\n\x1b]133;D;0\x07"
    for size in range(1, len(text)):
        marks = PromptMarks()
        found = [marks.last(text[at : at + size]) for at in range(0, len(text), size)]
        assert [each for each in found if each][-1] == "D", size
        if size < 8:
            assert [each for each in found if each] == ["A", "B", "C", "D"], size
    assert PromptMarks().last(b"133;C\x07 \x1b]133;Z\x07") is None


def test_a_dialog_that_was_answered_is_no_question_while_it_is_still_shown() -> None:
    answered = Claim(Evidence("hook", "working", 5.0, ANSWERED))
    old = claim("screen", "waits", question="rm?", since=2.0)
    assert counting(6.0, answered, old) == ("hook", "working", "")
    assert next_look({"hook": answered, "screen": old}, 6.0) == ANSWERED_WAIT - 1.0
    assert counting(5.0 + ANSWERED_WAIT, answered, old) == ("screen", "waits", "rm?")  # it was not taken
    new = claim("screen", "waits", question="rm -r?", since=5.5)
    assert counting(6.0, answered, new) == ("screen", "waits", "rm -r?")
