"""The ops of rpc-edn for other hosts themselves. What is on them is asked for with ops of sessions."""

from __future__ import annotations

import time

from ....sessions.directory import Directory
from ....system import own_place
from ....system.settings import Settings
from ....wire.rpc import fields
from ..elsewhere import FarHosts
from ..handlers import Data, op


class HostOps:
    """The other hosts, and how this one is listed at theirs."""

    def __init__(self, elsewhere: FarHosts, directory: Directory, settings: Settings) -> None:
        self._elsewhere = elsewhere
        self._directory = directory
        self._settings = settings

    @op
    async def host_row(self) -> Data:
        found = await self._directory.list(brief=True)
        working = sum(each.activity.state == "working" for each in found)
        return fields(**own_place.row(self._settings, working), now=time.time())

    @op
    async def host_list(self) -> Data:
        return fields(hosts=[fields(**each) for each in self._elsewhere.hosts()])

    @op
    async def host_check(self, name: str | None = None) -> Data:
        await self._elsewhere.check(name)
        found = self._elsewhere.hosts()
        return fields(hosts=[fields(**each) for each in found if name in (None, each["name"])])
