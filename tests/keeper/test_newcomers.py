"""Who may take a daemon's place at a keeper: only one that claims it and holds the lock."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.keeper.base import LOCK, MAX_CLAIM, MAX_NEWCOMERS
from fairlead.keeper.protocol import FrameKind, frame
from tests.hosting import is_alive
from tests.keeper.nurseries import WAIT, Daemon, Nursery

ECHO = "stty -echo; echo ready; while read line; do echo got $line; done"


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    directory = tmp_path / "keepers"  # the lock is one above, as in a runtime directory
    directory.mkdir()
    nursery = Nursery(directory)
    yield nursery
    nursery.close()


@pytest.fixture
def daemon(nursery: Nursery) -> Daemon:
    """A daemon that is served."""
    daemon = nursery.start("a", ECHO)
    daemon.until(lambda: b"ready" in daemon.printed)
    return daemon


def still_serves(daemon: Daemon, word: bytes = b"word") -> bool:
    daemon.tell(FrameKind.INPUT, word + b"\n")
    daemon.until(lambda: b"got " + word in daemon.printed)
    return True


def plain(nursery: Nursery) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(WAIT)
    connection.connect(str(nursery.directory / "a.sock"))
    return connection


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"garbage that is no frame",
        frame(FrameKind.INPUT, b"smuggled\n"),
        frame(FrameKind.CLAIM, b"[]"),
        frame(FrameKind.CLAIM, b"[" * 1000),
        frame(FrameKind.CLAIM, b" " * MAX_CLAIM + b"{}"),
    ],
    ids=["nothing", "garbage", "another frame", "no object", "deep", "long"],
)
def test_one_that_only_connects_or_talks_nonsense_takes_nothing_from_the_daemon(
    nursery: Nursery, daemon: Daemon, said: bytes
) -> None:
    with plain(nursery) as probe:
        probe.sendall(said)
        if said:
            with contextlib.suppress(ConnectionResetError):  # not all of it was read
                assert probe.recv(100) == b""
    assert still_serves(daemon)
    assert b"smuggled" not in daemon.printed


def test_one_that_claims_the_place_has_it_and_is_told_everything(nursery: Nursery, daemon: Daemon) -> None:
    later = nursery.connect_to("a")
    later.until(lambda: b"ready" in later.printed)
    assert daemon.at_end()
    assert still_serves(later)


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not tell who connects")
def test_a_claim_counts_only_from_the_process_that_holds_the_lock(nursery: Nursery, daemon: Daemon) -> None:
    lock = nursery.directory.parent / LOCK
    lock.write_text("1\n")
    assert nursery.connect_to("a").at_end()
    assert still_serves(daemon)
    lock.write_text(f"{os.getpid()}\n")
    assert still_serves(nursery.connect_to("a"))
    assert daemon.at_end()


def test_an_older_daemon_that_claims_nothing_is_served_when_the_present_one_has_gone(
    nursery: Nursery, daemon: Daemon
) -> None:
    older = nursery.connect_to("a", claims=False)
    assert still_serves(daemon, b"first")
    daemon.close()
    older.until(lambda: b"got first" in older.printed)
    assert still_serves(older, b"second")
    assert still_serves(nursery.connect_to("a"), b"third")  # it is displaced by one that claims
    assert older.at_end()


def test_of_too_many_that_wait_the_oldest_is_closed(nursery: Nursery, daemon: Daemon) -> None:
    waiting = [nursery.connect_to("a", claims=False) for _ in range(MAX_NEWCOMERS + 1)]
    assert waiting[0].at_end()
    assert still_serves(daemon)
    daemon.close()
    waiting[-1].until(lambda: b"got word" in waiting[-1].printed)  # the last that came is the likeliest


FAILING = """
import errno, os, sys
def {function}(*arguments): raise OSError(errno.{reason}, os.strerror(errno.{reason}))
os.{function} = {function}
from fairlead.keeper import nursery
sys.exit(nursery.main(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("function", "reason", "sentence"),
    [
        ("openpty", "ENOSPC", "no free pseudo-terminals: "),
        ("openpty", "EMFILE", "no terminal can be opened: Too many open files; "),
        ("openpty", "ENOMEM", "no terminal can be opened: Cannot allocate memory"),
        ("fork", "EAGAIN", "no other process can be started: Resource temporarily unavailable"),
    ],
)
def test_a_keeper_that_cant_be_is_a_sentence_and_leaves_nothing(
    tmp_path: Path, function: str, reason: str, sentence: str
) -> None:
    command = [sys.executable, "-c", FAILING.format(function=function, reason=reason)]
    nursery = Nursery(tmp_path, command)
    try:
        for _ in range(2):
            answer = nursery.keep("a", ["true"])
            assert answer["plain"] is True
            assert answer["error"].startswith(sentence)
            assert not (tmp_path / "a.sock").exists()
    finally:
        nursery.close()


def test_hanging_up_ends_an_interactive_shell_and_what_runs_in_its_foreground(
    nursery: Nursery, tmp_path: Path
) -> None:
    (tmp_path / "history").write_text("")
    environment = {**os.environ, "HOME": str(tmp_path), "HISTFILE": str(tmp_path / "history"), "PS1": "$ "}
    nursery.keep("a", ["bash", "--norc", "--noprofile", "-i"], environment=environment)
    daemon = nursery.connect_to("a")
    daemon.tell(FrameKind.INPUT, b"sh -c 'echo pid=$$; exec sleep 1000'\n")
    daemon.until(lambda: re.search(rb"pid=\d+\r\n", daemon.printed) is not None)
    pid = int(re.findall(rb"pid=(\d+)\r\n", daemon.printed)[0])
    daemon.tell(FrameKind.HANG_UP)
    assert daemon.exit_code() == 128 + signal.SIGHUP
    deadline = time.monotonic() + WAIT
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "exec sleep 1000" in (tmp_path / "history").read_text()


def test_how_long_ago_a_program_ended_is_told_to_every_daemon(nursery: Nursery) -> None:
    first = nursery.start("a", "exit 4")
    assert first.exit_code() == 4
    first.close()
    ages = []
    for _ in range(2):
        later = nursery.connect_to("a")
        ages.append(later.state["ended_for"])
        later.close()
    assert 0 < ages[0] < ages[1] < WAIT


BRIEF = """
import sys
from fairlead.keeper import base, nursery
base.KEEP_STATUS = 0.1
sys.exit(nursery.main(sys.argv[1]))
"""


def test_a_keeper_goes_by_itself_when_nobody_came_for_the_exit_status(tmp_path: Path) -> None:
    nursery = Nursery(tmp_path, [sys.executable, "-c", BRIEF])
    try:
        keeper = nursery.keep("a", ["true"])["pid"]
        deadline = time.monotonic() + WAIT
        while is_alive(keeper) or (tmp_path / "a.sock").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        nursery.close()
