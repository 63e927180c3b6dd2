"""What undoing turns means for each file: a plan, made from the snapshots before and after them, and what
speaks against carrying it out. Everything here blocks: call it in a thread."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from .changing import (
    ABSENT,
    ChangePlan,
    FileChange,
    FileState,
    digest_of,
    directory_mode,
    others_of,
    quoted,
    state_of,
    unquoted,
)
from .snapshots import Snapshot, SnapshotStore, all_above
from .turn_records import TurnRecord, named, shown


class UndoFault(Exception):
    """What was asked can't be undone. Says why, and what to do instead."""


class UndoneFile(Struct, frozen=True):
    """What becomes of a file, or of a directory, whose path then ends with a slash."""

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
    unrecorded: Sequence[str] = ()
    """What changed and stays, as it is too large or a repository of its own."""
    notes: Sequence[str] = ()
    """What else a person should know before agreeing."""
    refusal: str = ""
    """Why it is only done by force."""
    digest: str = ""
    """Of all that was shown, and of what the files have before and afterwards."""


def chosen_of(records: list[TurnRecord], turns: int, *, redo: bool) -> list[TurnRecord]:
    """The turns that are to be undone, or the undo; the oldest first. Raises UndoFault."""
    if redo:
        last = next((each for each in reversed(records) if not each.number and not each.is_undone), None)
        if last is None:
            raise UndoFault("there is no undo to take back")
        return [last]
    changing = [each for each in records if each.number and each.has_changed and not each.is_undone]
    if not changing:
        if gaps := [each.gap for each in records if each.gap]:
            raise UndoFault(f"there is nothing to undo: {gaps[-1]}")
        count = sum(1 for each in records if each.number)
        which = "the last turn" if count == 1 else f"the last {count} turns"
        if any(each.is_undone for each in records):
            raise UndoFault(f"there is nothing to undo: what was changed in {which} is undone")
        raise UndoFault(f"there is nothing to undo: no file was changed in {which}")
    return changing[-turns:]


