"""Where a person sees that a verifier calls for one: in lists, in conversations, at attached terminals."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.sdk import connect
from fairlead.system.settings import Settings
from tests.cli.hooked import Verifier
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting

REASON = "the tests could not be run"
SECTIONS = {"Tests": "two tests fail"}


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_NOTIFY_AFTER_SECONDS": "0.2"})
    yield hosting
    hosting.close()


class AgentVerifier(Verifier):
    """A verifier of an agent session."""

    kind = "agent"


def call_for_a_person(hosting: Hosting, name: str, kind: type[Verifier] = Verifier) -> str:
    """A verifier can't judge a turn. Returns the session's id."""
    verifier = kind(hosting, name)
    try:
        report: dict[str, Any] = {"status": "unsure", "summary": REASON}
        verifier.send("report", sessionId=verifier.name, turnIndex=1, sections=SECTIONS, raw="", **report)
        verifier.told("verify/escalated")
        return verifier.name
    finally:
        verifier.close()


def had_a_turn(hosting: Hosting, name: str) -> None:
    """An agent in a terminal has done something."""
    hosting.start(name, "stty -echo; echo ready; cat")
    hosting.wait_text(name, "ready")
    for event in ("start", "stop"):
        hosting.ask("terminal_turn", name=name, event=event, agent="other", prompt="build it")


def test_it_is_seen_in_lists_and_at_the_terminals_attached(hosting: Hosting) -> None:
    had_a_turn(hosting, "work")
    hosting.start("elsewhere", "echo here; cat")
    needs = f"work needs a person: {REASON}"
    with Person(hosting, "attach", "work") as person, Person(hosting, "attach", "elsewhere") as other:
        person.until("ready")
        other.until("here")
        long_ago = time.time() - 3600
        os.utime(os.ttyname(person.theirs), (long_ago, long_ago))  # where nobody is any more
        call_for_a_person(hosting, "work")
        for each in (person, other):
            each.until(needs)
        other.type(b"typed\r")  # the note goes, and the screen is as it was
        other.until_screen(hosting, "elsewhere")
    with Person(hosting, "attach", "work") as late:
        late.until(needs)
        assert late.leave() == 0
        assert needs in late.text

    listed = hosting.run("ls")
    assert "error!" in next(line for line in listed.stdout.splitlines() if line.startswith("work ")).split()
    assert listed.stderr == f"{needs}; `fairlead approvals dismiss work` dismisses it\n"
    assert needs in hosting.run("talk", "/status").stdout
    hosting.kill_daemon()
    hosting.until(lambda: "work" in hosting.sessions())
    assert needs in hosting.run("ls").stderr

    hosting.ask("terminal_turn", name="work", event="start", agent="other", prompt="never mind")
    assert "needs a person" not in hosting.run("ls").stderr  # somebody has seen to it
    hosting.kill_daemon()
    hosting.until(lambda: "work" in hosting.sessions())
    assert "needs a person" not in hosting.run("ls").stderr


def test_a_program_that_is_called_like_an_id_is_named_whole(hosting: Hosting) -> None:
    name = "0c0b2e1a-88aa-4bbb-8ccc-0123456789ab"
    had_a_turn(hosting, name)
    call_for_a_person(hosting, name)
    for words in (("ls",), ("talk", "/status")):
        done = hosting.run(*words)
        assert f"{name} needs a person: {REASON}" in done.stdout + done.stderr


def test_it_is_seen_in_the_sessions_the_status_and_the_chat_of_an_agent(
    hosting: Hosting, tmp_path: Path
) -> None:
    hosting.run("ls")
    with connect(Settings(hosting.environment)) as host:
        host.agent("build", cwd=str(tmp_path)).ask("ls", approve=True, timeout=WAIT)
    call_for_a_person(hosting, "build", AgentVerifier)
    needs = f"build needs a person: {REASON}"
    listed = hosting.run("sessions")
    assert "error!" in listed.stdout
    dismiss = listed.stderr.partition("`")[2].partition("`")[0].removeprefix("fairlead ").split()
    assert listed.stderr == f"{needs}; `fairlead {' '.join(dismiss)}` dismisses it\n"
    assert needs in hosting.run("talk", "/status").stdout
    with Person(hosting, "agent", "-C", str(tmp_path), "build") as person:
        person.until(f"a person is needed: {REASON}")
    (asked,) = json.loads(hosting.run("approvals", "--json").stdout)
    assert (asked["kind"], asked["summary"], asked["options"]) == ("escalation", REASON, ["deny"])
    refused = hosting.run("approvals", "allow", asked["token"], check=False)
    assert refused.returncode == 1
    assert f"can only be dismissed: `fairlead approvals dismiss {asked['token']}`" in refused.stderr
    text = hosting.run("approvals").stdout
    assert "two tests fail" in text  # what was found, and what to do
    assert f"`fairlead approvals dismiss {asked['token']}`" in text
    hosting.kill_daemon()
    (again,) = json.loads(hosting.run("approvals", "--json").stdout)
    assert again == asked  # also its session's name and project
    done = hosting.run(*dismiss)
    assert done.stdout.startswith(f"dismissed {asked['token']}: needs a person: {REASON} (session ")
    for words in (("sessions",), ("talk", "/status")):
        shown = hosting.run(*words)
        assert "needs a person" not in shown.stdout + shown.stderr
    refused = hosting.run(*dismiss, check=False)  # nobody is called any more
    assert (refused.returncode, refused.stdout) == (1, "")


def test_a_call_is_dismissed_by_its_own_verb_which_answers_no_consent(
    hosting: Hosting, tmp_path: Path
) -> None:
    had_a_turn(hosting, "work")
    call_for_a_person(hosting, "work")
    (asked,) = json.loads(hosting.run("approvals", "--json").stdout)
    done = hosting.run("approvals", "dismiss", "work").stdout
    assert done.startswith(f"dismissed {asked['token']}: needs a person: {REASON}")
    call_for_a_person(hosting, "work")
    assert f": needs a person: {REASON} (" in hosting.run("talk", "/deny work").stdout
    session = hosting.ask("open_session", name="asks", cwd=str(tmp_path))["session_id"]
    hosting.ask("prompt", session_id=session, message="run: touch made")
    hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
    refused = hosting.run("approvals", "dismiss", "asks", check=False)
    assert refused.returncode == 1
    assert "waits for consent" in refused.stderr
