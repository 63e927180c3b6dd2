"""Whether all is well: checks by name, each with what to do if it is not; how that is told to people and to
Prometheus; and how late the event loop is."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import shutil
import stat
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ..formats.columns import fill
from ..formats.shown import counted
from ..system.settings import Settings

log = logging.getLogger("fairlead.control")

Status = Literal["healthy", "degraded", "unhealthy", "unknown"]
STATUSES: tuple[Status, ...] = ("healthy", "unknown", "degraded", "unhealthy")
"""The worst last: it decides."""

CHECK_EVERY = 60.0
"""Seconds between checks."""
CHECK_WAIT = 10.0
"""Seconds that one check may take."""
MAX_CHECKS = 100
LAG_EVERY = 2.0
"""Seconds between looks how late the event loop is,"""
LAG_KEPT = 30
"""of which so many are kept."""
LAG_DEGRADED, LAG_UNHEALTHY = 0.1, 1.0
"""Seconds of lateness that are bad, and very bad."""
DISK_DEGRADED, DISK_UNHEALTHY = 500 * 2**20, 50 * 2**20
"""Free bytes that are few, and too few."""


class Check(Struct, frozen=True):
    """What one check found."""

    name: str
    status: Status
    detail: str
    fix: str = ""
    """What to do about it."""


class HealthReport(Struct, frozen=True):
    """What all checks found."""

    status: Status = "unknown"
    checks: tuple[Check, ...] = ()
    checked_at: float = 0.0


Checker = Callable[[], "Check | Awaitable[Check]"]


def overall(checks: Sequence[Check]) -> Status:
    """The worst of them; unknown if there are none."""
    return max((check.status for check in checks), key=STATUSES.index, default="unknown")


class HealthChecks:
    """Checks at the start and every minute; `report` is what was found last."""

    def __init__(self, checkers: Mapping[str, Checker]) -> None:
        if len(checkers) > MAX_CHECKS:
            raise ValueError(f"at most {MAX_CHECKS} checks, not {len(checkers)}")
        self.report = HealthReport()
        self._checkers = dict(checkers)
        self._task: asyncio.Task[None] | None = None

    async def check(self) -> HealthReport:
        """Run all checks now."""
        found = [await _checked(name, checker) for name, checker in self._checkers.items()]
        before = {check.name: check.status for check in self.report.checks}
        for check in found:
            if check.status not in ("healthy", before.get(check.name)):
                log.warning("%s is %s: %s", check.name, check.status, check.detail)
        self.report = HealthReport(overall(found), tuple(found), time.time())
        return self.report

    def open(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_EVERY)


async def _checked(name: str, checker: Checker) -> Check:
    try:
        async with asyncio.timeout(CHECK_WAIT):
            found = checker()
            return await found if inspect.isawaitable(found) else found
    except TimeoutError:
        return Check(name, "unhealthy", f"no answer within {CHECK_WAIT:g} s", "see the daemon's log")
    except Exception as error:
        return Check(name, "unknown", f"the check failed: {type(error).__name__}: {error}")


class Lag:
    """How late the event loop is: a timer that should come on time is looked at when it comes."""

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=LAG_KEPT)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def worst(self) -> float:
        """Seconds, in the last minute."""
        return max(self._seen, default=0.0)

    def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + LAG_EVERY, self._came, loop.time() + LAG_EVERY)

    def _came(self, due: float) -> None:
        self._seen.append(max(0.0, asyncio.get_running_loop().time() - due))
        self.open()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def check(self) -> Check:
        late = self.worst
        status: Status = "healthy"
        if late >= LAG_DEGRADED:
            status = "unhealthy" if late >= LAG_UNHEALTHY else "degraded"
        fix = (
            "check the machine's load; `fairlead ls` shows each session's usage"
            if status != "healthy"
            else ""
        )
        return Check("event loop", status, f"at most {late * 1000:.0f} ms late in the last minute", fix)


# --- checks that need nothing -----------------------------------------------------------------------------


def runtime_dir(settings: Settings) -> Check:
    """Whether the runtime directory is there, ours, and ours alone."""
    path, name = settings.runtime_dir, "runtime directory"
    try:
        found = os.lstat(path)
    except OSError as error:
        fix = f"create it (mkdir -m 700 {path}), or set FAIRLEAD_RUNTIME_DIR"
        return Check(name, "unhealthy", f"{path}: {error.strerror}", fix)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return Check(name, "unhealthy", f"{path} is not a directory of this user", "set FAIRLEAD_RUNTIME_DIR")
    if found.st_mode & 0o077:
        return Check(name, "unhealthy", f"other users can enter {path}", f"chmod 700 {path}")
    if not os.access(path, os.W_OK):
        return Check(name, "unhealthy", f"{path} is not writable", f"chmod 700 {path}")
    return Check(name, "healthy", path)


def disk(settings: Settings) -> Check:
    """Whether there is room for journals."""
    path = settings.state_dir
    try:
        free = shutil.disk_usage(path).free
    except OSError as error:
        return Check("disk space", "unhealthy", f"{path}: {error.strerror}", f"create it: mkdir -p {path}")
    detail = f"{free / 2**30:.1f} GiB free at {path}"
    if free >= DISK_DEGRADED:
        return Check("disk space", "healthy", detail)
    status: Status = "degraded" if free >= DISK_UNHEALTHY else "unhealthy"
    return Check("disk space", status, detail, "free some space, or set FAIRLEAD_STATE_DIR to another disk")


# --- how it is told ---------------------------------------------------------------------------------------

DOCTOR_COLUMNS = 64
"""In less than so many columns, what a check found stands below its name."""
_MARKS: Mapping[str, str] = {"healthy": "ok", "degraded": "!", "unhealthy": "!!", "unknown": "?"}


def doctor(status: str, checks: Sequence[Mapping[str, str]], columns: int | None = None) -> str:
    """What `fairlead doctor` prints: each check, with what to do below it; in at most so many columns."""
    width = max((len(check["name"]) for check in checks), default=0)
    lines = []
    for check in checks:
        first = f"{_MARKS.get(check['status'], '?'):<3} {check['name']:<{width}}  "
        rest = " " * len(first)
        if columns is not None and columns < DOCTOR_COLUMNS:
            lines.append(first.rstrip())
            first = rest = "    "
        for text in (check["detail"], f"fix: {check['fix']}" if check.get("fix") else ""):
            if text:
                lines.append(first + text if columns is None else fill(text, columns, first, rest))
                first = rest
    said = _said(status, checks)
    return "\n".join([*lines, said if columns is None else fill(said, columns)])


def _said(status: str, checks: Sequence[Mapping[str, str]]) -> str:
    """How all of it is, in a line: the word that `--json` has, how many checks failed, and which."""
    failed = [check["name"] for check in checks if check["status"] != "healthy"]
    if failed:
        return f"{status}: {len(failed)} of {counted(len(checks), 'check')} failed: {', '.join(failed)}"
    return f"{status}: {counted(len(checks), 'check')}, nothing to fix"
