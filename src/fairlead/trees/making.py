"""Makes worktrees, and finds out what removing one would lose. What runs here is git with our configuration:
no hook, no filter. Everything here blocks: call it in a thread.

A worktree's files in the repository are written by hand, as `git worktree add` would write them, so that each
step can be repeated: a daemon that died in the middle is followed by one that finishes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ..formats.columns import printable
from ..keeper import masks
from ..system.files import replace_file
from ..system.opening import directory, read_file
from ..system.repository import GitFault, LiveRepository, NoRepository, Shadow, repository_of
from ..system.worktrees import worktrees
from .changing import digest_of
from .diff import branch_of, resolved
from .records import WorktreeRecord
from .taking import TreeTooLarge, take_tree

CHECKOUT_SECONDS = 120.0
"""How long writing the files of a new worktree may take."""
NOBODY = {
    "GIT_AUTHOR_NAME": "fairlead",
    "GIT_AUTHOR_EMAIL": "fairlead@localhost",
    "GIT_COMMITTER_NAME": "fairlead",
    "GIT_COMMITTER_EMAIL": "fairlead@localhost",
}
"""Who commits what is only kept, if git does not know who the user is."""
MAX_PLACES = 100
"""How many names are tried for a directory that nobody has."""
MAX_COMPONENT = 80
"""How many characters of a session's name are in the name of its directory or branch."""


class WorktreeFault(Exception):
    """What was asked can't be done with a worktree. Says why, and what to do instead."""


def planned(
    name: str, project: Path, *, branch: str = "", revision: str = "", place: str = "", fallback: str
) -> WorktreeRecord:
    """What a new worktree for a session will be. Nothing is changed. Raises WorktreeFault.

    `place` is the directory for it, if not the one beside the repository, and `fallback` the one for when
    that can't be written to.
    """
    with worktree_faults(), Shadow(project) as shadow:
        top, _, common = repository_of(project)
        common = Path(os.path.realpath(common))
        for each in (project, top, common):
            try:
                str(each).encode()
            except UnicodeEncodeError:
                raise WorktreeFault(f"{str(each)!a}: a path that is not UTF-8 can't be used") from None
        base = resolved(shadow, revision or "HEAD")
        if not base and revision:
            raise WorktreeFault(f"{top} has no commit {revision!r}")
        if not base:
            raise WorktreeFault(f"{top} has no commits yet, and a worktree begins at one: commit something")
        chosen = branch or _component(name)
        _check_branch(shadow, chosen, is_given=bool(branch))
        below = os.path.relpath(os.path.realpath(project), top)
        path = _free_place(_directory(top, common, place, fallback), _component(name))
        return WorktreeRecord(
            name=name,
            path=str(path),
            repository=str(common),
            admin=str(_free_place(common / "worktrees", path.name)),
            origin=str(top),
            branch=chosen,
            base=base,
            into=branch_of(shadow),
            below="" if below == "." else below,
            made_at=time.time(),
            state="making",
        )


def common_of(project: Path) -> str:
    """The git directory that all worktrees of a project's repository share. Raises NoRepository."""
    return os.path.realpath(repository_of(project)[2])


def _check_branch(shadow: Shadow, branch: str, *, is_given: bool) -> None:
    """Raises WorktreeFault if there can be no new branch of this name."""
    how = "give another with --worktree=BRANCH"
    if branch.startswith("-") or branch == "HEAD":
        raise WorktreeFault(f"{branch!r} can't be the name of a branch; {how}")
    try:
        shadow.run("check-ref-format", f"refs/heads/{branch}")
    except (GitFault, ValueError):
        raise WorktreeFault(f"{branch!r} can't be the name of a branch; {how}") from None
    if resolved(shadow, f"refs/heads/{branch}"):
        found = worktrees(shadow.root)
        at = next((each.path for each in found[1] if each.branch == branch), "") if found else ""
        where = f", checked out in {at}" if at else ""
        raise WorktreeFault(f"the branch {branch} exists already{where}; {how}")
    for each in _parts(branch):
        if resolved(shadow, f"refs/heads/{each}"):
            raise WorktreeFault(f"there is a branch {each}, so there can be no {branch}; {how}")
    if shadow.run("for-each-ref", "--count=1", f"refs/heads/{branch}/"):
        raise WorktreeFault(f"there are branches below {branch}/, so there can be no {branch}; {how}")


