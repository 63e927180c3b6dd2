"""Where the sockets are: whose they are, what may be in their place, and who may come."""

from __future__ import annotations

import os
import pwd
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.wire import keepty
from fairlead.wire.keepty import Role
from tests.doors.peer import Peer
from tests.hosting import Hosting

NOBODY = 65_534
ECHO = "stty -echo; echo ready; while read line; do echo got $line; done"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")


@pytest.fixture
def hosting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosting]:
    hosting = Hosting()
    monkeypatch.setenv("XDG_RUNTIME_DIR", hosting.environment["XDG_RUNTIME_DIR"])
    yield hosting
    hosting.close()


@pytest.fixture
def runtime(hosting: Hosting) -> Path:
    return Path(hosting.environment["XDG_RUNTIME_DIR"])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_our_user_may_enter_the_directories_and_open_the_sockets(
    hosting: Hosting, runtime: Path
) -> None:
    (runtime / "keepty").mkdir(mode=0o755)  # as an older program may have left it
    hosting.start("work", ECHO)
    with Peer.greeted("work", Role.MONITOR) as peer:
        peer.until(b"ready")
    assert mode(runtime / "keepty") == mode(runtime / "fairlead") == 0o700
    assert mode(runtime / "keepty/keepty-work.sock") == 0o600
    keepers = list((runtime / "fairlead/keepers").iterdir())
    assert mode(runtime / "fairlead/keepers") == 0o700
    for path in (runtime / "fairlead/rpc.sock", runtime / "fairlead/nursery.sock", *keepers):
        assert mode(path) == 0o600


def test_a_dead_socket_in_the_way_is_removed_and_a_live_one_is_never_taken_over(
    hosting: Hosting, runtime: Path
) -> None:
    (runtime / "keepty").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(keepty.socket_path("dead", os.environ))
    hosting.start("dead", ECHO)
    with Peer.greeted("dead", Role.MONITOR) as peer:
        peer.until(b"ready")
    path = keepty.socket_path("alive", os.environ)
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(path)
        foreign.listen()
        done = hosting.run("start", "alive", "-d", "--", "true", check=False)
        assert (done.returncode, done.stderr) == (1, f"fairlead start: another program serves {path}\n")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
        assert "alive" not in hosting.sessions()


CANT_START = {"keepty": "", "fairlead": "the daemon can't start: "}


@pytest.mark.parametrize("place", ["keepty", "fairlead"])
def test_a_link_in_place_of_our_directory_is_refused(
    hosting: Hosting, runtime: Path, tmp_path: Path, place: str
) -> None:
    (runtime / place).symlink_to(tmp_path)
    done = hosting.run("start", "work", "-d", "--", "true", check=False)
    reason = f"{runtime / place} is not a directory; a symbolic link is not accepted"
    assert (done.returncode, done.stderr) == (1, f"fairlead start: {CANT_START[place]}{reason}\n")
    assert not list(tmp_path.iterdir())
    (runtime / place).unlink()
    hosting.start("work", ECHO)


@as_root
@pytest.mark.parametrize("place", ["keepty", "fairlead"])
def test_somebody_elses_directory_in_place_of_ours_is_refused(
    hosting: Hosting, runtime: Path, place: str
) -> None:
    (runtime / place).mkdir(mode=0o700)
    os.chown(runtime / place, NOBODY, NOBODY)
    done = hosting.run("start", "work", "-d", "--", "true", check=False)
    reason = f"{runtime / place} belongs to another user, {pwd.getpwuid(NOBODY).pw_name}"
    assert (done.returncode, done.stderr) == (1, f"fairlead start: {CANT_START[place]}{reason}\n")
    assert not list((runtime / place).iterdir())
    os.chown(runtime / place, 0, 0)


def connected_as_nobody(path: Path) -> str:
    """What another user gets who says Hello, or the name of the error that stops them."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(20)
                client.connect(str(path))
                client.sendall(keepty.Hello(Role.WRITER, 80, 24).encode())
                os.write(writing, f"{len(client.recv(1000))} bytes".encode())
        except OSError as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told.decode()


@as_root
def test_another_user_cant_connect_even_where_the_rights_would_let_them(
    hosting: Hosting, runtime: Path
) -> None:
    hosting.start("work", ECHO)
    path = runtime / "keepty/keepty-work.sock"
    with Peer.greeted("work", Role.MONITOR) as peer:
        assert connected_as_nobody(path) == "PermissionError"
        ours = runtime / "fairlead"
        for each in (hosting.directory, runtime, runtime / "keepty", ours, ours / "keepers"):
            each.chmod(0o755)
        (keeper,) = (ours / "keepers").glob("*.sock")
        for each in (path, ours / "rpc.sock", ours / "nursery.sock", keeper):
            each.chmod(0o666)
            assert connected_as_nobody(each) in ("0 bytes", "ConnectionResetError", "BrokenPipeError"), each
        peer.ping()


def test_a_path_that_is_too_long_for_a_socket_is_refused(hosting: Hosting) -> None:
    done = hosting.run("start", "n" * 100, "-d", "--", "true", check=False)
    assert done.returncode == 1
    assert "the socket's path has" in done.stderr
