"""Changes of files in somebody's directory that are done as a whole, or not at all: an undo, a merge.

Each file has a state that it must have before, and one that it gets. All is written down, with the new
contents and the old ones, before the first file is touched, so a daemon that died in the middle is followed
by one that finishes, or that takes back if that was begun: what has its new state is done, what still has its
old one is changed, and what has neither was changed by somebody meanwhile, and stays. No link is followed.
Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Literal
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec
from msgspec import Struct

from ..keeper import masks
from ..system.files import replace_file
from ..system.opening import directory, read_file

PLAN, BACK = "plan.json", "back.json"
TURNED, DONE = "turned", "done"
"""Marks in a plan's directory: it is being taken back; all of it is done."""
MAX_PLAN = 64 * 1024 * 1024
"""How many bytes a plan may have."""
MAX_SYNCED = 64
"""How many files are written to the disk one by one; if there are more, all there is is written."""
CHUNK = 1024 * 1024

FileKind = Literal["absent", "file", "link", "other"]


class FileState(Struct, frozen=True):
    """What is at a path."""

    kind: FileKind = "absent"
    mode: int = 0
    """The permissions of a file."""
    digest: str = ""
    """A hash of the contents of a file, or of where a link leads."""


ABSENT = FileState()
LOOK_AGAIN = "it has changed since it was shown, so nothing was done: look again"


class FileChange(Struct, frozen=True):
    """One file of a plan."""

    path: str
    """From the top, quoted as in an address: a path may have any bytes."""
    before: FileState
    after: FileState
    content: str = ""
    """The file of the plan's directory with the new contents."""

    @property
    def name(self) -> str:
        return os.fsdecode(unquote_to_bytes(self.path))


class ChangePlan(Struct, frozen=True, kw_only=True):
    """All that is to be changed."""

    id: str
    top: str
    changes: Sequence[FileChange]
    made: Mapping[str, int] = {}
    """Directories that are to be there, with their permissions, by quoted path."""
    kept: Sequence[str] = ()
    """Directories that stay when they become empty, quoted."""
    gone: Sequence[str] = ()
    """Directories that are to go if they are empty, quoted."""
    then: dict[str, str] = {}
    """What whoever made the plan does when it is done."""


