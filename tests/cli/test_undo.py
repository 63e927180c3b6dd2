"""`fairlead undo` of what an agent's turn changed, with a daemon."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from fairlead.cli.undo import MAX_SHOWN
from tests.cli.talking import person
from tests.hosting import WAIT, Hosting
from tests.verify.projects import git, repository, write


def test_an_agents_turn_is_shown_undone_and_done_again(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    hosting = Hosting()
    try:
        words = ("agent", "-n", "garden", "-C", str(project), "--yes", "-p")
        hosting.run(*words, "say: hello")
        hosting.run(*words, "write out.txt: hello")
        assert (project / "out.txt").exists()
        dry = hosting.run("undo", "garden", "--dry-run").stdout
        assert dry == "- out.txt\n"
        assert (project / "out.txt").exists()
        hosting.run("daemon", "restart")
        told = json.loads(hosting.run("undo", "garden", "-y", "--json").stdout)
        assert [each["action"] for each in told["files"]] == ["remove"]
        assert not (project / "out.txt").exists()
        assert git(project, "status", "--porcelain") == ""
        nothing = hosting.run("undo", "garden", "-y", check=False)
        assert (nothing.returncode, "nothing to undo" in nothing.stderr) == (1, True)
        hosting.run("undo", "garden", "--redo", "-y")
        write(project, "out.txt", "mine\n")
        refused = hosting.run("undo", "garden", "-y", check=False)
        assert "changed since: out.txt" in refused.stderr
        assert (project / "out.txt").read_text() == "mine\n"
        hosting.run("undo", "garden", "-y", "-f")
        assert not (project / "out.txt").exists()
    finally:
        hosting.close()


def test_the_hook_of_an_agent_in_a_terminal_returns_when_its_files_are_known(
    lent: Hosting, tmp_path: Path
) -> None:
    project = repository(tmp_path / "project")
    lent.start("roses", "exec cat", "--cwd", str(project))
    lent.ask("terminal_turn", name="roses", event="start", agent="claude", prompt="do it")
    write(project, "a.py", "agent\n")
    lent.ask("terminal_turn", name="roses", event="stop", agent="claude", prompt="do it")
    assert lent.run("undo", "roses", "--dry-run").stdout == "~ a.py\n"
    lent.run("undo", "roses", "-y")
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"


def test_what_was_not_recorded_or_compared_is_never_called_no_change(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    hosting = Hosting()
    try:
        hosting.start("two words", "exec cat", "--cwd", str(project))
        turn = {"name": "two words", "agent": "claude", "prompt": "do it"}
        hosting.ask("terminal_turn", event="start", **turn)
        with open(project / "large.bin", "wb") as file:
            file.truncate(33 * 1024 * 1024)
        hosting.ask("terminal_turn", event="stop", **turn)
        undo = hosting.run("undo", "two words", "-y", check=False)
        assert "what changed in large.bin was not recorded" in undo.stderr
        diff = hosting.run("diff", "two words").stderr.splitlines()
        assert diff == [
            "not compared, too large or repositories of their own: large.bin",
            "two words has changed nothing besides",
        ]
        hosting.ask("terminal_turn", event="start", **turn)
        write(project, "a.py", "agent\n")
        hosting.kill_daemon()
        hosting.ask("terminal_turn", event="stop", **turn)
        dry = hosting.run("undo", "two words", "--dry-run")
        assert "~ a.py\n" in dry.stdout
        assert "it would be refused: nobody saw the end of turn 2" in dry.stderr
        done = hosting.run("undo", "two words", "-y", "-f")
        assert "`fairlead undo 'two words' --redo` takes it back" in done.stdout
        assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
    finally:
        hosting.close()


def test_a_session_that_ended_in_its_turn_is_not_in_the_way_of_others(lent: Hosting, tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    for name in ("hedge", "roses"):
        lent.start(name, "exec cat", "--cwd", str(project))
    lent.ask("terminal_turn", name="hedge", event="start", agent="claude", prompt="do it")
    write(project, "a.py", "agent\n")
    lent.ask("terminal_turn", name="hedge", event="stop", agent="claude", prompt="do it")
    lent.ask("terminal_turn", name="roses", event="start", agent="claude", prompt="do it")
    busy = lent.run("undo", "hedge", "-y", check=False)
    assert "roses works there now: stop it first, or wait" in busy.stderr
    lent.run("stop", "roses")
    lent.run("undo", "hedge", "-y")
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"


def test_a_turn_whose_agent_ended_without_a_word_ends_with_it(lent: Hosting, tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    names = ("left", "killed", "next")
    for name in names:
        lent.start(name, "exec cat", "--cwd", str(project))

    def turn(name: str, event: str) -> None:
        lent.ask("terminal_turn", name=name, event=event, agent="claude", prompt="do it")

    for name in names[:2]:
        turn(name, "start")
    turn("left", "session-ended")  # its shell goes on
    pid = lent.ask("session_find", name="killed")["session"]["pid"]
    os.kill(pid, signal.SIGKILL)
    lent.until(lambda: lent.ask("session_find", name="killed")["session"]["state"] == "ended")
    turn("next", "start")
    write(project, "a.py", "agent\n")
    turn("next", "stop")
    for name in names[:2]:
        told = lent.run("undo", name, "--dry-run", check=False)
        assert "nothing to undo: no file was changed" in told.stderr
    assert lent.run("undo", "next", "--dry-run").stdout == "~ a.py\n"
    lent.run("undo", "next", "-y")
    assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"


def test_what_a_session_did_that_is_gone_is_undone_by_its_name(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    hosting = Hosting()
    try:
        hosting.start("hedge", "exec cat", "--cwd", str(project))
        turn = {"name": "hedge", "agent": "claude", "prompt": "do it"}
        hosting.ask("terminal_turn", event="start", **turn)
        write(project, "a.py", "agent\n")
        hosting.ask("terminal_turn", event="stop", **turn)
        hosting.run("stop", "hedge")
        hosting.kill_daemon()
        assert hosting.run("undo", "hedge", "--dry-run").stdout == "~ a.py\n"
        hosting.run("undo", "hedge", "-y")
        assert (project / "a.py").read_text() == "one = 1\ntwo = 2\n"
        hosting.run("undo", "hedge", "--redo", "-y")
        assert (project / "a.py").read_text() == "agent\n"
        unknown = hosting.run("undo", "weeds", "-y", check=False)
        assert "no session 'weeds'" in unknown.stderr
    finally:
        hosting.close()


def test_a_person_is_told_what_takes_so_long(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    slow, slowly = tmp_path / "slow", tmp_path / "bin/git"
    slowly.parent.mkdir()
    slowly.write_text(
        f'#!/bin/sh\nwhile [ -e {slow} ]; do sleep 0.05; done\nexec {shutil.which("git")} "$@"\n'
    )
    slowly.chmod(0o755)
    hosting = Hosting({"PATH": f"{slowly.parent}:{os.environ['PATH']}"})
    try:
        hosting.start("roses", "exec cat", "--cwd", str(project))
        hosting.ask("terminal_turn", name="roses", event="start", agent="claude", prompt="do it")
        write(project, "a.py", "agent\n")
        hosting.ask("terminal_turn", name="roses", event="stop", agent="claude", prompt="do it")
        words = [sys.executable, "-m", "fairlead", "undo", "roses", "--dry-run"]
        ours, theirs = os.openpty()
        slow.touch()
        with subprocess.Popen(words, env=hosting.environment, stdout=subprocess.PIPE, stderr=theirs) as undo:
            os.close(theirs)
            assert os.read(ours, 100).decode().strip() == "fairlead undo: finding out what would be put back…"
            slow.unlink()
            assert undo.communicate(timeout=WAIT)[0] == b"~ a.py\n"
            assert undo.returncode == 0
        os.close(ours)
        assert hosting.run("undo", "roses", "--dry-run").stderr == ""
    finally:
        slow.unlink(missing_ok=True)
        hosting.close()


def test_all_is_shown_to_who_is_asked_and_what_changes_before_the_answer_is_not_overwritten(
    tmp_path: Path,
) -> None:
    project = repository(tmp_path / "project")
    hosting = Hosting()
    try:
        many = [f"bed-{number:02}.txt" for number in range(MAX_SHOWN + 5)]
        written = "\n".join(f"write {name}: roses" for name in many)
        hosting.run("agent", "-n", "garden", "-C", str(project), "--yes", "-p", written)
        with person(hosting, "undo", "garden") as asked:
            shown = asked.until("[y/N]")
            assert all(f"- {name}" in shown for name in many)
            write(project, many[7], "mine\n")
            asked.type("y\r")
            asked.until("look again")
        assert (project / many[7]).read_text() == "mine\n"
        assert (project / many[0]).exists()
        assert hosting.run("undo", "garden", "-y", "-f").stdout.splitlines()[-2] == "and 5 more"
    finally:
        hosting.close()


def test_an_undo_whose_daemon_is_killed_is_finished_and_both_are_said(tmp_path: Path) -> None:
    project = repository(tmp_path / "project")
    hosting = Hosting()
    try:
        hosting.start("roses", "exec cat", "--cwd", str(project))
        hosting.ask("terminal_turn", name="roses", event="start", agent="claude", prompt="do it")
        for number in range(1000):
            write(project, f"new/{number}", "x\n")
        hosting.ask("terminal_turn", name="roses", event="stop", agent="claude", prompt="do it")
        words = [sys.executable, "-m", "fairlead", "undo", "roses", "-y"]
        pid = hosting.daemon_pid()
        with subprocess.Popen(
            words, env=hosting.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as undo:
            hosting.until(lambda: len(list(project.glob("new/*"))) < 990)
            os.kill(pid, signal.SIGKILL)
            said = undo.communicate()[1]
        assert len(os.listdir(project / "new")) > 0, "it was half done"
        assert "the next daemon finishes it, or takes it back; `fairlead undo roses --redo" in said
        told = hosting.run("undo", "roses", "--redo", "--dry-run").stdout
        assert "note: the daemon was killed during an undo, which was finished by the next one" in told
        assert not (project / "new").exists()
        hosting.run("undo", "roses", "--redo", "-y")
        assert len(os.listdir(project / "new")) == 1000
    finally:
        hosting.close()
