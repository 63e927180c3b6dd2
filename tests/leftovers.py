"""Ends what a test run has left behind that was killed: daemons, keepers, agents.

    python tests/leftovers.py MARK < PIPE

It waits until its input ends, which is when the run does, however that ends, and then kills the processes
that have the run's mark in their environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "LEFTOVERS_OF"
PATIENCE = 5.0
"""Seconds for which new processes are looked for: a nursery starts a daemon that was killed."""


@contextmanager
def ended_afterwards() -> Iterator[None]:
    """Mark what this process starts; what is left of it is ended when this process is gone."""
    os.environ[VARIABLE] = mark = uuid.uuid4().hex
    command = [sys.executable, "-S", __file__, mark]
    clean = {name: value for name, value in os.environ.items() if name != VARIABLE}
    watch = subprocess.Popen(command, stdin=subprocess.PIPE, env=clean, start_new_session=True)
    try:
        yield
    finally:
        watch.communicate()


def marked(mark: str) -> list[int]:
    """The processes of a run."""
    entry = f"{VARIABLE}={mark}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        path = process / "environ"
        try:
            if entry in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:  # it is gone, or not ours
            continue
    return found


def main(mark: str) -> None:
    sys.stdin.buffer.read()
    deadline = time.monotonic() + PATIENCE
    while (pids := marked(mark)) and time.monotonic() < deadline:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1])
