"""A throw-away copy of a project as it is now, with what is not committed and what git does not ignore.

The copy has a git directory of its own, with the history but without the configuration; what is done in it
does not reach the project. Dependencies that git ignores (`LINKED`) are linked, not copied. Everything here
blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...system.processes import is_there
from ...system.repository import GitFault, NoRepository, Shadow
from ...system.tree import walk

MAX_FILES = 200_000
"""How many files are copied,"""
MAX_BYTES = 2 * 1024 * 1024 * 1024
"""how many bytes,"""
COPY_SECONDS = 120.0
"""and how long that may take."""
LINKED = (".venv", "venv", "node_modules")
"""Directories that are linked if they are there and git ignores them."""
PREFIX = "fairlead-copy-"


class ScratchFault(Exception):
    """A project that can't be copied. Says why."""


class Scratch:
    """A copy that is there as long as the `with`.

    >>> with Scratch(Path(".")) as scratch:
    ...     (scratch.project / "anything").write_text("x")
    1
    """

    def __init__(
        self, project: Path, *, linked: Iterable[str] = LINKED, directory: Path | None = None
    ) -> None:
        """Makes the copy, in `directory` or where temporary files go. Raises ScratchFault."""
        source = Path(os.path.realpath(project))
        self._place = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=directory))
        self.root = self._place / (source.name or "project")
        self.project = self.root
        """The directory that stands for the project."""
        try:
            self._copy(source, tuple(linked))
        except (OSError, GitFault) as error:
            self.close()
            raise ScratchFault(f"can't copy {project}: {error}") from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the copy."""
        _remove(self._place)

    def _copy(self, source: Path, linked: tuple[str, ...]) -> None:
        self.root.mkdir(mode=0o700)
        names: Iterator[str]
        try:
            shadow = Shadow(source, self.root / ".git")
        except NoRepository:
            top, names = source, (name for name, _ in walk(source))
        else:
            top = shadow.root
            listed = shadow.run("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=top)
            names = _with_nested(top, sorted(set(os.fsdecode(listed).split("\0")) - {""}))
        self.project = self.root / source.relative_to(top)
        self._copy_files(top, names)
        self.project.mkdir(parents=True, exist_ok=True)
        for name in linked:
            for place in dict.fromkeys((top, source)):
                target = self.root / place.relative_to(top) / name
                if (place / name).is_dir() and not os.path.lexists(target):
                    target.symlink_to(os.path.realpath(place / name))

    def _copy_files(self, top: Path, names: Iterable[str]) -> None:
        deadline = time.monotonic() + COPY_SECONDS
        count, room = 0, MAX_BYTES
        made: set[str] = set()
        for name in names:
            try:
                found = os.lstat(top / name)
            except (FileNotFoundError, NotADirectoryError):  # deleted, but not yet told to git
                continue
            count += 1
            room -= found.st_size
            if count > MAX_FILES or room < 0 or time.monotonic() > deadline:
                limits = f"{MAX_FILES} files, {MAX_BYTES} bytes, {COPY_SECONDS:g} seconds"
                raise ScratchFault(f"{top} is too much to copy; the limits are {limits}")
            directory = os.path.dirname(name)
            if directory not in made:
                (self.root / directory).mkdir(parents=True, exist_ok=True)
                made.add(directory)
            if stat.S_ISLNK(found.st_mode):
                self._copy_link(top, name)
            elif stat.S_ISREG(found.st_mode):
                shutil.copy2(top / name, self.root / name)

    def _copy_link(self, top: Path, name: str) -> None:
        """Copy a link. One that leads to a file of the project leads to the copy of it."""
        text = os.readlink(top / name)
        target = os.path.normpath(os.path.join(top, os.path.dirname(name), text))
        if os.path.isabs(text) and target.startswith(f"{top}/"):
            text = str(self.root / os.path.relpath(target, top))
        elif not os.path.isabs(text) and target != str(top) and not target.startswith(f"{top}/"):
            text = target
        os.symlink(text, self.root / name)


def _with_nested(top: Path, names: Iterable[str]) -> Iterator[str]:
    """The names; for a directory, which is another repository within, the files in it."""
    for name in names:
        if os.path.isdir(top / name) and not os.path.islink(top / name):
            yield from (os.path.join(name, inner) for inner, _ in walk(top / name))
        else:
            yield name


def remove_stale(directory: Path | None = None) -> int:
    """Remove the copies of processes that are gone. Says how many there were."""
    count = 0
    for place in Path(directory or tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = place.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if place.is_symlink() or place.stat().st_uid != os.getuid() or not pid.isdigit():
                continue
            if not is_there(int(pid)):
                _remove(place)
                count += 1
    return count


def _remove(place: Path) -> None:
    """Remove a directory, also if parts of it may not be written."""
    shutil.rmtree(place, ignore_errors=True)
    if not os.path.lexists(place):
        return
    for directory, _, _ in os.walk(place):
        with contextlib.suppress(OSError):
            os.chmod(directory, 0o700)
    shutil.rmtree(place, ignore_errors=True)
