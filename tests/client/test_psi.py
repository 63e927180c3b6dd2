"""What psi's UI relies on, over the standard input and output of real `fairlead rpc` processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.calls import plain
from fairlead.formats import edn
from fairlead.formats.edn import Keyword
from fairlead.wire import rpc
from tests.agent.playing import cassette, says
from tests.client.editors import Editor
from tests.hosting import WAIT, Hosting

CONFIG = '[agent]\nmodel = "offline/replay"\ncassette = "{tape}"\ncassette_timing = true\n'
HELD: list[dict[str, Any]] = [
    {"event": "text", "text": "half an "},
    {"event": "text", "text": "answer"},
    {"event": "finished", "at": 60.0, "stop_reason": "stop", "usage": {}},
]


@pytest.fixture
def tape(hosting: Hosting, tmp_path: Path) -> Path:
    """What the model says, if it is not the offline guide."""
    path = tmp_path / "tape.jsonl"
    config = Path(hosting.environment["HOME"], ".config/fairlead/config.toml")
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG.format(tape=path))
    return path


class Editors:
    """Editors in directories, each with a backend of its own."""

    def __init__(self, hosting: Hosting, place: Path) -> None:
        self._hosting = hosting
        self._place = place
        self._open: list[Editor] = []

    def __call__(self, name: str) -> Editor:
        """One that has done what psi's UI does first."""
        directory = self._place / name
        directory.mkdir(exist_ok=True)
        editor = Editor(self._hosting, directory)
        self._open.append(editor)
        editor.ask("handshake")
        editor.ask("subscribe")
        return editor

    def close(self) -> None:
        for editor in self._open:
            editor.backend.kill()
            editor.backend.wait()
            for pipe in (editor.backend.stdin, editor.backend.stdout):
                if pipe is not None:
                    pipe.close()


@pytest.fixture
def editors(hosting: Hosting, tmp_path: Path) -> Iterator[Editors]:
    opened = Editors(hosting, tmp_path)
    yield opened
    opened.close()


def told(editor: Editor, *topics: str) -> list[dict[str, Any]]:
    """The data of all events of some topics that came."""
    return [
        plain(frame.data)
        for frame in editor.frames
        if isinstance(frame, rpc.Event) and (frame.topic in topics or not topics)
    ]


def event(editor: Editor, topic: str, **wanted: Any) -> dict[str, Any]:
    """The next event of a topic with these values."""
    frame = editor.until(
        lambda frame: (
            isinstance(frame, rpc.Event)
            and frame.topic == topic
            and wanted.items() <= plain(frame.data).items()
        )
    )
    data: dict[str, Any] = plain(frame.data)
    return data


def state(editor: Editor) -> dict[str, Any]:
    found: dict[str, Any] = editor.ask("get_state")["state"]
    return found


# --- a connection belongs to its directory ------------------------------------------------------------------


def test_an_editor_in_another_project_has_a_session_of_its_own(editors: Editors, tmp_path: Path) -> None:
    garden, kitchen = editors("garden"), editors("kitchen")
    ids = [state(each)["session_id"] for each in (garden, kitchen)]
    assert ids[0] != ids[1]
    assert state(kitchen)["worktree_path"] == str(tmp_path / "kitchen")
    garden.ask("prompt", message="run: echo hi")
    event(garden, "ui/dialog-requested")
    kitchen.ask("ping")
    kitchen.ask("command", text="/tree")
    rows = kitchen.ask("list_sessions")["sessions"]
    assert [row["session_id"] for row in rows] == [ids[1]]
    assert f"Session not found in context: {ids[0]}" in str(results(kitchen, f"/tree {ids[0]}"))
    kitchen.ask("command", text="/resume")
    heard = str([frame.data for frame in kitchen.frames if isinstance(frame, rpc.Event)])
    assert ids[0] not in heard.replace(f"Session not found in context: {ids[0]}", "")
    assert told(kitchen, "ui/dialog-requested", "tool/start", "assistant/delta") == []
    (waiting,) = kitchen.ask("approvals")["approvals"]  # which it has to ask for, and which says whose it is
    assert (waiting["project"], waiting["session_id"]) == (str(tmp_path / "garden"), ids[0])
    assert kitchen.ask("approval_settle", token=waiting["token"], allowed=True)["accepted"]
    event(garden, "tool/executing")
    assert state(kitchen)["session_id"] == ids[1]


def results(editor: Editor, text: str) -> list[dict[str, Any]]:
    before = len(editor.frames)
    editor.ask("command", text=text)
    return [
        plain(frame.data)
        for frame in editor.frames[before:]
        if isinstance(frame, rpc.Event) and frame.topic == "command-result"
    ]


def test_the_last_session_of_a_directory_is_there_again_also_after_a_restart(
    hosting: Hosting, editors: Editors
) -> None:
    first = editors("garden")
    first.ask("new_session")
    first.ask("prompt", message="help")
    first.idle()
    id = state(first)["session_id"]
    editors("kitchen").ask("prompt", message="help")
    hosting.kill_daemon()
    again = editors("garden")
    assert again.ask("handshake")["server_info"]["session_id"] == id
    assert [each["role"] for each in again.ask("get_messages")["messages"]] == ["user", "assistant"]
    first.until(lambda frame: isinstance(frame, rpc.Event) and frame.topic == "context/updated")
    assert {row["id"] for row in told(first, "context/updated")[-1]["sessions"]} >= {id}


def test_an_editor_that_connects_again_has_the_session_that_it_had_in_focus(
    hosting: Hosting, editors: Editors
) -> None:
    editor = editors("garden")
    first = state(editor)["session_id"]
    editor.ask("new_session")
    editor.ask("prompt", message="help")  # the other one is used last
    editor.idle()
    editor.ask("switch_session", session_id=first)
    editor.backend.kill()
    hosting.run("daemon", "stop")
    again = editors("garden")
    assert state(again)["session_id"] == first
    kept = list(Path(hosting.environment["XDG_RUNTIME_DIR"], "fairlead/editors").iterdir())
    assert [each.read_text() for each in kept] == [first]


def test_a_session_made_beside_is_in_the_tree_of_the_same_directory(editors: Editors) -> None:
    one, other = editors("garden"), editors("garden")
    made = one.ask("new_session", name="roses")["session_id"]
    seen = other.until(
        lambda frame: (
            isinstance(frame, rpc.Event)
            and frame.topic == "context/updated"
            and made in edn.dumps(frame.data[Keyword("sessions")])
        )
    )
    widget = plain(seen.data)["session_tree_widget"]
    assert (widget["extension_id"], widget["widget_id"]) == ("psi-session", "session-tree")
    line = next(line for line in widget["content_lines"] if made[:8] in line["text"])
    clock = r"\d\d:\d\d"
    assert re.fullmatch(
        rf"(roses|\(session {made[:8]}\)) \[{made[:8]}\] — {clock} / {clock} — \S*/garden \[waiting\]",
        line["text"],
    )
    assert line["action"] == {"type": "command", "command": f"/tree {made}"}
    (bucket,) = told(one, "footer/updated")[-1]["session_activity_buckets"]
    assert (bucket["state"], bucket["labels"][-1]) == ("waiting", "roses")


# --- lines --------------------------------------------------------------------------------------------------


def requests(count: int) -> bytes:
    info = rpc.fields(name="x", version="1", protocol_version="1.0")
    asked = [rpc.Request("h", "handshake", rpc.fields(client_info=info))]
    asked += [rpc.Request(f"r{number}", "get_state") for number in range(count)]
    return b"".join(map(rpc.encode, asked))


