"""Where connections of browsers arrive. Whether one is kept is decided here, before TLS, threads or the
daemon are spent on it: by the user whose process it is, and by how many there are.

There is always room for the owner: others may have only a part of the places, and when all are taken, the
oldest connection over which nobody has logged in makes room.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
import ssl
import time
from asyncio import sslproto
from collections.abc import Callable

from ..doors.peer_proof import peer_uid
from ..system.processes import has_proc
from . import limits
from .pace import MessagePace
from .places import Users
from .wired import Scope

log = logging.getLogger("fairlead.web")

STRANGER, GUEST, OWNER = range(3)
"""Who has asked something over a connection: nobody who was let in, a guest with a share, or all others."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PHRASES = {403: "Forbidden", 408: "Request Timeout", 503: "Service Unavailable"}


def plain_address(address: str) -> str:
    """An address without the interface; one of IPv4 as such also where it is in one of IPv6."""
    address = address.partition("%")[0]
    return address.removeprefix("::ffff:") if "." in address else address


def is_near(address: str, own: str) -> bool:
    """True if an address is one of this machine, as far as the address tells."""
    address = plain_address(address)
    return address.startswith("127.") or address in ("::1", plain_address(own))


def _network_of(address: str) -> str:
    """What stands for one machine: an address of IPv4, or the /64 in which it chooses those of IPv6."""
    if ":" not in address:
        return address
    return str(ipaddress.ip_network((address, 64), strict=False))


