"""The files of a working tree as they were before and after turns, kept so that they can be put back.

For each working tree there is a directory in the state directory with an index and objects of our own. The
user's repository is read, and neither its index nor its refs, stash or objects are touched. Contents are kept
byte for byte: no line ending is converted and no filter runs. What git ignores is no part of a snapshot.
Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ..system.opening import read_file
from ..system.repository import Shadow, kept_config, repository_of
from .changing import ABSENT, FileState, is_proper, mode_for, state_of
from .taking import MODULE, TAKE_SECONDS, TreeTooLarge, take_tree

MAX_KEPT_BYTES = 512 * 1024 * 1024
"""How many bytes the contents of one working tree may take; with more all of them are forgotten."""
KEPT_SECONDS = 14 * 86_400.0
"""How long what was not used is kept."""
MAX_ATTRIBUTES = 65_536
_RAW = "* -text -ident -filter -working-tree-encoding -diff\n"
_CONVERTING = (b"text", b"eol", b"crlf", b"ident", b"filter", b"encoding")


class Snapshot(Struct, frozen=True):
    """All files at one moment."""

    tree: str
    modes: Mapping[str, int] = {}
    """Permissions of files that have other ones than git would give them, by path."""

    def only(self, paths: Collection[bytes]) -> Snapshot:
        """The same with the permissions of these files only."""
        names = {path.decode("latin-1") for path in paths}
        return Snapshot(self.tree, {name: mode for name, mode in self.modes.items() if name in names})


class SnapshotStore:
    """The snapshots of one working tree. Use it in a `with`: it looks at the repository anew each time."""

    def __init__(self, project: Path, home: Path) -> None:
        """Raises NoRepository or OSError."""
        self.top, self._real, self._common = repository_of(project)
        self.directory = home / hashlib.sha256(os.fsencode(self.top)).hexdigest()[:16]
        self._shadow = Shadow(project)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SnapshotStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._shadow.close()

    @property
    def _own(self) -> dict[str, str]:
        return {
            "GIT_INDEX_FILE": str(self.directory / "index"),
            "GIT_OBJECT_DIRECTORY": str(self.directory / "objects"),
        }

    @property
    def reading(self) -> dict[str, str]:
        """Variables with which git finds our objects, and those of the repository."""
        objects = str(self._common / "objects").replace("\\", "\\\\").replace('"', '\\"')
        return {**self._own, "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"'}

    def _prepare(self) -> None:
        (self.directory / "objects").mkdir(parents=True, exist_ok=True, mode=0o700)
        os.utime(self.directory)
        (self._shadow.directory / "info/attributes").write_text(_RAW)
        with open(self._shadow.directory / "config", "a") as config:
            config.write("[core]\n\tautocrlf = false\n")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.directory / "index.lock")  # of a daemon that died: only one thread comes here
        index = self.directory / "index"
        if index.exists():
            return
        if not self._converts() and (self._real / "index").is_file():
            shutil.copy2(self._shadow.directory / "index", index)  # git's own knowledge of files is right
            self._shadow.run("update-index", "--no-split-index", env=self._own)
        else:
            names = self._shadow.run("ls-files", "-z")
            self._write([each for each in names.split(b"\0") if each])

    def _converts(self) -> bool:
        """Whether files may be other bytes in git than on the disk."""
        if "autocrlf" in kept_config(self._common / "config"):
            return True
        listed = self._shadow.run("ls-files", "-z", "--", ":(top,glob)**/.gitattributes").split(b"\0")
        paths = [self.top / os.fsdecode(each) for each in listed if each]
        for path in (self._common / "info/attributes", self.top / ".gitattributes", *paths):
            with contextlib.suppress(OSError):
                if any(word in read_file(path, MAX_ATTRIBUTES) for word in _CONVERTING):
                    return True
        return False

    def _write(self, names: list[bytes]) -> None:
        """Put files that are there into a new index, with their contents."""
        top = os.fsencode(self.top)
        there = [each for each in names if _is_file(os.path.join(top, each))]
        if there:
            self._shadow.run(
                *("update-index", "--add", "--replace", "-z", "--stdin"),
                env=self._own,
                input=b"\0".join(there),
                deadline=time.monotonic() + TAKE_SECONDS,
            )

    def take(self) -> Snapshot:
        """The files as they are now. Raises GitFault or TreeTooLarge."""
        if _size_of(self.directory) > MAX_KEPT_BYTES:
            shutil.rmtree(self.directory)
            raise TreeTooLarge(f"the snapshots of {self.top} have more than {MAX_KEPT_BYTES} bytes")
        taken = take_tree(self._shadow, env=self._own)
        return Snapshot(taken.hash, self._modes())

    def _modes(self) -> dict[str, int]:
        listed = self._shadow.run("ls-files", "-z", env=self._own).split(b"\0")[:-1]
        found = {}
        top = os.fsencode(self.top)
        usual = {mode_for(is_executable, ABSENT) for is_executable in (False, True)}
        for name in listed:
            with contextlib.suppress(OSError):
                it = os.lstat(os.path.join(top, name))
                if stat.S_ISREG(it.st_mode) and (mode := stat.S_IMODE(it.st_mode)) not in usual:
                    found[name.decode("latin-1")] = mode
        return found

    def changed(self, before: Snapshot, after: Snapshot) -> list[bytes]:
        """The paths that differ, without repositories within."""
        rows = self._rows(before, after)
        modes = {
            path.encode("latin-1")
            for path in before.modes.keys() | after.modes.keys()
            if before.modes.get(path) != after.modes.get(path)
        }
        there = {path for path in modes if self._has(before, path) and self._has(after, path)}
        return sorted({path for path, facts in rows.items() if MODULE not in facts} | there)

    def _rows(self, before: Snapshot, after: Snapshot) -> dict[bytes, list[str]]:
        """The paths that differ, with the modes before and after and the objects before and after."""
        options = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev")
        told = self._shadow.run("diff-tree", *options, before.tree, after.tree, "--", env=self.reading)
        words = told.split(b"\0")[:-1]
        return {path: facts.decode().lstrip(":").split() for facts, path in zip(words[::2], words[1::2])}

    def _has(self, snapshot: Snapshot, path: bytes) -> bool:
        name = path.decode("latin-1")
        return name in snapshot.modes or bool(
            self._shadow.run("ls-tree", "-z", snapshot.tree, "--", os.fsdecode(path), env=self.reading)
        )

    def has(self, snapshot: Snapshot) -> bool:
        """Whether what was kept of a snapshot is still there."""
        told = self._shadow.run("cat-file", "-t", snapshot.tree, env=self.reading, codes=(0, 1, 128))
        return told.strip() == b"tree"

    def keep(self, before: Snapshot, after: Snapshot) -> None:
        """Have the contents that differ among our own objects, whatever becomes of the repository's."""
        ids = {each for facts in self._rows(before, after).values() for each in facts[2:4] if each.strip("0")}
        modules = {f[at + 2] for f in self._rows(before, after).values() for at in (0, 1) if f[at] == MODULE}
        wanted = "".join(f"{each}\n" for each in sorted(ids - modules)).encode()
        if wanted:
            pack = self.directory / "objects/pack"
            pack.mkdir(exist_ok=True, mode=0o700)
            self._shadow.run("pack-objects", "-q", str(pack / "pack"), input=wanted, env=self.reading)

    def put_out(
        self, snapshot: Snapshot, paths: Collection[bytes], place: Path
    ) -> dict[bytes, tuple[FileState, Path]]:
        """Write files as they were to a directory: their states by path, and where each is. A path that was
        not there is not in it. Raises GitFault."""
        place.mkdir(mode=0o700)
        env = {**self.reading, "GIT_INDEX_FILE": f"{place}.index"}
        self._shadow.run("read-tree", snapshot.tree, env=env)
        known = set(self._shadow.run("ls-files", "-z", env=env).split(b"\0"))
        found = {}
        wanted = [path for path in paths if path in known and is_proper(path)]
        options = ("-z", "--stdin", f"--prefix={place}/")
        self._shadow.run("checkout-index", *options, env=env, input=b"\0".join(wanted))
        os.unlink(f"{place}.index")
        for path in wanted:
            name = os.fsdecode(path)
            state = state_of(place, name)
            if state.kind == "file":
                usual = mode_for(bool(state.mode & 0o100), ABSENT)
                state = FileState("file", snapshot.modes.get(path.decode("latin-1"), usual), state.digest)
            if state != ABSENT:
                found[path] = state, place / name
        return found

    def ignored(self, snapshot: Snapshot, paths: Collection[bytes], place: Path) -> set[bytes]:
        """Those of the paths that git ignored by the rules of a snapshot."""
        if not paths:
            return set()
        listed = self._shadow.run("ls-tree", "-r", "-z", "--name-only", snapshot.tree, env=self.reading)
        rules = [each for each in listed.split(b"\0") if os.path.basename(each) == b".gitignore"]
        self.put_out(snapshot, rules, place)
        env = {"GIT_WORK_TREE": str(place), "GIT_INDEX_FILE": f"{place}.none"}
        options = ("check-ignore", "--no-index", "-z", "--stdin")
        told = self._shadow.run(*options, env=env, cwd=place, input=b"\0".join(paths), codes=(0, 1))
        return set(told.split(b"\0")) - {b""}


def _is_file(path: bytes) -> bool:
    with contextlib.suppress(OSError):
        mode = os.lstat(path).st_mode
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode)
    return False


def _size_of(place: Path) -> int:
    return sum(_sizes(place))


def _sizes(place: Path) -> Iterator[int]:
    for above, _, names in os.walk(place):
        for name in names:
            with contextlib.suppress(OSError):
                yield os.lstat(os.path.join(above, name)).st_size


def forget_old(home: Path) -> None:
    """Remove what was not used for long."""
    oldest = time.time() - KEPT_SECONDS
    with contextlib.suppress(OSError):
        for each in home.iterdir():
            if each.stat().st_mtime < oldest:
                shutil.rmtree(each, ignore_errors=True)
                with contextlib.suppress(OSError):
                    each.unlink()