@pytest.mark.parametrize("words", [(), ("--standalone",)], ids=["daemon", "standalone"])
def test_many_quick_requests_at_once_are_answered_one_after_the_other(
    hosting: Hosting, tmp_path: Path, words: tuple[str, ...]
) -> None:
    whole = requests(200).removesuffix(b"\n")  # the last line counts also without its end
    done = subprocess.run(
        [*hosting.command, "rpc", *words],
        env=hosting.environment,
        cwd=tmp_path,
        input=whole,
        capture_output=True,
        timeout=WAIT,
        check=True,
    )
    frames = [edn.loads(line) for line in done.stdout.splitlines()]
    answers = [frame for frame in frames if frame[Keyword("kind")] is not Keyword("event")]
    assert [frame[Keyword("id")] for frame in answers] == ["h", *(f"r{number}" for number in range(200))]
    assert all(frame[Keyword("kind")] is Keyword("response") for frame in answers)


# --- turns --------------------------------------------------------------------------------------------------


def test_a_turn_that_died_with_the_daemon_ends_with_what_was_said(
    hosting: Hosting, tape: Path, editors: Editors
) -> None:
    cassette(tape, HELD)
    editor = editors("garden")
    editor.ask("prompt", message="hi")
    event(editor, "assistant/delta", text="half an answer")
    hosting.kill_daemon()
    ended = event(editor, "assistant/message")
    lost = "interrupted: the daemon ended before the turn did"
    assert (ended["stop_reason"], ended["error_message"]) == ("error", lost)
    assert ended["text"] == f"half an answer\n[error] {lost}"
    _, said = editor.ask("get_messages")["messages"]
    assert said["text"] == ended["text"]
    assert state(editor)["phase"] == "idle"


def test_a_turn_that_dies_with_the_daemon_ends_visibly_whenever_that_is(
    hosting: Hosting, tape: Path, editors: Editors
) -> None:
    silent: list[dict[str, Any]] = [{"event": "text", "at": 60.0, "text": "too late"}, HELD[-1]]
    call = {"event": "called", "id": "c1", "name": "bash", "arguments": {"command": "sleep 60"}}
    asks: list[dict[str, Any]] = [call, {"event": "finished", "stop_reason": "toolUse", "usage": {}}]
    lost = "interrupted: the daemon ended before the turn did"
    lock = Path(hosting.environment["XDG_RUNTIME_DIR"], "fairlead/daemon.lock")

    def died(editor: Editor, said: str) -> None:
        os.kill(int(lock.read_text()), signal.SIGKILL)
        ended = event(editor, "assistant/message", session_id=state_id)
        assert ended["text"] == f"{said}[error] {lost}"
        assert told(editor, "session/updated")[-1]["phase"] == "idle"

    cassette(tape, silent)
    editor = editors("garden")
    state_id = state(editor)["session_id"]
    editor.ask("prompt", message="the first ever")  # accepted, and nothing more
    died(editor, "")
    for op, params in (
        ("new_session", {}),
        ("command", {"text": "/new"}),
        ("switch_session", {"session_id": state_id}),
    ):
        editor.ask(op, **params)
        state_id = state(editor)["session_id"]
        cassette(tape, *([silent] * 4))
        editor.ask("prompt", message="the first here")
        died(editor, "")
    editor.ask("command", text="/new")
    state_id = state(editor)["session_id"]
    cassette(tape, HELD)
    editor.ask("prompt", message="the first with an answer")
    event(editor, "assistant/delta", text="half an answer")
    died(editor, "half an answer\n")
    editor.ask("command", text="/new")
    state_id = state(editor)["session_id"]
    cassette(tape, asks)
    editor.ask("prompt", message="the first with a tool")
    dialog = event(editor, "ui/dialog-requested")["dialog_id"]
    editor.ask("resolve_dialog", dialog_id=dialog, result=True)
    event(editor, "tool/executing")
    died(editor, "")
    (result,) = [each for each in told(editor, "tool/result") if each["session_id"] == state_id]
    assert result["is_error"]


