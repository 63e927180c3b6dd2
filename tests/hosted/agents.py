"""A small agent that talks in numbered lines, who listens to it, and places of its own for both."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from fairlead.hosted.pipe import AgentExit, Pipe
from fairlead.hosted.pipes import Pipes
from fairlead.system.keepers import NurseryLink
from fairlead.system.settings import Settings
from fairlead.system.sockets import is_served

WAIT = 30.0
"""Seconds until something that does not happen fails the test."""
ECHO = """
import sys
for number, line in enumerate(sys.stdin, 1):
    sys.stdout.write(f"{number} {line}")
    sys.stdout.flush()
"""
TALKER = """
import os, sys, threading
arrivals, stop, ahead = open(sys.argv[1], "a"), sys.argv[2], 200
answered = 0
more = threading.Condition()

def listen():
    global answered
    for line in sys.stdin:
        arrivals.write(line)
        arrivals.flush()
        with more:
            answered += 1
            more.notify()

threading.Thread(target=listen, daemon=True).start()
number = 0
while not os.path.exists(stop) or number < 1000:
    number += 1
    sys.stdout.write(f"{number} {'x' * (number * 37 % 500)}\\n")
    sys.stdout.flush()
    with more:
        more.wait_for(lambda: answered > number - ahead)
with more:
    more.wait_for(lambda: answered == number)
print("bye", number, flush=True)
"""
"""Says numbered lines until a file is there, some ahead of the answers; notes each answer that arrives."""


def talked(number: int) -> bytes:
    """The line of this number that the talker says."""
    return b"%d %b\n" % (number, b"x" * (number * 37 % 500))


class Hearer:
    """Splits what an agent says into lines and remembers them."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.lines: list[bytes] = []
        self.end: AgentExit | None = None
        self.is_output_closed = self.is_input_lost = False
        self.writables = 0
        self._rest = b""
        self._changed = asyncio.Event()
        pipe.listen(self)

    def received(self, offset: int, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.lines += lines
        self._changed.set()

    def output_closed(self) -> None:
        self.is_output_closed = True
        self._changed.set()

    def accepted(self) -> None: ...

    def writable(self) -> None:
        self.writables += 1
        self._changed.set()

    def input_lost(self) -> None:
        self.is_input_lost = True
        self._changed.set()

    def ended(self, end: AgentExit) -> None:
        self.end = end
        self._changed.set()

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def ending(self) -> AgentExit:
        await self.until(lambda: self.end)
        assert self.end is not None
        return self.end


class Ledger:
    """Handles each line of the talker as an agent's session does: what it did with them is in a state, which
    is confirmed now and then, and each line is answered with its number."""

    def __init__(self, pipe: Pipe, every: int, over: Callable[[int], None]) -> None:
        self.state: dict[str, Any] = {"handled": 0, "digest": ""}
        if pipe.blob is not None:
            self.state = json.loads(pipe.blob)
        self._pipe = pipe
        self._every = every
        self._over = over
        self._rest = b""
        pipe.listen(self)

    def received(self, offset: int, data: bytes) -> None:
        end = offset - len(self._rest)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            end += len(line) + 1
            if line.startswith(b"bye"):
                self._confirm(end)
                return
            self.state["handled"] += 1
            self.state["digest"] = chained(self.state["digest"], line)
            self._pipe.write(self.state["handled"], b"answer %d\n" % self.state["handled"])
            if self.state["handled"] % self._every == 0:
                self._confirm(end)

    def _confirm(self, offset: int) -> None:
        self._pipe.confirm(offset, json.dumps(self.state).encode())

    def output_closed(self) -> None: ...

    def accepted(self) -> None: ...

    def writable(self) -> None: ...

    def input_lost(self) -> None: ...

    def ended(self, end: AgentExit) -> None:
        self._over(end.code)


def chained(digest: str, line: bytes) -> str:
    """A digest of all lines so far and of their order."""
    return hashlib.sha256(digest.encode() + line).hexdigest()


class Place:
    """A runtime and a state directory of one's own, short enough for sockets, and a nursery there."""

    def __init__(self, nursery: Sequence[str] = ("-m", "fairlead.keeper.nursery")) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fl-", dir="/tmp"))
        self.environment = {
            **os.environ,
            "FAIRLEAD_RUNTIME_DIR": str(self.directory / "run"),
            "FAIRLEAD_STATE_DIR": str(self.directory / "state"),
            "FAIRLEAD_CONFIG": str(self.directory / "config.toml"),
        }
        self.settings = Settings(self.environment)
        (self.directory / "run").mkdir(mode=0o700)
        path = self.settings.nursery_path
        self.nursery = subprocess.Popen([sys.executable, *nursery, path])
        deadline = time.monotonic() + WAIT
        while not is_served(path):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def close(self) -> None:
        """End the nursery, and agents that a test which failed has left."""
        if list(self.directory.glob("run/pipes/*.sock")):
            asyncio.run(self._end_agents())
        self.nursery.kill()
        self.nursery.wait()
        shutil.rmtree(self.directory)

    async def _end_agents(self) -> None:
        nursery = NurseryLink(self.settings)
        pipes = Pipes(self.settings, nursery)
        await pipes.found()
        end_agents(pipes)
        pipes.close()
        nursery.close()


def end_agents(pipes: Pipes) -> None:
    """Kill all agents and their keepers, as far as they have been started."""
    for pipe in pipes:
        if pipe.keeper_pid:
            os.kill(pipe.keeper_pid, signal.SIGKILL)
        if pipe.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pipe.pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def serving(place: Place, *, ends_all: bool = True) -> AsyncIterator[Pipes]:
    """Pipes as a daemon has them; unless the next daemon shall find them, the agents are ended."""
    nursery = NurseryLink(place.settings)
    await nursery.open(None)
    pipes = Pipes(place.settings, nursery)
    try:
        yield pipes
    finally:
        if ends_all:
            end_agents(pipes)
        pipes.close()
        await nursery.leave(for_good=False)
        nursery.close()
