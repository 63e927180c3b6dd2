"""Sessions with a third-party agent, through a real daemon and the real command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.calls import plain
from fairlead.client.connection import RequestError
from fairlead.doors.peer_proof import Token
from fairlead.formats.sexp import Keyword
from fairlead.system.settings import Settings
from fairlead.wire import rpc
from fairlead.wire.passepartout import event, frame, plist
from tests.client.editors import Editor
from tests.hosted.small import SmallHosting
from tests.hosting import is_alive


@pytest.fixture
def small() -> Iterator[SmallHosting]:
    hosting = SmallHosting("load")
    yield hosting
    hosting.close()


def test_a_prompt_is_answered_and_listed_as_a_hosted_session(small: SmallHosting) -> None:
    done = small.talk("good morning")
    assert (done.returncode, done.stdout.strip()) == (0, "good morning")
    found = small.found()
    assert (found["kind"], found["agent"], found["mode"], found["sandbox"]) == (
        "hosted",
        "small",
        "ask",
        False,
    )
    assert "hosted" in small.run("ls").stdout
    assert small.run("ls", "--kind", "hosted", "-q").stdout.split() == ["one"]
    assert small.run("ls", "--kind", "agent", "-q").stdout == ""
    assert small.told() == ["> good morning", "good morning"]
    header = json.loads(Path(found["file"]).read_text().splitlines()[0])
    assert header["agent"] == "small"
    assert "good morning" in small.run("logs", "one").stdout


def test_thoughts_plans_and_what_was_done_unasked_are_in_the_journal(small: SmallHosting) -> None:
    assert small.talk("think plan free done").returncode == 0
    told = small.told()
    assert told[1] == "(let me see)"
    assert [line.split(":")[1] for line in told if ": " in line] == [" plan", " Write free.txt"]
    assert told[-2:] == ["= call-1", "done"]
    result = next(each for each in small.messages() if each.get("toolName") == "plan")
    assert result["content"][0]["text"] == "[x] look\n[>] write\n[ ] test"
    written = next(each for each in small.messages() if each.get("toolCallId") == "call-1")
    assert written["details"]["diff"] == "@@ -0,0 +1 @@\n+hi"


def test_a_permission_is_asked_with_the_agents_options_and_allowed(small: SmallHosting) -> None:
    small.open()
    small.say("tool done")
    question = small.question()
    assert (question["kind"], question["title"]) == ("permission", "execute")
    assert question["summary"] == "Write hello.txt: $ echo hi > hello.txt"
    assert question["options"] == ["allow", "always", "deny"]
    assert 'allow ("Allow once"), always ("Always allow"), deny ("Reject")' in small.run("approvals").stdout
    assert small.found()["state"] == "asks"
    small.run("approvals", "always", question["token"])
    small.wait_idle()
    assert small.told() == ["> tool done", "call-1: Write hello.txt", "= call-1", "yes-always done"]
    assert (small.project / "hello.txt").read_text() == "hi\n"


def test_a_denied_permission_goes_back_to_the_agent(small: SmallHosting) -> None:
    done = small.talk("-v", "tool done")
    assert done.returncode == 3
    assert small.told()[-2:] == ["! call-1", "denied done"]
    assert not (small.project / "hello.txt").exists()


def test_only_the_first_answer_counts(small: SmallHosting) -> None:
    small.open()
    small.say("tool done")
    token = small.question()["token"]
    small.ask("approval_settle", token=token, allowed=False)
    with pytest.raises(RequestError, match="answered already: denied"):
        small.ask("approval_settle", token=token, allowed=True)
    small.wait_idle()
    assert small.told()[-1] == "denied done"
    assert sum("result" in each for each in small.received) == 1


def test_aborting_answers_open_permissions_with_cancelled(small: SmallHosting) -> None:
    id = small.open()
    small.say("two done")
    small.until(lambda: len(small.ask("approvals")["approvals"]) == 2)
    small.ask("abort", session_id=id)
    small.wait_idle()
    assert small.ask("approvals")["approvals"] == []
    assert small.told()[-3:] == ["! call-1", "! call-2", "[aborted]"]
    answers = [each["result"] for each in small.received if "result" in each]
    assert answers == [{"outcome": {"outcome": "cancelled"}}] * 2
    assert small.talk("and now").stdout.strip() == "and now"


def test_an_interrupt_ends_the_turn_and_what_waits_is_said(small: SmallHosting) -> None:
    id = small.open()
    small.say("slow slow slow slow")
    small.until(lambda: any("prompt" in each.get("method", "") for each in small.received))
    small.say("later")
    small.ask("interrupt", session_id=id)
    small.wait_idle()
    assert small.told()[-3:] == ["[aborted]", "> later", "later"]


def test_steering_is_said_as_soon_as_the_agent_can_hear(small: SmallHosting) -> None:
    id = small.open()
    small.say("slow")
    small.until(lambda: any("prompt" in each.get("method", "") for each in small.received))
    small.ask("steer", session_id=id, message="mind this")
    small.wait_idle()
    assert small.told()[-2:] == ["> mind this", "mind this"]
    users = [each for each in small.messages() if each["role"] == "user"]
    assert [each.get("origin") for each in users] == [None, "steer"]


def test_the_chat_offers_what_works_here_and_new_begins_with_the_same_agent(small: SmallHosting) -> None:
    id = small.open(mode="bold")
    assert small.talk("good morning").returncode == 0
    commands = {row["name"].split()[0] for row in small.ask("get_commands", session_id=id)["commands"]}
    assert {"/help", "/model", "/mode", "/new"} <= commands
    assert not commands & {"/thinking", "/compact", "/login"}
    assert small.ask("command", session_id=id, text="/new")["handled"]
    journals = Path(Settings(small.environment).sessions_dir).glob("*/*.jsonl")
    assert [json.loads(each.read_text().splitlines()[0])["agent"] for each in journals] == ["small"] * 2
    listed = small.run("ls").stdout
    assert "hosted small" in listed
    assert "good morning" in listed


def test_an_editor_of_psi_shows_each_text_once_and_whole(small: SmallHosting) -> None:
    """As psi's UI does: text so far is shown in place of what it begins with, and a tool ends it."""
    small.open("psi")
    small.say("hello", "psi")
    small.wait_idle("psi")
    editor = Editor(small, small.project)
    with editor.backend:
        editor.ask("handshake")
        editor.ask("subscribe")
        editor.ask("switch_session", session_id=small.found("psi")["id"])
        editor.frames.clear()
        editor.ask("prompt", message="red green blue amid grey pink amid")
        editor.idle()
        editor.backend.kill()
    lines = [""]
    for each in editor.frames:
        topic, told = (each.topic, plain(each.data)) if isinstance(each, rpc.Event) else ("", {})
        if topic in ("assistant/delta", "assistant/message") and told.get("text"):
            lines[-1] = told["text"] if told["text"].startswith(lines[-1]) else lines[-1] + told["text"]
        elif topic.startswith("tool/"):
            lines.append("")
    texts = ["red green blue", "meanwhile", "grey pink", "meanwhile"]
    assert [line.strip() for line in lines if line] == texts


