"""Events of this machine's daemon on their way into the fleet's stream, and those of all hosts out of it.

Each event has an id: the host, the start of this process, and a number. What the server has not confirmed
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
from .creds import Identity

ID = "Nats-Msg-Id"
RESET = "fleet/reset"
"""The topic that says that events of a host are missing: look at its sessions anew."""


class PendingEvent(NamedTuple):
    """An event that the stream does not have yet."""

    number: int
    data: bytes


class EventOutbox:
    """Events that wait for the server."""

    def __init__(self, identity: Identity, domain: str = "") -> None:
        self.name = identity.name
        self.epoch = f"{int(time.time()):x}{secrets.token_hex(3)}"
        self.number = self.sent = 0
        self.dropped = 0
        self._domain = domain
        self._subject = subjects.feed(identity.word)
        self._waiting: deque[PendingEvent] = deque()
        self._bytes = 0
        self._news = asyncio.Event()

    def put(self, topic: str, data: dict[str, Any]) -> None:
        """Something has happened."""
        event = {"topic": topic, "data": data, "at": round(time.time(), 3)}
        encoded = json.dumps(event, separators=(",", ":"), default=str).encode()
        if len(encoded) > limits.MAX_EVENT - 1024:
            slim = {key: value for key, value in data.items() if key in ("session_id", "token", "turn")}
            encoded = json.dumps({**event, "data": {**slim, "cut": True}}, default=str).encode()
        if len(encoded) > limits.MAX_EVENT - 1024:
            return
        self.number += 1
        self._waiting.append(PendingEvent(self.number, encoded))
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
                headers = {ID: f"{self.name}:{self.epoch}:{event.number}"}
                await stream.publish(self._subject, event.data, headers=headers, timeout=5.0)
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
        name, epoch, number = parsed((last.headers or {}).get(ID, ""))
        if (name, epoch) == (self.name, self.epoch):
            while self._waiting and self._waiting[0].number <= number:
                self._pop()
            self.sent = max(self.sent, number)

    def _pop(self) -> None:
        self._bytes -= len(self._waiting.popleft().data)


def parsed(id: str) -> tuple[str, str, int]:
    """Host, epoch and number of an event's id."""
    name, _, rest = id.partition(":")
    epoch, _, number = rest.partition(":")
    return name, epoch, int(number) if number.isdecimal() and len(number) < 18 else 0


async def events(
    client: Client, domain: str, since: int, follow: bool, news: asyncio.Event
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
            host = subjects.name_of(headers.get("Nats-Subject", "..").split(".")[1])
            name, epoch, number = parsed(headers.get(ID, ""))
            try:
                event = json.loads(message.data)
                topic, data, at = str(event["topic"]), event["data"], float(event["at"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if name != host:
                continue  # an id is a host's own
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