class ChangedMeanwhile(Exception):
    """Files are not as they must be before they are changed. Has their names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.names = list(names)


class HalfDone(Exception):
    """Files are changed in part, and can't be changed back now. The plan stays, for when they can. Says
    why."""


class CarriedOut(Struct, frozen=True):
    """What became of a plan that a daemon left behind."""

    is_back: bool
    """Whether it was taken back."""
    left: Sequence[str]
    """Files that somebody changed meanwhile, which were left alone."""


def quoted(path: bytes) -> str:
    return quote_from_bytes(path, safe="/")


def unquoted(path: str) -> str:
    return os.fsdecode(unquote_to_bytes(path))


def digest_of(*facts: object) -> str:
    """A digest of what somebody was shown, so that nothing else is done when they agree to it."""
    return hashlib.sha256(ascii(facts).encode()).hexdigest()


def state_of(top: Path, name: str) -> FileState:
    """What is at a path below a directory; nothing if a part of the path is a link or no directory."""
    try:
        with directory(_real(top) / os.path.dirname(name)) as parent:
            return _state_in(parent, os.path.basename(name))[0]
    except (OSError, ValueError):
        return ABSENT


def _real(top: Path) -> Path:
    return Path(os.path.realpath(top))


def _state_in(parent: int, name: str, copy: BinaryIO | None = None) -> tuple[FileState, _Marks]:
    """What is in a directory, and by what it is known again. Its contents are also written to `copy`."""
    found = _looked_at(parent, name)
    marks = _marks_of(found)
    if found is None:
        return ABSENT, marks
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(os.fsencode(name), dir_fd=parent)
        if copy is not None:
            copy.write(target)
        return FileState("link", 0, hashlib.sha256(target).hexdigest()), marks
    if not stat.S_ISREG(found.st_mode):
        return FileState("other"), marks
    digest = hashlib.sha256()
    with open(_opened(parent, name), "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            if copy is not None:
                copy.write(chunk)
    return FileState("file", stat.S_IMODE(found.st_mode), digest.hexdigest()), marks


_Marks = tuple[int, ...]
"""What changes when a file does: as long as it is the same, the file is as it was when it was read."""


def _looked_at(parent: int, name: str) -> os.stat_result | None:
    with contextlib.suppress(FileNotFoundError):
        return os.lstat(name, dir_fd=parent)
    return None


def _marks_of(found: os.stat_result | None) -> _Marks:
    if found is None:
        return ()
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _opened(parent: int, name: str) -> int:
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)


def write_plan(plan: ChangePlan, place: Path) -> None:
    """Write a plan down, beside its contents: from now on it is done, whatever happens. Raises OSError."""
    contents = [each.path for each in os.scandir(place)]
    if len(contents) > MAX_SYNCED:
        os.sync()
    else:
        for each in contents:
            _to_disk(each)
    replace_file(str(place / PLAN), msgspec.json.encode(plan))
    _to_disk(str(place / PLAN))
    _to_disk(str(place))
    _to_disk(str(place.parent))


def _to_disk(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mark(place: Path, name: str) -> None:
    (place / name).touch()
    _to_disk(str(place))


def read_plan(place: Path, name: str = PLAN) -> ChangePlan | None:
    """The plan in a directory; None if it was not written down as a whole, and so nothing was done."""
    try:
        return msgspec.json.decode(read_file(place / name, MAX_PLAN), type=ChangePlan)
    except (OSError, msgspec.MsgspecError):
        return None


def drop_plan(place: Path) -> None:
    """Remove the directory of a plan that is done, or taken back, or was never begun."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place / PLAN)  # first: without it nothing is done
    shutil.rmtree(place, ignore_errors=True)


def others_of(plan: ChangePlan) -> list[str]:
    """The files that have neither state, or whose place is taken: somebody changed them."""
    top = Path(plan.top)
    going = {each.name for each in plan.changes if each.after.kind == "absent"}
    found = []
    for each in plan.changes:
        now = state_of(top, each.name)
        is_fit = now in (each.before, each.after)
        if now.kind == "other":
            is_fit = each.before.kind == "absent" and _holds_only(top / each.name, going, top)
        if is_fit and each.after.kind != "absent":
            is_fit = _is_reachable(top, each.name, going)
        if not is_fit:
            found.append(each.name)
    return found


def _holds_only(place: Path, going: Collection[str], top: Path) -> bool:
    """Whether a directory has nothing in it but files that will be gone."""
    if not place.is_dir() or place.is_symlink():
        return False
    for above, _, names in os.walk(place):
        for name in names:
            if os.path.relpath(os.path.join(above, name), top) not in going:
                return False
    return all(not (Path(above) / name).is_symlink() for above, below, _ in os.walk(place) for name in below)


def _is_reachable(top: Path, name: str, going: Collection[str]) -> bool:
    """Whether the directories of a path are there, or can be made."""
    above = os.path.dirname(name)
    while above:
        place = top / above
        if place.is_symlink() or (os.path.lexists(place) and not place.is_dir()):
            return above in going
        above = os.path.dirname(above)
    return True


def carry_out(plan: ChangePlan, place: Path) -> None:
    """Do all that a plan says, or nothing of it. Raises ChangedMeanwhile if somebody changes the files just
    then, or OSError; and HalfDone if then it can't be taken back."""
    write_back(plan, place)
    write_plan(plan, place)
    try:
        if left := finish(plan, place):
            raise ChangedMeanwhile(left)
        _mark(place, DONE)
    except ChangedMeanwhile as changed:
        raise ChangedMeanwhile(sorted({*changed.names, *take_back(place)})) from None
    except OSError:
        take_back(place)
        raise


