"""Attaching to a session of another host, over a line that is slow, cut, or away."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.client.persons import Person
from tests.hosts.far_host import FarHost, NearHost, descendants

NOTED = "stty -echo; echo ready; while read line; do echo $line >> $0; echo got $line; done"
"""Notes what it reads in a file, which is given as $0."""


@pytest.fixture
def noted(far: FarHost, tmp_path: Path) -> Iterator[Path]:
    """A session `work` there that notes what is typed."""
    path = tmp_path / "noted"
    far.run("start", "work", "-d", "--", "sh", "-c", NOTED, str(path))
    far.wait_text("work", "ready")
    yield path
    far.run("stop", "work", check=False)


@contextmanager
def frozen(far: FarHost) -> Iterator[None]:
    """Nothing passes the line, which is not cut."""
    assert far.running is not None
    stopped = descendants(far.running.pid)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def test_keys_go_there_and_output_comes_back(near: NearHost, far: FarHost, noted: Path) -> None:
    with Person(near, "attach", "workbox:work") as person:
        person.until("ready")
        person.press(b"one\r")
        person.until("got one")
        assert person.leave() == 0
        assert "`fairlead attach workbox:work` reattaches" in person.text
    assert noted.read_text() == "one\n"


def test_the_size_of_this_terminal_is_the_sessions(near: NearHost, far: FarHost, noted: Path) -> None:
    with Person(near, "attach", "workbox:work", cols=101, rows=31) as person:
        person.until("ready")
        far.until(lambda: far.sessions()["work"]["cols"] == 101)
        person.resize(91, 21)
        far.until(lambda: (far.sessions()["work"]["cols"], far.sessions()["work"]["rows"]) == (91, 21))
        assert person.leave() == 0


def test_it_goes_on_when_the_far_daemon_is_killed(near: NearHost, far: FarHost, noted: Path) -> None:
    with Person(near, "attach", "workbox:work") as person:
        person.until("ready")
        far.kill_daemon()
        person.until_again(b"ready")
        person.press(b"after\r")
        person.until("got after")
        assert person.leave() == 0
    assert noted.read_text() == "after\n"


def test_it_goes_on_when_the_connection_is_cut(near: NearHost, far: FarHost, noted: Path) -> None:
    with Person(near, "attach", "workbox:work") as person:
        person.until("ready")
        far.cut()
        person.until_again(b"ready")
        person.press(b"after\r")
        person.until("got after")
        assert person.leave() == 0
    assert noted.read_text() == "after\n"


def test_keys_typed_while_the_line_is_away_are_sent_once(near: NearHost, far: FarHost, noted: Path) -> None:
    with Person(near, "attach", "workbox:work") as person:
        person.until("ready")
        far.stop_sshd()
        try:
            person.until("workbox is away, reconnecting")
            person.press(b"a", b"b", b"\r")
            person.until("3 keys wait")
        finally:
            far.start_sshd()
        person.until("got ab")
        person.until_screen(far, "work")  # nothing is left of what was said
        assert person.leave() == 0
    assert noted.read_text() == "ab\n"


def test_leaving_works_while_the_line_is_away(near: NearHost, far: FarHost, noted: Path) -> None:
    with Person(near, "attach", "workbox:work") as person:
        person.until("ready")
        far.stop_sshd()
        try:
            person.until("is away")
            assert person.leave() == 0
        finally:
            far.start_sshd()


def test_keys_on_a_slow_line_are_said_to_wait(near: NearHost, far: FarHost, noted: Path) -> None:
    with Person(near, "attach", "workbox:work") as person:
        person.until("ready")
        with frozen(far):
            person.press(b"x", b"\x1b[A", "ä".encode())
            person.until("slow line to workbox: 3 keys wait")
        person.press(b"\r")
        person.until("got x")
        person.until_screen(far, "work")
        assert person.leave() == 0
    assert noted.read_text() == "x\x1b[Aä\n"


def test_a_line_that_was_slow_gets_the_screen_and_not_the_backlog(
    near: NearHost, far: FarHost, noted: Path
) -> None:
    far.start("flood", "read go; seq 1000000; echo all printed; exec cat")
    with Person(near, "attach", "workbox:flood") as person:
        far.until(lambda: far.sessions()["flood"]["clients"] == 1)
        with frozen(far):
            far.run("send", "flood", "go", "-k", "Enter")
            far.wait_text("flood", "all printed")
        person.until("all printed")
        assert len(person.seen) < 1_000_000
        assert person.leave() == 0
    far.run("stop", "flood")


def test_a_session_that_there_is_not_is_one_clear_error(near: NearHost, far: FarHost) -> None:
    with Person(near, "attach", "workbox:nix") as person:
        person.until("no session 'nix'")
        assert person.client.wait(30) == 1


def test_the_end_of_its_program_is_the_exit_code(near: NearHost, far: FarHost) -> None:
    far.start("short", "read code; exit $code")
    with Person(near, "attach", "workbox:short") as person:
        far.until(lambda: far.sessions()["short"]["clients"] == 1)
        person.press(b"7\r")
        person.until("ended with 7")
        assert person.client.wait(30) == 7
