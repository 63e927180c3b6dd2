"""Sockets that somebody deletes come back by themselves, and who is connected does not notice."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from fairlead.wire import keepty
from tests.hosting import Hosting, is_alive

ECHO = "echo ready; while read line; do echo got $line; done"


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    hosting.start("work", ECHO)
    hosting.wait_text("work", "ready")
    yield hosting
    hosting.close()


def reaches(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except OSError:
            return False
    return True


def test_a_sessions_socket_and_its_directory_come_back(hosting: Hosting) -> None:
    path = keepty.socket_path("work", hosting.environment)
    with socket.socket(socket.AF_UNIX) as attached:
        attached.connect(path)
        attached.settimeout(20)
        client = keepty.ClientConnection()
        attached.sendall(client.send(keepty.Hello(keepty.Role.WRITER, 80, 24)))
        shutil.rmtree(os.path.dirname(path))
        hosting.until(lambda: reaches(path))
        assert os.stat(path).st_mode & 0o777 == 0o600
        attached.sendall(client.send(keepty.Input(b"still here\n")))
        seen = b""
        while b"got still here" not in seen:
            messages = client.receive(attached.recv(65_536))
            seen += b"".join(each.data for each in messages if isinstance(each, keepty.Output))
    assert f"{path} was deleted; recreated it" in hosting.log()


def test_the_daemons_own_sockets_come_back(hosting: Hosting) -> None:
    settings = Settings(hosting.environment)
    paths = [settings.rpc_path, settings.passepartout_path]
    with DaemonConnection(settings, start=False) as connected:
        pid = connected.ask("daemon_status")["pid"]
        for path in paths:
            os.unlink(path)
        hosting.until(lambda: all(map(reaches, paths)))
        assert connected.ask("daemon_status")["pid"] == hosting.daemon_pid() == pid


def test_a_socket_that_another_program_has_taken_is_left_alone_and_doctor_says_so(hosting: Hosting) -> None:
    path = keepty.socket_path("work", hosting.environment)
    with socket.socket(socket.AF_UNIX) as other:
        os.unlink(path)
        other.bind(path)
        other.listen()
        found = {check["name"]: check for check in hosting.ask("health")["checks"]}
        assert found["sockets"]["status"] == "degraded"
        assert path in found["sockets"]["detail"]
    os.unlink(path)
    hosting.until(lambda: reaches(path))


def test_the_nurserys_socket_comes_back_so_that_the_next_daemon_finds_it(hosting: Hosting) -> None:
    path = Settings(hosting.environment).nursery_path
    os.unlink(path)
    hosting.until(lambda: Path(path).exists())
    pid = hosting.daemon_pid()
    os.kill(pid, signal.SIGKILL)
    hosting.until(lambda: not is_alive(pid))
    hosting.start("another", ECHO)
    hosting.wait_text("another", "ready")


def test_a_verifiers_socket_comes_back(hosting: Hosting) -> None:
    hosting.run("agent", "-p", "--name", "garden", "hello")
    directory = Path(hosting.environment["FAIRLEAD_VERIFIER_DIR"])
    path = next(str(each) for each in directory.iterdir() if each.is_socket())
    os.unlink(path)
    hosting.until(lambda: reaches(path))