def write_back(plan: ChangePlan, place: Path) -> None:
    """Write down how to take back a plan, with what its files have now. Raises OSError."""
    top = Path(plan.top)
    backs = []
    for number, each in enumerate(plan.changes):
        content = f"old-{number}"
        before = _saved(top, each.name, place / content)
        if before.kind == "other":
            before = ABSENT
        backs.append(FileChange(each.path, each.after, before, content))
    now = {}
    named = {above for each in plan.changes for above in _above(each.name)} | set(map(unquoted, plan.gone))
    for name in sorted(named):
        if (mode := directory_mode(top, name)) is not None:
            now[quoted(os.fsencode(name))] = mode
    for path in plan.made:
        if (mode := directory_mode(top, unquoted(path))) is not None:
            now[path] = mode
    back = ChangePlan(
        id=plan.id,
        top=plan.top,
        changes=backs,
        made=now,
        kept=list(now),
        gone=[path for path in plan.made if path not in now],
    )
    replace_file(str(place / BACK), msgspec.json.encode(back))


def _above(name: str) -> Iterator[str]:
    """The directories of a path, from the innermost to the outermost below the top."""
    while name := os.path.dirname(name):
        yield name


def directory_mode(top: Path, name: str) -> int | None:
    """The permissions of a directory; None if there is none, or a link."""
    try:
        with directory(_real(top) / name) as found:
            return stat.S_IMODE(os.fstat(found).st_mode)
    except (OSError, ValueError):
        return None


def _saved(top: Path, name: str, to: Path) -> FileState:
    """Keep what a file has, so that it can be put back. Returns its state."""
    try:
        with directory(_real(top) / os.path.dirname(name)) as parent, open(to, "wb") as copy:
            return _state_in(parent, os.path.basename(name), copy)[0]
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ABSENT


def take_back(place: Path) -> list[str]:
    """Take back what a plan did. Returns the files that were left alone because somebody changed them since.
    Raises HalfDone."""
    back = read_plan(place, BACK)
    try:
        if back is None:
            raise HalfDone(f"what {place} should have is gone")
        _mark(place, TURNED)
        return finish(back, place)
    except OSError as error:
        raise HalfDone(str(error)) from error


def resume(plan: ChangePlan, place: Path) -> CarriedOut:
    """Finish what a daemon that died was doing, forwards or back, or take it back if that is not possible.
    Raises HalfDone if neither is."""
    if (place / TURNED).exists():
        return CarriedOut(True, take_back(place))
    if (place / DONE).exists():
        return CarriedOut(False, [])
    try:
        left = finish(plan, place)
        _mark(place, DONE)
        return CarriedOut(False, left)
    except OSError:
        return CarriedOut(True, take_back(place))


def finish(plan: ChangePlan, place: Path) -> list[str]:
    """Do what a plan says, or what is left of it. Returns the files that were left alone because somebody
    changed them after the plan was made. Raises OSError."""
    top = _real(Path(plan.top))
    left = []
    kept = set(map(unquoted, plan.kept))
    going = [each for each in plan.changes if each.after.kind == "absent"]
    coming = [each for each in plan.changes if each.after.kind != "absent"]
    for change in sorted(going, key=lambda each: each.name, reverse=True):
        if not _change(plan, change, top, place, kept):
            left.append(change.name)
    for name in sorted(map(unquoted, plan.gone), reverse=True):
        _remove_empty(top, [name, *_above(name)], kept)
    made = {unquoted(path): mode for path, mode in sorted(plan.made.items())}
    for name in made:
        _make_directory(top, name)
    for change in sorted(coming, key=lambda each: each.name):
        if not _change(plan, change, top, place, kept):
            left.append(change.name)
    for name, mode in reversed(made.items()):
        _set_mode(top, name, mode)
    for above in {os.path.dirname(each.name) for each in coming}:
        with contextlib.suppress(OSError, ValueError), directory(top / above) as parent:
            os.unlink(_fresh(plan.id), dir_fd=parent)  # of a daemon that died
    return left


