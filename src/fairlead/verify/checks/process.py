"""Running programs with limits: of time, of output, and of what they leave behind.

A run is one program or a pipeline. Each program has a process group and a session of its own, no input, and
one output for everything it prints. Whatever the end is, all that was started is ended: by its group, and
where there is a /proc also by a mark in its environment, which a daemon that left its group still has.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...formats.printed import Printed
from ...system import processes

MAX_PRINTED = 64 * 1024 * 1024
"""How many bytes a run may print before it is ended."""
MAX_KEPT = 1024 * 1024
"""How many bytes of it are kept: the first and the last."""
GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL, and then until it is given up."""
LAST_WORDS = 1.0
"""Seconds in which the rest of the output must come when all processes are gone."""
CHUNK = 64 * 1024
MARK = "FAIRLEAD_VERIFY_RUN"
"""The variable by which processes of a run are known: who runs it, and a number nobody can guess."""


class Stage(Struct, frozen=True):
    """One program of a pipeline."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    tells_errors: bool = True
    """Whether what it prints to stderr is part of the output."""
    pipes_errors: bool = False
    """Whether stderr goes where stdout goes, as after `2>&1`."""


class Ran(Struct, frozen=True):
    """How a run ended."""

    code: int | None
    """Of the last program; negative for a signal. None if it was ended before it was through."""
    text: str
    """What it printed, as plain text."""
    seconds: float
    ended: str = ""
    """Why it was ended, if it was."""
    left_behind: int = 0
    """How many processes were still there and had to be ended."""


class KeptOutput:
    """The first and the last bytes of an output.

    >>> kept = Kept(8)
    >>> kept.add(b"0123456789")
    >>> kept.text()
    '0123\\n[2 bytes left out]\\n6789'
    """

    def __init__(self, limit: int = MAX_KEPT) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        """The output as plain text, with what is left out said."""
        tail = bytes(self._tail[-self._half :])
        left = self.total - len(self._head) - len(tail)
        if not left:
            return plain(bytes(self._head) + tail)
        return f"{plain(bytes(self._head))}\n[{left} bytes left out]\n{plain(tail)}"


def plain(data: bytes) -> str:
    """What was printed, without escape sequences, and of progress bars the last state only."""
    printed = Printed()
    lines = printed.feed(data)
    return "\n".join([*lines, printed.begun] if printed.begun else lines)


async def run(
    stages: Sequence[Stage],
    cwd: Path,
    *,
    time_limit: float,
    max_kept: int = MAX_KEPT,
    max_printed: int = MAX_PRINTED,
) -> Ran:
    """Run a pipeline. Raises OSError if a program can't be started; nothing is left running then."""
    begun = time.monotonic()
    mark = f"{os.getpid()}-{secrets.token_hex(16)}"
    kept = KeptOutput(max_kept)
    reading, writing = os.pipe()
    started: list[asyncio.subprocess.Process] = []
    taking = asyncio.ensure_future(_take(reading, kept, max_printed))
    left = 0
    code: int | None = None
    ended = ""
    try:
        try:
            await _start(stages, cwd, mark, writing, started)
        finally:
            os.close(writing)
        waiting = asyncio.gather(*(process.wait() for process in started))
        try:
            watched: set[asyncio.Future[Any]] = {waiting, taking}
            await asyncio.wait(watched, timeout=time_limit, return_when=asyncio.FIRST_COMPLETED)
            if taking.done() and kept.total <= max_printed:  # all output is closed, but it may go on
                rest = time_limit - (time.monotonic() - begun)
                await asyncio.wait({waiting}, timeout=max(0.0, rest))
            if kept.total > max_printed:
                ended = f"it printed more than {max_printed} bytes"
            elif waiting.done():
                code = waiting.result()[-1]
            else:
                ended = f"it ran longer than {time_limit:g} seconds"
        finally:
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
    finally:
        left = await _end_all(started, mark)
        await asyncio.wait({taking}, timeout=LAST_WORDS)
        taking.cancel()
        await asyncio.wait({taking})
        os.close(reading)
    return Ran(code, kept.text(), time.monotonic() - begun, ended, left if not ended else 0)


async def _start(
    stages: Sequence[Stage],
    cwd: Path,
    mark: str,
    output: int,
    started: list[asyncio.subprocess.Process],
) -> None:
    stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for number, stage in enumerate(stages):
            is_last = number == len(stages) - 1
            following, stdout = (-1, output) if is_last else os.pipe()
            errors = output if stage.tells_errors else asyncio.subprocess.DEVNULL
            try:
                process = await asyncio.create_subprocess_exec(
                    *stage.argv,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stdout if stage.pipes_errors else errors,
                    cwd=cwd,
                    env={**stage.env, MARK: mark},
                    start_new_session=True,
                )
                started.append(process)
            except BaseException:
                if following >= 0:
                    os.close(following)
                raise
            finally:
                os.close(stdin)
                stdin = following
                if not is_last:
                    os.close(stdout)
    except ValueError as error:  # a NUL in a word
        raise OSError(str(error)) from None
    finally:
        if stdin >= 0:
            with contextlib.suppress(OSError):
                os.close(stdin)


async def _take(reading: int, kept: KeptOutput, limit: int) -> None:
    """Keep what comes from a pipe. The loop gets no file of it: uvloop closes a file twice, and the
    second time it may be that of another thread."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    os.set_blocking(reading, False)
    loop.add_reader(reading, readable.set)
    try:
        while kept.total <= limit:
            try:
                data = os.read(reading, CHUNK)
            except BlockingIOError:
                readable.clear()
                await readable.wait()
                continue
            if not data:
                return
            kept.add(data)
            await asyncio.sleep(0)
    finally:
        loop.remove_reader(reading)


async def _end_all(started: Sequence[asyncio.subprocess.Process], mark: str) -> int:
    """End all that was started and what that has started. Says how many there still were."""
    groups = {process.pid for process in started}
    found, _ = await processes.end_all(lambda: processes.members(groups, mark=(MARK, mark)), GRACE, GRACE)
    for process in started:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
    return found


def end_orphans(of: int | None = None) -> int:
    """End what runs of processes that are gone have left, as after `kill -9` of a daemon. Says how many.

    `of` is for those of one process only.
    """
    count = 0
    with contextlib.suppress(OSError):
        ours = os.readlink("/proc/self/ns/pid")
        for pid in processes.pids():
            with contextlib.suppress(OSError, ValueError):
                owner = int(processes.variable(pid, MARK).partition("-")[0])
                is_ours = os.readlink(f"/proc/{pid}/ns/pid") == ours
                if is_ours and of in (None, owner) and not processes.is_there(owner):
                    os.kill(pid, signal.SIGKILL)
                    count += 1
    return count
