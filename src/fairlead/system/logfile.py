"""The daemon's log: one file that never gets much longer than its limit, with some older ones beside it.

The nursery, keepers and whatever prints to standard error have the same file open, to append. So a log that
is too long is copied and emptied in place instead of renamed: everybody goes on with the new one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"
LOOKS = 16
"""How often the size is looked at while as much is logged as the log may have."""

REPEATS = 20
"""How often the same warning is written"""
REPEAT_SECONDS = 60.0
"""in so many seconds;"""
MAX_REPEATED = 200
"""and of how many different ones that is counted."""


class LogFile:
    """A log that is rotated when it is too long: FILE, FILE.1 (the last one), FILE.2 and so on."""

    def __init__(self, path: str, limit: int, count: int) -> None:
        self._path = path
        self._limit = limit
        self._count = count
        self._file = open(path, "a", encoding="utf-8", opener=_private)  # noqa: SIM115 - open for good
        self._unlooked = 0

    @property
    def file(self) -> TextIO:
        """The file, open to append."""
        return self._file

    def log_here(self) -> None:
        """Let logging write to standard error, and to this file unless that is the same."""
        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
        root = logging.getLogger()
        if not os.path.sameopenfile(self._file.fileno(), sys.stderr.fileno()):
            handler = logging.StreamHandler(self._file)
            handler.setFormatter(logging.Formatter(LOG_FORMAT))
            root.addHandler(handler)
        for each in root.handlers:
            each.addFilter(self._counted)
            each.addFilter(_Repeats().let)

    def _counted(self, record: logging.LogRecord) -> bool:
        """Called before each line: a flood of lines is noticed before the next look."""
        self._unlooked += len(record.msg) if isinstance(record.msg, str) else 0
        self._unlooked += len(LOG_FORMAT)
        if self._unlooked * LOOKS > self._limit:
            self.rotate_if_due()
        return True

    def rotate_if_due(self) -> bool:
        """Rotate if the log is too long; call now and then, as others write to it too."""
        self._unlooked = 0
        try:
            if not self._limit or os.fstat(self._file.fileno()).st_size <= self._limit:
                return False
            self._rotate()
        except OSError:  # the log is no reason to end
            return False
        return True

    def _rotate(self) -> None:
        for number in range(self._count - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        if self._count:
            with (
                contextlib.suppress(OSError),  # a full disk: what is old is lost, and the log goes on
                open(self._path, "rb") as old,
                open(f"{self._path}.1", "wb", opener=_private) as kept,
            ):
                shutil.copyfileobj(old, kept)
        os.ftruncate(self._file.fileno(), 0)


class _Repeats:
    """Lets a warning or error through a few times in a while, then once more with how many were left out:
    others may be able to make it happen."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}  # since when, and how often

    def let(self, record: logging.LogRecord) -> bool:
        """True if a line is to be written."""
        if record.levelno < logging.WARNING:
            return True
        key = (record.name, record.levelno, record.getMessage())
        now = self._clock()
        since, count = self._seen.get(key, (now, 0))
        if now - since >= REPEAT_SECONDS:
            if count > REPEATS:
                record.msg, record.args = f"{key[2]} (and {count - REPEATS} more like it before)", None
            since, count = now, 0
        elif key not in self._seen and len(self._seen) >= MAX_REPEATED:
            self._seen.clear()
        self._seen[key] = (since, count + 1)
        return count < REPEATS


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
