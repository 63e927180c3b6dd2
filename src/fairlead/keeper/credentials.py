"""Who is at the other end of a unix socket, and how an agent's processes are marked."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import sys

AGENT_MARK = "FAIRLEAD_AGENT"
"""The variable that every command of an agent session has, with the session's id."""
RLIMIT_LOCKS = 10
"""A limit that Linux hands on to all that a process starts, that no process without privileges can raise
again, and that has limited nothing since Linux 2.4."""
UNLIMITED = 2**64 - 1
LESS = 2**62
"""What an agent's processes have instead of no limit."""

_LOCAL_PEERCRED = 1  # of macOS and the BSDs, where Python has no name for it
_LOCAL_PEERPID = 2  # of macOS
_SO_PEERPIDFD = 77  # since Linux 6.5


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


def is_gone(connection: socket.socket) -> bool:
    """True if the process that connected has ended: its id may be another's now. False if that is not known,
    as before Linux 6.5."""
    if sys.platform != "linux":
        return False
    try:
        found = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, struct.calcsize("i"))
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    (descriptor,) = struct.unpack("i", found)
    try:
        look = select.poll()
        look.register(descriptor, select.POLLIN)
        return bool(look.poll(0))
    finally:
        os.close(descriptor)


def has_mark() -> bool:
    """Whether this process has the mark of an agent's that no environment removes."""
    if sys.platform != "linux":
        return False
    import resource

    return resource.getrlimit(RLIMIT_LOCKS)[1] == LESS


def mark_as_agents(pid: int = 0) -> None:
    """Mark a process, or this one, and all that it will start, as an agent's: with a lower limit than the
    daemon has. Neither another environment nor another parent removes that. Only Linux has such a limit."""
    if sys.platform == "linux":
        import resource

        _, most = resource.getrlimit(RLIMIT_LOCKS)
        lower = LESS if most == resource.RLIM_INFINITY else max(0, most - 1)
        with contextlib.suppress(OSError):  # it has ended, or is another user's by now
            resource.prlimit(pid, RLIMIT_LOCKS, (lower, lower))
