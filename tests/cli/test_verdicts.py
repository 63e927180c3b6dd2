"""Verdicts that are what they say, with real daemons, builders and files: how a turn ended comes first."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.sdk import Host
from fairlead.events import ApprovalWanted
from fairlead.system.settings import Settings
from fairlead.verify.store import ReportStore
from tests.agent.openai_server import HOLD, OpenAiServer, answer
from tests.agent.playing import calls, cassette, says
from tests.cli.configured import configure, lab
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
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting
from tests.verify.attacks import SECRET
from tests.verify.projects import repository, write

PASSES = "touch ran && echo '== 2 passed in 0.1s =='"


@pytest.fixture(scope="module")
def hosting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    """A daemon with a model that fails whenever it is asked."""
    tape = cassette(tmp_path_factory.mktemp("tapes") / "empty.jsonl")
    hosting = Hosting({"FAIRLEAD_AGENT_CASSETTE": tape, "FAIRLEAD_VERIFIER_MAX_LOOPS": "2"})
    yield hosting
    hosting.close()


@pytest.fixture
def host(hosting: Hosting) -> Iterator[Host]:
    with connected(hosting) as host:
        yield host


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


def sessions(hosting: Hosting) -> list[Path]:
    return sorted(Path(Settings(hosting.environment).sessions_dir).glob("*/*.jsonl"))


# --- how the turn ended -----------------------------------------------------------------------------------


def test_a_session_whose_turn_failed_says_so_in_lists_also_after_a_restart(
    hosting: Hosting, project: Path
) -> None:
    fairlead(hosting, project, "agent", "--name", "sick", "-p", "--model", "offline/replay", "do it")
    fairlead(hosting, project, "agent", "--name", "well", "-p", "help")

    def states() -> dict[str, str]:
        rows = json.loads(hosting.run("ls", "--json", "sick", "well").stdout)
        return {row["name"]: row["state"] for row in rows}

    assert states() == {"sick": "failed", "well": "idle"}
    with Person(hosting, "attach", "sick") as person:
        person.until("^D leaves")
        person.type(b"/status\r")
        person.until_all(["Name    : sick", "State   : failed", "Kind    : agent"])
    hosting.run("daemon", "restart")
    assert states() == {"sick": "failed", "well": "idle"}


def test_a_turn_whose_model_fails_is_not_green_and_run_says_so(hosting: Hosting, project: Path) -> None:
    words = ("run", "--verify", PASSES, "--model", "offline/replay", "do it")
    done = fairlead(hosting, project, *words)
    assert done.returncode == 1
    assert "fairlead run: could not verify: the turn failed: " in done.stderr
    assert "at its end" in done.stderr  # what the model said
    assert done.stdout.startswith("ERROR  could not verify: the turn failed")
    assert not (project / "ran").exists()  # nothing was checked
    (row,) = reports(hosting, project)
    assert (row.status, row.confidence, row.verifier) == ("unsure", "failed", PASSES)
    once = fairlead(hosting, project, "verify", "--once", row.session_id, "--", PASSES)
    assert (once.returncode, (project / "ran").exists()) == (2, False)


def test_a_stopped_turn_is_neither_checked_nor_sent_back(hosting: Hosting, host: Host, project: Path) -> None:
    agent = host.agent("stopped", cwd=str(project))
    with verifying(hosting, project, "stopped", "--", "touch ran; false") as verifier:
        with agent.events() as events:
            agent.follow_up("write answer.txt: right")
            while not isinstance(events.next(timeout=WAIT), ApprovalWanted):
                pass
            agent.abort()
        hosting.until(lambda: "turn 1  PARTIAL  not checked: the turn was aborted" in verifier.printed)
    assert not (project / "ran").exists()
    assert agent.state()["phase"] == "idle"
    assert not agent.state()["verdict"]["escalated"]  # whoever stopped it knows
    # and who comes later hears the same of it
    once = fairlead(hosting, project, "verify", "--once", "stopped", "--", PASSES)
    assert once.returncode == 2
    assert "not checked: the turn was aborted" in once.stdout
    assert not (project / "ran").exists()


def test_a_turn_that_is_lost_with_its_daemon_is_checked_and_is_not_green(project: Path) -> None:
    held = answer("one two three", insert=[HOLD])
    with OpenAiServer([held]) as server, closing(Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})) as hosting:
        configure(hosting, lab(server))
        words = [*hosting.command, "run", "--verify", PASSES, "go"]
        pipe, environment = subprocess.PIPE, hosting.environment
        with subprocess.Popen(
            words, cwd=project, env=environment, stdout=pipe, stderr=pipe, text=True
        ) as running:
            hosting.until(lambda: bool(server.requests))
            restarted = hosting.run("daemon", "restart")
            assert restarted.stderr.startswith("1 running turn was interrupted")
            printed, said = running.communicate(timeout=WAIT)
        assert (running.returncode, printed[:9]) == (2, "PARTIAL  ")
        assert "the turn did not end: the program that ran it exited" in said
        assert (project / "ran").exists()
        assert hosting.run("daemon", "restart").stderr == ""


def test_a_turn_that_changed_nothing_says_so_and_is_at_most_verified(
    hosting: Hosting, tmp_path: Path
) -> None:
    project = repository(tmp_path / "repository")
    passes = "test -d . && echo '== 2 passed in 0.1s =='"
    idle = fairlead(hosting, project, "run", "-q", "--yes", "--verify", passes, "ls")
    assert (idle.returncode, idle.stdout[:10]) == (0, "VERIFIED  ")
    assert "the turn changed no file" in idle.stdout
    busy = fairlead(hosting, project, "run", "-q", "--yes", "--verify", passes, "write notes.md: new")
    assert (busy.returncode, busy.stdout[:9]) == (0, "PERFECT  ")
    persona(project)
    tape = cassette(tmp_path / "good.jsonl", calls(("r", "read", {"path": "a.py"})), says(VERIFIED))
    words = ("run", "-q", "--yes", "--json", "--persona", "judge", "ls")
    judged = json.loads(fairlead(hosting, project, *words, FAIRLEAD_AGENT_CASSETTE=tape).stdout)
    assert (judged["confidence"], judged["capped_by"]) == ("verified", "the turn changed no file")
    assert "What did the turn change?" in [each["title"] for each in judged["sections"]]


NOTHING = [{"event": "finished", "stop_reason": "stop", "usage": {"input": 10, "output": 0}}]


def test_a_turn_in_which_nothing_was_said_or_done_says_so(hosting: Hosting, tmp_path: Path) -> None:
    project = repository(tmp_path / "repository")
    tape = cassette(tmp_path / "nothing.jsonl", NOTHING)
    with closing(Hosting({"FAIRLEAD_AGENT_CASSETTE": tape})) as silent:
        words = ("run", "--model", "offline/replay", "--verify", PASSES, "do it")
        done = fairlead(silent, project, *words)
        assert (done.returncode, done.stdout[:10]) == (0, "VERIFIED  ")
        assert "(pytest: 2 passed); the builder said nothing and called no tool" in done.stdout
        assert "Nothing: the builder said nothing and called no tool." in done.stdout
        (row,) = reports(silent, project)
        assert "the builder said nothing" in row.summary


ANSWERED = {
    "type": "assistant",
    "message": {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
}
CLAUDE: dict[str, dict[str, Any]] = {
    "failed: API Error: 529": {
        "type": "assistant",
        "isApiErrorMessage": True,
        "message": {"role": "assistant", "content": [{"type": "text", "text": "API Error: 529"}]},
    },
    "was aborted": {
        "type": "user",
        "message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]},
    },
}


def test_a_turn_in_a_terminal_is_judged_by_what_its_transcript_says(
    hosting: Hosting, project: Path, tmp_path: Path
) -> None:
    hosting.run("start", "claude", "-d", "--", "sleep", "600")
    transcript = write(tmp_path, "transcript.jsonl", "")

    def turn(*entries: dict[str, Any], event: str = "stop") -> None:
        hosting.ask(
            "terminal_turn", name="claude", event="start", agent="claude", prompt="go", path=str(transcript)
        )
        with transcript.open("a") as file:
            file.writelines(json.dumps(each) + "\n" for each in entries)
        if event:
            hosting.ask("terminal_turn", name="claude", event=event, agent="claude", path=str(transcript))

    def verdict() -> tuple[int, str]:
        words = ("verify", "--once", "-q", "claude", "--project", str(project), "--", PASSES)
        done = fairlead(hosting, project, *words)
        return done.returncode, done.stdout

    for why, entry in CLAUDE.items():
        turn(ANSWERED, entry)
        code, said = verdict()
        assert (code, why in said, (project / "ran").exists()) == (2, True, False), said
    turn(ANSWERED, event="error")
    assert verdict()[0] == 2
    turn(event="")  # stopped by a person: no hook is called
    turn(*CLAUDE.values(), ANSWERED)
    assert verdict()[0] == 0
    assert (project / "ran").exists()


def test_what_an_agent_changed_is_known_though_it_tells_only_of_the_end(
    hosting: Hosting, project: Path
) -> None:
    hosting.run("start", "codex", "-d", "--", "sleep", "600")
    with verifying(hosting, project, "codex", "--project", str(project), "--", "test -d .") as verifier:
        for number, change in enumerate((True, False), 1):
            if change:
                write(project, "answer.txt", "right\n")
            hosting.ask("terminal_turn", name="codex", event="stop", agent="codex", prompt="go")
            hosting.until(lambda number=number: f"turn {number}  VERIFIED" in verifier.printed)  # type: ignore[misc]
    with ReportStore(Settings(hosting.environment).reports_path) as store:
        rows = store.list(session_id="codex")
    told = [report(hosting, row.id) for row in reversed(rows)]
    assert ["the turn changed no file" in each.raw for each in told] == [False, True]
    assert "answer.txt" in told[0].diff_stat


@pytest.mark.parametrize(
    ("reason", "more", "why"),
    [
        ("error", {"errorMessage": "429 too many"}, "the turn failed: 429 too many"),
        ("aborted", {}, "the turn was aborted"),
        ("length", {}, "the model's answer was cut off"),
        ("stop", {}, ""),
    ],
)
def test_a_turn_of_a_real_pi_is_judged_by_its_session_file(
    hosting: Hosting, project: Path, tmp_path: Path, reason: str, more: dict[str, Any], why: str
) -> None:
    said = {"role": "assistant", "content": [], "stopReason": reason, **more}
    lines = [
        {"type": "session", "version": 3, "id": "pi-1"},
        {"type": "message", "message": {"role": "user", "content": "go"}},
        {"type": "message", "message": said},
    ]
    text = "".join(json.dumps(each) + "\n" for each in lines)
    write(tmp_path, "pi/sessions/--x--/2026_pi-1.jsonl", text)
    path = Path(Settings(hosting.environment).verifier_dir, "pi-1.sock")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(WAIT)
        command = [sys.executable, "-m", "fairlead", "verify", "--once", "-q", "--socket", str(path), "pi-1"]
        environment = {**hosting.environment, "PI_CODING_AGENT_DIR": str(tmp_path / "pi")}
        with subprocess.Popen([*command, "--", PASSES], env=environment, cwd=project) as verifier:
            try:
                connection, _ = listening.accept()
                with connection:
                    told = [each for each in builder_like_pi(connection) if each["type"] == "report"]
                code = verifier.wait(WAIT)
            finally:
                verifier.kill()
    path.unlink()
    assert (code, (project / "ran").exists()) == ((2, False) if why else (0, True))
    assert why in told[0]["summary"]
    (row,) = reports(hosting, project)
    assert row.status == ("unsure" if why else "verified")


# --- personas ---------------------------------------------------------------------------------------------


def test_no_tool_of_a_persona_shows_a_secret(
    hosting: Hosting, host: Host, project: Path, tmp_path: Path
) -> None:
    home = Path(hosting.environment["HOME"])
    write(home, ".ssh/id_rsa", f"{SECRET}\n")
    write(project, ".env", f"TOKEN={SECRET}\n")
    (project / "link").symlink_to(home / ".ssh")
    (project / "key").symlink_to(home / ".ssh/id_rsa")
    os.link(home / ".ssh/id_rsa", project / "hard")
    write(project, ".git/config", f"[remote]\n\turl = https://user:{SECRET}@example.org/x\n")
    persona(project)
    built(host, "private", project)
    tries = calls(
        ("1", "read", {"path": f"{home}/.ssh/id_rsa"}),
        ("2", "read", {"path": "key"}),
        ("3", "read", {"path": "link/id_rsa"}),
        ("4", "read", {"path": ".env"}),
        ("5", "grep", {"pattern": "s3cret"}),
        ("6", "grep", {"pattern": "s3cret", "path": str(home)}),
        ("7", "grep", {"pattern": "s3cret", "path": "link"}),
        ("8", "bash", {"command": f"cat ~/.ssh/id_rsa {home}/.ssh/id_rsa key link/* .env; env"}),
        ("9", "bash", {"command": "cat key || cat .env"}),
        ("10", "read", {"path": "/proc/self/environ"}),
        ("11", "read", {"path": ".git/config"}),
        ("12", "grep", {"pattern": "s3cret", "path": ".git"}),
        ("13", "read", {"path": "hard"}),
        ("14", "bash", {"command": "cat .git/config hard"}),
    )
    for path in (hosting.environment["PATH"], without_bubblewrap(tmp_path, hosting)):
        tape = cassette(tmp_path / "tape.jsonl", tries, says(VERIFIED))
        more = {"FAIRLEAD_AGENT_CASSETTE": tape, "PATH": path, "SOMETHING_HARMLESS": SECRET}
        done = fairlead(hosting, project, "verify", "--once", "private", "--persona", "judge", **more)
        assert "turn 1" in done.stdout, done.stderr
    state = Path(Settings(hosting.environment).state_dir)
    journals = list(state.glob("verifiers/*/*_judge.jsonl"))
    asked = [each for each in journals if '"/proc/self/environ"' in each.read_text()]
    assert len(asked) == 2
    for journal in asked:
        results = [line for line in journal.read_text().splitlines() if '"toolResult"' in line]
        assert len(results) == 14
        assert [line for line in results if SECRET in line] == []


def test_people_are_told_when_the_project_brings_its_own_judge(
    hosting: Hosting, host: Host, project: Path, tmp_path: Path
) -> None:
    persona(project)
    persona(project, "reviewer")
    write(project, "answer.txt", "right\n")
    built(host, "own-judge", project)
    for name, told in (
        ("judge", "the persona judge belongs to the project that is verified"),
        ("project:reviewer", "the persona project:reviewer belongs to the project that is verified"),
        ("reviewer", "the project also has a persona reviewer, which is not used"),
    ):
        tape = cassette(tmp_path / "tape.jsonl", calls(("r", "read", {"path": "answer.txt"})), says(VERIFIED))
        words = ("verify", "-q", "--once", "own-judge", "--persona", name, "--model", "offline/replay")
        done = fairlead(hosting, project, *words, FAIRLEAD_AGENT_CASSETTE=tape)
        assert told in done.stderr
        last = report(hosting, reports(hosting, project)[-1].id)
        assert last.verifier == name
        (note,) = [each.text for each in last.sections if each.title == "Who judged?"]
        assert told[1:] in note


def without_bubblewrap(tmp_path: Path, hosting: Hosting) -> str:
    """A PATH with a bubblewrap that does not work."""
    write(tmp_path, "bin/bwrap", "#!/bin/sh\nexit 1\n").chmod(0o755)
    return f"{tmp_path}/bin:{hosting.environment['PATH']}"


@pytest.fixture
def without_sandbox(tmp_path: Path, hosting: Hosting) -> str:
    return without_bubblewrap(tmp_path, hosting)


def test_without_a_sandbox_people_are_told_and_refused_commands_are_no_evidence(
    hosting: Hosting, host: Host, project: Path, tmp_path: Path, without_sandbox: str
) -> None:
    persona(project)
    write(project, "answer.txt", "right\n")
    built(host, "unboxed", project)

    def judged(command: str) -> tuple[int, str]:
        asked = calls(("b", "bash", {"command": command}), ("r", "read", {"path": "answer.txt"}))
        tape = cassette(tmp_path / "tape.jsonl", asked, says(VERIFIED))
        words = ("verify", "--once", "unboxed", "--persona", "judge")
        done = fairlead(hosting, project, *words, FAIRLEAD_AGENT_CASSETTE=tape, PATH=without_sandbox)
        assert "without a sandbox: bubblewrap does not work here" in done.stderr
        return done.returncode, done.stdout

    code, printed = judged("python3 -m pytest")
    assert (code, "every command that it wanted was refused" in printed) == (2, True)
    assert judged("cat answer.txt")[0] == 0
    refused, allowed = [report(hosting, row.id) for row in reports(hosting, project)]
    assert (refused.status, refused.confidence, refused.claimed) == ("unsure", "partial", "perfect")
    assert (allowed.status, allowed.confidence) == ("verified", "verified")
    for each in (refused, allowed):
        (note,) = [section for section in each.sections if section.title == "How were commands run?"]
        assert "interpreters, test runners" in note.text


def test_doctor_says_that_there_is_no_sandbox(without_sandbox: str) -> None:
    hosting = Hosting({"PATH": without_sandbox})
    try:
        hosting.run("ls")
        told = json.loads(hosting.run("doctor", "--json", check=False).stdout)["checks"]
        (check,) = [each for each in told if each["name"] == "sandbox"]
        assert "every file outside of the project are refused" in check["detail"]
    finally:
        hosting.close()


# --- commands ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("--persona", "nobody"),
        ("--persona", "reviewer", "--verifier-model", "no/such"),
        ("--verify", "true", "--model", "no/such"),
        ("--verify", "true", "--persona", "tester", "--quorum", "9"),
        (
            "--persona",
            "reviewer",
            "--other-model",
            "--model",
            "offline/guide",
            "--verifier-model",
            "offline/guide",
        ),
    ],
)
def test_what_can_not_check_leaves_no_session(
    hosting: Hosting, project: Path, words: tuple[str, ...]
) -> None:
    before = sessions(hosting)
    done = fairlead(hosting, project, "run", *words, "ls")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert sessions(hosting) == before


def test_once_judges_and_sends_nothing_back(hosting: Hosting, host: Host, project: Path) -> None:
    agent = built(host, "judged", project)
    done = fairlead(hosting, project, "verify", "--once", "-q", "judged", "--", "false")
    assert (done.returncode, "not sent back: this verifier does not send corrections" in done.stdout) == (
        1,
        True,
    )
    loud = fairlead(hosting, project, "verify", "--once", "judged", "--", "false").stdout
    assert ("No: this verifier does not send corrections." in loud, "Fix the cause" in loud) == (True, False)
    said = [each for each in agent.messages() if "The verifier" in str(each)]
    assert (said, agent.state()["phase"]) == ([], "idle")


def test_reports_are_found_by_the_name_that_their_table_prints_and_by_id(
    hosting: Hosting, host: Host, project: Path
) -> None:
    agent = built(host, "found", project)
    fairlead(hosting, project, "verify", "--once", "-q", "found", "--", "test -d .")
    table = fairlead(hosting, project, "reports", str(project)).stdout.splitlines()
    assert table[1].split()[3] == "found"
    shown = agent.id[:8]
    for of in ("found", shown, agent.id):
        assert table[1] in fairlead(hosting, project, "reports", of).stdout
    for of, why in (
        ("no-such-id", "no reports for a session with the name or id prefix 'no-such-id'"),
        (shown[:3], f"no reports for a session named '{shown[:3]}'; a prefix of an id needs at least 4 "),
        ("./nowhere", "no such directory: ./nowhere"),
        ("/usr", "no reports for the project /usr"),
    ):
        none = fairlead(hosting, project, "reports", of)
        assert (none.returncode, none.stdout) == (1, "")
        assert none.stderr.startswith(f"fairlead reports: {why}")


def test_a_session_without_a_turn_can_not_be_judged_once(hosting: Hosting, host: Host, project: Path) -> None:
    host.agent("unasked", cwd=str(project))
    for name in ("unasked", "unasked-terminal"):
        if name != "unasked":
            hosting.run("start", name, "-d", "--", "sleep", "600")
        done = fairlead(hosting, project, "verify", "--once", name, "--", "test -d .")
        assert (done.returncode, done.stdout) == (2, "")
        assert "has had no turn yet" in done.stderr
    assert reports(hosting, project) == []