def _parts(branch: str) -> list[str]:
    """The names that a branch must not be below of."""
    words = branch.split("/")
    return ["/".join(words[:at]) for at in range(1, len(words))]


def _component(name: str) -> str:
    """A session's name as that of a directory and a branch."""
    plain = re.sub(r"(?:[^\w.]|\.\.)+", "-", name)[:MAX_COMPONENT].strip("-.")
    return plain.removesuffix(".lock") or "session"


def _directory(top: Path, common: Path, place: str, fallback: str) -> Path:
    """Where worktrees of a repository are: beside it, or where a setting says."""
    own = common.parent if common.name == ".git" else common
    if place:
        return Path(os.path.expanduser(place)) / own.name
    beside = own.parent / f"{own.name}.worktrees"
    may_be = os.access(beside if beside.is_dir() else own.parent, os.W_OK | os.X_OK)
    return beside if may_be else Path(fallback) / own.name


def _free_place(directory: Path, name: str) -> Path:
    for number in range(1, MAX_PLACES):
        path = directory / (name if number == 1 else f"{name}-{number}")
        if not os.path.lexists(path):
            return path
    raise WorktreeFault(f"{directory} has {MAX_PLACES} directories called {name} already")


def anchor(record: WorktreeRecord) -> Path:
    """A directory from which a worktree's repository can be reached: the worktree itself may be gone."""
    common = Path(record.repository)
    places = (Path(record.origin), common.parent if common.name == ".git" else common)
    return next((each for each in places if (each / ".git").exists()), Path(record.origin))


# --- making -----------------------------------------------------------------------------------------------


def make(record: WorktreeRecord) -> None:
    """Make a worktree as it was planned, or finish making it. Raises WorktreeFault."""
    with worktree_faults(), LiveRepository(anchor(record)) as live:
        ref = f"refs/heads/{record.branch}"
        if resolved(live, ref) != record.base:
            message = f"fairlead: worktree for {record.name}"
            live.run("update-ref", "--create-reflog", "-m", message, ref, record.base, "")
        path, admin = Path(record.path), Path(record.admin)
        for each in (admin, path):
            with directory(each, create=True):  # as the user would make it
                pass
        mode = masks.users_mode(0o666) or 0o644
        replace_file(str(admin / "commondir"), b"../..\n", mode)
        replace_file(str(admin / "gitdir"), f"{path}/.git\n".encode(), mode)
        replace_file(str(admin / "HEAD"), f"ref: {ref}\n".encode(), mode)
        replace_file(str(path / ".git"), f"gitdir: {admin}\n".encode(), mode)
    with worktree_faults(), Shadow(path) as shadow:
        index = {"GIT_INDEX_FILE": str(admin / "index")}
        with contextlib.suppress(FileNotFoundError):
            os.unlink(admin / "index.lock")  # of a daemon that died
        deadline = time.monotonic() + CHECKOUT_SECONDS
        options = ("--reset", "-u", record.base)
        shadow.run("read-tree", *options, env=index, deadline=deadline, seconds=CHECKOUT_SECONDS)


def unmake(record: WorktreeRecord) -> None:
    """Take back what was made of a worktree that nobody has worked in."""
    with contextlib.suppress(NoRepository, GitFault, OSError), LiveRepository(anchor(record)) as live:
        live.run("update-ref", "-d", f"refs/heads/{record.branch}", record.base)
    _remove_files(record, record.path)


