"""Keepers and a real daemon: strangers at a keeper's socket, keepers that are killed, starts that fail."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.keeper.protocol import Decoder, FrameKind, frame
from fairlead.wire import keepty
from fairlead.wire.keepty import Role
from tests.client.persons import Person
from tests.doors.peer import Peer
from tests.hosting import WAIT, Hosting, is_alive
from tests.recordings import recorded_output

ECHO = "stty -echo; echo ready; while read line; do echo got $line; done; exit 9"
COUNT = "n=0; while [ ! -e {} ]; do n=$((n+1)); echo line $n; sleep 0.001; done; echo last $n"
"""Prints numbered lines until a file is there."""


@pytest.fixture
def hosting(request: pytest.FixtureRequest) -> Iterator[Hosting]:
    if not hasattr(request, "param"):
        yield request.getfixturevalue("lent")
        return
    hosting = Hosting(request.param)
    hosting.use()
    yield hosting
    hosting.close()


def keepers_of(hosting: Hosting) -> list[Path]:
    return list(Path(hosting.environment["XDG_RUNTIME_DIR"], "fairlead/keepers").iterdir())


def keeper_pid(hosting: Hosting, name: str) -> int:
    """The process that keeps a session: the parent of its program."""
    stat = Path(f"/proc/{hosting.sessions()[name]['pid']}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def until_gone(hosting: Hosting, pid: int) -> None:
    hosting.until(lambda: not is_alive(pid))


def test_connecting_to_a_keeper_and_closing_costs_the_session_nothing(
    hosting: Hosting, tmp_path: Path
) -> None:
    stop, cast = tmp_path / "stop", tmp_path / "work.cast"
    hosting.start("work", COUNT.format(stop), f"--record={cast}")
    (path,) = keepers_of(hosting)
    with Peer.greeted("work", Role.WRITER) as peer:
        for number in range(1, 6):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(str(path))
            peer.until(f"line {number * 20}\r\n".encode())
        assert hosting.sessions()["work"]["state"] == "running"
        stop.touch()
        assert peer.next(keepty.Exit).code == 0
    numbers = [
        int(line.split()[1]) for line in recorded_output(cast).split("\r\n") if line.startswith("line")
    ]
    assert numbers == list(range(1, len(numbers) + 1))
    assert hosting.sessions()["work"]["exit_code"] == 0


class OldKeeper(threading.Thread):
    """A way to a keeper that gives its daemon up for any newcomer, as those of the first version did."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path = path
        self._real = path.with_name("real")
        path.rename(self._real)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.served = 0
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def run(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return
            theirs = socket.socket(socket.AF_UNIX)
            theirs.connect(str(self._real))
            self._connections += [ours, theirs]
            self.served += 1
            for reading, writing in ((ours, theirs), (theirs, ours)):
                self._threads.append(threading.Thread(target=self._pass, args=(reading, writing)))
                self._threads[-1].start()

    @staticmethod
    def _pass(reading: socket.socket, writing: socket.socket) -> None:
        try:
            while data := reading.recv(65_536):
                writing.sendall(data)
        except OSError:
            pass
        for each in (reading, writing):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Close the daemon's connection; it may come again."""
        for each in self._connections:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self.join()
        self.cut()
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._connections):
            each.close()


