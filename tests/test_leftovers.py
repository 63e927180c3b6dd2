"""A test run that is killed leaves no processes behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosting import Hosting, is_alive

RUN = """
import sys, time
from tests import leftovers
from tests.hosting import Hosting

with leftovers.ended_afterwards():
    hosting = Hosting()
    hosting.start("work", "sleep 600")
    pids = [*hosting.processes(), hosting.sessions()["work"]["pid"]]
    print(hosting.directory, *pids, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="a system without /proc")
def test_what_a_killed_run_has_started_is_ended(lent: Hosting) -> None:
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", RUN]
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        directory, *pids = run.stdout.readline().split()
        assert pids
        assert all(is_alive(int(pid)) for pid in pids)
        run.send_signal(signal.SIGKILL)
    lent.until(lambda: not any(is_alive(int(pid)) for pid in pids))
    subprocess.run(["rm", "-rf", directory], check=True)
