"""The worktrees of a git repository, read from its files: nothing of a repository's configuration is run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from .opening import read_file

MAX_WORKTREES = 100
"""How many worktrees are listed."""
MAX_READ = 4096
"""How many bytes of one of git's small files are read."""
MAX_BRANCH = 200
"""How many characters of a branch's name are shown."""
MAX_DIRECTORIES = 1000
"""How many directories are looked at for a list."""
LOOK_WAIT = 0.3
"""Seconds that a list waits for them: a directory may be on a server that does not answer."""


class Worktree(NamedTuple):
    path: str
    branch: str
    """Or the commit, if no branch is checked out."""


def worktrees(directory: Path) -> tuple[str, list[Worktree]] | None:
    """The worktree that a directory is in, and all of its repository; None outside of one."""
    if (found_at := _git_dirs(directory)) is None:
        return None
    place, own = found_at
    common = (own / (_read(own / "commondir") or ".")).resolve()
    found = [Worktree(str(common.parent), _branch(common))] if common.name == ".git" else []
    try:
        names = sorted(os.listdir(common / "worktrees"))[:MAX_WORKTREES]
    except OSError:
        names = []
    for name in names:
        linked = common / "worktrees" / name
        if (at := _read(linked / "gitdir")) is not None:
            found.append(Worktree(str((linked / at).parent), _branch(linked)))
    return str(place), found


def git_branch(directory: Path) -> str | None:
    """The branch that a directory is on, without asking git."""
    found = _git_dirs(directory)
    return _branch(found[1])[:MAX_BRANCH] if found is not None else None


class Branches:
    """The branches of directories. They are read beside the event loop, by one thread at a time; whoever asks
    while that takes long gets what was found before."""

    def __init__(self) -> None:
        self._found: Mapping[str, str] = {}
        self.gone: Collection[str] = ()
        """Those of them that are no directories any more."""
        self._looking: asyncio.Future[tuple[Mapping[str, str], Collection[str]]] | None = None

    async def of(self, directories: Collection[str]) -> Mapping[str, str]:
        """The branch of each of these directories that is in a repository."""
        if self._looking is not None:  # for another list
            await asyncio.wait([self._looking], timeout=LOOK_WAIT)
        if self._looking is None:
            wanted = sorted(directories)[:MAX_DIRECTORIES]
            self._looking = asyncio.get_running_loop().run_in_executor(None, _branches, wanted)
            self._looking.add_done_callback(self._looked)
            await asyncio.wait([self._looking], timeout=LOOK_WAIT)
        return self._found

    def _looked(self, looking: asyncio.Future[tuple[Mapping[str, str], Collection[str]]]) -> None:
        self._looking = None
        if not looking.cancelled() and looking.exception() is None:
            self._found, self.gone = looking.result()


def _branches(directories: Collection[str]) -> tuple[Mapping[str, str], Collection[str]]:
    found, gone = {}, set()
    for each in directories:
        if os.path.isabs(each) and "\0" not in each and not os.path.lexists(each):
            gone.add(each)
        elif os.path.isabs(each) and "\0" not in each and (branch := git_branch(Path(each))):
            found[each] = branch
    return found, gone


def _git_dirs(directory: Path) -> tuple[Path, Path] | None:
    """The working tree that a directory is in, and its git directory."""
    return next(
        ((place, own) for place in (directory, *directory.parents) if (own := _git_directory(place))), None
    )


def _git_directory(place: Path) -> Path | None:
    git = place / ".git"
    if git.is_dir():
        return git
    said = _read(git)
    return place / said.removeprefix("gitdir:").strip() if said and said.startswith("gitdir:") else None


def _branch(git: Path) -> str:
    return (_read(git / "HEAD") or "?").removeprefix("ref: refs/heads/")


def _read(path: Path) -> str | None:
    try:
        return read_file(path, MAX_READ).decode("utf-8", "replace").strip()
    except OSError:
        return None
