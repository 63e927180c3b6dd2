"""Processes of this machine, by /proc and by `ps`."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import time
from collections.abc import Iterator

import pytest

from fairlead.system import processes


@pytest.fixture(params=["proc", "ps"])
def child(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[subprocess.Popen[bytes]]:
    """A shell in a session of its own, with a child of its own."""
    if request.param == "ps":
        monkeypatch.setattr(processes, "PROC", "/nowhere")
    elif not processes.has_proc():
        pytest.skip("there is no /proc here")
    script = "sleep 300 & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as started:
        yield started
        for pid in processes.members({started.pid}):
            os.kill(pid, 9)


def test_a_program_is_known_by_its_name_and_its_beginning(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    sleep = int(child.stdout.readline())
    found = processes.running(child.pid)
    assert found is not None
    assert (found.pid, found.name in ("sh", "dash", "bash")) == (child.pid, True)
    assert found.began
    assert found == processes.running(child.pid)
    assert "sleep 300 & echo" in processes.command(child.pid)
    assert processes.depth_below(sleep, os.getpid()) == 2
    assert processes.depth_below(os.getpid(), sleep) is None
    assert processes.foreground(child.pid) is None  # it has no terminal


def test_all_of_a_session_is_found_and_ended(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    sleep = int(child.stdout.readline())
    assert processes.members({child.pid}) == {child.pid, sleep}
    find = lambda: processes.members({child.pid})  # noqa: E731
    assert asyncio.run(processes.end_all(find, 5.0, 5.0)) == (2, True)
    assert processes.running(child.pid) is None  # also before it is reaped


@pytest.mark.parametrize("where", [processes.PROC, "/nowhere"])
def test_what_has_not_been_started_has_no_processes(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Its pid is 0, which is also the parent of init, and the group and session of what came from outside."""
    monkeypatch.setattr(processes, "PROC", where)
    assert processes.members({0}) == processes.members((0, 1)) == set()
    assert processes.below(0) == set()


def test_where_nothing_runs_one_look_is_enough() -> None:
    looks: list[set[int]] = []

    def find() -> set[int]:
        looks.append(set())
        return set()

    assert asyncio.run(processes.end_all(find, 5.0, 5.0)) == (0, True)
    assert len(looks) == 1


def test_a_group_is_ended_where_neither_proc_nor_ps_is(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setattr(processes, "processes", dict)
        assert processes.members({child.pid, 2**22 - 1}) == {-child.pid}


def test_the_foreground_of_a_terminal_is_found(child: subprocess.Popen[bytes]) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.execvp("sh", ["sh", "-c", "tty; exec sleep 300"])
    try:
        with open(os.dup(terminal)) as printed:
            tty = printed.readline().strip()
        found = processes.foreground(pid)
        assert found is not None
        assert found.pid == pid
        deadline = time.monotonic() + 30.0
        while processes.members(set(), tty=tty) != {pid}:  # `tty` itself may not be gone yet
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)
