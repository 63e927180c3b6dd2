"""`fairlead hook`: agents in terminals tell of their turns and are sent back, and its installation."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.hook import START_TIMEOUT, STOP_WAIT
from tests.cli.hooked import AGENT, Verifier, Working
from tests.cli.verifying import verifying
from tests.hosting import WAIT, Hosting

CLAUDE_EVENTS = sorted(
    [
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse"),
        *("Notification", "SubagentStop", "Stop", "SessionEnd"),
    ]
)
"""Those that every version knows: one that does not know an event ignores all settings."""
CODEX_EVENTS = sorted({*CLAUDE_EVENTS, "Interrupt"} - {"Notification"})
PLACES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME")
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


@pytest.fixture
def verifiers() -> Iterator[list[Verifier]]:
    made: list[Verifier] = []
    yield made
    for each in made:
        each.close()


def test_who_verifies_a_program_that_reports_no_turns_is_told_what_to_do(
    hosting: Hosting, place: Path
) -> None:
    hosting.start("plain", "read line")
    with verifying(hosting, place, "plain", "--", "true") as verifier:
        assert "plain has reported no turns yet" in verifier.printed
        assert "`fairlead hook --install AGENT`" in verifier.printed
    hosting.ask("terminal_turn", name="plain", event="start", agent="other", prompt="build it")
    with verifying(hosting, place, "plain", "--", "true") as verifier:
        assert "no turns yet" not in verifier.printed


def test_an_agent_in_a_terminal_is_checked_and_sent_back_like_any_other(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "work")
    verifiers.append(verifier := Verifier(hosting, "work"))
    assert verifier.prompt("too soon") == "no turn to correct yet"
    work.type("build it")
    start, stop = verifier.next(), verifier.next()
    assert (start["name"], start["turnIndex"], start["userPrompt"]) == ("start", 1, "build it")
    assert (stop["name"], stop["sessionFileStartLine"], stop["sessionFileEndLine"]) == ("stop", 1, 2)
    assert verifier.told("terminal/turn-began")["agent"] == "claude"
    assert verifier.told("terminal/turn-ended")["turn"] == 1
    (listed,) = [row for row in hosting.ask("session_list")["sessions"] if row["name"] == "work"]
    assert listed["prompt"] == "build it"

    before = len(work.typed)
    assert verifier.prompt(LONG) == ""
    verifier.report()
    assert verifier.receipts(2) == ["sent", "started"]
    corrected = verifier.next()  # no start: it is the same turn
    assert (corrected["name"], corrected["turnIndex"], corrected["userPrompt"]) == ("stop", 1, "build it")
    assert (corrected["sessionFileStartLine"], corrected["sessionFileEndLine"]) == (1, work.lines)
    assert json.loads((place / "transcript.jsonl").read_text().splitlines()[2])["text"] == LONG
    assert verifier.told("verify/report")["confidence"] == "feedback"
    table = hosting.run("ls").stdout
    assert "CHECK" in table.splitlines()[0]
    assert "failed" in next(line for line in table.splitlines() if line.startswith("work ")).split()
    assert hosting.sessions()["work"]["verdict"]["summary"] == "no"

    assert verifier.prompt("once more") == ""
    verifier.report()
    assert verifier.next()["name"] == "stop"
    assert verifier.prompt("and again") == "max loops exceeded"
    verifier.report()
    assert verifier.told("verify/escalated")["turn"] == 1
    table = hosting.run("ls").stdout
    assert "failed!" in next(line for line in table.splitlines() if line.startswith("work ")).split()
    work.wait("turn 1 done")
    assert work.typed[before:] == b""  # nothing was ever typed

    work.type("now this")  # a person: the count begins anew, and they have seen it
    start = verifier.next()
    assert (start["name"], start["turnIndex"], start["userPrompt"]) == ("start", 2, "now this")
    assert start["sessionFileStartLine"] == 7
    assert verifier.next()["name"] == "stop"
    assert not hosting.sessions()["work"]["verdict"]["escalated"]
    assert verifier.prompt("better") == ""


def test_a_stop_that_is_verified_or_has_no_verifier_is_not_held_up(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "good")
    work.type("build it")
    work.wait("turn 1 done")  # nobody checks
    verifiers.append(verifier := Verifier(hosting, "good"))
    work.type("more")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    verifier.report(2, "verified")
    work.wait("turn 2 done")
    work.type("once more")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    verifiers.pop().close()  # it goes away before it has judged
    work.wait("turn 3 done")


def test_a_correction_waits_while_the_agent_works_and_outlives_the_daemon(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "waits")
    verifiers.append(verifier := Verifier(hosting, "waits"))
    (place / "hold").touch()
    work.type("build it")
    assert verifier.next()["name"] == "start"
    before = work.typed
    assert verifier.prompt("later", deliverAs="steer") == ""  # which no terminal can do
    assert verifier.receipts(1) == ["queued"]
    hosting.kill_daemon()
    hosting.run("ls")
    verifiers.append(verifier := Verifier(hosting, "waits", since=0))
    assert verifier.next()["name"] == "start"  # it is told what there was, and the turn runs on
    (place / "hold").unlink()
    stop = verifier.next()
    assert (stop["name"], stop["turnIndex"]) == ("stop", 1)
    assert verifier.receipts(2) == ["sent", "started"]
    assert verifier.next()["turnIndex"] == 1
    # corrections count, whichever daemon took them
    assert verifier.prompt("two") == ""
    assert verifier.next()["name"] == "stop"
    assert verifier.prompt("three") == "max loops exceeded"
    assert work.typed == before


def test_a_daemon_that_is_killed_while_the_hook_waits_costs_no_correction(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "killed")
    verifiers.append(verifier := Verifier(hosting, "killed"))
    work.type("build it")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    hosting.kill_daemon()
    verifiers.append(verifier := Verifier(hosting, "killed", since=0))
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    assert verifier.prompt("mend it") == ""
    stop = verifier.next()
    assert (stop["name"], stop["turnIndex"]) == ("stop", 1)
    verifier.report(1, "verified")
    work.wait("turn 1 done")
    assert "mend it" in (place / "transcript.jsonl").read_text()
    assert b"mend it" not in work.typed


def test_a_second_correction_waits_for_the_end_of_the_first(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "both")
    verifiers.append(verifier := Verifier(hosting, "both"))
    work.type("build it")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    assert (verifier.prompt("first"), verifier.prompt("second")) == ("", "")
    assert verifier.prompt("third") == "max loops exceeded"
    assert [verifier.next()["name"] for _ in range(2)] == ["stop", "stop"]
    texts = [json.loads(line)["text"] for line in (place / "transcript.jsonl").read_text().splitlines()]
    assert texts == ["build it", "done", "first", "done", "second", "done"]
    assert b"first" not in work.typed


@pytest.fixture
def impatient() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_VERIFIER_BEGIN_SECONDS": "0.5"})
    hosting.run("ls")
    yield hosting
    hosting.close()


def test_a_correction_with_which_the_agent_does_not_go_on_is_reported_and_a_person_called(
    impatient: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    hosting = impatient
    work = Working(hosting, place, "deaf")
    verifiers.append(verifier := Verifier(hosting, "deaf"))
    (place / "deaf").touch()
    work.type("build it")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    assert verifier.prompt("mend it") == ""
    assert verifier.receipts(2) == ["sent", "not-delivered"]
    reason = verifier.told("verify/escalated")["reason"]
    assert reason.startswith("a correction was not delivered: no turn began within 0.5 seconds")


def test_a_hook_that_a_person_interrupts_gets_nothing_and_nothing_is_typed(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "interrupted")
    verifiers.append(verifier := Verifier(hosting, "interrupted"))
    work.type("build it")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    (place / "interrupt").touch()
    work.wait("turn 1 done")
    before = work.typed
    refusal = verifier.prompt("mend it")
    assert refusal == "the agent ended its stop hook before the verdict, by a person or its time limit"
    assert verifier.told("verify/escalated")["reason"] == f"a correction was not delivered: {refusal}"
    assert work.typed == before


def test_a_turn_that_a_person_stops_ends_though_no_hook_is_called(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "escaped")
    verifiers.append(verifier := Verifier(hosting, "escaped"))
    for turn in (1, 3):
        work.type("escape")
        assert verifier.next()["name"] == "start"
        stop = verifier.next()
        assert (stop["name"], stop["turnIndex"], stop["outcome"]) == ("stop", turn, "aborted")
        assert verifier.prompt("mend it") == "the turn was aborted, and an aborted turn is not sent back"
        work.type("build it")
        assert verifier.next()["name"] == "start"
        stop = verifier.next()  # what was stopped before is not taken for this turn
        assert (stop["name"], stop["turnIndex"], stop["outcome"]) == ("stop", turn + 1, "done")
        verifier.report(turn + 1, "verified")


# --- typing -----------------------------------------------------------------------------------------------


def stopped(work: Working, verifier: Verifier) -> None:
    """A turn has ended whose stop hook can't be answered."""
    work.type("build it")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    work.wait("turn 1 done")