class PlannedUndo:
    """What undoing some turns would do. Contents are put into a directory of the plan's own."""

    def __init__(
        self,
        store: SnapshotStore,
        records: list[TurnRecord],
        chosen: list[TurnRecord],
        work: Path,
        name_of: Callable[[str], str],
        changed_beside: Callable[[str, TurnRecord], set[bytes] | None],
    ) -> None:
        """`changed_beside` returns what changed while another session worked beside a turn, if that is known.
        Raises GitFault or OSError."""
        self.store, self.records, self.chosen, self.work = store, records, chosen, work
        self._first: dict[bytes, TurnRecord] = {}
        """For each path the turn that changed it first."""
        changes, left, between = self._changes()
        made, kept, gone = self._directories(changes)
        self.plan = ChangePlan(
            id=work.name, top=str(store.top), changes=changes, made=made, kept=kept, gone=gone
        )
        late = {unquoted(path) for each in chosen for path in each.late}
        known = {each.name for each in changes}
        self.differing = sorted({*others_of(self.plan), *between, *(late & known)})
        self.doubts = self._doubts()
        self._shared: set[bytes] = set()
        """Files that other sessions may have changed meanwhile."""
        beside = dict.fromkeys(other for each in chosen for other in self._others(each, changed_beside))
        self.others = [name_of(other) for other in beside]
        self.told = self._told(left)

    # --- files ----------------------------------------------------------------------------------------------

    def _changes(self) -> tuple[list[FileChange], list[str], list[str]]:
        """What is to be done with each file; the files that git ignored before; and those that changed
        between two of the turns."""
        first = self._first
        for record in self.chosen:
            for path in self._changed(record):
                first.setdefault(path, record)
        old: dict[bytes, tuple[FileState, Path]] = {}
        new: dict[bytes, tuple[FileState, Path]] = {}
        between: set[bytes] = set()
        ignored: set[bytes] = set()
        for at, record in enumerate(self.chosen):
            assert record.after is not None
            paths = [path for path in first if first[path] is record]
            mine = self._changed(record)
            was = self.store.put_out(record.before, mine, self.work / f"before-{at}")
            came = self.store.put_out(record.after, mine, self.work / f"after-{at}")
            between |= {
                path for path in mine if path not in paths and _state(new.get(path)) != _state(was.get(path))
            }
            old |= {path: was[path] for path in paths if path in was}
            new = {path: it for path, it in new.items() if path not in mine} | came
            has_rules = any(os.path.basename(path) == b".gitignore" for path in mine)
            if record.number and (has_rules or record.before.rules != record.after.rules):
                added = [path for path in paths if path not in was]
                ignored |= self.store.ignored(record.before, added, self.work / f"rules-{at}")
        changes = []
        for number, path in enumerate(sorted(first.keys() - ignored)):
            state, source = old.get(path, (ABSENT, None))
            content = ""
            if source is not None:
                content = str(number)
                if state.kind == "link":
                    (self.work / content).write_bytes(os.readlink(os.fsencode(source)))
                else:
                    os.rename(source, self.work / content)
            changes.append(FileChange(quoted(path), _state(new.get(path)), state, content))
        for kind in ("before-*", "after-*", "rules-*"):
            for each in self.work.glob(kind):
                shutil.rmtree(each, ignore_errors=True)
        left, differing = (sorted(map(os.fsdecode, group)) for group in (ignored, between - ignored))
        return changes, left, differing

    def _changed(self, record: TurnRecord) -> list[bytes]:
        assert record.after is not None
        return self.store.changed(record.before, record.after)

    def _directories(self, changes: list[FileChange]) -> tuple[dict[str, int], list[str], list[str]]:
        """The directories that are to be there, with their permissions; those that stay when they become
        empty; and those that go if they are empty."""
        before, after = self._ends()
        top = self.store.top
        coming = {os.fsencode(each.name): each for each in changes if each.after.kind != "absent"}
        made: dict[bytes, int] = {}
        for path in coming:
            for above in all_above([path]):
                if directory_mode(top, os.fsdecode(above)) is None:
                    made[above] = self._first[path].before.directory_mode(above)
        was_empty, is_empty = set(map(_bytes, before.empty)), set(map(_bytes, after.empty))
        for path in was_empty - is_empty:
            if directory_mode(top, os.fsdecode(path)) is None:
                for above in (path, *all_above([path])):
                    if directory_mode(top, os.fsdecode(above)) is None:
                        made.setdefault(above, before.directory_mode(above))
        for record in self.chosen:
            for name, (old, _) in record.chmods.items():
                path = os.fsencode(unquoted(name))
                newest = [each.chmods[name][1] for each in self.chosen if name in each.chmods][-1]
                if directory_mode(top, unquoted(name)) == newest:
                    made.setdefault(path, old)
        needed = {*all_above(coming), *was_empty, *all_above(was_empty)}
        gone = [
            path
            for path in is_empty - needed
            if path not in made and directory_mode(top, os.fsdecode(path)) is not None
        ]
        return (
            {quoted(path): mode for path, mode in sorted(made.items())},
            sorted(quoted(path) for path in was_empty),
            sorted(map(quoted, gone)),
        )

    def _ends(self) -> tuple[Snapshot, Snapshot]:
        after = self.chosen[-1].after
        assert after is not None
        return self.chosen[0].before, after

    # --- what speaks against it -----------------------------------------------------------------------------

    def _doubts(self) -> list[str]:
        """What a person has to know who undoes it all the same."""
        at = self.records.index(self.chosen[0])
        found = [each.gap for each in self.records[at:] if each.gap and not each.is_undone]
        for each in self.chosen:
            if not each.is_end_known:
                which = f"turn {each.number}" if each.number else "that undo"
                found.append(f"nobody saw the end of {which}: what was changed since counts as a part of it")
        return found

    def _others(
        self, record: TurnRecord, changed_beside: Callable[[str, TurnRecord], set[bytes] | None]
    ) -> list[str]:
        """The sessions that worked beside a turn and may have changed what it did. A file that is the same
        before and after the other's turn was not changed by that."""
        mine = set(self._changed(record))
        has_directories = record.after is None or record.chmods or record.before.empty != record.after.empty
        found = []
        for other in record.others:
            theirs = changed_beside(other, record)
            shared = mine if theirs is None else mine & theirs
            if shared or has_directories:
                self._shared |= shared
                found.append(other)
        return found

    def check_forced(self) -> None:
        """Raises UndoFault if it can't be done even by force."""
        if found := others_of(self.plan_by_force):
            why = f"in the place of {named(found)} there is something else now"
            raise UndoFault(f"{why}; move it away first. Nothing was undone")

    def refusal(self, working: Sequence[str]) -> str:
        """Why it is only done by force; empty if nothing speaks against it."""
        how = "--force overwrites that, and --redo brings it back"
        if working:
            one = len(working) == 1
            does, it = ("works", "it") if one else ("work", "them")
            return f"{', '.join(working)} {does} there now: stop {it} first, or wait"
        if self.differing:
            return f"changed since: {named(self.differing)}; {how}"
        if self.doubts:
            return f"{'; '.join(self.doubts)}; --force undoes what is known, and --redo brings it back"
        if self.others:
            who = ", ".join(self.others)
            what = named([os.fsdecode(path) for path in sorted(self._shared)]) or "the same directories"
            return f"{who} worked there meanwhile and may have changed {what}, too; {how}"
        return ""

    @cached_property
    def plan_by_force(self) -> ChangePlan:
        """The plan for files as they are when this is first asked for, whoever changed them."""
        top = self.store.top
        changes = []
        for each in self.plan.changes:
            now = state_of(top, each.name)
            changes.append(each if now.kind == "other" else msgspec.structs.replace(each, before=now))
        return msgspec.structs.replace(self.plan, changes=changes)

    def shown(self, working: Sequence[str]) -> Undone:
        """What it does, with what speaks against it and the digest of both. Files are in that as they are
        now: whoever agrees to overwrite a change agrees to that one."""
        told = msgspec.structs.replace(self.told, refusal=self.refusal(working))
        plan = self.plan_by_force
        digest = digest_of(plan.changes, plan.made, plan.kept, plan.gone, told)
        return msgspec.structs.replace(told, digest=digest)

    # --- what is said of it ---------------------------------------------------------------------------------

    def _told(self, left: Sequence[str]) -> Undone:
        top = self.store.top
        files = []
        for each in self.plan.changes:
            is_there = os.path.lexists(top / each.name)
            action: Literal["restore", "remove", "create"] = "restore" if is_there else "create"
            if each.after.kind == "absent":
                action = "remove"
            files.append(UndoneFile(shown(each.name), action, each.name in self.differing))
        above = {quoted(path) for path in all_above(list(self._first))}
        for path in self.plan.made.keys() - above:
            is_there = directory_mode(top, unquoted(path)) is not None
            files.append(UndoneFile(f"{shown(unquoted(path))}/", "restore" if is_there else "create"))
        files += [UndoneFile(f"{shown(unquoted(path))}/", "remove") for path in self.plan.gone]
        turns = [n for each in self.chosen for n in ([each.number] if each.number else each.undid)]
        note = self.records[-1].note
        return Undone(
            turns,
            shown(str(top)),
            files,
            tuple(self.others),
            tuple(map(shown, left)),
            tuple(dict.fromkeys(shown(name) for each in self.chosen for name in each.unrecorded)),
            tuple([note, *self.doubts] if note else self.doubts),
        )


def _state(found: tuple[FileState, Path] | None) -> FileState:
    return found[0] if found is not None else ABSENT


def _bytes(name: str) -> bytes:
    return name.encode("latin-1")
