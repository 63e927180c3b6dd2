"""Undoes what sessions did to files in their turns, from the snapshots before and after each turn.

What is undone can be done again: an undo is written down as a turn is. Files that somebody changed since, and
turns during which another session worked in the same directory, are only undone by force. Everything here
blocks: call it in a thread, one call after the other.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from ..formats.columns import printable
from ..formats.shown import counted
from ..system.files import replace_file
from ..system.opening import read_file
from ..system.repository import GitFault, NoRepository
from .changing import (
    ABSENT,
    ChangedMeanwhile,
    ChangePlan,
    FileChange,
    FileState,
    carry_out,
    finish,
    others_of,
    plans_in,
    quoted,
    read_plan,
    state_of,
)
from .snapshots import Snapshot, SnapshotStore
from .taking import TreeTooLarge

MAX_RECORDS = 50
"""How many turns of a session can be undone, the last ones."""
MAX_READ = 64 * 1024 * 1024
"""How many bytes the records of a session may have."""
MAX_NAMED = 10
"""How many files an error names."""


log = logging.getLogger("fairlead")


class UndoFault(Exception):
    """What was asked can't be undone. Says why, and what to do instead."""


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
    """How many files differ."""
    is_undone: bool = False
    undid: tuple[int, ...] = ()
    """The turns that an undo undid."""

    @property
    def has_changed(self) -> bool:
        return self.after is not None and self.changed > 0


class UndoneFile(Struct, frozen=True):
    """What becomes of a file."""

    path: str
    action: Literal["restore", "remove", "create"]
    is_changed_since: bool = False
    """Whether somebody changed it after the turn."""


class Undone(Struct, frozen=True):
    """What an undo does, or did."""

    turns: Sequence[int]
    top: str
    files: Sequence[UndoneFile]
    others: Sequence[str] = ()
    left: Sequence[str] = ()
    """Files that stay: git ignored them before the turn."""


