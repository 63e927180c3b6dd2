"""The real keepty SDK, unmodified, and `fairlead-keepty` in the role of `keepty`, with a real daemon."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import keepty as sdk
import pytest
from keepty.protocol import Frame, MsgKind, decode_exit

import fairlead
from fairlead.wire.keepty import ResizeAck
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting

ECHO = "sh -c 'stty -echo; echo ready; while read line; do echo got $line; done'"
NUMBERS = itertools.count(1)
ROLES = [sdk.Role.WRITER, sdk.Role.WATCHER, sdk.Role.MONITOR]


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    """A daemon, with its command on PATH under the name that the SDK looks for."""
    hosting = Hosting({"FAIRLEAD_TERMINAL_STOP_GRACE": "1"})
    command = Path(sys.executable).parent / "fairlead-keepty"
    if not command.exists():
        pytest.skip("fairlead-keepty is not installed")
    (hosting.directory / "bin").mkdir()
    (hosting.directory / "bin/keepty").symlink_to(command)
    hosting.environment["PATH"] = f"{hosting.directory}/bin:{hosting.environment['PATH']}"
    hosting.run("daemon", "status", check=False)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PATH", "HOME", "XDG_RUNTIME_DIR", "FAIRLEAD_TERMINAL_STOP_GRACE"):
            patch.setenv(name, hosting.environment[name])
        yield hosting
        hosting.close()


@pytest.fixture
def name(hosting: Hosting) -> Iterator[str]:
    """A session's name that no other test has; the session is stopped in the end."""
    name = f"s{next(NUMBERS)}"
    yield name
    sdk.stop(name)


def keepty(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["keepty", *words], capture_output=True, text=True, timeout=WAIT, input="", check=False
    )


def connect(name: str, role: sdk.Role = sdk.Role.WRITER, cols: int = 80, rows: int = 24) -> sdk.Session:
    session = sdk.Session.connect(name, role, cols, rows)
    session._sock.settimeout(WAIT)
    return session


def frame_of(session: sdk.Session, kind: MsgKind) -> Frame:
    """The next frame of a kind."""
    while frame := Frame.read_from(session._sock):
        if frame.kind == kind:
            return frame
    raise AssertionError(f"the stream ended without {kind.name}")


def wait_for_socket(name: str) -> None:
    """Come back when somebody listens for a session's clients."""
    deadline = time.monotonic() + WAIT
    while True:
        with (
            contextlib.suppress(FileNotFoundError, ConnectionRefusedError),
            socket.socket(socket.AF_UNIX) as probe,
        ):
            probe.connect(sdk.socket_path(name))
            return
        assert time.monotonic() < deadline, "nobody listens"
        time.sleep(0.01)


