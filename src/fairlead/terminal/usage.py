"""How much processor and memory programs and their children use, where the system tells.

A program's children are all processes of its session, as each has a terminal of its own, and all that descend
from it, wherever they went. The system's processes are read in one pass for any number of programs: from
/proc on Linux, which takes some 15 µs a process, else from `ps`.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

PROC = "/proc"
LEAST_SPAN = 0.5
"""Seconds between looks below which the share of the processor is told since the look before."""
PS_WAIT = 5.0
"""Seconds until a `ps` that does not answer is given up."""
MAX_DEPTH = 256
"""How many parents of a process are asked after."""


class Usage(NamedTuple):
    """What a program and its children use."""

    cpu_percent: float
    """Of one processor: since the last look, or since the program's start."""
    cpu_seconds: float
    memory: int
    """Bytes that are in memory; what children share counts for each."""


class Process(NamedTuple):
    """A process of this system."""

    parent: int
    session: int
    """The session's leader; where that is not known, the group's."""
    cpu_seconds: float
    memory: int


class Look(NamedTuple):
    """What a program had used at a moment of the monotonic clock."""

    moment: float
    cpu_seconds: float


class Usages:
    """Looks at programs now and then, and remembers the last look at each that is still asked for."""

    def __init__(self) -> None:
        self._looks: dict[int, Look] = {}

    def look(self, started: Mapping[int, float]) -> dict[int, Usage]:
        """What the programs use, by process id; `started` tells when each was started, by the wall clock.

        It reads many small files: call it from a thread that may wait. Programs that are not there are left
        out of the answer.
        """
        sums = summed(processes(), started)
        now, wall = time.monotonic(), time.time()
        looks: dict[int, Look] = {}
        found: dict[int, Usage] = {}
        for pid, (cpu, memory) in sums.items():
            born = Look(now - max(wall - started[pid], 0.0), 0.0)
            last = self._looks.get(pid, born)
            span = now - last.moment
            percent = 100 * max(cpu - last.cpu_seconds, 0.0) / span if span > 0 else 0.0
            found[pid] = Usage(percent, cpu, memory)
            is_fresh = pid in self._looks and span < LEAST_SPAN
            looks[pid] = last if is_fresh else Look(now, cpu)
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


def processes() -> dict[int, Process]:
    """All processes that the system tells of."""
    return from_proc() if os.path.exists(f"{PROC}/self/stat") else from_ps()


def from_proc() -> dict[int, Process]:
    """As Linux tells it."""
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found = {}
    for name in os.listdir(PROC):
        if not name.isdecimal():
            continue
        try:
            descriptor = os.open(f"{PROC}/{name}/stat", os.O_RDONLY)
        except OSError:  # it has ended meanwhile
            continue
        try:
            words = os.read(descriptor, 4096).rpartition(b")")[2].split()
        except OSError:
            continue
        finally:
            os.close(descriptor)
        # its own time, and that of its children which have ended
        ticks = int(words[11]) + int(words[12]) + int(words[13]) + int(words[14])
        found[int(name)] = Process(int(words[1]), int(words[3]), ticks / tick, int(words[21]) * page)
    return found


def from_ps() -> dict[int, Process]:
    """As `ps` tells it on other systems; what children used that have ended is not in it."""
    command = ["ps", "-axo", "pid=,ppid=,pgid=,rss=,time="]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PS_WAIT, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    found = {}
    for line in done.stdout.splitlines():
        pid, parent, group, kilobytes, spent = line.split()
        found[int(pid)] = Process(int(parent), int(group), _seconds(spent), int(kilobytes) * 1024)
    return found


def _seconds(spent: str) -> float:
    """A time as `ps` prints it: [days-][hours:]minutes:seconds, maybe with a fraction."""
    days, _, clock = spent.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part)
    return total + 86_400 * int(days or 0)