def test_a_daemon_whose_connection_to_a_keeper_is_cut_goes_on_without_losing_or_repeating_a_line(
    hosting: Hosting, tmp_path: Path
) -> None:
    stop, cast = tmp_path / "stop", tmp_path / "work.cast"
    hosting.start("work", COUNT.format(stop), f"--record={cast}")
    (path,) = keepers_of(hosting)
    way = OldKeeper(path)
    way.start()
    try:
        hosting.kill_daemon()  # the next one comes by this way
        hosting.wait_text("work", "line")
        daemon = hosting.daemon_pid()
        with Peer.greeted("work", Role.WRITER) as peer:
            for cuts in (1, 2):
                way.cut()
                hosting.until(lambda: way.served > cuts)  # noqa: B023 - it is called at once
                shown = len(peer.output)
                while len(peer.output) < shown + 2000:
                    assert peer.messages()
            peer.typed("typed\n")
            stop.touch()
            assert peer.rest()[-1] == keepty.Exit(0)
            numbers = [int(each) for each in re.findall(rb"line (\d+)\r\n", peer.output)]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert hosting.daemon_pid() == daemon
        recorded = [int(each) for each in re.findall(r"line (\d+)\r\n", recorded_output(cast))]
        assert recorded == list(range(1, recorded[-1] + 1))
    finally:
        way.close()


@pytest.mark.parametrize(
    ("script", "became"),
    [
        ("echo ready; exec sleep 1000", "got a hang-up and ended"),
        ("trap '' HUP; echo ready; while :; do sleep 0.1; done", "got a hang-up and still runs"),
    ],
    ids=["ends", "stays"],
)
def test_the_death_of_a_keeper_is_told_with_what_became_of_the_program(
    hosting: Hosting, script: str, became: str
) -> None:
    hosting.start("work", script)
    hosting.wait_text("work", "ready")
    pid = hosting.sessions()["work"]["pid"]
    with Peer.greeted("work", Role.MONITOR) as peer, Person(hosting, "attach", "work") as person:
        person.until("ready")
        os.kill(keeper_pid(hosting, "work"), signal.SIGKILL)
        sentence = f"the keeper of session work was killed; its program (pid {pid}) {became}"
        assert peer.next(keepty.Error).text == sentence
        assert peer.next(keepty.Exit).code == 137
        assert person.exit_code() == 137
        assert b"the keeper of session work was killed" in person.seen
    row = hosting.sessions()["work"]
    assert (row["state"], row["exit_code"]) == ("ended", 137)
    is_stray = became.endswith("runs")
    assert row.get("stray_pid") == (pid if is_stray else None)
    assert (f"lost, pid {pid} runs" if is_stray else "exit 137") in hosting.run("ls", "work").stdout
    assert sentence in hosting.log()
    assert keepers_of(hosting) == []
    if became.endswith("runs"):
        os.killpg(pid, signal.SIGKILL)
    until_gone(hosting, pid)
    hosting.start("work", ECHO)  # the name can be used again
    hosting.wait_text("work", "ready")