def test_without_a_hook_that_waits_a_correction_is_typed_into_the_empty_input(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "typed", how="plain")
    verifiers.append(verifier := Verifier(hosting, "typed"))
    stopped(work, verifier)
    before = len(work.typed)
    assert verifier.prompt(LONG) == ""
    assert verifier.receipts(2) == ["typed", "started"]
    corrected = verifier.next()
    assert (corrected["name"], corrected["turnIndex"], corrected["userPrompt"]) == ("stop", 1, "build it")
    assert work.typed[before:] == f"\x1b[200~{LONG}\x1b[201~\r".encode()
    work.wait("turn 2 done")
    # what would be a command of the agent is not
    before = len(work.typed)
    assert verifier.prompt("/exit") == ""
    assert verifier.receipts(2) == ["typed", "started"]
    assert work.typed[before:] == b"\x1b[200~A check of this work says:\n/exit \x1b[201~\r"


@pytest.mark.parametrize(("screen", "keys"), [("a draft", "half a thought"), ("a dialog", "ask\r")])
def test_a_correction_neither_sends_a_draft_nor_answers_a_dialog(
    hosting: Hosting, place: Path, verifiers: list[Verifier], screen: str, keys: str
) -> None:
    name = screen.replace(" ", "-")
    work = Working(hosting, place, name, how="plain")
    verifiers.append(verifier := Verifier(hosting, name))
    stopped(work, verifier)
    hosting.run("send", name, keys.rstrip("\r"), *(("-k", "enter") if keys.endswith("\r") else ()))
    work.wait("proceed?" if screen == "a dialog" else "> half a thought")
    before = work.typed
    for how in ({}, {"deliverAs": "steer"}):
        refusal = verifier.prompt("1", **how)
        way = "claude does not show an input that takes a prompt"
        way = "there is a draft in the input of claude" if screen == "a draft" else way
        assert refusal == f"{way}, so nothing is typed"
    escalated = verifier.told("verify/escalated")
    assert escalated["reason"] == f"a correction was not delivered: {refusal}"
    assert hosting.sessions()[name]["verdict"]["escalated"] == escalated["reason"]
    assert (work.typed, (place / "accepted").exists()) == (before, False)