@contextlib.contextmanager
def broker(
    name: str, script: str, *words: str, cwd: Path | None = None, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A broker process that runs a shell script, as keepty's own suites start it; killed in the end."""
    command = ["keepty", "broker", "--session-id", name, "--cols", "80", "--rows", "24", *words]
    process = subprocess.Popen(
        [*command, "--", "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    try:
        wait_for_socket(name)
        yield process
    finally:
        process.kill()
        process.wait()


def exit_code(session: sdk.Session) -> int:
    code: int = decode_exit(frame_of(session, MsgKind.EXIT).payload)
    return code


def ping(session: sdk.Session) -> None:
    """Come back when the broker has seen everything that was sent."""
    Frame(MsgKind.PING).write_to(session._sock)
    frame_of(session, MsgKind.PONG)


def test_a_session_is_started_listed_typed_into_read_and_stopped(name: str) -> None:
    sdk.start(name, ECHO)
    assert {"id": name, "alive": True} in sdk.list_sessions()
    with connect(name) as session:
        session.read_until("ready", timeout=WAIT)
        session.send_keys(b"hello\n")
        assert session.read_until("got hello", timeout=WAIT).count("got hello") == 1
        assert session.read_output(timeout=0) == b""
        sdk.stop(name)
        assert exit_code(session) == 128 + signal.SIGTERM


def test_a_name_that_is_taken_is_an_error_and_exit_1(name: str) -> None:
    sdk.start(name, ECHO)
    with pytest.raises(RuntimeError, match=f"session '{name}' is already running"):
        sdk.start(name, ECHO)
    again = keepty("start", name, "-d", "--", "true")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == f"Error: session '{name}' is already running\n"


@pytest.mark.parametrize("wanted", ["/no/such", None, "there"])
def test_the_program_runs_in_the_directory_that_is_asked_for_or_else_in_the_home_directory(
    hosting: Hosting, name: str, tmp_path: Path, wanted: str | None
) -> None:
    (tmp_path / "there").mkdir()
    words = [] if wanted is None else ["--working-dir", wanted]
    home = hosting.environment["HOME"]
    expected = str(tmp_path / "there") if wanted == "there" else home
    script = "echo in $PWD $TERM; read line"
    with broker(name, script, *words, cwd=tmp_path, TERM="vt100"), connect(name, cols=200) as session:
        session.read_until(f"in {expected} xterm-256color", timeout=WAIT)


def test_start_without_a_directory_runs_the_program_where_it_was_started(name: str, tmp_path: Path) -> None:
    words = ["keepty", "start", name, "-d", "--", "sh", "-c", "pwd; read line"]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=WAIT, stdin=subprocess.DEVNULL)
    with connect(name, cols=200) as session:
        session.read_until(str(tmp_path), timeout=WAIT)


def test_every_role_is_shown_the_screen_first_and_then_what_happens(name: str) -> None:
    sdk.start(name, ECHO)
    with connect(name) as writer:
        writer.read_until("ready", timeout=WAIT)
        for role in ROLES[1:]:
            with connect(name, role) as session:
                assert session.pty_pid > 0
                session.read_until("ready", timeout=WAIT)
                writer.send_keys(b"for %s\n" % role.name.encode())
                assert f"got for {role.name}" in session.read_until(role.name, timeout=WAIT)


def test_a_resize_is_told_to_all_with_a_generation_that_grows_from_1_even_at_the_same_size(name: str) -> None:
    sdk.start(name, ECHO)
    with connect(name, sdk.Role.MONITOR) as monitor, connect(name) as writer:
        with connect(name, sdk.Role.WATCHER) as watcher:
            for size in ((100, 30), (100, 30), (90, 20)):
                writer.resize(*size)
            told = {
                each: [frame_of(each, MsgKind.RESIZE_ACK).payload for _ in range(3)]
                for each in (writer, watcher)
            }
            seen = [frame_of(monitor, MsgKind.RESIZE_ACK).payload for _ in range(3)]
        generations = [ResizeAck.layout.unpack(payload) for payload in seen]
        assert generations == [(1, 100, 30), (2, 100, 30), (3, 90, 20)]
        assert told[watcher] == told[writer] == seen


def test_a_second_writer_takes_over_for_good_and_the_first_stays_and_sees(name: str) -> None:
    sdk.start(name, ECHO)
    with connect(name) as first:
        first.read_until("ready", timeout=WAIT)
        with connect(name) as second:
            second.send_keys(b"second\n")
            first.read_until("got second", timeout=WAIT)
            first.send_keys(b"first\n")
            first.resize(50, 10)
            ping(first)
            second.send_keys(b"again\n")
            assert "first" not in first.read_until("got again", timeout=WAIT)
            ping(second)
        with connect(name, sdk.Role.MONITOR) as monitor:
            assert (monitor._cols, monitor._rows) == (80, 24)
        first.send_keys(b"back\n")
        ping(first)
        with connect(name) as third:
            third.send_keys(b"third\n")
            assert "back" not in third.read_until("got third", timeout=WAIT)


def test_a_watchers_and_a_monitors_input_is_ignored(name: str) -> None:
    sdk.start(name, ECHO)
    with connect(name) as writer:
        for role in ROLES[1:]:
            with connect(name, role) as session:
                with pytest.raises(PermissionError):
                    session.send_keys(b"refused by the SDK itself\n")
                Frame(MsgKind.INPUT, b"smuggled\n").write_to(session._sock)
                ping(session)
        writer.send_keys(b"typed\n")
        assert "smuggled" not in writer.read_until("got typed", timeout=WAIT)


def test_a_monitor_may_end_the_session_and_a_watcher_never(name: str) -> None:
    sdk.start(name, ECHO)
    with connect(name) as writer:
        writer.read_until("ready", timeout=WAIT)
    with connect(name, sdk.Role.WATCHER) as watcher:  # there is no writer, and still it may not
        watcher.shutdown()
        ping(watcher)
        with connect(name, sdk.Role.MONITOR) as monitor:
            assert monitor.pty_pid > 0
            monitor.shutdown()
            assert exit_code(monitor) == 128 + signal.SIGTERM
            assert Frame.read_from(monitor._sock) is None
        assert exit_code(watcher) == 128 + signal.SIGTERM


def test_a_shutdown_kills_what_ignores_sigterm_and_the_requester_gets_the_exit(name: str) -> None:
    sdk.start(name, """sh -c 'trap "" TERM HUP; echo ready; while :; do sleep 0.1; done'""")
    with connect(name) as writer:
        writer.read_until("ready", timeout=WAIT)
        writer.shutdown()
        assert exit_code(writer) == 128 + signal.SIGKILL


def test_after_the_end_keeptys_clients_find_no_session_and_ours_the_last_screen_and_the_exit_code(
    hosting: Hosting, name: str
) -> None:
    sdk.start(name, "sh -c 'echo last words; exit 7'")
    with connect(name) as writer:
        assert exit_code(writer) == 7
    for role in ROLES:
        with pytest.raises((FileNotFoundError, ConnectionError)):
            connect(name, role)
    assert name not in [each["id"] for each in sdk.list_sessions()]
    assert f"  {name}  " not in keepty("list").stdout
    hosting.kill_daemon()  # the next one knows it, too
    for watch in ([], ["-w"]):
        with Person(hosting, "attach", *watch, name) as person:
            assert person.exit_code() == 7
            assert b"last words" in person.seen
    with fairlead.connect() as host, host.terminal(name).attach() as late:
        assert b"last words" in late.read(timeout=WAIT)
        assert late.read(timeout=WAIT) == b""
        assert late.exit_code == 7
    sdk.start(name, ECHO)
    assert {"id": name, "alive": True} in sdk.list_sessions()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 0),
        ("sh -c 'exit 3'", 3),
        ("sh -c 'kill -KILL $$'", 128 + signal.SIGKILL),
        ("sh -c 'kill -SEGV $$'", 128 + signal.SIGSEGV),
    ],
)
def test_the_exit_code_is_the_programs_or_128_and_the_signal(name: str, command: str, code: int) -> None:
    sdk.start(name, command)
    with connect(name) as session:
        assert exit_code(session) == code


