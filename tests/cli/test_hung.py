"""A daemon that hangs: commands say so, restart and stop work, and the nursery replaces it by itself."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping

import pytest

from fairlead.client.hung import lock_holder
from fairlead.system.settings import Settings
from tests.client.persons import Person
from tests.hosting import WAIT, Hosting, is_alive

QUICKLY = {"FAIRLEAD_DAEMON_ANSWER_SECONDS": "1.2", "FAIRLEAD_DAEMON_HANG_SECONDS": "0"}
HANGS = """
import signal, sys, time

def hang_on_purpose(number, frame):
    while True:
        time.sleep(600)

if "daemon" in sys.orig_argv and "run" in sys.orig_argv:
    signal.signal(signal.SIGUSR1, hang_on_purpose)
"""
"""What makes a daemon hang in Python when it gets SIGUSR1; imported by each Python that finds it."""
ECHO = "echo ready; while read line; do echo got $line; done"


@pytest.fixture
def host_with() -> Iterator[Callable[[Mapping[str, str]], Hosting]]:
    """Makes places with such settings, a daemon and a session in them."""
    made: list[Hosting] = []

    def make(settings: Mapping[str, str]) -> Hosting:
        hosting = Hosting(settings)
        made.append(hosting)
        (hosting.directory / "sitecustomize.py").write_text(HANGS)
        before = hosting.environment.get("PYTHONPATH")
        hosting.environment["PYTHONPATH"] = f"{hosting.directory}{f':{before}' if before else ''}"
        hosting.start("work", ECHO)
        hosting.wait_text("work", "ready")
        return hosting

    yield make
    for hosting in made:
        if pid := lock_holder(Settings(hosting.environment)):
            os.kill(pid, signal.SIGCONT)
        hosting.close()


def stopped(hosting: Hosting) -> int:
    """Keep the daemon from doing anything; gives its process."""
    pid = hosting.daemon_pid()
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_commands_say_that_it_is_hung_and_restart_replaces_it(
    host_with: Callable[[Mapping[str, str]], Hosting],
) -> None:
    hosting = host_with(QUICKLY)
    pid = stopped(hosting)
    status = hosting.run("daemon", "status", "--json", check=False)
    assert (status.returncode, json.loads(status.stdout)) == (1, {"running": True, "hung": True, "pid": pid})
    for words in (["daemon", "status"], ["ls"]):
        done = hosting.run(*words, check=False)
        assert done.returncode == 1
        assert f"process {pid}, is hung" in done.stderr
        assert "fairlead daemon restart" in done.stderr
    found = json.loads(hosting.run("doctor", "--json", check=False).stdout)["checks"][0]
    assert "is hung" in found["detail"]
    assert found["fix"].startswith("fairlead daemon restart")
    hosting.run("daemon", "restart")
    assert hosting.daemon_pid() != pid
    hosting.run("send", "work", "hello", "-k", "Enter")
    hosting.wait_text("work", "got hello")


def test_a_hung_one_can_be_stopped_and_none_comes_in_its_place(
    host_with: Callable[[Mapping[str, str]], Hosting],
) -> None:
    hosting = host_with(QUICKLY)
    pid = stopped(hosting)
    hosting.run("daemon", "stop")
    assert not is_alive(pid)
    assert json.loads(hosting.run("daemon", "status", "--json", check=False).stdout) == {"running": False}
    hosting.wait_text("work", "ready")  # with another daemon, which finds the session


def test_the_nursery_replaces_one_that_hangs_and_the_log_says_where_it_hung(
    host_with: Callable[[Mapping[str, str]], Hosting],
) -> None:
    hosting = host_with({"FAIRLEAD_DAEMON_HANG_SECONDS": "2"})
    pid = hosting.daemon_pid()
    os.kill(pid, signal.SIGUSR1)
    hosting.until(lambda: not is_alive(pid))
    hosting.run("send", "work", "hello", "-k", "Enter")
    hosting.wait_text("work", "got hello")
    log = hosting.log()
    assert f"the daemon, process {pid}, has not answered for 2 s: it hangs" in log
    assert "in hang_on_purpose" in log


@pytest.mark.parametrize("leave", [b"\x04", b"\x03"], ids=["ctrl-d", "ctrl-c"])
def test_the_chat_can_always_be_left(host_with: Callable[[Mapping[str, str]], Hosting], leave: bytes) -> None:
    hosting = host_with(QUICKLY)
    with Person(hosting, "agent", "-C", "/tmp", rows=40) as person:
        person.until("^D leaves")
        pid = stopped(hosting)
        person.type(b"/new\r")
        person.until(f"process {pid}, is hung")
        assert "`fairlead daemon restart` replaces it, ^D leaves" in " ".join(person.screen.text().split())
        person.type(b"half a thought")
        person.until("half a thought")
        assert person.leave(leave) == 0
        assert os.path.exists(f"/proc/{pid}")
    os.kill(pid, signal.SIGCONT)
    with Person(hosting, "agent", "-C", "/tmp", rows=40) as person:
        person.until("^D leaves")
        pid = stopped(hosting)
        assert person.leave(b"\x04") == 0  # at once


def test_a_daemon_that_stops_in_the_middle_is_noticed_by_whoever_waits_for_it(
    host_with: Callable[[Mapping[str, str]], Hosting],
) -> None:
    hosting = host_with(QUICKLY)

    def begun(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*hosting.command, *words],
            env=hosting.environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    waiting = begun("wait", "work", "--text", "never")
    talking = begun("talk")
    assert talking.stdin is not None
    talking.stdin.write("/help\n")
    talking.stdin.flush()
    assert talking.stdout is not None
    assert talking.stdout.readline()

    pid = stopped(hosting)
    talking.stdin.write("/help\n")
    talking.stdin.flush()
    for process in (waiting, talking):
        _, said = process.communicate(timeout=WAIT)
        assert process.returncode == 1
        assert "is hung" in said
    done = hosting.run("approvals", check=False)
    assert (done.returncode, f"process {pid}, is hung" in done.stderr) == (1, True)


def test_a_daemon_that_is_full_of_silent_clients_is_said_to_be_and_is_replaced() -> None:
    hosting = Hosting({"FAIRLEAD_RPC_MAX_CONNECTIONS": "4"})
    silent: list[socket.socket] = []
    try:
        hosting.start("work", "echo ready; read line")
        hosting.wait_text("work", "ready")
        daemon = hosting.daemon_pid()
        silent += [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for each in silent:
            each.connect(Settings(hosting.environment).rpc_path)
        told = hosting.run("ls", check=False)
        assert told.returncode == 1
        assert told.stderr.startswith(
            f"fairlead ls: the daemon, process {daemon}, has reached its limit of clients"
        )
        assert hosting.run("daemon", "restart").returncode == 0
        assert hosting.daemon_pid() != daemon
        assert hosting.sessions()["work"]["state"] == "running"
    finally:
        for each in silent:
            each.close()
        hosting.close()