def test_an_agent_whose_screens_are_not_known_is_not_typed_to(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    (place / "agent.py").write_text(AGENT.replace('else "claude"', 'else "other"'))
    work = Working(hosting, place, "unknown", how="plain")
    verifiers.append(verifier := Verifier(hosting, "unknown"))
    stopped(work, verifier)
    assert "its screen is not known, so nothing is typed" in verifier.prompt("mend it")


def test_nothing_is_typed_into_another_program(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "shell", in_shell=True, how="plain")
    verifiers.append(verifier := Verifier(hosting, "shell"))
    stopped(work, verifier)
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
    work.type(" ".join(work.command))
    work.wait("ready\n")
    hosting.until(lambda: "not the python" in verifier.prompt("rm -rf x"))
    work.type("again")
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    work.wait("turn 1 done")
    assert verifier.prompt("now it is") == ""


def test_an_agent_that_has_ended_is_not_typed_to(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "ended", how="plain")
    verifiers.append(verifier := Verifier(hosting, "ended"))
    stopped(work, verifier)
    work.type("exit")
    hosting.run("wait", "ended", "--exit", "--timeout", "20", check=False)
    assert verifier.prompt("hello?") == "the session is ended"


def test_a_correction_that_waits_is_not_typed_if_its_agent_ends_with_the_turn(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "quits", in_shell=True, how="plain")
    verifiers.append(verifier := Verifier(hosting, "quits"))
    (place / "hold").touch()
    work.type("quit")
    assert verifier.next()["name"] == "start"
    assert verifier.prompt("touch evil") == ""
    (place / "hold").unlink()
    assert verifier.next()["name"] == "stop"
    assert verifier.told("verify/receipt")["state"] == "queued"
    lost = verifier.told("verify/receipt")
    assert lost["state"] == "not-delivered"
    assert "the program in the foreground is bash, not the python" in lost["reason"]
    assert "evil" not in hosting.screen("quits")


# --- turns ------------------------------------------------------------------------------------------------


def test_other_agents_in_the_terminal_have_no_turns_but_a_new_conversation_has(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "nested")
    verifiers.append(verifier := Verifier(hosting, "nested"))
    work.type("nest")
    start, stop = verifier.next(), verifier.next()
    assert [(each["name"], each["userPrompt"]) for each in (start, stop)] == [
        ("start", "nest"),
        ("stop", "nest"),
    ]
    assert verifier.prompt("mend it") == ""  # the count is as it was: the one below was no person
    assert verifier.next()["turnIndex"] == 1
    verifier.report(1, "verified")
    work.wait("turn 1 done")
    work.type("/clear")
    work.type("another matter")
    start, stop = verifier.next(), verifier.next()
    assert (start["name"], start["turnIndex"], start["userPrompt"]) == ("start", 2, "another matter")
    assert stop["name"] == "stop"


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
    verifiers.append(verifier := Verifier(hosting, "gap", since=0))
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    verifier.report(1, "verified")
    work.wait("turn 1 done")


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
    stop = verifier.next()
    assert (stop["name"], stop["outcome"], stop["detail"]) == ("stop", "failed", "rate limit")
    work.wait("turn 1 done")
    assert verifier.prompt("try again") == ""  # no hook waits, so it is typed
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
        (b'{"hook_event_name": "PreCompact"}', "PreCompact events are ignored"),
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
    assert sorted(hooks) == CLAUDE_EVENTS
    assert hooks["Stop"][0]["hooks"][0]["command"] == f"{sys.executable} -m fairlead hook claude"
    assert hooks["Stop"][0]["hooks"][0]["timeout"] > STOP_WAIT
    done = install(hosting, "codex", "--print", CODEX_HOME=str(tmp_path))
    assert tomllib.loads(done.stdout)["hooks"]["Stop"][0]["hooks"][0]["command"] == (
        f"{sys.executable} -m fairlead hook codex"
    )
    assert list(tmp_path.iterdir()) == []
    assert install(hosting, "vim").returncode == 2


def test_hooks_are_added_to_the_settings_of_claude_once(hosting: Hosting, tmp_path: Path) -> None:
    places = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    path = tmp_path / "claude/settings.json"
    assert install(hosting, "claude", **places).returncode == 0
    assert sorted(json.loads(path.read_text())["hooks"]) == CLAUDE_EVENTS

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
    assert after["hooks"]["Stop"][1]["hooks"][0]["command"] == f"{sys.executable} -m fairlead hook claude"
    assert Path(f"{real}.before-fairlead").read_text() == before
    text = real.read_text()
    assert "already has the hooks" in install(hosting, "claude", **places).stdout
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
        CODEX_EVENTS,
    )
    assert "already has the hooks" in install(hosting, "codex", **places).stdout
    assert path.read_text() == text


