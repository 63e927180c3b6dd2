"""The ops by which agents ask a person: what they refuse, and what the daemon takes a caller for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.calls import RequestError
from fairlead.keeper.credentials import AGENT_MARK
from tests.hosting import WAIT, Hosting

GIVEN: dict[str, Any] = {"token": "0123abcd", "text": "Which?", "project": "/srv/garden"}
CALLER = (
    "from fairlead.client.connection import DaemonConnection\n"
    "with DaemonConnection() as control:\n"
    "    found = control.ask('caller')\n"
    "    print(found.get('agent'), found.get('session', {}).get('name'), found['reach'])\n"
)


def waiting(hosting: Hosting) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = hosting.ask("approvals")["approvals"]
    return found


@pytest.fixture
def asking(lent: Hosting) -> Iterator[Future[dict[str, Any]]]:
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(lent.ask, "ask_person", **GIVEN)
        lent.until(lambda: bool(waiting(lent)))
        yield found


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"token": "no hex"}, "8 to 64 hexadecimal digits"),
        ({"token": "../../abcdef"}, "8 to 64 hexadecimal digits"),
        ({"text": " \n"}, "1 to 16384 characters"),
        ({"text": "x" * 16_385}, "1 to 16384 characters"),
        ({"options": ["a"] * 2}, "at most 9 different answers"),
        ({"options": [str(number) for number in range(10)]}, "at most 9 different answers"),
        ({"options": ["two\nlines"]}, "a line of 1 to 200 visible characters"),
        ({"options": ["\x1b[31mred"]}, "a line of 1 to 200 visible characters"),
        ({"options": ["x" * 201]}, "a line of 1 to 200 visible characters"),
        ({"options": [""]}, "a line of 1 to 200 visible characters"),
    ],
)
def test_a_wrong_question_is_refused_and_nobody_is_asked(
    lent: Hosting, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(RequestError, match=says):
        lent.ask("ask_person", **{**GIVEN, **more})
    assert waiting(lent) == []


def test_the_same_token_goes_on_waiting_and_has_one_question(
    lent: Hosting, asking: Future[dict[str, Any]]
) -> None:
    with pytest.raises(RequestError, match="another question has the id 0123abcd"):
        lent.ask("ask_person", **{**GIVEN, "text": "Which other?"})
    with ThreadPoolExecutor(1) as threads:
        again = threads.submit(lent.ask, "ask_person", **GIVEN)
        [row] = waiting(lent)
        assert (row["token"], row["takes_text"], row["project"]) == ("0123abcd", True, "/srv/garden")
        lent.ask("approval_settle", token="0123abcd", allowed=True, option="answer", text="that one")
        answer = asking.result(WAIT)
        assert (answer["answered"], answer["option"], answer["text"]) == (True, "answer", "that one")
        assert again.result(WAIT) == answer == lent.ask("ask_person", **GIVEN)


def test_who_declines_says_no_word(lent: Hosting, asking: Future[dict[str, Any]]) -> None:
    lent.run("approvals", "deny", "0123abcd")
    answer = asking.result(WAIT)
    assert answer["answered"] is False
    assert "text" not in answer


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has in its environment")
def test_a_caller_is_told_what_it_is_taken_for(lent: Hosting, tmp_path: Path) -> None:
    id = lent.ask("open_session", name="walker", cwd=str(tmp_path))["session_id"]
    for mark, says in (("", "None None project"), (id, f"{id} walker project"), ("x", "x None project")):
        env = {**lent.environment, **({AGENT_MARK: mark} if mark else {})}
        done = subprocess.run(
            [sys.executable, "-c", CALLER], env=env, capture_output=True, text=True, timeout=WAIT, check=False
        )
        assert done.stdout.strip() == says, done.stderr
