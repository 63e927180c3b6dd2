"""Changes of files in somebody's directory that are done as a whole, or not at all: an undo, a merge.

Each file has a state that it must have before, and one that it gets. All is written down, with the new
contents, before the first file is touched, so a daemon that died in the middle is followed by one that
finishes: what has its new state is done, what still has its old one is changed, and what has neither was
changed by somebody meanwhile, and stays. No link is followed. Everything here blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec
from msgspec import Struct

from ..keeper import masks
from ..system.files import replace_file
from ..system.opening import directory, read_file

PLAN, BACK = "plan.json", "back.json"
MAX_PLAN = 64 * 1024 * 1024
"""How many bytes a plan may have."""
CHUNK = 1024 * 1024

FileKind = Literal["absent", "file", "link", "other"]


class FileState(Struct, frozen=True):
    """What is at a path."""

    kind: FileKind = "absent"
    mode: int = 0
    """The permissions of a file."""
    digest: str = ""
    """A hash of the contents of a file, or of where a link leads."""

    def is_like(self, other: FileState) -> bool:
        """Whether another has the same contents, and may be executed or not as this one."""
        is_same = (self.kind, self.digest) == (other.kind, other.digest)
        return is_same and bool(self.mode & 0o100) == bool(other.mode & 0o100)


ABSENT = FileState()


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
    is_forced: bool = False
    """Whether files are changed that have neither state."""
    then: dict[str, str] = {}
    """What whoever made the plan does when it is done."""


class ChangedMeanwhile(Exception):
    """Files are not as they must be before they are changed. Has their names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.names = list(names)


def quoted(path: bytes) -> str:
    return quote_from_bytes(path, safe="/")


def state_of(top: Path, name: str) -> FileState:
    """What is at a path below a directory; nothing if a part of the path is a link or no directory."""
    try:
        with directory(_real(top) / os.path.dirname(name)) as parent:
            return _state_in(parent, os.path.basename(name))
    except (OSError, ValueError):
        return ABSENT


def _real(top: Path) -> Path:
    return Path(os.path.realpath(top))


def _state_in(parent: int, name: str) -> FileState:
    try:
        found = os.lstat(name, dir_fd=parent)
    except OSError:
        return ABSENT
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(os.fsencode(name), dir_fd=parent)
        return FileState("link", 0, hashlib.sha256(target).hexdigest())
    if not stat.S_ISREG(found.st_mode):
        return FileState("other")
    digest = hashlib.sha256()
    with open(_opened(parent, name), "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return FileState("file", stat.S_IMODE(found.st_mode), digest.hexdigest())


def _opened(parent: int, name: str) -> int:
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)


def write_plan(plan: ChangePlan, place: Path) -> None:
    """Write a plan down, beside its contents: from now on it is done, whatever happens. Raises OSError."""
    for each in os.scandir(place):
        _to_disk(each.path)
    replace_file(str(place / PLAN), msgspec.json.encode(plan))
    _to_disk(str(place / PLAN))
    _to_disk(str(place))


def _to_disk(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_plan(place: Path) -> ChangePlan | None:
    """The plan in a directory; None if it was not written down as a whole, and so nothing was done."""
    try:
        return msgspec.json.decode(read_file(place / PLAN, MAX_PLAN), type=ChangePlan)
    except (OSError, msgspec.MsgspecError):
        return None


def others_of(plan: ChangePlan) -> list[str]:
    """The files that have neither state, or whose place is taken: somebody changed them."""
    top = Path(plan.top)
    going = {each.name for each in plan.changes if each.after.kind == "absent"}
    found = []
    for each in plan.changes:
        now = state_of(top, each.name)
        is_fit = now.is_like(each.before) or now.is_like(each.after)
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
    then, or OSError."""
    top = Path(plan.top)
    backs = []
    for number, each in enumerate(plan.changes):
        before, content = state_of(top, each.name), f"old-{number}"
        if before.kind in ("file", "link"):
            _save(top, each.name, before, place / content)
        elif before.kind == "other":
            before = ABSENT
        backs.append(FileChange(each.path, each.after, before, content))
    back = ChangePlan(id=plan.id, top=plan.top, changes=backs)
    replace_file(str(place / BACK), msgspec.json.encode(back))
    write_plan(plan, place)
    try:
        if left := finish(plan, place):
            raise ChangedMeanwhile(left)
    except Exception:
        finish(back, place)
        raise


def take_back(place: Path) -> None:
    """Take back what a plan did that was carried out."""
    finish(msgspec.json.decode(read_file(place / BACK, MAX_PLAN), type=ChangePlan), place)


def _save(top: Path, name: str, state: FileState, to: Path) -> None:
    """Keep what a file has, so that it can be put back."""
    with directory(_real(top) / os.path.dirname(name)) as parent:
        if state.kind == "link":
            to.write_bytes(os.readlink(os.fsencode(os.path.basename(name)), dir_fd=parent))
            return
        with open(_opened(parent, os.path.basename(name)), "rb") as file, open(to, "wb") as copy:
            shutil.copyfileobj(file, copy, CHUNK)


def finish(plan: ChangePlan, place: Path) -> list[str]:
    """Do what a plan says, or what is left of it. Returns the files that were left alone because somebody
    changed them after the plan was made."""
    top = _real(Path(plan.top))
    left = []
    going = [each for each in plan.changes if each.after.kind == "absent"]
    coming = [each for each in plan.changes if each.after.kind != "absent"]
    for change in sorted(going, key=lambda each: each.name, reverse=True):
        if not _change(plan, change, top, place):
            left.append(change.name)
    for change in sorted(coming, key=lambda each: each.name):
        if not _change(plan, change, top, place):
            left.append(change.name)
    return left


def _change(plan: ChangePlan, change: FileChange, top: Path, place: Path) -> bool:
    """Give one file its new state. Returns False if it was left alone."""
    now = state_of(top, change.name)
    if now == change.after:
        return True
    is_old = now.is_like(change.before) or now.is_like(change.after)
    if not is_old and not (plan.is_forced and now.kind in ("absent", "file", "link")) and now.kind != "other":
        return False
    if change.after.kind == "absent":
        return now.kind == "other" or _remove(top, change.name)
    try:
        with directory(top / os.path.dirname(change.name), create=True) as parent:
            _put(parent, os.path.basename(change.name), change, plan.id, place)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (
            errno.ENOSPC,
            errno.EDQUOT,
            errno.EROFS,
            errno.EACCES,
        ):
            raise
        return False
    return True


def _remove(top: Path, name: str) -> bool:
    """Remove a file, and the directories that are empty then."""
    try:
        with directory(top / os.path.dirname(name)) as parent:
            os.unlink(os.path.basename(name), dir_fd=parent)
    except (FileNotFoundError, ValueError):
        return True
    above = os.path.dirname(name)
    while above:
        try:
            with directory(top / os.path.dirname(above)) as parent:
                os.rmdir(os.path.basename(above), dir_fd=parent)
        except (OSError, ValueError):
            break
        above = os.path.dirname(above)
    return True


def _put(parent: int, name: str, change: FileChange, id: str, place: Path) -> None:
    """Write a file or a link beside its place, and put it there at once."""
    new = f".{id}.new"
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
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=parent)  # a directory that has become empty
        os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        os.unlink(new, dir_fd=parent)
        raise


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
