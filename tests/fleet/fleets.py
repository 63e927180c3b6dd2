"""A fleet of its own for tests: the real server with TLS and credentials, made by the real commands."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError

from fairlead.fleet import server, subjects
from fairlead.fleet.creds import Creds, read_creds
from tests.hosting import Hosting

WAIT = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Fleet:
    """A fleet's directory in the places of a host, and its server."""

    def __init__(
        self, hosting: Hosting, name: str = "fleet", *, address: str = "127.0.0.1", listen: str = "127.0.0.1"
    ) -> None:
        self.hosting = hosting
        self.directory = hosting.directory / name
        self.url = f"tls://127.0.0.1:{free_port()}"
        self.leaf_url = f"tls://127.0.0.1:{free_port()}"
        self._server: subprocess.Popen[str] | None = None
        where, leaf = (each.replace("tls://127.0.0.1", listen) for each in (self.url, self.leaf_url))
        self.run("init", "--address", address, "--listen", where, "--leaf-listen", leaf)

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.hosting.run("fleet", *words, "--dir", str(self.directory), check=check)

    @property
    def ca(self) -> str:
        return str(self.directory / "tls/ca.pem")

    def creds(self, kind: str, name: str, *words: str) -> Creds:
        """The credential of a machine or user, made if there is none."""
        return read_creds(self.creds_path(kind, name, *words))

    def creds_path(self, kind: str, name: str, *words: str) -> str:
        found = sorted(Path(self.directory, "creds").glob(f"*{kind}-{name}.creds"))
        if found and not words:
            return str(found[0])
        path: str = json.loads(self.run("creds", kind, name, "--json", *words).stdout)["creds"]
        return path

    @property
    def administrator(self) -> Creds:
        return read_creds(str(self.directory / "creds/administrator-team.creds"))

    # --- the server ---------------------------------------------------------------------------------------

    def serve(self) -> None:
        with open(self.directory / "server.log", "a") as log:
            self._server = subprocess.Popen(
                [*self.hosting.command, "fleet", "serve", str(self.directory)],
                env=self.hosting.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._server.stdout is not None
        ready, _, _ = select.select([self._server.stdout], [], [], WAIT)
        said = self._server.stdout.readline() if ready else ""
        assert "serving at" in said, Path(self.directory, "server.log").read_text()

    @property
    def server_pid(self) -> int:
        return int(Path(self.directory, "nats-server.pid").read_text())

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the server and who supervises it, or kill both at once."""
        if self._server is None:
            return
        process, self._server = self._server, None
        if how == signal.SIGKILL:
            process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.server_pid, signal.SIGKILL)
        else:
            process.send_signal(how)
        process.wait(WAIT)
        assert process.stdout is not None
        process.stdout.close()

    def kill_supervisor(self) -> None:
        """Kill who has started the server, and leave that running."""
        assert self._server is not None
        process, self._server = self._server, None
        process.kill()
        process.wait(WAIT)
        assert process.stdout is not None
        process.stdout.close()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory)

    # --- clients ------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def client(self, creds: Creds, **options: Any) -> AsyncIterator[Heard]:
        heard = Heard()
        given = {"error_cb": heard.error, "closed_cb": heard.close, **options}
        heard.nats = await server.connected(
            self.url, self.ca, creds.jwt, creds.key, creds.identity.word, **given
        )
        try:
            yield heard
        finally:
            await heard.nats.close()


class Heard:
    """A client of the server, with what it was told."""

    nats: Client

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.messages: list[Msg] = []
        self.closed = asyncio.Event()

    async def error(self, error: Exception) -> None:
        self.errors.append(str(error))

    async def close(self) -> None:
        self.closed.set()

    async def take(self, message: Msg) -> None:
        self.messages.append(message)

    async def refused(self, subject: str, data: bytes = b"x") -> bool:
        """True if the server refuses what is published there."""
        before = len(self.errors)
        await self.nats.publish(subject, data)
        await self.nats.flush()
        return await self._complained(before, "publish", subject)

    async def may_not_hear(self, subject: str) -> bool:
        """True if the server refuses a subscription."""
        before = len(self.errors)
        await self.nats.subscribe(subject, cb=self.take)
        await self.nats.flush()
        return await self._complained(before, "subscription", subject)

    async def _complained(self, before: int, about: str, subject: str) -> bool:
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            await self.nats.flush()
            if any(
                about in each.lower()
                and "permissions violation" in each.lower()
                and subject.lower() in each.lower()
                for each in self.errors[before:]
            ):
                return True
            if len(self.errors) == before:
                return False
            await asyncio.sleep(0.01)
        return False

    async def kept(self, subject: str) -> list[bytes]:
        """The messages of a subject that the stream of events has, as an administrator sees it."""
        found: list[bytes] = []
        sequence = 1
        stream = self.nats.jetstream()
        while True:
            try:
                message = await stream.get_msg(
                    subjects.FEED_STREAM, sequence, subject=subject, next=True, direct=True
                )
            except NotFoundError:
                return found
            found.append(message.data or b"")
            assert message.seq is not None
            sequence = message.seq + 1
