"""A connection to the daemon over rpc-edn that waits for its answers."""

from __future__ import annotations

import socket
import time
from typing import Any, TypeVar

from .. import __version__
from ..system.settings import Settings
from ..wire import rpc
from ..wire.faults import Broken
from . import versions
from .calls import Call, RequestError, plain
from .launch import connected, raise_if_hung
from .reconnect import repeating

__all__ = ["DaemonConnection", "RequestError"]

T = TypeVar("T")
READ_SIZE = 65_536


def named_via(via: str, settings: Settings) -> str:
    """What a person answers with, for those of another host: with the name of this one."""
    return f"{socket.gethostname()}: {via}" if settings.host and via else via


class DaemonConnection:
    """Requests to the daemon, one after the other. If it goes away, the next request finds the next one."""

    def __init__(
        self, settings: Settings | None = None, *, start: bool = True, via: str = "", hosts: bool = False
    ) -> None:
        """`via` is what a person answers questions with, as others are told of it; with `hosts`, HOST:NAME is
        a session of another host."""
        self.settings = settings or Settings()
        self._start = start
        self._via = via
        self._features = (*rpc.OUR_FEATURES, rpc.HOSTS) if hosts else rpc.OUR_FEATURES
        self._socket: socket.socket | None = None
        self._wire = rpc.ClientConnection()
        self._connected()

    def __enter__(self) -> DaemonConnection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, op: str, **params: Any) -> dict[str, Any]:
        """The data of an op's response, with plain names. Raises RequestError or ConnectionError."""
        given = {name: value for name, value in params.items() if value is not None}
        connection = self._connected()
        try:
            id, line = self._wire.request(op, rpc.fields(**given))
            connection.sendall(line)
            answer: dict[str, Any] = plain(self._answer(connection, id))
        except RequestError:
            raise
        except BaseException:  # an answer that nobody waits for any more would come in between
            self.close()
            raise
        return answer

    def call(self, call: Call[T]) -> T:
        """Make a call. One that only looks or waits is made again if the daemon goes away."""
        began = time.monotonic()
        reconnect = repeating(call)
        while True:
            try:
                self._connected()
                reconnect.reached()
                return call.result(self.ask(call.op, **call.params(time.monotonic() - began)))
            except ConnectionError as error:
                time.sleep(reconnect.pause(error))

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._wire = rpc.ClientConnection()
            self._socket = connected(self.settings, start=self._start)
            try:
                via = named_via(self._via, self.settings)
                hello = self._wire.handshake("fairlead", __version__, self._features, via=via)
                self._socket.sendall(hello)
                greeting = plain(self._answer(self._socket, "req-1"))
            except BaseException:
                self.close()
                raise
            versions.note_version(greeting["server_info"].get("server_version"), self.settings.host)
            if not self.settings.host:
                versions.note_config_fault(greeting["server_info"].get("config_fault"))
        return self._socket

    def _answer(self, connection: socket.socket, id: str) -> Any:
        while data := self._received(connection):
            for item in self._wire.receive(data):
                if isinstance(item, rpc.Response) and item.id == id:
                    return item.data
                if isinstance(item, rpc.Error) and item.id in (id, None):
                    raise RequestError(item.code, item.message, plain(item.data))
                if isinstance(item, Broken):
                    raise ConnectionError(item.reason)
        raise ConnectionError("the daemon closed the connection")

    def _received(self, connection: socket.socket) -> bytes:
        """What comes next. An op may take any time; but a daemon that does not even answer a ping is hung."""
        began = time.monotonic()
        connection.settimeout(self.settings.number("daemon", "answer_seconds"))
        try:
            return connection.recv(READ_SIZE)
        except TimeoutError:
            pass
        try:
            if self._wire.state is rpc.State.READY:
                connection.sendall(self._wire.request("ping")[1])
                return connection.recv(READ_SIZE)
        except TimeoutError:
            pass
        raise_if_hung(self.settings, began)
        raise ConnectionError(f"the daemon does not answer; see {self.settings.log_path}")
