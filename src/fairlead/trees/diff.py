"""What differs between two trees, as people and programs read it: files, lines, and a patch of bounded size.

No program shows the differences but git itself: no external diff, no textconv, no attribute that hides a
file. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ..system.repository import GitFault, NoRepository, Shadow
from .taking import TAKE_SECONDS, TakenTree, TreeTooLarge, take_tree

MAX_PATCH = 1024 * 1024
"""How many bytes of a patch are told."""
MAX_FILES = 2000
"""How many files of a diff are listed."""
MAX_COMMITS = 100
"""How many commits are listed, the last ones."""
MAX_LOG = 4 * 1024 * 1024
"""How many bytes git may print of them."""
MAX_SUBJECT = 200
"""How many characters of a commit's subject are told."""
_DIFF = (
    *("-c", "core.bigFileThreshold=8m", "-c", "diff.renameLimit=400", "-c", "core.quotePath=true"),
    *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--ignore-submodules=none"),
    *("--submodule=short", "--src-prefix=a/", "--dst-prefix=b/"),
)
_STATUS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied", "T": "type changed"}


class NoDiff(Exception):
    """A difference that can't be found out. Says why."""


class ChangedFile(Struct, frozen=True):
    """One file of a diff."""

    path: str
    status: str
    """`added`, `modified`, `deleted`, `renamed`, `copied` or `type changed`."""
    old_path: str = ""
    """Where it was before, if it was renamed."""
    insertions: int = 0
    """Lines; 0 in a binary file."""
    deletions: int = 0
    is_binary: bool = False


class CommitLine(Struct, frozen=True):
    """A commit in a list."""

    id: str
    subject: str


class TreeDiff(Struct, frozen=True):
    """How one tree differs from another."""

    files: Sequence[ChangedFile] = ()
    total: int = 0
    """How many files differ, also those that are not listed."""
    insertions: int = 0
    deletions: int = 0
    patch: str = ""
    is_cut: bool = False
    """Whether the patch is longer than what is told of it."""
    left_out: Sequence[str] = ()
    """Files that were not compared: they are too large, or repositories of their own."""


class SessionDiff(Struct, frozen=True):
    """What a session's directory has now, compared with where it began."""

    top: str
    base: str
    """The commit that it is compared with; empty if the repository has none."""
    branch: str
    """Empty if none is checked out."""
    commits: Sequence[CommitLine]
    """Those since the base that are on the branch, the last one first."""
    ahead: int
    diff: TreeDiff


def session_diff(project: Path, base: str = "") -> SessionDiff:
    """What is different since a commit, or since the last one: commits, changes that are not committed, and
    files that git does not know yet. Raises NoDiff."""
    with _faults(), Shadow(project) as shadow:
        deadline = time.monotonic() + TAKE_SECONDS
        head = resolved(shadow, "HEAD")
        began = base or head
        if base and not resolved(shadow, base):
            raise NoDiff(f"the commit {base} where it began is not in the repository of {project} any more")
        taken = take_tree(shadow, deadline=deadline)
        ahead, commits = commits_between(shadow, base, head) if base and head else (0, [])
        return SessionDiff(
            top=_text(os.fsencode(shadow.root)),
            base=began,
            branch=branch_of(shadow),
            commits=commits,
            ahead=ahead,
            diff=tree_diff(shadow, f"{began}^{{tree}}" if began else _empty(shadow), taken, deadline),
        )


def compared(one: Path, other: Path) -> TreeDiff:
    """How the files of one working tree differ from those of another, which may be in another repository.
    Raises NoDiff."""
    with _faults(), Shadow(one) as first, Shadow(other) as second:
        deadline = time.monotonic() + TAKE_SECONDS
        before, after = take_tree(first, deadline=deadline), take_tree(second, deadline=deadline)
        objects = ":".join(_quoted(second.directory / name) for name in ("objects", "fresh"))
        left_out = tuple(dict.fromkeys((*before.left_out, *after.left_out)))
        taken = TakenTree(after.hash, left_out)
        return tree_diff(first, before.hash, taken, deadline, {"GIT_ALTERNATE_OBJECT_DIRECTORIES": objects})


