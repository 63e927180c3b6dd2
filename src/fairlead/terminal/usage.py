"""How much processor and memory a program and its children use, where the system tells."""

from __future__ import annotations

import os
from typing import NamedTuple


class Usage(NamedTuple):
    """Seconds of processor time and bytes of memory."""

    cpu_seconds: float
    memory: int


def usage_of(pid: int) -> Usage | None:
    """What a process and those in its session use; None where there is no /proc."""
    try:
        tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    cpu = sum(int(words[index]) for index in (11, 12, 13, 14)) / tick
    return Usage(cpu, int(words[21]) * page)