def test_the_mode_can_be_changed(small: SmallHosting) -> None:
    id = small.open(mode="bold")
    assert small.talk("mode").stdout.strip() == "mode bold"
    assert small.found()["mode"] == "bold"
    assert small.ask("set_mode", session_id=id, mode="ask") == {"mode": "ask", "modes": ["ask", "bold"]}
    assert small.talk("mode").stdout.strip() == "mode ask"
    with pytest.raises(RequestError, match="no mode 'wild'; there are ask, bold"):
        small.ask("set_mode", session_id=id, mode="wild")


@pytest.mark.parametrize("listed", ["options", "models"])
def test_modes_and_models_are_set_in_the_way_of_the_agent(listed: str) -> None:
    small = SmallHosting("load", listed, config='mode = "bold"\n')
    try:
        id = small.open()
        assert small.talk("mode model").stdout.strip() == "mode bold model wise"
        assert (small.found()["mode"], small.found()["model"]) == ("bold", "small/wise")
        assert small.ask("set_mode", session_id=id, mode="ask") == {"mode": "ask", "modes": ["ask", "bold"]}
        small.ask("set_model", session_id=id, provider="small", model_id="quick")
        assert small.talk("mode model").stdout.strip() == "mode ask model quick"
        assert (small.found()["mode"], small.found()["model"]) == ("ask", "small/quick")
        small.run("stop", "one")
        assert small.talk("mode model").stdout.strip() == "mode ask model quick"
        with pytest.raises(RequestError, match="no mode 'wild'; there are ask, bold"):
            small.ask("set_mode", session_id=id, mode="wild")
        with pytest.raises(RequestError, match="no model 'wild'; there are wise, quick"):
            small.ask("set_model", session_id=id, provider="small", model_id="wild")
    finally:
        small.close()


