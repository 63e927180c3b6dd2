"""The files of a directory, for `@` in a chat: looked for by a thread, so that nobody waits for a slow disk.

Git says which there are and which are ignored; elsewhere directories are walked. What was found so far can be
used at any time, and a socket becomes readable when there is more.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator

MAX_FILES = 50_000
"""How many paths are kept; the first ones that come."""
SCAN_SECONDS = 10.0
"""How long is looked for them."""
TOLD_EVERY = 0.1
"""Seconds between two times that it is told that there is more."""
FRESH_SECONDS = 5.0
"""How long what was found counts as how it is."""
MAX_MATCHES = 200
"""How many of those that fit are offered."""
MAX_PATH = 4096
READ_SIZE = 65_536
IGNORED = frozenset({"node_modules", "__pycache__", "venv", "target", "build", "dist"})
"""Directories that are not walked where there is no git to say what is ignored; hidden ones aren't either."""
_GIT = (
    *("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("ls-files", "-z", "--cached", "--others", "--exclude-standard"),
)


class ProjectPaths:
    """Looks when it is asked to, one time after the other."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._at = ""  # the directory that they are in
        self._looked_at = 0.0
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._ends = socket.socketpair()
        for end in self._ends:
            end.setblocking(False)

    def close(self) -> None:
        """The thread ends by itself; it owns nothing that outlives the process."""
        self._stop.set()
        self._ends[0].close()

    def fileno(self) -> int:
        return self._ends[0].fileno()

    @property
    def is_looking(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def heard(self) -> None:
        """Take notice of what was told."""
        with contextlib.suppress(BlockingIOError):
            self._ends[0].recv(READ_SIZE)

    def look(self, directory: str) -> None:
        """Look for what is in a directory, if that was not done just now."""
        is_fresh = directory == self._at and time.monotonic() - self._looked_at < FRESH_SECONDS
        if is_fresh or not directory:
            return
        self._stop.set()
        self._stop = threading.Event()
        is_other = directory != self._at
        self._at, self._looked_at = directory, time.monotonic()
        paths: list[str] = []
        if is_other:
            self._paths = paths
        self._thread = threading.Thread(
            target=self._scan, args=(directory, paths, self._stop), name="fairlead-paths", daemon=True
        )
        self._thread.start()

    def matching(self, part: str) -> list[str]:
        """The paths that have a text in them, those whose name begins with it first."""
        wanted = part.lower()
        found: list[tuple[int, int, str]] = []
        for path in _with_directories(self._paths[:]):
            lower = path.lower()
            if wanted in lower:
                name = lower.rstrip("/").rpartition("/")[2]
                rank = 0 if lower.startswith(wanted) else 1 if name.startswith(wanted) else 2
                found.append((rank if wanted in name or rank == 0 else 3, len(path), path))
        found.sort()
        return [path for _, _, path in found[:MAX_MATCHES]]

    def _scan(self, directory: str, paths: list[str], stop: threading.Event) -> None:
        """In the thread: those of a directory that was looked at before stay until all are found anew."""
        deadline = time.monotonic() + SCAN_SECONDS
        told_at = time.monotonic()
        with contextlib.suppress(OSError, ValueError):
            for path in _paths_of(directory, deadline, stop):
                paths.append(path)
                if len(paths) >= MAX_FILES or time.monotonic() > deadline or stop.is_set():
                    break
                if time.monotonic() - told_at > TOLD_EVERY:
                    told_at = time.monotonic()
                    self._tell()
        if not stop.is_set():
            self._paths = paths
            self._thread = None
            self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(OSError):  # it is known already, or nobody wants to know
            self._ends[1].send(b"\0")


def _with_directories(paths: Iterable[str]) -> Iterator[str]:
    """Paths, and the directories that they are in."""
    seen: set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in seen:
            seen.add(parent)
            yield f"{parent}/"
            parent = parent.rpartition("/")[0]
        yield path


def _paths_of(directory: str, deadline: float, stop: threading.Event) -> Iterator[str]:
    """Paths from a directory on."""
    if shutil.which("git") is not None:
        listing = _listed(directory, deadline, stop)
        first = next(listing, None)
        if first is not None:
            yield first
            yield from listing
            return
    yield from _walked(directory, deadline, stop)


def _listed(directory: str, deadline: float, stop: threading.Event) -> Iterator[str]:
    """What git lists; nothing if it can't."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    git = subprocess.Popen(
        _GIT,
        cwd=directory,
        env={**environment, "GIT_OPTIONAL_LOCKS": "0", "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert git.stdout is not None
    try:
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(git.stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline and not stop.is_set():
                if not selector.select(TOLD_EVERY):
                    continue
                data = os.read(git.stdout.fileno(), READ_SIZE)
                if not data:
                    break
                *whole, rest = (rest + data).split(b"\0")
                yield from filter(_is_path, (each.decode("utf-8", "replace") for each in whole))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(git.pid, signal.SIGKILL)
        git.stdout.close()
        git.wait()


def _walked(directory: str, deadline: float, stop: threading.Event) -> Iterator[str]:
    for place, directories, files in os.walk(directory):
        if time.monotonic() > deadline or stop.is_set():
            return
        directories[:] = sorted(
            each for each in directories if not each.startswith(".") and each not in IGNORED
        )
        inside = os.path.relpath(place, directory)
        yield from filter(_is_path, (os.path.normpath(os.path.join(inside, name)) for name in sorted(files)))


def _is_path(path: str) -> bool:
    """True if it can stand in a line."""
    return 0 < len(path) <= MAX_PATH and path.isprintable()
