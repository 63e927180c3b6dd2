"""Files that are written as a whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile


def at_home(path: str) -> str:
    """A path, with `~` at its begin as the home directory."""
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path


def replace_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Put a new file at a path: whoever reads it gets the old one or the new one. Raises OSError."""
    descriptor, new = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".")
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def read_private(path: str, limit: int) -> bytes | None:
    """What is in a file of ours that nobody else can read or write, up to a limit; None if there is no such
    file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if found.st_uid != os.getuid() or not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
            return None
        return file.read(limit)
