"""Runs a job with `fairlead run` in the project's directory on this host.

The command holds on to us by its standard input, and the daemon holds on to the command: when one of them
goes away, however it dies, the turn is aborted. So no turn goes on of which nobody holds the lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Any

from ..keeper.credentials import AGENT_MARK
from . import limits
from .jobs import JobBody
from .worker import RunResult

GONE = 75
"""What `fairlead run --tied` ends with if the daemon went away in the middle: sysexits' EX_TEMPFAIL."""
_LEFT_OUT = ("FAIRLEAD_HOST", AGENT_MARK)


class CommandRunner:
    """Runs jobs as commands with an environment of this host."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {name: value for name, value in environment.items() if name not in _LEFT_OUT}

    def _project(self, body: JobBody) -> str:
        home = self._environment.get("HOME") or os.path.expanduser("~")
        if body.project == "~" or body.project.startswith("~/"):
            return os.path.join(home, body.project[2:])
        return body.project

    def lack(self, body: JobBody) -> str:
        return "" if os.path.isdir(self._project(body)) else f"has no directory {body.project}"

    async def run(self, body: JobBody) -> RunResult:
        """Run a job. When this ends, for whatever reason, the turn has ended."""
        process = await asyncio.create_subprocess_exec(
            *command(body),
            cwd=self._project(body),
            env=self._environment,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        reading = asyncio.gather(
            _end_of(process.stdout, limits.MAX_OUTPUT), _end_of(process.stderr, limits.MAX_JOB_NOTE * 4)
        )
        try:
            said, complained = await reading
            code = await process.wait()
        finally:
            await _ended(process)
            reading.cancel()
        return result_of(code, said, complained)


def command(body: JobBody) -> list[str]:
    """The words with which a job is run."""
    words = [sys.executable, "-m", "fairlead", "run", "--tied", "--json", "-q"]
    words += [f"--name=job-{body.id}", f"--worktree=job-{body.id}-{body.round}"] if body.worktree else []
    for name, values in (("verify", body.verify), ("persona", body.persona)):
        words += [f"--{name}={each}" for each in values]
    given = {
        "with": body.agent,
        "mode": body.mode,
        "model": body.model,
        "verifier-model": body.verifier_model,
        "quorum": body.quorum,
        "timeout": f"{body.timeout:g}" if body.timeout else "",
    }
    words += [f"--{name}={value}" for name, value in given.items() if value]
    flags = {"sandbox": body.sandbox, "other-model": body.other_model, "copy": body.copy, "yes": body.yes}
    words += [f"--{name}" for name, is_set in flags.items() if is_set]
    return [*words, "--", body.prompt]


def result_of(code: int, said: bytes, complained: bytes) -> RunResult:
    """What a command's end means."""
    lines = [line for line in complained.decode(errors="replace").splitlines() if line.strip()]
    note = lines[-1].removeprefix("fairlead run: ")[: limits.MAX_JOB_NOTE] if lines else ""
    if code == GONE or code < 0:
        return RunResult(code, is_gone=True, note=note or f"the run ended with {code}")
    try:
        report: Any = json.loads(said)
    except ValueError:
        report = None
    if not isinstance(report, dict):
        return RunResult(code or 1, note=note or f"it ended with {code} and no report")
    return RunResult(
        code,
        confidence=str(report.get("confidence") or ""),
        summary=str(report.get("summary") or ""),
        report=said.decode(errors="replace").strip(),
        note="" if code == 0 else note,
    )


async def _end_of(stream: asyncio.StreamReader, most: int) -> bytes:
    """The end of what a command says, however much that is."""
    found = b""
    while data := await stream.read(65_536):
        found = (found + data)[-most:]
    return found


async def _ended(process: Process) -> None:
    """See a command ended: told by its standard input, then by signals."""
    if process.stdin is not None:
        process.stdin.close()
    for how in (None, signal.SIGTERM, signal.SIGKILL):
        if how is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, how)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.STOP_SECONDS):
                await process.wait()
                return
