"""Checks of what the daemon hosts, for `fairlead doctor`: nursery, keepers, emulator, journals, models."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from ..agent.models.catalog import OFFLINE, Catalog
from ..agent.store import AgentStore
from ..control.health import Check, Checker
from ..extras import installing
from ..keeper.protocol import VERSION
from ..settings import Settings
from ..terminal.host import Host
from ..terminal.screen import Screen

REACH_WAIT = 3.0
"""Seconds in which a model's server should take a connection."""
NAMED = 5
"""How many things a check names."""


def host_checks(settings: Settings, host: Host, store: AgentStore, catalog: Catalog) -> Mapping[str, Checker]:
    """The checks by name."""

    def nursery() -> Check:
        if host.has_nursery:
            return Check("nursery", "healthy", "it answers")
        return Check(
            "nursery", "degraded", "it is gone; the next session starts it again", "fairlead daemon restart"
        )

    def keepers() -> Check:
        sockets = {name for name in _names(settings.keepers_dir) if name.endswith(".sock")}
        lost = len(sockets) - len(host.sessions)
        if lost > 0:
            fix = f"fairlead daemon restart; their sockets are in {settings.keepers_dir}"
            return Check("keepers", "degraded", f"{lost} of {len(sockets)} don't answer", fix)
        return Check("keepers", "healthy", f"{len(host.sessions)} sessions, all answer")

    def versions() -> Check:
        others = [each.id for each in host.sessions.values() if each.keeper_version != VERSION]
        if not others:
            return Check("versions of keepers", "healthy", f"all speak version {VERSION}")
        shown = ", ".join(others[:NAMED])
        detail = f"{len(others)} sessions have keepers of another version: {shown}"
        return Check("versions of keepers", "degraded", detail, "they work on; new sessions get new keepers")

    def emulator() -> Check:
        screen = Screen(8, 2)
        try:
            screen.feed(b"\x1b[1mok")
            is_right = screen.text().strip() == "ok"
        finally:
            screen.close()
        if is_right:
            return Check("emulator", "healthy", "it draws")
        fix = installing("--force-reinstall pyghostty")
        return Check("emulator", "unhealthy", "it draws something else", fix)

    def journals() -> Check:
        faults = [fault for session in store.loaded for fault in session.journal.faults]
        if not faults:
            return Check("journals", "healthy", f"{len(store.loaded)} are open, none has faults")
        detail = f"{len(faults)} faults: {faults[0]}"
        return Check("journals", "degraded", detail, "nothing is lost; `/status` in the session tells all")

    async def models() -> Check:
        info = catalog.default()
        name = f"{info.provider}/{info.id}"
        if info.provider == OFFLINE:
            return Check("model", "healthy", f"{name}, which needs no network")
        if info.provider not in catalog.authenticated_providers():
            fix = f"/login {info.provider}, or see docs/models.md"
            return Check("model", "degraded", f"{name}: its provider has no key", fix)
        address = urlsplit(catalog.address(info.provider))
        host_name, port = address.hostname or "", address.port or (443 if address.scheme == "https" else 80)
        try:
            async with asyncio.timeout(REACH_WAIT):
                _, writer = await asyncio.open_connection(host_name, port)
        except (OSError, TimeoutError) as error:
            why = f"{host_name}:{port} can't be reached: {error or 'no answer'}"
            return Check("model", "degraded", f"{name}: {why}", "is the network there, and base_url right?")
        writer.close()
        return Check("model", "healthy", f"{name}, and {host_name} answers")

    return {
        "nursery": nursery,
        "keepers": keepers,
        "versions of keepers": versions,
        "emulator": emulator,
        "journals": journals,
        "model": models,
    }


def _names(directory: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(directory)
    return []
