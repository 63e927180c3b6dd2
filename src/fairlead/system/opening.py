"""Where a path leads that a model, a project or a peer gave, and opening exactly that.

A path is made absolute, with all links followed, once: what a policy has judged is the path without links.
Files are then opened from the root downwards without following any link, so a link that somebody puts there
between the judging and the opening is an error and never a way out of the project. What is read
without a policy's judgement (`open_regular` and below) is a regular file: a pipe would be waited for.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..keeper import masks

MAX_PATH = 4096
MAX_LINKS = 40
"""How many links a path may lead through, as for the kernel."""
UNFOLLOWED = os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags to write a file where somebody else may have put a link or a pipe of its name."""
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class PathError(ValueError):
    """A path that can't be used, and why."""


def resolve(path: str, cwd: Path) -> Path:
    """Where a path leads, from `cwd`. It need not exist. Raises PathError."""
    if "\0" in path:
        raise PathError("a path must not contain a NUL character")
    if len(path) > MAX_PATH:
        raise PathError(f"a path must have at most {MAX_PATH} characters, not {len(path)}")
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)
    try:
        return Path(os.path.realpath(cwd / path))
    except (OSError, UnicodeEncodeError) as error:
        raise PathError(f"{path_text(path)}: {error}") from None


def links_to(path: str, cwd: Path) -> tuple[Path, ...]:
    """The links that a path leads through, each where it is, with what else is in the path."""
    found: list[Path] = []
    at, rest = "/", os.path.join(cwd, os.path.expanduser(path)).split("/")[::-1]
    while rest and len(found) <= MAX_LINKS:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = os.path.dirname(at)
            continue
        place = os.path.join(at, part)
        try:
            leads_to = os.readlink(place)
        except (OSError, ValueError):  # it is no link
            at = place
            continue
        found.append(Path(place, *reversed(rest)))
        at = "/" if leads_to.startswith("/") else at
        rest += leads_to.split("/")[::-1]
    return tuple(found)


def path_text(path: str | os.PathLike[str], cwd: Path | None = None) -> str:
    """A path as text that can be written down: seen from `cwd` if it is in there, without odd characters."""
    text = os.fspath(path)
    if cwd is not None:
        for base in (str(cwd), os.path.realpath(cwd)):
            if Path(text).is_relative_to(base):
                text = str(Path(text).relative_to(base))
                break
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


@contextmanager
def directory(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of a directory, to be used as `dir_fd`. The path must be one that `resolve` gave."""
    here = os.open("/", _STEP)
    try:
        for part in path.parts[1:]:
            if create:
                try:
                    os.mkdir(part, dir_fd=here)
                    if (mode := masks.users_mode(0o777)) is not None:
                        os.chmod(part, mode, dir_fd=here)
                except FileExistsError:
                    pass
            try:
                below = os.open(part, _STEP, dir_fd=here)
            except OSError as error:
                raise _explained(error, part, here, path) from None
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def open_here(path: Path, flags: int) -> int:
    """Open what a resolved path names, without following links and without waiting for anybody."""
    with directory(path.parent) as parent:
        try:
            return os.open(
                path.name or ".",
                flags | UNFOLLOWED | os.O_CLOEXEC | os.O_NOCTTY,
                dir_fd=parent,
            )
        except OSError as error:
            raise _explained(error, path.name or ".", parent, path) from None


def open_regular(
    path: str | os.PathLike[str], flags: int = os.O_RDONLY, *, within: str | os.PathLike[str] | None = None
) -> int:
    """Open a regular file, never waiting for anybody. Links may not lead out of `within`.

    Raises OSError: anything else than a regular file is one too.
    """
    try:
        real = Path(os.path.realpath(path))
        if within is not None and not leads_into(real, within):
            raise OSError(errno.EXDEV, f"it is a link to outside of {path_text(within)}", path_text(path))
        descriptor = open_here(real, flags)
    except ValueError as error:  # a PathError, or a name that can't be one
        raise OSError(errno.ELOOP, str(error), path_text(path)) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"it is {kind_of(mode)}, not a regular file", path_text(path))
    return descriptor


def leads_into(path: str | os.PathLike[str], directory: str | os.PathLike[str]) -> bool:
    """True if a path, with all links followed, is in a directory."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory))


def open_file(path: str | os.PathLike[str], *, within: str | os.PathLike[str] | None = None) -> BinaryIO:
    """A regular file, to be read. Raises OSError as `open_regular` does."""
    return open(open_regular(path, within=within), "rb")


def read_file(
    path: str | os.PathLike[str], limit: int, *, within: str | os.PathLike[str] | None = None
) -> bytes:
    """The first bytes of a regular file, at most `limit`. Raises OSError as `open_regular` does."""
    with open_file(path, within=within) as file:
        return file.read(limit)


def file_id(descriptor: int) -> str:
    """Which file an open one is, whatever it is called: its device and inode."""
    found = os.fstat(descriptor)
    return f"{found.st_dev}:{found.st_ino}"


def open_made(path: str, made: str) -> BinaryIO:
    """The regular file of ours that was made at a path, to be read: `made` is its `file_id`. What others put
    there since, a link to it or a file with another name too is an OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | UNFOLLOWED)
    file = open(descriptor, "rb")  # noqa: SIM115 - the caller closes it
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise OSError(errno.EINVAL, "it is no regular file of this user", path)
        if found.st_nlink != 1:
            raise OSError(errno.EMLINK, "it has other names too", path)
        if file_id(descriptor) != made:
            raise OSError(errno.ESTALE, "it is another file than the one that was made", path)
    except BaseException:
        file.close()
        raise
    return file


def _explained(error: OSError, part: str, parent: int, path: Path) -> OSError | PathError:
    """The error; or, if there is a link now, what that means."""
    try:
        is_link = stat.S_ISLNK(os.lstat(part, dir_fd=parent).st_mode)
    except OSError:
        is_link = False
    if is_link or error.errno == errno.ELOOP:
        return PathError(
            f"{path_text(path)}: it is now a symbolic link, or a loop of links, which is not followed"
        )
    error.filename = path_text(path)
    return error


def kind_of(mode: int) -> str:
    """What a file is, if it is not a regular one."""
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in kinds if test(mode)), "not a regular file")
