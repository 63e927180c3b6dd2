"""Terminal sessions from the outside: the real command, a real daemon, real programs."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.client.sdk import Host
from fairlead.events import Bell, Event, Exited, Notification
from fairlead.system.settings import Settings
from tests.hosting import WAIT, Hosting


@pytest.fixture
def hosting(lent: Hosting) -> Hosting:
    return lent


ECHO = "echo ready; while read line; do echo got $line; done"


def test_a_session_is_started_typed_into_looked_at_and_stopped(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    hosting.wait_text("work", "ready")
    hosting.run("send", "work", "hello there", "-k", "Enter")
    hosting.wait_text("work", "got hello there")
    assert hosting.screen("work") == "ready\nhello there\ngot hello there\n"
    row = hosting.sessions()["work"]
    assert (row["state"], row["cols"], row["rows"], row["exit_code"]) == ("running", 80, 24, None)
    assert row["argv"] == ["sh", "-c", ECHO]
    assert hosting.run("stop", "work").stdout == "session work ended with 129\n"
    assert hosting.sessions() == {}


def test_a_name_that_is_taken_is_refused_and_free_again_when_its_program_has_ended(hosting: Hosting) -> None:
    hosting.start("work", "exit 3")
    assert hosting.run("wait", "work", "--exit", check=False).returncode == 3
    hosting.start("work", ECHO)
    again = hosting.run("start", "work", "-d", "--", "true", check=False)
    taken = "fairlead start: session 'work' is already running; attach to it with `fairlead attach work`\n"
    assert (again.returncode, again.stderr) == (1, taken)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["screen", "nobody"], "fairlead screen: no session 'nobody'\n"),
        (
            ["start", "a/b", "-d"],
            "fairlead start: a session's name must not be empty or contain a slash or NUL: 'a/b'\n",
        ),
        (
            ["start", "red\x1b[31m", "-d"],
            r"fairlead start: a session's name must be printable UTF-8: 'red\x1b[31m'" "\n",
        ),
        (
            ["start", "a", "-d", "--cols", "100000"],
            "fairlead start: bad value for cols: an integer from 1 to 65535\n",
        ),
        (["start", "a", "-d", "--cwd", "/no/such"], "fairlead start: no such directory: /no/such\n"),
    ],
)
def test_what_cant_be_done_is_said_in_one_line(hosting: Hosting, words: list[str], message: str) -> None:
    done = hosting.run(*words, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


@pytest.mark.parametrize("words", [["-d"], ["--json"], []], ids=["detached", "json", "attached"])
@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [("no-such-program", 127, "No such file or directory"), ("/etc/passwd", 126, "Permission denied")],
)
def test_a_command_that_cant_be_executed_is_said_with_a_shells_code_and_nothing_is_kept(
    hosting: Hosting, words: list[str], command: str, code: int, reason: str
) -> None:
    done = hosting.run("start", "work", *words, "--", command, check=False)
    expected = f"fairlead start: can't start '{command}': {reason}\n"
    assert (done.returncode, done.stdout, done.stderr) == (code, "", expected)
    assert hosting.sessions() == {}
    keepers = Path(hosting.environment["XDG_RUNTIME_DIR"], "fairlead/keepers")
    hosting.until(lambda: not list(keepers.iterdir()))
    hosting.start("work", "read line")  # the name is free


def test_waiting_tells_what_happened_by_its_exit_code(hosting: Hosting) -> None:
    hosting.start("work", "echo one; read line; exit 5")
    assert hosting.run("wait", "work", "--regex", "^o.e$", "--timeout", "20").returncode == 0
    assert hosting.run("wait", "work", "--idle", "0.2", "--timeout", "20").returncode == 0
    assert hosting.run("wait", "work", "--text", "never", "--timeout", "0.2", check=False).returncode == 124
    hosting.run("send", "work", "-k", "Enter")
    assert hosting.run("wait", "work", "--text", "never", check=False).returncode == 1
    assert hosting.run("wait", "work", "--exit", check=False).returncode == 5


def test_text_is_found_in_what_has_scrolled_away(hosting: Hosting) -> None:
    hosting.start("work", "seq 1 500; read line")
    hosting.wait_text("work", "500")
    found = json.loads(hosting.run("search", "work", "123", "--json").stdout)
    assert [match["text"].strip() for match in found] == ["123"]
    assert hosting.run("search", "work", "^4[89]0$", "-e").stdout.count("\n") == 2
    assert hosting.run("search", "work", "no such text", check=False).returncode == 1


def test_the_daemon_may_be_killed_and_no_session_notices(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    hosting.wait_text("work", "ready")
    before = hosting.sessions()["work"]["pid"]
    for number in range(5):
        hosting.kill_daemon()
        hosting.run("send", "work", f"line {number}", "-k", "Enter")
        hosting.wait_text("work", f"got line {number}")
    assert hosting.sessions()["work"]["pid"] == before
    expected = "ready\n" + "".join(f"line {number}\ngot line {number}\n" for number in range(5))
    assert hosting.screen("work") == expected


def test_a_program_that_ends_while_there_is_no_daemon_keeps_its_exit_code(
    hosting: Hosting, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    hosting.start("work", f"echo ready; read line < {gate}; exit 9")
    hosting.wait_text("work", "ready")
    hosting.run("daemon", "stop")
    gate.write_text("go\n")
    assert hosting.run("wait", "work", "--exit", check=False).returncode == 9


def test_a_restart_keeps_sessions_and_is_over_when_it_returns(hosting: Hosting) -> None:
    for number in range(10):
        hosting.start(f"s{number}", ECHO)
    pids = {name: row["pid"] for name, row in hosting.sessions().items()}
    hosting.run("daemon", "restart")
    assert {name: row["pid"] for name, row in hosting.sessions().items()} == pids


def read_until(terminal: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], WAIT)
        assert ready, f"{text!r} did not come: {seen!r}"
        seen += os.read(terminal, 65_536)
    return seen


def attached(hosting: Hosting, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """`fairlead attach` on a real terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fairlead", "attach", *words]
    client = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=hosting.environment)
    os.close(theirs)
    return client, ours


