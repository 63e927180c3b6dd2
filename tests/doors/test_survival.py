"""What a session outlives, at full size: a daemon that is killed many times, an upgrade of a hundred."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairlead
from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from fairlead.wire import keepty
from fairlead.wire.keepty import Role
from tests.client.persons import Person
from tests.doors.peer import Peer
from tests.hosting import WAIT, Hosting
from tests.recordings import recorded_output

SOME_KILLS, MANY_KILLS = 30, 200
LONGEST_LIFE = 0.3
"""Seconds that a daemon lives at the most; some don't live to serve anyone."""
SERVING = 5
"""One daemon of so many is not killed before a line was answered, however slow the machine is."""
SOME_SESSIONS, MANY_SESSIONS = 20, 100

FLOOD = """
import os, sys, time
number = 0
while not os.path.exists(sys.argv[1]):
    for _ in range(200):
        number += 1
        print("line", number)
    sys.stdout.flush()
    time.sleep(0.005)
print("the last was", number)
sys.exit(7)
"""
ECHO = "stty -echo; echo ready; while read line; do echo got $line; done; exit 9"
WITNESSED = "stty -echo; echo ready; while read line; do echo $line >> {}; echo got $line; done; exit 9"
ANSWER_WAIT = 0.1
"""Seconds until a line that was typed at a daemon that died is typed again."""


@pytest.fixture
def hosting(request: pytest.FixtureRequest) -> Iterator[Hosting]:
    hosting = Hosting(getattr(request, "param", None))
    hosting.use()
    yield hosting
    hosting.close()


class Killer:
    """Kills one daemon after the other at random moments of their lives, from their first on."""

    def __init__(self, hosting: Hosting) -> None:
        self._lock = Path(hosting.environment["XDG_RUNTIME_DIR"], "fairlead/daemon.lock")
        self._hosting = hosting
        self._random = random.Random(1)
        self.killed: list[int] = []

    def kill(self) -> None:
        """Kill the daemon that was started after the one before."""
        self._hosting.until(self._is_new)
        time.sleep(self._random.uniform(0, LONGEST_LIFE))
        pid = self._pid()
        os.kill(pid, signal.SIGKILL)
        self.killed.append(pid)

    def _pid(self) -> int:
        return int(self._lock.read_text() or 0)

    def _is_new(self) -> bool:
        pid = self._pid()
        return pid != 0 and pid not in self.killed[-1:]