def test_what_an_abort_drops_is_given_back_and_the_text_is_not_told_again(
    tape: Path, editors: Editors
) -> None:
    cassette(tape, HELD, says("then this"))
    editor, other = editors("garden"), editors("garden")
    editor.ask("prompt", message="hi")
    event(editor, "assistant/delta", text="half an answer")
    editor.ask("steer", message="go left")
    editor.ask("follow_up", message="and then?")
    assert editor.ask("abort") == {"accepted": True, "dropped_steering_text": "go left"}
    (note,) = told(editor, "ui/notification")
    assert (note["level"], note["message"]) == ("warning", "Not sent, because the turn was aborted: go left")
    hi = event(other, "assistant/message")
    assert (hi["role"], hi["text"]) == ("user", "hi")  # typed elsewhere
    mine, theirs = event(editor, "assistant/message"), event(other, "assistant/message")
    assert mine["text"] == "[error] Aborted"  # it has the text, and ends the line
    assert theirs["text"] == "half an answer\n[error] Aborted"
    assert event(editor, "assistant/message")["text"] == "then this"  # which waited for its turn


def test_what_is_said_elsewhere_is_shown_and_what_was_typed_here_is_not_shown_again(
    hosting: Hosting, editors: Editors
) -> None:
    editor = editors("garden")
    editor.ask("prompt", message="help")
    assert event(editor, "assistant/message")["role"] == "assistant"
    editor.idle()
    hosting.run("send", state(editor)["session_id"], "what can you do")
    said = event(editor, "assistant/message")
    assert (said["role"], said["text"]) == ("user", "what can you do")
    assert event(editor, "assistant/message")["role"] == "assistant"


def test_an_editor_is_asked_one_thing_at_a_time_and_again_what_it_may_have_lost(
    hosting: Hosting, editors: Editors
) -> None:
    topic = "ui/dialog-requested"

    def asked() -> list[str]:
        editor.ask("ping")  # what came before the answer is here
        return [each["summary"] for each in told(editor, topic)]

    def waiting(count: int) -> None:
        hosting.until(lambda: hosting.run("approvals").stdout.count("    asked ") == count)

    editor = editors("garden")
    editor.ask("subscribe", topics=["ui/dialog-requested", "ui/notification", "footer/updated"])
    editor.ask("prompt", message="run: echo one")
    first = event(editor, topic)["dialog_id"]
    beside = editors("garden")
    beside.ask("new_session")
    beside.ask("prompt", message="run: echo two")
    event(editor, "footer/updated", status_line="1 waiting for consent, 1 in another session")
    assert asked() == ["$ echo one"]
    hosting.kill_daemon()
    waiting(2)
    assert asked() == ["$ echo one"]  # it has that already
    editor.ask("command", text="/status")
    assert event(editor, topic)["dialog_id"] == first
    hosting.run("approvals", "deny", first)
    assert asked() == 2 * ["$ echo one"]  # it is still being asked, and can't know
    assert editor.ask("resolve_dialog", dialog_id=first, result=True) == {"accepted": False}
    second = event(editor, topic)
    assert second["summary"] == "$ echo two"
    assert editor.ask("resolve_dialog", dialog_id=second["dialog_id"], result="allow") == {"accepted": True}
    waiting(0)


def test_an_editors_footer_has_the_verdict_when_it_is_there(hosting: Hosting, editors: Editors) -> None:
    editor = editors("garden")
    editor.ask("prompt", message="help")
    editor.idle()
    hosting.run("verify", "--once", state(editor)["session_id"], "--", "true", check=False)
    verdict = event(editor, "session/updated", phase="idle")["verdict"]
    assert (verdict["turn"], verdict["stale"]) == (1, False)
    assert "turn 1: " in event(editor, "footer/updated")["status_line"]


