"""Permissions that hooks of agents in terminals ask for: questions that are answered from elsewhere, and
closed when the terminal shows that they are over."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli import hook
from fairlead.cli.hook_events import hook_call, permission
from fairlead.client import connection
from tests.hosting import WAIT, Hosting

DIALOG = {
    "claude": ("─" * 60, " Bash command", "   {}", " Do you want to proceed?", " ❯ 1. Yes", "   2. No"),
    "gemini": (
        "╭" + "─" * 60,
        "│ ? Shell {}",
        "│ Allow execution of [Shell]?",
        "│ ● 1. Allow once",
        "│   2. Allow for this",
        "│      session",
        "│   3. Allow for all future sessions",
        "│   4. No, suggest changes (esc)",
        "╰" + "─" * 60,
    ),
}


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    hosting.run("ls")
    yield hosting
    hosting.close()


class Hooked:
    """A terminal that shows a dialog until a key comes, and a hook that tells of it."""

    def __init__(self, hosting: Hosting, place: Path, name: str, agent: str = "claude") -> None:
        self.hosting, self.name, self.agent = hosting, name, agent
        self.place = place
        (place / "dialog").write_text("\r\n".join(DIALOG[agent]).format("touch x"))
        script = f"stty raw -echo; clear; cat {place}/dialog; dd bs=1 count=1 2>/dev/null >{place}/key; "
        after = (place / "after") if (place / "after").exists() else None
        then = f"cat {after}" if after else "echo went on"
        hosting.start(name, f"{script} clear; {then}; sleep 600", "--cwd", str(place))

    def call(self, event: str, **more: Any) -> subprocess.Popen[bytes]:
        given = {"hook_event_name": event, "session_id": "one", **more}
        process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "hook", "-v", self.agent],
            env={**self.hosting.environment, "FAIRLEAD_SESSION": self.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(given).encode())
        process.stdin.close()
        process.stdin = None
        return process

    def ask(self, command: str = "touch x", **more: Any) -> subprocess.Popen[bytes]:
        if self.agent == "gemini":
            details = {"type": "exec", "title": "Confirm Shell Command", "command": command}
            return self.call("Notification", notification_type="ToolPermission", details=details)
        return self.call("PermissionRequest", tool_name="Bash", tool_input={"command": command}, **more)

    def questions(self) -> list[dict[str, Any]]:
        asked = self.hosting.ask("approvals")["approvals"]
        return [each for each in asked if each["session_name"] == self.name]

    def question(self) -> dict[str, Any]:
        self.hosting.until(lambda: bool(self.questions()))
        (question,) = self.questions()
        return question

    def settle(self, **said: Any) -> None:
        self.hosting.ask("approval_settle", token=self.question()["token"], **said)

    def over(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        printed, _ = process.communicate(timeout=WAIT)
        self.hosting.until(lambda: not self.questions())
        return process.returncode, printed.decode()


def decided(printed: str) -> dict[str, Any]:
    decision: dict[str, Any] = json.loads(printed)["hookSpecificOutput"]["decision"]
    return decision


def test_a_permission_is_shown_whole_and_answered_in_the_agents_own_form(
    hosting: Hosting, tmp_path: Path
) -> None:
    work = Hooked(hosting, tmp_path, "answered")
    command = "echo one\n" + "echo two\n" * 40 + "touch x"
    rule = {"toolName": "Bash", "ruleContent": "touch:*"}
    suggested = [{"type": "addRules", "behavior": "allow", "rules": [rule], "destination": "session"}]
    asked = work.ask(command, permission_suggestions=suggested, agent_id="a1", agent_type="Explore")
    question = work.question()
    assert (question["kind"], question["title"], question["preview"]) == ("permission", "Bash", command)
    assert question["reason"] == "claude's sub-agent Explore a1 asks for permission"
    assert question["labels"][1] == "Always allow: Bash(touch:*) (session)"

    def state() -> str:
        return str(hosting.ask("session_state", name="answered")["session"]["activity"]["state"])

    hosting.until(lambda: state() == "waits")
    work.settle(allowed=True, always=True)
    code, printed = work.over(asked)
    assert (code, decided(printed)) == (0, {"behavior": "allow", "updatedPermissions": suggested})

    asked = work.ask()
    work.settle(allowed=False)
    code, printed = work.over(asked)
    assert (code, decided(printed)["behavior"]) == (0, "deny")
    assert "denied by a person" in decided(printed)["message"]


@pytest.mark.parametrize("characters", [200, 800])
def test_what_always_allows_is_listed_whole(hosting: Hosting, tmp_path: Path, characters: int) -> None:
    work = Hooked(hosting, tmp_path, f"listed{characters}")
    place = "/srv/" + "x" * characters
    suggested: list[dict[str, Any]] = [
        {"type": "addDirectories", "directories": [place + "\u3164end"], "destination": "session"},
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
    ]
    asked = work.ask(permission_suggestions=suggested)
    token = work.question()["token"]
    row = f'always ("Always allow: access to {place}<U+3164>end (session), mode acceptEdits (session)")\n'
    for words in ((), ("show", token)):
        assert row in hosting.run("approvals", *words).stdout
    work.settle(allowed=False)
    work.over(asked)


def test_what_always_would_allow_is_not_offered_if_it_can_not_be_shown_whole(
    hosting: Hosting, tmp_path: Path
) -> None:
    work = Hooked(hosting, tmp_path, "hidden")
    places = ["/srv/" + "\u3164" * 200]
    suggested = [{"type": "addDirectories", "directories": places, "destination": "session"}]
    asked = work.ask(permission_suggestions=suggested)
    question = work.question()
    assert question["options"] == ["allow", "deny"]
    assert "what 'always' would allow is too long to be shown whole" in question["reason"]
    work.settle(allowed=False)
    work.over(asked)


def test_a_file_in_the_agents_directory_is_named_from_there() -> None:
    said = {"cwd": "/srv/garden", "hook_event_name": "PermissionRequest", "tool_name": "Write"}

    def what(path: str) -> str:
        given = {**said, "tool_input": {"file_path": path, "content": "x"}}
        asked = permission("claude", given, hook_call("claude", given))
        assert f"file_path: {path}" in asked["whole"]
        return str(asked["what"])

    assert what("/srv/garden/beds/roses.txt") == "Write beds/roses.txt"
    assert what("/srv/garden-2/roses.txt") == "Write /srv/garden-2/roses.txt"
    assert what("/etc/passwd") == "Write /etc/passwd"


def test_what_is_over_in_the_terminal_is_withdrawn(hosting: Hosting, tmp_path: Path) -> None:
    work = Hooked(hosting, tmp_path, "over")
    hosting.wait_text("over", "Do you want to proceed")
    asked = work.ask()
    work.question()
    hosting.run("send", "over", "-k", "escape")  # the dialog vanishes, and no hook is called
    assert work.over(asked) == (0, "")

    endings: list[tuple[str, dict[str, Any]]] = [
        ("PostToolUse", {"tool_name": "Bash", "tool_input": {"command": "touch x"}}),
        ("UserPromptSubmit", {"prompt": "something else"}),
        ("SessionEnd", {}),
    ]
    for event, more in endings:
        asked = work.ask()
        work.question()
        assert work.over(work.call(event, **more)) == (0, "")
        assert work.over(asked) == (0, "")

    asked = work.ask()
    work.question()
    asked.send_signal(signal.SIGTERM)  # as the agent does
    work.over(asked)


def test_a_tool_call_of_another_agent_closes_nothing(hosting: Hosting, tmp_path: Path) -> None:
    work = Hooked(hosting, tmp_path, "others")
    asked = work.ask()
    work.question()
    more = {"tool_name": "Read", "tool_input": {"file_path": "/x"}}
    for each in ({"agent_id": "a2"}, {}):  # a sub-agent's, and its own while the dialog is there
        hosting.wait_text("others", "Do you want to proceed")
        called = work.call("PreToolUse", **more, **each)
        called.communicate(timeout=WAIT)
        assert work.questions()
    work.settle(allowed=True)
    assert decided(work.over(asked)[1]) == {"behavior": "allow"}


def test_a_daemon_that_is_killed_costs_neither_question_nor_answer(hosting: Hosting, tmp_path: Path) -> None:
    work = Hooked(hosting, tmp_path, "killed")
    asked = work.ask()
    token = work.question()["token"]
    hosting.kill_daemon()
    hosting.until(lambda: [each["token"] for each in work.questions()] == [token])
    work.settle(allowed=True)
    assert decided(work.over(asked)[1]) == {"behavior": "allow"}


def settled(hosting: Hosting, token: str) -> dict[str, Any]:
    """What became of a question, as who settles it late is told."""
    done = hosting.run("approvals", "allow", token, check=False)
    return {"code": done.returncode, "said": " ".join(done.stderr.split())}


def test_a_question_whose_hook_died_with_the_daemon_is_withdrawn(hosting: Hosting, tmp_path: Path) -> None:
    work = Hooked(hosting, tmp_path, "orphaned")  # its dialog stays
    asked = work.ask()
    token = work.question()["token"]
    asked.send_signal(signal.SIGSTOP)  # it can't ask the next daemon
    hosting.kill_daemon()
    asked.kill()
    asked.communicate(timeout=WAIT)
    hosting.until(lambda: not work.questions())
    assert "the hook that asked is gone" in settled(hosting, token)["said"]


def test_a_question_whose_dialog_went_while_no_daemon_was_there_is_withdrawn(
    hosting: Hosting, tmp_path: Path
) -> None:
    rule = "─" * 80
    (tmp_path / "after").write_text("\r\n".join([rule, "> ", rule, "  ? for shortcuts"]))
    work = Hooked(hosting, tmp_path, "escaped")
    hosting.run("send", work.name, "-k", "escape")
    hosting.wait_text(work.name, "for shortcuts")
    asked = work.ask()  # the daemon never saw its dialog
    token = work.question()["token"]
    hosting.kill_daemon()
    hosting.until(lambda: not work.questions())
    assert "its dialog in the terminal is gone" in settled(hosting, token)["said"]
    assert work.over(asked) == (0, "")


def test_a_hook_that_has_waited_long_looks_for_the_next_daemon_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []
    clock = [0.0]

    class Daemon:
        """One that dies after a long time, and the next one."""

        def __init__(self, settings: Any, *, start: bool) -> None: ...

        def __enter__(self) -> Daemon:
            return self

        def __exit__(self, *_: object) -> None: ...

        def ask(self, op: str, **given: Any) -> dict[str, Any]:
            asked.append(clock[0])
            clock[0] += 1000.0
            if len(asked) == 1:
                raise ConnectionError
            return {"option": "allow"}

    with monkeypatch.context() as patched:
        patched.setattr(connection, "DaemonConnection", Daemon)
        patched.setattr(hook, "_end_with_parent", lambda: None)
        patched.setattr(time, "monotonic", lambda: clock[0])
        answer = hook._ask("terminal_permission", request_id="1")
    assert answer == {"option": "allow"}
    assert asked == [0.0, 1000.0]


def test_what_is_too_long_can_only_be_denied(hosting: Hosting, tmp_path: Path) -> None:
    work = Hooked(hosting, tmp_path, "long")
    asked = work.ask("x" * 130_000)
    question = work.question()
    assert question["options"] == ["deny"]
    assert "can only be denied" in question["reason"]
    work.settle(allowed=False)
    assert decided(work.over(asked)[1])["behavior"] == "deny"


def test_an_answer_is_given_to_the_dialog_itself_where_no_hook_can(hosting: Hosting, tmp_path: Path) -> None:
    work = Hooked(hosting, tmp_path, "keys", agent="gemini")
    assert work.ask().communicate(timeout=WAIT)[0] == b""  # it does not wait
    question = work.question()
    assert question["options"] == ["allow", "always", "always-2", "deny"]
    assert question["labels"][1:3] == ["Allow for this session", "Allow for all future sessions"]
    assert "Allow execution of" in question["preview"]
    work.settle(allowed=True)
    hosting.wait_text("keys", "went on")
    assert (tmp_path / "key").read_bytes() == b"1"
    hosting.until(lambda: not work.questions())


@pytest.mark.parametrize(("answer", "key"), [("always", b"2"), ("always-2", b"3")])
def test_a_dialogs_own_answer_that_lasts_is_given_by_its_key(
    hosting: Hosting, tmp_path: Path, answer: str, key: bytes
) -> None:
    work = Hooked(hosting, tmp_path, f"lasts-{answer}", agent="gemini")
    work.ask().communicate(timeout=WAIT)
    hosting.run("approvals", answer, work.question()["token"])
    hosting.wait_text(work.name, "went on")
    assert (tmp_path / "key").read_bytes() == key
    hosting.until(lambda: not work.questions())


@pytest.mark.skipif(sys.platform != "linux", reason="writes to another program's terminal")
def test_a_dialog_that_shows_other_options_by_now_gets_no_key(hosting: Hosting, tmp_path: Path) -> None:
    work = Hooked(hosting, tmp_path, "swaps", agent="gemini")
    work.ask().communicate(timeout=WAIT)
    token = work.question()["token"]
    swapped = (tmp_path / "dialog").read_bytes().replace(b"for all future", b"for no future")
    pid = hosting.ask("session_find", name="swaps")["session"]["pid"]
    Path(f"/proc/{pid}/fd/0").write_bytes(b"\x1b[2J\x1b[H" + swapped)
    hosting.wait_text("swaps", "for no future")
    done = hosting.run(
        "approvals", "always-2", token, check=False
    )  # the question may be over by now, or not yet
    assert done.returncode == 1
    hosting.until(lambda: not work.questions())
    done = hosting.run("approvals", "always-2", token, check=False)
    assert (done.returncode, "did you mean" in done.stderr) == (1, False), done.stderr
    hosting.until((tmp_path / "key").exists)
    assert (tmp_path / "key").read_bytes() == b""
    hosting.run("send", "swaps", "x")
    hosting.wait_text("swaps", "went on")


def test_a_dialog_that_does_not_show_what_was_told_can_only_be_denied(
    hosting: Hosting, tmp_path: Path
) -> None:
    work = Hooked(hosting, tmp_path, "lies", agent="gemini")
    work.ask("ls").communicate(timeout=WAIT)
    question = work.question()  # when its dialog did not come in time
    assert question["options"] == ["deny"]
    work.settle(allowed=False)
    hosting.wait_text("lies", "went on")
    assert (tmp_path / "key").read_bytes() == b"\x1b"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is below a program for sure")
def test_an_agent_does_not_answer_its_own_permission(hosting: Hosting, tmp_path: Path) -> None:
    fairlead = " ".join(hosting.command)
    tool = {"tool_name": "Bash", "tool_input": {"command": "touch x"}}
    said: dict[str, dict[str, Any]] = {"UserPromptSubmit": {"prompt": "go"}, "PermissionRequest": tool}
    for name, more in said.items():
        given = {"hook_event_name": name, "session_id": "one", **more}
        (tmp_path / name).write_text(json.dumps(given))
    agent = tmp_path / "agent.sh"
    agent.write_text(
        f"cd {tmp_path}\n{fairlead} hook claude <UserPromptSubmit\n"
        f"{fairlead} hook claude <PermissionRequest >decided &\n"
        "while [ ! -e asked ]; do sleep 0.1; done\n"
        f"env -u FAIRLEAD_SESSION {fairlead} approvals allow $(cat asked) >answered 2>&1\n"
        "touch done; sleep 100\n"
    )
    hosting.start("selfish", f"sh {agent}; exec sh")

    def asked() -> list[str]:
        rows = hosting.ask("approvals")["approvals"]
        return [row["token"] for row in rows if row["session_name"] == "selfish"]

    hosting.until(lambda: bool(asked()))
    (tmp_path / "part").write_text(asked()[0])
    (tmp_path / "part").rename(tmp_path / "asked")
    hosting.until((tmp_path / "done").exists)
    assert "only a person may" in " ".join((tmp_path / "answered").read_text().split())
    assert len(asked()) == 1
    assert (tmp_path / "decided").read_bytes() == b""
    hosting.ask("approval_settle", token=asked()[0], allowed=True)
    hosting.until(lambda: b"allow" in (tmp_path / "decided").read_bytes())


def test_a_hook_speaks_only_for_its_own_session(hosting: Hosting, tmp_path: Path) -> None:
    hosting.start("victim", "sleep 600")
    fairlead = " ".join(hosting.command)
    given = {"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    (tmp_path / "said").write_text(json.dumps(given))
    hosting.start(
        "liar",
        f"cd {tmp_path}; FAIRLEAD_SESSION=victim {fairlead} hook -v claude <said >out 2>&1; "
        "touch done; sleep 600",
    )
    hosting.until((tmp_path / "done").exists)
    assert "it is asked from session liar, not from victim" in (tmp_path / "out").read_text()
    assert not [row for row in hosting.ask("approvals")["approvals"] if row["session_name"] == "victim"]


def test_a_call_that_runs_although_it_was_denied_was_allowed_in_the_terminal(
    hosting: Hosting, tmp_path: Path
) -> None:
    work = Hooked(hosting, tmp_path, "late")
    work.over(work.call("UserPromptSubmit", prompt="go on"))
    for command, is_run in (("touch ran", True), ("touch kept", False)):
        asked = work.ask(command)
        work.settle(allowed=False)
        work.over(asked)
        if not is_run:  # the same call is tried again, and runs then
            work.over(work.call("PreToolUse", tool_name="Bash", tool_input={"command": command}))
        work.over(work.call("PostToolUse", tool_name="Bash", tool_input={"command": command}))
    (turn,) = json.loads(hosting.run("timeline", "late", "--json").stdout)["turns"]
    first, second = [step for step in turn["steps"] if step["what"] == "question"]
    assert first["outcome"] == "allow"
    assert first["by"].startswith("its terminal: it ran")
    assert second["outcome"] == "deny"