def test_a_program_whose_terminal_a_stopped_client_keeps_is_not_said_to_have_ended(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    hosting.wait_text("work", "ready")
    pid = hosting.sessions()["work"]["pid"]
    with Person(hosting, "attach", "work") as person:
        person.until("ready")
        person.type(b"typed\r")  # the client has the terminal itself by then
        person.until_all(["typed"])
        hosting.until(lambda: has_terminal(person.client.pid))
        person.client.send_signal(signal.SIGSTOP)
        os.kill(keeper_pid(hosting, "work"), signal.SIGKILL)
        hosting.until(lambda: "keeps its terminal open" in hosting.log())
        assert f"lost, pid {pid} runs" in hosting.run("ls", "work").stdout
        person.client.send_signal(signal.SIGCONT)
        assert person.exit_code() == 137
    until_gone(hosting, pid)
    assert "exit 137" in hosting.run("ls", "work").stdout


def has_terminal(pid: int) -> bool:
    """True if a client has the other end of the program's terminal."""
    files = Path(f"/proc/{pid}/fd").iterdir()
    return any(os.readlink(file) == "/dev/ptmx" or "ptmx" in os.readlink(file) for file in files)


@pytest.mark.parametrize("hosting", [{"FAIRLEAD_TERMINAL_KEEP_ENDED": "5"}], indirect=True)
def test_the_time_that_an_ended_session_is_kept_does_not_begin_anew_with_each_daemon(
    hosting: Hosting,
) -> None:
    hosting.start("work", "exit 3")
    hosting.run("wait", "work", "--exit", check=False)
    began = time.monotonic()
    restarts = 0
    while "work" in hosting.sessions():
        pid = hosting.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        hosting.until(lambda: not is_alive(pid))  # noqa: B023 - it is called at once
        restarts += 1
        assert time.monotonic() - began < WAIT
    assert restarts > 1
    hosting.until(lambda: keepers_of(hosting) == [])


@pytest.mark.parametrize("hosting", [{"FAIRLEAD_TERMINAL_KEEP_WAITING": "1"}], indirect=True)
def test_a_session_that_nobody_came_to_is_cleared_also_by_the_next_daemon(hosting: Hosting) -> None:
    hosting.ask("terminal_start", name="used", argv=["sh", "-c", ECHO], deferred=True)
    hosting.ask("terminal_start", name="unused", argv=["sh", "-c", ECHO], deferred=True)
    with Peer.greeted("used", Role.WATCHER):
        hosting.until(lambda: "unused" not in hosting.sessions())
        assert "used" in hosting.sessions()
    hosting.kill_daemon()
    hosting.until(lambda: hosting.sessions() == {})
    hosting.until(lambda: keepers_of(hosting) == [])


def test_a_session_whose_start_was_cut_short_by_the_daemons_death_is_cleared_by_the_next(
    hosting: Hosting,
) -> None:
    hosting.run("ls")
    directory = Path(hosting.environment["XDG_RUNTIME_DIR"], "fairlead")
    spec = {
        "id": "work",
        "command": ["sh", "-c", ECHO],
        "cwd": "/",
        "environment": {},
        "cols": 80,
        "rows": 24,
        "deferred": True,
        "note": {"starting": True},  # as a daemon leaves it that dies before it says START
    }
    with socket.socket(socket.AF_UNIX) as nursery:
        nursery.connect(str(directory / "nursery.sock"))
        path = directory / "keepers/0.sock"
        nursery.sendall(json.dumps({"keep": spec, "socket": str(path)}).encode() + b"\n")
        assert b"pid" in nursery.recv(1000)
    hosting.kill_daemon()
    hosting.run("ls")
    hosting.until(lambda: "work" not in hosting.sessions() and not path.exists())


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system sets no limits of other processes")
def test_a_start_that_cant_have_a_terminal_says_so_and_leaves_nothing_behind(
    hosting: Hosting, tmp_path: Path
) -> None:
    hosting.start("first", ECHO)
    cast = tmp_path / "second.cast"
    pid = hosting.nursery_pid()
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, before[1]))  # it has more already: no more for now
    known = keepers_of(hosting)
    done = hosting.run("start", "second", "-d", f"--record={cast}", "--", "true", check=False)
    message = "no terminal can be opened: Too many open files; close some sessions or raise the limit"
    assert (done.returncode, done.stderr) == (1, f"fairlead start: {message}\n")
    assert list(hosting.sessions()) == ["first"]
    assert keepers_of(hosting) == known
    assert not cast.exists()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    hosting.start("second", ECHO)
    hosting.wait_text("second", "ready")


def test_a_client_that_goes_away_while_it_starts_sessions_does_the_others_no_harm(hosting: Hosting) -> None:
    hosting.run("ls")
    command = [sys.executable, "-m", "fairlead", "start", "-d"]
    for number in range(3):
        client = subprocess.Popen([*command, f"cut{number}", "--", "sh", "-c", ECHO], env=hosting.environment)
        hosting.until(lambda: f"cut{number}" in hosting.sessions() or client.poll() is not None)  # noqa: B023
        client.kill()
        client.wait()
    for number in range(2):
        hosting.start(f"whole{number}", f"echo I am {number}; {ECHO}")
        hosting.wait_text(f"whole{number}", f"I am {number}")


