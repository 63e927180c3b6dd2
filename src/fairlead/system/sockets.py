"""Unix sockets by their paths: which file is there, and whether a program listens."""

from __future__ import annotations

import os
import socket


def identity(path: str) -> tuple[int, int] | None:
    """Which file is at a path, if any."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_served(path: str) -> bool:
    """True if a program listens at this socket. It never waits for that program."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:  # it is too busy to answer, or not ours to ask
            return True
        return True
