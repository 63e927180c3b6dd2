"""`fairlead rpc` as an editor starts it: frames on standard input and output, and a daemon that may die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.calls import plain
from fairlead.wire import rpc
from tests.client.editors import Editor
from tests.hosting import WAIT, Hosting, is_alive


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("buy milk\n")
    return tmp_path


@pytest.fixture
def editor(hosting: Hosting, project: Path) -> Iterator[Editor]:
    editor = Editor(hosting, project)
    yield editor
    if editor.backend.poll() is None:
        editor.backend.kill()
        editor.backend.wait()
    for pipe in (editor.backend.stdin, editor.backend.stdout):
        if pipe is not None:
            pipe.close()


def test_an_editor_drives_a_whole_turn_in_its_own_directory(editor: Editor, project: Path) -> None:
    assert editor.ask("handshake")["server_info"]["protocol_version"] == "1.0"
    assert editor.ask("subscribe") == {"subscribed": []}
    state = editor.ask("get_state")["state"]
    assert state["worktree_path"] == str(project)
    assert editor.ask("prompt", message="read notes.txt") == {"accepted": True}
    editor.idle()
    shown = [frame.topic for frame in editor.frames if isinstance(frame, rpc.Event)]
    assert "tool/result" in shown
    last = editor.ask("get_last_assistant_text")["text"]
    assert "buy milk" in last
    assert "offline" in last
    assert editor.close() == 0


def test_the_session_outlives_the_editor(hosting: Hosting, editor: Editor, project: Path) -> None:
    editor.ask("handshake")
    editor.ask("subscribe")
    editor.ask("prompt", message="read notes.txt")
    editor.idle()
    session_id = editor.ask("get_state")["state"]["session_id"]
    editor.backend.kill()
    editor.backend.wait()
    later = Editor(hosting, project, "--rpc-edn")
    later.ask("handshake")
    assert later.ask("handshake")["server_info"]["session_id"] == session_id  # the last one here
    later.ask("subscribe")
    said = later.ask("get_messages")["messages"]
    assert [each["role"] for each in said] == ["user", "assistant", "assistant"]
    assert later.close() == 0


def test_when_the_daemon_dies_the_editor_goes_on_and_events_count_on(
    hosting: Hosting, editor: Editor
) -> None:
    editor.ask("handshake")
    editor.ask("subscribe")
    session_id = editor.ask("get_state")["state"]["session_id"]
    for number in range(3):
        hosting.kill_daemon()
        deadline = time.monotonic() + WAIT
        while isinstance(answer := editor.ask("prompt", message="ls", session_id=session_id), rpc.Error):
            assert time.monotonic() < deadline
            assert "the daemon stopped before it answered" in answer.message
        editor.idle()
        text = editor.ask("get_last_assistant_text", session_id=session_id)["text"]
        assert "notes.txt" in text, number
    seqs = [frame.seq or 0 for frame in editor.frames if isinstance(frame, rpc.Event)]
    assert seqs == sorted(set(seqs))
    assert editor.close() == 0


def test_an_approval_waits_through_the_death_of_the_daemon(
    hosting: Hosting, editor: Editor, project: Path
) -> None:
    editor.ask("handshake")
    editor.ask("subscribe")
    editor.ask("prompt", message="write out.txt: hello")
    asked = editor.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-requested")
    dialog_id = plain(asked.data)["dialog_id"]
    for _ in range(3):
        hosting.kill_daemon()
        editor.until(lambda frame: getattr(frame, "topic", "") == "context/updated")
    assert not (project / "out.txt").exists()
    pid = hosting.daemon_pid()
    os.kill(pid, signal.SIGSTOP)  # it will never see the answer
    editor.send("resolve_dialog", dialog_id=dialog_id, result=True)
    os.kill(pid, signal.SIGKILL)
    answer = editor.until(lambda frame: getattr(frame, "op", None) == "resolve_dialog")
    assert plain(answer.data) == {"accepted": True}
    editor.idle()
    assert (project / "out.txt").read_text().strip() == "hello"
    events = [frame for frame in editor.frames if isinstance(frame, rpc.Event)]
    assert [each.topic for each in events].count("ui/dialog-requested") == 1
    assert [each.seq for each in events] == list(range(1, len(events) + 1))
    editor.ask("prompt", message="write out.txt: again")
    asked = editor.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-requested")
    editor.ask("subscribe")  # who asks for it gets it again
    again = [frame for frame in editor.frames if getattr(frame, "topic", "") == "ui/dialog-requested"]
    assert [plain(each.data)["dialog_id"] for each in again[1:]] == 2 * [plain(asked.data)["dialog_id"]]


def test_what_is_no_request_is_answered_as_the_protocol_says(editor: Editor) -> None:
    editor.write(b"\nnonsense)\n[1]\n")
    errors = [editor.next() for _ in range(3)]
    assert [(error.code, error.message) for error in errors] == [
        ("transport/invalid-frame", "empty frame"),
        ("transport/invalid-frame", "unable to parse EDN request frame"),
        ("protocol/invalid-envelope", "request frame must be an EDN map"),
    ]
    editor.ask("handshake")
    unknown = editor.ask("dance")
    assert (unknown.code, unknown.message) == ("request/op-not-supported", "unsupported op: dance")
    assert editor.close() == 0


def test_what_was_asked_before_the_end_of_the_input_is_answered(hosting: Hosting, project: Path) -> None:
    wire = rpc.ClientConnection()
    asked = wire.handshake("script", "1") + b'{:id "p" :kind :request :op "ping"}\n'
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "rpc"],
        env=hosting.environment,
        cwd=project,
        input=asked,
        capture_output=True,
        timeout=WAIT,
        check=True,
    )
    assert [line.split(b" ")[1] for line in done.stdout.splitlines()] == [b'"req-1",', b'"p",']
    assert done.stderr == b""


def short(value: Any) -> Any:
    """Without the namespaces of names."""
    if isinstance(value, dict):
        return {key.rpartition("/")[2]: short(inner) for key, inner in value.items()}
    return [short(each) for each in value] if isinstance(value, list) else value


def test_queries_are_answered_from_what_is_there(editor: Editor, project: Path) -> None:
    editor.ask("handshake")
    editor.ask("subscribe")
    editor.ask("prompt", message="read notes.txt")
    editor.idle()

    def query(text: str) -> Any:
        return short(editor.ask("query_eql", query=text))

    found = query(
        "[:psi.agent-session/phase :psi.agent-session/worktree-path :psi.agent-session/model-id"
        " :psi.agent-session/is-idle :psi.agent-session/git-branch]"
    )["result"]
    assert found == {
        "phase": "idle",
        "worktree_path": str(project),
        "model_id": "guide",
        "is_idle": True,
        "git_branch": None,
    }
    models = query("[:psi.agent-session/model-catalog :psi.agent-session/authenticated-providers]")["result"]
    assert {"provider": "offline", "id": "guide"}.items() <= models["model_catalog"][0].items()
    assert "offline" in models["authenticated_providers"]
    (listed,) = query(
        "[{:psi.session/list [:psi.session-info/path :psi.session-info/first-message"
        " :psi.session-info/worktree-path]}]"
    )["result"]["list"]
    assert listed["first_message"] == "read notes.txt"
    tools = query("[:psi.agent-session/tool-lifecycle-summaries]")["result"]["tool_lifecycle_summaries"]
    assert [(tool["tool_name"], tool["completed?"]) for tool in tools] == [("read", True)]
    assert query("[:psi.graph/resolver-count]")["result"]["resolver_count"] > 10
    assert query("[:psi.memory/entry-count]")["result"]["entry_count"] == 0
    for text, code in (
        ("nonsense)", "request/invalid-query"),
        ("{}", "request/invalid-query"),
        ("[:psi.no/such]", "runtime/query-failed"),
    ):
        assert query(text).code == code
    assert ":psi.no/such" in query("[:psi.no/such]").message


def test_what_is_remembered_is_recalled_by_every_session(editor: Editor) -> None:
    editor.ask("handshake")
    editor.ask("subscribe")
    assert editor.ask("remember", text="the roses like coffee", tags=["garden"]) == {"id": 1}
    editor.ask("command", text="/remember water the lawn #garden")
    editor.ask("new_session")
    (found,) = editor.ask("recall", text="coffee")["entries"]
    assert (found["text"], found["tags"]) == ("the roses like coffee", ["garden"])
    assert editor.ask("query_eql", query="[:psi.memory/entry-count]")["result"] == {
        "psi.memory/entry_count": 2
    }


def test_a_client_can_ask_what_there_is(editor: Editor) -> None:
    editor.ask("handshake")
    described = editor.ask("describe")
    assert described["ops"]["prompt"] == {"required": ["message"], "optional": ["images", "session-id"]}
    assert described["topics"]["assistant/delta"] == ["text", "session-id"]
    assert described["params"]["message"] == "non-empty string"
    assert "/model [provider id]" in [row["name"] for row in editor.ask("get_commands")["commands"]]
    assert editor.ask("get_messages", limit=5) == {"messages": [], "total": 0}


def test_a_command_of_an_agent_can_be_watched_while_it_runs(
    hosting: Hosting, editor: Editor, project: Path
) -> None:
    editor.ask("handshake")
    editor.ask("subscribe")
    os.mkfifo(project / "gate")
    editor.ask("prompt", message="run: echo began; read line < gate; echo got $line; exit 3")
    asked = editor.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-requested")
    editor.ask("resolve_dialog", dialog_id=plain(asked.data)["dialog_id"], result=True)
    hosting.until(lambda: any(name.startswith("agent-") for name in hosting.sessions()))
    (name,) = hosting.sessions()
    hosting.wait_text(name, "began")
    (project / "gate").write_text("through\n")
    result = editor.until(lambda frame: getattr(frame, "topic", "") == "tool/result")
    text = plain(result.data)["result_text"]
    assert "began\ngot through" in text
    assert "3" in text
    editor.idle()
    assert hosting.sessions() == {}


def test_a_command_that_a_dead_daemon_has_left_is_ended(hosting: Hosting, editor: Editor) -> None:
    editor.ask("handshake")
    editor.ask("subscribe")

    def run(command: str) -> None:
        editor.ask("prompt", message=f"run: {command}")
        asked = editor.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-requested")
        editor.ask("resolve_dialog", dialog_id=plain(asked.data)["dialog_id"], result=True)

    run("echo begun; sleep 600")
    editor.until(lambda frame: getattr(frame, "topic", "") == "tool/update")
    [left] = hosting.sessions().values()
    hosting.kill_daemon()
    hosting.until(lambda: not hosting.sessions())
    assert not is_alive(left["pid"])
    editor.ask("ping")
    run("echo again")
    result = editor.until(lambda frame: getattr(frame, "topic", "") == "tool/result")
    assert "again" in plain(result.data)["result_text"]


def test_an_abort_ends_a_command_and_its_children(hosting: Hosting, editor: Editor, project: Path) -> None:
    editor.ask("handshake")
    editor.ask("subscribe")
    editor.ask(
        "prompt", message="run: trap '' TERM; sleep 300 & echo $! > child; echo began; wait; sleep 300"
    )
    asked = editor.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-requested")
    editor.ask("resolve_dialog", dialog_id=plain(asked.data)["dialog_id"], result=True)
    hosting.until(lambda: (project / "child").exists() and (project / "child").read_text().strip() != "")
    child = int((project / "child").read_text())
    editor.ask("abort")
    editor.idle()
    hosting.until(lambda: not is_alive(child))
    assert hosting.sessions() == {}


def test_a_person_runs_a_command_that_the_model_sees_and_exports_the_conversation(
    editor: Editor, project: Path
) -> None:
    editor.ask("handshake")
    editor.ask("subscribe")
    ran = editor.ask("bash", command="cat notes.txt; exit 4")
    assert ran["output"].startswith("buy milk")
    assert ran["is_error"] is True
    editor.ask("prompt", message="read notes.txt")
    editor.idle()
    exported = editor.ask("export_html", path="talk.html")["path"]
    page = (project / "talk.html").read_text()
    assert exported == str(project / "talk.html")
    assert page.startswith("<!doctype html>")
    assert "buy milk" in page
    again = editor.ask("export_html", path="talk.html")
    assert (again.code, again.message) == ("runtime/failed", f"can't write {exported}: File exists")
    assert editor.ask("export_html")["path"].endswith(".html")


def test_a_persons_command_can_be_aborted(hosting: Hosting, editor: Editor) -> None:
    editor.ask("handshake")
    editor.ask("subscribe")
    editor.write(b'{:id "b" :kind :request :op "bash" :params {:command "echo began; sleep 300"}}\n')
    hosting.until(lambda: any(name.startswith("agent-") for name in hosting.sessions()))
    (name,) = hosting.sessions()
    hosting.wait_text(name, "began")
    busy = editor.ask("prompt", message="hi")
    assert busy.code == "request/session-not-idle"
    assert editor.ask("abort_bash") == {"accepted": True}
    hosting.until(lambda: hosting.sessions() == {})
