"""psi's own Emacs UI drives `fairlead rpc`. Its source is looked for beside us and is never a part of us:
in `$FAIRLEAD_PSI_UI`, else in the cache directory `fairlead/peers/psi/components/emacs-ui`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hosted.small import SmallHosting
from tests.hosting import WAIT, Hosting

pytestmark = pytest.mark.peers

TALK = Path(__file__).with_name("psi_ui.el")
NO_IDLE_TIMERS = (
    "(advice-add 'run-with-idle-timer :override"
    " (lambda (seconds _repeat function &rest values) (apply #'run-at-time seconds nil function values)))"
)
"""In batch mode Emacs is never idle, so timers that wait for it run as others do."""


@pytest.fixture
def ui() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    given = os.environ.get("FAIRLEAD_PSI_UI") or f"{cache}/fairlead/peers/psi/components/emacs-ui"
    if not Path(given, "psi.el").is_file():
        pytest.skip(f"psi's UI is not at {given}: check out davidwuchn/psi and set FAIRLEAD_PSI_UI")
    return Path(given)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    (place / "notes.txt").write_text("buy milk\n")
    subprocess.run(["git", "init", "-q", "-b", "main", str(place)], check=True)
    return place


@pytest.fixture
def emacs(peer: Callable[[str], str]) -> str:
    return peer("emacs")


def environment(hosting: Hosting) -> dict[str, str]:
    return {**hosting.environment, "LANG": "C.UTF-8"}


def talked(hosting: Hosting, emacs: str, ui: Path, project: Path, steps: str, choices: str = "()") -> str:
    """What the UI has shown in a dialogue."""
    backend = " ".join(json.dumps(word) for word in (sys.executable, "-m", "fairlead", "rpc"))
    lisp = f"(progn (setq talk-backend '({backend}) talk-choices '{choices}) (talk {steps}))"
    done = subprocess.run(
        [emacs, "-Q", "--batch", "-L", str(ui), "-l", str(TALK), "--eval", lisp],
        env=environment(hosting),
        cwd=project,
        capture_output=True,
        text=True,
        timeout=2 * WAIT,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_psis_own_end_to_end_test_passes(hosting: Hosting, emacs: str, ui: Path, project: Path) -> None:
    programs = hosting.directory / "bin"
    programs.mkdir()
    psi = programs / "psi"
    psi.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fairlead "$@"\n')
    psi.chmod(0o755)
    words = ["-L", str(ui), "-l", str(ui / "test/psi-e2e-test.el"), "-f", "psi-e2e-run"]
    done = subprocess.run(
        [emacs, "-Q", "--batch", "--eval", NO_IDLE_TIMERS, *words],
        env={**environment(hosting), "PATH": f"{programs}:{hosting.environment['PATH']}"},
        cwd=project,
        capture_output=True,
        text=True,
        timeout=2 * WAIT,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "psi-emacs-e2e:ok"), done.stderr


def test_a_dialogue_shows_each_thing_once_and_every_picker_works(
    hosting: Hosting, emacs: str, ui: Path, project: Path
) -> None:
    shown = talked(
        hosting,
        emacs,
        ui,
        project,
        """
        '("read notes.txt" "Done: read")
        '("run: echo hi" "Done: run")
        '("/new" "[New session started]")
        '("help" "I am the offline guide")
        '("/model" "Model set to offline replay")
        '("/thinking" "Thinking level set to high")
        '("/tree" "Done: run" "help [" "← current [waiting]")
        '("/tree" "Cancelled select-session.")
        '("/worktree" "[main]")
        '("/status" "Worktree:")
        """,
        '("Allow" "offline replay" "high" "run: echo" quit)',
    )
    read = shown.partition('=== "read notes.txt"')[2].partition('=== "run: echo hi"')[0]
    assert read.count("I will read `notes.txt`.") == 1
    assert read.count("Done: read `notes.txt`.") == 1
    assert '$ echo hi\nAllow bash? ("Allow" "Always allow this" "Deny")' in shown
    switched = shown.partition('=== "/tree"')[2].partition('=== "/tree"')[0]
    assert switched.count("Done: read `notes.txt`.") == 1
    assert "⎇ read notes.txt" in shown  # a place to fork at


def test_what_a_third_party_agent_says_while_a_tool_runs_is_shown_once(emacs: str, ui: Path) -> None:
    hosting = SmallHosting("resume")
    try:
        hosting.open("psi")
        hosting.say("hello", "psi")
        hosting.wait_idle("psi")
        steps = """'("red green amid grey amid" "grey ")"""
        told = talked(hosting, emacs, ui, hosting.project, steps).partition('grey amid"\n')[2]
        assert [told.count(text) for text in ("red green ", "meanwhile", "grey ")] == [
            2,
            2,
            2,
        ]  # and the prompt
    finally:
        hosting.close()