class Undoer:
    """The turns of all sessions, in a directory of the state directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._stores = home / "trees"
        self._plans = home / "plans"
        self._records = home / "sessions"
        # by session whose turn runs: where, and who else works there
        self._running: dict[str, tuple[Path, set[str]]] = {}

    def _store(self, project: str) -> SnapshotStore:
        return SnapshotStore(Path(project), self._stores)

    # --- what happens in turns ----------------------------------------------------------------------------

    def began(self, session: str, number: int, project: str, deadline: float) -> None:
        """A turn begins: take the files as they are. Nothing is kept of it without a repository, or if it
        can't be done before the deadline, as the turn then goes on."""
        with _unless_impossible(), self._store(project) as store:
            self._note_running(session, store.top)
            records = self._closed(session, store)
            if records and records[-1].number == number and not records[-1].is_undone:
                return  # it goes on
            before = store.take()
            if time.monotonic() < deadline:
                record = TurnRecord(number=number, project=project, began=time.time(), before=before)
                self._write(session, [*records, record])

    def _note_running(self, session: str, top: Path) -> None:
        for other, (place, beside) in self._running.items():
            if place == top and other != session:
                beside.add(session)
        others = {other for other, (place, _) in self._running.items() if place == top and other != session}
        self._running[session] = top, others

    def ended(self, session: str, number: int) -> None:
        """A turn has ended, perhaps once more after a correction: take the files again."""
        _, others = self._running.pop(session, (Path(), set()))
        records = self._read(session)
        if not records or records[-1].number != number or records[-1].is_undone:
            return
        with _unless_impossible(), self._store(records[-1].project) as store:
            beside = {*records[-1].others, *others}
            record = self._with_end(records[-1], store, tuple(sorted(beside)))
            self._write(session, [*records[:-1], record])

    def forget(self, session: str) -> None:
        """What was known of an earlier session with this id does not apply to it."""
        self._running.pop(session, None)
        with contextlib.suppress(OSError):
            os.unlink(self._path(session))

    def _with_end(self, record: TurnRecord, store: SnapshotStore, others: tuple[str, ...] = ()) -> TurnRecord:
        after = store.take()
        store.keep(record.before, after)
        changed = store.changed(record.before, after)
        return msgspec.structs.replace(
            record,
            before=record.before.only(changed),
            after=after.only(changed),
            changed=len(changed),
            ended=time.time(),
            others=others,
        )

    def _closed(self, session: str, store: SnapshotStore) -> list[TurnRecord]:
        """The records, of which the last has an end: if nobody saw it, that is now."""
        records = self._read(session)
        if records and records[-1].after is None and store.has(records[-1].before):
            records[-1] = self._with_end(records[-1], store)
        return records

    # --- undoing ------------------------------------------------------------------------------------------

    def undo(
        self,
        session: str,
        *,
        turns: int = 1,
        redo: bool = False,
        is_dry: bool = False,
        force: bool = False,
        name_of: Callable[[str], str] = str,
    ) -> Undone:
        """Put files back as they were before the last turns that changed any, or before the last undo. A dry
        run only says what would be done. Raises UndoFault, which calls sessions as `name_of` says."""
        with self._faults():
            records = self._read(session)
            if not records:
                raise UndoFault(
                    "nothing is known of its turns: they began before this daemon, or not in a git repository"
                )
            with self._store(records[-1].project) as store:
                records = self._closed(session, store)
                chosen = _chosen(records, turns, redo=redo)
                if not all(
                    store.has(each.before) and each.after and store.has(each.after) for each in chosen
                ):
                    raise UndoFault("what was kept of that turn has been removed, to save space")
                working = [name_of(id) for id, (top, _) in self._running.items() if top == store.top]
                id = secrets.token_hex(8)
                work = self._plans / id
                work.mkdir(parents=True, mode=0o700)
                try:
                    undone = self._undo(
                        session, store, records, chosen, work, is_dry=is_dry, force=force, working=working
                    )
                    others = tuple(map(name_of, undone.others))
                    return msgspec.structs.replace(undone, others=others)
                finally:
                    shutil.rmtree(work, ignore_errors=True)

    def _undo(
        self,
        session: str,
        store: SnapshotStore,
        records: list[TurnRecord],
        chosen: list[TurnRecord],
        work: Path,
        *,
        is_dry: bool,
        force: bool,
        working: Sequence[str],
    ) -> Undone:
        changes, left, between = self._changes(store, chosen, work)
        plan = ChangePlan(id=work.name, top=str(store.top), changes=changes, is_forced=force)
        differing = sorted({*others_of(plan), *between})
        undone = _told(plan, chosen, differing, left)
        if is_dry:
            return undone
        if not force:
            _check(undone, differing, working)
        now = store.take()  # with what is overwritten
        marked = [
            msgspec.structs.replace(each, is_undone=bool(each.number)) if each in chosen else each
            for each in records
        ]
        done = TurnRecord(
            number=0,
            project=chosen[-1].project,
            began=time.time(),
            before=now,
            undid=tuple(each.number for each in chosen if each.number),
        )
        is_kept = bool(done.undid or differing)
        after_words = [*_unmarked(marked, chosen), *([done] if is_kept else [])]
        then = {"session": session, "records": msgspec.json.encode(after_words).decode()}
        carry_out(msgspec.structs.replace(plan, then=then), work)
        self._write(session, after_words)
        if is_kept:
            self._write(session, [*after_words[:-1], self._with_end(done, store)])
        return undone

    def _changes(
        self, store: SnapshotStore, chosen: list[TurnRecord], work: Path
    ) -> tuple[list[FileChange], list[str], list[str]]:
        """What is to be done with each file; the files that git ignored before; and those that changed
        between two of the turns."""
        first: dict[bytes, TurnRecord] = {}
        last: dict[bytes, TurnRecord] = {}
        for record in chosen:
            assert record.after is not None
            for path in store.changed(record.before, record.after):
                first.setdefault(path, record)
                last[path] = record
        old: dict[bytes, tuple[FileState, Path]] = {}
        new: dict[bytes, tuple[FileState, Path]] = {}
        between: set[bytes] = set()
        ignored: set[bytes] = set()
        for at, record in enumerate(chosen):
            assert record.after is not None
            paths = [path for path in first if first[path] is record]
            mine = store.changed(record.before, record.after)
            was = store.put_out(record.before, mine, work / f"before-{at}")
            came = store.put_out(record.after, mine, work / f"after-{at}")
            between |= {
                path for path in mine if path not in paths and _state(new.get(path)) != _state(was.get(path))
            }
            old |= {path: was[path] for path in paths if path in was}
            new = {path: it for path, it in new.items() if path not in mine} | came
            if any(os.path.basename(path) == b".gitignore" for path in mine):
                added = [path for path in paths if path not in was]
                ignored |= store.ignored(record.before, added, work / f"rules-{at}")
        changes = []
        for number, path in enumerate(sorted(first.keys() - ignored)):
            state, source = old.get(path, (ABSENT, None))
            content = ""
            if source is not None:
                content = str(number)
                if state.kind == "link":
                    (work / content).write_bytes(os.readlink(os.fsencode(source)))
                else:
                    os.rename(source, work / content)
            changes.append(FileChange(quoted(path), _state(new.get(path)), state, content))
        for each in [*work.glob("before-*"), *work.glob("after-*"), *work.glob("rules-*")]:
            shutil.rmtree(each, ignore_errors=True)
        names = (sorted(os.fsdecode(each) for each in group) for group in (ignored, between - ignored))
        left, differing = names
        return changes, left, differing

    # --- daemons that died --------------------------------------------------------------------------------

    def finish(self) -> list[str]:
        """Finish what the last daemon began to undo. Returns what there is to say of it."""
        said = []
        for home in plans_in(self._plans):
            if (plan := read_plan(home)) is not None:
                left = finish(plan, home)
                session = plan.then["session"]
                records = msgspec.json.decode(plan.then["records"], type=list[TurnRecord])
                self._write(session, records)
                if left:
                    said.append(f"an undo of {session} was finished, but not for {', '.join(left)}")
            shutil.rmtree(home, ignore_errors=True)
        return said

    # --- records ------------------------------------------------------------------------------------------

    def _read(self, session: str) -> list[TurnRecord]:
        try:
            return msgspec.json.decode(read_file(self._path(session), MAX_READ), type=list[TurnRecord])
        except (OSError, msgspec.MsgspecError):
            return []

    def _write(self, session: str, records: Sequence[TurnRecord]) -> None:
        self._records.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(str(self._path(session)), msgspec.json.encode(list(records)[-MAX_RECORDS:]))

    def _path(self, session: str) -> Path:
        return self._records / f"{quote(session, safe='')}.json"

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except ChangedMeanwhile as changed:
            raise UndoFault(f"{_named(changed.names)} changed just now; nothing was undone") from None
        except (NoRepository, GitFault, TreeTooLarge, OSError) as fault:
            raise UndoFault(str(fault)) from None


