"""What programs ask that read their terminals is told as a whole."""

from __future__ import annotations

import pytest

from fairlead.terminal.screen.screen import Screen
from fairlead.terminal.state.asking import MAX_QUESTION, asked_on
from fairlead.terminal.state.rules import live_view


def asked(text: str, cols: int = 80) -> str:
    with Screen(cols, 24) as screen:
        screen.feed(text.replace("\n", "\r\n").encode())
        return asked_on(live_view(screen))


@pytest.mark.parametrize(
    ("printed", "question"),
    [
        ("Overwrite the file? ", "Overwrite the file?"),
        ("one line\nOverwrite the file? ", "Overwrite the file?"),
        ("Delete everything?\n> ", "Delete everything? · >"),
        ("Delete everything below /srv\n[y/N] ", "Delete everything below /srv · [y/N]"),
        ("Delete everything?\nType yes or no: ", "Delete everything? · Type yes or no:"),
        ("Delete everything?\n", "Delete everything?"),
        ("Delete everything?\n\n", "Delete everything?"),
        ("1) rose\n2) tulip\n#? ", "1) rose · 2) tulip · #?"),
        (
            "starting\n\nWhich bed?\n  1. the first\n  2. the second\nYour choice [1-2]: ",
            "Which bed? · 1. the first · 2. the second · Your choice [1-2]:",
        ),
        (
            "Which bed:\n\n[a] the first\n[b] the second\n> ",
            "Which bed: · [a] the first · [b] the second · >",
        ),
        ("built 3 beds\n - rose\n - tulip\nRemove them? [y/N] ", "- rose · - tulip · Remove them? [y/N]"),
        ("all is well\n", ""),
        ("", ""),
        ("\n\n", ""),
    ],
)
def test_a_question_has_all_its_lines_and_no_others(printed: str, question: str) -> None:
    assert asked(printed) == question


def test_a_question_that_wraps_is_one_line() -> None:
    assert asked("$ make\nDelete all the roses and the tulips, too? ", 14) == (
        "Delete all the roses and the tulips, too?"
    )
    assert asked("twelve chars x? ", 12) == "twelve chars x?"


def test_of_a_long_question_its_beginning_and_the_last_line_are_left() -> None:
    choices = "".join(f"{number}) a bed with a long name\n" for number in range(1, 11))
    found = asked(f"Which of them?\n{choices}Your choice: ")
    assert found.startswith("Which of them? · 1) a bed")
    assert found.endswith("… · Your choice:")
    assert len(found) <= MAX_QUESTION
    assert len(asked("x" * 3 * MAX_QUESTION)) == MAX_QUESTION


def test_lines_far_above_are_not_looked_at() -> None:
    assert asked("Which?\n" + "1) x\n" * 20 + "#? ") == " · ".join(["1) x"] * 12 + ["#?"])
