"""The hosts that the fleet's process knows, as they come and go: it tells them on its own socket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec
from msgspec import Struct

from ..client.hosts.table import check_name

log = logging.getLogger("fairlead")

RETRY = 2.0
"""Seconds until a fleet's process that has gone is looked for again."""
MAX_LINE = 1024 * 1024
MAX_NAMES = 2000
"""How many hosts of a fleet are followed."""


class _Named(Struct):
    name: str


class _Line(Struct):
    hosts: list[_Named]


class FleetNames:
    """The names of a fleet's hosts; `changed` is called when they are others."""

    def __init__(self, path: str, changed: Callable[[], None]) -> None:
        self.names: tuple[str, ...] = ()
        self._path = path
        self._changed = changed
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
                reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_LINE)
                try:
                    writer.write(b"hosts\n")
                    while line := await reader.readline():
                        self._take(line)
                finally:
                    writer.close()
            await asyncio.sleep(RETRY)

    def _take(self, line: bytes) -> None:
        found = []
        for each in msgspec.json.decode(line, type=_Line).hosts[:MAX_NAMES]:
            with contextlib.suppress(ValueError):
                found.append(check_name(each.name))
        if tuple(found) != self.names:
            self.names = tuple(found)
            self._changed()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