def shown(hosting: Hosting, emacs: str, ui: Path, project: Path) -> None:
    """Start Emacs with the UI in a terminal session, and wait until it is ready."""
    backend = " ".join(json.dumps(word) for word in (sys.executable, "-m", "fairlead", "rpc"))
    words = [emacs, "-nw", "-Q", "-L", str(ui), "-l", "psi"]
    words += ["--eval", f"(setq psi-emacs-command '({backend}))", "-f", "psi-emacs-start"]
    words += ["-f", "delete-other-windows"]
    script = f"cd {shlex.quote(str(project))} && LANG=C.UTF-8 exec {shlex.join(words)}"
    hosting.start("emacs", script)
    hosting.wait_text("emacs", "(offline) guide")


def say(hosting: Hosting, text: str) -> None:
    hosting.run("send", "emacs", text)
    hosting.run("send", "emacs", "-k", "C-c", "-k", "Enter")


def answer(hosting: Hosting, word: str) -> None:
    """Answer the question that waits."""
    hosting.wait_text("emacs", "Allow bash?")
    hosting.run("send", "emacs", word, "-k", "Enter")


def test_what_a_person_was_typing_is_no_consent_and_what_will_happen_is_in_view(
    hosting: Hosting, emacs: str, ui: Path, project: Path
) -> None:
    shown(hosting, emacs, ui, project)
    say(
        hosting,
        "run: touch first; " + "; ".join(f"echo step {number}" for number in range(40)) + "; touch last",
    )
    hosting.wait_text("emacs", "Allow bash?")
    screen = hosting.screen("emacs").replace("\\\n", "").replace("\n", "")  # lines are wrapped
    assert "$ touch first; echo step 0" in screen
    assert "characters are hidden here" in screen
    assert "touch last" in screen
    assert "fairlead approvals show" in screen
    assert "it runs a command" in screen
    hosting.run("send", "emacs", "a yes is a yes, my yard and so on", "-k", "Enter", "-k", "Enter")
    hosting.wait_text("emacs", "Allow bash?")
    assert not (project / "first").exists()
    hosting.run("send", "emacs", "-k", "C-g")
    hosting.wait_text("emacs", "denied: no consent to bash")
    say(hosting, "run: touch second")
    hosting.wait_text("emacs", "Allow bash?")
    hosting.run("send", "emacs", "-k", "Enter")
    hosting.wait_text("emacs", "no consent to bash: $ touch second")
    assert not (project / "second").exists()
    say(hosting, "run: touch third")
    answer(hosting, "Always allow this")
    hosting.wait_text("emacs", "Done: run `touch third`")
    say(hosting, "run: touch third")
    hosting.wait_text("emacs", "Done: run `touch third`")
    assert (project / "third").exists()


def test_emacs_on_a_terminal_shows_a_turn_and_an_abort(
    hosting: Hosting, emacs: str, ui: Path, project: Path
) -> None:
    shown(hosting, emacs, ui, project)
    say(hosting, "read notes.txt")
    hosting.wait_text("emacs", "Done: read")
    screen = hosting.screen("emacs").replace("\\\n", "")  # lines are wrapped
    assert screen.count("I will read") == 1
    assert "/project (main)" in screen
    say(hosting, "run: sleep 60")
    answer(hosting, "Allow")
    hosting.wait_text("emacs", "sleep 60 running")
    hosting.run("send", "emacs", "-k", "C-c", "-k", "C-k")
    hosting.wait_text("emacs", "[error] Aborted")


def test_emacs_goes_on_when_the_daemon_is_killed_at_a_dialog_and_in_the_first_turn(
    hosting: Hosting, emacs: str, ui: Path, project: Path
) -> None:
    shown(hosting, emacs, ui, project)
    say(hosting, "run: echo h$((1+1))i")
    hosting.wait_text("emacs", "Allow bash?")
    for _ in range(2):
        hosting.kill_daemon()
    answer(hosting, "Deny")  # once is enough
    hosting.wait_text("emacs", "denied")
    say(hosting, "run: sleep 61")
    answer(hosting, "Allow")
    hosting.wait_text("emacs", "sleep 61 running")
    hosting.kill_daemon()
    hosting.wait_text("emacs", "[error] interrupted: the daemon ended before the turn did")
    say(hosting, "read notes.txt")
    hosting.wait_text("emacs", "Done: read")


def test_two_questions_are_asked_one_after_the_other_and_what_is_said_elsewhere_is_shown(
    hosting: Hosting, emacs: str, ui: Path, project: Path
) -> None:
    shown(hosting, emacs, ui, project)
    say(hosting, "read notes.txt")
    hosting.wait_text("emacs", "Done: read")
    beside = hosting.ask("open_session", cwd=str(project))["session_id"]
    listed = hosting.ask("list_sessions")["sessions"]
    [own] = {each["session_id"] for each in listed} - {beside}
    hosting.run("send", own, "run: touch first")
    hosting.wait_text("emacs", "User: run: touch first")
    hosting.wait_text("emacs", "Allow bash?")
    hosting.run("send", beside, "run: touch second")
    hosting.until(lambda: "touch second" in hosting.run("approvals").stdout)
    hosting.run("send", "emacs", "Allow", "-k", "Enter")
    hosting.until((project / "first").exists)
    hosting.wait_text("emacs", "Done: run `touch first`")
    hosting.run("send", "emacs", "-k", "C-e")  # Emacs opens the next one when a key was pressed
    answer(hosting, "Allow")
    hosting.until((project / "second").exists)
