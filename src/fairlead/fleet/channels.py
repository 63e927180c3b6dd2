"""Streams of bytes between two machines, over NATS: numbered messages, and credit by bytes.

NATS delivers a message at most once. A stream in which a number is missing is closed at both ends, and its
client connects again as after the death of a daemon: it gets a redraw, or asks again. Nobody may send more
than a window of bytes that the other end has not taken, so no end keeps more than that.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import struct
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from . import limits

_HEAD = struct.Struct(">BQ")
_COUNT = struct.Struct(">Q")
DATA, CREDIT, END, CLOSE, PING = range(5)

Publish = Callable[[str, bytes], Awaitable[None]]


class StreamClosed(ConnectionError):
    """A stream is over. Says why."""


class StreamKey(NamedTuple):
    """Which stream: the other end's word, and an id that nobody can guess."""

    peer: str
    id: str


def new_id() -> str:
    return secrets.token_hex(16)


class FleetStream:
    """One end of a stream."""

    def __init__(
        self, key: StreamKey, subject: str, publish: Publish, forget: Callable[[StreamKey], None]
    ) -> None:
        self.key = key
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it ended, once it has; empty if both ends had nothing more to say."""
        self._subject = subject
        self._publish = publish
        self._forget = forget
        self._sent = self._taken_there = 0  # bytes
        self._taken = self._told = 0
        self._next_out = self._next_in = 0  # numbers of messages
        self._credit = asyncio.Event()
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._held = 0
        self._is_ended = False
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        loop = asyncio.get_running_loop()
        self._heard_at = self._said_at = loop.time()
        self._timer = loop.call_later(limits.PING_SECONDS, self._look)

    async def send(self, data: bytes) -> None:
        """Send bytes when there is credit for them. Raises StreamClosed."""
        view = memoryview(data)
        while view:
            while (room := limits.WINDOW - (self._sent - self._taken_there)) <= 0:
                self._credit.clear()
                self._check()
                await self._credit.wait()
            self._check()
            piece = view[: min(room, limits.CHUNK)]
            view = view[len(piece) :]
            self._sent += len(piece)
            await self._say(DATA, bytes(piece))

    async def end(self) -> None:
        """Nothing more will be sent."""
        if not self.closed.done():
            await self._say(END)

    async def receive(self) -> bytes:
        """The next bytes; empty at their end. Raises StreamClosed."""
        if self._waiting.empty():
            self._check()
        data = await self._waiting.get()
        if not data and not self._is_ended:
            self._check()
        return data

    async def took(self, count: int) -> None:
        """So many bytes were written where they belong: the other end may send more."""
        self._taken += count
        self._held -= count
        if self._taken - self._told >= limits.WINDOW // 4 and not self.closed.done():
            self._told = self._taken
            await self._say(CREDIT, _COUNT.pack(self._taken))

    def close(self, why: str = "") -> None:
        """End it here and there."""
        if not self.closed.done():
            self._run(self._say(CLOSE, why.encode()[: limits.MAX_REASON]))
            self._over(why)

    def lose(self, why: str) -> None:
        """End it here alone: the other end can't be told."""
        self._over(why)

    def take(self, message: bytes) -> None:
        """A message came from the other end."""
        if self.closed.done():
            return
        if len(message) < _HEAD.size:
            return self.close("a message without a number")
        kind, number = _HEAD.unpack_from(message)
        rest = message[_HEAD.size :]
        if number != self._next_in:
            return self.close(f"{number - self._next_in} messages were lost on the way")
        self._next_in += 1
        self._heard_at = asyncio.get_running_loop().time()
        if kind == DATA and not self._is_ended:
            self._held += len(rest)
            if self._held > limits.WINDOW or not rest:
                return self.close("the other end sent more than it had credit for")
            self._waiting.put_nowait(rest)
        elif kind == CREDIT and len(rest) == _COUNT.size:
            (taken,) = _COUNT.unpack(rest)
            if not self._taken_there <= taken <= self._sent:
                return self.close("the other end took what was not sent")
            self._taken_there = taken
            self._credit.set()
        elif kind == END:
            self._is_ended = True
            self._waiting.put_nowait(b"")
        elif kind == CLOSE:
            self._over("".join(filter(str.isprintable, rest[: limits.MAX_REASON].decode(errors="replace"))))
        elif kind != PING:
            return self.close("a message that makes no sense")
        return None

    def _check(self) -> None:
        if self.closed.done():
            raise StreamClosed(self.closed.result() or "the stream is closed")

    def _over(self, why: str) -> None:
        if self.closed.done():
            return
        self.closed.set_result(why)
        self._timer.cancel()
        self._credit.set()
        self._waiting.put_nowait(b"")
        self._forget(self.key)

    def _run(self, saying: Awaitable[None]) -> None:
        async def said() -> None:
            with contextlib.suppress(OSError):
                await saying

        task = asyncio.get_running_loop().create_task(said())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _look(self) -> None:
        """Say that we are there, and see whether the other end is."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._heard_at > limits.SILENCE_SECONDS:
            return self.close("the other end is silent")
        if now - self._said_at >= limits.PING_SECONDS - 1:
            self._run(self._say(PING))
        self._timer = loop.call_later(limits.PING_SECONDS, self._look)
        return None

    async def _say(self, kind: int, data: bytes = b"") -> None:
        async with self._sending:  # numbers go out in their order
            number, self._next_out = self._next_out, self._next_out + 1
            self._said_at = asyncio.get_running_loop().time()
            await self._publish(self._subject, _HEAD.pack(kind, number) + data)


class Passage:
    """What passes on a stream, as it is; others change it."""

    async def inward(self, data: bytes) -> bytes:
        """What is written here of what came on the stream."""
        return data

    async def outward(self, data: bytes) -> bytes:
        """What is sent on the stream of what came from here."""
        return data

    def replies(self) -> bytes:
        """What is sent besides, at once."""
        return b""

    def over(self) -> None:
        """Nothing more will pass."""


async def carry(
    channel: FleetStream,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    passing: Passage,
    *,
    is_near: bool,
) -> None:
    """Carry bytes between a stream and a connection here; closes both. At the near end, which a client has
    opened, it is over when the stream has ended; at the far end when the daemon has closed the connection."""
    turn = asyncio.Lock()

    async def out() -> None:
        while data := await reader.read(limits.CHUNK):
            async with turn:
                await channel.send(await passing.outward(data))
        await channel.end()

    async def into() -> None:
        while data := await channel.receive():
            writer.write(await passing.inward(data))
            await writer.drain()
            await channel.took(len(data))
            if said := passing.replies():
                async with turn:
                    await channel.send(said)
        if writer.can_write_eof():
            writer.write_eof()

    async def over() -> None:
        await asyncio.shield(channel.closed)

    going = [asyncio.ensure_future(each()) for each in (out, into, over)]
    last = going[1] if is_near else going[0]
    why = ""
    try:
        left = {*going}
        while not last.done() and not going[2].done():
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            failed = [each.exception() for each in done if each.exception() is not None]
            if failed:
                why = str(failed[0]) or type(failed[0]).__name__
                break
    finally:
        for each in going:
            each.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        channel.close(why)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
