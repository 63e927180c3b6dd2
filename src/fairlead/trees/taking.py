"""The files of a working tree as they are now, as a tree in git's object format, in bounded time and space.

The repository is not written to: objects go where the `Shadow` says. Files that git ignores are no part of
the tree. What is too large, and repositories within, are left out of it and named. Everything here blocks:
call it in a thread.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..system.repository import GitFault, GitTimeout, NoRepository, Shadow

TAKE_SECONDS = 30.0
"""How long it may take to find out what is there."""
MAX_FILES = 40_000
"""How many files may differ from the index,"""
MAX_FILE = 32 * 1024 * 1024
"""how many bytes one of them may have so that it is compared,"""
MAX_BYTES = 512 * 1024 * 1024
"""and all of them."""
MAX_LEFT_OUT = 100
"""How many files are named that are left out."""
MODULE = "160000"
"""The mode of a repository within."""
_GIVEN = ("-z", "--stdin")


class TreeTooLarge(Exception):
    """A working tree that can't be looked at within the limits. Says why."""


class TakenTree(NamedTuple):
    """The files at one moment."""

    hash: str
    left_out: tuple[str, ...]
    """Paths whose files are not in the tree as they are: they are too large, or repositories of their own."""
    paths: tuple[bytes, ...] = ()
    """The same as bytes."""
    modules: tuple[str, ...] = ()
    """Those of them that are submodules: the commits that they have checked out are in the tree."""


def take_tree(
    shadow: Shadow, *, env: Mapping[str, str] | None = None, deadline: float | None = None
) -> TakenTree:
    """The tree of all files that git does not ignore. Raises GitFault or TreeTooLarge.

    `env` says where the index and new objects are, if not in the shadow.
    """
    deadline = deadline or time.monotonic() + TAKE_SECONDS
    writing = {**shadow.writing, **(env or {})}
    _see_all(shadow, writing, deadline)
    modules = _note_modules(shadow, writing, deadline)
    changed = _differing(shadow, writing, deadline)
    left_out = add_files(shadow, changed - set(map(os.fsencode, modules)), writing, deadline)
    hash = shadow.run("write-tree", "--missing-ok", env=writing, deadline=deadline).decode().strip()
    names = [*left_out, *(os.fsencode(path) for path, is_changed in modules.items() if is_changed)]
    paths = tuple(sorted(names)[:MAX_LEFT_OUT])
    return TakenTree(hash, _shown(paths), paths, _shown(map(os.fsencode, modules)))


def _shown(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(each.decode("utf-8", "replace") for each in paths)


def add_files(shadow: Shadow, paths: set[bytes], env: Mapping[str, str], deadline: float) -> list[bytes]:
    """Have an index know files as they are now. Returns those that it can't have. Raises TreeTooLarge."""
    try:
        return _add_files(shadow, paths, env, deadline)
    except GitTimeout:
        raise
    except GitFault:  # such as that of a file that has become a pipe since it was looked at
        try:
            return _add_files(shadow, paths, env, deadline)
        except GitFault as fault:
            raise GitFault(f"files could not be noted, or changed all the time ({fault})") from None


def _add_files(shadow: Shadow, paths: set[bytes], env: Mapping[str, str], deadline: float) -> list[bytes]:
    written, gone, left_out = _sorted_out(shadow, paths)
    if gone:
        given = b"\0".join(gone)
        shadow.run("update-index", "--force-remove", *_GIVEN, input=given, env=env, deadline=deadline)
    if written:
        given = b"\0".join(written)
        shadow.run("update-index", "--add", "--replace", *_GIVEN, input=given, env=env, deadline=deadline)
    return left_out


def _see_all(shadow: Shadow, env: Mapping[str, str], deadline: float) -> None:
    """Look at files that the index marks as not to be looked at. One that is left out of a sparse checkout
    is not there, and that is no change."""
    listed = shadow.run("ls-files", "-v", "-z", env=env, deadline=deadline)
    marked = [each.split(b" ", 1) for each in listed.split(b"\0")[:-1]]
    assumed = [path for mark, path in marked if mark.islower()]
    top = os.fsencode(shadow.root)
    skipped = [path for mark, path in marked if mark in b"Ss" and os.path.lexists(os.path.join(top, path))]
    for option, paths in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)):
        if paths:
            given = b"\0".join(paths)
            shadow.run("update-index", option, "-z", "--stdin", input=given, env=env, deadline=deadline)