def test_what_an_agents_own_terminal_printed_is_shown(small: SmallHosting) -> None:
    assert small.talk("shell").returncode == 0
    (result,) = [each for each in small.messages() if each["role"] == "toolResult"]
    assert result["content"][0]["text"] == "one\ntwo\n"


def test_a_name_belongs_to_one_agent(small: SmallHosting) -> None:
    small.open()
    with pytest.raises(RequestError, match="is a session with small; choose another name"):
        small.ask("open_session", name="one", agent="claude")
    done = small.run("agent", "--with", "nobody", "-p", "hello", check=False)
    assert done.returncode == 1
    assert "no agent 'nobody'; there are claude, codex" in done.stderr


def test_a_mode_that_the_agent_does_not_have_is_refused_before_there_is_a_session(
    small: SmallHosting,
) -> None:
    done = small.run("agent", "--mode", "bold", "--name", "new", "-p", "hello", check=False)
    why = "Fairlead's own agent has no mode 'bold'; it has ask, accept, plan"
    assert (done.returncode, why in done.stderr) == (1, True)
    assert small.ask("session_list")["sessions"] == []


def test_the_end_of_the_agent_fails_the_turn_and_the_next_prompt_resumes_it(small: SmallHosting) -> None:
    small.talk("first")
    done = small.talk("die")
    assert done.returncode == 1
    assert "small ended with exit code 3: the small agent is out of ideas" in done.stderr
    assert small.told()[-4:] == ["half of", "call-1: Write late.txt", "! call-1", "[error]"]
    lost = small.messages()[-2]["content"][0]["text"]
    assert lost == "lost: the agent ended before this call did"
    assert small.talk("recall").stdout.strip() == "before: first | die"
    assert small.told()[-2:] == ["> recall", "before: first | die"]


def test_what_an_agent_repeats_after_it_has_loaded_its_session_belongs_to_no_turn() -> None:
    small = SmallHosting("load", "belated")
    try:
        small.talk("one")
        small.talk("two free")
        os.kill(small.agent_pid(), signal.SIGKILL)
        small.until(lambda: small.found()["agent_pid"] is None)
        before = small.told()
        done = small.talk("recall")
        assert done.stdout.strip() == "before: one | two free"
        assert small.told() == [*before, "> recall", "before: one | two free"]
        assert small.talk("late more").returncode == 0  # between turns it is heard as ever
        small.until(lambda: "by the way" in small.told())
    finally:
        small.close()


def test_what_an_agent_says_before_it_is_prompted_hides_no_prompt() -> None:
    small = SmallHosting("load", "greets", config='mode = "bold"\n')
    try:
        assert small.talk("hello").returncode == 0
        assert small.told() == ["> hello", "welcome", "hello"]
        (prompt,) = [each for each in small.received if each.get("method") == "session/prompt"]
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "hello"}]
    finally:
        small.close()


def test_an_agent_that_is_killed_takes_its_question_with_it(small: SmallHosting) -> None:
    small.open()
    small.say("tool done")
    small.question()
    os.kill(small.agent_pid(), signal.SIGKILL)
    small.wait_idle()
    assert small.ask("approvals")["approvals"] == []
    assert small.told()[-2:] == ["! call-1", "[error]"]
    small.say("tool done")
    token = small.question()["token"]
    small.ask("approval_settle", token=token, allowed=True)
    small.wait_idle()
    assert small.told()[-1] == "yes-once done"


def test_stopping_a_session_ends_its_agent(small: SmallHosting) -> None:
    small.talk("hello")
    pid = small.agent_pid()
    assert small.run("stop", "one").stdout == "one was idle; its agent was ended\n"
    small.until(lambda: not is_alive(pid))
    (again,) = json.loads(small.run("stop", "--json", "one").stdout)
    assert (again["stopped"], again["agent_ended"]) == (False, False)
    assert small.run("stop", "one").stdout == "one was already idle\n"
    assert small.talk("recall").stdout.strip() == "before: hello"


