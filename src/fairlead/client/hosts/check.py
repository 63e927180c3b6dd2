"""Looking at hosts: whether each can be reached, and what is there. All at once, each with a limit."""

from __future__ import annotations

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ... import __version__
from ...system.settings import SettingError, Settings, safe_dir
from ..calls import RequestError
from ..connection import DaemonConnection
from ..launch import NoDaemon
from . import dial
from .table import hosts

AT_ONCE = 32
"""How many hosts are asked at the same time."""
CHECK_WAIT = 15.0
"""Seconds that one has until it is away."""


class Checked(NamedTuple):
    """What was found out about a host."""

    name: str
    destination: str
    state: str
    """`up`, `away` if it can't be reached now, or `refused` if a person has to do something."""
    version: str = ""
    sessions: int | None = None
    questions: int | None = None
    latency: float | None = None
    """Seconds from a question to its answer, once there is a link."""
    why: str = ""
    """What is wrong, or worth a word."""
    seen: float | None = None
    """When it was reached last, in seconds since 1970."""

    @property
    def age(self) -> float | None:
        return None if self.seen is None else max(0.0, time.time() - self.seen)


def check(names: list[str], settings: Settings, *, asks: bool = False) -> list[Checked]:
    """Look at hosts; ssh may ask a person for a password if `asks`. Raises SettingError."""
    known = hosts(settings)
    if not names:
        return []
    before = dial.may_ask
    dial.may_ask = asks
    try:
        with ThreadPoolExecutor(min(AT_ONCE, len(names))) as pool:
            found = list(pool.map(lambda name: _one(name, settings), names))
    finally:
        dial.may_ask = before
    return [each._replace(destination=known[each.name].shown if each.name in known else "") for each in found]


def _one(name: str, settings: Settings) -> Checked:
    far = Settings(settings.environ, host=name)
    try:
        with DaemonConnection(far) as control:
            began = time.monotonic()
            control.ask("ping")
            latency = time.monotonic() - began
            status = control.ask("daemon_status")
            listed = control.ask("session_list", brief=True)
    except dial.HostAway as error:
        return Checked(name, "", "away", why=error.why, seen=last_seen(settings, name))
    except (NoDaemon, SettingError, RequestError, OSError) as error:
        why = error.why if isinstance(error, dial.HostRefused) else str(error)
        return Checked(name, "", "refused", why=why, seen=last_seen(settings, name))
    note_seen(settings, name)
    version = str(status.get("version") or "")
    why = "" if version == __version__ else f"it has another version than this host, {__version__}"
    return Checked(
        name, "", "up", version, len(listed["sessions"]), listed["questions"], latency, why, time.time()
    )


def _seen_path(settings: Settings, name: str) -> str:
    return f"{settings.state_dir}/hosts/{name}.seen"


def note_seen(settings: Settings, name: str) -> None:
    """Remember that a host was reached now: by the time of an empty file."""
    path = _seen_path(settings, name)
    try:
        safe_dir(os.path.dirname(path))
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        os.utime(path)
    except (OSError, SettingError):  # then it is not known
        pass


def forget_seen(settings: Settings, name: str) -> None:
    """The host is no longer known here."""
    with contextlib.suppress(OSError):
        os.unlink(_seen_path(settings, name))


def last_seen(settings: Settings, name: str) -> float | None:
    """When a host was reached last, if that is known."""
    try:
        return os.stat(_seen_path(settings, name)).st_mtime
    except OSError:
        return None