def test_attach_shows_the_screen_types_and_leaves_with_a_control_key(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    hosting.wait_text("work", "ready")
    client, terminal = attached(hosting, "work")
    read_until(terminal, b"ready")
    os.write(terminal, b"a,b,,c\r")
    read_until(terminal, b"got a,b,,c")
    os.write(terminal, b"\x1c")
    assert client.wait(WAIT) == 0
    assert hosting.sessions()["work"]["exit_code"] is None
    os.close(terminal)


def test_attach_goes_on_by_itself_when_the_daemon_is_killed_and_exits_with_the_programs_code(
    hosting: Hosting,
) -> None:
    hosting.start("work", "echo ready; while read line; do test $line = end && exit 6; echo got $line; done")
    hosting.wait_text("work", "ready")
    client, terminal = attached(hosting, "work")
    read_until(terminal, b"ready")
    for number in range(3):
        hosting.kill_daemon()
        read_until(terminal, b"ready")  # drawn again
        os.write(terminal, b"n%d\r" % number)
        read_until(terminal, b"got n%d" % number)
    os.write(terminal, b"end\r")
    assert client.wait(WAIT) == 6
    os.close(terminal)


def test_a_watcher_sees_and_cant_type(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    hosting.wait_text("work", "ready")
    client, terminal = attached(hosting, "-w", "work")
    read_until(terminal, b"ready")
    os.write(terminal, b"xyz\r")
    hosting.run("send", "work", "typed elsewhere", "-k", "Enter")
    read_until(terminal, b"got typed elsewhere")
    os.write(terminal, b"q")
    assert client.wait(WAIT) == 0
    assert "xyz" not in hosting.screen("work")
    os.close(terminal)


def test_not_a_line_of_a_flood_is_lost_repeated_or_changed_while_daemons_die(hosting: Hosting) -> None:
    lines = 60_000
    hosting.start("flood", f"read line; seq 1 {lines}; echo done; read line", "--cols", "20")
    hosting.start("typed", ECHO)
    hosting.run("send", "flood", "-k", "Enter")
    for number in range(8):
        hosting.kill_daemon()
        hosting.run("send", "typed", f"n{number}", "-k", "Enter")
        hosting.wait_text("typed", f"got n{number}")
    hosting.wait_text("flood", "done")
    text = hosting.run("screen", "flood", "--scrollback").stdout.split()
    numbers = [int(word) for word in text[:-1]]
    assert text[-1] == "done"
    assert numbers == list(range(lines - len(numbers) + 1, lines + 1))
    assert len(numbers) > 5000


def test_signals_reach_the_program_through_the_terminal(hosting: Hosting) -> None:
    hosting.start("work", "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.05; done")
    hosting.wait_text("work", "ready")
    hosting.run("send", "work", "-k", "C-c")
    assert hosting.run("wait", "work", "--exit", check=False).returncode == 4


def test_stopping_kills_what_ignores_sigterm(hosting: Hosting) -> None:
    hosting.run("daemon", "stop")
    hosting.environment["FAIRLEAD_TERMINAL_STOP_GRACE"] = "0.3"
    hosting.start("work", "trap '' TERM HUP; echo ready; while :; do sleep 0.05; done")
    hosting.wait_text("work", "ready")
    assert hosting.run("stop", "work").stdout == f"session work ended with {128 + signal.SIGKILL}\n"


def test_a_programs_question_to_its_terminal_is_answered_while_nobody_is_attached(hosting: Hosting) -> None:
    ask = r"stty raw -echo; printf 'ab\033[6n'; reply=$(dd bs=1 count=6 2>/dev/null | od -An -tx1); stty sane"
    hosting.start("work", f"{ask}; echo; echo reply $reply; exec sleep 99")
    hosting.wait_text("work", "reply 1b 5b 31 3b 33 52")  # row 1, column 3


ASKING = """
import os, sys, tty
tty.setraw(0)
os.write(1, b"\\x1b[c\\x1b[6n\\x07ready")
with open(sys.argv[1], "ab", buffering=0) as log:
    while True:
        log.write(os.read(0, 4096))
"""
"""A program that asks its terminal something once, and writes down all that is typed to it."""


@pytest.mark.parametrize("ends", ["killed", "restarted", "stopped"])
def test_what_the_last_daemon_has_answered_is_not_answered_again(
    hosting: Hosting, tmp_path: Path, ends: str
) -> None:
    script, log = tmp_path / "asking.py", tmp_path / "log"
    script.write_text(ASKING)
    hosting.run("start", "work", "-d", "--", sys.executable, str(script), str(log))
    hosting.until(lambda: log.exists() and log.read_bytes().endswith(b"R"))
    answers = log.read_bytes()
    for number in range(2):
        if ends == "killed":
            hosting.kill_daemon()
        else:
            hosting.run("daemon", "restart" if ends == "restarted" else "stop")
        hosting.run("send", "work", f"<{number}>")
        hosting.until(lambda: log.read_bytes().endswith(f"<{number}>".encode()))  # noqa: B023 - called at once
    assert log.read_bytes() == answers + b"<0><1>"


def test_what_is_asked_while_there_is_no_daemon_is_answered_by_the_next(
    hosting: Hosting, tmp_path: Path
) -> None:
    script, log, go = tmp_path / "asking.py", tmp_path / "log", tmp_path / "go"
    script.write_text(f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n{ASKING}")
    hosting.run("start", "work", "-d", "--", sys.executable, str(script), str(log))
    hosting.run("daemon", "stop")
    go.touch()
    hosting.until(log.exists)
    hosting.run("ls")
    hosting.until(lambda: log.read_bytes().endswith(b"R"))


def test_a_flood_of_notifications_and_bells_is_summed_up(hosting: Hosting) -> None:
    """Ten thousand a second made all others wait."""
    flood = (
        "import sys; note = '\\x1b]777;notify;build;step %d\\a'\n"
        "sys.stdin.readline(); sys.stdout.write(''.join(note % n for n in range(200)) + '\\a' * 3)"
    )
    hosting.run("start", "flood", "-d", "--", sys.executable, "-c", flood)
    topics = ("terminal/notification", "terminal/bell", "terminal/exited")
    with Host(Settings(hosting.environment)) as host, host.events(*topics) as events:
        hosting.run("send", "flood", "-k", "Enter")
        told: list[Event] = []
        for event in events:
            if isinstance(event, Exited):
                break
            told.append(event)
    notes = [event.body for event in told if isinstance(event, Notification)]
    assert notes[:10] == [f"step {number}" for number in range(10)]
    assert len(told) < 120
    words = [body.split()[0] for body in notes if "left out" in body]
    assert sum(map(int, words)) + len(notes) - len(words) == 200
    assert notes[-1].endswith("left out; the last: step 199")
    assert any(isinstance(event, Bell) for event in told)
