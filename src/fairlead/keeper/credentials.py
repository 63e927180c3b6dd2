"""Who is at the other end of a unix socket."""

from __future__ import annotations

import os
import socket
import struct

AGENT_MARK = "FAIRLEAD_AGENT"
"""The variable that every command of an agent session has, with the session's id."""

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