def test_an_agent_that_can_not_resume_says_so() -> None:
    small = SmallHosting()
    try:
        small.talk("first")
        small.run("stop", "one")
        done = small.run("agent", "--json", "--name", "one", "recall")
        assert "small can't resume a session: it begins a new one" in done.stdout
        assert small.told()[-1] == "before:"
    finally:
        small.close()


@pytest.mark.parametrize("word", ["bad", "files", "twice", "late", "flood"])
def test_what_an_agent_does_wrong_harms_nothing(small: SmallHosting, word: str) -> None:
    small.talk(word)
    assert small.talk("still there").stdout.strip() == "still there"
    if word == "files":
        assert "error -32601 error -32601 error -32601" in small.told()
    if word == "late":
        assert small.told()[:3] == ["> late", "by the way", "> still there"]
    if word == "flood":
        assert small.told()[1].split()[-1] == "999"


def test_a_line_that_is_too_long_is_passed_over(small: SmallHosting) -> None:
    assert small.talk("long after").stdout.strip() == "after"


def test_an_agent_that_closes_its_output_is_ended(small: SmallHosting) -> None:
    small.open()
    small.say("mute")
    small.until(lambda: small.told()[-1:] == ["[error]"])
    assert small.messages()[-1]["errorMessage"] == "small: it closed its output"
    assert small.talk("recall").returncode == 0


def test_an_agent_that_closes_its_input_is_ended_when_it_should_hear_something(small: SmallHosting) -> None:
    assert small.talk("deaf").returncode == 0
    done = small.talk("hello")
    assert done.returncode == 1
    assert "small: it closed its input" in done.stderr
    assert small.talk("recall").stdout.strip() == "before: deaf"


def test_an_agent_that_does_not_end_a_cancelled_turn_is_ended(small: SmallHosting) -> None:
    id = small.open()
    small.say("stall")
    small.until(lambda: any("prompt" in each.get("method", "") for each in small.received))
    small.ask("abort", session_id=id)
    small.wait_idle()
    assert small.told()[-2:] == ["stalling", "[aborted]"]
    assert small.talk("hello").stdout.strip() == "hello"


@pytest.mark.parametrize(("word", "why"), [("refuse", "refused to go on"), ("fail", "no model answers")])
def test_a_turn_that_fails_says_why(small: SmallHosting, word: str, why: str) -> None:
    done = small.talk(word)
    assert done.returncode == 1
    assert why in done.stderr


@pytest.mark.parametrize(
    ("can", "why"), [("exit", "does not want to start"), ("login", "log in with its own")]
)
def test_an_agent_that_does_not_start_says_why(can: str, why: str) -> None:
    small = SmallHosting(can)
    try:
        done = small.talk("hello")
        assert done.returncode == 1
        assert why in done.stderr
        assert small.found()["state"] == "failed"
    finally:
        small.close()


