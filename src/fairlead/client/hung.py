"""A daemon that hangs: it holds its lock and does not answer. Finding its process, and ending it."""

from __future__ import annotations

import fcntl
import os
import signal
import time

from ..system.processes import command
from ..system.settings import Settings

DUMP_WAIT = 0.5
"""Seconds that a hung daemon has to write down where it hangs before it is killed."""
END_WAIT = 10.0
"""Seconds until a killed daemon that still holds its lock is an error."""
LOOK_EVERY = 0.02
MAX_LOCK = 64
"""How many bytes of the lock file are read."""


def lock_holder(settings: Settings) -> int:
    """The daemon that holds the lock, if it is one: its process, verified by its command; else 0."""
    try:
        with open(settings.lock_path, "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = int(lock.read(MAX_LOCK).strip() or b"0")
            else:
                return 0
    except (OSError, ValueError):
        return 0
    return pid if pid > 1 and _is_daemon(pid) else 0


def was_stopped(settings: Settings) -> bool:
    """True if nobody misses a daemon: none was started here yet, or the last one was told to stop."""
    try:
        with open(settings.lock_path, "rb") as lock:
            return lock.read(MAX_LOCK).startswith(b"stopped")
    except OSError:
        return True


def end(settings: Settings, pid: int, *, for_good: bool) -> None:
    """Kill a hung daemon, which first writes to its log where it hangs. Raises TimeoutError.

    The nursery starts the next one, unless it is `for_good`: then the nursery is told to go first.
    """
    if for_good:
        _dismiss_nursery(settings)
    _signal(pid, signal.SIGUSR2)
    _until_over(settings, pid, DUMP_WAIT)
    if lock_holder(settings) == pid:
        _signal(pid, signal.SIGKILL)
    if not _until_over(settings, pid, END_WAIT):
        raise TimeoutError(f"process {pid} was killed but still holds {settings.lock_path}")
    if for_good:  # one that is just being started sees that it is not wanted any more
        with open(settings.lock_path, "r+b") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            lock.truncate(0)
            lock.write(f"stopped {time.time()}\n".encode())


def _until_over(settings: Settings, pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while lock_holder(settings) == pid:
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY)
    return True


def _dismiss_nursery(settings: Settings) -> None:
    from .launch import reached

    connection = reached(settings.nursery_path)
    if connection is not None:
        with connection:
            connection.settimeout(END_WAIT)
            connection.sendall(b'{"bye": true}\n')
            connection.recv(64)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _is_daemon(pid: int) -> bool:
    """Whether this process is a daemon of ours, by its command."""
    found = command(pid)
    return "fairlead" in found and "daemon" in found
