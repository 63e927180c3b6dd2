"""The ops of rpc-edn for other hosts themselves. What is on them is asked for with ops of sessions."""

from __future__ import annotations

from ....wire.rpc import fields
from ..elsewhere import FarHosts
from ..handlers import Data, op


class HostOps:
    """The other hosts."""

    def __init__(self, elsewhere: FarHosts) -> None:
        self._elsewhere = elsewhere

    @op
    async def host_list(self) -> Data:
        return fields(hosts=[fields(**each) for each in self._elsewhere.hosts()])

    @op
    async def host_check(self, name: str | None = None) -> Data:
        await self._elsewhere.check(name)
        found = self._elsewhere.hosts()
        return fields(hosts=[fields(**each) for each in found if name in (None, each["name"])])
