"""Who is at the other end of a unix socket."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping

AGENT_MARK = "FAIRLEAD_AGENT"
"""The variable that every command of an agent session has, with the session's id."""
MAX_ANCESTORS = 64
"""How many processes are looked at, from one to its parent, for that mark."""
MAX_ENVIRON = 8 * 1024 * 1024
"""How many bytes of a process's environment are looked at: more than a kernel allows."""

_LOCAL_PEERCRED = 1  # of macOS and the BSDs, where Python has no name for it
_LOCAL_PEERPID = 2  # of macOS


def is_our_user(connection: socket.socket) -> bool:
    """Whether the peer's process belongs to our user. Where that can't be known, the directory decides."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return bool(struct.unpack("3i", credentials)[1] == os.getuid())
        credentials = connection.getsockopt(0, _LOCAL_PEERCRED, struct.calcsize("II"))
        return bool(struct.unpack("II", credentials)[1] == os.getuid())
    except OSError:
        return True


def peer_pid(connection: socket.socket) -> int | None:
    """The process id of the peer, or None where that can't be known, as across containers."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            pid = int(struct.unpack("3i", credentials)[0])
        else:
            pid = connection.getsockopt(0, _LOCAL_PEERPID)
    except OSError:
        return None
    return pid if pid > 0 else None


def agent_of(pid: int, programs: Mapping[int, str]) -> str | None:
    """The agent session whose command a process is, or was started by; empty if none is known.

    `programs` are processes that are known to be an agent's, with the agent, whatever their environment says;
    so is what has them as its parent or as the first of its terminal. None if there is no such process. Only
    Linux tells what a process has in its environment; elsewhere, and for one that lost both the mark and its
    parents, nothing is known.
    """
    if not os.path.isdir("/proc/self"):
        return ""
    mark = f"\0{AGENT_MARK}=".encode()
    for step in range(MAX_ANCESTORS):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent, _, first = map(int, file.read().rpartition(b")")[2].split()[1:4])
            if agent := programs.get(pid) or programs.get(first):
                return agent
            with open(f"/proc/{pid}/environ", "rb") as file:
                found = (b"\0" + file.read(MAX_ENVIRON)).partition(mark)[2]
        except PermissionError:  # of another user, as init is
            return ""
        except OSError:
            return "" if step else None
        if found:
            return found.partition(b"\0")[0].decode("utf-8", "replace")
        if parent <= 1:
            return ""
        pid = parent
    return ""
