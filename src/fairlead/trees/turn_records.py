"""What is written down of the turns of sessions, and of undos: a small file for each session.

Of a turn whose files could not be noted there is a record, too, which says why. Everything here blocks: call
it in a thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

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
MAX_FORMER = 2000
"""In the records of how many sessions a name is looked for, the last ones,"""
MAX_FORMER_READ = 256 * 1024 * 1024
"""and how many bytes these may have."""
LEAST_PREFIX = 8
"""How many characters of an id are enough, if no other has the same."""


class TurnRecord(Struct, frozen=True, kw_only=True):
    """What is known of a turn, or of an undo."""

    number: int
    """Of the turn; 0 for an undo."""
    project: str
    called: str = ""
    """The name of the session, if it is not its id."""
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


class FormerSession(NamedTuple):
    """A session of which no more than its turns need be known."""

    id: str
    name: str
    project: str


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

    def former(self, word: str) -> list[FormerSession]:
        """The session of this id, or else all of this name, or else those whose id begins so; the last used
        first."""
        if records := self.read(word):
            return [_former(word, records[-1])]
        found: list[tuple[float, Path]] = []
        with contextlib.suppress(OSError):
            for each in self._directory.glob("*.json"):
                with contextlib.suppress(OSError):
                    found.append((each.stat().st_mtime, each))
        named: list[FormerSession] = []
        begun: list[FormerSession] = []
        left = MAX_FORMER_READ
        for _, path in sorted(found, reverse=True)[:MAX_FORMER]:
            with contextlib.suppress(OSError):
                left -= path.stat().st_size
            id = unquote(path.stem)
            if left < 0 or not (records := self.read(id)):
                continue
            if records[-1].called == word:
                named.append(_former(id, records[-1]))
            elif len(word) >= LEAST_PREFIX and id.startswith(word):
                begun.append(_former(id, records[-1]))
        return named or begun

    def forget(self, session: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path(session))

    def _path(self, session: str) -> Path:
        return self._directory / f"{quote(session, safe='')}.json"


def _former(id: str, record: TurnRecord) -> FormerSession:
    return FormerSession(id, record.called or id, record.project)


def named(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f", {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(printable(shown(each)) for each in names[:MAX_NAMED]) + more


def shown(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
