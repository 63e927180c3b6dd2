"""What is written down of the turns of sessions, and of undos: a small file for each session.

Of a turn whose files could not be noted there is a record, too, which says why. Everything here blocks: call
it in a thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from ..formats.columns import printable
from ..system.files import replace_file
from ..system.opening import read_file
from .snapshots import Snapshot

MAX_RECORDS = 50
"""How many turns of a session can be undone, the last ones."""
MAX_READ = 64 * 1024 * 1024
"""How many bytes the records of a session may have."""
MAX_NAMED = 10
"""How many files an error names."""


class TurnRecord(Struct, frozen=True, kw_only=True):
    """What is known of a turn, or of an undo."""

    number: int
    """Of the turn; 0 for an undo."""
    project: str
    began: float
    before: Snapshot
    after: Snapshot | None = None
    """None while the turn runs, and if nobody saw its end."""
    ended: float = 0.0
    others: tuple[str, ...] = ()
    """Sessions that worked in the same directory meanwhile."""
    changed: int = 0
    """How many files and directories differ."""
    is_undone: bool = False
    undid: tuple[int, ...] = ()
    """The turns that an undo undid."""
    fault: str = ""
    """Why the files were not noted, if they were not."""
    unrecorded: tuple[str, ...] = ()
    """What changed that snapshots don't have."""
    chmods: dict[str, tuple[int, int]] = {}
    """Permissions before and after of directories that got other ones, by quoted path."""
    late: tuple[str, ...] = ()
    """Files that were changed between the end and the moment when they were noted, quoted."""
    is_end_known: bool = True
    """False if what was changed after the end can't be told apart."""
    note: str = ""
    """What whoever undoes something in the session next should know."""

    @property
    def has_changed(self) -> bool:
        return self.after is not None and not self.fault and self.changed > 0

    @property
    def gap(self) -> str:
        """Why an undo does not cover all that the turn may have changed; empty if it does."""
        if self.fault:
            return f"turn {self.number} was not recorded: {self.fault}"
        if self.unrecorded and not self.has_changed:
            names = named(self.unrecorded)
            return f"of turn {self.number}, what changed in {names} was not recorded: {WHY_NOT}"
        return ""


WHY_NOT = "too large, or a repository of its own"


class TurnRecords:
    """The records of all sessions, in files of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, session: str) -> list[TurnRecord]:
        try:
            return msgspec.json.decode(read_file(self._path(session), MAX_READ), type=list[TurnRecord])
        except (OSError, msgspec.MsgspecError):
            return []

    def write(self, session: str, records: Sequence[TurnRecord]) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(str(self._path(session)), msgspec.json.encode(list(records)[-MAX_RECORDS:]))

    def forget(self, session: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path(session))

    def _path(self, session: str) -> Path:
        return self._directory / f"{quote(session, safe='')}.json"


def named(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f", {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(printable(shown(each)) for each in names[:MAX_NAMED]) + more


def shown(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
