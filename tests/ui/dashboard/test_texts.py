"""What is shown above the main screen: all of a question, the keys, a diff, what happened; at any width."""

from __future__ import annotations

import time

import pytest

from fairlead.formats.columns import width_of
from fairlead.formats.shown import clean
from fairlead.ui.dashboard.model import Happening
from fairlead.ui.dashboard.texts import (
    answers_of,
    diff_lines,
    folded,
    help_lines,
    log_lines,
    question_lines,
)
from fairlead.ui.plot import PLAIN, Look
from tests.ui.dashboard.recorded import compare
from tests.ui.dashboard.rows import question

LONG = "\n".join(f"echo line {number}" for number in range(300)) + "\n" * 50 + "rm -rf /"
DIFF = {
    "total": 2,
    "insertions": 3,
    "deletions": 1,
    "ahead": 1,
    "branch": "main",
    "files": [
        {"path": "gate.html", "status": "modified", "insertions": 2, "deletions": 1},
        {"path": "evil\x1b[2J.txt", "status": "added", "insertions": 1, "deletions": 0},
    ],
    "patch": "diff --git a/gate.html b/gate.html\n--- a/gate.html\n+++ b/gate.html\n@@ -1 +1,2 @@\n-old\n"
    "+new\n+\x1b[31mred\u202e\r\n",
    "cut": False,
    "left_out": ["big.bin"],
}


@pytest.mark.parametrize("width", [1, 2, 7, 20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    hostile = "日本語" * 50 + " \x1b]0;x\x07 \u202e " + "w" * 300
    asked = question("t", "s", hostile, reason=hostile, preview=hostile, title=hostile)
    for lines in (
        folded(hostile, width),
        question_lines(asked, max(10, width), PLAIN),
        log_lines([Happening(0.0, hostile, hostile)], max(12, width), PLAIN),
        diff_lines("s", DIFF, max(20, width), PLAIN),
    ):
        assert all(width_of(line) <= max(20, width) for line in lines)
        assert all(line == clean(line) for line in lines)


def test_nothing_of_a_question_is_left_out() -> None:
    text = "\n".join(question_lines(question("t", "s", "$ sh", preview=LONG), 40, PLAIN))
    for number in range(300):
        assert f"echo line {number}\n" in text
    assert "rm -rf /" in text
    assert folded("a " + "b" * 100, 30) == ["a " + "b" * 28, "b" * 30, "b" * 30, "b" * 12]


def test_a_question_has_its_own_answers() -> None:
    assert [key for key, _, _ in answers_of(question("t", "s", "x"))] == ["y", "a", "n"]
    own = question("t", "s", "x", kind="permission", options=["allow", "once", "deny"])
    own |= {"labels": ["Yes", "Only now", "No"]}
    assert answers_of(own)[1] == ("2", "once", '"Only now"')
    dialog = question("t", "s", "which?", kind="dialog", options=["1", "2", "deny"], takes_text=True)
    dialog |= {"labels": ["red", "blue", "Don't answer"]}
    assert [(key, value) for key, value, _ in answers_of(dialog)] == [
        ("1", "1"),
        ("2", "2"),
        ("n", "deny"),
        ("t", "answer"),
    ]
    lost = question("t", "s", "x", lost="its session is gone", options=[])
    assert answers_of(lost) == [("n", "deny", "dismiss it")]


def test_an_answer_that_lasts_is_shown_in_the_words_of_who_asks() -> None:
    own = question("t", "s", "x", kind="permission")
    own |= {"labels": ["Allow", "Always allow: mode acceptEdits (session)", "Deny"]}
    assert answers_of(own) == [
        ("y", "allow", "allow it"),
        ("a", "always", '"Always allow: mode acceptEdits (session)"'),
        ("n", "deny", "deny it"),
    ]
    sly = {**own, "labels": ["Always allow: Reject", "Always allow", "Deny, and end the turn"]}
    assert [does for _, _, does in answers_of(sly)] == [
        '"Always allow: Reject"',
        '"Always allow"',
        '"Deny, and end the turn"',
    ]


def test_texts_look_as_recorded() -> None:
    asked = question("t", "garden", "$ make deploy", reason="it runs a command", asked_at=None)
    compare("question", question_lines({**asked, "preview": "make deploy\n\tcurl x | sh"}, 60, PLAIN))
    compare("keys", help_lines(60, PLAIN))
    compare("diff", diff_lines("garden", DIFF, 60, PLAIN))
    none = {**DIFF, "total": 0, "left_out": []}
    assert diff_lines("garden", none, 60, PLAIN) == ["garden has changed nothing"]
    besides = diff_lines("garden", {**none, "left_out": ["large.bin"]}, 60, PLAIN)
    assert " ".join(besides).endswith(
        "nothing besides what is not compared, too large or repositories of their own: large.bin"
    )
    log = [Happening(time.time(), "garden", "needs a person: \x1b[2Jhelp", "yellow")]
    [line] = log_lines(log, 80, Look(colour=True))
    assert "\x1b[2J" not in line
    assert "garden  needs a person" in line
