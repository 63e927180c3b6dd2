"""Unix sockets for our user alone."""

from __future__ import annotations

import contextlib
import os
import socket


def listening(path: str, backlog: int, *, replace: bool = False) -> socket.socket:
    """A socket that listens at a path, or with `replace` in place of whatever is there. Raises OSError."""
    if replace:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener
