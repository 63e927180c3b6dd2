"""Who needs a person is listed first, followed as it changes, and attached to next."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.ui.needs import below_agents, by_need, is_inner, question_of, state_cell
from tests.cli.terminals import on_a_terminal
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting

ASKS = "run: touch made"
READS = {"source": "process", "says": "unknown", "words": "cat reads its terminal"}


@pytest.fixture
def hosting(lent: Hosting) -> Hosting:
    lent.environment.pop("NO_COLOR", None)
    return lent


def agent(hosting: Hosting, name: str, cwd: Path, prompt: str = ASKS) -> str:
    """An agent session that was asked for something. Returns its id."""
    id: str = hosting.ask("open_session", name=name, cwd=str(cwd))["session_id"]
    hosting.ask("prompt", session_id=id, message=prompt)
    state = "waits" if prompt == ASKS else "idle"
    hosting.until(lambda: hosting.ask("session_state", name=name)["session"]["activity"]["state"] == state)
    return id


def row(name: str, state: str, since: float, **more: object) -> dict[str, object]:
    seen = more.pop("seen", True)
    activity = {
        "evidence": more.pop("evidence", None),
        "state": state,
        "since": time.time() - since,
        "question": more.pop("question", ""),
        "seen": seen,
    }
    fixed: dict[str, object] = {
        "name": name,
        "id": name,
        "state": "running",
        "exit_code": None,
        "waits_for": "",
        "can": [],
    }
    return {**fixed, "activity": activity, **more}


def test_sessions_are_in_the_order_in_which_they_need_a_person() -> None:
    called = {"escalated": "the tests can't be run", "confidence": "error"}
    sessions = [
        row("ended", "ended", 5, exit_code=1),
        row("seen-long-ago", "idle", 900),
        row("seen", "idle", 9),
        row("program", "unknown", 0),
        row("cat", "unknown", 7, evidence=READS),
        row("works", "working", 12),
        row("done", "idle", 30, seen=False),
        row("done-before", "idle", 300, seen=False),
        row("called", "idle", 3, verdict=called),
        row("waits", "waits", 20, question="delete it?"),
        row("waits-longest", "waits", 200),
    ]
    ordered = by_need(sessions)
    assert [(each["name"], state_cell(each)) for each in ordered] == [
        ("waits-longest", "waits 3m"),
        ("waits", "waits 20s"),
        ("called", "idle 3s"),
        ("done-before", "done 5m"),
        ("done", "done 30s"),
        ("works", "working 12s"),
        ("program", "running"),  # nothing is wrong with it
        ("cat", "reads 7s"),  # and nobody is asked anything
        ("seen", "idle 9s"),
        ("seen-long-ago", "idle 15m"),
        ("ended", "exit 1"),
    ]
    asked = [question_of(each) for each in ordered[:4]]
    assert asked == ["an answer", "delete it?", "the tests can't be run", ""]
    assert state_cell({**row("old", "unknown", 0), "activity": None}) == "running"  # of an older daemon


def test_who_waits_is_first_in_the_table_with_question_and_branch(hosting: Hosting, tmp_path: Path) -> None:
    tree, linked = tmp_path / "garden", tmp_path / "linked"
    commit = "git -c user.name=x -c user.email=x@y commit -q --allow-empty -m x"
    subprocess.run(f"git init -q -b roses {tree}; cd {tree} && {commit}", shell=True, check=True)
    subprocess.run(["git", "-C", str(tree), "worktree", "add", "-q", "-b", "weeds", str(linked)], check=True)
    hosting.start("plain", "sleep 1000")
    agent(hosting, "first", tree)
    agent(hosting, "second", linked)
    assert hosting.run("ls", "-q").stdout.split()[:2] == ["first", "second"]
    listed = json.loads(hosting.run("ls", "--json").stdout)
    assert [(each["name"], each.get("branch")) for each in listed[:2]] == [
        ("first", "roses"),
        ("second", "weeds"),
    ]
    assert listed[0]["state"] == "asks"  # as it was
    assert listed[0]["activity"]["state"] == "waits"
    head, first, *_ = hosting.run("ls").stdout.splitlines()
    assert head.split()[:5] == ["NAME", "STATE", "QUESTION", "KIND", "DIRECTORY"]
    assert first.startswith("first   waits ")
    assert "touch made" in first
    _, shown = on_a_terminal(hosting, "ls", columns=80)
    head, first, *_ = shown.splitlines()
    assert head.split()[:3] == ["NAME", "STATE", "QUESTION"]
    assert first.startswith("first   \x1b[1;7;33mwaits ")
    assert "touch made" in first
    hosting.environment["NO_COLOR"] = "1"
    _, shown = on_a_terminal(hosting, "ls", columns=40)
    assert "\x1b" not in shown
    assert shown.splitlines()[1].startswith("first   waits ")
    del hosting.environment["NO_COLOR"]


def test_next_attaches_to_who_has_waited_longest_then_to_what_nobody_has_seen(
    hosting: Hosting, tmp_path: Path
) -> None:
    refused = hosting.run("next", check=False)
    assert (refused.returncode, refused.stderr) == (1, "fairlead next: no session needs you\n")
    agent(hosting, "done", tmp_path, "hello")
    first = agent(hosting, "first", tmp_path)
    agent(hosting, "second", tmp_path)
    assert hosting.run("next", "--print").stdout == "first\n"
    with Person(hosting, "next", cols=100) as person:
        person.until_all(["first has waited", "touch made"])
        hosting.until(lambda: hosting.run("next", "--print").stdout == "second\n")  # the first is looked at
    assert hosting.run("next", "--print").stdout == "second\n"
    (asked,) = (each for each in hosting.ask("approvals")["approvals"] if each["session_id"] == first)
    hosting.run("approvals", "deny", asked["token"])
    hosting.until(lambda: hosting.run("next", "--print").stdout == "second\n")
    hosting.run("approvals", "deny", "second")
    hosting.until(
        lambda: hosting.ask("session_state", name="second")["session"]["activity"]["state"] == "idle"
    )
    assert hosting.run("next", "--print").stdout == "done\n"  # whose turn ended first
    with Person(hosting, "next", cols=100) as person:
        person.until("hello")
        hosting.until(lambda: hosting.run("next", "--print", check=False).stdout != "done\n")
    seen = {each["name"]: each["activity"]["seen"] for each in hosting.ask("session_list")["sessions"]}
    assert seen == {"done": True, "first": True, "second": False} or seen["done"]


def test_a_session_is_seen_by_who_looks_at_it_and_not_by_who_lists_it(
    hosting: Hosting, tmp_path: Path
) -> None:
    def seen() -> bool:
        is_seen: bool = hosting.ask("session_state", name="work")["session"]["activity"]["seen"]
        return is_seen

    agent(hosting, "work", tmp_path, "hello")
    for words in (("ls",), ("ls", "--json"), ("logs", "work"), ("state", "work")):
        hosting.run(*words)  # a script
        assert not seen(), words
    on_a_terminal(hosting, "ls")
    assert not seen()
    on_a_terminal(hosting, "logs", "work")
    assert seen()


@pytest.fixture
def watching(hosting: Hosting, tmp_path: Path) -> Iterator[Path]:
    """A log of `ls --watch`."""
    log = tmp_path / "log"
    with log.open("w") as file:
        watching = subprocess.Popen(
            [*hosting.command, "ls", "--watch"], env=hosting.environment, stdout=file, stderr=file
        )
    yield log
    watching.send_signal(signal.SIGINT)
    assert watching.wait(WAIT) == 130


def test_every_change_is_a_line_also_after_the_daemon_was_killed(
    hosting: Hosting, watching: Path, tmp_path: Path
) -> None:
    def until(text: str) -> None:
        hosting.until(lambda: text in watching.read_text())

    hosting.start("plain", "sleep 1000")
    until("  plain  ")
    agent(hosting, "garden", tmp_path)
    until("→ waits  ")
    assert "touch made" in watching.read_text().splitlines()[-1]
    hosting.kill_daemon()
    until("reconnected")
    hosting.run("approvals", "deny", "garden")
    until("  garden  waits → working")
    until("  garden  working → done")
    hosting.run("stop", "plain")
    until(" → gone")
    assert all(
        line[2] == line[5] == ":" for line in watching.read_text().splitlines() if "fairlead" not in line
    )


def test_on_a_terminal_the_table_is_drawn_again(hosting: Hosting, tmp_path: Path) -> None:
    agent(hosting, "garden", tmp_path)
    with Person(hosting, "ls", "--watch", cols=100) as person:
        person.until_all(["NAME", "garden", "waits"])
        hosting.run("approvals", "deny", "garden")
        person.until("done")
        assert "waits" not in person.screen.text()
        assert person.screen.text().startswith("NAME")
        os.write(person.ours, b"\x03")
        assert person.exit_code() == 130


def test_watching_is_for_people(hosting: Hosting) -> None:
    refused = hosting.run("ls", "--watch", "--json", check=False)
    assert refused.returncode == 2
    assert "--watch can't be combined" in refused.stderr


def test_commands_of_agents_are_left_out_and_counted_until_they_are_asked_for(
    hosting: Hosting, tmp_path: Path
) -> None:
    id: str = hosting.ask("open_session", name="garden", cwd=str(tmp_path))["session_id"]
    hosting.start("other", "sleep 1000")
    hosting.ask("prompt", session_id=id, message="run: sleep 1000")
    hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
    [waiting] = hosting.ask("approvals")["approvals"]
    hosting.ask("approval_settle", token=waiting["token"], allowed=True)
    command = f"agent-{id[:8]}-1"
    hosting.until(lambda: command in [each["name"] for each in hosting.ask("session_list")["sessions"]])
    listed = hosting.run("ls")
    assert command not in listed.stdout
    assert "1 command of an agent's tools is not listed: `fairlead ls --all`" in listed.stderr
    assert sorted(hosting.run("ls", "-q").stdout.split()) == ["garden", "other"]
    assert command not in hosting.run("complete", "--", "attach", "").stdout
    assert hosting.run("next", "--print", check=False).returncode == 1
    rows = {each["name"]: each for each in json.loads(hosting.run("ls", "--json").stdout)}
    assert rows[command]["tool_of"] == id
    assert "tool_of" not in rows["other"]
    names = [line.split()[0] for line in hosting.run("ls", "--all").stdout.splitlines()]
    assert names[names.index("garden") + 1] == command
    assert "sleep 1000" in hosting.run("ls", command).stdout
    hosting.run("stop", "garden")


def test_a_command_of_an_agent_that_asks_is_listed() -> None:
    agent = row("garden", "working", 5)
    quiet, asks = row("agent-1", "working", 3, tool_of="garden"), row("agent-2", "waits", 3, tool_of="garden")
    assert (is_inner(quiet), is_inner(asks), is_inner(agent)) == (True, False, False)
    ordered = below_agents(by_need([row("idle", "idle", 1), quiet, agent, asks, row("works", "working", 1)]))
    assert [each["name"] for each in ordered] == ["agent-2", "garden", "agent-1", "works", "idle"]
    alone = row("agent-3", "working", 3, tool_of="gone")
    assert below_agents([alone]) == [alone]


def test_what_an_agent_costs_is_known_to_the_next_daemon(hosting: Hosting, tmp_path: Path) -> None:
    id: str = hosting.ask("open_session", name="dear", cwd=str(tmp_path))["session_id"]
    hosting.ask("prompt", session_id=id, message="say: hello")
    hosting.until(lambda: hosting.ask("get_state", session_id=id)["state"]["phase"] == "idle")
    [before] = json.loads(hosting.run("ls", "--json").stdout)
    assert 0 < before["context_tokens"] < before["context_window"]
    assert f"{before['tokens']} tok" in hosting.run("ls").stdout
    hosting.run("daemon", "stop")
    journal = Path(before["file"])
    *lines, last = journal.read_text().splitlines()
    answer = next(each for each in map(json.loads, [last, *lines[::-1]]) if each["type"] == "message")
    answer["message"]["usage"]["cost"]["total"] = 0.125  # as a model with a price says it
    rows = [answer if each["id"] == answer["id"] else each for each in map(json.loads, [*lines, last])]
    journal.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in rows))
    hosting.run("ls")
    [loaded] = hosting.ask("session_list")["sessions"]
    assert (loaded["name"], loaded["cost"]) == ("dear", 0.125)
    hosting.ask("session_lines", session_id=id)  # which opens it
    assert hosting.ask("session_list")["sessions"][0]["cost"] == 0.125
    assert "$0.12" in hosting.run("ls").stdout


def test_a_list_that_is_watched_ends_with_its_reader_though_nothing_changes(hosting: Hosting) -> None:
    hosting.start("work", "sleep 1000")
    command = [sys.executable, "-m", "fairlead", "ls", "--watch"]
    watching = subprocess.Popen(command, env=hosting.environment, stdout=subprocess.PIPE)
    assert watching.stdout is not None
    assert b"work" in watching.stdout.readline()
    watching.stdout.close()
    assert watching.wait(WAIT) == 141
