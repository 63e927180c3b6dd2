"""Checks of what the daemon hosts, for `fairlead doctor`: nursery, keepers, emulator, journals, models."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote, urlsplit

from ..agent.models.catalog import OFFLINE, Catalog
from ..agent.store import AgentStore
from ..control.health import Check, Checker, Status
from ..formats.shown import counted
from ..keeper.protocol import VERSION
from ..system.bubblewrap import bubblewrap
from ..system.database import DatabaseFault, DatabaseThread
from ..system.extras import adding, installing, is_missing
from ..system.settings import Settings, foreign
from ..terminal.host import TerminalHost
from ..terminal.screen.screen import Screen
from ..verify.checks.sandbox import FALLBACK
from ..wire import keepty


class Store(Protocol):
    """A database that the daemon has open."""

    @property
    def thread(self) -> DatabaseThread: ...

    def check(self) -> Sequence[str]:
        """What is or was wrong with its file; called on its thread."""


REACH_WAIT = 3.0
"""Seconds in which a model's server should take a connection."""
FILES_DEGRADED, FILES_UNHEALTHY = 0.8, 0.95
"""The part of the files that may be open which is much, and too much."""
BUSY_WAIT = 2.0
"""Seconds until a database that another process writes to counts as one that can't be read."""
MAX_TABLES = 100
"""How many tables of a database are looked at."""
NAMED = 5
"""How many things a check names."""


def host_checks(
    settings: Settings,
    host: TerminalHost,
    store: AgentStore,
    catalog: Catalog,
    lost_sockets: Callable[[], Sequence[str]],
    stores: Sequence[Store] = (),
) -> Mapping[str, Checker]:
    """The checks by name.

    `lost_sockets` tells which of the daemon's sockets somebody deleted; `stores` are its databases.
    """

    async def nursery() -> Check:
        if await host.nursery.answers():
            return Check("nursery", "healthy", "responding")
        is_gone = not host.nursery.is_connected
        detail = "not running; the next session restarts it" if is_gone else "not responding"
        return Check("nursery", "degraded", detail, "fairlead daemon restart" if is_gone else "kill it")

    def keepers() -> Check:
        sockets = {name for name in _names(settings.keepers_dir) if name.endswith(".sock")}
        lost = len(sockets) - len(host.sessions)
        if lost > 0:
            fix = f"fairlead daemon restart; their sockets are in {settings.keepers_dir}"
            return Check("keepers", "degraded", f"{lost} of {len(sockets)} not responding", fix)
        if lost < 0:
            detail = f"{-lost} of {len(host.sessions)} have no socket in {settings.keepers_dir}"
            return Check("keepers", "degraded", detail, "fairlead daemon restart; keepers recreate it")
        count = len(host.sessions)
        return Check("keepers", "healthy", f"{counted(count, 'session')}, all connected")

    def sockets() -> Check:
        lost = lost_sockets()
        if not lost:
            return Check("sockets", "healthy", "every session is reachable")
        detail = f"{len(lost)} deleted: {', '.join(lost[:NAMED])}"
        fix = "they are recreated automatically, unless another program uses the path"
        return Check("sockets", "degraded", detail, fix)

    def shared() -> Check:
        name, found = "shared directories", []
        places = [*keepty.socket_dirs(os.environ, settings.keepty_dir)[1:], *settings.verifier_dirs[1:]]
        for place in places:
            if why := foreign(place):
                found.append(why)
        if not found:
            return Check(name, "healthy", ", ".join(places) or "none needed")
        fix = (
            "keepty's and Pi's programs can't find sessions there (Fairlead's can): have its owner remove "
            "it, or set XDG_RUNTIME_DIR for keepty and [verifier] shared_dir for Pi"
        )
        return Check(name, "degraded", "; ".join(found), fix)

    def versions() -> Check:
        others = [each.id for each in host.sessions.values() if each.keeper_version != VERSION]
        if not others:
            return Check("versions of keepers", "healthy", f"all have version {VERSION}")
        shown = ", ".join(others[:NAMED])
        detail = f"{counted(len(others), 'session')} with a keeper of another version: {shown}"
        return Check("versions of keepers", "degraded", detail, "they keep working; new sessions are current")

    def emulator() -> Check:
        screen = Screen(8, 2)
        try:
            screen.feed(b"\x1b[1mok")
            is_right = screen.text().strip() == "ok"
        finally:
            screen.close()
        if is_right:
            return Check("emulator", "healthy", "draws correctly")
        fix = installing("--force-reinstall pyghostty")
        return Check("emulator", "unhealthy", "draws incorrectly", fix)

    async def all_databases() -> Check:
        async def of(store: Store) -> Sequence[str]:
            try:
                return await store.thread.run(store.check)
            except DatabaseFault as fault:
                return [str(fault)]

        known = [fault for found in await asyncio.gather(*map(of, stores)) for fault in found]
        check = await asyncio.to_thread(databases, settings.state_dir)
        if not known:
            return check
        fix = (
            check.fix
            or "nothing to do if it was moved or rebuilt; otherwise check its permissions and the disk"
        )
        status: Status = "unhealthy" if check.status == "unhealthy" else "degraded"
        more = [check.detail] if check.status != "healthy" else []
        return Check("databases", status, "; ".join([*known[:NAMED], *more]), fix)

    def journals() -> Check:
        faults = [fault for session in store.loaded for fault in session.journal.faults]
        if not faults:
            return Check("journals", "healthy", f"{len(store.loaded)} open, no errors")
        detail = f"{counted(len(faults), 'error')}: {faults[0]}"
        return Check("journals", "degraded", detail, "nothing is lost; see `/status` in the session")

    async def models() -> Check:
        info = catalog.default()
        name = f"{info.provider}/{info.id}"
        is_configured = bool(settings.config.get("models") or settings.config.get("providers"))
        if (info.provider != OFFLINE or is_configured) and is_missing("pydantic_ai"):
            what = f"{name} needs" if info.provider != OFFLINE else "configured models need"
            return Check("model", "degraded", f"{what} packages that are not installed", adding("models"))
        if info.provider == OFFLINE:
            return Check("model", "healthy", f"{name}, which needs no network")
        if info.provider not in catalog.authenticated_providers():
            fix = f"{catalog.new_key(info.provider)}; see docs/models.md"
            return Check("model", "degraded", f"{name}: its provider has no key", fix)
        address = urlsplit(catalog.address(info.provider))
        host_name, port = address.hostname or "", address.port or (443 if address.scheme == "https" else 80)
        try:
            async with asyncio.timeout(REACH_WAIT):
                _, writer = await asyncio.open_connection(host_name, port)
        except (OSError, TimeoutError) as error:
            why = f"{host_name}:{port} can't be reached: {error or 'no answer'}"
            return Check("model", "degraded", f"{name}: {why}", "check the network and base_url")
        writer.close()
        return Check("model", "healthy", f"{name}; {host_name} is reachable")

    async def sandbox() -> Check:
        if await bubblewrap() is not None:
            return Check("sandbox", "healthy", "bubblewrap makes personas' commands read-only")
        # nothing is wrong with that: no secret is shown, but personas can do less
        return Check("sandbox", "healthy", f"none: {FALLBACK}; with bubblewrap they can run tests")

    return {
        "nursery": nursery,
        "sandbox": sandbox,
        "keepers": keepers,
        "sockets": sockets,
        "shared directories": shared,
        "terminals": terminals,
        "open files": open_files,
        "databases": all_databases,
        "versions of keepers": versions,
        "emulator": emulator,
        "journals": journals,
        "model": models,
    }


