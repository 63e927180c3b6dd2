"""A command that the person of a chat runs beside it: in the session's directory, with the environment of
this terminal, and no input. Its output is kept, bounded, for the screen and for the agent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

from ...formats.shown import ASIDE, clean
from ..styled import Row
from .view import PRINTED_LINES

MAX_HEAD, MAX_TAIL = 8 * 1024, 24 * 1024
"""How many bytes are kept of the beginning and of the end of an output."""
READ_SIZE = 65_536
MAX_SHOWN = 2000
"""How many bytes of its end are looked at for the rows that show it while it runs."""
LINGER = 0.5
"""Seconds after the end of a command in which something that it left behind may still print."""


class LocalCommand:
    """One command that runs. `for_agent` is false if its output is for the person alone."""

    def __init__(self, command: str, directory: str, *, for_agent: bool) -> None:
        """Raises OSError if it can't be started."""
        self.command = command
        self.for_agent = for_agent
        self._head = b""
        self._tail = b""
        self._count = 0  # bytes in all
        self._stops = 0
        self._began_at = time.monotonic()
        self._ended_at = 0.0
        self.is_silent = False
        """True once nothing more will be printed."""
        shell = os.environ.get("SHELL") or "/bin/sh"
        self._program = subprocess.Popen(
            [shell, "-c", command],
            cwd=directory or None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._program.stdout is not None
        self._output = self._program.stdout.fileno()
        os.set_blocking(self._output, False)

    def fileno(self) -> int:
        return self._output

    def read(self) -> None:
        """Take what it printed."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._output, READ_SIZE)
            self.is_silent = not data
            self._keep(data)

    @property
    def is_over(self) -> bool:
        """True once it has ended; what it left behind may print a little longer."""
        if self._program.poll() is None:
            return False
        self._ended_at = self._ended_at or time.monotonic()
        return self.is_silent or time.monotonic() - self._ended_at > LINGER

    def _keep(self, data: bytes) -> None:
        room = MAX_HEAD - len(self._head)
        self._head += data[:room]
        self._tail += data
        self._count += len(data)
        self._tail = self._tail[-MAX_TAIL:]

    def stop(self) -> None:
        """End it, as ^C does; the second time at once."""
        self._stops += 1
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._program.pid, signal.SIGINT if self._stops == 1 else signal.SIGKILL)

    def close(self) -> None:
        """Nobody wants it any more."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._program.pid, signal.SIGKILL if self._stops else signal.SIGTERM)
        assert self._program.stdout is not None
        self._program.stdout.close()
        self._program.poll()

    @property
    def output(self) -> str:
        left_out = self._count - len(self._head) - len(self._tail)
        if left_out <= 0:
            whole = self._head + self._tail[len(self._tail) - (self._count - len(self._head)) :]
        else:
            whole = self._head + f"\n[{left_out} bytes are left out]\n".encode() + self._tail
        return whole.decode("utf-8", "replace").rstrip()

    def tail(self) -> list[Row]:
        """What it printed last, and that it runs."""
        lines = clean(self._tail[-MAX_SHOWN:].decode("utf-8", "replace")).rstrip("\n").split("\n")
        seconds = time.monotonic() - self._began_at
        shown = [(f"  {line}", "dim") for line in lines[-PRINTED_LINES:] if self._tail]
        how = "^C again kills it" if self._stops else "^C ends it"
        return [*shown, (f"! {seconds:.0f} s · {how}", "dim")]

    @property
    def outcome(self) -> str:
        """How it ended; empty if well."""
        code = self._program.poll()
        if code is None:
            return "still running in the background"
        return f"exit code {code}" if code > 0 else f"ended by {_name_of(-code)}" if code else ""

    def for_prompt(self) -> str:
        """How the agent is told of it."""
        parts = [ASIDE, f"```\n$ {self.command}\n{self.output}".rstrip(), "```"]
        return "\n".join([*parts, f"({self.outcome})"] if self.outcome else parts)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