def test_stopping_an_interactive_shell_is_quick_and_its_history_is_written(
    hosting: Hosting, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    hosting.environment["HISTFILE"] = str(history)
    hosting.run("start", "work", "-d", "--", "bash", "--norc", "--noprofile", "-i")
    hosting.run("send", "work", "echo one$((1+1))", "-k", "Enter")
    hosting.wait_text("work", "one2")
    assert hosting.run("stop", "work").stdout == "session work ended with 129\n"  # not by SIGKILL
    assert history.read_text() == "echo one$((1+1))\n"


@pytest.mark.parametrize("hosting", [{"FAIRLEAD_TERMINAL_STOP_GRACE": "2"}], indirect=True)
def test_what_ignores_a_hang_up_gets_sigterm_and_what_ignores_that_is_killed(hosting: Hosting) -> None:
    hosting.start("deaf", "trap '' HUP TERM; echo ready; while :; do sleep 0.1; done")
    hosting.start("polite", "trap '' HUP; trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done")
    for name in ("deaf", "polite"):
        hosting.wait_text(name, "ready")
    assert hosting.run("stop", "polite").stdout == "session polite ended with 5\n"
    assert hosting.run("stop", "deaf").stdout == "session deaf ended with 137\n"


def test_a_keeper_of_an_older_daemon_claims_nothing_and_is_served_all_the_same(hosting: Hosting) -> None:
    """An older daemon, after a downgrade: it waits for STATE and says nothing before."""
    hosting.start("work", ECHO)
    hosting.wait_text("work", "ready")
    (path,) = keepers_of(hosting)
    with socket.socket(socket.AF_UNIX) as older:
        older.settimeout(WAIT)
        older.connect(str(path))
        hosting.run("daemon", "stop")
        decoder = Decoder()
        frames: list[tuple[int, bytes]] = []
        while FrameKind.DATA not in [kind for kind, _ in frames]:
            frames += decoder.feed(older.recv(65_536))
        assert frames[0][0] == FrameKind.STATE
        older.sendall(frame(FrameKind.INPUT, b"older\n"))
        while b"got older" not in b"".join(payload for kind, payload in frames if kind == FrameKind.DATA):
            frames += decoder.feed(older.recv(65_536))
    hosting.wait_text("work", "got older")  # and the next one of ours has the session again


def test_a_keeper_whose_socket_was_deleted_is_found_by_the_next_daemon(hosting: Hosting) -> None:
    hosting.start("work", ECHO)
    pid = hosting.sessions()["work"]["pid"]
    (socket_file,) = keepers_of(hosting)
    os.unlink(Path(hosting.environment["XDG_RUNTIME_DIR"], "fairlead/keepers", socket_file))
    hosting.kill_daemon()
    assert hosting.sessions()["work"]["pid"] == pid


@pytest.mark.parametrize("flood", ["x\\033[999999b", "\\033c", "\\033]9;x\\a\\033]777;notify;a;b\\a"])
def test_a_session_that_floods_with_what_takes_long_to_draw_is_stopped(hosting: Hosting, flood: str) -> None:
    program = f"import sys\nwhile True: sys.stdout.write('{flood}' * 500)"
    hosting.run("start", "flood", "-d", "--", sys.executable, "-c", program)
    pid = hosting.sessions()["flood"]["pid"]
    hosting.until(lambda: len(hosting.run("screen", "flood").stdout) > 0 and is_alive(pid))
    assert hosting.run("stop", "flood").returncode == 0
    assert "flood" not in hosting.sessions()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system sets no limits of other processes")
def test_an_agent_whose_command_cant_have_a_terminal_fails_in_a_script(hosting: Hosting) -> None:
    hosting.start("first", ECHO)
    pid = hosting.nursery_pid()
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, before[1]))
    try:
        done = hosting.run("agent", "-p", "--yes", "run: echo hello", check=False)
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert done.returncode == 1
    assert "a command can't be run: no terminal can be opened: Too many open files" in done.stderr
    assert hosting.run("agent", "-p", "--yes", "run: echo hello", check=False).returncode == 0
