"""Third-party clients of ACP drive `fairlead acp`: the Python SDK, acpx, and Emacs with acp.el."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import peers
from tests.hosted.small import SmallHosting

HERE = Path(__file__).parent
SECONDS = 180.0
"""For a client that starts slowly on a busy machine."""

pytestmark = pytest.mark.peers


@pytest.fixture
def small() -> Iterator[SmallHosting]:
    hosting = SmallHosting("load")
    hosting.environment["PATH"] = f"{Path(sys.executable).parent}:{hosting.environment['PATH']}"
    yield hosting
    hosting.close()


def run(hosting: SmallHosting, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        env=hosting.environment,
        cwd=hosting.project,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def rows(done: subprocess.CompletedProcess[str]) -> list[tuple[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [(name, value) for name, value in map(json.loads, done.stdout.splitlines())]


def test_the_python_sdk_works_with_all_of_it(small: SmallHosting) -> None:
    python, editor = peers.python_with("acp"), str(HERE / "acp_sdk_editor.py")
    done = run(small, python, editor, *small.command, "acp", "--with", "small", str(small.project))
    saw = rows(done)
    assert done.stderr == ""
    stops = [value["stopReason"] for name, value in saw if name == "prompt"]
    assert stops == ["end_turn", "end_turn", "end_turn", "cancelled"]
    before, after = saw[: (at := [name for name, _ in saw].index("close"))], saw[at:]

    def said(rows: list[tuple[str, Any]], kind: str = "agent_message_chunk") -> str:
        updates = [value for name, value in rows if name == "update" and value["sessionUpdate"] == kind]
        return "".join(each["content"]["text"] for each in updates)

    assert said(before) == said(after) == "done yes-once done denied done hanging "
    assert said(before, "user_message_chunk") == ""
    assert said(after, "user_message_chunk") == "think plan free donetool donetool donehang"
    assert sum(name == "permission" for name, _ in saw) == 2
    by_name = dict(saw)
    assert by_name["initialize"]["agentInfo"]["name"] == "fairlead"
    assert by_name["option"]["configOptions"][0]["currentValue"] == "ask"
    assert by_name["list"]["sessions"][0]["title"] == "think plan free done"
    assert by_name["load"]["modes"]["currentModeId"] == "ask"
    assert by_name["refused"] == -32002


def test_acpx_prompts_and_answers(small: SmallHosting) -> None:
    acpx = peers.npm("acpx")
    agent = "fairlead acp --with small"
    done = run(small, acpx, "--agent", "fairlead acp", "exec", "hello")
    assert done.returncode == 0, done.stderr
    assert "I am the offline guide" in done.stdout
    done = run(small, acpx, "--approve-all", "--agent", agent, "exec", "think tool done")
    assert "[thinking] let me see" in done.stdout
    assert "Write hello.txt (completed)" in done.stdout
    assert "yes-once done" in done.stdout
    assert (small.project / "hello.txt").read_text() == "hi\n"
    assert run(small, acpx, "--agent", agent, "sessions", "new").returncode == 0
    assert "before" in run(small, acpx, "--agent", agent, "prompt", "before").stdout
    small.kill_daemon()
    assert "before: before" in run(small, acpx, "--agent", agent, "prompt", "recall").stdout
    run(small, acpx, "--agent", agent, "sessions", "close")


def test_emacs_prompts_and_answers_with_acp_el(small: SmallHosting) -> None:
    emacs = peers.require("emacs")
    place = os.environ.get("ACP_EL", "")
    found = run(small, emacs, "-Q", "--batch", "-L", place or "/", "--eval", '(princ (locate-library "acp"))')
    if not found.stdout.endswith(("acp.el", "acp.elc")):
        pytest.skip("Emacs does not find acp.el: set ACP_EL to the directory that has it")
    driver = [emacs, "-Q", "--batch", "-L", place or "/", "-l", str(HERE / "acp_driver.el")]
    done = run(small, *driver, str(small.project), *small.command, "acp", "--with", "small")
    assert rows(done) == [
        ("agent", "fairlead"),
        ("permission", "Write hello.txt: $ echo hi > hello.txt"),
        ("stop", "end_turn"),
        ("text", "yes-once done "),
        ("listed", 1),
    ]
