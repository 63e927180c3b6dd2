"""`fairlead rpc --standalone`, and what a person does there: keys, prompts that are written down, jobs."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.calls import plain
from fairlead.system.settings import Settings
from fairlead.wire import rpc
from fairlead.wire.rpc_catalog import TOPICS
from tests.client.editors import Editor
from tests.hosting import WAIT, Hosting, is_alive

KEY = "sk-entered-0123456789"


@pytest.fixture
def alone(hosting: Hosting, tmp_path: Path) -> Iterator[Editor]:
    """An editor whose backend is on its own."""
    editor = Editor(hosting, tmp_path, "rpc", "--standalone")
    editor.ask("handshake")
    editor.ask("subscribe", topics=list(TOPICS))
    yield editor
    assert editor.close() == 0


def listed(title: str, *rows: str) -> str:
    """A list as commands show it."""
    return "\n".join([f"── {title} ".ljust(39, "─"), *rows, "─" * 39])


def told(editor: Editor, text: str) -> dict[str, Any]:
    """What a slash command says."""
    before = len(editor.frames)
    assert editor.ask("command", text=text) == {"accepted": True, "handled": True}
    results = [
        plain(frame.data)
        for frame in editor.frames[before:]
        if isinstance(frame, rpc.Event) and frame.topic == "command-result"
    ]
    return dict(results[-1]) if results else {}


def test_a_whole_turn_runs_without_a_daemon(hosting: Hosting, alone: Editor, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n")
    assert alone.ask("get_state")["state"]["worktree_path"] == str(tmp_path)
    alone.ask("prompt", message="read notes.txt")
    alone.idle()
    assert "buy milk" in alone.ask("get_last_assistant_text")["text"]
    assert alone.ask("terminal_list").code == "request/op-not-supported"
    assert not os.path.exists(Settings(hosting.environment).lock_path)


def test_sessions_are_listed_read_asked_and_stopped_without_a_daemon(alone: Editor, tmp_path: Path) -> None:
    id = alone.ask("open_session", name="garden", cwd=str(tmp_path))["session_id"]
    (row,) = [each for each in alone.ask("session_list")["sessions"] if each["name"] == "garden"]
    assert (row["id"], row["kind"], row["state"]) == (id, "agent", "idle")
    assert alone.ask("session_find", name="garden")["session"]["id"] == id
    alone.ask("session_prompt", name="garden", text="run: echo roses")
    while not (asked := alone.ask("approvals")["approvals"]):
        pass
    assert alone.ask("session_find", name="garden")["session"]["state"] == "asks"
    assert asked[0]["summary"] == "$ echo roses"
    alone.ask("approval_settle", token=asked[0]["token"], allowed=True)
    assert alone.ask("session_wait", name="garden")["outcome"] == "done"
    assert "[bash] roses" in alone.ask("session_lines", name="garden")["lines"]
    assert alone.ask("session_stop", name="garden")["stopped"] is False
    assert alone.ask("verify_target", name="garden")["session_id"] == id


def test_its_input_and_output_may_be_files(hosting: Hosting, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    asked.write_text(
        '{:id "1" :kind :request :op "handshake" :params {:client-info {:protocol-version "1.0"}}}\n'
        '{:id "2" :kind :request :op "ping"}\n'
    )
    with asked.open() as reading, (tmp_path / "answers").open("w") as writing:
        command = [sys.executable, "-m", "fairlead", "rpc", "--standalone"]
        subprocess.run(
            command, stdin=reading, stdout=writing, env=hosting.environment, check=True, timeout=WAIT
        )
    lines = (tmp_path / "answers").read_text().splitlines()
    assert [line[:8] for line in lines] == ['{:id "1"', '{:id "2"']


def test_when_the_editor_ends_its_commands_end(hosting: Hosting, tmp_path: Path) -> None:
    editor = Editor(hosting, tmp_path, "rpc", "--standalone")
    editor.ask("handshake")
    editor.ask("subscribe")
    editor.ask("prompt", message="run: echo $$ > pid; sleep 600")
    asked = editor.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-requested")
    editor.ask("resolve_dialog", dialog_id=plain(asked.data)["dialog_id"], result=True)
    deadline = time.monotonic() + WAIT
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert editor.close() == 0
    assert not is_alive(int((tmp_path / "pid").read_text()))


# --- keys -------------------------------------------------------------------------------------------------


def test_a_key_is_entered_kept_for_its_user_alone_and_forgotten(hosting: Hosting, alone: Editor) -> None:
    begun = alone.ask("login_begin", provider="openai")
    message = begun.pop("message")
    assert begun == {
        "provider": {"id": "openai", "name": "openai"},
        "url": "https://platform.openai.com/api-keys",
        "uses_callback_server": False,
        "pending_login": True,
        "kind": "api-key",
    }
    assert "OAuth" in message
    assert alone.ask("login_complete", input="two words").code == "request/invalid-params"
    assert alone.ask("login_complete", input=KEY) == {
        "provider": {"id": "openai", "name": "openai"},
        "logged_in": True,
    }
    assert alone.ask("login_complete", input=KEY).code == "request/no-pending-login"
    path = Path(Settings(hosting.environment).state_dir, "keys", "openai")
    assert path.read_text() == f"{KEY}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    query = "[:psi.agent-session/authenticated-providers]"
    result = alone.ask("query_eql", query=query)["result"]
    assert "openai" in next(iter(result.values()))
    assert told(alone, "/logout openai")["type"] == "logout"
    assert not path.exists()


def test_an_entered_key_is_shown_to_nobody(hosting: Hosting, alone: Editor, tmp_path: Path) -> None:
    told(alone, "/login anthropic")
    assert "login already in progress" in alone.ask("login_begin", provider="anthropic").message
    alone.ask("prompt", message=KEY)  # as `/login` says
    shown = [
        plain(frame.data) for frame in alone.frames if getattr(frame, "topic", "") == "assistant/message"
    ]
    assert [each["text"] for each in shown] == [
        "Login: anthropic — open URL: https://console.anthropic.com/settings/keys",
        "Paste authorization code as your next prompt message.",
        "✓ Logged in to anthropic",
    ]
    (tmp_path / "leak.txt").write_text(f"it is {KEY}\n")
    alone.ask("prompt", message="read leak.txt")
    alone.idle()
    assert "it is [redacted]" in alone.ask("get_last_assistant_text")["text"]
    state = Path(Settings(hosting.environment).state_dir)
    holding = [path for path in state.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert holding == [state / "keys" / "anthropic"]


@pytest.mark.parametrize("provider", ["offline", "ollama", "nobody", "../keys"])
def test_a_provider_that_takes_no_key_says_so(alone: Editor, provider: str) -> None:
    refused = alone.ask("login_begin", provider=provider)
    assert refused.code == "request/invalid-params"
    assert refused.message.startswith(
        f"invalid request parameter :provider: can't enter a key for {provider}"
    )
    assert told(alone, f"/login {provider}")["type"] == "login-error"


# --- prompts, skills, jobs --------------------------------------------------------------------------------


def test_a_prompt_that_is_written_down_is_said_by_its_name(alone: Editor, tmp_path: Path) -> None:
    assert told(alone, "/prompts")["message"] == listed("Prompt Templates", "  (none discovered)")
    prompts = tmp_path / ".fairlead" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "look.md").write_text("---\ndescription: look into a file\n---\nread $1")
    (tmp_path / "notes.txt").write_text("buy milk\n")
    deadline = time.monotonic() + WAIT
    while "look into a file" not in told(alone, "/prompts")["message"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert alone.ask("command", text="/look notes.txt") == {
        "accepted": True,
        "handled": True,
        "fallback": "template",
    }
    alone.idle()
    assert "buy milk" in alone.ask("get_last_assistant_text")["text"]
    assert {"name": "/look", "description": "look into a file"} in alone.ask("get_commands")["commands"]


def test_one_tool_call_can_be_ended_and_the_turn_goes_on(alone: Editor, tmp_path: Path) -> None:
    assert told(alone, "/jobs")["message"] == listed("Background jobs", "  (none)")
    assert told(alone, "/cancel-job x")["message"] == "Job not found: x. Running: none"
    alone.ask("prompt", message="run: echo begun; sleep 600")
    asked = alone.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-requested")
    alone.ask("resolve_dialog", dialog_id=plain(asked.data)["dialog_id"], result=True)
    running = alone.until(lambda frame: getattr(frame, "topic", "") == "tool/update")
    job = plain(running.data)["tool_id"]
    assert job in told(alone, "/jobs")["message"]
    assert "begun" in told(alone, f"/job {job}")["message"]
    assert told(alone, f"/cancel-job {job}")["message"] == (
        f"Cancellation requested for {job} (status=pending-cancel)"
    )
    ended = alone.until(lambda frame: getattr(frame, "topic", "") == "session/turn-ended")
    assert plain(ended.data)["outcome"] == "done"
    said = alone.ask("get_messages")["messages"]
    assert [each["role"] for each in said] == ["user", "assistant", "assistant"]
    (ended,) = alone.ask("list_background_jobs", statuses=["cancelled"])["jobs"]
    assert (ended["job_id"], ended["summary"]["list_line"]) == (job, f"{job}  [cancelled]  bash")
    assert alone.ask("inspect_background_job", job_id=job)["job"] == ended
    assert alone.ask("cancel_background_job", job_id=job) == {"accepted": True, "job": ended}
    assert alone.ask("inspect_background_job", job_id="x").message == "Job not found"
    other = alone.ask("new_session")["session_id"]
    missing = alone.ask("inspect_background_job", job_id=job, session_id=other)
    assert (missing.code, missing.message) == ("runtime/failed", "Job not found in this thread")
    assert "statuses" in alone.ask("list_background_jobs", statuses="running").message


def test_a_persons_command_is_cancelled_by_the_id_of_its_request(alone: Editor) -> None:
    id = alone.send("bash", command="echo begun; sleep 600")
    alone.until(lambda frame: getattr(frame, "topic", "") == "tool/update")
    assert alone.ask("cancel", request_id=id) == {"accepted": True}
    answer = alone.until(lambda frame: getattr(frame, "op", None) == "bash")
    assert plain(answer.data)["is_error"] is True


def test_what_happened_while_the_daemon_was_gone_is_told_by_the_bridge(
    hosting: Hosting, tmp_path: Path
) -> None:
    """Two editors on one session; the daemon dies, and one of them goes on before the other is back."""
    (tmp_path / "notes.txt").write_text("buy milk\n")
    editor = Editor(hosting, tmp_path)
    editor.ask("handshake")
    editor.ask("subscribe", topics=list(TOPICS))
    editor.ask("prompt", message="ls")
    editor.idle()
    session_id = editor.ask("get_state")["state"]["session_id"]
    editor.backend.send_signal(19)  # it is stopped, and so hears nothing
    hosting.kill_daemon()
    other = Editor(hosting, tmp_path)
    other.ask("handshake")
    other.ask("subscribe", session_id=session_id)
    other.ask("prompt", message="read notes.txt")
    other.idle()
    editor.backend.send_signal(18)
    missed = editor.until(lambda frame: getattr(frame, "topic", "") == "session/prompted")
    assert plain(missed.data)["text"] == "read notes.txt"
    result = editor.until(lambda frame: getattr(frame, "topic", "") == "tool/result")
    assert "buy milk" in plain(result.data)["result_text"]
    assert plain(result.data)["session_id"] == session_id
    assert editor.close() == 0
    assert other.close() == 0
