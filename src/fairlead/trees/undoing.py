"""Undoes what sessions did to files in their turns, from the snapshots before and after each turn.

What is undone can be done again: an undo is written down as a turn is. Files that somebody changed since,
turns during which another session worked in the same directory, and turns that were not seen as a whole are
only undone by force. Everything here blocks: call it in a thread, one call after the other.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ..system.repository import GitFault, NoRepository
from .changing import (
    LOOK_AGAIN,
    CarriedOut,
    ChangedMeanwhile,
    ChangePlan,
    HalfDone,
    carry_out,
    drop_plan,
    plans_in,
    quoted,
    read_plan,
    resume,
)
from .planning import PlannedUndo, UndoFault, Undone, chosen_of
from .snapshots import CannotKeep, Snapshot, SnapshotStore
from .taking import TreeTooLarge
from .turn_records import FormerSession, TurnRecord, TurnRecords, named, shown

log = logging.getLogger("fairlead")

_FAULTS = (NoRepository, GitFault, TreeTooLarge, HalfDone, OSError)
REMOVED = "what was kept of its files has been removed, to save space"


class Undoer:
    """The turns of all sessions, in a directory of the state directory."""

    def __init__(self, home: Path) -> None:
        self._stores = home / "trees"
        self._plans = home / "plans"
        self._records = TurnRecords(home / "sessions")
        # by session whose turn runs: where, and who else works there
        self._running: dict[str, tuple[Path, set[str]]] = {}
        # undos that can be neither finished nor taken back now, by directory, with the reason
        self._half_done: dict[str, str] = {}

    def _store(self, project: str) -> SnapshotStore:
        return SnapshotStore(Path(project), self._stores)

    # --- what happens in turns ----------------------------------------------------------------------------

    def began(self, session: str, number: int, project: str, deadline: float, called: str = "") -> None:
        """A turn of a session of this name begins: take the files as they are. If that can't be done before
        the deadline, as the turn then goes on, or at all, that is noted instead."""
        began = time.time()
        try:
            self.finish()
            with self._store(project) as store:
                self._check_whole(store.top)
                self._note_running(session, store.top)
                records = self._closed(session, store)
                if records and records[-1].number == number and not records[-1].is_undone:
                    return  # it goes on
                before = store.take()
            if time.monotonic() < deadline:
                record = TurnRecord(number=number, project=project, called=called, began=began, before=before)
                self._records.write(session, [*records, record])
                return
            why = f"its files were noted only after {time.time() - began:.0f} s, when it had begun"
        except _FAULTS as fault:
            why = str(fault)
        self.missed(session, number, project, why, called)

    def missed(self, session: str, number: int, project: str, why: str, called: str = "") -> None:
        """The files of a turn were not noted at its beginning."""
        log.debug("turn %s of %s can't be undone: %s", number, session, why)
        records = self._records.read(session)
        if records and records[-1].number == number and not records[-1].is_undone:
            return
        nothing = Snapshot("")
        now = time.time()
        record = TurnRecord(
            number=number, project=project, called=called, began=now, before=nothing, fault=why
        )
        self._records.write(session, [*records, record])

    def _note_running(self, session: str, top: Path) -> None:
        for other, (place, beside) in self._running.items():
            if place == top and other != session:
                beside.add(session)
        others = {other for other, (place, _) in self._running.items() if place == top and other != session}
        self._running[session] = top, others

    def ended(self, session: str, number: int, project: str = "", at: float | None = None) -> None:
        """A turn has ended, perhaps once more after a correction: take the files again. `at` is when."""
        at = time.time() if at is None else at
        running = self._running.pop(session, None)
        records = self._records.read(session)
        if not records or records[-1].number != number or records[-1].is_undone:
            if project and number not in {each.number for each in records}:
                self.missed(session, number, project, "nobody saw its beginning")
            return
        if (record := records[-1]).fault:
            return
        others = running[1] if running is not None else set[str]()
        try:
            with self._store(record.project) as store:
                if not store.has(record.before):
                    raise GitFault(REMOVED)
                beside = tuple(sorted({*record.others, *others}))
                closed = _with_end(record, store, at=at, is_end_known=running is not None, others=beside)
        except _FAULTS as fault:
            closed = msgspec.structs.replace(record, after=None, fault=str(fault))
        self._records.write(session, [*records[:-1], closed])

    def gone(self, session: str, at: float | None = None) -> None:
        """A session does nothing more. If a turn of it ran, it has ended with it."""
        records = self._records.read(session)
        if records and records[-1].number and records[-1].after is None:
            self.ended(session, records[-1].number, at=at)
        self._running.pop(session, None)

    def forget(self, session: str) -> None:
        """What was known of an earlier session with this id does not apply to it."""
        self._running.pop(session, None)
        self._records.forget(session)

    def _closed(self, session: str, store: SnapshotStore) -> list[TurnRecord]:
        """The records, of which the last has an end: if nobody saw it, that is now."""
        records = self._records.read(session)
        if records and records[-1].after is None and not records[-1].fault:
            if store.has(records[-1].before):
                records[-1] = _with_end(records[-1], store, is_end_known=False)
            else:
                records[-1] = msgspec.structs.replace(records[-1], fault=REMOVED)
        return records

    def former(self, word: str) -> list[FormerSession]:
        """The sessions that a word means, whether they are still there or not, by what is known of turns."""
        return self._records.former(word)

    # --- undoing ------------------------------------------------------------------------------------------

    def undo(
        self,
        session: str,
        *,
        turns: int = 1,
        redo: bool = False,
        is_dry: bool = False,
        force: bool = False,
        digest: str = "",
        name_of: Callable[[str], str] = str,
        working: Mapping[str, str] | None = None,
    ) -> Undone:
        """Put files back as they were before the last turns that changed any, or before the last undo. A dry
        run only says what would be done, and its digest that nothing else is. Raises UndoFault, which calls
        sessions as `name_of` says. `working` has the projects of sessions that work now, by name."""
        with _faults():
            self.finish()
            records = self._records.read(session)
            if not records:
                raise UndoFault(
                    "nothing is known of its turns: none has begun since it was created or undo is on"
                )
            try:
                store = self._store(records[-1].project)
            except (NoRepository, GitFault, TreeTooLarge) as fault:
                chosen_of(records, turns, redo=redo)  # says why the turns were not recorded
                raise UndoFault(str(fault)) from None
            with store:
                self._check_whole(store.top)
                at_work = {name_of(id) for id, (top, _) in self._running.items() if top == store.top}
                at_work |= {
                    name for name, at in (working or {}).items() if Path(at).is_relative_to(store.top)
                }
                records = self._closed(session, store)
                chosen = chosen_of(records, turns, redo=redo)
                for each in chosen:
                    if not (store.has(each.before) and each.after and store.has(each.after)):
                        raise UndoFault(f"turn {each.number} can't be undone: {REMOVED}")
                work = self._plans / secrets.token_hex(8)
                work.mkdir(parents=True, mode=0o700)
                try:
                    undo = PlannedUndo(store, records, chosen, work, name_of, self._beside(store))
                    shown = undo.shown(sorted(at_work))
                    if is_dry:
                        return shown
                    if digest and digest != shown.digest:
                        raise UndoFault(LOOK_AGAIN)
                    if force:
                        undo.check_forced()
                    elif shown.refusal:
                        raise UndoFault(shown.refusal)
                    self._carry_out(session, undo, force=force)
                    return undo.told
                except HalfDone:
                    raise  # the plan stays, for when it can be finished
                except BaseException:
                    drop_plan(work)
                    raise
                finally:
                    if is_dry:
                        drop_plan(work)

    def _beside(self, store: SnapshotStore) -> Callable[[str, TurnRecord], set[bytes] | None]:
        """What changed in those turns of another session that ran beside a turn; None if that is not known of
        all of them."""

        def changed(other: str, beside: TurnRecord) -> set[bytes] | None:
            turns = [
                each
                for each in self._records.read(other)
                if each.number
                and each.began <= beside.ended
                and (not each.ended or each.ended >= beside.began)
            ]
            found: set[bytes] = set()
            for each in turns:
                if each.fault or each.after is None or not (store.has(each.before) and store.has(each.after)):
                    return None
                found.update(store.changed(each.before, each.after))
            return found if turns else None

        return changed

    def _carry_out(self, session: str, undo: PlannedUndo, *, force: bool) -> None:
        plan = undo.plan_by_force if force else undo.plan
        paths = _paths(plan)
        try:
            now = undo.store.take(paths)  # with what is overwritten
        except CannotKeep as fault:
            why = f"{named(fault.names)} can't be kept for --redo: too large, or not to be read"
            raise UndoFault(f"{why}; move it away first. Nothing was undone") from None
        chosen = undo.chosen
        marked = [
            msgspec.structs.replace(each, is_undone=bool(each.number)) if each in chosen else each
            for each in undo.records
        ]
        done = TurnRecord(
            number=0,
            project=chosen[-1].project,
            called=chosen[-1].called,
            began=time.time(),
            before=now,
            undid=tuple(each.number for each in chosen if each.number),
        )
        is_kept = bool(done.undid or undo.differing or undo.doubts)
        records = [*_unmarked(marked, chosen), *([done] if is_kept else [])]
        then = {"session": session, "records": msgspec.json.encode(records).decode()}
        carry_out(msgspec.structs.replace(plan, then=then), undo.work)
        self._write_done(session, records, undo.store, plan)
        drop_plan(undo.work)

    def _write_done(
        self,
        session: str,
        records: list[TurnRecord],
        store: SnapshotStore,
        plan: ChangePlan,
        left: Sequence[str] = (),
    ) -> None:
        """Write down that a plan was carried out, but for what was left, and how the files are then."""
        self._records.write(session, records)
        if not records or records[-1].number or records[-1].after is not None:
            return
        with contextlib.suppress(*_FAULTS, CannotKeep):
            closed = _with_end(records[-1], store, also=_paths(plan))
            late = tuple(quoted(os.fsencode(name)) for name in left)
            self._records.write(session, [*records[:-1], msgspec.structs.replace(closed, late=late)])

    # --- daemons that died --------------------------------------------------------------------------------

    def finish(self) -> list[str]:
        """Finish what a daemon that died began to undo, or take it back. Returns what there is to say of it,
        which the next undo in that session says, too."""
        said = []
        self._half_done.clear()
        for home in plans_in(self._plans):
            if (plan := read_plan(home)) is not None:
                try:
                    if not os.path.isdir(plan.top):
                        raise HalfDone("the directory is gone")
                    said.append(self._finished(plan, resume(plan, home)))
                except HalfDone as fault:
                    self._half_done[plan.top] = str(fault)
                    said.append(f"an undo in {plan.top} is half done, and can't be finished now: {fault}")
                    continue
            drop_plan(home)
        return said

    def _finished(self, plan: ChangePlan, came: CarriedOut) -> str:
        session = plan.then["session"]
        done = msgspec.json.decode(plan.then["records"], type=list[TurnRecord])
        how = "taken back" if came.is_back else "finished"
        said = f"the daemon was killed during an undo, which was {how} by the next one"
        if came.left:
            said += f", but not for {named(came.left)}: changed meanwhile"
        records = self._records.read(session)
        if not came.is_back:
            began = done[-1].began if done else 0.0
            records = [*done, *(each for each in records if each.began > began)]
        if records:
            records[-1] = msgspec.structs.replace(records[-1], note=said)
        try:
            with self._store(plan.top) as store:
                self._write_done(session, records, store, plan, came.left)
        except _FAULTS:
            self._records.write(session, records)
        return f"{session}: {said}"

    def _check_whole(self, top: Path) -> None:
        """Raises HalfDone if an undo in a directory was not finished."""
        if why := self._half_done.get(str(top)):
            raise HalfDone(why)


def _with_end(
    record: TurnRecord,
    store: SnapshotStore,
    *,
    at: float | None = None,
    is_end_known: bool = True,
    others: tuple[str, ...] = (),
    also: Collection[bytes] = (),
) -> TurnRecord:
    """A record with the files as they are now. Raises GitFault, TreeTooLarge or CannotKeep."""
    after = store.take(also)
    before = record.before
    store.keep(before, after)
    changed, around = store.changed(before, after), store.directories(before, after)
    late = set() if at is None else {quoted(path) for path in store.late(changed, at)}
    return msgspec.structs.replace(
        record,
        before=before.only(changed, around.needed(changed)),
        after=after.only(changed, around.needed(changed)),
        changed=len(changed) + len(around.empty) + len(around.modes),
        chmods={quoted(path): pair for path, pair in around.modes.items()},
        ended=time.time() if at is None else at,
        others=others,
        unrecorded=tuple(shown(os.fsdecode(path)) for path in store.unrecorded(before, after)),
        late=tuple(sorted(late | set(record.late))),
        is_end_known=is_end_known and record.is_end_known,
    )


def _paths(plan: ChangePlan) -> list[bytes]:
    return [os.fsencode(each.name) for each in plan.changes]


def _unmarked(records: list[TurnRecord], chosen: list[TurnRecord]) -> list[TurnRecord]:
    """After an undo is taken back, its turns can be undone again."""
    redone = {number for each in chosen if not each.number for number in each.undid}
    gone = [each for each in chosen if not each.number]
    return [
        msgspec.structs.replace(each, is_undone=False) if each.number in redone and each.number else each
        for each in records
        if each not in gone
    ]


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except ChangedMeanwhile as changed:
        raise UndoFault(f"{named(changed.names)} changed just now; nothing was undone") from None
    except HalfDone as fault:
        raise UndoFault(
            f"an undo is half done, and can be neither finished nor taken back now: {fault}; fix that, and "
            "undo again"
        ) from None
    except (NoRepository, GitFault, TreeTooLarge, OSError) as fault:
        raise UndoFault(str(fault)) from None
