"""Which program has a terminal, the leader of the process group in its foreground; which still runs, and what
is below which."""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

MAX_DEPTH = 32
"""How many generations of processes are looked at."""
PS_SECONDS = 2.0
"""How long `ps` may take, where there is no /proc."""


class Program(NamedTuple):
    """A running program. Two are the same only if they also began at the same moment."""

    pid: int
    name: str
    began: str


def foreground(pid: int) -> Program | None:
    """The program in the foreground of the terminal that a process is on, if that can be told."""
    if os.path.isdir("/proc/self"):
        found = _stat(pid)
        leader = _stat(int(found[2][5])) if found is not None and int(found[2][5]) > 0 else None
        return Program(leader[0], leader[1], leader[2][19]) if leader is not None else None
    group = _ps("tpgid=", pid)
    if not group.isdigit():
        return None
    name = os.path.basename(_ps("comm=", int(group)))
    return Program(int(group), name, _ps("lstart=", int(group))) if name else None


def running(pid: int) -> Program | None:
    """The program that a process runs, if it runs: one that has ended and was not reaped does not."""
    if os.path.isdir("/proc/self"):
        found = _stat(pid)
        return Program(pid, found[1], found[2][19]) if found is not None and found[2][0] not in "ZX" else None
    state, began = _ps("stat=", pid), _ps("lstart=", pid)
    if not state or state.startswith("Z"):
        return None
    return Program(pid, os.path.basename(_ps("comm=", pid)), began)


def depth_below(pid: int, ancestor: int) -> int | None:
    """How many generations a process is below another one; None if it is not, or that can't be told."""
    for depth in range(MAX_DEPTH):
        if pid == ancestor:
            return depth
        if os.path.isdir("/proc/self"):
            found = _stat(pid)
            parent = found[2][1] if found is not None else ""
        else:
            parent = _ps("ppid=", pid)
        if not parent.isdigit() or int(parent) <= 1:
            return None
        pid = int(parent)
    return None


def _stat(pid: int) -> tuple[int, str, list[str]] | None:
    """A process's name and the fields after it, from the state on: see proc(5)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            head, _, rest = file.read().rpartition(")")
    except OSError:
        return None
    return pid, head.partition("(")[2], rest.split()


def _ps(what: str, pid: int) -> str:
    try:
        done = subprocess.run(
            ["ps", "-o", what, "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=PS_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
