"""`fairlead timeline` of sessions of each kind, and `fairlead reports --plot`, with a daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.connection import DaemonConnection
from fairlead.client.sdk import Host
from fairlead.system.settings import Settings
from fairlead.terminal.turns import FORMER, MAX_FORMER
from fairlead.verify.report import Confidence, Report, Status
from fairlead.verify.store import ReportStore
from tests.hosting import WAIT, Hosting

DIALOG = ("─" * 60, " Bash command", "   touch x", " Do you want to proceed?", " ❯ 1. Yes", "   2. No")
"""What a terminal shows while it asks for a permission."""


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    hosting.run("ls")
    yield hosting
    hosting.close()


def told(hosting: Hosting, name: str, *words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(hosting.run("timeline", name, "--json", *words).stdout)
    return answer


def keep(
    hosting: Hosting, session: str, turn: int, confidence: Confidence, project: Path, cost: float = 0.0
) -> None:
    with ReportStore(Settings(hosting.environment).reports_path) as store:
        store.add(
            Report(
                status=Status.VERIFIED,
                confidence=confidence,
                summary="it was looked at",
                session_id=session,
                project=str(project),
                verifier="pytest",
                turn=turn,
                duration=1.0,
                cost=cost,
            )
        )


def test_an_agents_turns_have_tools_questions_and_checks_also_after_a_restart(
    hosting: Hosting, tmp_path: Path
) -> None:
    hosting.run("agent", "garden", "-n", "garden", "-C", str(tmp_path), "-p", "say: hello", check=False)
    hosting.run("send", "garden", "write out.txt: hello")
    hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
    waits = told(hosting, "garden")["turns"][-1]
    assert (waits["outcome"], waits.get("ended")) == ("working", None)
    assert [each["what"] for each in waits["steps"]] == ["tool", "question"]
    [asked] = hosting.ask("approvals")["approvals"]
    assert "waits " in hosting.run("timeline", "garden").stdout
    hosting.run("approvals", "allow", asked["token"])
    hosting.run("wait", "garden", "--exit")
    keep(hosting, asked["session_id"], 2, Confidence.PERFECT, tmp_path)
    hosting.kill_daemon()
    answer = told(hosting, "garden")
    first, second = answer["turns"]
    assert (answer["total"], first["number"], second["number"]) == (2, 1, 2)
    assert (second["prompt"], second["outcome"]) == ("write out.txt: hello", "done")
    assert first["began"] <= first["ended"] <= second["began"] <= second["ended"]
    steps = {each["what"]: each for each in second["steps"]}
    assert (steps["tool"]["title"], steps["tool"]["outcome"]) == ("write", "done")
    assert (steps["question"]["outcome"], bool(steps["question"]["by"])) == ("allow", True)
    assert (steps["check"]["title"], steps["check"]["outcome"]) == ("pytest", "perfect")
    assert second["input_tokens"] > 0
    lines = hosting.run("timeline", "garden", "-n", "1").stdout.splitlines()
    assert lines[1].startswith("2 turns, the last 1 shown; ")
    assert any("#2 write out.txt: hello" in line and line.endswith(" done") for line in lines)
    assert any("✓ pytest  it was looked at" in line and line.endswith("1s PERFECT") for line in lines)
    assert "Time by turn" in hosting.run("timeline", "garden", "--plot").stdout
    with Host(Settings(hosting.environment)) as host:
        assert host.timeline("garden", turns=1)["turns"][0]["number"] == 2


def test_each_answer_is_of_who_gave_it_and_is_left_out_with_its_turn(
    hosting: Hosting, tmp_path: Path
) -> None:
    chat = ("agent", "-n", "thorn", "-C", str(tmp_path), "-p")
    hosting.run(*chat, "write a.txt: a", check=False)
    hosting.run(*chat, "--yes", "write b.txt: b")
    for file, via in (("c", "fairlead approvals"), ("d", "dashboard"), ("e", "")):
        hosting.run("send", "thorn", f"write {file}.txt: {file}")
        hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
        [asked] = hosting.ask("approvals")["approvals"]
        if via == "fairlead approvals":
            hosting.run("approvals", "allow", asked["token"])
        else:
            with DaemonConnection(Settings(hosting.environment), via=via) as control:
                control.ask("approval_settle", token=asked["token"], allowed=True)
        hosting.run("wait", "thorn", "--exit")
    answer = told(hosting, "thorn")
    by = [step["by"] for turn in answer["turns"] for step in turn["steps"] if step["what"] == "question"]
    assert by == ["nobody could be asked", "--yes", "fairlead approvals", "dashboard", "a program"]
    hosting.run("agent", "-n", "thorn", "-p", "say: hello")
    assert told(hosting, "thorn", "-n", "1")["aside"] == []
    assert "write" not in hosting.run("timeline", "thorn", "-n", "1").stdout


def test_an_agent_in_a_terminal_has_turns_by_its_hooks_and_its_transcript(
    hosting: Hosting, tmp_path: Path
) -> None:
    (tmp_path / "dialog").write_text("\r\n".join(DIALOG))
    script = f"stty raw -echo; clear; cat {tmp_path}/dialog; sleep 600"
    hosting.start("work", script, "--cwd", str(tmp_path))
    hosting.wait_text("work", "proceed")
    none = hosting.run("timeline", "work", check=False)
    assert (none.returncode, none.stdout) == (1, "")
    assert "no turns of work are known: its program is no agent that Fairlead knows" in none.stderr

    def hook(event: str, **more: Any) -> subprocess.Popen[bytes]:
        given = {"hook_event_name": event, "session_id": "one", **more}
        process = subprocess.Popen(
            [*hosting.command, "hook", "claude"],
            env={**hosting.environment, "FAIRLEAD_SESSION": "work"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(given).encode())
        process.stdin.close()
        return process

    bash = {"tool_name": "Bash", "tool_input": {"command": "touch x"}}
    assert hook("UserPromptSubmit", prompt="touch it").wait(WAIT) == 0
    assert hook("PreToolUse", tool_use_id="c1", **bash).wait(WAIT) == 0
    asking = hook("PermissionRequest", **bash)
    hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
    hosting.run("approvals", "allow", "work")
    assert asking.wait(WAIT) == 0
    assert hook("PostToolUse", tool_use_id="c1", **bash).wait(WAIT) == 0
    assert hook("Stop").wait(WAIT) == 0
    hosting.kill_daemon()
    [turn] = told(hosting, "work")["turns"]
    assert (turn["prompt"], turn["outcome"]) == ("touch it", "done")
    assert turn["began"] < turn["ended"]
    tool, question = turn["steps"]
    assert (tool["what"], tool["title"], tool["outcome"]) == ("tool", "Bash", "done")
    assert (
        turn["began"] <= tool["at"] <= question["at"] <= question["ended"] <= tool["ended"] <= turn["ended"]
    )
    assert (question["what"], question["outcome"], bool(question["by"])) == ("question", "allow", True)

    transcript = tmp_path / "transcript.jsonl"
    use = {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "/x"}}
    lines = [
        {"type": "user", "message": {"role": "user", "content": "look"}},
        {
            "type": "assistant",
            "message": {"role": "assistant", "content": [use], "usage": {"output_tokens": 5}},
        },
    ]
    hosting.ask(
        "terminal_turn", name="work", event="start", prompt="look", path=str(transcript), session_id="one"
    )
    transcript.write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert told(hosting, "work", "-n", "1")["turns"][0]["outcome"] == "working"
    hosting.ask("terminal_turn", name="work", event="stop", path=str(transcript), session_id="one")
    [turn] = told(hosting, "work", "-n", "1")["turns"]
    assert [(each["title"], each["text"]) for each in turn["steps"]] == [("Read", "/x")]
    assert (turn["number"], turn["output_tokens"]) == (2, 5)


def test_who_has_had_no_turns_and_who_is_not_there_is_said(hosting: Hosting) -> None:
    missing = hosting.run("timeline", "nobody", check=False)
    assert (missing.returncode, missing.stderr) == (1, "fairlead timeline: no session 'nobody'\n")
    usage = hosting.run("timeline", check=False)
    assert (usage.returncode, "missing NAME" in usage.stderr) == (2, True)


def test_reports_are_plotted_by_project_and_by_session(hosting: Hosting, tmp_path: Path) -> None:
    for turn, confidence in enumerate(Confidence, 1):
        keep(hosting, "left", turn, confidence, tmp_path, cost=0.25)
    keep(hosting, "right", 1, Confidence.PARTIAL, tmp_path)
    words = [sys.executable, "-m", "fairlead", "reports", str(tmp_path), "--plot"]
    shown = subprocess.run(words, env=hosting.environment, capture_output=True, text=True, check=True).stdout
    lines = shown.splitlines()
    assert shown.startswith("Confidence of /")
    drawn = [line.split(" ┤") for line in lines if " ┤" in line][:5]
    assert [word.strip() for word, _ in drawn] == ["PERFECT", "VERIFIED", "PARTIAL", "FAILED", "ERROR"]
    assert [sum(map(int, marks.replace("●", "1").split())) for _, marks in drawn] == [1, 1, 2, 1, 1]
    assert any(line.startswith("Cost of verification so far, ") for line in lines)
    assert any(line.startswith("$1.25 ") for line in lines)
    assert {"left  █▆▄▃▁", "right ▄"} <= set(lines)
    dumb = subprocess.run(
        words, env={**hosting.environment, "TERM": "dumb"}, capture_output=True, text=True, check=True
    )
    assert dumb.stdout.isascii()
    assert "left  #=-._" in dumb.stdout


def test_the_turns_of_a_terminal_that_is_gone_are_told_by_its_name(hosting: Hosting, tmp_path: Path) -> None:
    def had_turn(prompt: str) -> None:
        hosting.start("faded", "exec cat", "--cwd", str(tmp_path))
        for event in ("start", "stop"):
            hosting.ask("terminal_turn", name="faded", event=event, agent="other", prompt=prompt)

    had_turn("water the beds")
    hosting.run("stop", "faded")
    answer = told(hosting, "faded")
    assert [each["prompt"] for each in answer["turns"]] == ["water the beds"]
    row = answer["session"]
    assert (row["name"], row["state"], row["project"]) == ("faded", "ended", str(tmp_path))
    shown = hosting.run("timeline", "faded").stdout
    assert "faded" in shown.splitlines()[0]
    assert "#1 water the beds" in shown
    hosting.kill_daemon()
    assert told(hosting, "faded")["total"] == 1
    hosting.start("faded", "exec cat")
    nothing = hosting.run("timeline", "faded", check=False)
    assert (nothing.returncode, nothing.stdout) == (1, "")  # this one has had none
    hosting.run("stop", "faded")
    had_turn("mow the lawn")
    hosting.run("stop", "faded")
    assert [each["prompt"] for each in told(hosting, "faded")["turns"]] == ["mow the lawn"]
    for name in ("never", "../turns/faded", "faded/"):
        missing = hosting.run("timeline", name, check=False)
        assert (missing.returncode, "no session" in missing.stderr) == (1, True), missing.stderr


def test_the_turns_of_so_many_that_are_gone_are_kept(hosting: Hosting, tmp_path: Path) -> None:
    aside = Path(Settings(hosting.environment).state_dir, "turns", FORMER)
    aside.mkdir(parents=True, exist_ok=True)
    for number in range(MAX_FORMER + 5):
        (aside / f"old-{number}.json").write_text("{}")
        os.utime(aside / f"old-{number}.json", (number, number))
    hosting.start("newest", "exec cat")
    for event in ("start", "stop"):
        hosting.ask("terminal_turn", name="newest", event=event, agent="other", prompt="go")
    hosting.run("stop", "newest")
    hosting.until(lambda: len(list(aside.iterdir())) <= MAX_FORMER)
    assert told(hosting, "newest")["total"] == 1
    assert not (aside / "old-0.json").exists()