def test_a_question_waits_until_an_editors_person_has_chosen(hosting: Hosting, editors: Editors) -> None:
    editor = editors("garden")
    id = editor.send("command", text="/thinking")
    event(editor, "ui/frontend-action-requested")
    hosting.run("send", state(editor)["session_id"], "run: echo one")
    event(editor, "session/updated", pending_approvals=1)
    assert told(editor, "ui/dialog-requested") == []
    editor.ask(
        "frontend_action_result",
        request_id=id,
        action_name="select-thinking-level",
        status="cancelled",
    )
    assert event(editor, "ui/dialog-requested")["summary"] == "$ echo one"


def test_what_a_model_and_a_tool_say_hides_nothing_in_an_editor(editors: Editors, tmp_path: Path) -> None:
    editor = editors("garden")
    (tmp_path / "garden" / "odd").write_text("a \x1b[31mred\x1b[0m \x1b]0;title\x07\u202eword\n")
    editor.ask("prompt", message="read odd")
    row = event(editor, "tool/result")
    assert row["result_text"] == "a \x1b[31mred\x1b[0m ·word\n"  # it shows colours
    assert "\u202eword" in row["content"][0]["text"]
    said = event(editor, "assistant/message")["text"]
    assert "a ·[31mred·[0m ·]0;title··word" in said
    assert all(said.startswith(each["text"]) for each in told(editor, "assistant/delta")[-1:])
    editor.idle()
    messages = editor.ask("get_messages")["messages"]
    assert "\u202e" not in "".join(each["text"] for each in messages)
    editor.ask("prompt", message="read \u202eodd")
    assert event(editor, "tool/executing")["parsed_args"] == {"path": "·odd"}


def test_a_tool_has_an_id_of_its_own_and_a_turn_has_one_message(
    hosting: Hosting, tape: Path, editors: Editors, tmp_path: Path
) -> None:
    used = {"stop_reason": "toolUse", "usage": {}}
    read: list[dict[str, Any]] = [
        {"event": "text", "text": "I look"},
        {"event": "called", "id": "c1", "name": "ls", "arguments": {"path": "."}},
        {"event": "finished", **used},
    ]
    cassette(tape, read, read, says("done"))
    editor = editors("garden")
    editor.ask("prompt", message="hi")
    editor.idle()
    shown = [
        (frame.topic, plain(frame.data).get("tool_id") or plain(frame.data).get("text"))
        for frame in editor.frames
        if isinstance(frame, rpc.Event) and frame.topic.startswith(("tool/", "assistant/"))
    ]
    call = [("tool/start", "c1"), ("tool/delta", "c1"), ("tool/executing", "c1"), ("tool/result", "c1")]
    text = [("assistant/delta", "I look")]
    again = [(topic, "c1+") for topic, _ in call]
    last = [("assistant/delta", "done"), ("assistant/message", "done")]
    shown = [each for each in shown if each != ("assistant/delta", "do")]  # if it had the time
    assert shown == [*text, *call, *text, *again, *last]


def test_a_call_that_runs_is_a_job_and_the_turns_phase_tells_of_it(editors: Editors, tmp_path: Path) -> None:
    (tmp_path / "garden").mkdir()
    os.mkfifo(tmp_path / "garden" / "gate")
    editor = editors("garden")
    editor.ask("prompt", message="run: read line < gate")
    asked = event(editor, "ui/dialog-requested")
    editor.ask("resolve_dialog", dialog_id=asked["dialog_id"], result=True)
    running = event(editor, "tool/executing")["tool_id"]
    jobs = editor.ask("list_background_jobs", statuses=["running"])["jobs"]
    assert [job["summary"]["list_line"] for job in jobs] == [f"{running}  [running]  bash"]
    turn = editor.ask("query_eql", query="[:psi.turn/phase :psi.turn/tool-call-count]")["result"]
    assert turn == {"psi.turn/phase": "tool-accumulating", "psi.turn/tool_call_count": 1}
    (tmp_path / "garden" / "gate").write_text("through\n")
    editor.idle()
