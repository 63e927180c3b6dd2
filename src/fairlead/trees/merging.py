"""Merges what a session did in its worktree into another branch.

The merge is made in git's object store, where it disturbs nobody; if there are conflicts, that was all. Where
the branch is checked out, the index is locked, then the files are changed by a plan (`changing`), and branch
and index follow. No hook, filter or merge driver runs. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self, TypeVar

import msgspec
from msgspec import Struct

from ..formats.columns import printable
from ..system.opening import read_file
from ..system.repository import GitFault, LiveRepository, Shadow, identity_of, repository_of
from ..system.worktrees import worktrees
from .changing import (
    ABSENT,
    LOOK_AGAIN,
    ChangedMeanwhile,
    ChangePlan,
    FileChange,
    FileState,
    HalfDone,
    carry_out,
    digest_of,
    drop_plan,
    is_proper,
    mode_for,
    others_of,
    plans_in,
    quoted,
    read_plan,
    resume,
    state_of,
    take_back,
)
from .diff import MAX_FILES, ChangedFile, CommitLine, changed_files, commits_between
from .making import NOBODY, WorktreeFault, anchor, check_own, commit, worktree_faults
from .records import WorktreeRecord
from .snapshots import all_above
from .taking import MODULE, TAKE_SECONDS, take_tree

MAX_NAMED = 10
"""How many files an answer names."""
LOCK = "lock"
"""The file of a plan's directory that says where the lock on the index is,"""
OURS = b"fairlead merges\n"
"""and what is in that lock."""
MAX_LINK = 4096
NOTHING = "000000"
"""The mode of what is not there."""
_UNDERWAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
"""What a git directory has while something is being done in its working tree."""


class WorktreeMerge(Struct, frozen=True):
    """What came of a merge."""

    into: str
    commit: str
    files: int
    """How many files of the branch were changed."""
    is_merged: bool = True
    """False if the branch had it all already."""


class MergePreview(Struct, frozen=True):
    """What a merge would do to a branch."""

    into: str
    commits: Sequence[CommitLine]
    """Those that the branch gets, the last one first, without what is not committed yet."""
    ahead: int
    """How many these are, also those that are not listed."""
    uncommitted: Sequence[str]
    """Files of the worktree that would be committed first."""
    files: Sequence[ChangedFile]
    """What changes in the branch."""
    total: int
    insertions: int
    deletions: int
    refusal: str
    """Why it can't be merged so; empty if nothing speaks against it."""
    digest: str
    """Of all that the merge depends on: both branches, the files of the worktree, and the message."""


class _Work(Struct, frozen=True):
    """What a worktree has, to be merged."""

    target: str
    ours: str
    """The commit of the branch that gets it,"""
    theirs: str
    """and that of the worktree's."""
    tree: str = ""
    """The worktree's files, if it is there."""
    changed: Sequence[bytes] = ()
    """Files that are not committed."""

    def digest(self, message: str) -> str:
        return digest_of(self.target, self.ours, self.theirs, self.tree, message if self.changed else "")


def merge(
    record: WorktreeRecord, plans: Path, *, into: str = "", message: str = "", digest: str = ""
) -> WorktreeMerge:
    """Merge a worktree's branch into the one that it came from, or into another. With a message, commit first
    what is not committed; with the digest of a preview, only what that showed. Raises WorktreeFault, and then
    the branch and its files are as before."""
    finish_merges(plans)
    with worktree_faults():
        identity = identity_of(Path(record.repository))
        with LiveRepository(anchor(record)) as live, _working_tree(record, LiveRepository) as there:
            work = _work(live, there, record, into)
            if digest and digest != work.digest(message):
                raise WorktreeFault(LOOK_AGAIN)
            target, ours, theirs = work.target, work.ours, work.theirs
            if there is not None and work.changed:
                _check_committable(record, work, message, identity)
                theirs = _committed(there, record, work, message, identity)
            if _is_ancestor(live, theirs, ours):
                return WorktreeMerge(target, ours, 0, is_merged=False)
            place = _checked_out_at(record, target)
            if place is not None:
                _check_whole(plans, place)
                _check_idle(place, target)
            made = theirs
            if not _is_ancestor(live, ours, theirs):
                made = _merged(live, record, target, ours, theirs, identity)
            names = _differences(live, ours, made)
            count = len(names)
            if place is not None:
                _check_unchanged(place, target, names)
            if place is None:
                _move(live, target, made, ours, record.name)
            else:
                _check_out(live, place, plans, target, ours, made, record.name)
            return WorktreeMerge(target, made, count)


