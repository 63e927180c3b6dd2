"""The tool that runs commands: bash.

A command gets a terminal of its own, so it prints as it does for people; what it prints is made plain text.
The last part of it is given, and all of it is in a file if that is too much. At the time limit, when the call
is aborted and when the command is through, all that still runs in the terminal is ended.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated, Any

from msgspec import Meta, Struct

from ...formats.printed import Printed
from ...formats.shown import one_line
from ..models import ToolSpec
from ..secrets import Redactor
from . import Result, ToolContext, Touch
from .arguments import checked, schema
from .kinds import size_in_words
from .terminals import LocalTerminals, Running, Terminals

__all__ = ["Bash", "LocalTerminals", "Running", "Terminals"]

MAX_LINES = 2000
"""How many lines of output are given."""
MAX_BYTES = 50 * 1024
"""How many bytes they may have together."""
MAX_PRINTED = 32 * 1024 * 1024
"""How much a command may print before it is ended."""
DEFAULT_TIME_LIMIT = 120.0
MAX_TIME_LIMIT = 3600.0
"""Seconds."""
MAX_COMMAND = 100_000
"""Characters; the system takes no more than 128 kB in one argument."""
UPDATE_PAUSE = 0.1
"""Seconds between two updates, at least."""
LAST_WORDS = 2.0
"""Seconds in which the rest of the output must come when all processes are gone."""
MAX_SUMMARY = 160
"""How many characters a command has in one line; of a longer one the middle is left out."""


class BashArguments(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="What the shell runs.", min_length=1, max_length=MAX_COMMAND)]
    timeout: Annotated[float, Meta(description="Seconds until it is ended.", gt=0, le=MAX_TIME_LIMIT)] = (
        DEFAULT_TIME_LIMIT
    )


class Bash:
    """Runs a command in the project's directory."""

    spec = ToolSpec(
        "bash",
        f"Run a shell command in the project. Gives the last {MAX_LINES} lines or {MAX_BYTES // 1024} KB of "
        "what it prints, and its exit code. There is no input. What it leaves in the background is ended.",
        schema(BashArguments),
    )

    def __init__(self, terminals: Terminals, outputs: Path, redactor: Redactor | None = None) -> None:
        self._terminals = terminals
        self._outputs = outputs
        self._redactor = redactor or Redactor()

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        command = checked("bash", arguments, BashArguments).command
        if "\0" in command:
            raise ValueError("bash: `command` must not have a NUL character in it")
        if not command.strip():
            raise ValueError("bash: `command` must not be blank")
        return Touch("run", f"$ {one_line(command, MAX_SUMMARY)}", command=command, preview=command)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        self.touches(arguments, context.cwd)
        wanted = checked("bash", arguments, BashArguments)
        shell = shutil.which("bash", path=context.environment.get("PATH")) or "/bin/sh"
        name = f"{context.session_id}-{context.call_id}"
        argv = [shell, "-c", wanted.command]
        try:
            running = await self._terminals.start(
                name, argv, context.cwd, context.environment, context.session_id
            )
        except OSError as error:  # nothing that a model can mend: no terminals or processes are left
            return Result(f"can't be run: {error}", {"unstartable": True}, is_error=True)
        output = _Output(self._outputs / f"{_safe(name)}.txt", self._redactor)
        try:
            call = _Call(running, output, context)
            await call.run(wanted.timeout)
            return call.result()
        finally:
            output.close()
            await running.kill()
            await running.close()