@contextlib.contextmanager
def _unless_impossible() -> Iterator[None]:
    """Without a repository, or with one that is too large, a turn goes on all the same."""
    try:
        yield
    except (NoRepository, GitFault, TreeTooLarge, OSError) as fault:
        log.debug("a turn can't be undone: %s", fault)


def _chosen(records: list[TurnRecord], turns: int, *, redo: bool) -> list[TurnRecord]:
    """The turns that are to be undone, or the undo; the oldest first. Raises UndoFault."""
    if redo:
        last = next((each for each in reversed(records) if not each.number and not each.is_undone), None)
        if last is None:
            raise UndoFault("nothing was undone that could be done again")
        return [last]
    changing = [each for each in records if each.number and each.has_changed and not each.is_undone]
    if not changing:
        count = counted(sum(1 for each in records if each.number), "turn")
        raise UndoFault(
            f"there is nothing to undo: no file was changed in the last {count}, or that is undone"
        )
    return changing[-turns:]


def _unmarked(records: list[TurnRecord], chosen: list[TurnRecord]) -> list[TurnRecord]:
    """After an undo is taken back, its turns can be undone again."""
    redone = {number for each in chosen if not each.number for number in each.undid}
    gone = [each for each in chosen if not each.number]
    return [
        msgspec.structs.replace(each, is_undone=False) if each.number in redone and each.number else each
        for each in records
        if each not in gone
    ]


def _check(undone: Undone, differing: list[str], working: Sequence[str]) -> None:
    """Raises UndoFault if only force undoes it."""
    how = "--force overwrites that, and --redo brings it back"
    if working:
        raise UndoFault(f"{', '.join(working)} works there now: stop it first, or wait")
    if differing:
        raise UndoFault(f"changed since: {_named(differing)}; {how}")
    if undone.others:
        who = ", ".join(undone.others)
        raise UndoFault(f"{who} worked in the same directory meanwhile, and would be undone, too; {how}")


def _told(plan: ChangePlan, chosen: list[TurnRecord], differing: list[str], left: list[str]) -> Undone:
    top = Path(plan.top)
    files = []
    for each in plan.changes:
        is_there = state_of(top, each.name).kind != "absent"
        action: Literal["restore", "remove", "create"] = "restore" if is_there else "create"
        if each.after.kind == "absent":
            action = "remove"
        files.append(UndoneFile(_text(each.name), action, each.name in differing))
    others = dict.fromkeys(name for each in chosen for name in each.others)
    turns = [number for each in chosen for number in ([each.number] if each.number else each.undid)]
    return Undone(turns, _text(plan.top), files, tuple(others), tuple(map(_text, left)))


def _state(found: tuple[FileState, Path] | None) -> FileState:
    return found[0] if found is not None else ABSENT


def _text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


def _named(names: Sequence[str]) -> str:
    more = f", {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(printable(_text(each)) for each in names[:MAX_NAMED]) + more
