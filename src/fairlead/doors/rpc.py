"""The rpc-edn door: the control socket of the daemon.

A connection takes requests, runs each op as a task of its own, and sends events of the topics that its client
subscribed to. The ops themselves are functions in `ops` modules; this one knows only how to call them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from ..keeper.credentials import is_our_user
from ..settings import Settings
from ..wire import rpc
from ..wire.faults import Broken
from ..wire.rpc import ErrorCode, Request, fields
from ..wire.rpc_catalog import OPS, TOPICS

Handler = Callable[[Request], Awaitable[Mapping[Any, Any]]]
WRITE_LIMIT = 8 * 1024 * 1024
"""How many bytes a client may leave unread before it loses its events, and then its connection."""

CANCELLABLE = frozenset({"terminal_wait"})
"""Ops that `cancel_request` ends: those that only wait, so that nothing is left half done."""


class OpError(Exception):
    """An op that can't be done, in the protocol's terms."""

    def __init__(self, code: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class RpcDoor:
    """The server on the control socket."""

    def __init__(self, settings: Settings, handlers: Mapping[str, Handler]) -> None:
        own = ("handshake", "ping", "cancel_request", "subscribe", "unsubscribe")
        self.handlers = handlers
        self.ops = {name: OPS[name] for name in (*own, *handlers)}
        self._settings = settings
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen. The caller holds the daemon's lock, so what is at the path is dead."""
        path = self._settings.rpc_path
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: _Connection(self), path, backlog=512)
        os.chmod(path, 0o600)

    def close(self) -> None:
        """Take no more clients, and let go of those that are there."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._settings.rpc_path)
        for connection in list(self._connections):
            connection.close()

    def event(self, topic: str, data: Mapping[Any, Any]) -> None:
        """Tell everyone who wants to know."""
        for connection in self._connections:
            connection.event(topic, data)

    def arrived(self, connection: _Connection) -> bool:
        if len(self._connections) >= self._settings.count("rpc", "max_connections"):
            return False
        self._connections.add(connection)
        return True

    def left(self, connection: _Connection) -> None:
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, door: RpcDoor) -> None:
        self._door = door
        self._wire = rpc.ServerConnection(door.ops, TOPICS)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        if not is_our_user(transport.get_extra_info("socket")):
            transport.abort()
        elif not self._door.arrived(self):
            error = rpc.Error(ErrorCode.MAX_PENDING_EXCEEDED, "the daemon has as many clients as it may have")
            transport.write(rpc.encode(error))
            transport.close()

    def data_received(self, data: bytes) -> None:
        for item in self._wire.receive(data):
            if isinstance(item, Request):
                self._serve(item)
            elif isinstance(item, Broken):
                self._transport.write(item.reply)
                self._transport.close()
            else:
                self._transport.write(rpc.encode(item))

    def connection_lost(self, error: Exception | None) -> None:
        self._wire.close()
        self._door.left(self)
        for task in list(self._tasks.values()):
            task.cancel()

    def close(self) -> None:
        self._transport.close()

    def event(self, topic: str, data: Mapping[Any, Any]) -> None:
        """Send an event, unless the client has stopped reading."""
        if self._wire.state is rpc.State.READY and self._transport.get_write_buffer_size() < WRITE_LIMIT:
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self._transport.write(self._wire.event(topic, data, ts=now))

    # --- ops ----------------------------------------------------------------------------------------------

    def _serve(self, request: Request) -> None:
        match request.op:
            case "handshake":
                self._respond(request, rpc.server_info())
            case "ping":
                self._respond(request, fields(pong=True, protocol_version=rpc.PROTOCOL_VERSION))
            case "cancel_request":
                task = self._tasks.get(request.get("request-id"))
                found = task is not None and self._wire.pending.get(request.get("request-id")) in CANCELLABLE
                if task is not None and found:
                    task.cancel()
                self._respond(request, fields(accepted=found))
            case "subscribe":
                topics = self._wire.subscribe(request.get("topics") or ())
                self._respond(request, fields(subscribed=topics))
            case "unsubscribe":
                topics = self._wire.unsubscribe(request.get("topics") or ())
                self._respond(request, fields(subscribed=topics))
            case _:
                task = asyncio.get_running_loop().create_task(self._run(request))
                self._tasks[request.id] = task
                task.add_done_callback(lambda _: self._tasks.pop(request.id, None))

    async def _run(self, request: Request) -> None:
        try:
            self._respond(request, await self._door.handlers[request.op](request))
        except OpError as error:
            self._transport.write(self._wire.fail(request.id, error.code, str(error), error.data))
        except asyncio.CancelledError:
            if self._wire.state is rpc.State.READY:
                message = f"{request.op} was cancelled"
                self._transport.write(self._wire.fail(request.id, ErrorCode.FAILED, message))
            raise
        except Exception as error:
            message = f"{request.op} failed: {type(error).__name__}: {error}"
            self._transport.write(self._wire.fail(request.id, ErrorCode.FAILED, message))

    def _respond(self, request: Request, data: Mapping[Any, Any]) -> None:
        self._transport.write(self._wire.respond(request.id, data))
