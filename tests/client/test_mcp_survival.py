"""`fairlead mcp` while the daemon is killed again and again: each question and each prompt exactly once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosting import WAIT, Hosting
from tests.mcp_client import McpClient, given

ROUNDS = 30
LATEST = 0.4
"""Seconds after the calls within which the daemon is killed."""

pytestmark = pytest.mark.soak


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    made = Hosting()
    yield made
    made.close()


def _kill(hosting: Hosting) -> None:
    lock = Path(hosting.environment["XDG_RUNTIME_DIR"], "fairlead/daemon.lock")
    try:
        os.kill(int(lock.read_text()), signal.SIGKILL)
    except (ValueError, FileNotFoundError, ProcessLookupError):
        pass  # it is just being started


def _asked(hosting: Hosting, text: str) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        rows = [row for row in hosting.ask("approvals")["approvals"] if row["preview"] == text]
        assert len(rows) <= 1, rows
        if rows:
            return dict(rows[0])
        time.sleep(0.01)
    raise AssertionError(f"{text!r} was not asked: {hosting.log()}")


def test_what_waits_while_the_daemon_is_killed_is_done_once(hosting: Hosting, tmp_path: Path) -> None:
    dice = random.Random(os.environ.get("SOAK_SEED", "1"))
    outcomes = []
    with McpClient(hosting, tmp_path) as agent:
        for number in range(ROUNDS):
            agent.call("start_session", name=f"s{number}", agent="own")
            question, prompt = f"question {number}?", f"list . round {number}"
            asking = agent.begin_call("ask_person", question=question)
            prompting = agent.begin_call("prompt_session", session=f"s{number}", text=prompt, timeout=60)
            for _ in range(dice.choice((1, 1, 2))):
                time.sleep(dice.uniform(0, LATEST))
                _kill(hosting)
            row = _asked(hosting, question)
            if dice.random() < 0.5:
                _kill(hosting)
            hosting.run("approvals", "answer", row["token"], f"answer {number}")
            assert given(agent.answer(asking))["answer"] == f"answer {number}"
            taken = given(agent.answer(prompting))
            assert taken["state"] == "ended"
            outcomes.append(taken["outcome"])
            said = hosting.run("logs", f"s{number}").stdout.count(f"> {prompt}")
            assert said == 1, (number, said, taken)
            assert not any(row["preview"] == question for row in hosting.ask("approvals")["approvals"])
    assert set(outcomes) <= {"done", "interrupted"}, outcomes
