"""An agent session whose daemon is killed at random moments of turns, tools and pending approvals."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.journal import Journal, Said
from fairlead.agent.messages import Assistant, ToolResult, User, text_of
from fairlead.client.calls import plain
from fairlead.wire import rpc
from tests.client.editors import Editor
from tests.hosting import WAIT, Hosting, is_alive

SOME_KILLS, MANY_KILLS = 30, 200
LONGEST_LIFE = 0.25
"""Seconds from a prompt until the daemon is killed, at the most."""


@pytest.fixture
def hosting(tmp_path: Path) -> Iterator[Hosting]:
    config = tmp_path / "config.toml"
    rules = '[agent]\nrules = [{tool = "bash", match = "echo *", then = "allow"}]\n'
    config.write_text(rules)
    hosting = Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0", "FAIRLEAD_CONFIG": str(config)})
    yield hosting
    hosting.close()


def answered(editor: Editor, op: str, **params: Any) -> Any:
    """An answer; what the death of a daemon left unanswered is asked again."""
    deadline = time.monotonic() + WAIT
    while isinstance(answer := editor.ask(op, **params), rpc.Error):
        assert "the daemon stopped before it answered" in answer.message, answer.message
        assert time.monotonic() < deadline
    return answer


@pytest.mark.parametrize("kills", [SOME_KILLS, pytest.param(MANY_KILLS, marks=pytest.mark.soak)])
def test_nothing_that_was_acknowledged_is_lost_and_the_session_goes_on(
    hosting: Hosting, tmp_path: Path, kills: int
) -> None:
    chance = random.Random(7)
    lock = Path(hosting.environment["XDG_RUNTIME_DIR"], "fairlead/daemon.lock")
    project = tmp_path / "project"
    project.mkdir()
    editor = Editor(hosting, project)
    editor.ask("handshake")
    editor.ask("subscribe")
    state = editor.ask("get_state")["state"]
    session_id, path = state["session_id"], state["session_file"]
    acknowledged = []
    for number in range(kills):
        command = "echo" if number % 3 else "printf"  # the second needs consent
        message = f"run: {command} {number}"
        accepted = editor.ask("prompt", message=message, session_id=session_id)
        if not isinstance(accepted, rpc.Error):
            acknowledged.append(message)
        elif "is streaming" in accepted.message:  # it waits for consent
            editor.ask("abort", session_id=session_id)
        time.sleep(chance.uniform(0, LONGEST_LIFE))
        os.kill(int(lock.read_text()), signal.SIGKILL)
        answered(editor, "get_state", session_id=session_id)
    state = answered(editor, "get_state", session_id=session_id)["state"]
    while state["phase"] != "idle":
        answered(editor, "abort", session_id=session_id)
        state = answered(editor, "get_state", session_id=session_id)["state"]
    assert answered(editor, "prompt", message="run: echo the end", session_id=session_id) == {
        "accepted": True
    }
    editor.idle()
    last = answered(editor, "get_last_assistant_text", session_id=session_id)["text"]
    assert "the end" in last
    editor.close()

    journal = Journal.open(path, writable=False)
    assert journal.faults == []
    said = [entry.body.message for entry in journal.branch if isinstance(entry.body, Said)]
    prompts = [text_of(message) for message in said if isinstance(message, User)]
    assert [prompt for prompt in prompts if prompt in acknowledged] == acknowledged
    assert len(set(prompts)) == len(prompts)
    calls = [call.id for message in said if isinstance(message, Assistant) for call in message.calls]
    results = [message.tool_call_id for message in said if isinstance(message, ToolResult)]
    assert sorted(results) == sorted(calls)
    assert len(acknowledged) > kills / 2


def test_an_approval_that_waits_is_there_after_every_death(hosting: Hosting, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    editor = Editor(hosting, project)
    editor.ask("handshake")
    editor.ask("subscribe")
    editor.ask("prompt", message="write out.txt: hello")
    asked = editor.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-requested")
    for _ in range(5):
        hosting.kill_daemon()
        editor.until(lambda frame: getattr(frame, "topic", "") == "context/updated")
        state = answered(editor, "get_state")["state"]
        assert (state["pending_approvals"], state["phase"]) == (1, "streaming")
    answered(editor, "resolve_dialog", dialog_id=plain(asked.data)["dialog_id"], result=True)
    editor.idle()
    assert (project / "out.txt").read_text().strip() == "hello"
    assert editor.close() == 0


def test_a_prompt_that_waited_when_the_daemon_died_is_told_to_who_comes_next(
    hosting: Hosting, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    editor = Editor(hosting, project)
    editor.ask("handshake")
    editor.ask("subscribe")
    session_id = editor.ask("get_state")["state"]["session_id"]
    editor.ask("prompt", message="write out.txt: hello")
    asked = editor.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-requested")
    assert editor.ask("follow_up", message="say: and then this") == {"accepted": True}
    hosting.kill_daemon()

    def notice(frame: Any) -> bool:
        return getattr(frame, "topic", "") == "ui/notification"

    told = "The daemon restarted before this was said: say: and then this"
    assert plain(editor.until(notice).data)["message"] == told  # the bridge has come back
    other = Editor(hosting, project)
    other.ask("handshake")
    other.ask("subscribe", session_id=session_id)
    assert [plain(frame.data)["message"] for frame in other.frames if notice(frame)] == [told]
    hosting.kill_daemon()  # the journal says by now that it was dropped
    assert plain(editor.until(notice).data)["message"] == told
    lines = editor.ask("session_lines", name=session_id)["lines"]
    assert "not sent (the daemon restarted before it was sent): say: and then this" in lines
    answered(editor, "resolve_dialog", dialog_id=plain(asked.data)["dialog_id"], result=True)
    editor.idle()
    late = Editor(hosting, project)
    late.ask("handshake")
    late.ask("subscribe", session_id=session_id)
    late.ask("prompt", message="say: hello", session_id=session_id)
    late.idle()
    assert [plain(frame.data)["message"] for frame in late.frames if notice(frame)] == [told]  # once
    assert late.close() == 0
    messages = answered(editor, "get_messages", session_id=session_id)["messages"]
    assert "and then this" not in str(messages)
    assert (other.close(), editor.close()) == (0, 0)


def test_a_command_that_ended_without_a_daemon_is_not_listed(hosting: Hosting, tmp_path: Path) -> None:
    """The terminal of an agent's command is nobody's when its daemon is gone."""
    hosting.run("agent", "--name", "garden", "-C", str(tmp_path), "-p", "help")
    hosting.run("send", "garden", "run: touch begun; while [ ! -e go ]; do sleep 0.02; done")
    (asked,) = pending(hosting)
    hosting.run("approvals", "allow", asked)
    hosting.until((tmp_path / "begun").exists)
    ((command, row),) = hosting.sessions().items()
    daemon = hosting.daemon_pid()
    os.kill(nursery := hosting.nursery_pid(), signal.SIGKILL)
    os.kill(daemon, signal.SIGKILL)
    (tmp_path / "go").touch()
    hosting.until(lambda: not Path(f"/proc/{row['pid']}").exists())
    assert not is_alive(nursery)
    hosting.until(lambda: command not in hosting.sessions())
    assert [row["name"] for row in hosting.ask("session_list")["sessions"]] == ["garden"]


def pending(hosting: Hosting) -> list[str]:
    hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))
    return [row["token"] for row in hosting.ask("approvals")["approvals"]]
