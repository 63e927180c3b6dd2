"""Bubblewrap: whether it works here, and what every sandbox made with it needs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil

PRIVATE_BYTES = 512 * 1024 * 1024
"""How many bytes may be written to /tmp of a sandbox,"""
HIDDEN_BYTES = 64 * 1024 * 1024
"""and to each other directory that is its own, such as /dev/shm and the home."""
MEMORY_BYTES = 4 * 1024 * 1024 * 1024
"""How much memory a process may have that is its own."""
PROBE_SECONDS = 10.0
"""How long it may take to see whether bubblewrap works."""
LIMITED = (
    "/bin/sh",
    "-c",
    f'ulimit -c 0; ulimit -d {MEMORY_BYTES // 1024} 2>/dev/null; exec "$@"',
    "sh",
)
"""Begins a command line with limits of memory; a core file would be a copy of it."""
_FILES = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
_BARE = ("--cap-drop", "ALL", "--die-with-parent", "--new-session")
_ALL_BUT_NETWORK = ("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")


class Bubblewrap:
    """How bubblewrap is called here. Older versions lack the two things that may be false."""

    __slots__ = ("has_no_nesting", "has_sizes", "program")

    def __init__(self, program: str, has_sizes: bool, has_no_nesting: bool) -> None:
        self.program = program
        self.has_sizes = has_sizes
        self.has_no_nesting = has_no_nesting

    @property
    def options(self) -> tuple[str, ...]:
        """For a command that may only read, without a network."""
        return self._options("--unshare-all")

    @property
    def with_network(self) -> tuple[str, ...]:
        """The same with the network."""
        return self._options(*_ALL_BUT_NETWORK)

    def _options(self, *apart: str) -> tuple[str, ...]:
        return (
            self.program,
            *_FILES,
            *self.private("/dev/shm"),
            *("--remount-ro", "/dev"),
            *("--unshare-user", *apart, *_BARE),
            *(("--disable-userns",) if self.has_no_nesting else ()),
        )

    def private(self, path: str) -> tuple[str, ...]:
        """The options for an empty directory of its own."""
        most = PRIVATE_BYTES if path == "/tmp" else HIDDEN_BYTES
        size = ("--size", str(most)) if self.has_sizes else ()
        return (*size, "--tmpfs", path)


def sockets_of_all() -> list[str]:
    """The sockets of all programs that have a path and can be reached. A read-only file system does not keep
    one from them."""
    try:
        with open("/proc/net/unix", "rb") as file:
            lines = file.read().split(b"\n")[1:]
    except OSError:
        return []
    paths = (fields[7] for line in lines if len(fields := line.split(maxsplit=7)) == 8)
    plain = {os.fsdecode(path) for path in paths if path.startswith(b"/")}
    found = {os.path.realpath(path) for path in plain if os.path.exists(path)}
    groups = {os.getegid(), *os.getgroups()}
    return sorted(path for path in found if _is_reached(path, groups))


def _is_reached(path: str, groups: set[int]) -> bool:
    """Whether our user gets to a path without privileges, which nobody has in a sandbox: what lies in a
    directory of another user can't be covered there, and need not be."""
    while (path := os.path.dirname(path)) != "/":
        try:
            found = os.stat(path)
        except OSError:
            return False
        bit = 0o010 if found.st_gid in groups else 0o001
        if found.st_uid != os.geteuid() and not found.st_mode & bit:
            return False
    return True


_found: Bubblewrap | None = None
_looked_at: str | None = None


async def bubblewrap() -> Bubblewrap | None:
    """How bubblewrap works here; None if it does not. It is tried once."""
    global _found, _looked_at  # noqa: PLW0603 - what a machine can do does not change
    program = shutil.which("bwrap") or ""
    if _looked_at != program:
        _found = await _probe(program) if program else None
        _looked_at = program
    return _found


async def _probe(program: str) -> Bubblewrap | None:
    """Try what is needed: that it starts, and that it really keeps from writing."""
    probe = "! echo x 2>/dev/null > /fairlead-probe && test -w /tmp && echo works"
    for is_new in (True, False):
        wrap = Bubblewrap(program, is_new, is_new)
        argv = (*wrap.options, *wrap.private("/tmp"), "--", *LIMITED, "/bin/sh", "-c", probe)
        if await _printed(argv) == b"works":
            return wrap
    return None


async def _printed(argv: tuple[str, ...]) -> bytes:
    """What a command prints if it ends well and in time."""
    null = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=null, stdout=asyncio.subprocess.PIPE, stderr=null, cwd="/", start_new_session=True
        )
    except OSError:
        return b""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            printed, _ = await process.communicate()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return b""
    return printed.strip() if process.returncode == 0 else b""