def notes_on(record: WorktreeRecord) -> list[str]:
    """What somebody who works in a new worktree should know of it."""
    found = []
    with contextlib.suppress(NoRepository, GitFault), Shadow(Path(record.path)) as shadow:
        if b"160000 " in shadow.run("ls-files", "--stage", "-z"):
            found.append("submodules are not checked out: `git submodule update --init` does that")
        if _has_filters(shadow):
            found.append("files with a filter, such as those of Git LFS, are as git has them: `git lfs pull`")
    return found


def _has_filters(shadow: Shadow) -> bool:
    """Whether attributes of the working tree name filters."""
    listed = shadow.run("ls-files", "-z", "--", ":(top,glob)**/.gitattributes").split(b"\0")[:-1]
    for name in listed[:MAX_PLACES]:
        with contextlib.suppress(OSError):
            path = shadow.root / os.fsdecode(name)
            if b"filter=" in read_file(path, 65_536, within=shadow.root):
                return True
    return False


# --- removing ---------------------------------------------------------------------------------------------


class WorktreeLosses(Struct, frozen=True):
    """What is in a worktree and nowhere else."""

    tree: str = ""
    """Its files as a tree, if the directory is there."""
    changed: tuple[str, ...] = ()
    """Files that are not committed."""
    commits: int = 0
    """Those that no other branch or tag has."""
    left_out: tuple[str, ...] = ()
    """Files that git can't keep: they are too large, or repositories of their own."""
    ignored: int = 0
    """Files and directories that git ignores. They are not counted as losses."""
    digest: str = ""
    """Of the files, the commits, and the names of what git ignores."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.commits or self.left_out)

    def __str__(self) -> str:
        parts = []
        if self.changed:
            names = ", ".join(map(printable, self.changed[:5])) + (", …" if len(self.changed) > 5 else "")
            files = "1 file that is" if len(self.changed) == 1 else f"{len(self.changed)} files that are"
            parts.append(f"{files} not committed ({names})")
        if self.commits:
            are = "1 commit that is" if self.commits == 1 else f"{self.commits} commits that are"
            parts.append(f"{are} on no other branch")
        if self.left_out:
            parts.append(f"what git can't keep ({', '.join(self.left_out[:5])})")
        return " and ".join(parts)


def losses(record: WorktreeRecord, at: str = "") -> WorktreeLosses:
    """What would be lost with a worktree, which may have been moved. Raises WorktreeFault."""
    place = Path(at or record.path)
    with worktree_faults():
        if not os.path.lexists(place):
            with Shadow(anchor(record)) as shadow:
                ref = f"refs/heads/{record.branch}"
                digest = digest_of(record.path, resolved(shadow, ref))
                return WorktreeLosses(commits=_own_commits(shadow, record, ref), digest=digest)
        check_own(record, place)
        with Shadow(place) as shadow:
            head = resolved(shadow, "HEAD")
            taken = take_tree(shadow)
            options = ("--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", "-z")
            told = shadow.run("diff", *options, head or record.base, taken.hash, "--")
            ignored = shadow.run(
                "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"
            )
            names = told.split(b"\0")[:-1]
            tips = (head, resolved(shadow, f"refs/heads/{record.branch}"))
            return WorktreeLosses(
                tree=taken.hash,
                changed=tuple(each.decode("utf-8", "replace") for each in names),
                commits=_own_commits(shadow, record, "HEAD"),
                left_out=taken.left_out,
                ignored=ignored.count(b"\0"),
                digest=digest_of(record.path, taken.hash, tips, taken.left_out, ignored),
            )


def counted(record: WorktreeRecord) -> tuple[int, int]:
    """How many files of a worktree are not committed, and how many commits it has since its base. Raises
    WorktreeFault."""
    with worktree_faults(), Shadow(Path(record.path)) as shadow:
        taken = take_tree(shadow)
        options = ("--name-only", "--no-renames", "--no-ext-diff", "-z")
        told = shadow.run("diff", *options, "HEAD", taken.hash, "--")
        ahead = shadow.run("rev-list", "--count", f"{record.base}..HEAD", "--")
        return told.count(b"\0"), int(ahead)


def check_own(record: WorktreeRecord, place: Path) -> None:
    """Raises WorktreeFault if a directory is not the worktree that was made."""
    with contextlib.suppress(OSError):
        if read_file(place / ".git", 4096).decode("utf-8", "replace").strip() == f"gitdir: {record.admin}":
            return
    raise WorktreeFault(f"{place} is not the worktree any more that was made for {record.name}: look at it")


def _own_commits(shadow: Shadow, record: WorktreeRecord, tip: str) -> int:
    """How many commits only a worktree's branch has, or what is checked out in it."""
    tips = [each for each in (tip, f"refs/heads/{record.branch}") if resolved(shadow, each)]
    if not tips:
        return 0
    others = ("--not", f"--exclude={record.branch}", "--branches", "--tags", "--remotes")
    kept = ("--glob=refs/fairlead/kept",)
    return int(shadow.run("rev-list", "--count", *tips, *others, *kept, record.base, "--"))