def test_work_that_fails_its_check_is_sent_back_until_it_holds(small: SmallHosting) -> None:
    check = ["--verify", "grep -q right result.txt"]
    done = subprocess.run(
        [*small.command, "run", "--with", "small", "--name", "one", "--yes", *check, "build"],
        env=small.environment,
        cwd=small.project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr + small.log()
    assert "verified" in done.stdout.lower()
    assert (small.project / "result.txt").read_text() == "right\n"
    users = [each for each in small.messages() if each["role"] == "user"]
    assert [each.get("origin") for each in users] == [None, "correction"]
    reports = json.loads(small.run("reports", "one", "--json").stdout)
    assert [each["confidence"] for each in reports] == ["verified", "feedback"]


def test_calls_that_nobody_could_be_asked_about_are_told_by_an_exit_code(small: SmallHosting) -> None:
    done = subprocess.run(
        [*small.command, "run", "--with", "small", "--verify", "test ! -e hello.txt", "tool done"],
        env=small.environment,
        cwd=small.project,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done.stderr + small.log()
    assert "What was denied?" in done.stdout
    assert "execute: Write hello.txt: $ echo hi > hello.txt" in done.stdout


def test_in_a_sandbox_an_agent_writes_to_its_project_and_nowhere_else(small: SmallHosting) -> None:
    path = Path(Settings(small.environment).config_path)
    path.write_text(f'{path.read_text()}sandbox = ["{small.agent_dir}"]\n')
    outside = Path(small.environment["HOME"], "outside.txt")
    done = small.talk(f"write:{outside} write:inside.txt reach:{small.directory}/run done")
    assert done.returncode == 0, done.stderr
    said = small.told()[-1]
    assert f"{outside}: Read-only file system" in said
    assert "inside.txt: written" in said
    assert "reach: nothing is there" in said
    assert not outside.exists()
    assert (small.project / "inside.txt").exists()
    assert small.found()["sandbox"] is True
    with pytest.raises(RequestError, match="sandbox of one can't be changed"):
        small.open(sandbox=False)
    path.write_text(path.read_text().replace("sandbox = [", "# "))
    done = small.run("agent", "--with", "small", "--sandbox", "-p", "hello", check=False)
    assert done.returncode == 1
    assert 'it ran in the sandbox: `sandbox = ["DIR"]` below [agents.small] lets it write' in done.stderr


def test_in_a_sandbox_a_known_agent_writes_to_its_own_directories(small: SmallHosting) -> None:
    path = Path(Settings(small.environment).config_path)
    data, home = small.directory / "data", Path(small.environment["HOME"])
    text = path.read_text().replace("agents.small", "agents.opencode")
    path.write_text(text.replace("env = {", f'env = {{ XDG_DATA_HOME = "{data}", '))
    words = f"write:{data}/opencode/log write:{home}/.cache/opencode/one write:{home}/.cache/other done"
    path.write_text(path.read_text().replace(str(small.agent_dir), f"{data}/opencode"))
    done = small.run("agent", "--with", "opencode", "--sandbox", "-p", words, check=False)
    assert done.returncode == 0, done.stderr
    assert (data / "opencode/log").read_text() == "written"
    assert (home / ".cache/opencode/one").read_text() == "written"
    assert f"{home}/.cache/other: Read-only file system" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="there is no bubblewrap elsewhere")
@pytest.mark.parametrize("has_token", [False, True])
def test_in_a_sandbox_an_agent_has_nothing_done_by_the_daemon_outside(
    small: SmallHosting, has_token: bool
) -> None:
    settings = Settings(small.environment)
    path = Path(settings.config_path)
    path.write_text(f'{path.read_text()}sandbox = ["{small.agent_dir}"]\n')
    small.start("shell", "exec sh")
    outside = Path(small.environment["HOME"], "outside.txt")
    proof = plist(action=Keyword("AUTH"), token=Token(settings.token_path).read())
    auth = frame(plist(type=Keyword("REQUEST"), payload=proof)) if has_token else b""
    for number, text in enumerate((f"/run touch {outside}", f"/send shell touch {outside}", "build it")):
        said = plist(sensor=Keyword("USER-INPUT"), text=text)
        (small.project / f"{number}").write_bytes(auth + frame(event(said).plist))
    port = small.ask("daemon_status")["passepartout_port"]
    done = small.talk(*(f"knock:{port}:{number}" for number in range(3)))
    assert done.returncode == 0, done.stderr
    assert small.told()[-1].count("a program in an agent's sandbox can't use this") == 3
    assert not outside.exists()
    assert not [each for each in small.ask("session_list")["sessions"] if each["name"] == "control"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has in its environment")
def test_a_command_of_an_agent_does_not_choose_the_mode(small: SmallHosting) -> None:
    id = small.open()
    script = (
        "import sys; from fairlead.client.connection import DaemonConnection\n"
        "with DaemonConnection() as control:\n"
        "    control.ask(sys.argv[1], session_id=sys.argv[2], **{sys.argv[3]: sys.argv[4]})\n"
    )
    for words in (("set_mode", id, "mode", "bold"), ("command", id, "text", "/mode bold")):
        marked = {**small.environment, "FAIRLEAD_AGENT": id}
        subprocess.run([sys.executable, "-c", script, *words], env=marked, capture_output=True, check=False)
        assert small.found()["mode"] != "bold", words
    small.ask("set_mode", session_id=id, mode="bold")
    assert small.found()["mode"] == "bold"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has in its environment")
def test_a_command_of_an_agent_of_ours_does_not_choose_its_mode(small: SmallHosting) -> None:
    id = small.ask("open_session", name="ours", cwd=str(small.project))["session_id"]
    ways: list[tuple[str, dict[str, Any]]] = [
        ("set_mode", {"session_id": id, "mode": "accept"}),
        ("command", {"session_id": id, "text": "/mode accept"}),
        ("frontend_action_result", {
            "session_id": id, "request_id": "1", "action_name": "select-mode", "status": "submitted",
            "value": "accept",
        }),
        ("open_session", {"name": "ours", "mode": "accept"}),
    ]  # fmt: skip
    as_agent(small, id, *ways)
    assert small.ask("get_view", session_id=id)["state"]["mode"] == "ask"
    small.ask("set_mode", session_id=id, mode="accept")
    made = small.ask("new_session", session_id=id)["session_id"]
    as_agent(small, id, ("command", {"session_id": id, "text": "/new"}))
    for row in small.ask("list_sessions")["sessions"]:
        mode = small.ask("get_view", session_id=row["session_id"])["state"]["mode"]
        assert mode == ("accept" if row["session_id"] == id else "ask")
    assert made != id
    small.ask("prompt", session_id=id, message="hello")
    small.wait_idle("ours")
    said = small.ask("get_fork_messages", session_id=id)["messages"][0]["entry_id"]
    fork = small.ask("fork", session_id=id, entry_id=said)["session_id"]
    assert small.ask("get_view", session_id=fork)["state"]["mode"] == "ask"


AS_AGENT = """\
import json, sys
from fairlead.client.connection import DaemonConnection
with DaemonConnection() as control:
    for op, given in json.loads(sys.argv[1]):
        try:
            print(json.dumps(["ok", str(control.ask(op, **given))]))
        except Exception as error:
            print(json.dumps(["refused", str(error)]))
"""


def as_agent(small: SmallHosting, id: str, *calls: tuple[str, dict[str, Any]]) -> list[list[str]]:
    """What a command of the agent session of this id gets to hear for each of these ops."""
    marked = {**small.environment, "FAIRLEAD_AGENT": id}
    words = [sys.executable, "-c", AS_AGENT, json.dumps(calls)]
    done = subprocess.run(words, env=marked, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has in its environment")
def test_what_an_agent_in_a_sandbox_starts_is_in_one_or_refused(small: SmallHosting) -> None:
    boxed, free = small.open("boxed", sandbox=True), small.open("free")
    before = len(small.ask("list_sessions")["sessions"])
    own = small.ask("open_session", name="ours", cwd=str(small.project))["session_id"]
    small.ask("prompt", session_id=own, message="hello")
    small.wait_idle("ours")
    said = small.ask("get_fork_messages", session_id=own)["messages"][0]["entry_id"]
    outside: list[tuple[str, dict[str, Any]]] = [
        ("open_session", {"name": "fresh", "cwd": str(small.project)}),
        ("new_session", {}),
        ("new_session", {"session_id": own}),
        ("fork", {"session_id": own, "entry_id": said}),
        ("command", {"session_id": own, "text": "/new"}),
        ("terminal_start", {"name": "fresh", "argv": ["true"], "cwd": str(small.project)}),
    ]
    for call in outside:
        ((outcome, why),) = as_agent(small, boxed, call)
        is_refused = outcome == "refused" and "runs in a sandbox, and" in why
        assert is_refused or call[0] == "command", (call, why)
    assert len(small.ask("list_sessions")["sessions"]) == before + 1
    assert small.sessions() == {}
    new = {"cwd": str(small.project), "agent": "small"}
    for name, by in (("inner", boxed), ("outer", free)):
        assert as_agent(small, by, ("open_session", {"name": name, **new}))[0][0] == "ok"
        assert small.found(name)["sandbox"] is (by == boxed)
    environment, small.environment = small.environment, {**small.environment, "FAIRLEAD_AGENT": boxed}
    done = small.run("agent", "-p", "hello", "-C", str(small.project), check=False)
    small.environment = environment
    assert done.returncode == 1
    assert "Fairlead's own agent would run outside of it" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has in its environment")
def test_a_command_of_an_agent_decides_nothing_in_the_sessions_of_others(small: SmallHosting) -> None:
    evil, victim = small.open("evil"), small.open("victim")
    small.say("tool done", name="victim")
    question = small.question("victim")
    rows = [{"name": "ev", "command": "/bin/evil"}]
    new = {"cwd": str(small.project), "agent": "small"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("cancel_dialog", {"dialog_id": question["token"]}),
        ("approval_settle", {"token": question["token"], "allowed": False}),
        ("open_session", {"name": "victim", "mode": "bold"}),
        ("open_session", {"name": "victim", "mcp_servers": rows}),
        ("open_session", {"name": "fresh", "mode": "bold", **new}),
        ("open_session", {"name": "fresh", "sandbox": False, **new}),
        ("open_session", {"name": "fresh", "mcp_servers": rows, **new}),
        ("session_stop", {"name": "victim"}),
        ("session_remove", {"name": "victim"}),
    ]
    own: list[tuple[str, dict[str, Any]]] = [
        ("frontend_action_result", {"request_id": "1", "action_name": "select-model", "status": "submitted"}),
        ("abort", {}),
        ("interrupt", {}),
        ("bash", {"command": "touch made"}),
        ("set_session_name", {"name": "mine"}),
        ("export_html", {}),
        ("set_model", {"provider": "small", "model_id": "big"}),
        ("cycle_model", {}),
        ("set_thinking_level", {"level": "high"}),
        ("set_mode", {"mode": "bold"}),
        ("set_option", {"option": "mode", "value": "bold"}),
        ("set_auto_retry", {"enabled": False}),
        ("compact", {}),
        ("command", {"text": "/mode bold"}),
    ]
    calls += [(op, {"session_id": victim, **given}) for op, given in own]
    before = small.found("victim")
    said = as_agent(small, evil, *calls)
    assert [call[0] for call, (how, _) in zip(calls, said, strict=True) if how != "refused"] == []
    agents = [f"({evil}) asks" in why or f"({evil}) tried to" in why for _, why in said]
    assert agents == [True] * len(said), said
    after = small.found("victim")
    assert [after[key] for key in ("name", "state", "mode", "waits_for")] == [
        before[key] for key in ("name", "state", "mode", "waits_for")
    ]
    assert "mcp_servers" not in after or after["mcp_servers"] == before["mcp_servers"]
    assert {each["name"] for each in small.ask("session_list")["sessions"]} == {"evil", "victim"}
    small.ask("cancel_dialog", dialog_id=question["token"])  # a person may
    small.wait_idle("victim")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has in its environment")
def test_a_command_of_an_agent_decides_in_its_own_session_and_those_it_made(small: SmallHosting) -> None:
    id = small.open("one")
    new = {"name": "mine", "cwd": str(small.project), "agent": "small"}
    said = as_agent(
        small,
        id,
        ("set_session_name", {"session_id": id, "name": "two"}),
        ("open_session", new),
        ("set_session_name", {"name": "yours"}),  # of the session in focus
        ("session_prompt", {"name": "two", "text": "hello"}),
        ("session_stop", {"name": "yours"}),
    )
    assert [how for how, _ in said] == ["ok"] * 5, said
    assert {each["name"] for each in small.ask("session_list")["sessions"]} == {"two", "yours"}


def test_a_session_that_is_refused_is_not_made(small: SmallHosting) -> None:
    place = {"name": "fresh", "cwd": str(small.project)}
    for more in (
        {"agent": "small", "mcp_servers": [{"name": "s1", "type": "K", "url": "K"}]},
        {"mcp_servers": [{"name": "s1", "command": "/bin/true"}]},
        {"mode": "bold"},
    ):
        with pytest.raises(RequestError):
            small.ask("open_session", **place, **more)
    assert small.ask("session_list")["sessions"] == []


def test_a_sandbox_does_not_follow_what_became_a_link(small: SmallHosting) -> None:
    home = Path(small.environment["HOME"])
    path = Path(Settings(small.environment).config_path)
    kept = home / "kept"
    kept.mkdir()
    inside = small.project / "cache"
    inside.symlink_to(home)
    path.write_text(f'{path.read_text()}sandbox = ["{small.agent_dir}", "{kept}", "{inside}"]\n')
    done = small.talk(f"write:{kept}/a.txt write:{home}/b.txt write:{inside}/c.txt")
    assert [each.name for each in home.glob("*.txt")] == [], done.stdout
    assert (kept / "a.txt").exists()
    small.run("stop", "one")
    shutil.rmtree(kept)
    kept.symlink_to(home)
    done = small.talk("hello")
    assert done.returncode == 1
    assert f"{kept} leads to {home} now, and to {kept} when the session began" in done.stderr


def test_without_a_sandbox_nothing_keeps_an_agent_from_writing_elsewhere(small: SmallHosting) -> None:
    outside = Path(small.environment["HOME"], "outside.txt")
    small.talk(f"write:{outside}")
    assert outside.exists()
    assert small.found()["sandbox"] is False
