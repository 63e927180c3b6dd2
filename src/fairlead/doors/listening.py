"""Unix sockets that clients look for by their paths, and that come back when somebody deleted them.

A socket whose file is gone still listens, and nobody can reach it. So its file is looked at now and then, and
when it is another one or none, the server listens anew; those who are connected don't notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable

from ..keeper.sockets import listening
from ..system.settings import SettingError, safe_dir
from ..system.sockets import identity, is_served

log = logging.getLogger("fairlead")

BACKLOG = 512
"""How many clients may wait to be let in."""


class UnixServer:
    """A server at a path, for our user alone."""

    def __init__(self, path: str, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self.path = path
        self._factory = factory
        self._bound: socket.socket | None = None  # and not served yet
        self._server: asyncio.Server | None = None
        self._identity: tuple[int, int] | None = None

    def bind(self) -> None:
        """Take the path, whatever is there: clients wait until `open`. Raises OSError."""
        self._bound = listening(self.path, BACKLOG, replace=True)
        self._identity = identity(self.path)

    async def open(self) -> None:
        """Take clients; `bind` first if that was not done. Raises OSError."""
        if self._bound is None:
            self.bind()
        former, loop = self._server, asyncio.get_running_loop()
        # it does not start at once: a task that is cancelled there would leave a server that nobody closes
        self._server = await loop.create_unix_server(
            self._factory, sock=self._bound, backlog=BACKLOG, start_serving=False
        )
        self._bound = None
        if former is not None:
            former.close()
        await self._server.start_serving()

    @property
    def is_lost(self) -> bool:
        """True if it listens and nobody can find it."""
        return self._server is not None and identity(self.path) != self._identity

    async def mend(self) -> bool:
        """Listen anew if it is lost, unless another program serves the path now; true if that was done."""
        if not self.is_lost:
            return False
        if is_served(self.path):
            return False
        try:
            safe_dir(os.path.dirname(self.path))
            await self.open()
        except (OSError, SettingError) as error:
            log.warning("%s was deleted and can't be recreated: %s", self.path, error)
            return False
        log.warning("%s was deleted; recreated it", self.path)
        return True

    def close(self) -> None:
        """Take no more clients."""
        for each in (self._server, self._bound):
            if each is not None:
                each.close()
        self._server = self._bound = None
        if self._identity is not None and identity(self.path) == self._identity:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self._identity = None
