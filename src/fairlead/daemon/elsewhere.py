"""Other hosts, for a daemon that may have none: then nothing of them is imported, and nothing runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..client.hosts.table import MAX_HOSTS, KnownHost, hosts, path_of
from ..doors.rpc.elsewhere import tell
from ..doors.rpc.handlers import Clients
from ..system.settings import SettingError, Settings

if TYPE_CHECKING:
    from ..hosts.room import HostsRoom

log = logging.getLogger("fairlead")


class OtherHosts:
    """The other hosts, once there are any. The table is looked at whenever somebody asks for hosts."""

    def __init__(self, settings: Settings, clients: Clients) -> None:
        self._settings = settings
        self._clients = clients
        self._room: HostsRoom | None = None
        self._mark: tuple[object, ...] = ()
        self._is_open = False

    def open(self) -> None:
        """Follow hosts from now on."""
        self._is_open = True
        self._look()

    async def close(self) -> None:
        self._is_open = False
        if self._room is not None:
            await self._room.close()

    def _look(self) -> None:
        """See which hosts there are, if that changed."""
        has_fleet = self._settings.flag("fleet", "follow") and os.path.exists(
            f"{self._settings.runtime_dir}/fleet.sock"
        )
        try:
            found = os.stat(path_of(self._settings))
            mark: tuple[object, ...] = (found.st_mtime_ns, found.st_size, found.st_ino, has_fleet)
        except OSError:
            mark = (has_fleet,)
        if mark == self._mark or not self._is_open:
            return
        self._mark = mark
        table: Mapping[str, KnownHost] = {}
        try:
            table = hosts(self._settings)
        except SettingError as error:
            log.warning("%s; hosts are as they were before", error)
            return
        if self._room is None:
            if not table and not has_fleet:
                return
            from ..hosts.room import HostsRoom

            self._room = HostsRoom(self._settings, lambda topic, data: tell(self._clients, topic, data))
        self._room.set_table(dict(list(table.items())[:MAX_HOSTS]), has_fleet=has_fleet)

    # --- what the door asks ---------------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        self._look()
        return self._room is not None and self._room.knows(name)

    async def ask(self, host: str, op: str, params: Mapping[Any, Any], *, via: str, agent: str) -> Any:
        if self._room is None:
            raise ConnectionError(f"there is no host {host!r} any more")
        return await self._room.ask(host, op, params, via=via, agent=agent)

    def sessions(self, kind: str | None) -> Sequence[Any]:
        self._look()
        return self._room.sessions(kind) if self._room is not None else ()

    def questions(self) -> Sequence[Any]:
        self._look()
        return self._room.questions() if self._room is not None else ()

    async def reports(self, limit: int) -> Sequence[Any]:
        self._look()
        return await self._room.reports(limit) if self._room is not None else ()

    def hosts(self) -> Sequence[Mapping[str, Any]]:
        self._look()
        return self._room.hosts() if self._room is not None else ()

    async def begun(self) -> None:
        self._look()
        if self._room is not None:
            await self._room.begun()

    async def check(self, name: str | None) -> None:
        self._look()
        if self._room is not None:
            await self._room.check(name)