def preview(record: WorktreeRecord, plans: Path, *, into: str = "", message: str = "") -> MergePreview:
    """What a merge would do; nothing of the repository changes. Raises WorktreeFault if there is nothing that
    could be merged."""
    with worktree_faults(), Shadow(anchor(record)) as shadow, _working_tree(record, Shadow) as there:
        deadline = time.monotonic() + TAKE_SECONDS
        identity = identity_of(Path(record.repository))
        work = _work(shadow, there, record, into)
        ours, made, refusal = work.ours, work.theirs, ""
        if there is not None and work.changed:
            shadow.borrow(there)
            made = commit(there, work.tree, ["-p", made], message or "\n", identity or NOBODY)
        try:
            if work.changed:
                _check_committable(record, work, message, identity)
            if not _is_ancestor(shadow, made, ours) and not _is_ancestor(shadow, ours, made):
                made = _merged(shadow, record, work.target, ours, made, identity)
            place = _checked_out_at(record, work.target)
            if place is not None:
                _check_whole(plans, place)
                _check_idle(place, work.target)
                _check_unchanged(place, work.target, _differences(shadow, ours, made))
        except WorktreeFault as fault:
            refusal = str(fault)
        ahead, commits = commits_between(shadow, ours, work.theirs)
        files = changed_files(shadow, [f"{ours}...{made}"], deadline)
        return MergePreview(
            into=work.target,
            commits=commits,
            ahead=ahead,
            uncommitted=[each.decode("utf-8", "replace") for each in work.changed[:MAX_FILES]],
            files=files[:MAX_FILES],
            total=len(files),
            insertions=sum(each.insertions for each in files),
            deletions=sum(each.deletions for each in files),
            refusal=refusal,
            digest=work.digest(message),
        )


_AnyShadow = TypeVar("_AnyShadow", bound=Shadow)


@contextlib.contextmanager
def _working_tree(record: WorktreeRecord, kind: type[_AnyShadow]) -> Iterator[_AnyShadow | None]:
    """The worktree, as git may see it; None if it is gone, and what was committed is on the branch. Raises
    WorktreeFault."""
    place = Path(record.path)
    if not os.path.lexists(place):
        yield None
        return
    check_own(record, place)
    with kind(place) as found:
        yield found


def _work(live: Shadow, there: Shadow | None, record: WorktreeRecord, into: str) -> _Work:
    """What is to be merged into what. Raises WorktreeFault."""
    target = into or record.into
    if not target:
        raise WorktreeFault(f"{record.name} began at no branch: say into which one, with --into BRANCH")
    ours, theirs = _tip(live, target), _tip(live, record.branch)
    if not ours:
        raise WorktreeFault(f"there is no branch {target}: choose another with --into BRANCH")
    if not theirs or target == record.branch:
        raise WorktreeFault(f"there is nothing to merge: the branch {record.branch} is gone, or itself")
    if there is None:
        return _Work(target, ours, theirs)
    place = record.path
    if there.run("rev-parse", "--verify", "HEAD").decode().strip() != theirs:
        raise WorktreeFault(f"{place} has another commit checked out than the branch {record.branch} has")
    taken = take_tree(there)
    if left_out := [each for each in taken.left_out if each not in taken.modules]:
        raise WorktreeFault(f"{place} has what git can't keep: {_named(left_out)}; move it away first")
    return _Work(target, ours, theirs, taken.hash, _differences(there, theirs, taken.hash))


def _check_committable(record: WorktreeRecord, work: _Work, message: str, identity: dict[str, str]) -> None:
    """Raises WorktreeFault if nobody said with which message to commit, or who does."""
    if not message:
        how = 'commit them, or use --message "…" to have the merge commit them'
        names = _listed(work.changed)
        raise WorktreeFault(f"{record.path} has changes that are not committed: {names}; {how}")
    if not identity:
        raise WorktreeFault("git does not know who commits: set user.name and user.email")


