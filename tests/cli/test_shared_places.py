"""Directories that all users share, keepty's and Pi's: used where they are ours, and else done without."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.system.settings import Settings
from fairlead.wire import keepty
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting

NOBODY = 65534


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    """A user without a runtime directory of their own."""
    hosting = Hosting()
    shared = hosting.directory / "tmp"
    shared.mkdir()
    for name in ("XDG_RUNTIME_DIR", "FAIRLEAD_VERIFIER_DIR"):
        del hosting.environment[name]
    hosting.environment |= {
        "TMPDIR": str(shared),
        "FAIRLEAD_VERIFIER_SHARED_DIR": str(shared / "pi-verifier"),
    }
    yield hosting
    hosting.close()


def shared(hosting: Hosting) -> Path:
    return Path(hosting.environment["TMPDIR"])


def make_foreign(path: Path) -> str:
    """Have another user own a directory, or else let it be a link. Returns what is wrong with it."""
    if os.getuid() == 0:
        path.mkdir()
        os.chown(path, NOBODY, -1)
        return f"{path} belongs to another user"
    path.symlink_to("/usr")
    return f"{path} is not a directory"


def asked(path: Path, line: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WAIT)
        client.connect(str(path))
        client.sendall(line)
        return client.recv(4096)


def hello(session: str) -> bytes:
    return json.dumps({"type": "hello", "role": "verifier", "sessionId": session, "pid": 1}).encode() + b"\n"


def test_sessions_are_reached_where_keeptys_and_pis_programs_look_for_them(hosting: Hosting) -> None:
    hosting.start("work", "stty -echo; echo ready; cat")
    target = hosting.ask("verify_target", name="work")
    own = Path(Settings(hosting.environment).runtime_dir)
    assert target["socket"] == str(own / "verifier/work.sock")
    for path in (own / "verifier/work.sock", shared(hosting) / "pi-verifier/work.sock"):
        assert json.loads(asked(path, hello("work")))["type"] == "hello_ack"
        assert path.stat().st_mode & 0o777 == 0o600
    greeting = keepty.Hello(keepty.Role.MONITOR, 80, 24).encode()
    for path in (own / "keepty/keepty-work.sock", shared(hosting) / "keepty/keepty-work.sock"):
        assert asked(path, greeting)
        assert path.stat().st_mode & 0o777 == 0o600
    for path in (shared(hosting) / "keepty", shared(hosting) / "pi-verifier"):
        assert path.stat().st_mode & 0o777 == 0o700
    assert "shared directories" in hosting.run("doctor", check=False).stdout
    hosting.run("stop", "work")
    hosting.until(lambda: not list(shared(hosting).glob("keepty/*")))


def test_directories_of_another_user_take_nothing_from_us_and_are_named(hosting: Hosting) -> None:
    faults = [make_foreign(shared(hosting) / name) for name in ("keepty", "pi-verifier")]
    hosting.start("work", "stty -echo; echo ready; cat")
    with Person(hosting, "attach", "work") as person:
        person.until("ready")
        person.type(b"hello\r")
        person.until("hello")
    socket_path = Path(hosting.ask("verify_target", name="work")["socket"])
    assert json.loads(asked(socket_path, hello("work")))["type"] == "hello_ack"

    told = " ".join(hosting.run("doctor", check=False).stdout.split())
    for fault in faults:
        assert fault in told
    assert "keepty's and Pi's programs can't find sessions there (Fairlead's can)" in told
    done = hosting.run("verify", "--once", "some-pi", "--", "true", check=False)
    assert done.returncode == 1
    assert f"Pi's sessions can't be searched: {faults[1]}" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a directory of another user")
def test_what_listens_in_a_directory_of_another_user_is_not_attached_to(hosting: Hosting) -> None:
    make_foreign(shared(hosting) / "keepty")
    hosting.run("ls")
    with socket.socket(socket.AF_UNIX) as trap:
        trap.bind(str(shared(hosting) / "keepty/keepty-work.sock"))
        trap.listen()
        trap.setblocking(False)
        with Person(hosting, "attach", "work") as person:
            person.until("no session 'work'")
        with pytest.raises(BlockingIOError):
            trap.accept()