def test_all_output_comes_before_the_exit(name: str) -> None:
    sdk.start(name, "seq 1 30000")
    with connect(name) as session:
        seen = b""
        while (frame := Frame.read_from(session._sock)) and frame.kind != MsgKind.EXIT:
            seen += frame.payload if frame.kind == MsgKind.OUTPUT else b""
        assert seen.split() == [b"%d" % number for number in range(1, 30_001)]


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [("/no/such", 127, "No such file"), ("/etc/passwd", 126, "Permission denied")],
)
def test_a_command_that_cant_be_executed_says_why(name: str, command: str, code: int, reason: str) -> None:
    sdk.start(name, command)
    with connect(name) as session:
        assert reason in frame_of(session, MsgKind.ERROR).payload.decode()
        assert exit_code(session) == code


def test_the_program_starts_with_the_first_writer_and_at_its_size(name: str) -> None:
    sdk.start(name, "sh -c 'stty size; read line'")
    for role in ROLES[1:]:
        with connect(name, role, 132, 50) as early:
            assert (early.pty_pid, early._cols, early._rows) == (0, 80, 24)
    with connect(name, sdk.Role.MONITOR) as monitor, connect(name, sdk.Role.WRITER, 101, 31) as writer:
        assert (writer.pty_pid, writer._cols, writer._rows) == (0, 101, 31)
        kinds = []
        while MsgKind.OUTPUT not in kinds:
            kinds.append(Frame.read_from(writer._sock).kind)
        assert kinds == [MsgKind.OUTPUT]  # the size that it has told itself is not acknowledged again
        writer.resize(90, 20)
        for each in (writer, monitor):
            acknowledged = frame_of(each, MsgKind.RESIZE_ACK).payload
            assert ResizeAck.layout.unpack(acknowledged) == (1, 90, 20)
    with connect(name, sdk.Role.MONITOR) as monitor:
        assert (monitor._cols, monitor._rows) == (90, 20)
        os.kill(monitor.pty_pid, 0)


def test_a_second_hello_a_pong_an_error_and_a_short_resize_are_ignored(name: str) -> None:
    sdk.start(name, ECHO)
    with connect(name) as session:
        for kind, payload in (
            (MsgKind.HELLO, bytes(5)),
            (MsgKind.PONG, b""),
            (MsgKind.ERROR, b"no"),
            (MsgKind.RESIZE, b"\0"),
        ):
            Frame(kind, payload).write_to(session._sock)
        Frame(MsgKind.PING).write_to(session._sock)
        kinds = []
        while MsgKind.PONG not in kinds:
            kinds.append(Frame.read_from(session._sock).kind)
        assert set(kinds) <= {MsgKind.OUTPUT, MsgKind.RESIZE_ACK, MsgKind.PONG}


