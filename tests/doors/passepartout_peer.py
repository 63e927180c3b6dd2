"""A client of the Passepartout door, for tests: it keeps what comes and waits for what is wanted."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from fairlead.client.connection import DaemonConnection
from fairlead.formats.sexp import Keyword
from fairlead.system.settings import Settings
from fairlead.wire.faults import Broken
from fairlead.wire.passepartout import (
    ClientConnection,
    HealthCheck,
    HealthResponse,
    Hello,
    Message,
    event,
    plist,
)
from tests.hosting import WAIT, Hosting


def port_of(hosting: Hosting) -> int:
    port: int = hosting.ask("daemon_status")["passepartout_port"]
    return port


def kill_and_wait(hosting: Hosting) -> None:
    """Kill the daemon as hard as can be, and wait for the one that the nursery starts in its place.

    A command would start one too, which may come up only after the test has removed its directory.
    """
    pid = hosting.daemon_pid()
    os.kill(pid, signal.SIGKILL)

    def is_back() -> bool:
        try:
            with DaemonConnection(Settings(hosting.environment), start=False) as control:
                return bool(control.ask("daemon_status")["pid"] != pid)
        except ConnectionError:
            return False

    hosting.until(is_back)


class Peer:
    """A connection over TCP, or over the unix socket of a daemon."""

    def __init__(self, port: int | None = None, hosting: Hosting | None = None) -> None:
        if port is not None:
            self.socket = socket.create_connection(("127.0.0.1", port), WAIT)
        else:
            assert hosting is not None
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(WAIT)
            try:
                self.socket.connect(Settings(hosting.environment).passepartout_path)
            except OSError:
                self.socket.close()
                raise
        self.wire = ClientConnection()
        self.got: list[Any] = []
        """What has come and nobody waited for."""
        self.hello = self.until(lambda item: isinstance(item, Hello))

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def until(self, holds: Callable[[Any], bool]) -> Any:
        """The first thing that comes, or has come, for which this holds."""
        deadline = time.monotonic() + WAIT
        while True:
            for at, item in enumerate(self.got):
                if holds(item):
                    return self.got.pop(at)
                assert not isinstance(item, Broken), item
            assert time.monotonic() < deadline, self.got
            data = self.socket.recv(65_536)
            assert data, f"the daemon hung up; before that: {self.got}"
            self.got += self.wire.receive(data)

    def send(self, message: Any) -> None:
        self.socket.sendall(self.wire.send(message))

    def say(self, text: str, session: str | None = None, **more: Any) -> None:
        meta = plist(source=Keyword("TUI")) + (plist(session=session) if session else [])
        self.send(event(plist(sensor=Keyword("USER-INPUT"), text=text), meta=meta, **more))

    def answer(self) -> str:
        """The text of an answer up to its end."""
        parts = []
        while (part := self.until(is_said).get("payload", "text")) != "":
            parts.append(part)
        return "".join(parts)

    def ask(self, text: str, session: str | None = None) -> str:
        self.say(text, session)
        return self.answer()

    def health(self) -> HealthResponse:
        self.send(HealthCheck())
        found: HealthResponse = self.until(lambda item: isinstance(item, HealthResponse))
        return found

    def log(self) -> str:
        """The text of the next log message."""
        text: str = self.until(lambda item: is_a(item, "LOG")).get("payload", "text")
        return text

    def sensed(self, sensor: str) -> Message:
        """The next event of a sensor."""
        found: Message = self.until(
            lambda item: is_a(item, "EVENT") and item.get("payload", "sensor") == Keyword(sensor)
        )
        return found

    def closed(self) -> str:
        """All that comes until the daemon hangs up, as text."""
        came = b""
        try:
            while data := self.socket.recv(65_536):
                came += data
        except ConnectionResetError:
            pass
        return came.decode()


def is_a(item: Any, kind: str) -> bool:
    return isinstance(item, Message) and item.type == kind


def is_said(item: Any) -> bool:
    return is_a(item, "REQUEST") and item.get("payload", "action") == Keyword("MESSAGE")


def gates(message: Message) -> list[tuple[str, str]]:
    """The trace of a message: gates and what they said."""
    return [(step[1].name, step[3].name) for step in message.get("gate-trace")]
