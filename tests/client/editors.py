"""An editor that talks to `fairlead rpc` over its standard input and output."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.client.calls import plain
from fairlead.wire import rpc
from tests.hosting import WAIT, Hosting


class Editor:
    """An editor with its backend."""

    def __init__(self, hosting: Hosting, directory: Path, *words: str) -> None:
        self.backend = subprocess.Popen(
            [sys.executable, "-m", "fairlead", *(words or ("rpc",))],
            env=hosting.environment,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._wire = rpc.ClientConnection()
        self._waiting: list[Any] = []
        self.frames: list[Any] = []

    def write(self, data: bytes) -> None:
        assert self.backend.stdin is not None
        self.backend.stdin.write(data)
        self.backend.stdin.flush()

    def next(self) -> Any:
        assert self.backend.stdout is not None
        while not self._waiting:
            assert select.select([self.backend.stdout], [], [], WAIT)[0], f"nothing came: {self.frames[-3:]}"
            data = os.read(self.backend.stdout.fileno(), 65_536)
            assert data, "the backend has ended"
            for item in self._wire.receive(data):
                assert isinstance(item, rpc.Response | rpc.Error | rpc.Event), item
                self._waiting.append(item)
        self.frames.append(self._waiting.pop(0))
        return self.frames[-1]

    def until(self, holds: Callable[[Any], bool]) -> Any:
        while not holds(frame := self.next()):
            pass
        return frame

    def ask(self, op: str, **params: Any) -> Any:
        """The answer to a request."""
        self.send(op, **params)
        frame = self.until(lambda frame: getattr(frame, "op", None) == op)
        return plain(frame.data) if isinstance(frame, rpc.Response) else frame

    def send(self, op: str, **params: Any) -> str:
        """Ask, and don't wait; gives the request's id."""
        if op == "handshake":
            self.write(self._wire.handshake("editor", "1"))
            return ""
        id, line = self._wire.request(op, rpc.fields(**params))
        self.write(line)
        return id

    def idle(self) -> None:
        """Wait until the turn that was begun is over."""

        def is_idle(frame: Any) -> bool:
            return (
                isinstance(frame, rpc.Event)
                and frame.topic == "session/updated"
                and plain(frame.data)["phase"] == "idle"
            )

        self.until(is_idle)

    def close(self) -> int:
        """End the input, as an editor that quits does."""
        assert self.backend.stdin is not None
        assert self.backend.stdout is not None
        self.backend.stdin.close()
        code = self.backend.wait(WAIT)
        self.backend.stdout.close()
        return code
