"""Where commands run: a terminal of their own, behind a small interface.

The daemon runs commands as terminal sessions that can be watched; `LocalTerminals` needs no daemon. Whatever
runs in such a terminal can be ended as a whole: the command, its children, and what they left behind.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ...keeper.terminal import open_terminal
from ...system import processes

COLUMNS, ROWS = 120, 40
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
GONE_WITHIN = 5.0
"""Seconds until a killed process should be gone; one that hangs in the kernel is left to it."""
_CHUNK = 16 * 1024
_ON_OWN_TERMINAL = 'exec "$@" 0<>"$0" 1>&0 2>&0 </dev/null'
"""A session's leader that opens a terminal gets it as its own. A shell does so, as only a process without
threads may run code of ours between fork and exec. Nobody can type there, so the input is empty."""


class Running(Protocol):
    """A command in its terminal."""

    async def read(self) -> bytes:
        """What it printed next; b"" at the end, when nothing holds the terminal any more."""

    async def wait(self) -> int:
        """Wait until the command itself ends; gives its exit code, or 128 and the signal's number."""

    async def kill(self) -> int:
        """End all that still runs there, SIGTERM first, then SIGKILL; gives how many processes it was."""

    async def close(self) -> None:
        """Give up the terminal. To be called once, at the end."""


class Terminals(Protocol):
    """Something that can run commands in terminals."""

    async def start(
        self, name: str, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], of: str = ""
    ) -> Running:
        """Start a command, for the agent session with this id. Raises OSError."""


class LocalTerminals:
    """Runs commands in terminals of this process."""

    async def start(
        self, name: str, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], of: str = ""
    ) -> Running:
        ours, theirs = open_terminal(COLUMNS, ROWS)
        try:
            tty = os.ttyname(theirs)
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                _ON_OWN_TERMINAL,
                tty,
                *argv,
                cwd=cwd,
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return _LocalRunning(process, ours, tty)


class _LocalRunning:
    def __init__(self, process: asyncio.subprocess.Process, terminal: int, tty: str) -> None:
        self._process = process
        self._terminal = terminal
        self._tty = tty
        self._is_read = False  # to its end
        self._is_over = False

    async def read(self) -> bytes:
        await asyncio.sleep(0)  # one that prints without end must not have the loop for itself
        data = b""
        while not self._is_read and not (data := self._available()):
            await self._readable()
        return data

    def _available(self) -> bytes:
        """What can be read now, in pieces as large as the system gives them."""
        data = bytearray()
        try:
            while len(data) < _CHUNK and (piece := os.read(self._terminal, _CHUNK)):
                data += piece
            self._is_read = len(data) < _CHUNK
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self._is_read = True  # how Linux says that nobody has the other end
        return bytes(data)

    async def _readable(self) -> None:
        if self._is_read:
            return
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._terminal, _wake, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._terminal)

    async def wait(self) -> int:
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    async def kill(self) -> int:
        if self._is_over:
            return 0
        ended, self._is_over = await end_all(self._process.pid, "" if self._is_read else self._tty)
        return ended

    async def close(self) -> None:
        if self._terminal < 0:
            return
        terminal, self._terminal, self._is_read = self._terminal, -1, True
        os.close(terminal)
        if self._process.returncode is None:
            try:
                await asyncio.wait_for(self._process.wait(), GONE_WITHIN)
            except TimeoutError:
                pass


async def end_all(leader: int, tty: str = "") -> tuple[int, bool]:
    """End all processes of a session, and others that have its terminal open, if that is named. Returns how
    many it were, and whether none is left."""
    return await processes.end_all(lambda: processes.members({leader}, tty=tty), GRACE, GONE_WITHIN)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
