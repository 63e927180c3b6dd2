"""A daemon that one test after the other uses, as long as each leaves it as it was.

To start and to stop a daemon takes longer than most tests that need one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.hosting import Hosting

PATIENCE = 1.0
"""Seconds that keepers have to go and to take their files with them."""


class Condition(NamedTuple):
    """What a test must not change."""

    processes: set[int]
    files: set[str]
    environment: dict[str, str]


_RETURNED: list[tuple[Hosting, Condition]] = []
"""The one that the last test gave back, if any, and what it was like at first."""


@contextmanager
def lent() -> Iterator[Hosting]:
    """A daemon that runs and has no sessions."""
    hosting, first = _RETURNED.pop() if _RETURNED else _started()
    yield hosting
    if _is_again(hosting, first):
        _RETURNED.append((hosting, first))
    else:
        hosting.close()


def close() -> None:
    """End the one that waits for another test."""
    while _RETURNED:
        _RETURNED.pop()[0].close()


def _started() -> tuple[Hosting, Condition]:
    hosting = Hosting()
    hosting.start("first", "true")  # which starts what all sessions share
    hosting.end_sessions()
    keepers = hosting.directory / "run/fairlead/keepers"
    hosting.until(lambda: not any(keepers.iterdir()))
    return hosting, _condition(hosting)


def _is_again(hosting: Hosting, first: Condition) -> bool:
    """End all sessions, and see whether everything is as it was then."""
    if hosting.slow_callbacks or not first.processes <= set(hosting.processes()):
        return False
    hosting.end_sessions()
    os.truncate(hosting.log_path, 0)
    deadline = time.monotonic() + PATIENCE
    while _condition(hosting) != first:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _condition(hosting: Hosting) -> Condition:
    files = {str(path) for path in hosting.directory.rglob("*")}
    return Condition(set(hosting.processes()), files, dict(hosting.environment))