def refusal(status: int, why: str) -> bytes:
    """An answer in one piece, after which the connection is closed."""
    body = why.encode()
    head = (
        f"HTTP/1.1 {status} {_PHRASES[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


class Seldom:
    """Logs the same thing at most now and then, with how often it happened: others make it happen."""

    def __init__(self) -> None:
        self._next = 0.0
        self._left_out = 0

    def warn(self, text: str) -> None:
        now = time.monotonic()
        if now < self._next:
            self._left_out += 1
            return
        more = f" (and {self._left_out} others before it)" if self._left_out else ""
        self._next, self._left_out = now + limits.LOG_SECONDS, 0
        log.warning("%s%s", text, more)


class Connection:
    """One that was accepted. Its socket tells whether it is still open."""

    def __init__(self, accepted: socket.socket, address: str, *, near: bool) -> None:
        self._socket = accepted
        self.address = address
        self.is_near = near
        self.standing = STRANGER
        self.pace = MessagePace(limits.WS_RATE, limits.WS_BURST)
        """How fast messages of a WebSocket are taken."""
        self.transport: asyncio.BaseTransport | None = None
        self.opening: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    def drop(self) -> None:
        """Close it at once."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


def connection_of(scope: Scope) -> Connection | None:
    """The connection over which a request came."""
    found = (scope.get("state") or {}).get("connection")
    return found if isinstance(found, Connection) else None


def pace_of(scope: Scope) -> MessagePace:
    """The pace of the connection over which a request came."""
    connection = connection_of(scope)
    return connection.pace if connection is not None else MessagePace(limits.WS_RATE, limits.WS_BURST)


def drop_connection(scope: Scope) -> None:
    """Close the connection over which a request came at once, whatever waits to be read."""
    if (connection := connection_of(scope)) is not None:
        connection.drop()


class Entrance:
    """Accepts connections at a listening socket."""

    def __init__(
        self,
        bound: socket.socket,
        made: Callable[[Connection], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None,
        *,
        users: Users,
    ) -> None:
        """`made` makes the protocol of a connection. Processes of these users may connect."""
        bound.setblocking(False)
        self._bound = bound
        self._made = made
        self._tls = tls
        # asyncio gives each connection a buffer of 256 KiB, and all of it is in memory at once
        sslproto.SSLProtocol.max_size = limits.TLS_BUFFER
        self._users = users
        self._loop = asyncio.get_running_loop()
        self._open: list[Connection] = []  # the oldest first
        self._lingering: set[asyncio.Task[None]] = set()
        self._paused: asyncio.TimerHandle | None = None
        self._refused, self._full = Seldom(), Seldom()

    def start(self) -> None:
        self._paused = None
        self._loop.add_reader(self._bound, self._accept)

    def close(self) -> None:
        """Accept no more, and end what is not connected yet."""
        if self._paused is not None:
            self._paused.cancel()
        if self._bound.fileno() >= 0:
            self._loop.remove_reader(self._bound)
        for each in self._open:
            if each.transport is None:
                each.drop()
        for task in self._lingering:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(limits.ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                # it would be tried again at once, and for ever: those that have a place end first
                self._full.warn(f"can't accept connections: {error.strerror}")
                self._loop.remove_reader(self._bound)
                self._paused = self._loop.call_later(limits.FULL_SECONDS, self.start)
                return
            accepted.setblocking(False)
            self._arrived(accepted, plain_address(address[0]))

    def _arrived(self, accepted: socket.socket, address: str) -> None:
        near = is_near(address, self._bound.getsockname()[0]) or is_near(address, accepted.getsockname()[0])
        if why := self._objection(accepted, near=near):
            self._refused.warn(f"refused a connection from {address}: {why}")
            self._refuse(accepted, 403, why)
        elif not self._make_room(address, near=near):
            self._refused.warn(f"refused a connection from {address}: too many connections")
            self._refuse(accepted, 503, "too many connections")
        else:
            connection = Connection(accepted, address, near=near)
            self._open.append(connection)
            connection.opening = self._loop.create_task(self._opened(connection, accepted))
            connection.opening.add_done_callback(lambda task: accepted.close() if task.cancelled() else None)

    def _objection(self, accepted: socket.socket, *, near: bool) -> str:
        """Why another user's process is refused; empty if it is none. Only our own cost more than this."""
        try:
            uid = peer_uid(accepted)
        except OSError:
            uid = None
        if uid is None:
            return "the process that connected is gone" if near and has_proc() else ""
        return self._users.objection(uid)

    def _make_room(self, address: str, *, near: bool) -> bool:
        """Have a place for one more, if need be by dropping one that matters less."""
        self._open = [each for each in self._open if each.is_open]
        far = [each for each in self._open if not each.is_near and each.standing == STRANGER]
        if not near:
            same = [each for each in far if _network_of(each.address) == _network_of(address)]
            if len(same) >= limits.MAX_CONNECTIONS_OF_ADDRESS:
                return self._replace(same)
            if len(far) >= limits.MAX_CONNECTIONS_OF_STRANGERS:
                return self._replace(far)
        if len(self._open) < limits.MAX_CONNECTIONS:
            return True
        if far or not near:
            return self._replace(far)
        strangers = [each for each in self._open if each.standing == STRANGER]
        return self._replace(strangers or [each for each in self._open if each.standing == GUEST])

    def _replace(self, found: list[Connection]) -> bool:
        """Drop the oldest of some connections, if there is one."""
        if not found:
            return False
        self._open.remove(found[0])
        found[0].drop()
        return True

    async def _opened(self, connection: Connection, accepted: socket.socket) -> None:
        seconds = limits.TLS_SECONDS if self._tls is not None else None
        try:
            connection.transport, _ = await self._loop.connect_accepted_socket(
                lambda: self._made(connection), accepted, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except OSError:  # no TLS, or not in time
            accepted.close()

    # --- refusing -----------------------------------------------------------------------------------------

    def _refuse(self, accepted: socket.socket, status: int, why: str) -> None:
        """Say why if that is possible without TLS, and close."""
        if self._tls is not None or len(self._lingering) >= limits.MAX_LINGERING:
            accepted.close()
            return
        with contextlib.suppress(OSError):
            accepted.send(refusal(status, why))
            accepted.shutdown(socket.SHUT_WR)
        task = self._loop.create_task(self._linger(accepted))
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    async def _linger(self, accepted: socket.socket) -> None:
        """Read what is still said: the kernel resets a connection with unread data, and drops our answer."""
        with accepted, contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(limits.LINGER_SECONDS):
                left = limits.MAX_HEADER
                while left > 0 and (data := await self._loop.sock_recv(accepted, 4096)):
                    left -= len(data)
