"""Recording from the outside: the real command, a real daemon that is killed, real programs."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import time
from pathlib import Path

import pytest

from fairlead.client.connection import DaemonConnection
from fairlead.client.launch import NoDaemon
from fairlead.system.settings import Settings
from fairlead.terminal.screen.screen import Screen
from fairlead.wire import keepty
from fairlead.wire.keepty import Role
from tests.doors.peer import Peer
from tests.hosting import WAIT, Hosting
from tests.recordings import recorded_events, recorded_lines, recorded_output


@pytest.fixture
def hosting(lent: Hosting) -> Hosting:
    return lent


ECHO = "echo ready; while read line; do echo got $line; done"


def recordings(hosting: Hosting) -> Path:
    return Path(hosting.environment["HOME"], ".local/state/fairlead/recordings")


def ended(hosting: Hosting, name: str) -> int:
    return hosting.run("wait", name, "--exit", "--timeout", "60", check=False).returncode


def kill_quickly(hosting: Hosting) -> int:
    """Kill the daemon as soon as there is one, which the nursery sees to; gives its process id."""
    found = []

    def is_killed() -> bool:
        try:
            with DaemonConnection(Settings(hosting.environment), start=False) as control:
                found.append(control.ask("daemon_status")["pid"])
        except (NoDaemon, ConnectionError):
            return False
        os.kill(found[0], signal.SIGKILL)
        return True

    hosting.until(is_killed)
    pid: int = found[0]
    return pid


def test_a_whole_life_is_recorded(hosting: Hosting, tmp_path: Path) -> None:
    path = tmp_path / "work.cast"
    hosting.start("work", "stty size; read line; stty size; exit 5", f"--record={path}")
    hosting.wait_text("work", "24 80")
    assert hosting.sessions()["work"]["recording"] == str(path)
    with DaemonConnection(Settings(hosting.environment), start=False) as control:
        control.ask("terminal_resize", name="work", cols=100, rows=30)
    hosting.until(lambda: "100x30" in path.read_text())
    hosting.run("send", "work", "-k", "Enter")
    assert ended(hosting, "work") == 5
    assert recorded_events(path) == [("o", "24 80\r\n"), ("r", "100x30"), ("o", "\r\n30 100\r\n"), ("x", "5")]
    header = recorded_lines(path)[0]
    assert header["term"] == {"cols": 80, "rows": 24, "type": "xterm-256color"}
    assert (header["title"], header["command"][:6]) == ("work", "sh -c ")
    assert abs(header["timestamp"] - time.time()) < 2 * WAIT
    assert hosting.sessions()["work"]["recording"] == str(path)


def test_recordings_have_a_place_where_nobody_else_looks(hosting: Hosting) -> None:
    hosting.start("work", "echo one", "--record")
    ended(hosting, "work")
    hosting.start("work", "echo two", "--record")
    ended(hosting, "work")
    directory = recordings(hosting)
    first, second = sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert directory.stat().st_mode & 0o777 == 0o700
    for path, text in ((first, "one\r\n"), (second, "two\r\n")):
        assert re.fullmatch(r"work-\d{8}-\d{6}(-2)?\.cast", path.name)
        assert path.stat().st_mode & 0o777 == 0o600
        assert recorded_output(path) == text


def test_a_program_that_cant_be_started_leaves_no_recording(hosting: Hosting, tmp_path: Path) -> None:
    path = tmp_path / "work.cast"
    done = hosting.run("start", "work", "-d", f"--record={path}", "--", "no-such-program", check=False)
    assert done.returncode == 127
    assert not path.exists()


def test_a_recording_of_a_session_that_waits_has_the_size_of_its_first_writer(
    hosting: Hosting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", hosting.environment["XDG_RUNTIME_DIR"])
    path = tmp_path / "work.cast"
    argv = ["sh", "-c", "stty size"]
    hosting.ask("terminal_start", name="work", argv=argv, deferred=True, record=str(path))
    with Peer.greeted("work", Role.WRITER, 101, 31) as writer:
        assert writer.next(keepty.Exit).code == 0
    assert recorded_events(path) == [("r", "101x31"), ("o", "31 101\r\n"), ("x", "0")]


def test_what_cant_be_recorded_is_said_and_nothing_is_started(hosting: Hosting, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("precious")
    for place, reason in (
        ("there", f"{tmp_path}/there exists; a recording never replaces a file"),
        ("missing/a.cast", f"no such directory: {tmp_path}/missing"),
    ):
        done = hosting.run("start", "work", "-d", f"--record={tmp_path}/{place}", "--", "true", check=False)
        assert (done.returncode, done.stderr) == (1, f"fairlead start: {reason}\n")
    assert hosting.sessions() == {}
    assert (tmp_path / "there").read_text() == "precious"
    hosting.start("work", ECHO)
    again = hosting.run("start", "work", "-d", f"--record={tmp_path}/new.cast", "--", "true", check=False)
    assert again.returncode == 1
    assert not (tmp_path / "new.cast").exists()
    for words, reason in (
        (["nobody"], "no session 'nobody'"),
        (["work", "--stop"], "session 'work' is not being recorded"),
        (["work", "-o", f"{tmp_path}/there"], f"{tmp_path}/there exists; a recording never replaces a file"),
    ):
        done = hosting.run("record", *words, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"fairlead record: {reason}\n")


def test_a_recording_begun_late_starts_with_the_screen_and_can_be_stopped(hosting: Hosting) -> None:
    hosting.start("work", f"seq 1 40; printf '\\033[1mbold\\033[0m'; {ECHO}")
    hosting.wait_text("work", "ready")
    path = Path(hosting.run("record", "work").stdout.rstrip("\n"))
    assert path.parent == recordings(hosting)
    assert hosting.run("record", "work", check=False).stderr == (
        f"fairlead record: session 'work' is already being recorded, to {path}\n"
    )
    hosting.run("send", "work", "hello", "-k", "Enter")
    hosting.wait_text("work", "got hello")
    assert hosting.run("record", "work", "--stop").stdout == f"{path}\n"
    assert hosting.sessions()["work"]["recording"] is None
    with Screen(80, 24) as screen:
        screen.feed(recorded_output(path).encode())
        assert screen.text() + "\n" == hosting.screen("work")
        assert screen.text(scrollback=True).startswith("1\n2\n3\n")
    whole = path.read_bytes()
    hosting.kill_daemon()
    hosting.run("send", "work", "unseen", "-k", "Enter")
    hosting.wait_text("work", "got unseen")
    assert path.read_bytes() == whole
    other = hosting.run("record", "work", "-o", f"{path}.other").stdout.rstrip("\n")
    assert other == f"{path}.other"


def test_the_daemon_may_be_killed_in_a_flood_and_not_a_line_is_lost(hosting: Hosting, tmp_path: Path) -> None:
    """More than a keeper holds, so that the program needs one daemon after the other to get rid of it."""
    path = tmp_path / "flood.cast"
    lines = 3_000_000
    hosting.start("flood", f"seq 1 {lines}", f"--record={path}")
    killed = set()
    for number in range(1, 6):
        hosting.until(lambda number=number: path.stat().st_size > number * 4_000_000)  # type: ignore[misc]
        killed.add(kill_quickly(hosting))
    assert len(killed) == 5
    assert ended(hosting, "flood") == 0
    assert recorded_output(path) == "".join(f"{number}\r\n" for number in range(1, lines + 1))
    assert recorded_events(path)[-1] == ("x", "0")


def test_the_daemon_may_be_killed_while_somebody_types(hosting: Hosting, tmp_path: Path) -> None:
    path = tmp_path / "work.cast"
    hosting.start("work", ECHO, f"--record={path}")
    hosting.wait_text("work", "ready")
    for number in range(6):
        if number % 2:
            hosting.kill_daemon()
        hosting.run("send", "work", f"é {number}", "-k", "Enter")
        hosting.wait_text("work", f"got é {number}")
    hosting.run("daemon", "restart")
    hosting.run("send", "work", "-k", "C-d")
    assert ended(hosting, "work") == 0
    expected = "ready\r\n" + "".join(f"é {number}\r\ngot é {number}\r\n" for number in range(6))
    assert recorded_events(path) == [("o", expected), ("x", "0")]


def test_what_happens_while_there_is_no_daemon_is_recorded_by_the_next(
    hosting: Hosting, tmp_path: Path
) -> None:
    path, gate = tmp_path / "work.cast", tmp_path / "gate"
    os.mkfifo(gate)
    hosting.start("work", f"echo ready; read line < {gate}; echo bye; exit 9", f"--record={path}")
    hosting.wait_text("work", "ready")
    hosting.run("daemon", "stop")
    gate.write_text("go\n")
    assert ended(hosting, "work") == 9
    assert recorded_events(path) == [("o", "ready\r\nbye\r\n"), ("x", "9")]
    whole = path.read_bytes()
    hosting.kill_daemon()
    assert hosting.sessions()["work"]["recording"] == str(path)
    assert path.read_bytes() == whole


def test_a_recording_that_can_t_go_on_leaves_the_session_alone(hosting: Hosting, tmp_path: Path) -> None:
    path = tmp_path / "work.cast"
    hosting.start("work", ECHO, f"--record={path}")
    hosting.wait_text("work", "ready")
    path.unlink()
    hosting.run("send", "work", "one", "-k", "Enter")
    hosting.wait_text("work", "got one")
    hosting.until(lambda: hosting.sessions()["work"]["recording"] is None)
    assert (
        f"the recording of session work stopped: can't continue {path}: the file was removed" in hosting.log()
    )
    hosting.kill_daemon()
    hosting.run("send", "work", "two", "-k", "Enter")
    hosting.wait_text("work", "got two")
    assert hosting.log().count("the recording of session work stopped") == 1
    assert not path.exists()


def test_a_file_that_is_gone_when_the_next_daemon_comes_is_not_made_again(
    hosting: Hosting, tmp_path: Path
) -> None:
    path = tmp_path / "work.cast"
    hosting.start("work", ECHO, f"--record={path}")
    hosting.wait_text("work", "ready")
    hosting.run("daemon", "stop")
    path.unlink()
    assert hosting.sessions()["work"]["recording"] is None
    assert f"can't open {path}: No such file or directory" in hosting.log()
    assert not path.exists()


def test_a_recording_that_a_full_disk_ends_is_told_to_who_is_attached_in_ls_and_in_the_log() -> None:
    hosting = Hosting()
    try:
        prints = (
            "read line; i=0; while [ $i -lt 4000 ]; do echo $i some words to fill a file; i=$((i+1)); done"
        )
        hosting.start("work", f"{prints}; echo printed; read line", "--record")
        pid = hosting.daemon_pid()
        path = keepty.socket_path("work", hosting.environment)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.settimeout(20)
            client = keepty.ClientConnection()
            hello = keepty.Hello(keepty.Role.WATCHER, 80, 24, wishes=keepty.Wish.NOTICES)
            connection.sendall(client.send(hello))
            limits = resource.prlimit(pid, resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
            hosting.run("send", "work", "-k", "Enter")
            said: list[str] = []
            while not said:
                messages = client.receive(connection.recv(65_536))
                said += [each.text for each in messages if isinstance(each, keepty.Error)]
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
        assert said[0].startswith("the recording of this session stopped: can't continue ")
        assert said[0].endswith("File too large")
        hosting.wait_text("work", "printed")
        for _ in range(2):  # and the next daemon knows it as well
            assert "the recording of work stopped: can't continue " in hosting.run("ls").stderr
            (row,) = json.loads(hosting.run("ls", "--json").stdout)
            assert row["recording"] is None
            assert row["recording_error"].endswith("File too large")
            hosting.kill_daemon()
        assert "the recording of session work stopped" in hosting.log()
        hosting.run("record", "work")
        assert hosting.run("ls").stderr == ""
    finally:
        hosting.close()
