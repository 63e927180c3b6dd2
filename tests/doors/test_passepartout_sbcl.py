"""The example client in Lisp, run by a real SBCL, against a real daemon."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import __version__
from fairlead.formats.sexp import Keyword, loads
from tests.doors.passepartout_peer import Peer, port_of
from tests.hosting import WAIT, Hosting

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    yield hosting
    hosting.close()


def test_a_lisp_client_shakes_hands_talks_streams_and_approves(
    peer: Callable[[str], str], hosting: Hosting
) -> None:
    port = port_of(hosting)
    home = Path(hosting.environment["HOME"])
    hosting.ask("new_session", name="lisp")
    done = subprocess.run(
        [
            peer("sbcl"),
            "--script",
            str(Path(__file__).with_name("passepartout_client.lisp")),
            str(ROOT / "examples/lisp/fairlead.lisp"),
            str(port),
        ],
        env={**hosting.environment, "LANG": "C.UTF-8"},
        capture_output=True,
        timeout=WAIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode() + hosting.log()
    told: dict[str, list[Any]] = {}
    for line in _forms(done.stdout.decode()):
        told[line[0].name] = line[1:]
    assert told["HELLO"] == [__version__, [Keyword("AUTH"), Keyword("ORG-AST")]]
    assert told["HEALTH"] == [Keyword("HEALTHY")]
    assert told["HEALTH-MEANWHILE"] == [Keyword("HEALTHY")]
    assert isinstance(told["HELP"][0], int)
    note = next(home.rglob("note.txt"))
    assert note.read_text() == 'é日"\\\n😀\n'
    assert 'é日"\\\n' in told["READ"][0]
    assert "😀" in told["READ"][0]
    assert isinstance(told["ASKED"][0], int)
    assert told["DENIED"][0].startswith("denied ")
    assert isinstance(told["DENIED-AGAIN"][0], int)
    assert told["UNKNOWN"] == ["unknown command /nonsense; /help lists them"]
    assert told["REFUSED"] == ["The daemon refused: a :USER-INPUT needs a :TEXT"]
    assert told["EVENTS"] == [True]


def _forms(text: str) -> list[Any]:
    """The forms of an output; a string may have newlines, so a form may have several lines."""
    forms, begun = [], ""
    for line in text.splitlines(keepends=True):
        begun += line
        try:
            forms.append(loads(begun))
        except ValueError:
            continue
        begun = ""
    assert not begun.strip()
    return forms


def test_two_clients_see_the_same_approval_and_the_first_answer_counts(hosting: Hosting) -> None:
    port = port_of(hosting)
    with Peer(port) as first, Peer(hosting=hosting) as second:
        assert "waits for your consent" in first.ask("/run rm nothing")
        token = second.sensed("APPROVAL-REQUIRED").get("payload", "token")
        assert [row["token"] for row in hosting.ask("approvals")["approvals"]] == [token]
        assert second.ask(f"/deny {token}") == f"denied {token}: shell rm nothing (the daemon itself)"
        assert first.answer() == "denied by tui: rm nothing"
        assert "answered already" in first.ask(f"/approve {token}")
        assert hosting.ask("approvals")["approvals"] == []