def keep(record: WorktreeRecord, lost: WorktreeLosses, ref: str, identity: dict[str, str]) -> None:
    """Put all that is in a worktree and nowhere else under a ref. Raises WorktreeFault."""
    place = Path(record.path)
    identity = identity or NOBODY
    is_there = place.exists()
    with worktree_faults(), LiveRepository(place if is_there else anchor(record)) as live:
        tip = resolved(live, "HEAD" if is_there else f"refs/heads/{record.branch}") or record.base
        own = resolved(live, f"refs/heads/{record.branch}")
        if lost.changed:
            taken = take_tree(live)
            parents = [word for each in dict.fromkeys((tip, own)) if each for word in ("-p", each)]
            message = f"What was not committed in the worktree of {record.name}\n"
            tip = commit(live, taken.hash, parents, message, identity)
        elif own and own != tip:
            live.run("update-ref", "-m", "fairlead: kept", f"{ref}-branch", own)
        live.run("update-ref", "-m", "fairlead: kept", ref, tip)


def commit(live: Shadow, tree: str, parents: list[str], message: str, identity: dict[str, str]) -> str:
    """Write a commit; nothing refers to it yet."""
    given = message.encode("utf-8", "replace")
    return live.run("commit-tree", tree, *parents, "-F", "-", input=given, env=identity).decode().strip()


def remove(record: WorktreeRecord, *, is_kept: bool) -> None:
    """Remove a worktree that was moved aside, and its branch if nothing is lost with it. Can be repeated."""
    with contextlib.suppress(NoRepository, GitFault), LiveRepository(anchor(record)) as live:
        ref = f"refs/heads/{record.branch}"
        tip = resolved(live, ref)
        if tip and (is_kept or not _own_commits(live, record, ref)):
            live.run("update-ref", "-d", ref, tip)
    _remove_files(record, record.aside)


def _remove_files(record: WorktreeRecord, place: str) -> None:
    shutil.rmtree(place, ignore_errors=True)
    if os.path.lexists(place):  # directories that may not be written
        for directory, _, _ in os.walk(place):
            with contextlib.suppress(OSError):
                os.chmod(directory, 0o700)
        shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(record.admin, ignore_errors=True)
    for each in (Path(record.path).parent, Path(record.admin).parent):
        with contextlib.suppress(OSError):
            each.rmdir()  # if that was the last one


@contextlib.contextmanager
def worktree_faults() -> Iterator[None]:
    """Say what went wrong as a WorktreeFault."""
    try:
        yield
    except (NoRepository, GitFault, TreeTooLarge, OSError) as fault:
        raise WorktreeFault(str(fault)) from None