def test_codex_gives_each_hook_as_long_as_it_allows_also_those_of_an_older_version(
    hosting: Hosting, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    old = "".join(
        "# added by `fairlead hook --install`\n"
        f'[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = "command"\ncommand = "fairlead hook codex"\n\n'
        for event in CODEX_EVENTS
    )
    path.write_text(f'model = "gpt"\n\n{old}')
    assert install(hosting, "codex", CODEX_HOME=str(tmp_path)).returncode == 0
    after = tomllib.loads(path.read_text())
    found = {
        event: [each["timeout"] for each in group["hooks"]] for event, (group,) in after["hooks"].items()
    }
    assert found.pop("Stop")[0] > STOP_WAIT
    assert found.pop("Interrupt") == found.pop("SessionEnd") == [3]
    assert set(map(tuple, found.values())) == {(START_TIMEOUT,)}
    assert settings_command(hosting, "--uninstall", "codex", CODEX_HOME=str(tmp_path)).returncode == 0
    assert path.read_text() == 'model = "gpt"\n'


def settings_command(hosting: Hosting, *words: str, **places: str) -> subprocess.CompletedProcess[str]:
    """As a user calls it: by the command's own name."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("fairlead")), "hook", *words],
        env={**hosting.environment, **places},
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )


MINE_JSON = b'{ "model":"opus",\r\n\t"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say"}]}]}}'
MINE_TOML = b'# mine\r\nmodel = "gpt"\n[tui]\ntheme = "dark"'


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("claude", "settings.json", MINE_JSON),
        ("claude", "settings.json", b"{}"),
        ("claude", "settings.json", None),
        ("codex", "config.toml", MINE_TOML),
        ("codex", "config.toml", MINE_TOML + b"\n\n\n"),
        ("codex", "config.toml", None),
        ("gemini", ".gemini/settings.json", MINE_JSON),
        ("gemini", ".gemini/settings.json", None),
        ("opencode", "opencode/plugin/fairlead.js", None),
    ],
)
def test_hooks_that_are_taken_out_leave_every_byte_as_it_was(
    hosting: Hosting, tmp_path: Path, agent: str, name: str, text: bytes | None
) -> None:
    places = {name: str(tmp_path) for name in PLACES}
    path = tmp_path / name
    if text is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
    assert "does not have the hooks" in settings_command(hosting, "--uninstall", agent, **places).stdout
    for expected in ("added the hooks to", "already has the hooks"):
        assert expected in settings_command(hosting, "--install", agent, **places).stdout
    program = str(Path(sys.executable).with_name("fairlead"))
    command = f'["{program}", "hook", "opencode"]' if agent == "opencode" else f"{program} hook {agent}"
    events = {"claude": len(CLAUDE_EVENTS), "codex": len(CODEX_EVENTS), "gemini": 7, "opencode": 1}
    assert path.read_text().count(command) == events[agent]
    assert "removed the hooks from" in settings_command(hosting, "--uninstall", agent, **places).stdout
    assert (path.read_bytes() if path.exists() else None) == text
    there = [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()]
    assert there == ([name] if text is not None else [])


def test_hooks_of_others_that_came_later_stay_when_ours_are_taken_out(
    hosting: Hosting, tmp_path: Path
) -> None:
    places = {"CLAUDE_CONFIG_DIR": str(tmp_path), "CODEX_HOME": str(tmp_path)}
    for agent in ("claude", "codex"):
        settings_command(hosting, "--install", agent, **places)
    claude, codex = tmp_path / "settings.json", tmp_path / "config.toml"
    found = json.loads(claude.read_text())
    other = {"type": "command", "command": "notify-send done; echo fairlead hook claude is mine"}
    found["hooks"]["Stop"][0]["hooks"].append(other)
    claude.write_text(json.dumps(found))
    codex.write_text(
        codex.read_text() + '\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "say"\n'
    )
    for agent in ("claude", "codex"):
        assert settings_command(hosting, "--uninstall", agent, **places).returncode == 0
    assert json.loads(claude.read_text()) == {"hooks": {"Stop": [{"hooks": [other]}]}}
    (only,) = tomllib.loads(codex.read_text())["hooks"]["Stop"]
    assert only["hooks"] == [{"type": "command", "command": "say"}]


def test_hooks_that_an_older_version_added_are_brought_up_to_date(hosting: Hosting, tmp_path: Path) -> None:
    old = {"type": "command", "command": "fairlead hook claude", "timeout": 10}
    path = tmp_path / "settings.json"
    path.write_text(
        json.dumps({"hooks": {event: [{"hooks": [old]}] for event in ("UserPromptSubmit", "Stop", "Gone")}})
    )
    settings_command(hosting, "--install", "claude", CLAUDE_CONFIG_DIR=str(tmp_path))
    assert sorted(json.loads(path.read_text())["hooks"]) == CLAUDE_EVENTS
    ((hook,),) = [group["hooks"] for group in json.loads(path.read_text())["hooks"]["Stop"]]
    assert hook["command"].startswith("/")
    assert hook["timeout"] > STOP_WAIT


@pytest.mark.parametrize(
    ("version", "is_known"), [("2.0.76 (Claude Code)", False), ("2.1.197 (Claude Code)", True), ("", False)]
)
def test_claude_gets_no_hook_that_its_version_does_not_know(
    hosting: Hosting, tmp_path: Path, version: str, is_known: bool
) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    places = {"CLAUDE_CONFIG_DIR": str(tmp_path), "PATH": f"{tmp_path}:{hosting.environment['PATH']}"}
    hooks = json.loads(install(hosting, "claude", "--print", **places).stdout)["hooks"]
    assert ("StopFailure" in hooks) is is_known


def test_a_plugin_that_is_not_ours_stays(hosting: Hosting, tmp_path: Path) -> None:
    path = tmp_path / "opencode/plugin/fairlead.js"
    path.parent.mkdir(parents=True)
    path.write_text("export const Mine = 1\n")
    done = install(hosting, "opencode", XDG_CONFIG_HOME=str(tmp_path))
    assert (done.returncode, "not ours" in done.stderr) == (1, True)
    settings_command(hosting, "--uninstall", "opencode", XDG_CONFIG_HOME=str(tmp_path))
    assert path.read_text() == "export const Mine = 1\n"


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
    assert (done.returncode, "can't change" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [(name, text)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is below a program for sure")
def test_an_agent_in_a_terminal_does_not_judge_itself(hosting: Hosting, tmp_path: Path) -> None:
    fairlead = " ".join(hosting.command)
    turn = "".join(
        f"echo '{json.dumps({'hook_event_name': event, 'session_id': 'one', 'prompt': 'do it'})}' "
        f"| timeout 20 {fairlead} hook claude\n"
        for event in ("UserPromptSubmit", "Stop")
    )
    agent = tmp_path / "agent.sh"
    agent.write_text(
        f"cd {tmp_path}\n{turn}"
        f"env -u FAIRLEAD_SESSION {fairlead} verify --once roses -- grep -q x words >judged 2>&1\n"
        "touch done; sleep 100\n"
    )
    (tmp_path / "words").write_text("x\n")
    hosting.start("roses", f"sh {agent}; exec sh")
    hosting.until((tmp_path / "done").exists)
    refused = "a command of an agent session (claude in session roses) sent it"
    assert refused in " ".join((tmp_path / "judged").read_text().split())
    assert not hosting.ask("verify_reports", session_id="roses")["reports"]
    hosting.run("verify", "--once", "roses", "--", "grep", "-q", "x", str(tmp_path / "words"), check=False)
    assert len(hosting.ask("verify_reports", session_id="roses")["reports"]) == 1


def turns_of(hosting: Hosting, name: str) -> list[dict[str, Any]]:
    return list(json.loads(hosting.run("timeline", name, "--json").stdout)["turns"])


def state_of(hosting: Hosting, name: str) -> str:
    return str(hosting.ask("session_state", name=name)["session"]["activity"]["state"])


def test_a_stop_that_is_sent_back_ends_neither_the_prompt_nor_its_state_and_is_in_the_timeline(
    hosting: Hosting, place: Path, verifiers: list[Verifier]
) -> None:
    work = Working(hosting, place, "back")
    work.type("warm up")
    work.wait("turn 1 done")  # which also says who calls the hooks
    verifiers.append(verifier := Verifier(hosting, "back"))
    prompt = json.loads(hosting.run("prompt", "back", "build it", "--json").stdout)["prompt_id"]
    assert [verifier.next()["name"] for _ in range(2)] == ["start", "stop"]
    receipt = hosting.ask("prompt_receipt", name="back", prompt_id=prompt)
    assert receipt["state"] != "ended", receipt
    hosting.until(lambda: state_of(hosting, "back") == "working")
    assert verifier.prompt("it does not shut") == ""
    verifier.report(2)
    assert verifier.next()["name"] == "stop"
    receipt = hosting.ask("prompt_receipt", name="back", prompt_id=prompt)
    assert receipt["state"] != "ended", receipt
    verifier.report(2, "verified")
    receipt = hosting.ask("prompt_receipt", name="back", prompt_id=prompt, timeout=WAIT)
    assert receipt["outcome"] == "done"
    (turn,) = [each for each in turns_of(hosting, "back") if each["number"] == 2]
    assert [step["text"] for step in turn["steps"] if step["what"] == "correction"] == ["it does not shut"]
    assert "sent back" in hosting.run("timeline", "back").stdout


def test_a_turn_ends_when_its_agent_is_killed(hosting: Hosting, place: Path) -> None:
    work = Working(hosting, place, "killed")
    (place / "hold").touch()
    work.type("build it")
    hosting.until(lambda: hosting.run("timeline", "killed", check=False).returncode == 0)
    assert not turns_of(hosting, "killed")[0].get("ended")
    os.kill(hosting.sessions()["killed"]["pid"], signal.SIGKILL)
    hosting.until(lambda: bool(turns_of(hosting, "killed")[0].get("ended")))
    assert turns_of(hosting, "killed")[0]["outcome"] == "lost"
