"""How a daemon gets a keeper: from the nursery, or by the socket of one that is there.

The nursery is started when there is none, and told that this daemon lives. An older nursery that does not
know what is asked for is replaced; the keepers that it made don't notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..keeper import masks
from ..keeper.protocol import VERSION, FrameKind, frame
from .settings import Settings, safe_dir

T = TypeVar("T")

START_WAIT = 10.0
"""Seconds until a nursery or a keeper that does not answer is an error."""
CHECK_WAIT = 2.0
"""Seconds in which a nursery that is well answers."""
START_PAUSE = 0.01
"""Seconds between looks whether a nursery that was started listens."""
BEAT = 1.0
"""Seconds between the signs of life that the nursery gets."""
MAX_FILES = 8192
"""How many files the daemon may have open, where the system allows it: three a session, one a client."""
GREETING_SIZE = 65_536
"""How many bytes are read at once of what a keeper says first."""
FIND_TRIES = 3
"""How often a keeper that was lost is looked for before its program is given up."""
FIND_PAUSE = 0.1
"""Seconds between two of these."""
FIND_REST = 1.0
"""Seconds until one that was just found is looked for again: one that cuts us off must not cost much."""
KEEPER_KILLED = 128 + signal.SIGKILL
"""The exit code of a session whose keeper was killed: its program's own is not known to anybody."""


class KeeperGone(Exception):
    """The keeper ended before it said anything."""

    def __init__(self) -> None:
        super().__init__("the keeper ended before it said anything")


class NurseryError(Exception):
    """What the nursery could not do, as a sentence."""


class Reached(NamedTuple):
    """A connection to a keeper, the first bytes that it said, and the descriptors that it handed over: of a
    PTY its end and the memory for lending that, or nothing."""

    connection: socket.socket
    greeting: bytes
    handed: list[int]


async def reach(path: str) -> Reached:
    """A connection to a keeper and the first that it says. We claim to be its daemon, without which a keeper
    that has one stays with that. Raises KeeperGone, TimeoutError or OSError."""
    async with asyncio.timeout(START_WAIT):
        return await _reach(path)


