"""All that killed Passepartout's own daemon, at once, against ours: it answers and does nothing else."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.attacks import attacking, memory_of
from tests.doors.passepartout_peer import Peer, port_of
from tests.hosting import Hosting

SECONDS = 6.0
PAUSE = 0.02
MOST_MEMORY = 128 * 1024 * 1024
"""Bytes that the daemon may have more than before."""
MEDIAN, WORST = 0.25, 5.0
"""Seconds for an answer on a machine that also runs the attackers; the benchmark is stricter."""


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    hosting = Hosting()
    yield hosting
    hosting.close()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is measured as Linux tells it")
def test_under_all_attacks_at_once_health_is_answered_and_nothing_is_done(
    hosting: Hosting, tmp_path: Path
) -> None:
    port, pid = port_of(hosting), hosting.daemon_pid()
    made = tmp_path / "made"
    before = memory_of(pid)
    most, times = before, []
    with attacking(port, made), Peer(hosting=hosting) as peer:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            began = time.monotonic()
            assert peer.health().checked
            times.append(time.monotonic() - began)
            most = max(most, memory_of(pid))
            peer.got.clear()
            time.sleep(PAUSE)
        assert "/approve" in peer.ask("/help")
    assert most - before < MOST_MEMORY
    assert statistics.median(times) < MEDIAN
    assert max(times) < WORST
    assert not made.exists()
    assert hosting.ask("approvals")["approvals"] == []
    assert hosting.daemon_pid() == pid
