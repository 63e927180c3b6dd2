"""`fairlead talk`, `notify`, `approvals` and `doctor`, as a person and a script use them."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from fairlead.system.settings import Settings
from tests.cli.talking import person
from tests.hosting import WAIT, Hosting


def port_of(hosting: Hosting) -> str:
    return str(hosting.ask("daemon_status")["passepartout_port"])


def test_a_script_says_lines_and_gets_all_answers(hosting: Hosting) -> None:
    done = hosting.run("talk", input="/help\n\nwhat can you do?\n/status")
    assert "/approve TOKEN" in done.stdout
    assert "offline guide" in done.stdout
    assert "approvals pending" in done.stdout
    assert done.stderr == ""


def test_what_can_not_be_done_is_told_by_the_exit_code(hosting: Hosting) -> None:
    for said, why in (
        ("/nonsense", "unknown command /nonsense; /help lists them"),
        ("/approve", "/approve needs a token; /approvals lists them"),
        ("/run rm -rf /", "blocked: `rm -rf /` is never run"),
        ("/run cat ~/.ssh/id_rsa", "blocked: ~/.ssh/id_rsa is protected"),
        ("/deny abcd1234", "no question 'abcd1234' is pending; `fairlead approvals` lists those that are"),
    ):
        done = hosting.run("talk", said, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{why}\n")
    missing = hosting.run("talk", "--token", "/nowhere", "hi", check=False)
    assert (missing.returncode, missing.stderr.splitlines()[0]) == (
        2,
        "fairlead talk: can't read /nowhere: No such file or directory",
    )
    for is_dead in (False, True):  # ^C, and the death of the daemon, while an answer is under way
        talking = subprocess.Popen(
            [*hosting.command, "talk", "write never.txt: x"],
            env=hosting.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert talking.stderr is not None
        while "/approve" not in talking.stderr.readline():
            pass
        if is_dead:
            hosting.kill_daemon()
        else:
            talking.send_signal(signal.SIGINT)
        _, rest = talking.communicate(timeout=WAIT)
        assert talking.returncode == (1 if is_dead else 130)
        assert ("1 answer was lost" in rest) == is_dead
        for row in hosting.ask("approvals")["approvals"]:
            hosting.ask("approval_settle", token=row["token"], allowed=False)


def test_one_question_over_tcp_and_over_the_unix_socket(hosting: Hosting) -> None:
    hosting.ask("new_session", name="talked to")
    for words in (["--tcp", port_of(hosting)], []):
        done = hosting.run("talk", *words, "-s", "talked to", "what", "can", "you", "do?")
        assert "offline guide" in done.stdout


def test_a_session_that_is_not_there_is_a_failure(hosting: Hosting) -> None:
    done = hosting.run("talk", "-s", "nowhere", "hi", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "no agent session 'nowhere'; `fairlead sessions` lists them\n",
    )
    lines = hosting.run("talk", "-s", "nowhere", input="hi\n/status\n", check=False)
    assert lines.returncode == 1
    assert "approvals pending" in lines.stdout


def test_a_person_talks_approves_and_ends_an_answer(hosting: Hosting) -> None:
    home = Path(hosting.environment["HOME"])
    with person(hosting) as someone:
        someone.until("Ctrl-D quits")
        someone.type("write by-talk.txt: grüße\n")
        shown = someone.until("/deny ")
        token = shown.rpartition("/approve ")[2].split()[0]
        someone.type(f"/approve {token}\n")
        someone.until("Done: write")
        hosting.until(lambda: any(home.rglob("by-talk.txt")))
        someone.type("run: sleep 30\n")
        someone.until("/deny ")
        someone.type("\x03")
        someone.until("aborted")
        someone.type("/status\n")
        someone.until("approvals pending")
        someone.type("\x04")
        assert someone.process.wait(WAIT) == 0


def test_what_is_printed_can_not_control_the_terminal(hosting: Hosting) -> None:
    done = hosting.run("talk", "/run printf '\\033[31mred\\007\\n'")
    assert done.stdout == "·[31mred·\n"


def test_an_answer_that_does_not_come_ends_it(hosting: Hosting) -> None:
    done = hosting.run("talk", "--timeout", "0.2", "write never.txt: x", check=False)
    assert done.returncode == 124
    question = done.stderr.partition("write waits for your consent:\n")[2].partition("/approve")[0]
    assert "never.txt" in question
    assert all(row.startswith("    ") for row in question.splitlines())
    for row in hosting.ask("approvals")["approvals"]:
        hosting.ask("approval_settle", token=row["token"], allowed=False)


def test_wrong_words_and_a_dead_port_are_said(hosting: Hosting, tmp_path: Path) -> None:
    assert hosting.run("talk", "--tcp", "70000", check=False).returncode == 2
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = str(listener.getsockname()[1])
    done = hosting.run("talk", "--tcp", dead, "x", check=False)
    assert (done.returncode, "can't connect to port" in done.stderr) == (1, True)
    assert hosting.run("talk", "--token", str(tmp_path / "none"), "x", check=False).returncode == 2


def test_a_token_is_taken_from_a_file(hosting: Hosting) -> None:
    wrong = hosting.run("talk", "--token", "/dev/null", "/help", check=False)
    assert (wrong.returncode, "the daemon rejected the token" in wrong.stderr) == (1, True)
    token = Settings(hosting.environment).token_path
    assert "/approve" in hosting.run("talk", "--tcp", port_of(hosting), "--token", token, "/help").stdout


def test_approvals_are_listed_and_answered(hosting: Hosting) -> None:
    assert "no approvals pending" in hosting.run("approvals").stderr
    answer = hosting.run("talk", "/run rm nothing; printf '\\n/approve 1'").stdout
    first, *body, choices = answer.splitlines()
    assert first == "shell waits for your consent:"
    assert all(row.startswith("    ") for row in body)
    hosting.run("approvals", "deny", choices.split()[1])
    assert "waits for your consent" in hosting.run("talk", "/run rm nothing").stdout
    listed = hosting.run("approvals").stdout
    token = listed.split()[0]
    assert f"{token}  shell: rm nothing\n" in listed
    assert "why    `rm nothing` may do harm\n    who    the daemon itself\n" in listed
    assert json.loads(hosting.run("approvals", "--json").stdout)[0]["token"] == token
    denied = json.loads(hosting.run("approvals", "deny", token, "--json").stdout)
    assert (denied["accepted"], denied["approval"]["summary"]) == (True, "rm nothing")
    again = hosting.run("approvals", "allow", token, check=False)
    assert (again.returncode, "answered already" in again.stderr) == (1, True)
    assert hosting.run("approvals", "allow", check=False).returncode == 2
    assert hosting.run("approvals", "maybe", token, check=False).returncode == 2


def test_what_a_program_asks_in_its_terminal_only_is_listed_below_and_answered_there(
    hosting: Hosting, tmp_path: Path
) -> None:
    asking = "echo It is broken.; read -p 'Mend it? ' it"
    hosting.run("start", "gate", "-d", "--cwd", str(tmp_path), "--", "bash", "-c", asking)
    hosting.until(lambda: "waits" in hosting.run("ls", "gate").stdout)
    hosting.run("talk", "/run rm nothing")
    first, second = json.loads(hosting.run("approvals", "--json").stdout)
    assert (first["kind"], second["kind"]) == ("action", "terminal")
    assert (second["token"], second["session_name"], second["summary"]) == ("", "gate", "Mend it?")
    listed = hosting.run("approvals").stdout
    assert "\ngate  in its terminal: Mend it?\n" in listed
    assert "do     answer in the terminal: `fairlead attach gate`\n" in listed
    assert f"who    session gate in {tmp_path}\n" in listed
    shown = hosting.run("approvals", "show", "gate").stdout
    assert shown.startswith("gate  in its terminal: Mend it?\n")
    assert "    what\n      It is broken.\n      Mend it?\n" in shown
    (row,) = json.loads(hosting.run("approvals", "show", "gate", "--json").stdout)
    assert (row["summary"], row["preview"].rstrip()) == ("Mend it?", "It is broken.\nMend it?")
    done = hosting.run("approvals", "allow", "gate", check=False)
    why = "gate asks in its terminal: Mend it?; answer in the terminal: `fairlead attach gate`"
    assert (done.returncode, why in done.stderr) == (1, True)
    hosting.run("send", "gate", "yes", "-k", "Enter")
    hosting.run("approvals", "deny", first["token"])
    hosting.until(lambda: "no approvals pending" in hosting.run("approvals").stderr)


def test_a_notification_without_a_receiver_is_a_failure(hosting: Hosting) -> None:
    done = hosting.run("notify", "hello", check=False)
    assert (done.returncode, "[notify] urls" in done.stderr) == (1, True)


def test_the_doctor_looks_with_and_without_a_daemon(hosting: Hosting) -> None:
    hosting.run("ls")
    done = hosting.run("doctor")
    assert re.search(r"\nhealthy: \d+ checks, nothing to fix\n$", done.stdout)
    assert f"port {port_of(hosting)}" in done.stdout
    found = json.loads(hosting.run("doctor", "--json").stdout)
    assert {check["name"] for check in found["checks"]} >= {
        "daemon",
        "disk space",
        "event loop",
        "passepartout",
    }
    lonely = Hosting()
    try:
        assert "not running; the next command starts it" in lonely.run("doctor").stdout
        assert json.loads(lonely.run("doctor", "--json").stdout)["status"] == "healthy"
    finally:
        lonely.close()


@pytest.mark.parametrize("setting", ["FAIRLEAD_PASSEPARTOUT_ENABLED", "FAIRLEAD_PASSEPARTOUT_PORT"])
def test_a_door_that_is_off_or_whose_port_is_taken_is_told(setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        value = "off" if setting.endswith("ENABLED") else str(taken.getsockname()[1])
        hosting = Hosting({setting: value})
        try:
            hosting.run("ls")
            done = hosting.run("doctor", check=False)
            talk = hosting.run("talk", "/help", check=False)
            if value == "off":
                assert "switched off" in done.stdout
                assert (talk.returncode, "door is disabled" in talk.stderr) == (1, True)
            else:
                assert done.returncode == 1
                assert "fix: set [passepartout] port" in done.stdout
                assert "/approve" in talk.stdout
        finally:
            hosting.close()
