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
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ..keeper import masks
from ..system.opening import read_file
from ..system.repository import Shadow, kept_config, repository_of
from .changing import ABSENT, FileState, is_proper, mode_for, state_of
from .taking import MAX_FILES, MODULE, TAKE_SECONDS, TreeTooLarge, add_files, take_tree

MAX_KEPT_BYTES = 512 * 1024 * 1024
"""How many bytes the contents of one working tree may take; with more all of them are forgotten."""
KEPT_SECONDS = 14 * 86_400.0
"""How long what was not used is kept."""
CONTENT_SECONDS = 120.0
"""How long one call of git may take that copies the contents of many files."""
MAX_ATTRIBUTES = 65_536
MAX_RULES = 65_536
"""How many bytes are kept of a file with rules about what git ignores."""
MAX_DIRECTORIES = 10_000
"""How many directories that git does not know are looked at,"""
MAX_EMPTY = 2000
"""and how many empty ones are noted."""
MAX_WITHIN = 20_000
"""How many files of what is not in a snapshot are looked at to tell whether it changed."""
_RAW = "* -text -ident -filter -working-tree-encoding -diff\n"
_CONVERTING = (b"text", b"eol", b"crlf", b"ident", b"filter", b"encoding")


class Snapshot(Struct, frozen=True):
    """All files at one moment. Paths are written with a character for each byte."""

    tree: str
    modes: Mapping[str, int] = {}
    """Permissions of files that have other ones than the usual, by path,"""
    directories: Mapping[str, int] = {}
    """and of directories."""
    usual: tuple[int, ...] = ()
    """The usual permissions of files, of those that may be executed, and of directories."""
    empty: Sequence[str] = ()
    """Directories with nothing in them."""
    left_out: Mapping[str, str] = {}
    """What is not in the tree, for it is too large or a repository of its own, with what tells whether it
    changed."""
    rules: str = ""
    """What git ignored besides the rules in the tree."""

    def only(self, paths: Collection[bytes], directories: Collection[bytes]) -> Snapshot:
        """The same with what is needed for these files and directories only."""
        names, around = set(map(_text, paths)), set(map(_text, directories))
        return msgspec.structs.replace(
            self,
            modes={name: mode for name, mode in self.modes.items() if name in names},
            directories={name: mode for name, mode in self.directories.items() if name in around},
            empty=[name for name in self.empty if name in around],
        )

    def mode_of(self, path: bytes, *, is_executable: bool) -> int:
        usual = self.usual[is_executable] if self.usual else mode_for(is_executable, ABSENT)
        return self.modes.get(_text(path), usual)

    def directory_mode(self, path: bytes) -> int:
        usual = self.usual[2] if self.usual else _usual()[2]
        return self.directories.get(_text(path), usual)


class DirectoryChanges(NamedTuple):
    """How the directories of one snapshot differ from those of another."""

    empty: frozenset[bytes]
    """Those that are empty in one of them only."""
    modes: Mapping[bytes, tuple[int, int]]
    """Permissions before and after of those that are in both."""

    def needed(self, paths: Collection[bytes]) -> set[bytes]:
        """The directories about which something has to be known to put back files, and these."""
        return {*all_above(paths), *self.empty, *all_above(self.empty)}


