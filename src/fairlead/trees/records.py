"""Which worktrees were made for which sessions: a small file for each, written before anything is done.

The records are read once, when the daemon starts, and then kept in memory. A record goes when its worktree
has been removed; it outlives its session.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ..system.files import replace_file
from ..system.opening import read_file
from ..system.settings import safe_dir

log = logging.getLogger("fairlead")

MAX_RECORDS = 1000
"""How many worktrees there may be."""
MAX_READ = 64 * 1024
"""How many bytes a record may have."""

WorktreeState = Literal["making", "ready", "removing", "deleting"]
"""What is begun is written down first. A worktree that was being made is finished by the next daemon; so is
one that was being removed, if nothing in it has changed since. What is being deleted is deleted."""


class WorktreeRecord(Struct, frozen=True, kw_only=True):
    """A worktree that was made for a session."""

    name: str
    """The session's name."""
    path: str
    repository: str
    """The git directory that it shares with others."""
    admin: str
    """The directory in there that is this worktree's own."""
    origin: str
    """The top of the working tree that it was made from."""
    branch: str
    base: str
    """The commit at which it began."""
    into: str = ""
    """The branch that was checked out in `origin` then; empty if none was."""
    below: str = ""
    """Where in the worktree the session works, if it was started in a directory below the top."""
    made_at: float = 0.0
    state: WorktreeState = "ready"
    aside: str = ""
    """Where it is moved to be removed,"""
    tree: str = ""
    """and the files that it had when that was decided."""
    kept: str = ""
    """The ref under which its work is kept then."""

    @property
    def project(self) -> str:
        """The directory that the session works in."""
        return os.path.join(self.path, self.below) if self.below else self.path


class WorktreeRecords:
    """All records, in files of a directory."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._all: dict[str, WorktreeRecord] = {}

    def __len__(self) -> int:
        return len(self._all)

    def load(self) -> None:
        """Read the records. One that can't be read is logged and left alone."""
        try:
            names = sorted(os.listdir(self._directory))[:MAX_RECORDS]
        except OSError:
            return
        for name in names:
            if not name.endswith(".json"):
                continue
            try:
                data = read_file(f"{self._directory}/{name}", MAX_READ)
                record = msgspec.json.decode(data, type=WorktreeRecord)
            except (OSError, msgspec.MsgspecError) as error:
                log.warning(
                    "the record of a worktree, %s/%s, can't be read: %s", self._directory, name, error
                )
                continue
            self._all[record.path] = record

    def all(self) -> list[WorktreeRecord]:
        return sorted(self._all.values(), key=lambda each: each.made_at)

    def named(self, name: str) -> WorktreeRecord | None:
        """The worktree of the session of this name."""
        return next((each for each in self._all.values() if each.name == name), None)

    def holding(self, directory: str) -> WorktreeRecord | None:
        """The worktree that a directory is in."""
        place = Path(directory)
        return next(
            (self._all[path] for each in (place, *place.parents) if (path := str(each)) in self._all), None
        )

    def put(self, record: WorktreeRecord) -> None:
        """Write a record down. Raises OSError."""
        safe_dir(self._directory)
        replace_file(self._path(record), msgspec.json.encode(record))
        self._all[record.path] = record

    def drop(self, record: WorktreeRecord) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(record))
        self._all.pop(record.path, None)

    def _path(self, record: WorktreeRecord) -> str:
        return f"{self._directory}/{hashlib.sha256(record.path.encode()).hexdigest()[:16]}.json"
