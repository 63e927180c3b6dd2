"""Eight sessions in a real tmux: a person answers, attaches and comes back, filters, starts and stops.

Meanwhile the daemon is killed, and the terminal changes its size."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hosting import WAIT, Hosting

pytestmark = [pytest.mark.peers]
READ = 1.0
"""Seconds for which a person reads a question."""


class Tmux:
    """A terminal with one program in it."""

    def __init__(self, tmux: str, hosting: Hosting, columns: int, rows: int) -> None:
        self._command = [tmux, "-S", str(hosting.directory / "tmux"), "-f", "/dev/null"]
        self._environment = {**hosting.environment, "LC_ALL": "C.UTF-8"}
        fairlead = f"{sys.executable} -m fairlead; echo left with $?; exec sleep 1000"
        self.run("new-session", "-d", "-x", str(columns), "-y", str(rows), "sh", "-c", fairlead)
        self.run("set", "-g", "window-size", "manual")

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [*self._command, *words], env=self._environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    @property
    def text(self) -> str:
        return self.run("capture-pane", "-p")

    def keys(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def until(self, *texts: str, but: tuple[str, ...] = ()) -> None:
        self.until_it(
            lambda shown: all(each in shown for each in texts) and not any(each in shown for each in but)
        )

    def until_it(self, holds: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + WAIT
        while not holds(shown := self.text):
            assert time.monotonic() < deadline, shown
            time.sleep(0.05)

    def answer(self, key: str, gone: str) -> None:
        """Read what is shown, and answer it: a key that comes too soon answers nothing."""
        deadline = time.monotonic() + WAIT
        while gone in self.text:
            assert time.monotonic() < deadline, self.text
            time.sleep(READ)
            self.keys(key)
            time.sleep(READ)

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(rows))


@pytest.fixture
def tmux(lent: Hosting, peer: Callable[[str], str]) -> Iterator[Callable[[int, int], Tmux]]:
    opened: list[Tmux] = []
    program = peer("tmux")

    def open_one(columns: int, rows: int) -> Tmux:
        opened.append(Tmux(program, lent, columns, rows))
        return opened[-1]

    yield open_one
    for each in opened:
        each.run("kill-server")
    (lent.directory / "tmux").unlink(missing_ok=True)


def eight_sessions(hosting: Hosting, cwd: Path) -> None:
    for name in ("shell-1", "shell-2"):
        hosting.run("start", name, "-d", "--", "sh")
    hosting.run("start", "repl", "-d", "--", sys.executable, "-q")
    hosting.start("build", "echo compiling; exec sleep 1000")
    hosting.start("evil", "printf '\\033]0;\\033[2Jgotcha\\007\\033[31mred\\033[0m'; exec sleep 1000")
    hosting.start("deploy", "printf 'Deploy it? (y/n) '; read x; echo got $x; exec sleep 1000")
    for name, prompt in (("garden", "run: touch made"), ("weeds", "list")):
        id = hosting.ask("open_session", name=name, cwd=str(cwd))["session_id"]
        hosting.ask("prompt", session_id=id, message=prompt)
    hosting.until(lambda: bool(hosting.ask("approvals")["approvals"]))


def test_a_person_has_eight_sessions_on_one_screen(
    lent: Hosting, tmux: Callable[[int, int], Tmux], tmp_path: Path
) -> None:
    eight_sessions(lent, tmp_path)
    seen = tmux(100, 30)
    seen.until("8 sessions", "2 need you", "Deploy it? (y/n)", "$ touch made")
    assert seen.text.split("\n")[2].split()[1] in ("deploy", "garden")

    # answer the one that asks for consent
    seen.keys("/")
    seen.keys("touch", "Enter")
    seen.until("1 shown", "garden")
    seen.keys("y")
    seen.until("y  allow it", "it runs a command")
    seen.answer("y", "y  allow it")
    seen.until("allowed: $ touch made")
    assert (tmp_path / "made").exists()
    seen.keys("Escape")
    seen.until("8 sessions", "deploy", but=("shown",))

    # attach to the one that asks in its terminal, and come back
    seen.keys("/")
    seen.keys("deploy", "Enter")
    seen.until("1 shown", "Deploy it? (y/n)")
    seen.keys("Enter")
    seen.until("Deploy it? (y/n)", but=("1 shown",))
    seen.keys("yes", "Enter")
    seen.until("got yes")
    seen.keys("C-\\")
    seen.until("detached from deploy", "1 shown", "got yes")
    seen.keys("Escape")
    seen.until("8 sessions", but=("shown",))

    # the daemon dies
    lent.kill_daemon()
    seen.until("reconnected: the daemon restarted", "8 sessions")

    # start one, and stop it
    seen.keys("n")
    seen.until("Start a session")
    seen.keys("pond", "Tab", "Tab", "sleep 12345", "Enter")
    seen.until("9 sessions", "pond started", "sleep 12345")
    seen.keys("x")
    seen.until("Stop pond?")
    seen.answer("y", "Stop pond?")
    seen.until("pond ended with", "8 sessions")

    # any size
    seen.resize(40, 20)
    seen.until_it(lambda shown: "│" not in shown and "8 sessions" in shown and "? help" in shown)
    assert all(len(line) <= 40 for line in seen.text.split("\n"))
    seen.resize(200, 50)
    seen.until("PROJECT", "│", "AGENT")
    for number in range(40):
        seen.resize(30 + number * 37 % 150, 5 + number * 11 % 50)
    seen.resize(90, 24)
    seen.until_it(lambda shown: shown.split("\n")[0].startswith("fairlead  8 sessions"))
    seen.until("? help", "q quit", "│")
    assert "gotcha" not in seen.run("display-message", "-p", "#T")

    seen.keys("q")
    seen.until("left with 0")


def test_a_daemon_that_is_stopped_holds_up_nothing(lent: Hosting, tmux: Callable[[int, int], Tmux]) -> None:
    lent.slow_callbacks.append("")  # it is held up, by us
    lent.start("one", "echo first words; exec sleep 1000")
    lent.start("two", "echo other words; exec sleep 1000")
    seen = tmux(100, 20)
    seen.until("2 sessions", "one", "two")
    pid = lent.daemon_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        seen.until("the daemon has not answered")
        seen.keys("?")
        seen.until("Keys", "all sessions keep running")
        seen.keys("q")
        seen.until("2 sessions")
        seen.keys("/")
        seen.keys("two", "Enter")
        seen.until("1 shown")
    finally:
        os.kill(pid, signal.SIGCONT)
    seen.keys("Escape")
    seen.until("2 sessions", but=("has not answered",))
    os.kill(pid, signal.SIGSTOP)
    try:
        seen.keys("q")
        seen.until("left with 0")
    finally:
        os.kill(pid, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    done = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return done.stdout.strip().startswith("T")


def test_a_key_that_is_typed_while_the_dashboard_is_stopped_answers_nothing(
    lent: Hosting, tmux: Callable[[int, int], Tmux], tmp_path: Path
) -> None:
    id = lent.ask("open_session", name="garden", cwd=str(tmp_path))["session_id"]
    lent.ask("prompt", session_id=id, message="run: touch made")
    lent.until(lambda: bool(lent.ask("approvals")["approvals"]))
    seen = tmux(80, 20)
    seen.until("1 needs you")
    seen.keys("y")
    seen.until("y  allow it")
    shell, path = seen.run("display-message", "-p", "#{pane_pid} #{pane_tty}").split()
    found = subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True)
    pid = int(found.stdout.split()[0])
    for pause, is_covered, is_after in ((0.1, False, False), (2.0, True, False), (0.1, False, True)):
        time.sleep(READ)  # all of it was read
        os.kill(pid, signal.SIGSTOP)
        lent.until(lambda: is_stopped(pid))
        if is_covered:
            Path(path).write_text("\x1b[2J\x1b[Hsomething else")
            seen.until("something else", but=("y  allow it",))
        if not is_after:
            seen.keys("y")
        time.sleep(pause)
        os.kill(pid, signal.SIGCONT)
        if is_after:
            seen.keys("y")
        seen.until("y  allow it", but=("something else",))
        time.sleep(READ)
        seen.until("y  allow it")
    assert not (tmp_path / "made").exists()
    seen.answer("y", "y  allow it")
    seen.until("allowed: $ touch made")
    seen.keys("q")
    seen.until("left with 0")
    with open(path) as terminal:
        assert termios.tcgetattr(terminal)[3] & termios.ECHO
