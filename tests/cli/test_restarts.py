"""What waits goes on when the daemon is killed; a lost connection never looks like a program's exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.talking import person
from tests.doors.passepartout_peer import kill_and_wait
from tests.hosting import WAIT, Hosting

FEW_REPEATS = 1
PROGRAM = f"""
import sys
from fairlead.client import reconnect
from fairlead.cli import main
reconnect.MAX_REPEATS = {FEW_REPEATS}  # what waits outlives more restarts than these
sys.exit(main())
"""


@contextmanager
def client(hosting: Hosting, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs while the daemon is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        env=hosting.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_waiting_goes_on_through_many_restarts_with_the_time_that_is_left(hosting: Hosting) -> None:
    hosting.start("long", "read line; echo it came; read line; exit 7")
    with (
        client(hosting, "wait", "long", "--text", "it came", "--timeout", "300") as text,
        client(hosting, "wait", "long", "--exit") as ending,
        client(hosting, "wait", "long", "--exit", "--timeout", "2.5") as limited,
    ):
        for _ in range(FEW_REPEATS + 2):
            kill_and_wait(hosting)
            hosting.sessions()
        assert limited.wait(WAIT) == 124
        assert limited.communicate()[1] == "fairlead wait: timed out after 2.5 s\n"
        assert (text.poll(), ending.poll()) == (None, None)
        hosting.run("send", "long", "-k", "Enter")
        assert text.wait(WAIT) == 0
        hosting.run("send", "long", "-k", "Enter")
        assert ending.wait(WAIT) == 7
        assert ending.communicate() == ("", "")


def test_what_could_not_be_waited_for_is_no_exit_code_of_a_program(hosting: Hosting) -> None:
    done = hosting.run("wait", "nowhere", "--exit", check=False)
    assert (done.returncode, "no session 'nowhere'" in done.stderr) == (125, True)


def test_talk_goes_on_with_the_next_daemon_and_says_what_was_lost(hosting: Hosting) -> None:
    with person(hosting) as someone:
        someone.until("Ctrl-D quits")
        kill_and_wait(hosting)
        someone.until("reconnected: the daemon restarted\r\n")
        someone.type("write wanted.txt: x\n")
        someone.until("/deny ")
        kill_and_wait(hosting)
        someone.until("reconnected: the daemon restarted; 1 answer was lost, ask again if needed")
        someone.type("/help\n")
        someone.until("/approve TOKEN")
        someone.type("\x04")
        assert someone.process.wait(WAIT) == 0


def test_talk_in_a_script_goes_on_and_tells_by_its_code_that_an_answer_was_lost(hosting: Hosting) -> None:
    with client(hosting, "talk") as talk:
        assert talk.stdin is not None
        assert talk.stdout is not None
        assert talk.stderr is not None
        talk.stdin.write("/help\n")
        talk.stdin.flush()
        while "/approve TOKEN" not in talk.stdout.readline():
            pass
        kill_and_wait(hosting)
        while not talk.stderr.readline().startswith("reconnected: the daemon restarted"):
            pass
        talk.stdin.write("write wanted.txt: y\n")
        talk.stdin.flush()
        while "/deny" not in talk.stderr.readline():
            pass
        kill_and_wait(hosting)
        while "1 answer was lost" not in talk.stderr.readline():
            pass
        rest, errors = talk.communicate("/status\n", WAIT)
        assert talk.returncode == 1, errors
        assert "1 approval pending" in rest


def test_how_long_a_program_has_been_quiet_is_known_after_a_restart(hosting: Hosting) -> None:
    hosting.start("quiet", "echo said; read line")
    hosting.start("mute", "read line")
    hosting.wait_text("quiet", "said")
    hosting.run("wait", "quiet", "--idle", "1.5")
    kill_and_wait(hosting)
    sessions = hosting.sessions()
    assert sessions["quiet"]["idle"] > 1.5
    assert sessions["mute"]["idle"] is None
    hosting.run("send", "quiet", "more")
    hosting.wait_text("quiet", "more")
    hosting.until(lambda: hosting.sessions()["quiet"]["idle"] < sessions["quiet"]["idle"])
