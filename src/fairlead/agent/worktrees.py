"""The worktrees of a git repository, read from its files: nothing of a repository's configuration is run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ..system.opening import read_file

MAX_WORKTREES = 100
"""How many worktrees are listed."""
MAX_READ = 4096
"""How many bytes of one of git's small files are read."""
MAX_BRANCH = 200
"""How many characters of a branch's name are shown."""


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