def _change(plan: ChangePlan, change: FileChange, top: Path, place: Path, kept: Collection[str]) -> bool:
    """Give one file its new state. Returns False if it was left alone."""
    where, name = top / os.path.dirname(change.name), os.path.basename(change.name)
    now, marks = ABSENT, _marks_of(None)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError), directory(where) as parent:
        now, marks = _state_in(parent, name)
    if now == change.after:
        return True
    if now != change.before and now.kind != "other":
        return False
    if change.after.kind == "absent":
        return now.kind == "other" or _remove(top, change.name, marks, kept)
    try:
        with directory(where, create=True) as parent:
            return _put(parent, name, change, plan.id, place, marks)
    except ValueError:  # there is a link now
        return False
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOENT):
            return False  # somebody made something of the same name, or a directory into something else
        raise


def _remove(top: Path, name: str, marks: _Marks, kept: Collection[str]) -> bool:
    """Remove a file that is as it was read, and the directories that are empty then. Returns False if it has
    changed."""
    try:
        with directory(top / os.path.dirname(name)) as parent:
            if _marks_of(_looked_at(parent, os.path.basename(name))) != marks:
                return False
            os.unlink(os.path.basename(name), dir_fd=parent)
    except (FileNotFoundError, ValueError):
        return True
    _remove_empty(top, _above(name), kept)
    return True


def _remove_empty(top: Path, names: Iterable[str], kept: Collection[str]) -> None:
    """Remove directories, as long as one after the other is empty."""
    for name in names:
        if name in kept:
            return
        try:
            with directory(top / os.path.dirname(name)) as parent:
                os.rmdir(os.path.basename(name), dir_fd=parent)
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            return


def _make_directory(top: Path, name: str) -> None:
    """Make a directory that nobody else can look into until it gets its permissions."""
    with (
        contextlib.suppress(OSError, ValueError),
        directory(top / os.path.dirname(name), create=True) as above,
    ):
        os.mkdir(os.path.basename(name), 0o700, dir_fd=above)


def _set_mode(top: Path, name: str, mode: int) -> None:
    """Give a directory its permissions, if it is one."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError, ValueError), directory(top / os.path.dirname(name)) as above:
        found = os.open(os.path.basename(name), flags, dir_fd=above)
        try:
            if stat.S_IMODE(os.fstat(found).st_mode) != mode:
                os.fchmod(found, mode)
        finally:
            os.close(found)


def _fresh(id: str) -> str:
    return f".{id}.new"


def _put(parent: int, name: str, change: FileChange, id: str, place: Path, marks: _Marks) -> bool:
    """Write a file or a link beside its place, and put it there at once. Returns False if what is there has
    changed meanwhile."""
    new = _fresh(id)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new, dir_fd=parent)  # of a daemon that died
    data = place / change.content
    if change.after.kind == "link":
        os.symlink(read_file(data, CHUNK), os.fsencode(new), dir_fd=parent)
    else:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(new, flags, 0o600, dir_fd=parent), "wb") as file, open(data, "rb") as source:
            shutil.copyfileobj(source, file, CHUNK)
            os.fchmod(file.fileno(), change.after.mode)
    try:
        found = _looked_at(parent, name)
        if found is not None and stat.S_ISDIR(found.st_mode):
            os.rmdir(name, dir_fd=parent)  # a directory that has become empty
        elif _marks_of(found) != marks:
            os.unlink(new, dir_fd=parent)
            return False
        os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=parent)
        raise
    return True


def mode_for(is_executable: bool, now: FileState) -> int:
    """The permissions for a file of git's: those that it has, or those of a new one."""
    if now.kind == "file":
        readers = now.mode & 0o444
        return now.mode | readers >> 2 if is_executable else now.mode & ~0o111
    new = 0o777 if is_executable else 0o666
    mode = masks.users_mode(new)
    return new & ~0o022 if mode is None else mode


def is_proper(path: bytes) -> bool:
    """Whether a path stays below the top, and out of git's own directories."""
    return all(part not in (b"", b".", b"..") and part.lower() != b".git" for part in path.split(b"/"))


def plans_in(place: Path) -> Iterator[Path]:
    """The directories of plans that were not done to their end."""
    with contextlib.suppress(OSError):
        yield from sorted(each for each in place.iterdir() if each.is_dir())