async def _reach(path: str) -> Reached:
    loop = asyncio.get_running_loop()
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    try:
        await loop.sock_connect(connection, path)
        claim = json.dumps({"pid": os.getpid(), "version": VERSION}).encode()
        await loop.sock_sendall(connection, frame(FrameKind.CLAIM, claim))
        readable = asyncio.Event()
        loop.add_reader(connection, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(connection)
        greeting, handed, _, _ = socket.recv_fds(connection, GREETING_SIZE, 2)
        if not greeting:
            raise KeeperGone
    except BaseException:
        connection.close()
        raise
    for descriptor in handed:
        os.set_inheritable(descriptor, False)
    return Reached(connection, greeting, handed)


def sockets_in(directory: str) -> list[str]:
    """The sockets of keepers in a directory, which is made if it is not there."""
    safe_dir(directory)
    return [f"{directory}/{name}" for name in os.listdir(directory) if name.endswith(".sock")]


def discard(keeper: int, path: str) -> None:
    """End a keeper that has nothing to keep."""
    if keeper:
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.unlink(path)


def _open_more_files() -> int:
    """Let this process have as many open files as sessions need; gives how many it could have before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft


class Tasks:
    """Work that goes on when who waits for it is cancelled, until all of it is."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()


class NurseryLink:
    """The daemon's connection to the nursery."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._lock = asyncio.Lock()
        self._introduction: Mapping[str, Any] = {}
        self._is_watched = False
        self._knows_pipes = False
        self._tasks = Tasks()
        self._files = _open_more_files()

    async def open(self, command: Sequence[str] | None) -> None:
        """Introduce this daemon. `command` is how the nursery starts it again; None if someone else does
        that."""
        pause = self._settings.number("daemon", "restart_pause")
        watched = {"pid": os.getpid(), "hang": self._settings.number("daemon", "hang_seconds")}
        told: dict[str, Any] = (
            {"back": True}
            if command is None
            else {"daemon": list(command), "pause": pause, "environment": dict(os.environ)}
        )
        self._introduction = told | watched
        safe_dir(self._settings.runtime_dir)
        await self._introduce()
        _ = self._tasks.begin(self._beat())

    async def leave(self, *, for_good: bool) -> None:
        """Say goodbye: for good, which ends the nursery, or until the daemon comes back by itself."""
        if self._streams is not None:
            with contextlib.suppress(OSError, NurseryError, TimeoutError):
                await self.ask({"bye" if for_good else "back": True})
        self._tasks.cancel()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        files = min(self._files, hard) if hard != resource.RLIM_INFINITY else self._files
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))  # the next daemon begins as we did

    @property
    def is_connected(self) -> bool:
        return self._streams is not None and not self._streams[0].at_eof()

    async def answers(self) -> bool:
        """Ask the nursery something that it does not know, to see whether it answers."""
        try:
            async with asyncio.timeout(CHECK_WAIT):
                await self.ask({"ping": True})
        except NurseryError:
            return self.is_connected
        except (TimeoutError, OSError):
            return False
        return True

    async def mend(self) -> None:
        """Restart a nursery that has gone."""
        if self._streams is not None and not self.is_connected:
            with contextlib.suppress(OSError, NurseryError, TimeoutError):
                await self._introduce()

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the nursery, starting it if there is none. If who asks is cancelled, the answer is still read:
        else the next request would get it. Raises NurseryError, TimeoutError or OSError."""
        return await asyncio.shield(self._tasks.begin(self._exchange(request)))

    async def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
        async with self._lock, asyncio.timeout(START_WAIT):
            if "pipe" in request and not (self.is_connected and self._knows_pipes):
                await self._replace()
            return await self._say(request)

    async def _replace(self) -> None:
        """Have a nursery that knows pipes: an older one is told to go."""
        if self.is_connected and self._streams is not None:
            await self._say({"bye": True})
            await self._streams[0].read()  # until it is gone, and its lock with it
        self._introduced(await self._say(self._introduction))

    async def _introduce(self) -> None:
        self._introduced(await self.ask(self._introduction))

    def _introduced(self, answer: Mapping[str, Any]) -> None:
        self._is_watched = bool(answer.get("watches"))  # an older nursery knows neither of these
        self._knows_pipes = bool(answer.get("pipes"))

    async def _beat(self) -> None:
        """Tell the nursery that this loop runs, as long as it does."""
        while True:
            if self._is_watched and self.is_connected:
                assert self._streams is not None
                writer = self._streams[1]
                if not writer.transport.get_write_buffer_size():
                    writer.write(b'{"alive": true}\n')
            await asyncio.sleep(BEAT)

    async def _say(self, request: Mapping[str, Any]) -> dict[str, Any]:
        reader, writer = await self._connect()
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
        if not line:
            raise NurseryError("the nursery ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            error = answer["error"]
            raise NurseryError(error if answer.get("plain") else f"the nursery could not do it: {error}")
        return answer

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None:
            if not self._streams[0].at_eof():
                return self._streams
            self._streams[1].close()
        path = self._settings.nursery_path
        started = False
        while True:
            try:
                self._streams = await asyncio.open_unix_connection(path)
            except (FileNotFoundError, ConnectionRefusedError):
                if not started:
                    started = True
                    await self._start(path)
                await asyncio.sleep(START_PAUSE)
            else:
                return self._streams

    async def _start(self, path: str) -> None:
        # the programs in its keepers get as many open files as the daemon was given, not as it took, and the
        # mask of files' modes that it was given
        await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            f'ulimit -S -n "$0"; {masks.as_command()}; exec "$@"',
            str(self._files),
            sys.executable,
            "-m",
            "fairlead.keeper.nursery",
            path,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
