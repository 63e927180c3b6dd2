"""A connection to the daemon over rpc-edn that waits for its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import __version__
from ..formats.edn import Keyword
from ..settings import Settings
from ..wire import rpc
from ..wire.faults import Broken
from .launch import connected

READ_SIZE = 65_536


class RequestError(Exception):
    """The daemon refused a request. `code` is rpc-edn's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Control:
    """Requests to the daemon, one after the other."""

    def __init__(self, settings: Settings | None = None, *, start: bool = True) -> None:
        self._socket = connected(settings or Settings(), start=start)
        self._wire = rpc.ClientConnection()
        self._received: list[rpc.Response | rpc.Error | rpc.Event] = []
        self._socket.sendall(self._wire.handshake("fairlead", __version__))
        self._answer("req-1")

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, op: str, **params: Any) -> dict[str, Any]:
        """The data of an op's response, with plain names. Raises RequestError."""
        given = {name: value for name, value in params.items() if value is not None}
        id, line = self._wire.request(op, rpc.fields(**given))
        self._socket.sendall(line)
        answer: dict[str, Any] = plain(self._answer(id))
        return answer

    def _answer(self, id: str) -> Any:
        for item in self._items():
            if isinstance(item, rpc.Response) and item.id == id:
                return item.data
            if isinstance(item, rpc.Error) and item.id in (id, None):
                raise RequestError(item.code, item.message)

    def _items(self) -> Iterator[rpc.Response | rpc.Error | rpc.Event]:
        while True:
            data = self._socket.recv(READ_SIZE)
            if not data:
                raise ConnectionError("the daemon closed the connection")
            for item in self._wire.receive(data):
                if isinstance(item, Broken):
                    raise ConnectionError(item.reason)
                yield item


def plain(value: Any) -> Any:
    """EDN as Python people write it: names as strings with underscores."""
    if isinstance(value, Mapping):
        return {
            key.name.replace("-", "_") if isinstance(key, Keyword) else key: plain(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value.name if isinstance(value, Keyword) else value
