"""Events of this machine's daemon on their way into the fleet's stream, and those of all hosts out of it.

Each event is signed by its host, with the start of this process and a number, and has an id that nobody else
knows before the server does: the server drops what has an id that it knows. What the server has not confirmed
stays here, within limits, and is published in its order; on a new connection it is looked up first what the
stream has, so that each event is there once, however long the server was away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from . import limits, subjects
from .bus import kept
from .creds import Creds
from .signing import EVENT, SEAL_HEADER, SignatureFault, Verifier, seal

ID = "Nats-Msg-Id"
RESET = "fleet/reset"
"""The topic that says that events of a host are missing: look at its sessions anew."""


class PendingEvent(NamedTuple):
    """An event that the stream does not have yet."""

    number: int
    data: bytes
    id: str


class EventOutbox:
    """Events that wait for the server."""

    def __init__(self, creds: Creds, verifier: Verifier, domain: str = "") -> None:
        self._creds = creds
        self._verifier = verifier
        self.epoch = f"{int(time.time()):x}{secrets.token_hex(3)}"
        self.number = self.sent = 0
        self.dropped = 0
        self._domain = domain
        self._subject = subjects.feed(creds.identity.word)
        self._waiting: deque[PendingEvent] = deque()
        self._bytes = 0
        self._tried = ""
        self._news = asyncio.Event()

    def put(self, topic: str, data: dict[str, Any]) -> None:
        """Something has happened."""
        event = {"topic": topic, "data": data, "at": round(time.time(), 3)}
        encoded = json.dumps(event, separators=(",", ":"), default=str).encode()
        if len(encoded) > limits.MAX_EVENT - limits.SEAL_ROOM:
            slim = {key: value for key, value in data.items() if key in ("session_id", "token", "turn")}
            encoded = json.dumps({**event, "data": {**slim, "cut": True}}, default=str).encode()
        if len(encoded) > limits.MAX_EVENT - limits.SEAL_ROOM:
            return
        self.number += 1
        self._waiting.append(PendingEvent(self.number, encoded, secrets.token_hex(16)))
        self._bytes += len(encoded)
        while len(self._waiting) > limits.MAX_OUTBOX or self._bytes > limits.MAX_OUTBOX_BYTES:
            self._bytes -= len(self._waiting.popleft().data)
            self.dropped += 1
        self._news.set()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def run(self, client: Client) -> None:
        """Publish what waits, and what comes, as long as the connection is there. Raises NatsError."""
        await self._forget_kept(client)
        stream = client.jetstream(domain=self._domain or None)
        while True:
            while self._waiting:
                event = self._waiting[0]
                number = f"{self.epoch}:{event.number}"
                headers = {ID: event.id, SEAL_HEADER: seal(self._creds, EVENT, number, event.data)}
                is_first = self._tried != event.id
                self._tried = event.id
                said = await stream.publish(self._subject, event.data, headers=headers, timeout=5.0)
                if is_first and said.duplicate and self._waiting[0] is event:
                    # somebody else has published something with this id: it is not there
                    self._waiting[0] = event._replace(id=secrets.token_hex(16))
                    continue
                if self._waiting and self._waiting[0] is event:
                    self._pop()
                self.sent = max(self.sent, event.number)
            self._news.clear()
            await self._news.wait()

    async def _forget_kept(self, client: Client) -> None:
        """Forget what the stream has: the server may have been lost before it said so."""
        try:
            stream = client.jetstream(domain=self._domain or None)
            last = await stream.get_last_msg(subjects.FEED_STREAM, self._subject, direct=True)
        except NotFoundError:
            return
        sealed = (last.headers or {}).get(SEAL_HEADER)
        try:
            found = self._verifier.opened(EVENT, sealed, last.data or b"", self._creds.identity.word)
        except SignatureFault:  # somebody else has had it put there
            return
        epoch, number = parsed(found.number)
        if epoch == self.epoch:
            while self._waiting and self._waiting[0].number <= number:
                self._pop()
            self.sent = max(self.sent, number)

    def _pop(self) -> None:
        self._bytes -= len(self._waiting.popleft().data)


def parsed(text: str) -> tuple[str, int]:
    """Epoch and number of an event."""
    epoch, _, number = text.partition(":")
    return epoch, int(number) if number.isdecimal() and len(number) < 18 else 0


async def events(
    client: Client, domain: str, since: int, follow: bool, news: asyncio.Event, verifier: Verifier
) -> AsyncIterator[dict[str, Any]]:
    """The events of all hosts after a sequence number of the stream, in their order. `news` is set when there
    may be more. Raises NatsError."""
    info = await client.jetstream(domain=domain or None).stream_info(subjects.FEED_STREAM)
    if since and (info.state.first_seq > since + 1 or info.state.last_seq < since):
        yield {"topic": RESET, "host": None, "seq": since}  # too old, or of another stream
        since = since if info.state.last_seq >= since else 0
    last: dict[str, tuple[str, int]] = {}
    while True:
        news.clear()
        wanted = {"seq": since + 1, "next_by_subj": "fl.*.feed", "batch": limits.FEED_BATCH}
        found = await kept(client, domain, subjects.FEED_STREAM, wanted)
        for message in found:
            headers = message.headers or {}
            since = max(since, int(headers.get("Nats-Sequence", since)))
            word = headers.get("Nats-Subject", "..").split(".")[1]
            host = subjects.name_of(word)
            try:
                sealed = verifier.opened(EVENT, headers.get(SEAL_HEADER), message.data, word)
                event = json.loads(message.data)
                topic, data, at = str(event["topic"]), event["data"], float(event["at"])
            except (SignatureFault, ValueError, KeyError, TypeError, RecursionError):
                continue
            epoch, number = parsed(sealed.number)
            before = last.get(host)
            last[host] = (epoch, number)
            if before is not None and (epoch, number) != (before[0], before[1] + 1):
                if before[0] == epoch and number <= before[1]:
                    last[host] = before
                    continue  # a repetition
                yield {"topic": RESET, "host": host, "seq": since}
            yield {"seq": since, "host": host, "number": number, "topic": topic, "data": data, "at": at}
        if found:
            continue
        if not follow:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.FEED_LOOK_EVERY):
                await news.wait()
