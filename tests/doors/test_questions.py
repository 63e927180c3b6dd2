"""What waits for a person, in every door of a real daemon: all of it is shown, and nothing loses it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent import events
from fairlead.agent.session import Decision
from fairlead.agent.tools import Touch
from fairlead.client.calls import plain
from fairlead.client.sdk import Host
from fairlead.events import ApprovalWanted
from fairlead.system.settings import Settings
from fairlead.wire import rpc
from tests.agent.playing import AllowAll, AskBeforeWriting, Note, Playing, calls, cassette, replay, says
from tests.client.editors import Editor
from tests.client.persons import Person
from tests.doors.attacks import HIDDEN, INVISIBLE, PADDED
from tests.doors.passepartout_peer import Peer, kill_and_wait
from tests.doors.test_agents import served, serving
from tests.doors.test_control_survival import Receiver
from tests.hosting import WAIT, Hosting


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "tape.jsonl"


@pytest.fixture
def hosting(tmp_path: Path, tape: Path, receiver: Receiver) -> Iterator[Hosting]:
    config = tmp_path / "config.toml"
    config.write_text(
        f'[agent]\nmodel = "offline/replay"\ncassette = "{tape}"\n'
        f'[notify]\nurls = ["{receiver.url}"]\n'
        '[[control.rules]]\nsensor = "approval-required"\n'
        'then = { actuator = "notify", title = "{title}", text = "{text}" }\n'
    )
    hosting = Hosting({"FAIRLEAD_CONFIG": str(config), "FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    yield hosting
    hosting.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


def asks(hosting: Hosting, tape: Path, project: Path, command: str, name: str = "garden") -> str:
    """An agent asks to run a command; gives the token."""
    cassette(tape, calls(("c1", "bash", {"command": command})), says("done"))
    known = {row["token"] for row in hosting.ask("approvals")["approvals"]}
    session = hosting.ask("open_session", name=name, cwd=str(project))["session_id"]
    hosting.ask("prompt", session_id=session, message="do it")
    hosting.until(lambda: len(hosting.ask("approvals")["approvals"]) > len(known))
    (token,) = {row["token"] for row in hosting.ask("approvals")["approvals"]} - known
    return str(token)


def state(hosting: Hosting, name: str = "garden") -> dict[str, Any]:
    session = hosting.ask("open_session", name=name)["session_id"]
    found: dict[str, Any] = hosting.ask("get_state", session_id=session)["state"]
    return found


def is_dialog(frame: Any) -> bool:
    return isinstance(frame, rpc.Event) and frame.topic == "ui/dialog-requested"


# --- all of it is shown -----------------------------------------------------------------------------------


def test_every_door_shows_all_of_what_will_happen(
    hosting: Hosting, tape: Path, project: Path, receiver: Receiver
) -> None:
    pytest.importorskip("apprise")
    hosting.run("ls")
    every_trick = "\n".join(PADDED.values())
    for number, (what, command) in enumerate([("many lines", PADDED["many lines"]), ("all", every_trick)]):
        name = f"garden{number}"
        with Peer(hosting=hosting) as lisp:
            token = asks(hosting, tape, project, command, name)
            pushed = lisp.sensed("APPROVAL-REQUIRED")
            shown = {
                "approvals": hosting.run("approvals").stdout,
                "approvals show": hosting.run("approvals", "show", token).stdout,
                "talk": hosting.run("talk", "/approvals").stdout,
                "pushed": pushed.get("payload", "text"),
                "pushed line": pushed.get("payload", "summary"),
            }
        editor = Editor(hosting, project)
        editor.ask("handshake")
        editor.send("subscribe")
        dialog = plain(editor.until(is_dialog).data)
        shown |= {"dialog": dialog["message"], "dialog line": dialog["summary"]}
        assert editor.close() == 0
        with Person(hosting, "agent", name, rows=100, cols=100) as person:
            person.until("y yes")
            shown["chat"] = person.text
        hosting.until(lambda: bool(receiver.got))
        shown["notification"] = receiver.messages[-1]
        receiver.got.clear()
        for door, text in shown.items():
            assert HIDDEN in text, (what, door, text)
            assert not set(INVISIBLE) & set(text), (what, door, text)
            if "line" not in door:
                assert f"session {name} (" in text, (what, door, text)
                assert str(project) in text.replace("\n", ""), (what, door, text)
                if what == "many lines" and door != "dialog":  # a minibuffer has no room for them
                    assert "echo 15" in text, (door, text)
                    assert ("characters are hidden here: `fairlead" in text) == (door != "approvals show")
        [row] = json.loads(hosting.run("approvals", "--json").stdout)
        assert (row["preview"], row["project"], row["session_name"]) == (command, str(project), name)
        assert f"`fairlead approvals allow {token}`, or " in hosting.run("approvals").stdout
        denied = hosting.run("approvals", "deny", token).stdout
        assert denied.startswith(f"denied {token}: bash: $ ")
        assert HIDDEN in denied


def test_what_is_too_long_is_left_out_of_the_middle_and_can_be_seen(
    hosting: Hosting, tape: Path, project: Path
) -> None:
    lines = [f"echo {number}" for number in range(300)]
    token = asks(hosting, tape, project, "\n".join(lines))
    listed = hosting.run("approvals").stdout
    assert "echo 19\n" in listed
    assert (
        f"[260 lines, 2261 characters are hidden here: `fairlead approvals show {token}` shows all]" in listed
    )
    assert "echo 20\n" not in listed
    assert "echo 299\n" in listed
    whole = hosting.run("approvals", "show", token[:5]).stdout
    assert [line.strip() for line in whole.splitlines()[-300:]] == lines
    missing = hosting.run("approvals", "show", "nothing", check=False)
    assert (missing.returncode, "no question 'nothing' is pending" in missing.stderr) == (1, True)
    big = "x" * 200_000 + "\n" + "y" * 200_000
    cassette(tape, calls(("c1", "write", {"path": "big.txt", "content": big})), says("done"))
    other = hosting.ask("open_session", name="other", cwd=str(project))["session_id"]
    hosting.ask("prompt", session_id=other, message="write")
    hosting.until(lambda: len(hosting.ask("approvals")["approvals"]) == 2)
    preview = hosting.ask("approvals")["approvals"][1]["preview"]
    assert preview.startswith("x")
    assert preview.endswith("y")
    path = hosting.ask("get_state", session_id=other)["state"]["session_file"]
    assert f" characters are hidden here: the line with c1 in {path} has all]" in preview
    assert big[:200_000] in Path(path).read_text()


# --- one question, one answer -----------------------------------------------------------------------------


def test_consent_does_not_need_the_database_of_control(hosting: Hosting, tape: Path, project: Path) -> None:
    config = Path(hosting.environment["FAIRLEAD_CONFIG"])
    config.write_text(config.read_text().partition("[notify]")[0])
    hosting.run("ls")
    database = f"{Settings(hosting.environment).state_dir}/control.db"
    holds = (
        "import sqlite3, sys\n"
        "database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "database.execute('BEGIN EXCLUSIVE')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    assert sqlite3.connect(database).execute("SELECT count(*) FROM approvals").fetchone() == (0,)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", holds, database], stdin=pipe, stdout=pipe, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            token = asks(hosting, tape, project, "touch made")
            assert token in hosting.run("approvals").stdout
            editor = Editor(hosting, project)
            editor.ask("handshake")
            editor.send("subscribe")
            assert plain(editor.until(is_dialog).data)["dialog_id"] == token
            assert hosting.run("approvals", "allow", token).stdout.startswith(
                f"allowed {token}: bash: $ touch made"
            )
            hosting.until((project / "made").exists)
            assert editor.close() == 0
        finally:
            holder.stdin.close()


def test_whoever_is_second_is_told_who_answered_what(hosting: Hosting, tape: Path, project: Path) -> None:
    token = asks(hosting, tape, project, "touch made")
    editor = Editor(hosting, project)
    editor.ask("handshake")
    editor.ask("subscribe")
    with Peer(hosting=hosting) as lisp:
        said = lisp.ask(f"/deny {token}")
        assert said.startswith(f"denied {token}: bash $ touch made (session garden (")
        late = hosting.run("approvals", "allow", token, check=False)
        assert f"{token} was answered already: denied by tui at 20" in late.stderr
        assert editor.ask("resolve_dialog", dialog_id=token, result=True) == {"accepted": False}
        (note,) = (frame for frame in editor.frames if getattr(frame, "topic", "") == "ui/notification")
        assert f"{token} was answered already: denied by tui at 20" in plain(note.data)["message"]
        kill_and_wait(hosting)
    late = hosting.run("approvals", "allow", token, check=False)
    assert f"{token} was answered already: denied by tui at 20" in late.stderr
    assert not (project / "made").exists()
    editor.close()


def test_an_agent_that_allows_its_own_calls_allows_nothing_of_the_daemon(
    hosting: Hosting, tape: Path, project: Path
) -> None:
    (project / "kept").touch()
    own = [("c1", "bash", {"command": "touch made"}), ("c2", "bash", {"command": "touch more"})]
    cassette(tape, calls(*own), says("done"))
    hosting.run("ls")
    seen = []
    with Peer(hosting=hosting) as lisp, Host(Settings(hosting.environment)) as host:

        def decide(wanted: ApprovalWanted) -> bool:
            seen.append(wanted.summary)
            if len(seen) == 1:
                lisp.ask(f"/run rm {project}/kept")
            return True

        assert host.agent(cwd=str(project)).ask("do it", approve=decide, timeout=WAIT) == "done"
    assert seen == ["$ touch made", "$ touch more"]
    assert (project / "more").exists()
    [row] = hosting.ask("approvals")["approvals"]
    assert row["summary"] == f"rm {project}/kept"
    assert (project / "kept").exists()


@served
async def test_a_client_is_asked_about_its_own_project(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("done"))
    for directory in ("garden", "other"):
        (tmp_path / directory).mkdir()
    async with serving(tmp_path, model) as host:

        async def client(project: str | None) -> Any:
            known = set(host.clients())
            made = await host.client(subscribed=False)
            (caller,) = set(host.clients()) - known
            caller.project = project and str(tmp_path / project)
            return made

        clients = {name: await client(name) for name in ("garden", "other", None)}
        own = {}
        for name, each in clients.items():
            own[name] = await each.ask("open_session", cwd=str(tmp_path / (name or "")))
            await each.ask("subscribe", topics=["ui/dialog-requested"])
        await clients["garden"].ask("prompt", message="note milk")
        asked = {}
        for name in ("garden", None):
            asked[name] = await clients[name].until("ui/dialog-requested")
            assert asked[name]["project"] == str(tmp_path / "garden")
            assert asked[name]["session_id"] == own["garden"]["session_id"]
        late = {name: await client(name) for name in ("garden", "other", None)}
        for name, each in late.items():
            await each.ask("open_session", cwd=str(tmp_path / (name or "")))
            await each.ask("subscribe", topics=["ui/dialog-requested"])
        for each in (*clients.values(), *late.values()):
            await each.ask("ping")
        assert "ui/dialog-requested" in late["garden"].topics()
        assert "ui/dialog-requested" in late[None].topics()
        for each in (clients["other"], late["other"]):
            assert "ui/dialog-requested" not in each.topics()
        # who looks at the session is asked, wherever it comes from
        await clients["other"].ask("switch_session", session_id=own["garden"]["session_id"])
        await clients["other"].ask("subscribe", topics=["ui/dialog-requested"])
        assert "ui/dialog-requested" in clients["other"].topics()
        await clients["garden"].ask("resolve_dialog", dialog_id=asked["garden"]["dialog_id"], result=False)
        await host.store.find(own["garden"]["session_id"]).idle()


# --- it survives everything -------------------------------------------------------------------------------


def test_a_session_still_waits_after_a_restart_and_takes_no_other_prompt(
    hosting: Hosting, tape: Path, project: Path
) -> None:
    token = asks(hosting, tape, project, "touch made")
    kill_and_wait(hosting)
    now = state(hosting)
    assert (now["phase"], now["pending_approvals"], now["was_interrupted"]) == ("streaming", 1, False)
    assert "[waits for consent]" in hosting.run("sessions").stdout
    assert json.loads(hosting.run("sessions", "--json").stdout)[0]["waits"] is True
    assert "1 approval is pending: `fairlead approvals`" in hosting.run("ls").stderr
    assert "asks, 1 approval pending" in hosting.run("talk", "/status").stdout
    editor = Editor(hosting, project)
    editor.ask("handshake")
    editor.ask("subscribe")
    refused = editor.ask("prompt", session_id=now["session_id"], message="something else")
    assert isinstance(refused, rpc.Error)
    assert refused.code == "request/session-not-idle"
    assert f"it waits for an answer to {token} ($ touch made); answer it, or abort" in refused.message
    cassette(tape, says(""), says("after it"), says("and more"))
    editor.ask("follow_up", session_id=now["session_id"], message="and then this")
    assert [row["token"] for row in hosting.ask("approvals")["approvals"]] == [token]
    hosting.run("approvals", "allow", token)
    hosting.until((project / "made").exists)
    editor.idle()
    said = hosting.ask("get_messages", session_id=now["session_id"])["messages"]
    texts = [each.get("text") for each in said if each["role"] != "toolResult"]
    assert texts == ["do it", "", "after it", "and then this", "and more"]
    assert "[waits for consent]" not in hosting.run("sessions").stdout
    editor.close()


def test_an_abort_withdraws_the_question_for_everybody_to_see(
    hosting: Hosting, tape: Path, project: Path
) -> None:
    token = asks(hosting, tape, project, "touch made")
    kill_and_wait(hosting)
    session = state(hosting)["session_id"]
    editor = Editor(hosting, project)
    editor.ask("handshake")
    editor.ask("subscribe", topics=["ui/dialog-resolved"])
    hosting.ask("abort", session_id=session)
    resolved = plain(editor.until(lambda frame: getattr(frame, "topic", "") == "ui/dialog-resolved").data)
    assert (resolved["dialog_id"], resolved["allowed"], resolved["by"]) == (token, False, "abort")
    late = hosting.run("approvals", "allow", token, check=False)
    assert f"{token} was withdrawn at " in late.stderr
    assert ": abort ($ touch made)" in late.stderr
    assert not (project / "made").exists()
    editor.close()


def test_a_question_whose_session_is_gone_is_shown_as_lost(
    hosting: Hosting, tape: Path, project: Path
) -> None:
    token = asks(hosting, tape, project, f"echo a\n{HIDDEN}")
    journal = state(hosting)["session_file"]
    os.unlink(journal)
    kill_and_wait(hosting)
    listed = hosting.run("approvals").stdout
    assert f"{token}  bash: $ echo a ⏎ {HIDDEN}" in listed
    assert "lost   the journal of the session that asked is gone; `fairlead approvals dismiss" in listed
    assert "lost: the journal of the session that asked is gone" in hosting.run("talk", "/approvals").stdout
    assert "none pending, 1 lost" in hosting.run("doctor", check=False).stdout
    editor = Editor(hosting, project)
    editor.ask("handshake")
    editor.ask("subscribe")
    assert not any(map(is_dialog, editor.frames))
    kill_and_wait(hosting)  # it is remembered
    assert hosting.run("approvals", "deny", token).stdout.startswith(f"dismissed lost approval {token}: bash")
    assert hosting.ask("approvals")["approvals"] == []
    editor.close()


def test_a_question_of_a_session_that_is_not_loaded_is_listed_and_answered(
    hosting: Hosting, tape: Path, project: Path
) -> None:
    token = asks(hosting, tape, project, "touch made")
    journal = state(hosting)["session_file"]
    hosting.ask("daemon_stop")
    holds = (
        "import fcntl, sys\nfile = open(sys.argv[1])\nfcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\nsys.stdin.read()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", holds, journal], stdin=pipe, stdout=pipe, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            assert f"{token}  bash: $ touch made" in hosting.run("approvals").stdout
            early = hosting.run("approvals", "allow", token, check=False)
            assert (early.returncode, "can't save the answer" in early.stderr) == (1, True)
        finally:
            holder.stdin.close()
    hosting.run("approvals", "allow", token)
    hosting.until((project / "made").exists)


@served
async def test_a_fork_does_not_ask_what_its_parent_waits_for(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("done"))
    async with serving(tmp_path, model) as host:
        client = await host.client()
        await client.ask("prompt", message="note milk")
        asked = await client.until("ui/dialog-requested")
        parent = host.store.find(asked["session_id"])
        parent.set_name("parent")
        last = parent.journal.entries[-1]
        fork = await host.store.fork(parent, last.id)
        assert not fork.approvals
        assert fork.is_idle
        assert [each.session for each in host.store.inbox.open()] == [parent.id]
        await client.ask("resolve_dialog", dialog_id=asked["dialog_id"], result=True)
        await parent.idle()
        assert (tmp_path / "notes").read_text() == "milk\n"


@served
async def test_a_rule_that_was_changed_meanwhile_denies_but_does_not_consent(tmp_path: Path) -> None:
    class DenyAll(AllowAll):
        def judge(self, tool: str, touch: Touch) -> Decision:
            return Decision("deny", "a rule says so")

    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("done"))
    tools = [Note(tmp_path / "notes")]
    async with Playing(tmp_path, model, tools=tools, judge=AskBeforeWriting()) as play:
        play.session.prompt("note")
        await play.until(events.ApprovalWanted)
    async with Playing(tmp_path, model, tools=tools, judge=AllowAll()) as play:
        play.session.go_on()
        await play.until(events.ApprovalWanted)
        assert not (tmp_path / "notes").exists()
    async with Playing(tmp_path, model, tools=tools, judge=DenyAll()) as play:
        play.session.go_on()
        await play.idle()
        assert not play.session.approvals
        assert play.roles[-2:] == ["r: denied: a rule says so", "a: done"]
