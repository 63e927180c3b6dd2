"""Unix sockets that clients look for by their paths, and that come back when somebody deleted them.

A socket whose file is gone still listens, and nobody can reach it. So its file is looked at now and then, and
when it is another one or none, the server listens anew; those who are connected don't notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable

from ..settings import SettingError, safe_dir

log = logging.getLogger("fairlead")

BACKLOG = 512
"""How many clients may wait to be let in."""


def identity(path: str) -> tuple[int, int] | None:
    """Which file is at a path, if any."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class UnixServer:
    """A server at a path, for our user alone."""

    def __init__(self, path: str, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self.path = path
        self._factory = factory
        self._server: asyncio.Server | None = None
        self._identity: tuple[int, int] | None = None

    async def open(self) -> None:
        """Listen, in place of whatever is at the path. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(self._factory, self.path, backlog=BACKLOG)
        os.chmod(self.path, 0o600)
        if self._server is not None:
            self._server.close()
        self._server, self._identity = server, identity(self.path)

    @property
    def is_lost(self) -> bool:
        """True if it listens and nobody can find it."""
        return self._server is not None and identity(self.path) != self._identity

    async def mend(self) -> bool:
        """Listen anew if it is lost, unless another program serves the path now; true if that was done."""
        if not self.is_lost:
            return False
        from ..terminal.host import is_served  # which a backend without a daemon does not have

        if is_served(self.path):
            return False
        try:
            safe_dir(os.path.dirname(self.path))
            await self.open()
        except (OSError, SettingError) as error:
            log.warning("%s was deleted and can't be made again: %s", self.path, error)
            return False
        log.warning("%s was deleted, and is there again", self.path)
        return True

    def close(self) -> None:
        """Take no more clients."""
        if self._server is not None:
            self._server.close()
            self._server = None
            if identity(self.path) == self._identity:
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
