"""How much processor and memory programs and their children use, where the system tells.

A program's children are all processes of its session, as each has a terminal of its own, and all that descend
from it, wherever they went. The system's processes are read in one pass for any number of programs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..system.processes import Process, processes

LEAST_SPAN = 0.5
"""Seconds between looks below which the share of the processor is told since the look before."""
MAX_DEPTH = 256
"""How many parents of a process are asked after."""


class ProcessUsage(NamedTuple):
    """What a program and its children use."""

    cpu_percent: float
    """Of one processor: since the last look, or since the program's start."""
    cpu_seconds: float
    memory: int
    """Bytes that are in memory; what children share counts for each."""


class UsageSample(NamedTuple):
    """What a program had used at a moment of the monotonic clock."""

    moment: float
    cpu_seconds: float


class Usages:
    """Looks at programs now and then, and remembers the last look at each that is still asked for."""

    def __init__(self) -> None:
        self._looks: dict[int, UsageSample] = {}

    def look(self, started: Mapping[int, float]) -> dict[int, ProcessUsage]:
        """What the programs use, by process id; `started` tells when each was started, by the wall clock.

        It reads many small files: call it from a thread that may wait. Programs that are not there are left
        out of the answer.
        """
        sums = summed(processes(), started)
        now, wall = time.monotonic(), time.time()
        looks: dict[int, UsageSample] = {}
        found: dict[int, ProcessUsage] = {}
        for pid, (cpu, memory) in sums.items():
            born = UsageSample(now - max(wall - started[pid], 0.0), 0.0)
            last = self._looks.get(pid, born)
            span = now - last.moment
            percent = 100 * max(cpu - last.cpu_seconds, 0.0) / span if span > 0 else 0.0
            found[pid] = ProcessUsage(percent, cpu, memory)
            is_fresh = pid in self._looks and span < LEAST_SPAN
            looks[pid] = last if is_fresh else UsageSample(now, cpu)
        self._looks = looks
        return found


def summed(table: Mapping[int, Process], pids: Iterable[int]) -> dict[int, tuple[float, int]]:
    """Processor time and memory of programs with their children."""
    sums = {pid: (0.0, 0) for pid in pids if pid in table}
    for pid, process in table.items():
        owner = _owner(pid, table, sums)
        if owner:
            cpu, memory = sums[owner]
            sums[owner] = cpu + process.cpu_seconds, memory + process.memory
    return sums


def _owner(pid: int, table: Mapping[int, Process], owners: Mapping[int, object]) -> int:
    """The program that a process belongs to, or 0."""
    for _ in range(MAX_DEPTH):
        process = table.get(pid)
        if process is None or pid in owners:
            return pid if process else 0
        if process.session in owners:
            return process.session
        pid = process.parent
    return 0