def terminals() -> Check:
    """Whether there is a PTY for one more session."""
    try:
        for descriptor in os.openpty():
            os.close(descriptor)
    except OSError as error:
        fix = "stop some sessions, or raise the limit (on Linux `sysctl kernel.pty.max`)"
        if error.errno == errno.EMFILE:
            fix = _more_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
        return Check("terminals", "unhealthy", f"can't open a PTY: {error.strerror or error}", fix)
    return Check("terminals", "healthy", "a PTY can be opened")


def open_files() -> Check:
    """How many files the daemon has open, of those that it may have."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        count = len(_names("/proc/self/fd") or _names("/dev/fd"))
    except OSError:  # there is not even one to look with
        count = limit
    if limit == resource.RLIM_INFINITY:
        return Check("open files", "healthy", f"{count}, no limit")
    status: Status = "healthy"
    if count >= FILES_DEGRADED * limit:
        status = "unhealthy" if count >= FILES_UNHEALTHY * limit else "degraded"
    fix = "" if status == "healthy" else _more_files(limit, most)
    return Check("open files", status, f"{count} of {limit}", fix)


def _more_files(limit: int, most: int) -> str:
    """How to let the daemon have more files open: a restart keeps its limit, as its process stays."""
    is_fixed = limit == most
    wanted = "MORE" if is_fixed else min(4 * limit, most) if most > limit else 4 * limit
    first = "have root raise nofile in /etc/security/limits.conf, then " if is_fixed else ""
    return (
        f"the daemon may open {limit} files: stop some sessions, or {first}`ulimit -n {wanted}; "
        "fairlead daemon stop; fairlead ls` (sessions keep running)"
    )


def databases(directory: str) -> Check:
    """Whether each database can be opened and read."""
    paths = sorted(f"{directory}/{name}" for name in _names(directory) if name.endswith(".db"))
    faults = [fault for path in paths if (fault := _fault_of(path))]
    if not faults:
        return Check("databases", "healthy", f"{len(paths)} readable")
    fix = "move it away; `fairlead daemon restart` creates a new one"
    return Check("databases", "unhealthy", "; ".join(faults[:NAMED]), fix)


def _fault_of(path: str) -> str:
    """What is wrong with a database, or nothing."""
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(path)}?mode=rw", uri=True, timeout=BUSY_WAIT)
        ) as database:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (name,) in names[:MAX_TABLES]:
                quoted = name.replace('"', '""')
                database.execute(f'SELECT 1 FROM "{quoted}" LIMIT 1').fetchall()
    except sqlite3.Error as error:
        return f"{path}: {error}"
    return ""


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise
        return []
