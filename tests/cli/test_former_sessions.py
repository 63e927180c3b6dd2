"""Verdicts and calls for a person are of the session they were said of, whoever has its name later."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.hooked import Verifier
from tests.hosting import Hosting


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    yield hosting
    hosting.close()


def turn(hosting: Hosting, name: str, prompt: str = "build it") -> None:
    for event in ("start", "stop"):
        hosting.ask("terminal_turn", name=name, event=event, agent="other", prompt=prompt)


def begun(hosting: Hosting, name: str) -> None:
    hosting.ask("terminal_start", name=name, argv=["sleep", "600"], env={"PATH": "/usr/bin:/bin"})


def said(verifier: Verifier, turn: int, status: str, summary: str, **more: Any) -> None:
    fields = {"sections": {}, "raw": "", **more}
    verifier.send("report", sessionId=verifier.name, turnIndex=turn, status=status, summary=summary, **fields)


def verdict(hosting: Hosting, name: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = hosting.sessions()[name].get("verdict")
    return found


def restarted(hosting: Hosting, name: str) -> None:
    hosting.kill_daemon()
    hosting.until(lambda: name in hosting.sessions())


def calls(hosting: Hosting) -> list[tuple[str, str, str | None]]:
    rows = hosting.ask("approvals")["approvals"]
    return [(row["session_name"] or "", row["summary"], row["lost"]) for row in rows]


def test_a_new_session_of_the_same_name_has_no_verdict_of_the_former_one(hosting: Hosting) -> None:
    hosting.run("ls")
    begun(hosting, "work")
    turn(hosting, "work")
    turn(hosting, "work")
    verifier = Verifier(hosting, "work")
    said(verifier, 2, "verified", "all green")
    verifier.told("verify/report")
    with sqlite3.connect(Path(hosting.environment["HOME"], ".local/state/fairlead/reports.db")) as held:
        held.execute("BEGIN EXCLUSIVE")  # this one is on its way while the name changes hands
        said(verifier, 2, "verified", "late")
        assert verifier.prompt(" ") == "message is empty"  # so it has arrived
        hosting.ask("session_stop", name="work")
        begun(hosting, "work")
        held.rollback()
    verifier.close()
    turn(hosting, "work", "another thing")
    hosting.until(lambda: len(hosting.ask("verify_reports", session_id="work")["reports"]) == 2)
    assert verdict(hosting, "work") is None
    restarted(hosting, "work")
    assert verdict(hosting, "work") is None
    turn(hosting, "work", "and another")
    assert verdict(hosting, "work") is None


def test_a_call_that_only_the_inbox_could_write_down_outlives_the_daemon(hosting: Hosting) -> None:
    hosting.run("ls")
    begun(hosting, "work")
    turn(hosting, "work")
    verifier = Verifier(hosting, "work")
    with sqlite3.connect(Path(hosting.environment["HOME"], ".local/state/fairlead/reports.db")) as held:
        held.execute("BEGIN EXCLUSIVE")
        said(verifier, 1, "unsure", "not to be judged")
        verifier.told("verify/escalated")
        assert calls(hosting) == [("work", "not to be judged", None)]
        hosting.kill_daemon()
        held.rollback()
    verifier.close()
    hosting.until(lambda: "work" in hosting.sessions())
    assert calls(hosting) == [("work", "not to be judged", None)]
    hosting.run("approvals", "deny", "work")
    restarted(hosting, "work")
    assert calls(hosting) == []


def test_no_command_of_an_agent_dismisses_a_call_by_asking_for_something(hosting: Hosting) -> None:
    hosting.run("ls")
    begun(hosting, "work")
    turn(hosting, "work")
    verifier = Verifier(hosting, "work")
    said(verifier, 1, "unsure", "tests deleted")
    verifier.told("verify/escalated")
    called = [("work", "tests deleted", None)]
    person, hosting.environment = hosting.environment, {**hosting.environment, "FAIRLEAD_AGENT": "evil"}
    hook = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "never mind"}
    hosting.environment["FAIRLEAD_SESSION"] = "work"
    told = hosting.run("hook", "claude", "-v", input=json.dumps(hook)).stderr
    assert "it is asked from session evil, not from work" in told
    assert calls(hosting) == called
    hosting.run("send", "work", "help")
    hosting.environment = person
    hosting.ask("terminal_turn", name="work", event="start", agent="other", prompt="help", session_id="s")
    assert verifier.told("terminal/turn-began")["turn"] == 2
    assert calls(hosting) == called  # an agent's command typed it

    hosting.environment = {**person, "FAIRLEAD_AGENT": "evil"}
    assert "only in its own session" in hosting.run("stop", "work", check=False).stderr
    os.kill(hosting.sessions()["work"]["pid"], signal.SIGKILL)
    hosting.until(lambda: hosting.sessions()["work"]["state"] == "ended")
    hosting.run("start", "work", "-d", "--", "sleep", "600")
    hosting.environment = person
    lost = [("work", "tests deleted", "the session that it is about has ended")]
    assert calls(hosting) == lost
    restarted(hosting, "work")
    assert calls(hosting) == lost
    verifier.close()
    hosting.environment = {**person, "FAIRLEAD_AGENT": "evil"}
    refused = hosting.run("approvals", "deny", "work", check=False)
    assert "only a person may" in refused.stderr
    hosting.environment = person
    assert calls(hosting) == lost
    hosting.run("approvals", "deny", "work")
    assert calls(hosting) == []


BEGINS = """
import sys
from fairlead.verify.store import ReportStore
with ReportStore(sys.argv[1]) as store:
    store.begin(session_id="work", project="/", turn=1, verifier="pytest")
"""


def test_a_verification_that_was_lost_with_its_session_calls_nobody_to_the_next(hosting: Hosting) -> None:
    hosting.run("ls")
    begun(hosting, "work")
    turn(hosting, "work")
    path = Path(hosting.environment["HOME"], ".local/state/fairlead/reports.db")
    subprocess.run([sys.executable, "-c", BEGINS, str(path)], check=True)
    hosting.ask("session_stop", name="work")
    begun(hosting, "work")
    restarted(hosting, "work")
    hosting.until(lambda: bool(hosting.ask("verify_reports", session_id="work")["reports"]))
    assert calls(hosting) == []
    restarted(hosting, "work")
    assert (calls(hosting), verdict(hosting, "work")) == ([], None)
