"""What was judged: a hash of the project's files as they are, and what changed.

In a git repository it is the hash of the tree that `git add --all` would give, but the user's index and
objects are not touched and no filter runs. Elsewhere it is a hash over paths and contents. Everything here
blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from .opening import open_file
from .repository import GitFault, NoRepository, Shadow

TREE_SECONDS = 30.0
"""How long it may take to find out what is there."""
MAX_FILES = 200_000
"""How many files a project may have without git,"""
MAX_BYTES = 1024 * 1024 * 1024
"""and how many bytes."""
MAX_NAMED = 20
"""How many files a diff stat names."""
CLOCK_SECONDS = 0.05
"""By how much the times of files may be behind those of events."""
CHUNK = 1024 * 1024

LEFT_OUT = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", "target"}
    | {".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".gradle", ".cache", ".coverage"}
)
"""Directories that are no part of a project without git."""


class TreeFault(Exception):
    """What is there can't be found out. Says why."""


class Tree(Struct, frozen=True):
    """The files of a project at one moment."""

    hash: str
    files: Mapping[str, str]
    """For each path, seen from the top, its mode and the hash of its content."""
    is_git: bool = True


class Changes(Struct, frozen=True):
    """How one tree differs from another."""

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    insertions: int | None = None
    """Lines; None where they were not counted."""
    deletions: int | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Files that are there and differ, in order."""
        return tuple(sorted((*self.added, *self.modified)))

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.deleted)

    def __str__(self) -> str:
        """In one line, as `git diff --shortstat`, then the names."""
        names = [("+", self.added), ("~", self.modified), ("-", self.deleted)]
        shown = [f"{sign}{path}" for sign, paths in names for path in paths]
        if not shown:
            return "no files changed"
        count = f"{len(shown)} file{'s' if len(shown) > 1 else ''} changed"
        if self.insertions is not None and self.deletions is not None:
            count += f", +{self.insertions} -{self.deletions} lines"
        more = f", {len(shown) - MAX_NAMED} more" if len(shown) > MAX_NAMED else ""
        return f"{count}: {', '.join(shown[:MAX_NAMED])}{more}"


class Watch:
    """A project over the time of a turn: take its tree at the start and at the end, and compare.

    >>> with Watch(Path(".")) as watch:
    ...     before = watch.take()
    ...     print(watch.changes(before, watch.take()))
    no files changed

    The contents that a tree stands for are kept until `close`, so that lines can be counted. A tree of an
    earlier Watch can be given, too: then only the names of files are compared.
    """

    def __init__(self, project: Path, *, time_limit: float = TREE_SECONDS) -> None:
        self.project = project
        self._lock = threading.Lock()
        self._seconds = time_limit
        self._shadow: Shadow | None = None
        self.last: Tree | None = None
        """What was taken last."""
        self._sees_all = False
        self.without_git = ""
        """Why git is not used, if it is not."""
        try:
            self._shadow = Shadow(project)
        except NoRepository as fault:
            self.without_git = str(fault)

    @property
    def top(self) -> Path:
        """Where the paths of trees begin."""
        return self._shadow.root if self._shadow is not None else self.project

    def unseen(self, tree: Tree) -> list[str]:
        """The repositories within the project, of whose files nothing is known."""
        modules = (path for path, it in tree.files.items() if it.startswith("160000 "))
        return sorted(path for path in modules if os.path.lexists(self.top / path / ".git"))

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._shadow is not None:
            self._shadow.close()

    def take(self) -> Tree:
        """The files as they are now. Raises TreeFault. Several threads may call it."""
        deadline = time.monotonic() + self._seconds
        if self._shadow is None:
            self.last = _content_tree(self.project, deadline)
            return self.last
        try:
            with self._lock:
                self.last = self._git_tree(self._shadow, deadline)
                return self.last
        except GitFault as fault:
            raise TreeFault(str(fault)) from None

    def take_at(self, moment: float) -> Tree | None:
        """The files as they were at a moment just now, in seconds since 1970. Raises TreeFault.

        What was changed since then is as it was when the last tree was taken; without one nobody knows.
        """
        before, now = self.last, self.take()
        if before is None or before.hash == now.hash:
            return before
        files = dict(now.files)
        for path in before.files.keys() | now.files.keys():
            if before.files.get(path) != now.files.get(path) and self._is_later(path, moment):
                if (old := before.files.get(path)) is None:
                    del files[path]
                else:
                    files[path] = old
        return now if files == now.files else Tree("", files, now.is_git)

    def _is_later(self, path: str, moment: float) -> bool:
        """Whether a file was changed after a moment; one that is gone may have been."""
        try:
            return (self.top / path).lstat().st_ctime >= moment - CLOCK_SECONDS
        except OSError:
            return True

    def changes(self, before: Tree | None, after: Tree) -> Changes:
        """What changed from one tree to another; from the last commit if the first is None.

        Without git, or before the first commit, None stands for no files at all.
        """
        deadline = time.monotonic() + self._seconds
        if before is None:
            before = self._head(deadline)
        added = sorted(after.files.keys() - before.files.keys())
        deleted = sorted(before.files.keys() - after.files.keys())
        modified = sorted(path for path, it in after.files.items() if before.files.get(path, it) != it)
        lines = self._lines(before.hash, after.hash, deadline) if before.is_git and after.is_git else None
        return Changes(tuple(added), tuple(modified), tuple(deleted), *(lines or (None, None)))

    def _git_tree(self, shadow: Shadow, deadline: float) -> Tree:
        writing = shadow.writing
        if not self._sees_all:
            self._see_all(shadow, writing, deadline)
            self._sees_all = True
        modules = self._without_modules(shadow, writing, deadline)
        shadow.run("add", "--all", "--ignore-errors", "--", ".", deadline=deadline, env=writing)
        self._with_modules(shadow, writing, modules, deadline)
        hash = shadow.run("write-tree", "--missing-ok", deadline=deadline, env=writing).decode().strip()
        return Tree(hash, self._listed(hash, deadline))

    @staticmethod
    def _see_all(shadow: Shadow, writing: Mapping[str, str], deadline: float) -> None:
        """Look at files that our index has marked as not to be looked at. One that is left out of a sparse
        checkout is not there, and that is no change."""
        listed = shadow.run("ls-files", "-v", "-z", deadline=deadline, env=writing)
        marked = [os.fsdecode(each).split(" ", 1) for each in listed.split(b"\0")[:-1]]
        assumed = [path for mark, path in marked if mark.islower()]
        skipped = [path for mark, path in marked if mark in "Ss" and os.path.lexists(shadow.root / path)]
        for option, paths in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)):
            if paths:
                given = os.fsencode("\0".join(paths))
                shadow.run(
                    "update-index", option, "-z", "--stdin", deadline=deadline, env=writing, input=given
                )

    @staticmethod
    def _without_modules(shadow: Shadow, writing: Mapping[str, str], deadline: float) -> dict[str, str]:
        """Take submodules out of our index: git would look into each with the configuration that it has."""
        staged = shadow.run("ls-files", "--stage", "-z", deadline=deadline, env=writing)
        modules = {}
        for item in staged.decode("utf-8", "surrogateescape").split("\0")[:-1]:
            facts, _, path = item.partition("\t")
            if facts.startswith("160000 "):
                modules[path] = facts.split(" ")[1]
        for path in modules:
            shadow.run("update-index", "--force-remove", "--", path, deadline=deadline, env=writing)
        return modules

    @staticmethod
    def _with_modules(
        shadow: Shadow, writing: Mapping[str, str], modules: Mapping[str, str], deadline: float
    ) -> None:
        """Put back those that are not checked out, so that they do not look deleted."""
        for path, commit in modules.items():
            directory = shadow.root / path
            if directory.is_dir() and not (directory / ".git").exists():
                entry = f"160000,{commit},{path}"
                shadow.run("update-index", "--add", "--cacheinfo", entry, deadline=deadline, env=writing)

    def _head(self, deadline: float) -> Tree:
        if self._shadow is None:
            return Tree("", {}, is_git=False)
        hash = self._empty()
        with contextlib.suppress(GitFault):
            hash = self._shadow.run("rev-parse", "--verify", "--quiet", "HEAD^{tree}").decode().strip()
        try:
            return Tree(hash, self._listed(hash, deadline))
        except GitFault as fault:
            raise TreeFault(str(fault)) from None

    def _empty(self) -> str:
        assert self._shadow is not None
        return (
            self._shadow.run("hash-object", "-t", "tree", "-w", os.devnull, env=self._shadow.writing)
            .decode()
            .strip()
        )

    def _listed(self, hash: str, deadline: float) -> dict[str, str]:
        assert self._shadow is not None
        listed = self._shadow.run("ls-tree", "-r", "-z", "--full-tree", hash, deadline=deadline)
        files = {}
        for item in listed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
            facts, _, path = item.partition("\t")
            mode, _, content = facts.split(" ")
            files[path.encode("utf-8", "replace").decode()] = f"{mode} {content}"
        return files

    def _lines(self, before: str, after: str, deadline: float) -> tuple[int, int] | None:
        """How many lines came and went, if both trees are here."""
        if self._shadow is None:
            return None
        options = ("--numstat", "--no-ext-diff", "--no-textconv", "--no-renames", "-z")
        try:
            told = self._shadow.run("diff", *options, before, after, "--", deadline=deadline)
        except GitFault:
            return None
        insertions = deletions = 0
        for item in told.split(b"\0")[:-1]:
            plus, minus, _ = item.split(b"\t", 2)
            if plus != b"-":  # not binary
                insertions += int(plus)
                deletions += int(minus)
        return insertions, deletions


def _content_tree(project: Path, deadline: float) -> Tree:
    files: dict[str, str] = {}
    room = MAX_BYTES
    for path, found in walk(project):
        if len(files) >= MAX_FILES:
            raise TreeFault(f"{project} has more than {MAX_FILES} files, and {_NO_GIT}")
        if time.monotonic() > deadline:
            raise TreeFault(f"reading {project} took too long, and {_NO_GIT}")
        digest = hashlib.sha256()
        try:
            if stat.S_ISLNK(found.st_mode):
                digest.update(os.fsencode(os.readlink(project / path)))
            else:
                room -= found.st_size
                if room < 0:
                    raise TreeFault(f"{project} has more than {MAX_BYTES} bytes, and {_NO_GIT}")
                with open_file(project / path) as file:
                    while chunk := file.read(CHUNK):
                        digest.update(chunk)
        except OSError as error:
            digest.update(f"unreadable: {error.errno}".encode())
        kind = "120000" if stat.S_ISLNK(found.st_mode) else "100755" if found.st_mode & 0o100 else "100644"
        files[path.encode("utf-8", "replace").decode()] = f"{kind} {digest.hexdigest()}"
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{files[path]}\t{path}\0".encode())
    return Tree(whole.hexdigest(), files, is_git=False)


_NO_GIT = "there is no git repository that says which of them matter"


def walk(project: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The files and links of a project without git, but not what is in `LEFT_OUT`."""
    waiting = [""]
    while waiting:
        directory = waiting.pop()
        try:
            entries = sorted(os.scandir(project / directory), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = f"{directory}{entry.name}"
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                if entry.name not in LEFT_OUT:
                    waiting.append(f"{path}/")
            elif stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
                yield path, found