class CannotKeep(Exception):
    """Files that are too large to be kept, or can't be read. Has their names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.names = list(names)


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
            names = {each for each in self._shadow.run("ls-files", "-z").split(b"\0") if each}
            if len(names) > MAX_FILES:
                why = f"git may change the bytes of its {len(names)} files"
                raise TreeTooLarge(f"{self.top}: {why}, and at most {MAX_FILES} can be noted then")
            new = f"{index}.new"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new)
            env = {**self._own, "GIT_INDEX_FILE": new}
            self._shadow.run("read-tree", "--empty", env=env)
            add_files(self._shadow, names, env, time.monotonic() + TAKE_SECONDS)
            os.replace(new, index)

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

    def take(self, also: Collection[bytes] = ()) -> Snapshot:
        """The files as they are now, and others even if git ignores them. Raises GitFault or TreeTooLarge, or
        CannotKeep if one of the others can't be kept."""
        if _size_of(self.directory) > MAX_KEPT_BYTES:
            shutil.rmtree(self.directory)
            self._prepare()
        deadline = time.monotonic() + TAKE_SECONDS
        taken = take_tree(self._shadow, env=self._own, deadline=deadline)
        env, tree = self._own, taken.hash
        if also:
            env = {**env, "GIT_INDEX_FILE": str(self.directory / "index.also")}
            shutil.copy2(self.directory / "index", env["GIT_INDEX_FILE"])
            if left := add_files(self._shadow, set(also), env, deadline):
                raise CannotKeep([os.fsdecode(each) for each in left])
            tree = self._shadow.run("write-tree", "--missing-ok", env=env, deadline=deadline).decode().strip()
        names = self._shadow.run("ls-files", "-z", env=env, deadline=deadline).split(b"\0")[:-1]
        empty = self._empty(deadline)
        return Snapshot(
            tree,
            modes=self._modes(names),
            directories=self._directory_modes({*all_above(names), *empty, *all_above(empty)}),
            usual=_usual(),
            empty=[_text(each) for each in empty],
            left_out={_text(path): self._signature(path) for path in taken.paths},
            rules=self._rules(),
        )

    def _modes(self, names: Collection[bytes]) -> dict[str, int]:
        found = {}
        top, usual = os.fsencode(self.top), _usual()[:2]
        for name in names:
            with contextlib.suppress(OSError):
                it = os.lstat(os.path.join(top, name))
                if stat.S_ISREG(it.st_mode) and (mode := stat.S_IMODE(it.st_mode)) not in usual:
                    found[_text(name)] = mode
        return found

    def _directory_modes(self, names: Collection[bytes]) -> dict[str, int]:
        found = {}
        top, usual = os.fsencode(self.top), _usual()[2]
        for name in names:
            with contextlib.suppress(OSError):
                it = os.lstat(os.path.join(top, name))
                if stat.S_ISDIR(it.st_mode) and (mode := stat.S_IMODE(it.st_mode)) != usual:
                    found[_text(name)] = mode
        return found

    def _empty(self, deadline: float) -> list[bytes]:
        """The directories that have nothing in them and are not ignored."""
        options = ("--others", "--directory", "--exclude-standard", "-z")
        listed = self._shadow.run("ls-files", *options, env=self._own, deadline=deadline).split(b"\0")
        top, left, found = os.fsencode(self.top), MAX_DIRECTORIES, list[bytes]()
        for name in listed:
            if not name.endswith(b"/"):
                continue
            for above, below, files in os.walk(os.path.join(top, name[:-1])):
                if b".git" in below or b".git" in files:
                    below.clear()
                    continue
                if not below and not files:
                    found.append(os.path.relpath(above, top))
                left -= 1
                if not left or len(found) == MAX_EMPTY:
                    return found
        return found

    def _signature(self, path: bytes) -> str:
        """What is another text when something at a path has changed."""
        place = os.path.join(os.fsencode(self.top), path.rstrip(b"/"))
        digest = hashlib.sha256()
        left = MAX_WITHIN
        with contextlib.suppress(OSError):
            digest.update(_facts(place))
        for above, below, files in os.walk(place):
            below[:] = sorted(each for each in below if each != b".git")
            for name in sorted(files):
                with contextlib.suppress(OSError):
                    each = os.path.join(above, name)
                    digest.update(os.path.relpath(each, place) + b"\0" + _facts(each))
                left -= 1
            if left < 0:
                break
        return digest.hexdigest()[:32]

    def _rules(self) -> str:
        texts = []
        for path in (self._shadow.excludes, str(self._shadow.directory / "info/exclude")):
            with contextlib.suppress(OSError):
                texts.append(read_file(path, MAX_RULES).decode("latin-1"))
        return "\n".join(texts)

    def changed(self, before: Snapshot, after: Snapshot) -> list[bytes]:
        """The paths of files that differ, without what is not recorded of one of the two."""
        rows = self._rows(before, after)
        modes = {
            path for name in before.modes.keys() | after.modes.keys() if (path := _bytes(name)) not in rows
        }
        for path in list(modes):
            known = before.modes.get(_text(path), after.modes.get(_text(path), 0))
            facts = {"is_executable": bool(known & 0o100)}
            if before.mode_of(path, **facts) == after.mode_of(path, **facts):
                modes.discard(path)
        if modes:
            modes &= self._names(before) & self._names(after)
        found = {path for path, facts in rows.items() if MODULE not in facts} | modes
        lost = set(self.unrecorded(before, after))
        return sorted(path for path in found if not lost or not lost.intersection((path, *_above(path))))

    def unrecorded(self, before: Snapshot, after: Snapshot) -> list[bytes]:
        """What changed of which not both are known: it was too large then, or a repository of its own."""
        names = before.left_out.keys() | after.left_out.keys()
        differing = (name for name in names if before.left_out.get(name) != after.left_out.get(name))
        return sorted({_bytes(name).rstrip(b"/") for name in differing})

    def directories(self, before: Snapshot, after: Snapshot) -> DirectoryChanges:
        """How the directories differ. Raises GitFault."""
        modes = {}
        for name in before.directories.keys() | after.directories.keys():
            pair = before.directory_mode(_bytes(name)), after.directory_mode(_bytes(name))
            if pair[0] != pair[1]:
                modes[_bytes(name)] = pair
        if modes:
            there = self._all_directories(before) & self._all_directories(after)
            modes = {path: pair for path, pair in modes.items() if path in there}
        empty = set(before.empty) ^ set(after.empty)
        return DirectoryChanges(frozenset(map(_bytes, empty)), modes)

    def _all_directories(self, snapshot: Snapshot) -> set[bytes]:
        empty = list(map(_bytes, snapshot.empty))
        return {*all_above(self._names(snapshot)), *empty, *all_above(empty)}

    def _names(self, snapshot: Snapshot) -> set[bytes]:
        listed = self._shadow.run("ls-tree", "-r", "-z", "--name-only", snapshot.tree, env=self.reading)
        return set(listed.split(b"\0"))

    def late(self, paths: Collection[bytes], since: float) -> list[bytes]:
        """Those of the paths at which something was done after a moment, as far as the file system knows."""
        top, found = os.fsencode(self.top), []
        for path in paths:
            place = os.path.join(top, path)
            if not os.path.lexists(place):
                place = next((at for at in _parents(place) if os.path.isdir(at)), top)
            with contextlib.suppress(OSError):
                if os.lstat(place).st_ctime > since:
                    found.append(path)
        return found

    def _rows(self, before: Snapshot, after: Snapshot) -> dict[bytes, list[str]]:
        """The paths that differ, with the modes before and after and the objects before and after."""
        options = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev")
        told = self._shadow.run("diff-tree", *options, before.tree, after.tree, "--", env=self.reading)
        words = told.split(b"\0")[:-1]
        return {path: facts.decode().lstrip(":").split() for facts, path in zip(words[::2], words[1::2])}

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
            options = ("-q", "--window=0", str(pack / "pack"))
            env = self.reading
            self._shadow.run("pack-objects", *options, input=wanted, env=env, seconds=CONTENT_SECONDS)

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
        given = b"\0".join(wanted)
        self._shadow.run("checkout-index", *options, env=env, input=given, seconds=CONTENT_SECONDS)
        os.unlink(f"{place}.index")
        for path in wanted:
            name = os.fsdecode(path)
            state = state_of(place, name)
            if state.kind == "file":
                mode = snapshot.mode_of(path, is_executable=bool(state.mode & 0o100))
                state = FileState("file", mode, state.digest)
            if state != ABSENT:
                found[path] = state, place / name
        return found

    def ignored(self, snapshot: Snapshot, paths: Collection[bytes], place: Path) -> set[bytes]:
        """Those of the paths that git ignored by the rules of a snapshot."""
        if not paths:
            return set()
        rules = [each for each in self._names(snapshot) if os.path.basename(each) == b".gitignore"]
        self.put_out(snapshot, rules, place)
        env = {"GIT_WORK_TREE": str(place), "GIT_INDEX_FILE": f"{place}.none"}
        options = ("check-ignore", "--no-index", "-z", "--stdin")
        given = b"\0".join(paths)
        excludes = self._shadow.directory / "info/exclude"
        now = excludes.read_bytes() if excludes.exists() else b""
        excludes.write_text(snapshot.rules, "latin-1")
        try:
            told = self._shadow.run(*options, env=env, cwd=place, input=given, codes=(0, 1))
        finally:
            excludes.write_bytes(now)
        return set(told.split(b"\0")) - {b""}


def _text(path: bytes) -> str:
    return path.decode("latin-1")


def _bytes(name: str) -> bytes:
    return name.encode("latin-1")


def _usual() -> tuple[int, int, int]:
    mode = masks.users_mode(0o777)
    return mode_for(False, ABSENT), mode_for(True, ABSENT), 0o755 if mode is None else mode


def _above(path: bytes) -> Iterator[bytes]:
    """The directories of a path, from the innermost on."""
    while path := os.path.dirname(path):
        yield path


def all_above(paths: Collection[bytes]) -> set[bytes]:
    """All directories that paths are in."""
    found = set[bytes]()
    for path in paths:
        for above in _above(path):
            if above in found:
                break
            found.add(above)
    return found


def _parents(place: bytes) -> Iterator[bytes]:
    while (above := os.path.dirname(place)) != place:
        yield above
        place = above


def _facts(path: bytes) -> bytes:
    it = os.lstat(path)
    return f"{it.st_mode} {it.st_ino} {it.st_size if not stat.S_ISDIR(it.st_mode) else 0} ".encode() + (
        b"" if stat.S_ISDIR(it.st_mode) else f"{it.st_mtime_ns} {it.st_ctime_ns}".encode()
    )


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
