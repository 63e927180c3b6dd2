"""A real nursery in a directory of its own, and connections to its keepers as a daemon makes them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairlead.keeper.protocol import (
    ACCEPTED,
    ENDED,
    NUMBER,
    OFFSET,
    SEQUENCE,
    VERSION,
    Decoder,
    FrameKind,
    Stdin,
    frame,
)

WAIT = 20.0
"""Seconds until something that does not happen fails the test."""


NURSERY = (sys.executable, "-m", "fairlead.keeper.nursery")
SILENCE = 0.5
"""Seconds after which nothing more is expected from a keeper that waits."""


class Daemon:
    """The daemon's end of a connection to a keeper. An older one does not claim its place."""

    def __init__(self, path: Path, *, claims: bool = True) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT)
        self._socket.connect(str(path))
        if claims:
            self.send(frame(FrameKind.CLAIM, json.dumps({"pid": os.getpid(), "version": VERSION}).encode()))
        self._decoder = Decoder()
        self.frames: list[tuple[int, bytes]] = []
        self.handed: list[int] = []
        """The descriptors that came with STATE: the terminal, and the memory for a loan of it."""
        self.received = 0
        """How many bytes that the program printed have come."""

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def tell(self, kind: FrameKind, *parts: bytes) -> None:
        self.send(frame(kind, *parts))

    def until_silent(self) -> None:
        """Take frames until none comes for a while, which is a TimeoutError."""
        self._socket.settimeout(SILENCE)
        try:
            self.until(lambda: False)
        finally:
            self._socket.settimeout(WAIT)

    def until(self, holds: Callable[[], bool]) -> None:
        """Take frames until something holds."""
        while not holds():
            data, handed, _, _ = socket.recv_fds(self._socket, 1 << 20, 2)
            self.handed += handed
            assert data, f"the keeper closed the connection; got {self.frames}"
            self._take(data)

    def _take(self, data: bytes) -> None:
        for kind, payload in self._decoder.feed(data):
            self.frames.append((kind, payload))
            if kind == FrameKind.DATA:
                self.received += len(payload) - OFFSET.size

    def until_kind(self, kind: FrameKind) -> bytes:
        """The payload of the first frame of a kind."""
        self.until(lambda: any(each == kind for each, _ in self.frames))
        return next(payload for each, payload in self.frames if each == kind)

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.until_kind(FrameKind.STATE))
        return state

    @property
    def printed(self) -> bytes:
        """What the program printed since the keyframe, checked to be without gap or repeat."""
        printed = bytearray()
        start = None
        for kind, payload in self.frames:
            if kind == FrameKind.DATA:
                (offset,) = OFFSET.unpack_from(payload)
                start = offset if start is None else start
                assert offset == start + len(printed), f"a gap or a repeat at {offset}"
                printed += payload[OFFSET.size :]
        return bytes(printed)

    def exit_code(self) -> int:
        code: int = NUMBER.unpack(self.until_kind(FrameKind.EXITED))[0]
        return code

    def at_end(self) -> bool:
        """Whether the keeper closed the connection."""
        while data := self._socket.recv(1 << 20):
            self._take(data)
        return True

    def close(self) -> None:
        self._socket.close()
        while self.handed:
            os.close(self.handed.pop())


