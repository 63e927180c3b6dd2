"""The keepty door: a unix socket for each terminal session, at the path that keepty's clients look for.

A connection here is a `Viewer` of its session. What a client is owed is queued in its transport; when that
is longer than the limit, the client is `behind`: the session leaves it out until the queue is empty and then
shows it the screen afresh.
"""

from __future__ import annotations

import asyncio
import os
from typing import cast

from ..keeper.credentials import is_our_user
from ..settings import SettingError, Settings, safe_dir
from ..terminal.host import is_served
from ..terminal.session import Session
from ..wire import keepty
from ..wire.faults import Broken
from .listening import UnixServer


class KeeptyDoor:
    """The sockets of all sessions."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._servers: dict[Session, UnixServer] = {}
        self.connections: dict[Session, set[_Client]] = {}

    async def open(self, session: Session) -> None:
        """Listen for a session's clients. A dead socket at its path is removed, a live one is an error."""
        try:
            safe_dir(keepty.socket_dir(os.environ))
        except SettingError as error:
            raise OSError(str(error)) from None
        path = keepty.socket_path(session.id, os.environ)
        if is_served(path):
            raise OSError(f"another program serves {path}")
        self.connections[session] = set()
        server = UnixServer(path, lambda: _Client(session, self))
        await server.open()
        self._servers[session] = server

    def close(self, session: Session) -> None:
        """Take no more clients of a session, and let go of those that are there."""
        if session in self._servers:
            self._servers.pop(session).close()
        for client in list(self.connections.pop(session, ())):
            client.finish()

    @property
    def lost(self) -> list[str]:
        """The sockets that somebody deleted."""
        return [server.path for server in self._servers.values() if server.is_lost]

    async def mend(self) -> None:
        """Listen anew where that happened."""
        for server in list(self._servers.values()):
            await server.mend()

    def is_full(self, session: Session) -> bool:
        return len(self.connections[session]) >= self._settings.count("terminal", "max_connections")

    @property
    def backlog(self) -> int:
        return self._settings.count("terminal", "client_backlog")


class _Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, session: Session, door: KeeptyDoor) -> None:
        self.behind = False
        self._session = session
        self._door = door
        self._wire = keepty.BrokerConnection()
        self._reasons = self._notices = False
        self._overfull = False
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle | None = None

    # --- asyncio's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        if not is_our_user(transport.get_extra_info("socket")):
            transport.abort()
            return
        if self._session not in self._door.connections or self._door.is_full(self._session):
            self._refuse("this session has as many clients as it may have")
            return
        self._door.connections[self._session].add(self)
        transport.set_write_buffer_limits(high=self._door.backlog, low=0)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(
            keepty.HELLO_DEADLINE, self._refuse, f"no HELLO within {keepty.HELLO_DEADLINE:g} s"
        )

    def data_received(self, data: bytes) -> None:
        for message in self._wire.receive(data):
            match message:
                case Broken(reply=reply):
                    self._transport.write(reply)
                    self._transport.close()
                case keepty.Hello() if self._deadline is not None:
                    self._deadline.cancel()
                    self._deadline = None
                    self._reasons = bool(message.wishes & keepty.Wish.REASONS)
                    self._notices = bool(message.wishes & keepty.Wish.NOTICES)
                    self._session.attach(self, message, self._greet)
                case _:
                    reason = self._session.receive(self, message)
                    if reason and self._reasons:
                        self.write(keepty.Error(reason).encode())
        if self._transport.get_write_buffer_size() > 2 * self._door.backlog:
            self._overfull = True  # it asks and asks and never reads an answer
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self.behind = True

    def resume_writing(self) -> None:
        if self._overfull:
            self._overfull = False
            self.resume()
        if self.behind:
            self.behind = False
            self._session.resync(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._door.connections.get(self._session, set()).discard(self)
        self._session.detach(self)

    # --- the session's side ---------------------------------------------------------------------------------

    def write(self, frame: bytes) -> None:
        self._transport.write(frame)

    def say(self, text: str) -> None:
        if self._notices:
            self.write(keepty.Error(text).encode())

    def finish(self) -> None:
        self._transport.close()

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _greet(self, message: keepty.Message) -> None:
        self._transport.write(self._wire.send(message))

    def _refuse(self, reason: str) -> None:
        self._transport.write(keepty.Error(reason).encode())
        self._transport.close()
