"""Corrections that would answer, choose, send or run something for a person, by real screens of agents."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.hooked import Verifier
from tests.hosting import Hosting

SCREENS = Path(__file__).parents[1] / "data/agent-screens/claude-2.0.76"
NOT_EMPTY = [path.stem for path in sorted(SCREENS.iterdir()) if not path.stem.startswith("empty")]
ATTACKS = {
    "a choice": "1",
    "the end of a paste": "x\x1b[201~\rtouch evil\r",
    "keys": "\x03\x04\r\n",
    "a command": "/exit",
    "a shell command": "!touch evil",
}
PROGRAM = """
import os, sys, tty
tty.setraw(0)
os.write(1, b"\\x1b[?2004h\\x1b[2J\\x1b[H" + open(sys.argv[1], "rb").read().replace(b"\\n", b"\\r\\n"))
os.write(1, b"\\x1b]0;drawn\\x07")
typed = open(sys.argv[2], "ab", 0)
while data := os.read(0, 65536):
    typed.write(data)
"""


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_VERIFIER_BEGIN_SECONDS": "0.1"})
    yield hosting
    hosting.close()


@pytest.fixture
def showing() -> Iterator[list[Verifier]]:
    made: list[Verifier] = []
    yield made
    for each in made:
        each.close()


NUMBERS = itertools.count()


def stopped(hosting: Hosting, place: Path, screen: str, made: list[Verifier]) -> Verifier:
    """A session that shows a screen, and whose agent has had a turn; `typed` is what reaches it."""
    name = f"shows-{screen}-{next(NUMBERS)}"
    program = [sys.executable, "-c", PROGRAM, str(SCREENS / f"{screen}.ansi"), str(place / "typed")]
    hosting.ask("terminal_start", name=name, argv=program, cwd=str(place), cols=100, rows=30)
    hosting.until(lambda: hosting.sessions()[name]["title"] == "drawn")
    for event in ("start", "stop"):
        hosting.ask("terminal_turn", name=name, event=event, agent="claude", prompt="build it")
    hosting.until((place / "typed").exists)
    made.append(verifier := Verifier(hosting, name))
    return verifier


@pytest.mark.parametrize("screen", NOT_EMPTY)
def test_nothing_is_typed_into_a_screen_that_is_no_empty_input(
    hosting: Hosting, tmp_path: Path, showing: list[Verifier], screen: str
) -> None:
    verifier = stopped(hosting, tmp_path, screen, showing)
    refusals = set()
    for text in ATTACKS.values():
        for how in ({}, {"deliverAs": "steer"}):
            refusals.add(refusal := verifier.prompt(text, **how))
            assert refusal.startswith(("claude ", "there is a draft in the input of claude"))
            assert refusal.endswith(", so nothing is typed")
    told = verifier.told("verify/escalated")["reason"]
    assert told in {f"a correction was not delivered: {refusal}" for refusal in refusals}
    assert (tmp_path / "typed").read_bytes() == b""


@pytest.mark.parametrize("attack", ["the end of a paste", "a command"])
def test_what_is_typed_into_an_empty_input_is_one_paste_of_plain_text(
    hosting: Hosting, tmp_path: Path, showing: list[Verifier], attack: str
) -> None:
    verifier = stopped(hosting, tmp_path, "empty", showing)
    assert verifier.prompt(ATTACKS[attack]) == ""
    receipt = verifier.told("verify/receipt")
    assert receipt["state"] == "not-delivered"
    # this agent never shows what is pasted, so Enter is not pressed
    shows_nothing = "it was typed, but the input shows nothing of it, so it was not submitted"
    assert receipt["reason"] == f"{shows_nothing}; it was deleted from its input again"
    typed = (tmp_path / "typed").read_bytes().rstrip(b"\x7f")
    assert typed.startswith(b"\x1b[200~")
    assert typed.endswith(b"\x1b[201~")
    inside = typed[6:-6]
    assert not any(byte < 0x20 and byte != 0x0A for byte in inside)
    assert inside[:1].isalnum()