def test_the_list_has_a_line_for_each_session_and_tells_those_that_are_over(name: str) -> None:
    sdk.start(name, ECHO)
    assert f"  {name}  (running)\n" in keepty("list").stdout
    with connect(name) as session:
        session.shutdown()
        exit_code(session)
    with socket.socket(socket.AF_UNIX) as dead:  # as a broker that was killed leaves it
        dead.bind(sdk.socket_path(name))
    listed = keepty("ls")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert f"  {name}  (stale)\n" in listed.stdout
    os.unlink(sdk.socket_path(name))


def test_an_empty_list_says_so_on_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    command = [sys.executable, "-c", "from fairlead.cli.keepty import main; raise SystemExit(main(['list']))"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "No running sessions\n")


def test_stop_ends_a_session_and_there_must_be_one(name: str) -> None:
    missing = keepty("stop", name)
    assert (missing.returncode, missing.stderr) == (1, f"Error: session '{name}' is not running\n")
    sdk.start(name, ECHO)
    with connect(name) as session:
        session.read_until("ready", timeout=WAIT)
        done = keepty("stop", name)
        assert (done.returncode, done.stdout) == (0, "")
        assert exit_code(session) == 128 + signal.SIGTERM
    assert keepty("stop", name).returncode == 1


def test_a_broker_stays_until_the_program_ends_through_the_death_of_the_daemon_and_gives_its_code(
    hosting: Hosting, name: str
) -> None:
    words = ["keepty", "broker", "--session-id", name, "--cols", "70", "--rows", "20", "--"]
    script = "stty size; read line; exit 5"
    broker = subprocess.Popen([*words, "sh", "-c", script], stdin=subprocess.DEVNULL)
    try:
        wait_for_socket(name)
        with connect(name, sdk.Role.MONITOR) as early:
            assert (early.pty_pid, early._cols, early._rows) == (0, 70, 20)
        with connect(name, sdk.Role.WRITER, 70, 20) as writer:
            writer.read_until("20 70", timeout=WAIT)
        hosting.kill_daemon()
        hosting.wait_text(name, "20 70")
        assert broker.poll() is None
        with connect(name, sdk.Role.WRITER, 70, 20) as writer:
            writer.send_keys(b"\n")
            assert exit_code(writer) == 5
        assert broker.wait(WAIT) == 5
    finally:
        broker.kill()
        broker.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_that_is_told_to_end_ends_its_session(hosting: Hosting, name: str, number: int) -> None:
    with broker(name, "echo ready; exec sleep 1000") as process, connect(name) as writer:
        writer.read_until("ready", timeout=WAIT)
        process.send_signal(signal.SIGHUP)  # which it outlives, as keepty's does
        process.send_signal(number)
        assert exit_code(writer) == 128 + signal.SIGTERM
        assert process.wait(WAIT) == 128 + signal.SIGTERM
    assert name not in [each["id"] for each in sdk.list_sessions()]


@pytest.mark.parametrize("is_started", [True, False], ids=["started", "waiting"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
def test_a_broker_that_is_killed_leaves_no_session_behind(
    hosting: Hosting, name: str, is_started: bool, restarts: bool
) -> None:
    with broker(name, "echo ready; exec sleep 1000") as process:
        if is_started:
            with connect(name) as writer:
                writer.read_until("ready", timeout=WAIT)
        assert name in hosting.sessions()
        if restarts:
            hosting.kill_daemon()
            assert name in hosting.sessions()
        process.kill()  # and nobody has waited for it yet
        hosting.until(lambda: name not in hosting.sessions())
    assert not os.path.exists(sdk.socket_path(name))


def test_what_keeptys_own_suites_look_for_holds(hosting: Hosting, name: str) -> None:
    script = "stty -echo; echo hello from here; while read line; do echo got $line; done"
    with broker(name, script), connect(name) as writer:
        assert "hello from here" in writer.read_until("hello from here", timeout=WAIT)
        assert name in repr(writer)
        assert "WRITER" in repr(writer)
        writer.send_keys(b"typed\n")
        assert "got typed" in writer.read_until("got typed", timeout=WAIT)
        with connect(name, sdk.Role.MONITOR) as monitor, connect(name, sdk.Role.WATCHER) as watcher:
            assert monitor.pty_pid > 0
            for each in (monitor, watcher):  # who comes late is shown what there is
                assert "got typed" in each.read_until("got typed", timeout=WAIT)
                with pytest.raises(PermissionError):
                    each.send_keys(b"no\n")
            writer.resize(100, 30)
            for each in (writer, monitor, watcher):
                payload = frame_of(each, MsgKind.RESIZE_ACK).payload
                assert ResizeAck.layout.unpack(payload) == (1, 100, 30)
            ping(monitor)
            monitor.shutdown()
            for each in (writer, monitor, watcher):
                assert exit_code(each) == 128 + signal.SIGTERM