def tree_diff(
    shadow: Shadow,
    before: str,
    after: TakenTree,
    deadline: float,
    env: Mapping[str, str] | None = None,
) -> TreeDiff:
    """How a tree differs from another one. Raises GitFault."""
    ends = (before, after.hash)
    files = changed_files(shadow, ends, deadline, env)
    patch = shadow.run(*_DIFF, "--patch", *ends, "--", env=env, deadline=deadline, limit=MAX_PATCH)
    is_cut = len(patch) >= MAX_PATCH
    if is_cut:
        patch = patch[: patch.rfind(b"\n") + 1]
    return TreeDiff(
        files=files[:MAX_FILES],
        total=len(files),
        insertions=sum(each.insertions for each in files),
        deletions=sum(each.deletions for each in files),
        patch=_text(patch),
        is_cut=is_cut,
        left_out=after.left_out,
    )


def changed_files(
    shadow: Shadow, ends: Sequence[str], deadline: float, env: Mapping[str, str] | None = None
) -> list[ChangedFile]:
    """All files that differ between two trees. Raises GitFault."""
    told = shadow.run(*_DIFF, "--raw", "--numstat", "-z", *ends, "--", env=env, deadline=deadline)
    return list(_files(told.split(b"\0")))


def _files(told: Sequence[bytes]) -> Iterator[ChangedFile]:
    """The files of `--raw --numstat -z`: all of the first, then all of the second, in the same order."""
    words = iter(told)
    raw: list[tuple[str, bytes, bytes]] = []
    for word in words:
        if not word.startswith(b":"):
            break
        status = word.rpartition(b" ")[2][:1].decode()
        old = next(words)
        raw.append((status, old, next(words) if status in "RC" else old))
    else:
        word = b""
    for status, old, path in raw:
        plus, minus, name = word.split(b"\t", 2)
        if not name:  # renamed: both names follow
            next(words), next(words)
        word = next(words, b"")
        is_binary = plus == b"-"
        yield ChangedFile(
            path=_text(path),
            status=_STATUS.get(status, "modified"),
            old_path=_text(old) if old != path else "",
            insertions=0 if is_binary else int(plus),
            deletions=0 if is_binary else int(minus),
            is_binary=is_binary,
        )


def resolved(shadow: Shadow, revision: str) -> str:
    """The commit that a revision means; empty if there is none. Raises GitFault if git does not end."""
    options = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    try:
        return shadow.run("rev-parse", *options).decode().strip().removeprefix("--end-of-options\n")
    except GitFault as fault:
        if fault.code == -1:
            raise
        return ""


def branch_of(shadow: Shadow) -> str:
    """The branch that is checked out, or nothing."""
    with contextlib.suppress(GitFault):
        return shadow.run("symbolic-ref", "--quiet", "--short", "HEAD").decode("utf-8", "replace").strip()
    return ""


def commits_between(shadow: Shadow, base: str, head: str) -> tuple[int, list[CommitLine]]:
    """How many commits one has and the other has not, and the last of them."""
    count = int(shadow.run("rev-list", "--count", f"{base}..{head}", "--"))
    form = ("--format=%H%x00%s", f"--max-count={MAX_COMMITS}", "--no-show-signature", "--no-color", "-z")
    told = shadow.run("log", *form, f"{base}..{head}", "--", limit=MAX_LOG).split(b"\0") if count else []
    pairs = zip(told[::2], told[1::2])
    return count, [CommitLine(id.decode(), _text(subject)[:MAX_SUBJECT]) for id, subject in pairs]


def _empty(shadow: Shadow) -> str:
    """The hash of a tree without files."""
    given = ("hash-object", "-t", "tree", "-w", "--stdin")
    return shadow.run(*given, env=shadow.writing).decode().strip()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _quoted(path: Path) -> str:
    """A path for GIT_ALTERNATE_OBJECT_DIRECTORIES."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (NoRepository, GitFault, TreeTooLarge) as fault:
        raise NoDiff(str(fault)) from None
