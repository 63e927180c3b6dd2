"""`fairlead hook`: agents in terminals tell of their turns and are sent back, and its installation."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.events import Happened
from fairlead.client.sdk import Events
from fairlead.settings import Settings
from tests.hosting import WAIT, Hosting

AGENT = '''
"""An agent: takes a prompt, pasted or typed, and tells of its turn as Claude does."""
import json, os, subprocess, sys, time, tty

here, out = sys.argv[1], open(sys.argv[1] + "/typed", "ab", 0)
transcript = here + "/transcript.jsonl"
old = tty.tcgetattr(0)
tty.setraw(0)


def said(role, text):
    with open(transcript, "a") as file:
        file.write(json.dumps({"role": role, "text": text}) + "\\n")


def hook(name, **more):
    given = {"hook_event_name": name, "session_id": "x", "transcript_path": transcript, "cwd": here, **more}
    subprocess.run([sys.executable, "-m", "fairlead", "hook", "claude"], input=json.dumps(given).encode())


os.write(1, b"\\x1b[?2004hready\\r\\n")
buffer, turns = b"", 0
while True:
    data = os.read(0, 65536)
    out.write(data)
    buffer += data
    if buffer.count(b"\\x1b[200~") > buffer.count(b"\\x1b[201~") or not buffer.endswith(b"\\r"):
        continue
    text = buffer[:-1].replace(b"\\x1b[200~", b"").replace(b"\\x1b[201~", b"").decode()
    buffer = b""
    if text == "exit":
        tty.tcsetattr(0, tty.TCSANOW, old)
        os.write(1, b"\\x1b[?2004lbye\\r\\n")
        sys.exit()
    hook("UserPromptSubmit", prompt=text)
    said("user", text)
    while os.path.exists(here + "/hold"):
        time.sleep(0.02)
    if text == "quit":
        hook("Stop")
        tty.tcsetattr(0, tty.TCSANOW, old)
        os.write(1, b"\\x1b[?2004lbye\\r\\n")
        sys.exit()
    if text == "break":
        hook("StopFailure", error="rate limit")
    else:
        said("assistant", "done")
        hook("Stop")
    turns += 1
    os.write(1, b"turn %d done\\r\\n" % turns)
'''
TOPICS = ("verify/report", "verify/escalated", "verify/receipt", "terminal/turn-began", "terminal/turn-ended")
LONG = "line one\nline two: ü"


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_VERIFIER_MAX_LOOPS": "2", "FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    hosting.run("ls")
    yield hosting
    hosting.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


class Verifier:
    """A verifier of a terminal session, in raw lines, and what everybody is told of it."""

    def __init__(self, hosting: Hosting, name: str, **more: Any) -> None:
        target = hosting.ask("verify_target", name=name)
        assert target["kind"] == "terminal"
        self.name = name
        self.events = Events(Settings(hosting.environment), TOPICS)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT)
        self._socket.connect(target["socket"])
        self._lines = self._socket.makefile("rb")
        self._number = 0
        self.send("hello", role="verifier", sessionId=name, pid=os.getpid(), **more)
        assert self.next()["type"] == "hello_ack"

    def send(self, type: str, **fields: Any) -> None:
        self._socket.sendall(json.dumps({"type": type, **fields}).encode() + b"\n")

    def next(self) -> dict[str, Any]:
        envelope: dict[str, Any] = json.loads(self._lines.readline())
        return envelope

    def prompt(self, message: str, **more: Any) -> str:
        """Send the turn back; gives why it was refused, if it was."""
        self._number += 1
        id = str(self._number)
        self.send("prompt", sessionId=self.name, message=message, correlationId=id, **more)
        ack = self.next()
        assert (ack["type"], ack["correlationId"]) == ("prompt_ack", id)
        return "" if ack["ok"] else str(ack["error"])

    def told(self, topic: str) -> dict[str, Any]:
        """The next event of a topic."""
        while True:
            event = self.events.next(timeout=WAIT)
            if isinstance(event, Happened) and event.topic == topic:
                data = dict(event.data)
                if self.name in (data.get("session_id"), data.get("name")):
                    return data

    def receipts(self, count: int) -> list[str]:
        return [self.told("verify/receipt")["state"] for _ in range(count)]

    def close(self) -> None:
        self.events.close()
        self._lines.close()
        self._socket.close()


class Working:
    """A terminal session with an agent, alone or below a shell."""

    def __init__(self, hosting: Hosting, place: Path, name: str, *, in_shell: bool = False) -> None:
        self._hosting = hosting
        self.place = place
        self.name = name
        command = [sys.executable, str(place / "agent.py"), str(place)]
        program = ["bash", "--norc", "--noprofile", "-i"] if in_shell else command
        hosting.run("start", name, "-d", "--cwd", str(place), "--", *program)
        if in_shell:
            self.type(" ".join(command))
        hosting.wait_text(name, "ready")

    def type(self, text: str) -> None:
        self._hosting.run("send", self.name, text, "-k", "enter")

    def wait(self, text: str) -> None:
        self._hosting.wait_text(self.name, text)

    @property
    def typed(self) -> bytes:
        return (self.place / "typed").read_bytes()

    @property
    def lines(self) -> int:
        return (self.place / "transcript.jsonl").read_bytes().count(b"\n")


@pytest.fixture
def verifiers() -> Iterator[list[Verifier]]:
    made: list[Verifier] = []
    yield made
    for each in made:
        each.close()


def test_an_agent_in_a_terminal_is_checked_and_sent_back_like_any_other(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "work")
    verifiers.append(verifier := Verifier(hosting, "work"))
    assert verifier.prompt("too soon") == "there is no turn to correct yet"
    work.type("build it")
    start, stop = verifier.next(), verifier.next()
    assert (start["name"], start["turnIndex"], start["userPrompt"]) == ("start", 1, "build it")
    assert (stop["name"], stop["sessionFileStartLine"], stop["sessionFileEndLine"]) == ("stop", 1, 2)
    assert verifier.told("terminal/turn-began")["agent"] == "claude"
    assert verifier.told("terminal/turn-ended")["turn"] == 1
    work.wait("turn 1 done")

    before = len(work.typed)
    assert verifier.prompt(LONG) == ""
    assert verifier.receipts(2) == ["typed", "started"]
    corrected = verifier.next()  # no start: it is the same turn
    assert (corrected["name"], corrected["turnIndex"], corrected["userPrompt"]) == ("stop", 1, "build it")
    assert (corrected["sessionFileStartLine"], corrected["sessionFileEndLine"]) == (1, work.lines)
    assert work.typed[before:] == f"\x1b[200~{LONG}\x1b[201~\r".encode()
    work.wait("turn 2 done")

    verifier.send(
        "report", sessionId="work", turnIndex=1, status="failed", summary="no", sections={}, raw="no"
    )
    assert verifier.told("verify/report")["confidence"] == "feedback"
    listed = hosting.run("ls").stdout
    assert "CHECK" in listed.splitlines()[0]
    assert next(line for line in listed.splitlines() if line.startswith("work ")).split()[2] == "feedback"
    assert hosting.sessions()["work"]["verdict"]["summary"] == "no"

    assert verifier.prompt("once more") == ""
    assert verifier.next()["name"] == "stop"
    assert verifier.prompt("and again") == "max loops exceeded"
    assert verifier.told("verify/escalated")["turn"] == 1
    listed = hosting.run("ls").stdout
    assert next(line for line in listed.splitlines() if line.startswith("work ")).split()[2] == "feedback!"
    work.wait("turn 3 done")

    work.type("now this")  # a person: the count begins anew, and they have seen it
    start = verifier.next()
    assert (start["name"], start["turnIndex"], start["userPrompt"]) == ("start", 2, "now this")
    assert start["sessionFileStartLine"] == 7
    assert verifier.next()["name"] == "stop"
    assert not hosting.sessions()["work"]["verdict"]["escalated"]
    assert verifier.prompt("better") == ""


def test_a_correction_waits_while_the_agent_works_and_outlives_the_daemon(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "waits")
    verifiers.append(verifier := Verifier(hosting, "waits"))
    (place / "hold").touch()
    work.type("build it")
    assert verifier.next()["name"] == "start"
    assert verifier.prompt("later") == ""
    assert verifier.receipts(1) == ["queued"]
    assert b"later" not in work.typed
    hosting.kill_daemon()
    hosting.run("ls")
    verifiers.append(verifier := Verifier(hosting, "waits", since=0))
    assert verifier.next()["name"] == "start"  # it is told what there was, and the turn runs on
    (place / "hold").unlink()
    stop = verifier.next()
    assert (stop["name"], stop["turnIndex"]) == ("stop", 1)
    assert verifier.receipts(2) == ["typed", "started"]
    assert verifier.next()["turnIndex"] == 1
    assert work.typed.endswith(b"\x1b[200~later\x1b[201~\r")
    # corrections count, whichever daemon took them
    assert verifier.prompt("two") == ""
    assert verifier.next()["name"] == "stop"
    assert verifier.prompt("three") == "max loops exceeded"


def test_a_second_correction_is_not_typed_into_the_first(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "both")
    verifiers.append(verifier := Verifier(hosting, "both"))
    work.type("build it")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    assert (verifier.prompt("first"), verifier.prompt("second")) == ("", "")
    assert verifier.prompt("third") == "max loops exceeded"
    assert [verifier.next()["name"] for _ in range(2)] == ["stop", "stop"]
    assert work.typed.endswith(b"\x1b[200~first\x1b[201~\r\x1b[200~second\x1b[201~\r")


def test_nothing_is_typed_into_another_program(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "shell", in_shell=True)
    verifiers.append(verifier := Verifier(hosting, "shell"))
    work.type("build it")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    work.wait("turn 1 done")
    work.type("exit")
    work.wait("bye")
    hosting.until(
        lambda: "the program in the foreground is bash, not the python" in verifier.prompt("rm -rf x")
    )
    work.type("cat > eaten; echo over")
    hosting.until(
        lambda: "the program in the foreground is cat, not the python" in verifier.prompt("rm -rf x")
    )
    hosting.run("send", "shell", "-k", "C-d")
    work.wait("over")
    assert "rm -rf" not in hosting.screen("shell")
    assert (place / "eaten").read_bytes() == b""
    # the same program started again is another one, until it tells of a turn
    work.type(f"{sys.executable} {place}/agent.py {place}")
    work.wait("ready\n")
    hosting.until(lambda: "not the python" in verifier.prompt("rm -rf x"))
    work.type("again")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    assert verifier.prompt("now it is") == ""


def test_an_agent_that_has_ended_is_not_typed_to(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "ended")
    verifiers.append(verifier := Verifier(hosting, "ended"))
    work.type("build it")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    work.wait("turn 1 done")
    work.type("exit")
    hosting.run("wait", "ended", "--exit", "--timeout", "20", check=False)
    assert verifier.prompt("hello?") == "the session is ended"


def test_a_correction_that_waits_is_refused_if_its_agent_ends_with_the_turn(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "quits", in_shell=True)
    verifiers.append(verifier := Verifier(hosting, "quits"))
    (place / "hold").touch()
    work.type("quit")
    assert verifier.next()["name"] == "start"
    assert verifier.prompt("touch evil") == ""
    (place / "hold").unlink()
    assert verifier.next()["name"] == "stop"
    assert verifier.told("verify/receipt")["state"] == "queued"
    refused = verifier.told("verify/receipt")
    assert refused["state"] == "refused"
    assert "the program in the foreground is bash, not the python" in refused["reason"]
    assert "evil" not in hosting.screen("quits")


def test_a_stop_while_no_daemon_is_there_is_told_to_the_next(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "gap")
    verifiers.append(verifier := Verifier(hosting, "gap"))
    (place / "hold").touch()
    work.type("build it")
    assert verifier.next()["name"] == "start"
    hosting.kill_daemon()
    (place / "hold").unlink()
    work.wait("turn 1 done")
    verifiers.append(verifier := Verifier(hosting, "gap", since=0))
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]


def test_an_agent_that_tells_only_of_the_end_has_turns_too(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    said = {"type": "agent-turn-complete", "input-messages": ["one", "rename it"], "turn-id": "1"}
    (place / "said.json").write_text(json.dumps(said))
    hook = f'{sys.executable} -m fairlead hook codex "$(cat {place}/said.json)"'
    hosting.start("notify", f"read go; {hook}; echo told; cat", "--cwd", str(place))
    verifiers.append(verifier := Verifier(hosting, "notify"))
    hosting.run("send", "notify", "-k", "enter")
    start, stop = verifier.next(), verifier.next()
    assert (start["name"], start["turnIndex"], start["userPrompt"]) == ("start", 1, "rename it")
    assert (stop["name"], stop["turnIndex"]) == ("stop", 1)
    assert verifier.told("terminal/turn-ended")["agent"] == "codex"


def test_an_error_of_the_agent_is_told_and_it_can_be_sent_back(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "broken")
    verifiers.append(verifier := Verifier(hosting, "broken"))
    work.type("break")
    start, error = verifier.next(), verifier.next()
    assert (start["name"], error["name"], error["detail"]) == ("start", "error", "rate limit")
    work.wait("turn 1 done")
    assert verifier.prompt("try again") == ""
    assert verifier.receipts(2) == ["typed", "started"]
    assert verifier.next()["name"] == "stop"


def test_a_new_session_does_not_inherit_what_was_said_of_one_with_its_name(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "again")
    verifiers.append(verifier := Verifier(hosting, "again"))
    work.type("build it")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    verifier.send(
        "report", sessionId="again", turnIndex=1, status="verified", summary="ok", sections={}, raw="ok"
    )
    verifier.told("verify/report")
    assert hosting.sessions()["again"]["verdict"]["confidence"] == "verified"
    hosting.kill_daemon()
    hosting.until(lambda: "again" in hosting.sessions())
    assert hosting.sessions()["again"]["verdict"]["confidence"] == "verified"
    hosting.run("stop", "again")
    hosting.start("again", "sleep 60", "--cwd", str(place))
    assert "verdict" not in hosting.sessions()["again"]
    hosting.kill_daemon()
    hosting.until(lambda: "again" in hosting.sessions())
    assert "verdict" not in hosting.sessions()["again"]


# --- calling it -------------------------------------------------------------------------------------------


def called(hosting: Hosting, given: bytes, *words: str, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "hook", "-v", *words],
        env={**hosting.environment, **environment},
        input=given,
        capture_output=True,
        timeout=WAIT,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode().strip()


def test_outside_of_a_session_it_does_nothing(hosting: Hosting) -> None:
    stop = b'{"hook_event_name": "Stop"}'
    assert called(hosting, stop, "claude") == (0, "", "fairlead hook: not in a Fairlead session")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (b"{nonsense", "JSONDecodeError"),
        (b"", "JSONDecodeError"),
        (b"\xff\xfe", "DecodeError"),
        (b"[1, 2]", "the hook's JSON is not an object"),
        (b'{"hook_event_name": "PreToolUse"}', "PreToolUse is no event that matters"),
        (b'{"hook_event_name": "Stop"}', "no session"),
    ],
)
def test_whatever_is_wrong_it_never_fails_the_agent(hosting: Hosting, given: bytes, why: str) -> None:
    code, printed, told = called(hosting, given, "claude", FAIRLEAD_SESSION="nobody", LC_ALL="C.UTF-8")
    assert (code, printed) == (0, "")
    assert why in told


def test_without_a_daemon_it_never_fails_the_agent(hosting: Hosting, tmp_path: Path) -> None:
    stop = b'{"hook_event_name": "Stop"}'
    away = {"FAIRLEAD_SESSION": "work", "XDG_RUNTIME_DIR": str(tmp_path)}
    code, _, told = called(hosting, stop, "claude", **away)
    assert (code, "no daemon is running" in told) == (0, True)
    assert not list(tmp_path.iterdir())


# --- installing -------------------------------------------------------------------------------------------


def install(hosting: Hosting, *words: str, **places: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fairlead", "hook", "--install", *words],
        env={**hosting.environment, **places},
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )


def test_what_would_be_added_can_be_printed(hosting: Hosting, tmp_path: Path) -> None:
    done = install(hosting, "claude", "--print", CLAUDE_CONFIG_DIR=str(tmp_path))
    hooks = json.loads(done.stdout)["hooks"]
    assert sorted(hooks) == ["Stop", "UserPromptSubmit"]
    assert hooks["Stop"][0]["hooks"][0]["command"] == "fairlead hook claude"
    done = install(hosting, "codex", "--print", CODEX_HOME=str(tmp_path))
    assert tomllib.loads(done.stdout)["hooks"]["Stop"][0]["hooks"][0]["command"] == "fairlead hook codex"
    assert list(tmp_path.iterdir()) == []
    assert install(hosting, "vim").returncode == 2


def test_hooks_are_added_to_the_settings_of_claude_once(hosting: Hosting, tmp_path: Path) -> None:
    places = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    path = tmp_path / "claude/settings.json"
    assert install(hosting, "claude", **places).returncode == 0
    assert sorted(json.loads(path.read_text())["hooks"]) == ["Stop", "UserPromptSubmit"]

    own = {"hooks": [{"type": "command", "command": "say done"}]}
    real = tmp_path / "dotfiles.json"
    before = json.dumps({"model": "opus", "hooks": {"Stop": [own], "Other": []}, "ü": "ö"})
    real.write_text(before)
    real.chmod(0o640)
    path.unlink()
    path.symlink_to(real)
    done = install(hosting, "claude", **places)
    assert done.returncode == 0, done.stderr
    after = json.loads(real.read_text())
    assert path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert (after["model"], after["ü"], after["hooks"]["Other"], after["hooks"]["Stop"][0]) == (
        "opus",
        "ö",
        [],
        own,
    )
    assert after["hooks"]["Stop"][1]["hooks"][0]["command"] == "fairlead hook claude"
    assert Path(f"{real}.before-fairlead").read_text() == before
    text = real.read_text()
    assert "has them already" in install(hosting, "claude", **places).stdout
    assert real.read_text() == text


def test_hooks_are_added_to_the_configuration_of_codex_once(hosting: Hosting, tmp_path: Path) -> None:
    places = {"CODEX_HOME": str(tmp_path)}
    path = tmp_path / "config.toml"
    path.write_text('# mine\nmodel = "gpt"\n\n[tui]\ntheme = "dark"\n')
    assert install(hosting, "codex", **places).returncode == 0
    text = path.read_text()
    after = tomllib.loads(text)
    assert text.startswith('# mine\nmodel = "gpt"\n')
    assert (after["model"], after["tui"], sorted(after["hooks"])) == (
        "gpt",
        {"theme": "dark"},
        ["Stop", "UserPromptSubmit"],
    )
    assert "has them already" in install(hosting, "codex", **places).stdout
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("claude", "settings.json", "{broken"),
        ("claude", "settings.json", "[1]"),
        ("claude", "settings.json", '{"hooks": [1]}'),
        ("claude", "settings.json", '{"hooks": {"Stop": {"command": "x"}}}'),
        ("codex", "config.toml", "[broken"),
        ("codex", "config.toml", 'hooks = "mine"\n'),
    ],
)
def test_settings_that_make_no_sense_are_left_as_they_are(
    hosting: Hosting, tmp_path: Path, agent: str, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    done = install(hosting, agent, CLAUDE_CONFIG_DIR=str(tmp_path), CODEX_HOME=str(tmp_path))
    assert (done.returncode, "can't be changed" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [(name, text)]
