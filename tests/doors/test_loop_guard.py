"""The watch over daemons' loops in all tests sees what takes long and what waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.hosting import GUARD, Hosting

BAD = """
import os, runpy, signal, time

runpy.run_path(os.environ["GUARD"] + "/sitecustomize.py")

def work(number, frame):
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        pass

def wait(number, frame):
    time.sleep(2)

signal.signal(signal.SIGUSR1, work)
signal.signal(signal.SIGWINCH, wait)
"""


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    (hosting.directory / "sitecustomize.py").write_text(BAD)
    hosting.environment |= {"PYTHONPATH": str(hosting.directory), "GUARD": str(GUARD)}
    hosting.run("ls")
    yield hosting
    hosting.close()


@pytest.mark.parametrize(
    ("number", "told", "where"),
    [(signal.SIGUSR1, "busy for", "in work"), (signal.SIGWINCH, "waited for something else", "in wait")],
    ids=["work", "wait"],
)
def test_what_holds_a_loop_up_is_written_down(hosting: Hosting, number: int, told: str, where: str) -> None:
    assert hosting.held_up() == ""
    os.kill(hosting.daemon_pid(), number)
    found = ""

    def is_told() -> bool:
        nonlocal found
        found = found or hosting.held_up()
        return bool(found)

    hosting.until(is_told)
    assert told in found
    assert where in found