class _Call:
    """One command from its start to its end."""

    def __init__(self, running: Running, output: _Output, context: ToolContext) -> None:
        self._running = running
        self._output = output
        self._context = context
        self._why = ""  # it was ended before it was through
        self._left = 0
        self._code: int | None = None
        self._printed = asyncio.Event()

    async def run(self, time_limit: float) -> None:
        reading = asyncio.ensure_future(self._read())
        telling = asyncio.ensure_future(self._tell())
        waiting = asyncio.ensure_future(self._running.wait())
        aborting = asyncio.ensure_future(self._context.aborted.wait())
        filling = asyncio.ensure_future(self._output.full.wait())
        try:
            watched = {waiting, aborting, filling}
            await asyncio.wait(watched, timeout=time_limit, return_when=asyncio.FIRST_COMPLETED)
            if self._output.full.is_set():
                self._why = f"it printed more than {size_in_words(MAX_PRINTED)}"
            elif not waiting.done():
                is_aborted = self._context.aborted.is_set()
                self._why = "aborted" if is_aborted else f"it ran longer than {time_limit:g} seconds"
            self._left = await self._running.kill()
            await asyncio.wait({reading}, timeout=LAST_WORDS)
            if reading.done():
                reading.result()
            with suppress(TimeoutError):
                self._code = await asyncio.wait_for(asyncio.shield(waiting), LAST_WORDS)
        finally:
            tasks = (reading, telling, waiting, aborting, filling)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> None:
        while data := await self._running.read():
            self._output.add(data)
            self._printed.set()

    async def _tell(self) -> None:
        while True:
            await self._printed.wait()
            self._printed.clear()
            self._context.update(self._output.text(), {})
            await asyncio.sleep(UPDATE_PAUSE)

    def result(self) -> Result:
        self._output.finish()
        details: dict[str, Any] = {"exitCode": self._code, "truncated": self._output.is_cut}
        notes = []
        if self._output.is_cut:
            details["fullOutputPath"] = str(self._output.path)
            notes.append(f"[This is the end of the output; all of it is in {self._output.path}]")
        if self._why:
            details["ended"] = self._why
            notes.append(f"[The command was ended: {self._why}.]")
        elif self._left:
            details["leftBehind"] = self._left
            which = (
                "process that it left behind was" if self._left == 1 else "processes that it left behind were"
            )
            notes.append(f"[{self._left} {which} ended.]")
        if self._code is not None and not self._why:
            notes.append(f"[Exit code {self._code}.]")
        text = self._output.text().rstrip("\n") or "[No output.]"
        return Result("\n".join([text, *notes]), details, is_error=bool(self._why) or self._code != 0)


class _Output:
    """The end of what was printed, and a file with all of it once something had to go."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self.path = path
        self._redactor = redactor
        self._printed = Printed()
        self._lines: deque[str] = deque()
        self._bytes = 0
        self._total = 0
        self.full = asyncio.Event()
        self._file: IO[str] | None = None

    @property
    def is_cut(self) -> bool:
        return self._file is not None

    def add(self, data: bytes) -> None:
        if self.full.is_set():
            return
        self._total += len(data)
        if self._total > MAX_PRINTED:
            self.full.set()
        if lines := self._printed.feed(data):
            self._keep(self._redactor.text("\n".join(lines)).split("\n"))

    def finish(self) -> None:
        """Take the last line, which may have no end."""
        if self._printed.begun:
            self._keep([self._redactor.text(self._printed.begun)])
            self._printed = Printed()

    def text(self) -> str:
        return "\n".join([*self._lines, self._printed.begun])

    def _keep(self, lines: list[str]) -> None:
        if self._file is None and self._is_too_much(lines):
            self._file = _private_file(self.path)
            self._file.writelines(f"{each}\n" for each in self._lines)
        if self._file is not None:
            self._file.write("\n".join(lines) + "\n")
        if len(lines) >= MAX_LINES:
            self._lines.clear()
            self._bytes = 0
            lines = lines[-MAX_LINES:]
        self._lines += lines
        self._bytes += sum(map(_size, lines))
        while len(self._lines) > MAX_LINES or self._bytes > MAX_BYTES:
            self._bytes -= _size(self._lines.popleft())

    def _is_too_much(self, lines: list[str]) -> bool:
        return len(self._lines) + len(lines) > MAX_LINES or self._bytes + sum(map(_size, lines)) > MAX_BYTES

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _size(line: str) -> int:
    return len(line.encode("utf-8", "replace")) + 1


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:128]


def _private_file(path: Path) -> IO[str]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace")