class PipeDaemon(Daemon):
    """The daemon's end of a connection to a keeper of pipes."""

    def write(self, sequence: int, line: bytes) -> None:
        self.tell(FrameKind.WRITE, SEQUENCE.pack(sequence), line)

    def confirm(self, offset: int, blob: bytes) -> None:
        self.tell(FrameKind.CONFIRM, OFFSET.pack(offset), blob)

    @property
    def answers(self) -> list[tuple[int, int, int]]:
        """What was said of the lines that were written: the number, what waits, and the input's state."""
        return [ACCEPTED.unpack(payload) for kind, payload in self.frames if kind == FrameKind.ACCEPTED]

    def until_more(self) -> None:
        """Take what comes next."""
        count = len(self.frames)
        self.until(lambda: len(self.frames) > count)

    def until_accepted(self, sequence: int) -> None:
        self.until(lambda: bool(self.answers) and self.answers[-1][0] >= sequence)

    def until_stdin(self, state: Stdin) -> None:
        self.until(lambda: any(each[2] == state for each in self.answers))

    def end_program(self) -> None:
        """End the program's process group, if it was started."""
        pids = [json.loads(payload)["pid"] for kind, payload in self.frames if kind == FrameKind.STATE]
        pids += [NUMBER.unpack(payload)[0] for kind, payload in self.frames if kind == FrameKind.STARTED]
        for pid in filter(None, pids):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, 9)

    def ended(self) -> tuple[int, int]:
        """The exit code and the signal."""
        code, number = ENDED.unpack(self.until_kind(FrameKind.EXITED))
        return code, number


class Nursery:
    """A nursery process."""

    def __init__(self, directory: Path, command: Sequence[str] = NURSERY) -> None:
        self.directory = directory
        self.path = directory / "nursery.sock"
        self.process = subprocess.Popen([*command, str(self.path)])
        self.connection = self.connect()
        self.keepers: list[int] = []
        self._daemons: list[Daemon] = []

    def connect(self) -> Any:
        """A connection to the nursery, as a file."""
        for _ in range(int(WAIT / 0.01)):
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(str(self.path))
                break
            except OSError:
                connection.close()
                try:
                    self.process.wait(0.01)
                except subprocess.TimeoutExpired:
                    continue
                raise AssertionError("the nursery ended") from None
        connection.settimeout(WAIT)
        with connection:  # the file keeps it open
            return connection.makefile("rwb")

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.connection.write(json.dumps(request).encode() + b"\n")
        self.connection.flush()
        answer: dict[str, Any] = json.loads(self.connection.readline())
        return answer

    def keep(self, id: str, command: Sequence[str], **more: Any) -> dict[str, Any]:
        """Ask for a keeper."""
        spec = {
            "id": id,
            "command": list(command),
            "cwd": str(self.directory),
            "environment": {**os.environ, "TERM": "xterm-256color"},
            "cols": 80,
            "rows": 24,
            "deferred": False,
        } | more
        answer = self.ask({"keep": spec, "socket": str(self.directory / f"{id}.sock")})
        if "pid" in answer:
            self.keepers.append(answer["pid"])
        return answer

    def pipe(self, id: str, command: Sequence[str], **more: Any) -> PipeDaemon:
        """A keeper of pipes, and a connection to it."""
        spec = {
            "id": id,
            "command": list(command),
            "cwd": str(self.directory),
            "environment": dict(os.environ),
            "deferred": False,
            "directory": str(self.directory),
        } | more
        answer = self.ask({"pipe": spec, "socket": str(self.directory / f"{id}.sock")})
        self.keepers.append(answer["pid"])
        return self.pipe_again(id)

    def pipe_again(self, id: str) -> PipeDaemon:
        """The next daemon of a keeper of pipes."""
        daemon = PipeDaemon(self.directory / f"{id}.sock")
        self._daemons.append(daemon)
        return daemon

    def connect_to(self, id: str, *, claims: bool = True) -> Daemon:
        daemon = Daemon(self.directory / f"{id}.sock", claims=claims)
        self._daemons.append(daemon)
        return daemon

    def start(self, id: str, script: str, **more: Any) -> Daemon:
        """A keeper with a shell script, and a connection to it."""
        assert "pid" in self.keep(id, ["sh", "-c", script], **more)
        return self.connect_to(id)

    def close(self) -> None:
        """End everything that was started, by its process id."""
        self.connection.close()
        for daemon in self._daemons:
            daemon.close()
            if isinstance(daemon, PipeDaemon):
                daemon.end_program()
        self.process.kill()
        self.process.wait()
        for pid in self.keepers:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
