"""`fairlead run` and `fairlead verify` with a real daemon, whole and offline, and what survives a kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.following import Watching
from fairlead.client.sdk import Events, Host
from fairlead.events import ApprovalWanted, Escalated, Happened, Reported
from fairlead.system.settings import Settings
from fairlead.verify.store import ListedReport, ReportStore
from tests.agent.playing import calls, cassette, says
from tests.cli.verifying import (
    VERIFIED,
    builder_like_pi,
    built,
    connected,
    fairlead,
    persona,
    report,
    reports,
    verifying,
)
from tests.hosting import WAIT, Hosting, is_alive
from tests.verify.projects import fingerprint, repository, write

RIGHT = "grep -q right answer.txt"
UNTIL_GO = "touch begun; while [ ! -e go ]; do sleep 0.02; done; "
"""A check that takes until a file is there."""
FAILED = (
    "## Report\n\nSTATUS: failed\n\n### What did you verify?\n\nThe answer.\n\n### Wrong\n\nIt is wrong.\n"
)


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0", "FAIRLEAD_VERIFIER_MAX_LOOPS": "2"})
    yield hosting
    hosting.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


@pytest.fixture
def host(hosting: Hosting) -> Iterator[Host]:
    with connected(hosting) as host:
        yield host


def unfinished(hosting: Hosting) -> int:
    with ReportStore(Settings(hosting.environment).reports_path) as store:
        return len(store.unfinished(everyones=True))


# --- fairlead run -----------------------------------------------------------------------------------------


def test_a_planted_failure_goes_back_and_is_mended(hosting: Hosting, project: Path) -> None:
    write(project, "calc.py", "def add(a, b):\n    return a - b\n")
    write(project, "test_calc.py", "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n")
    prompt = "read calc.py\nwhen sent back:\nedit calc.py: replace `a - b` with `b + a  # mended`"
    check = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    done = fairlead(hosting, project, "run", "--yes", "--verify", check, prompt)
    assert done.returncode == 0, done.stderr
    assert "mended" in (project / "calc.py").read_text()
    assert "sent back" in done.stderr
    assert "Done: read `calc.py`" in done.stderr
    assert done.stdout.startswith("VERIFIED  ")
    assert "STATUS: verified" in done.stdout
    assert "1 passed" in done.stdout
    first, second = reports(hosting, project)
    assert [(each.confidence, each.turn) for each in (first, second)] == [("feedback", 1), ("verified", 1)]
    assert first.tree != second.tree
    whole = report(hosting, first.id)
    assert [(run.command, run.code) for run in whole.commands] == [(check, 1)]
    assert any("assert -1 == 3" in section.text for section in whole.sections)
    assert unfinished(hosting) == 0


def test_what_never_holds_ends_with_1_after_all_corrections(
    hosting: Hosting, host: Host, project: Path
) -> None:
    prompt = "write answer.txt: wrong"
    done = fairlead(hosting, project, "run", "-q", "--yes", "--name", "never", "--verify", RIGHT, prompt)
    assert done.returncode == 1
    assert "not sent back: the limit of corrections is reached" in done.stderr
    assert "No: the limit of corrections is reached." in done.stdout
    assert [each.confidence for each in reports(hosting, project)] == ["feedback"] * 3
    verdict = host.agent("never", cwd=str(project)).state()["verdict"]
    assert (verdict["turn"], verdict["confidence"]) == (1, "feedback")
    assert verdict["escalated"].startswith("already sent back ")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--verify", "no-such-command-here"], "could not be started"),
        (["--timeout", "0.2", "--verify", "sleep 20"], "0.2 seconds"),
    ],
)
def test_what_cannot_be_verified_ends_with_2(
    hosting: Hosting, project: Path, words: list[str], why: str
) -> None:
    done = fairlead(hosting, project, "run", "-q", "--yes", "--json", *words, "ls")
    assert done.returncode == 2, done.stderr
    told = json.loads(done.stdout)
    assert (told["status"], told["confidence"], told["turn"]) == ("unsure", "failed", 1)
    assert why in told["summary"]
    (row,) = reports(hosting, project)
    assert row.confidence == "failed"


def test_without_yes_what_would_be_asked_is_denied(hosting: Hosting, project: Path) -> None:
    done = fairlead(hosting, project, "run", "--verify", "test ! -e answer.txt", "write answer.txt: right")
    assert done.returncode == 3, done.stderr
    assert "nobody could be asked; use --yes" in done.stderr
    assert "passed; 1 call was denied" in done.stdout
    assert "### What was denied?\n\n- write: create answer.txt" in done.stdout
    assert not (project / "answer.txt").exists()


def test_a_run_that_says_not_what_checks_or_names_no_model_is_refused(
    hosting: Hosting, project: Path
) -> None:
    before = hosting.ask("list_sessions")["sessions"]
    assert fairlead(hosting, project, "run", "ls").returncode == 2
    done = fairlead(hosting, project, "run", "--persona", "nobody", "ls")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    for words, why in {
        ("run", "--verify", "true", "--quorum", "9", "ls"): "--quorum: a quorum is all, majority or 1, ",
        ("run", "--verify", "", "ls"): "--verify needs a command; it is empty",
        ("verify", "x", "--check", ""): "--check needs a command; it is empty",
        (
            "agent",
            "--thinking",
            "huge",
            "hi",
        ): "--thinking must be one of off, minimal, low, ",
    }.items():
        done = fairlead(hosting, project, *words)
        assert (done.returncode, f"fairlead {words[0]}: {why}" in done.stderr) == (2, True), done.stderr
    for words, why in {
        (
            "run",
            "--persona",
            "reviewer",
            "ls",
        ): "the persona 'reviewer' needs a language model, ",
        (
            "agent",
            "-p",
            "--model",
            "no/such",
            "hi",
        ): "unknown model: no/such; `fairlead agent --list",
        (
            "run",
            "--verify",
            "true",
            "--model",
            "no/such",
            "hi",
        ): "unknown model: no/such; `fairlead agent --list",
    }.items():
        done = fairlead(hosting, project, *words)
        assert (done.returncode, f"fairlead {words[0]}: {why}" in done.stderr) == (1, True), done.stderr
        assert hosting.ask("list_sessions")["sessions"] == before, words


# --- fairlead verify --------------------------------------------------------------------------------------


def test_the_last_turn_is_judged_once_for_scripts(hosting: Hosting, host: Host, project: Path) -> None:
    agent = built(host, "once", project)

    def code(*words: str) -> int:
        return fairlead(hosting, project, "verify", "--once", *words).returncode

    assert code("once", "--", "test", "-d", ".") == 0
    assert code(agent.id, "--check", "test -e .", "--check", "test -d .") == 0
    assert code("once", "--", "no-such-command-here") == 2
    done = fairlead(
        hosting, project, "verify", "--once", "-q", "once", "--", "sh", "-c", "echo oh no; exit 3"
    )
    assert done.returncode == 1
    assert done.stdout.startswith("turn 1  FAILED  1 of 1 command failed")
    assert [each.confidence for each in reports(hosting, project)] == [
        "verified",
        "verified",
        "failed",
        "feedback",
    ]
    missing = fairlead(hosting, project, "verify", "--once", "nobody", "--", "true")
    assert (missing.returncode, "no session 'nobody', and nothing is listening on" in missing.stderr) == (
        1,
        True,
    )
    assert fairlead(hosting, project, "verify", "once").returncode == 2
    assert unfinished(hosting) == 0


def test_a_check_in_a_copy_leaves_the_project_alone(hosting: Hosting, host: Host, project: Path) -> None:
    write(project, "answer.txt", "right\n")
    built(host, "copied", project)
    check = "grep -q right answer.txt && rm answer.txt && touch new"
    done = fairlead(hosting, project, "verify", "--once", "--copy", "copied", "--", check)
    assert done.returncode == 0, done.stderr
    assert (project / "answer.txt").exists()
    assert not (project / "new").exists()


def test_turn_after_turn_is_judged_and_everybody_is_told(hosting: Hosting, host: Host, project: Path) -> None:
    agent = host.agent("followed", cwd=str(project))
    write(project, "answer.txt", "wrong\n")
    with agent.events() as events, verifying(hosting, project, "followed", "--", RIGHT) as verifier:
        host.agent("followed").ask("ls\nwhen sent back:\nwrite answer.txt: right", timeout=WAIT)
        said: list[Reported] = []
        while len(said) < 2:
            match events.next(timeout=WAIT):
                case ApprovalWanted(id=id):
                    agent.approve(id)
                case Reported() as each:
                    said.append(each)
        assert [(each.turn, each.confidence) for each in said] == [(1, "feedback"), (1, "verified")]
        assert said[0].verifier == RIGHT
        assert agent.state()["verdict"]["confidence"] == "verified"
        with Events(Watching(("session/updated",)), Settings(hosting.environment)) as updates:
            built(host, "followed", project, "ls")
            update = updates.next(timeout=WAIT)
            assert isinstance(update, Happened)
            assert update.data["verdict"]["confidence"] == "verified"
        hosting.until(lambda: "turn 2  VERIFIED" in verifier.printed)
        assert len(reports(hosting, project)) == 3
        assert "turn 1  FAILED" in verifier.printed
        assert "; sent back" in verifier.printed


def test_a_builder_that_is_not_ours_is_checked_and_its_reports_are_kept_here(
    hosting: Hosting, project: Path
) -> None:
    """As a real Pi: it is found by its socket, and knows nothing of late attachment."""
    path = Path(Settings(hosting.environment).verifier_dir, "pi-1.sock")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(WAIT)
        command = [sys.executable, "-m", "fairlead", "verify", "--once", "-q", "pi-1", "--", "test -d ."]
        with subprocess.Popen(command, env=hosting.environment, cwd=project) as verifier:
            try:
                connection, _ = listening.accept()
                with connection:
                    said = [*builder_like_pi(connection)]
                assert verifier.wait(WAIT) == 0
            finally:
                verifier.kill()
    path.unlink()
    assert [each["type"] for each in said] == ["hello", "ping", "report", "ping", "bye"]
    assert (said[2]["turnIndex"], said[2]["status"]) == (4, "verified")
    (row,) = reports(hosting, project)
    assert (row.session_id, row.turn, row.confidence) == ("pi-1", 4, "verified")
    assert unfinished(hosting) == 0


@pytest.mark.parametrize("words", [(), ("--once",)])
def test_a_pi_that_has_its_verifier_is_an_error_that_says_so(
    hosting: Hosting, project: Path, words: tuple[str, ...]
) -> None:
    """A real builder answers the second hello with a bye and hangs until the peer closes."""
    path = Path(Settings(hosting.environment).verifier_dir, "pi-2.sock")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(WAIT)
        command = [sys.executable, "-m", "fairlead", "verify", *words, "pi-2", "--", "test -d ."]
        with subprocess.Popen(
            command, env=hosting.environment, cwd=project, stderr=subprocess.PIPE, text=True
        ) as verifier:
            try:
                connection, _ = listening.accept()
                with connection:
                    connection.sendall(b'{"type":"bye","reason":"duplicate connection"}\n')
                    _, told = verifier.communicate(timeout=WAIT)
            finally:
                verifier.kill()
    path.unlink()
    assert verifier.returncode == 1
    assert told.splitlines()[-1] == (
        "fairlead verify: Pi allows one verifier for each session, and pi-2 has one; "
        "end that one, then run this again"
    )


# --- models -----------------------------------------------------------------------------------------------


READS = calls(("r", "read", {"path": "answer.txt"}))


def test_a_panel_of_a_model_and_a_command_needs_its_quorum(
    hosting: Hosting, project: Path, tmp_path: Path
) -> None:
    persona(project)
    good = cassette(tmp_path / "good.jsonl", READS, says(VERIFIED))
    bad = cassette(tmp_path / "bad.jsonl", READS, says(FAILED))

    def run(tape: str, quorum: str, name: str) -> subprocess.CompletedProcess[str]:
        words = ("--verify", RIGHT, "--persona", "judge", "--quorum", quorum, "--name", name)
        whole = ("run", "-q", "--yes", "--json", *words, "write answer.txt: right")
        return fairlead(hosting, project, *whole, FAIRLEAD_AGENT_CASSETTE=tape)

    done = run(good, "all", "agree")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["kind"], told["confidence"], told["model"]) == ("panel", "verified", "offline/replay")
    assert told["summary"] == "2 of 2 verified, 2 needed"
    assert (told["tool_calls"], [each["code"] for each in told["commands"]]) == (1, [0])

    done = run(bad, "1", "quorum")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["confidence"], "they disagree" in told["summary"]) == ("partial", True)
    assert "Disagreement" in [section["title"] for section in told["sections"]]

    done = run(bad, "all", "dissent")
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "failed"


def test_a_model_that_judges_changes_nothing_whatever_it_tries(
    hosting: Hosting, host: Host, tmp_path: Path
) -> None:
    project = repository(tmp_path / "repository")
    persona(project)
    built(host, "guarded", project, "read a.py")
    tries = calls(
        ("w", "write", {"path": "evil.txt", "content": "evil"}),
        ("e", "edit", {"path": "a.py", "edits": [{"oldText": "one", "newText": "evil"}]}),
        ("b", "bash", {"command": "echo evil > a.py; touch evil.txt; rm -rf docs"}),
        ("r", "read", {"path": "a.py"}),
    )
    tape = cassette(tmp_path / "evil.jsonl", tries, says(VERIFIED))
    before = fingerprint(project)
    words = ("verify", "--once", "guarded", "--persona", "judge")
    done = fairlead(hosting, project, *words, FAIRLEAD_AGENT_CASSETTE=tape)
    assert done.returncode == 0, done.stderr
    assert fingerprint(project) == before
    (row,) = reports(hosting, project)
    kept = report(hosting, row.id)
    refused = "\n".join(kept.refused)
    assert ["evil.txt" in refused, "a.py" in refused, "echo evil" in refused] == [True] * 3
    assert (kept.claimed, kept.confidence) == ("perfect", "verified")
    assert "something was refused" in kept.capped_by
    assert kept.model == "offline/replay"


def test_a_model_that_only_talks_or_gives_no_report_is_not_believed(
    hosting: Hosting, host: Host, project: Path, tmp_path: Path
) -> None:
    persona(project)
    built(host, "talk", project)

    def verdict(*answers: list[dict[str, Any]]) -> ListedReport:
        tape = cassette(tmp_path / "talk.jsonl", *answers)
        words = ("verify", "--once", "talk", "--persona", "judge")
        fairlead(hosting, project, *words, FAIRLEAD_AGENT_CASSETTE=tape)
        return reports(hosting, project)[-1]

    assert verdict(says(VERIFIED)).confidence == "partial"
    assert verdict(says("all fine!"), says(VERIFIED)).confidence == "partial"
    assert verdict(says("all fine!"), says("really!")).confidence == "failed"
    assert "is at its end" in verdict().summary


def test_the_model_that_built_is_refused_as_the_judge_if_it_must_be_another(
    hosting: Hosting, host: Host, project: Path
) -> None:
    built(host, "other", project)
    words = ("--persona", "reviewer", "--other-model", "--model", "offline/guide")
    done = fairlead(hosting, project, "verify", "--once", "other", *words)
    assert done.returncode == 1
    assert "the verifier's model must differ from the builder's, offline/guide" in done.stderr
    words = ("--persona", "reviewer", "--other-model", "--verifier-model", "offline/guide")
    done = fairlead(hosting, project, "run", *words, "ls")
    assert (done.returncode, "must differ" in done.stderr) == (1, True)


# --- kills ------------------------------------------------------------------------------------------------


def test_a_daemon_that_is_killed_in_the_check_costs_no_report(
    hosting: Hosting, host: Host, project: Path
) -> None:
    agent = host.agent("killed", cwd=str(project))
    with verifying(hosting, project, "killed", "--", UNTIL_GO + RIGHT) as verifier:
        agent.ask("write answer.txt: right", approve=True, timeout=WAIT)
        hosting.until((project / "begun").exists)
        hosting.kill_daemon()
        (project / "go").touch()
        hosting.until(lambda: len(reports(hosting, project)) == 1)
        (row,) = reports(hosting, project)
        assert (row.confidence, row.turn) == ("verified", 1)
        hosting.until(lambda: "turn 1  VERIFIED" in verifier.printed)
        # it goes on with the next daemon
        with connected(hosting) as again:
            built(again, "killed", project)
        hosting.until(lambda: len(reports(hosting, project)) == 2)
        hosting.until(lambda: unfinished(hosting) == 0)


def test_a_daemon_that_is_killed_again_and_again_loses_no_turn_of_a_loop(
    hosting: Hosting, host: Host, project: Path
) -> None:
    """It is killed while the verifier talks to it, wherever that happens to be."""
    agent = host.agent("loop", cwd=str(project))
    with verifying(hosting, project, "loop", "--", "echo >> looks; false") as verifier:
        agent.ask("ls", approve=True, timeout=WAIT)
        for count in (1, 2):
            hosting.until(lambda count=count: verifier.printed.count("turn 1  FAILED") >= count)  # type: ignore[misc]
            hosting.kill_daemon()
        hosting.until(lambda: "the limit of corrections is reached" in verifier.printed)
        with connected(hosting) as again:
            verdict = again.agent("loop").state()["verdict"]
        assert (verdict["confidence"], bool(verdict["escalated"])) == ("feedback", True)
        looks = len((project / "looks").read_text().splitlines())
        hosting.until(lambda: unfinished(hosting) == 0)
        assert len(reports(hosting, project)) == looks


def test_a_verifier_that_is_killed_leaves_a_report_that_says_so_and_no_processes(
    hosting: Hosting, host: Host, project: Path
) -> None:
    agent = host.agent("orphan", cwd=str(project))
    check = f"echo $$ > begun.new; mv begun.new begun; while [ ! -e go ]; do sleep 0.02; done; {RIGHT}"
    with agent.events() as events, verifying(hosting, project, "orphan", "--", check) as verifier:
        host.agent("orphan").ask("write answer.txt: right", approve=True, timeout=WAIT)
        hosting.until((project / "begun").exists)
        verifier.process.kill()
        verifier.process.wait()
        event = events.next(timeout=WAIT)
        while not isinstance(event, Escalated):
            event = events.next(timeout=WAIT)
    (row,) = reports(hosting, project)
    assert (row.confidence, row.turn) == ("failed", 1)
    assert row.summary == "could not verify: the verifier went away before it was done"
    assert agent.state()["verdict"]["confidence"] == "failed"
    shell = int((project / "begun").read_text())
    hosting.until(lambda: not is_alive(shell))


def test_when_both_are_killed_the_next_daemon_says_so(hosting: Hosting, host: Host, project: Path) -> None:
    agent = host.agent("both", cwd=str(project))
    with verifying(hosting, project, "both", "--", UNTIL_GO + RIGHT) as verifier:
        agent.ask("write answer.txt: right", approve=True, timeout=WAIT)
        hosting.until((project / "begun").exists)
        pid = hosting.daemon_pid()
        verifier.process.kill()
        verifier.process.wait()
        os.kill(pid, signal.SIGKILL)
    hosting.until(lambda: len(reports(hosting, project)) == 1)
    assert reports(hosting, project)[0].confidence == "failed"
    with connected(hosting) as again:
        assert again.agent("both").state()["verdict"]["escalated"]
    (project / "go").touch()


def test_a_verifier_says_that_the_daemon_was_stopped_and_one_in_a_session_waits_for_the_next(
    hosting: Hosting, host: Host, project: Path
) -> None:
    built(host, "halted", project, "ls")
    inner = f"cd {project} && exec {sys.executable} -m fairlead verify halted -- test -d ."
    hosting.start("check", inner)
    hosting.wait_text("check", "verifying the turns of halted with")
    with verifying(hosting, project, "halted", "--", RIGHT) as outer:
        hosting.run("daemon", "stop")
        assert outer.process.wait(WAIT) == 1
        assert "fairlead verify: the daemon was stopped; programs keep running" in outer.printed
    with connected(hosting) as again:
        built(again, "halted", project, "ls")
    hosting.until(lambda: [row.turn for row in reports(hosting, project)] == [2])
    hosting.run("stop", "check")


def test_a_verdict_is_of_its_turn_and_shown_as_stale_after_the_next_one(
    hosting: Hosting, host: Host, project: Path
) -> None:
    hosting.run("start", "aged", "-d", "--", "sleep", "600")

    def turns() -> None:
        built(host, "aging", project, "ls")
        for event in ("start", "stop"):
            hosting.ask("terminal_turn", name="aged", event=event, agent="other", prompt="build it")

    def said() -> list[tuple[str, bool]]:
        """What the doors tell of both sessions."""
        rows = json.loads(hosting.run("sessions", "--json").stdout) + json.loads(
            hosting.run("ls", "--kind", "terminal", "--json").stdout
        )
        shown = [row["verdict"] for row in rows if row["name"] in ("aging", "aged")]
        return [(each["confidence"], each["stale"]) for each in shown]

    def cells() -> list[str]:
        """The column CHECK of both."""
        found = []
        for words, name in ((("sessions", "-n", "1"), "aging"), (("ls", "aged"), "aged")):
            table = hosting.run(*words).stdout.splitlines()
            row = next(line for line in table if name in line)
            found.append(row[table[0].index("CHECK") :].split()[0])
        return found

    turns()
    for name in ("aging", "aged"):
        assert fairlead(hosting, project, "verify", "--once", name, "--", "test -d .").returncode == 0
    assert (said(), cells()) == ([("verified", False)] * 2, ["verified"] * 2)
    turns()
    assert (said(), cells()) == ([("verified", True)] * 2, ["-"] * 2)
    state = host.agent("aging").state()
    assert (state["verdict"]["stale"], state["verdict"]["colour"]) == (True, "orange")
    host.close()
    hosting.kill_daemon()
    hosting.until(lambda: "aged" in hosting.sessions())
    assert (said(), cells()) == ([("verified", True)] * 2, ["-"] * 2)
    hosting.run("stop", "aged")
