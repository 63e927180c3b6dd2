"""A keepty client over a plain socket that sends what it is told, legal or not, and reads when it is told."""

from __future__ import annotations

import os
import socket
import time
from typing import TypeVar

from fairlead.wire import keepty
from fairlead.wire.keepty import Message, Role
from tests.hosting import WAIT

M = TypeVar("M", bound=Message)


def _connected(path: str) -> socket.socket:
    """A connection; a session that was just started may take a moment to listen."""
    deadline = time.monotonic() + WAIT
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(WAIT)
        try:
            connection.connect(path)
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            if time.monotonic() > deadline:
                raise
        time.sleep(0.005)


class Peer:
    """One connection. `output` is all output so far."""

    def __init__(self, name: str) -> None:
        self.socket = _connected(keepty.socket_path(name, os.environ))
        self.output = bytearray()
        self._decoder = keepty.Decoder()
        self._read: list[Message] = []

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    @classmethod
    def greeted(cls, name: str, role: Role, cols: int = 80, rows: int = 24) -> Peer:
        """A client that has been let in."""
        peer = cls(name)
        try:
            peer.send(keepty.Hello(role, cols, rows))
            peer.next(keepty.HelloAck)
        except BaseException:
            peer.socket.close()
            raise
        return peer

    def send(self, message: Message) -> None:
        self.socket.sendall(message.encode())

    def typed(self, text: str) -> None:
        self.send(keepty.Input(text.encode()))

    def messages(self) -> list[Message]:
        """What comes next: at least one message, or none at the end of the stream."""
        while not self._read:
            try:
                data = self.socket.recv(1_048_576)
            except ConnectionResetError:  # it was closed before it had read all that we sent
                return []
            if not data:
                return []
            for message in self._decoder.feed(data):
                assert isinstance(message, Message), message
                self._read.append(message)
        found, self._read = self._read, []
        self.output += b"".join(each.data for each in found if isinstance(each, keepty.Output))
        return found

    def next(self, kind: type[M]) -> M:
        """The next message of a kind; those before it are passed over."""
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline and (found := self.messages()):
            for place, message in enumerate(found):
                if isinstance(message, kind):
                    self._keep(found[place + 1 :])
                    return message
        raise AssertionError(f"no {kind.__name__} came")

    def _keep(self, later: list[Message]) -> None:
        for each in later:  # their output is counted when they are read
            if isinstance(each, keepty.Output):
                del self.output[len(self.output) - len(each.data) :]
        self._read = later

    def until(self, text: bytes) -> bytes:
        """Read until all output so far has a text in it."""
        deadline = time.monotonic() + WAIT
        while text not in self.output:
            come = time.monotonic() < deadline and self.messages()
            assert come, f"no {text!r} in {self.output[-300:]!r}"
        return bytes(self.output)

    def ping(self) -> None:
        """Come back when the broker has seen everything that was sent."""
        self.send(keepty.Ping())
        self.next(keepty.Pong)

    def rest(self) -> list[Message]:
        """All messages until the end of the stream."""
        found = []
        while some := self.messages():
            found += some
        return found