class Typist(threading.Thread):
    """Types numbered lines at a session, each when the one before has been answered, until told to stop."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.over = threading.Event()
        self.answered = 0

    def run(self) -> None:
        while not self.over.is_set():
            try:
                with Peer.greeted(self._name, Role.WRITER) as peer:
                    self._type(peer)
            except (OSError, AssertionError):  # the daemon was killed; the next one shows where we are
                time.sleep(0.01)

    def _type(self, peer: Peer) -> None:
        peer.socket.settimeout(ANSWER_WAIT)
        if not self._comes(peer):  # else it was typed before, and the answer was on its way
            peer.typed(f"{self.answered + 1}\n")
        while not self.over.is_set():
            if self._comes(peer):
                self.answered += 1
                peer.typed(f"{self.answered + 1}\n")

    def _comes(self, peer: Peer) -> bool:
        """Whether the next answer comes soon."""
        try:
            while f"got {self.answered + 1}\r".encode() not in peer.output:
                if not peer.messages():
                    raise ConnectionResetError
        except TimeoutError:
            return False
        return True


@pytest.mark.parametrize("kills", [SOME_KILLS, pytest.param(MANY_KILLS, marks=pytest.mark.soak)])
@pytest.mark.parametrize("hosting", [{"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"}], indirect=True)
def test_a_daemon_that_is_killed_many_times_costs_nobody_a_line(
    hosting: Hosting, tmp_path: Path, kills: int
) -> None:
    stop, script = tmp_path / "stop", tmp_path / "flood.py"
    script.write_text(FLOOD)
    flood, typed, witness = tmp_path / "flood.cast", tmp_path / "typed.cast", tmp_path / "witness"
    start = ("start", "-d")
    hosting.run(*start, "flood", f"--record={flood}", "--", sys.executable, str(script), str(stop))
    hosting.start("typed", WITNESSED.format(witness), f"--record={typed}")
    for number in range(10):  # programs that end somewhere in between
        hosting.start(f"brief{number}", f"sleep {number * kills / 50}; exit {number}")
    pids = {name: row["pid"] for name, row in hosting.sessions().items()}
    killer, typist = Killer(hosting), Typist("typed")
    with Person(hosting, "attach", "flood") as person:
        codes: list[int] = []
        reader = threading.Thread(target=lambda: codes.append(person.exit_code(patience=60 * WAIT)))
        for thread in (typist, reader):
            thread.start()
        try:
            for number in range(kills):
                if number % SERVING == 0:
                    answered = typist.answered
                    hosting.until(lambda: typist.answered > answered)  # noqa: B023 - it is called at once
                killer.kill()
        finally:
            typist.over.set()
            stop.touch()
            typist.join(WAIT)
        reader.join(4 * WAIT)
    assert codes == [7], (person.seen[-500:], hosting.log()[-2000:])
    assert len(killer.killed) == kills
    with Peer.greeted("typed", Role.WRITER) as peer:
        peer.typed("\x04")
        assert peer.next(keepty.Exit).code == 9
    assert hosting.run("wait", "brief9", "--exit", check=False).returncode == 9
    sessions = hosting.sessions()
    assert {name: row["pid"] for name, row in sessions.items()} == pids
    assert [sessions[f"brief{number}"]["exit_code"] for number in range(10)] == list(range(10))
    printed = recorded_output(flood)
    count = int(re.search(r"the last was (\d+)\r\n\Z", printed)[1])  # type: ignore[index]
    expected = "".join(f"line {number}\r\n" for number in range(1, count + 1))
    assert printed == f"{expected}the last was {count}\r\n"
    typed_lines = witness.read_text().splitlines()  # some may have been typed twice, but none is left out
    assert typist.answered > kills / 10
    assert sorted(set(map(int, typed_lines)))[: typist.answered] == list(range(1, typist.answered + 1))
    assert recorded_output(typed) == "ready\r\n" + "".join(f"got {line}\r\n" for line in typed_lines)


@pytest.mark.parametrize("count", [SOME_SESSIONS, pytest.param(MANY_SESSIONS, marks=pytest.mark.peers)])
def test_an_upgrade_in_place_keeps_all_sessions_and_their_clients(tmp_path: Path, count: int) -> None:
    package = tmp_path / "new/fairlead"
    shutil.copytree(Path(fairlead.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    hosting = Hosting({"PYTHONPATH": str(package.parent)})
    hosting.use()
    try:
        hosting.run("ls")
        with DaemonConnection(Settings(hosting.environment)) as control:
            pids = {
                f"s{number}": control.ask(
                    "terminal_start",
                    name=f"s{number}",
                    argv=["sh", "-c", f"echo I am {number}; {ECHO}"],
                    env=hosting.environment,
                )["pid"]
                for number in range(count)
            }
        with Person(hosting, "attach", "s7") as person:
            person.until("ready")
            opening = package / "__init__.py"
            opening.write_text(re.sub(r'__version__ = ".*"', '__version__ = "99.0"', opening.read_text()))
            hosting.run("daemon", "restart")
            assert json.loads(hosting.run("daemon", "status", "--json").stdout)["version"] == "99.0"
            assert {name: row["pid"] for name, row in hosting.sessions().items()} == pids
            for number in range(count):
                with Peer.greeted(f"s{number}", Role.MONITOR) as peer:
                    peer.until(b"ready")
                    assert f"I am {number}\r".encode() in peer.output
            person.type(b"still here\r")
            person.until("got still here")
            assert person.leave() == 0
    finally:
        hosting.close()
