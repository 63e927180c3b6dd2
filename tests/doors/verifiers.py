"""A room with agent sessions behind the verifier door, and verifiers that speak to it in raw lines."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from fairlead.agent.conversation import Conversation
from fairlead.agent.events import ConversationEvent
from fairlead.agent.live import posted
from fairlead.agent.models import Model
from fairlead.agent.store import AgentStore, Place
from fairlead.client.calls import plain
from fairlead.doors.judging import Judging
from fairlead.sessions.feed import Feed
from fairlead.sessions.inbox import Inbox
from fairlead.verify.store import ReportStore
from fairlead.wire import verifier as wire
from tests.agent.playing import WAIT, AllowAll, Held, Models

QUIET = 0.05
"""Seconds in which nothing may come if nothing should."""


class Peer:
    """A verifier, or something that is none, on a real socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session_id: str) -> None:
        self._reader, self._writer = reader, writer
        self.session_id = session_id

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def send(self, type: str, **fields: Any) -> None:
        self.write(json.dumps({"type": type, **fields}, ensure_ascii=False).encode() + b"\n")

    def hello(self, **more: Any) -> None:
        self.send("hello", role="verifier", sessionId=self.session_id, pid=1, **more)

    def prompt(self, message: str = "mend it", id: str = "c", **more: Any) -> None:
        self.send("prompt", **{"sessionId": self.session_id, "message": message, "correlationId": id, **more})

    def report(self, turn: int = 1, status: str = "verified", **more: Any) -> None:
        given = {"summary": "looked", "sections": {}, "raw": "## Report", **more}
        self.send("report", sessionId=self.session_id, turnIndex=turn, status=status, **given)

    async def line(self) -> bytes:
        """The next line; nothing at the end."""
        async with asyncio.timeout(WAIT):
            return await self._reader.readline()

    async def next(self) -> dict[str, Any]:
        line = await self.line()
        assert line.endswith(b"\n"), line
        envelope: dict[str, Any] = json.loads(line)
        return envelope

    async def until(self, type: str, **wanted: Any) -> dict[str, Any]:
        """The next envelope of a type that has these values."""
        while True:
            envelope = await self.next()
            if envelope["type"] == type and wanted.items() <= envelope.items():
                return envelope

    async def answered(self) -> list[dict[str, Any]]:
        """All that came until the answer to a ping of ours."""
        self.send("ping", nonce="now")
        found = []
        while (envelope := await self.next()) != {"type": "pong", "nonce": "now"}:
            found.append(envelope)
        return found

    async def ended(self) -> bool:
        """Whether the other side closes, without another word."""
        return await self.line() == b""

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """Go away as a process that was killed does."""
        self._writer.transport.abort()


class Room:
    """Agent sessions, their door, and what everybody was told."""

    def __init__(self, directory: Path, model: Model, max_loops: int, ping_interval: float) -> None:
        self.directory = directory
        self.project = directory / "project"
        self.project.mkdir()
        self._runtime = tempfile.mkdtemp(prefix="fl-", dir="/tmp")
        self.sockets = Path(self._runtime, "v")
        self.reports = ReportStore(str(directory / "reports.db"))
        self.told: list[tuple[str, dict[str, Any]]] = []
        self._changed = asyncio.Event()
        self.feed, self.inbox = feed, inbox = Feed(), Inbox()
        self.judging = Judging(
            [str(self.sockets)],
            self.reports,
            feed,
            inbox,
            self._tell,
            max_loops=max_loops,
            ping_interval=ping_interval,
        )
        place = Place({}, AllowAll(), "be brief", {})
        self.store = AgentStore(
            str(directory / "sessions"),
            Models(model),
            lambda cwd: place,
            self._happened,
        )
        self._peers: list[Peer] = []

    def _happened(self, event: ConversationEvent) -> None:
        for each in posted(self.store, event):
            self.feed.post(each)

    def _tell(self, topic: str, data: Mapping[Any, Any]) -> None:
        self.told.append((topic, plain(data)))
        self._changed.set()

    def session(self) -> Conversation:
        return self.store.create(str(self.project))

    def path(self, session: Conversation) -> Path:
        return Path(wire.socket_path(session.id, str(self.sockets)))

    async def peer(self, session: Conversation) -> Peer:
        """Somebody who connects and says nothing yet."""
        streams = await asyncio.open_unix_connection(str(self.path(session)), limit=2 * wire.MAX_ENVELOPE)
        peer = Peer(*streams, session.id)
        self._peers.append(peer)
        return peer

    async def verifier(self, session: Conversation, **more: Any) -> Peer:
        peer = await self.peer(session)
        peer.hello(**more)
        assert await peer.next() == {"type": "hello_ack", "sessionId": session.id}
        return peer

    async def until(self, topic: str, count: int = 1) -> dict[str, Any]:
        """Wait until everybody was told of something so often; gives the last."""
        async with asyncio.timeout(WAIT):
            while len(found := [data for told, data in self.told if told == topic]) < count:
                self._changed.clear()
                await self._changed.wait()
        return found[count - 1]

    async def close(self) -> None:
        for peer in self._peers:
            peer.close()
        self.judging.door.close_all("the test is over")
        self.store.close()
        await self.judging.close()
        await self.reports.aclose()
        shutil.rmtree(self._runtime)


@asynccontextmanager
async def room(
    directory: Path,
    model: Model | None = None,
    *,
    max_loops: int = 3,
    ping_interval: float = wire.PING_INTERVAL,
) -> AsyncIterator[Room]:
    """A room whose model answers at once, or another."""
    made = Room(directory, model or answering(), max_loops, ping_interval)
    await made.judging.open()
    try:
        yield made
    finally:
        await made.close()


def answering() -> Held:
    """A model that answers at once, whatever it is asked."""
    model = Held()
    model.go_on.set()
    return model


def served(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))  # type: ignore[arg-type]

    return run
