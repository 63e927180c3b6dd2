"""Which session an editor had in focus, for the next backend that it starts in the same directory.

A backend is killed when an editor reconnects, so that is written whenever it changes: one small file for each
editor and directory, beside the daemon's sockets. Those of editors that are gone are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

from ..system.files import replace_file
from ..system.processes import is_there

MAX_KEPT = 100
"""How many files are looked at when those of editors that are gone are removed."""
MAX_ID = 200
"""How many bytes of such a file are read."""


class KeptFocus:
    """The focus of the editor that started this process, in a directory. Nothing depends on it: what can't be
    written or read is not kept."""

    def __init__(self, place: str, cwd: str) -> None:
        self._place = place
        here = hashlib.sha256(os.fsencode(cwd)).hexdigest()[:16]
        self._path = f"{place}/{os.getppid()}-{here}"

    def read(self) -> str:
        """The id of the session, or nothing."""
        with contextlib.suppress(OSError, UnicodeDecodeError), open(self._path, "rb") as file:
            return file.read(MAX_ID).decode()
        return ""

    def write(self, session: str) -> None:
        with contextlib.suppress(OSError):
            if not os.path.isdir(self._place):
                os.makedirs(self._place, 0o700)
            elif not os.path.exists(self._path):
                self._tidy()
            replace_file(self._path, session.encode())

    def _tidy(self) -> None:
        for name in os.listdir(self._place)[:MAX_KEPT]:
            pid = name.partition("-")[0]
            if not pid.isdigit() or not is_there(int(pid)):
                os.unlink(f"{self._place}/{name}")
