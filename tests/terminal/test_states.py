"""What programs in terminals do by their processes and by what they tell, without rules for their screens."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.terminal.screen.screen import Screen
from fairlead.terminal.state.rules import AgentRules, live_view
from tests.hosting import WAIT, Hosting
from tools.states import recordings


def state(hosting: Hosting, name: str = "work") -> dict[str, Any]:
    activity: dict[str, Any] = hosting.ask("session_state", name=name)["session"]["activity"]
    return activity


def until(hosting: Hosting, wanted: str, name: str = "work") -> dict[str, Any]:
    hosting.until(lambda: state(hosting, name)["state"] == wanted)
    return state(hosting, name)


@pytest.mark.parametrize("shell", ["bash --norc -i", "sh -i"])
def test_a_shell_is_idle_at_its_prompt_and_works_while_a_command_runs(lent: Hosting, shell: str) -> None:
    lent.run("start", "work", "-d", "--", *shell.split())
    found = until(lent, "idle")
    assert found["seen"]
    assert found["evidence"]["words"]
    lent.run("send", "work", "sleep 60", "-k", "Enter")
    found = until(lent, "working")
    assert "sleep" in found["evidence"]["words"]
    lent.run("send", "work", "-k", "C-c")
    found = until(lent, "idle")
    assert not found["seen"]


def test_a_program_that_reads_its_terminal_waits_and_its_last_line_is_the_question(lent: Hosting) -> None:
    lent.start("work", 'read -p "Overwrite the file? " answer; sleep 60')
    lent.until(lambda: state(lent)["question"] == "Overwrite the file?")
    found = until(lent, "waits")
    assert found["evidence"]["source"] == "process"
    assert "waits for: Overwrite the file?" in lent.run("state", "work").stdout
    lent.run("send", "work", "yes", "-k", "Enter")
    until(lent, "working")


def test_a_menu_is_asked_with_its_choices(lent: Hosting) -> None:
    lent.start("work", 'echo "Which bed?"; echo "1) rose"; echo "2) tulip"; read -p "#? " answer')
    lent.until(lambda: state(lent)["question"] == "Which bed? · 1) rose · 2) tulip · #?")
    until(lent, "waits")


def test_a_question_of_the_shell_itself_is_told_as_a_whole(lent: Hosting) -> None:
    question = "Which bed should be dug over first, the one beside the pond, or the one below the pear tree?"
    lent.run("start", "work", "-d", "--", "bash", "--norc")
    until(lent, "idle")
    lent.run("send", "work", f"clear; read -p '{question} ' answer", "-k", "Enter")
    lent.until(lambda: state(lent)["question"] == question)
    evidence = until(lent, "waits")["evidence"]
    assert (evidence["source"], evidence["rule"]) == ("screen", "asks")
    lent.run("send", "work", "-k", "Enter")
    until(lent, "idle")
    lent.run("send", "work", "clear; select bed in rose tulip; do break; done", "-k", "Enter")
    lent.until(lambda: state(lent)["question"] == "1) rose · 2) tulip · #?")


def test_a_script_of_a_shell_has_no_rules_for_shells(lent: Hosting) -> None:
    lent.start("work", "printf 'roses $ '; while :; do :; done")
    lent.wait_text("work", "roses $")
    lent.run("send", "work", "-k", "Enter")
    assert until(lent, "working")["evidence"]["source"] == "process"


PROGRAMS = {
    "less": "#!/bin/sh\nprintf 'Which of the roses?'; read key",
    "man": "#!/bin/sh\n{place}/less\ntrue",
    "edit": "#!/bin/sh\nprintf '\\033[?1049hWhich of the roses?'; read key",
}
"""Small programs that have the names or the manners of others."""


@pytest.mark.parametrize("command", ["cat", "less", "man", "edit", "sh -c 'man; true'"])
def test_what_only_reads_its_terminal_reads_and_needs_nobody(
    lent: Hosting, tmp_path: Path, command: str
) -> None:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text.format(place=tmp_path))
        (tmp_path / name).chmod(0o755)
    path = f"PATH={tmp_path}:{os.environ['PATH']}"
    lent.run("start", "work", "-d", "--", "env", path, *shlex.split(command))
    lent.until(lambda: "reads its terminal for " in lent.run("state", "work").stdout)
    found = state(lent)
    assert (found["state"], found["question"]) == ("unknown", "")
    assert found["evidence"]["words"].endswith(" reads its terminal")
    assert " reads " in lent.run("ls", "work").stdout
    assert lent.run("next", "--print", check=False).returncode == 1


def test_what_nothing_is_known_of_is_unknown(lent: Hosting) -> None:
    lent.start("work", "exec python3 -c 'import select; print(\"up\"); select.select([0], [], [])'")
    lent.wait_text("work", "up")
    found = until(lent, "unknown")
    assert found["evidence"] is None
    assert "because: nothing says what it does" in lent.run("state", "work").stdout


def test_progress_is_believed_until_the_program_reads_its_terminal(lent: Hosting) -> None:
    progress = "import time; print('\\033]9;4;3\\007')"
    lent.run("start", "work", "-d", "--", "python3", "-c", f"{progress}; time.sleep(60)")
    lent.until(lambda: (state(lent)["evidence"] or {}).get("source") == "osc")
    assert state(lent)["state"] == "working"
    assert "osc is stronger" in lent.run("state", "work", "--explain").stdout
    lent.run("start", "two", "-d", "--", "python3", "-c", f"{progress}; input('Delete all? ')")
    assert until(lent, "waits", "two")["question"] == "Delete all?"
    assert "the process shows something else: waits" in lent.run("state", "two", "--explain").stdout


@pytest.mark.parametrize(
    "said", ["133;C", "133;A", "9;4;3", "9;needs your permission", "777;notify;x;approval is needed"]
)
def test_what_a_file_says_to_the_terminal_hides_no_question_and_asks_none(lent: Hosting, said: str) -> None:
    lent.run("start", "work", "-d", "--", "bash", "--norc")
    until(lent, "idle")
    lent.run("send", "work", f"printf '\\033]{said}\\007'", "-k", "Enter")
    lent.run("send", "work", "python3 -c 'input(\"Delete all? \")'", "-k", "Enter")
    lent.until(lambda: state(lent)["question"] == "Delete all?")
    lent.run("send", "work", "-k", "Enter")
    until(lent, "idle")


def test_a_program_that_has_ended_has_ended(lent: Hosting) -> None:
    lent.start("work", "exit 3")
    assert until(lent, "ended")["evidence"]["words"] == "exit 3"


def test_what_is_known_survives_the_daemon(lent: Hosting) -> None:
    lent.run("start", "work", "-d", "--", "bash", "--norc")
    since = until(lent, "idle")["since"]
    kept = lent.log_path.parent / "activity.json"
    lent.until(lambda: kept.exists() and b'"idle"' in kept.read_bytes())
    lent.kill_daemon()
    found = until(lent, "idle")
    assert found["since"] == pytest.approx(since, abs=2.0)


TINY = """
agent = "tiny"
version = 7
programs = ["tiny-agent"]

[rows]
prompt = '^>( |$)'
option = '^ [*-] '
spinner = '^~ '

[[rule]]
name = "dialog"
state = "waits"
shape = "line <any> option+"

[[rule]]
name = "spins"
state = "working"
shape = "<spinner> =prompt"

[[rule]]
name = "input"
state = "idle"
shape = "line <=prompt>"
"""
AGENT = """#!/usr/bin/env python3
import shutil, sys
LINE = "─" * shutil.get_terminal_size().columns
SCREENS = {
    "i": f"{LINE}\\n> ",
    "w": "~ thinking\\n> ",
    "d": f"{LINE}\\n  Run make?\\n * Yes\\n - No",
    "p": f"{LINE}\\n  Run make?\\n * Yes\\n - No\\nis what a dialog looks like\\n{LINE}\\n> ",
    "x": "nothing that is known",
}
import tty
tty.setcbreak(0)
key = "i"
while True:
    sys.stdout.write("\\033[2J\\033[H" + SCREENS[key].replace("\\n", "\\r\\n"))
    sys.stdout.flush()
    key = sys.stdin.read(1)
"""


@pytest.fixture
def tiny(lent: Hosting) -> Iterator[Hosting]:
    """A daemon with a session of a small agent, whose rules are a user's own."""
    place = lent.directory / "home/.config/fairlead/rules"
    place.mkdir(parents=True, exist_ok=True)
    (place / "tiny.toml").write_text(TINY)
    (place / "bad.toml").write_text("agent = 3")
    program = lent.directory / "tiny-agent"
    program.write_text(AGENT)
    program.chmod(0o755)
    lent.run("start", "work", "-d", "--", str(program))
    until(lent, "idle")
    yield lent
    shutil.rmtree(place)


def test_a_users_rules_read_the_state_off_the_screen(tiny: Hosting) -> None:
    found = until(tiny, "idle")
    evidence = found["evidence"]
    assert (evidence["source"], evidence["rule"], evidence["version"]) == ("screen", "input", "7")
    assert "bad.toml: agent: expected a text" in tiny.log()
    tiny.run("send", "work", "w")
    until(tiny, "working")
    tiny.run("send", "work", "d")
    assert until(tiny, "waits")["question"] == "Run make?"
    tiny.run("send", "work", "p")
    found = until(tiny, "idle")
    assert not found["seen"]
    tiny.run("send", "work", "x")
    until(tiny, "unknown")
    tiny.run("send", "work", "i")
    until(tiny, "idle")


def test_a_recording_shows_what_a_session_does_for_a_rule(tiny: Hosting, tmp_path: Path) -> None:
    tiny.run("send", "work", "d")
    until(tiny, "waits")
    path = tmp_path / "dialog.cast"
    done = tiny.run("state", "work", "--record", str(path), "--as", "waits", "--seconds", "0.3")
    assert done.stdout.strip() == str(path)
    header, events, (label,) = recordings.read(path)
    assert (label.state, label.what) == ("waits", "work")
    screen = Screen(header.cols, header.rows)
    for event in events:
        if event.code == "o":
            screen.feed(event.data.encode())
    rules = AgentRules(tomllib.loads(TINY), "tiny.toml")
    found = rules.look(live_view(screen))
    assert found is not None
    assert found.rule == "dialog"
    assert tiny.run("state", "work", "--record", str(path), "--as", "waits", check=False).returncode == 1
    assert tiny.run("state", "work", "--as", "waits", check=False).returncode == 2
    assert tiny.run("state", "work", "--record", "x.cast", "--as", "asleep", check=False).returncode == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_recording_that_is_ended_by_a_signal_has_ended(lent: Hosting, tmp_path: Path, number: int) -> None:
    lent.start("work", "sleep 600")
    path = tmp_path / "cut.cast"
    words = [*lent.command, "state", "work", "--record", str(path), "--as", "working", "--seconds", "600"]
    recording = subprocess.Popen(words, env=lent.environment, stdout=subprocess.PIPE, text=True)
    lent.until(lambda: bool(lent.ask("session_state", name="work")["session"]["recording"]))
    recording.send_signal(number)
    assert recording.communicate(timeout=WAIT)[0].strip() == str(path)
    assert recording.returncode == 128 + number
    assert not lent.ask("session_state", name="work")["session"]["recording"]
    _, _, (label,) = recordings.read(path)
    assert label.state == "working"