def _note_modules(shadow: Shadow, env: Mapping[str, str], deadline: float) -> dict[str, bool]:
    """Put the commits into the index that submodules have checked out. Returns for each whether anything in
    it may be changed, which git is not asked: it would use the submodule's own configuration."""
    staged = shadow.run("ls-files", "--stage", "-z", env=env, deadline=deadline)
    modules: dict[str, bool] = {}
    entries = []
    for item in staged.split(b"\0")[:-1]:
        facts, _, name = item.partition(b"\t")
        mode, commit, _ = facts.decode().split(" ")
        if mode != MODULE:
            continue
        path = os.fsdecode(name)
        here = checked_out(shadow, path)
        modules[path] = here is not None
        if here and here != commit:
            entries.append(b"%s %s\t%s\0" % (mode.encode(), here.encode(), name))
    if entries:
        given = b"".join(entries)
        shadow.run("update-index", "-z", "--index-info", input=given, env=env, deadline=deadline)
    return modules


def checked_out(shadow: Shadow, path: str) -> str | None:
    """The commit that a submodule has checked out; empty if nobody knows, None if it is not here."""
    if not os.path.lexists(shadow.root / path / ".git"):
        return None
    try:
        with Shadow(shadow.root / path) as module:
            if module.root != shadow.root / path:
                return ""  # what is there is no repository
            return module.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}").decode().strip()
    except (NoRepository, GitFault):
        return ""


def _differing(shadow: Shadow, env: Mapping[str, str], deadline: float) -> set[bytes]:
    """The paths of files that are not as the index has them, or not in it."""
    options = ("--name-only", "--no-renames", "--ignore-submodules=all", "-z")
    changed = shadow.run("diff-files", *options, env=env, deadline=deadline)
    others = shadow.run("ls-files", "--others", "--exclude-standard", "-z", env=env, deadline=deadline)
    found = {*changed.split(b"\0"), *others.split(b"\0")} - {b""}
    if len(found) > MAX_FILES:
        raise TreeTooLarge(
            f"{shadow.root}: {len(found)} files changed, and at most {MAX_FILES} can be compared"
        )
    return found


def _sorted_out(shadow: Shadow, paths: set[bytes]) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Those of the paths that are files or links, that are gone, and that are left out."""
    top = os.fsencode(shadow.root)
    written, gone, left_out = list[bytes](), list[bytes](), list[bytes]()
    room = MAX_BYTES
    linked: dict[bytes, bool] = {}
    for path in sorted(paths):
        if path.endswith(b"/"):
            left_out.append(path)
            continue
        try:
            found = os.lstat(os.path.join(top, path))
        except OSError:
            gone.append(path)
            continue
        if is_beyond_link(top, path, linked) or stat.S_ISDIR(found.st_mode):
            gone.append(path)
        elif stat.S_ISLNK(found.st_mode):
            written.append(path)
        elif stat.S_ISREG(found.st_mode):
            if found.st_size > MAX_FILE or not os.access(os.path.join(top, path), os.R_OK):
                left_out.append(path)
                continue
            written.append(path)
            room -= found.st_size
            if room < 0:
                why = f"more than {MAX_BYTES // 2**20} MiB of files changed"
                raise TreeTooLarge(f"{shadow.root}: {why}, and no more can be compared")
        else:  # a pipe, a socket: nothing that git knows
            gone.append(path)
    return written, gone, left_out


def is_beyond_link(top: bytes, path: bytes, known: dict[bytes, bool]) -> bool:
    """Whether one of the directories of a path below `top` is a link: the file is then elsewhere."""
    above = os.path.dirname(path)
    if not above:
        return False
    if above not in known:
        known[above] = os.path.islink(os.path.join(top, above)) or is_beyond_link(top, above, known)
    return known[above]
