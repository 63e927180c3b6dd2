"""Where the user's daemon is, written down in the state directory for programs that don't know.

Cron, ssh, sudo, service managers and desktops start programs without XDG_RUNTIME_DIR: they would look for a
daemon, and start one, at another place than the user's shell does. Only what our own user has written counts,
and only while a daemon is there.
"""

from __future__ import annotations

import fcntl
import os
import stat

from .files import replace_file
from .opening import UNFOLLOWED

NAME = "daemon.place"
MAX_BYTES = 8192
"""How many bytes of the file are read: two paths."""


def write_whereabouts(state_dir: str, runtime_dir: str, xdg_runtime_dir: str) -> None:
    """Write down that the daemon is here. Raises OSError."""
    replace_file(f"{state_dir}/{NAME}", os.fsencode(f"{runtime_dir}\n{xdg_runtime_dir}\n"))


def find_whereabouts(state_dir: str) -> tuple[str, str] | None:
    """The runtime directory of our user's daemon, if one runs, and its XDG_RUNTIME_DIR, perhaps empty."""
    try:
        descriptor = os.open(f"{state_dir}/{NAME}", os.O_RDONLY | os.O_CLOEXEC | UNFOLLOWED)
        with open(descriptor, "rb") as file:
            if not _is_private(os.fstat(descriptor), stat.S_IFREG):
                return None
            runtime_dir, xdg_runtime_dir, *_ = os.fsdecode(file.read(MAX_BYTES)).split("\n")
        is_there = _is_private(os.lstat(runtime_dir), stat.S_IFDIR) and _is_locked(
            f"{runtime_dir}/daemon.lock"
        )
    except (OSError, ValueError):
        return None
    return (runtime_dir, xdg_runtime_dir) if is_there else None


def _is_private(found: os.stat_result, kind: int) -> bool:
    is_ours = found.st_uid == os.getuid() and not found.st_mode & 0o077
    return is_ours and stat.S_IFMT(found.st_mode) == kind


def _is_locked(path: str) -> bool:
    with open(path, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