def _committed(
    there: LiveRepository, record: WorktreeRecord, work: _Work, message: str, identity: dict[str, str]
) -> str:
    """Commit what is not committed, as it was looked at. Returns the commit."""
    made = commit(there, work.tree, ["-p", work.theirs], message + "\n", identity)
    _, real, _ = repository_of(Path(record.path))
    with _IndexLock(real) as lock:
        there.run("read-tree", work.tree, env={"GIT_INDEX_FILE": lock.fresh})
        _move(there, record.branch, made, work.theirs, record.name)
        lock.replace()
    _refresh(there, real)
    return made


def _tip(live: Shadow, branch: str) -> str:
    with contextlib.suppress(GitFault):
        options = ("--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
        return live.run("rev-parse", *options).decode().strip()
    return ""


def _is_ancestor(live: Shadow, one: str, other: str) -> bool:
    try:
        live.run("merge-base", "--is-ancestor", one, other)
    except GitFault as fault:
        if fault.code != 1:
            raise
        return False
    return True


def _checked_out_at(record: WorktreeRecord, branch: str) -> Path | None:
    """The working tree in which a branch is checked out."""
    found = worktrees(anchor(record))
    places = [Path(each.path) for each in found[1] if each.branch == branch] if found else []
    return next((each for each in places if (each / ".git").exists()), None)


def _check_whole(plans: Path, place: Path) -> None:
    """Raises WorktreeFault if an earlier merge was not finished."""
    for home in plans_in(plans):
        if (plan := read_plan(home)) is not None and plan.top == str(place):
            raise _half_merged(place, "it could be neither finished nor taken back")


def _check_idle(place: Path, branch: str) -> None:
    """Raises WorktreeFault if something is being done in a working tree."""
    _, real, _ = repository_of(place)
    if underway := next((each for each in _UNDERWAY if (real / each).exists()), ""):
        raise WorktreeFault(
            f"{place}, where {branch} is checked out, is in the middle of something: {underway}"
        )
    with Shadow(place) as shadow:
        if names := shadow.run("diff-files", "--name-only", "--diff-filter=U", "-z").split(b"\0")[:-1]:
            why = f"has conflicts that are not solved: {_listed(sorted(set(names)))}"
            raise WorktreeFault(f"{place}, where {branch} is checked out, {why}")


def _check_unchanged(place: Path, branch: str, coming: list[bytes]) -> None:
    """Raises WorktreeFault if files of a working tree are changed that a merge would change, too."""
    with Shadow(place) as shadow:
        staged = shadow.run("diff-index", "--cached", "--name-only", "--no-renames", "-z", "HEAD", "--")
        index = shadow.run("write-tree", "--missing-ok", env=shadow.writing).decode().strip()
        taken = take_tree(shadow)
        options = ("--name-only", "--no-renames", "--diff-filter=a", "-z")
        changed = shadow.run("diff", *options, index, taken.hash, "--")
    theirs, above = set(coming), all_above(coming)
    names = {*staged.split(b"\0"), *changed.split(b"\0")} - {b""}
    both = [each for each in names if each in theirs or each in above or theirs & all_above([each])]
    if both:
        why = f"{place}, where {branch} is checked out, has changes: {_listed(sorted(both))}"
        raise WorktreeFault(f"{why}; commit or stash them first")


def _merged(
    live: Shadow,
    record: WorktreeRecord,
    target: str,
    ours: str,
    theirs: str,
    identity: dict[str, str],
) -> str:
    """The commit of a merge. Raises WorktreeFault if there are conflicts."""
    if not identity:
        raise WorktreeFault("git does not know who commits the merge: set user.name and user.email")
    options = ("--write-tree", "--name-only", "--no-messages", "-z")
    told = live.run("merge-tree", *options, ours, theirs, codes=(0, 1)).split(b"\0")
    if names := [each for each in told[1:] if each]:
        there = f"{record.path}, resolve the conflicts there, and merge again"
        how = f"merge {target} into {record.branch} in {there}"
        if not os.path.lexists(record.path):
            how = f"{record.path} is gone: merge {target} into {record.branch} with git, and merge again"
        raise WorktreeFault(f"conflicts in {_listed(names)}; {target} is as it was: {how}")
    message = f"Merge {record.branch}, the work of {record.name}\n"
    return commit(live, told[0].decode().strip(), ["-p", ours, "-p", theirs], message, identity)


def _differences(live: Shadow, before: str, after: str) -> list[bytes]:
    options = ("--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", "-z")
    return live.run("diff", *options, before, after, "--").split(b"\0")[:-1]


def _move(live: LiveRepository, branch: str, new: str, old: str, name: str) -> None:
    """Let a branch be at another commit, if it is still where it was."""
    live.run("update-ref", "-m", f"fairlead: merge of {name}", f"refs/heads/{branch}", new, old)


# --- where the branch is checked out ----------------------------------------------------------------------


class _IndexLock:
    """git's lock on an index, and the index that will take its place. What it has says that it is ours."""

    def __init__(self, real: Path) -> None:
        self._index, self.path = real / "index", real / "index.lock"
        self.fresh = str(real / "index.fairlead")

    def __enter__(self) -> Self:
        try:
            with open(self.path, "xb") as file:
                file.write(OURS)
        except FileExistsError:
            raise WorktreeFault(f"{self.path} is there: git is at work, or died; try again") from None
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(self._index, self.fresh)
        return self

    def replace(self) -> None:
        os.replace(self.fresh, self._index)

    def __exit__(self, *error: object) -> None:
        for each in (self.fresh, self.path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(each)


def _check_out(
    live: LiveRepository, place: Path, plans: Path, branch: str, ours: str, made: str, name: str
) -> None:
    """Let a working tree, its index and its branch follow a merge."""
    _, real, _ = repository_of(place)
    id = secrets.token_hex(8)
    home = plans / id
    home.mkdir(parents=True, mode=0o700)
    (home / LOCK).write_bytes(os.fsencode(real / "index.lock"))
    is_moved = False
    try:
        with Shadow(place) as shadow, _IndexLock(real) as lock:
            index = {"GIT_INDEX_FILE": lock.fresh}
            before = shadow.run("write-tree", "--missing-ok", env={**index, **shadow.writing})
            plan = _planned(shadow, place, home, ours, made)
            if others := others_of(plan):
                why = f"{_named(others)} would be overwritten in {place}, and git does not have it"
                raise WorktreeFault(f"{why}; move it away first. {branch} is as it was")
            shadow.run("read-tree", "-i", "-m", ours, made, env=index)
            shutil.copy2(lock.fresh, home / "index")
            then = {"branch": branch, "ours": ours, "made": made, "real": str(real), "name": name}
            then["index"] = before.decode().strip()
            carry_out(msgspec.structs.replace(plan, then=then), home)
            try:
                _move(live, branch, made, ours, name)
            except GitFault:  # somebody moved the branch: what was checked out is taken back
                take_back(home)
                raise
            is_moved = True
            lock.replace()
    except ChangedMeanwhile as changed:
        drop_plan(home)
        why = f"{_named(changed.names)} changed just now in {place}"
        raise WorktreeFault(f"{why}; {branch} is as it was") from None
    except HalfDone as fault:
        raise _half_merged(place, str(fault)) from None
    except BaseException as error:
        if is_moved:  # the plan stays, and the index follows with it
            raise _half_merged(place, str(error)) from None
        drop_plan(home)
        raise
    drop_plan(home)
    _refresh(live, real)


def _half_merged(place: Path, why: str) -> WorktreeFault:
    return WorktreeFault(f"a merge is half done in {place}: {why}; fix that, and merge again")


def _refresh(live: Shadow, real: Path) -> None:
    """Have the index know the files as they are, so that git needn't compare them."""
    with contextlib.suppress(GitFault):
        env = {"GIT_INDEX_FILE": str(real / "index")}
        live.run("update-index", "-q", "--refresh", env=env)


def _planned(shadow: Shadow, place: Path, home: Path, ours: str, made: str) -> ChangePlan:
    """What becomes of each file, with the new contents in `home`."""
    options = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    told = shadow.run("diff-tree", *options, ours, made, "--").split(b"\0")[:-1]
    rows = list(zip(told[::2], told[1::2]))
    index = {"GIT_INDEX_FILE": str(home / "new-index")}
    shadow.run("read-tree", made, env=index)
    coming = [path for facts, path in rows if facts.split()[1] not in (b"000000", MODULE.encode())]
    files = home / "files"
    files.mkdir(mode=0o700)
    given = b"\0".join(coming)
    shadow.run("checkout-index", "-z", "--stdin", f"--prefix={files}/", env=index, input=given)
    os.unlink(home / "new-index")
    changes, come, gone = list[FileChange](), dict[str, int](), list[str]()
    for number, (facts, path) in enumerate(rows):
        old, new, *_ = facts.lstrip(b":").decode().split()
        if not is_proper(path):
            raise WorktreeFault(f"a file can't be called {os.fsdecode(path)!a}")
        if MODULE in (old, new):
            _check_module(place, path, old, new)
            if old == NOTHING:
                come[quoted(path)] = mode_for(True, ABSENT)
            elif new == NOTHING:
                gone.append(quoted(path))
            continue  # what a submodule has checked out is its own: only the index changes
        now = state_of(place, os.fsdecode(path))
        after, content = ABSENT, ""
        if new != NOTHING:
            source = os.path.join(os.fsencode(files), path)
            content = str(number)
            after = _moved_in(source, home / content, new.encode(), now)
        before = now if old != NOTHING else ABSENT
        changes.append(FileChange(quoted(path), before, after, content))
    shutil.rmtree(files)
    return ChangePlan(id=home.name, top=str(place), changes=changes, made=come, gone=gone)


def _check_module(place: Path, path: bytes, old: str, new: str) -> None:
    """Raises WorktreeFault if what becomes of a submodule can't be done here."""
    name = os.fsdecode(path)
    if old not in (MODULE, NOTHING) or new not in (MODULE, NOTHING):
        why = f"{printable(name)} is a submodule in one branch, and files in the other"
        raise WorktreeFault(f"{why}: merge that with git")
    if old == NOTHING and state_of(place, name) != ABSENT:
        raise WorktreeFault(f"{printable(name)} is to be a submodule, and is there already in {place}")


def _moved_in(source: bytes, content: Path, mode: bytes, now: FileState) -> FileState:
    """Put new contents where a plan has them. Returns the state of the file that will have them."""
    if mode == b"120000":
        content.write_bytes(os.readlink(source))
        state = state_of(Path(os.fsdecode(os.path.dirname(source))), os.fsdecode(os.path.basename(source)))
        return FileState("link", 0, state.digest)
    os.rename(source, content)
    state = state_of(content.parent, content.name)
    return FileState("file", mode_for(mode == b"100755", now), state.digest)


def finish_merges(plans: Path) -> list[str]:
    """Finish what a daemon began that died: files, index and branch; or nothing, if it had not begun with the
    files. Returns what there is to say of it."""
    said = []
    for home in plans_in(plans):
        try:
            with worktree_faults():
                said.append(_finish_merge(home))
        except (HalfDone, WorktreeFault) as fault:
            said.append(f"a merge is half done, and can't be finished now: {fault}")
            continue
        drop_plan(home)
    return [each for each in said if each]


def _finish_merge(home: Path) -> str:
    with contextlib.suppress(OSError):
        path = os.fsdecode(read_file(home / LOCK, MAX_LINK))
        if read_file(path, len(OURS) + 1) == OURS:
            os.unlink(path)
    if (plan := read_plan(home)) is None:
        return ""
    then, place = plan.then, Path(plan.top)
    if not place.is_dir():
        raise HalfDone(f"{place} is gone")
    real = Path(then["real"])
    with LiveRepository(place) as live, _IndexLock(real) as lock:
        tip = _tip(live, then["branch"])
        if tip not in (then["ours"], then["made"]):
            left: Sequence[str] = take_back(home)
            why = f"{then['branch']} is at another commit now"
        else:
            came = resume(plan, home)
            left = came.left
            why = "the files could not be written" if came.is_back else ""
        if not why:
            if tip == then["ours"]:
                _move(live, then["branch"], then["made"], then["ours"], then["name"])
            index = {"GIT_INDEX_FILE": lock.fresh}
            if live.run("write-tree", "--missing-ok", env=index).decode().strip() == then["index"]:
                shutil.copy2(home / "index", lock.fresh)
                lock.replace()
    _refresh(live, real)
    stays = f"; changed meanwhile, and left: {_named(left)}" if left else ""
    if why:
        return f"a merge of {then['name']} in {place} was taken back, as {why}{stays}"
    return f"a merge of {then['name']} in {place} was finished{stays}"


def _listed(names: Sequence[bytes]) -> str:
    return _named([each.decode("utf-8", "replace") for each in names])


def _named(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f", {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(map(printable, names[:MAX_NAMED])) + more
