"""The nursery watches a daemon that wants it, and leaves others alone."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keeper.nurseries import WAIT, Nursery


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    nursery.close()


@pytest.fixture
def silent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not even listen to SIGUSR2."""
    process = subprocess.Popen(["sh", "-c", "trap '' USR2; echo; exec sleep 600"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_daemon_that_says_nothing_is_killed(nursery: Nursery, silent: subprocess.Popen[bytes]) -> None:
    told = {"daemon": ["true"], "pid": silent.pid, "hang": 1.0}
    assert nursery.ask(told)["watches"] is True
    assert silent.wait(WAIT) == -signal.SIGKILL


def test_a_sign_of_life_has_no_answer_and_a_supervised_daemon_is_watched_too(
    nursery: Nursery, silent: subprocess.Popen[bytes]
) -> None:
    assert nursery.ask({"back": True, "pid": silent.pid, "hang": 1.0})["watches"] is True
    nursery.connection.write(b'{"alive": true}\n' * 3)
    assert nursery.ask({"nothing": True}) == {
        "error": "ValueError: expected keep, pipe, daemon, back, alive or bye"
    }
    assert silent.wait(WAIT) == -signal.SIGKILL


def test_a_daemon_that_does_not_ask_for_it_is_not_watched(
    nursery: Nursery, silent: subprocess.Popen[bytes]
) -> None:
    """So an older daemon goes on as before, and one that goes is not killed on its way."""
    other = nursery.connect()
    assert nursery.ask({"daemon": ["true"], "pid": silent.pid, "hang": 1.0})["watches"]
    assert nursery.ask({"back": True})["back"]
    victim = subprocess.Popen(["sleep", "600"])
    other.write(b'{"back": true, "pid": %d, "hang": 1}\n' % victim.pid)
    other.flush()
    assert victim.wait(WAIT) == -signal.SIGUSR2  # as many looks would have been enough for the first one
    assert silent.poll() is None
    other.close()
