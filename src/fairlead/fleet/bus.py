"""The connection to the fleet's server: made again whenever it is lost, each time from the beginning.

nats-py could reconnect by itself, but it would send again what it still has, and nobody would know what was
lost meanwhile. Here every connection is a new one, and whoever uses it begins anew with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from . import limits
from .authority import FleetFault
from .creds import Creds
from .server import CredentialRefused, NotTrusted, closed, connected
from .subjects import api

log = logging.getLogger("fairlead.fleet")

PENDING_MESSAGES = 65_536
PENDING_BYTES = 64 * limits.MIB
"""What one subscription may have waiting; what comes beyond that is lost, which its numbers show."""
PENDING_OUT = 8 * limits.MIB
LOOK_EVERY = 0.5

Session = Callable[[Client], Awaitable[None]]


class TwinIsThere(FleetFault):
    """Another machine is in the fleet with the same credential."""


class Bus:
    """The connection, while there is one."""

    def __init__(self, url: str, ca: str | None, creds: Creds, token: str = "", domain: str = "") -> None:
        """`domain` is that of the hub's JetStream, for a leaf node, which takes `token`."""
        self.creds = creds
        self.domain = domain
        self.client: Client | None = None
        self.why_away = "not connected yet"
        self.connections = 0
        self.failures = 0
        """How often there was no connection, or it was lost."""
        self.is_refused = False
        """Whether trying again will hardly help."""
        self.errors = 0
        self._url = url
        self._ca = ca
        self._token = token

    @property
    def is_here(self) -> bool:
        return self.client is not None and self.client.is_connected

    async def publish(
        self, subject: str, data: bytes, headers: dict[str, str] | None = None, reply: str = ""
    ) -> None:
        """Raises ConnectionError."""
        client = self.client
        if client is None or not client.is_connected:
            raise ConnectionError(f"the fleet's server is away: {self.why_away}")
        try:
            await client.publish(subject, data, reply=reply, headers=headers)
        except NatsError as error:
            raise ConnectionError(f"the fleet's server is away: {error}") from None

    async def run(self, session: Session) -> None:
        """Be connected for good: `session` is run on each new connection, and ended when that is lost."""
        pause = limits.RECONNECT_FIRST
        while True:
            lost = asyncio.Event()

            async def on_closed(lost: asyncio.Event = lost) -> None:
                lost.set()

            try:
                more: dict[str, Any] = {"token": self._token} if self._token else {}
                client = await connected(
                    self._url,
                    self._ca,
                    self.creds.jwt,
                    self.creds.key,
                    self.creds.identity.word,
                    error_cb=self._note,
                    closed_cb=on_closed,
                    disconnected_cb=on_closed,
                    pending_size=PENDING_OUT,
                    ping_interval=10,
                    **more,
                )
            except FleetFault as error:
                self._away(str(error), error)
                is_long = isinstance(error, CredentialRefused)
                await asyncio.sleep(limits.REFUSED_PAUSE if is_long else pause)
                pause = min(2 * pause, limits.RECONNECT_MOST)
                continue
            self.client = client
            self.connections += 1
            running = asyncio.ensure_future(session(client))
            waiting = asyncio.ensure_future(lost.wait())
            why, fault = "the connection was lost", None
            try:
                await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if running.done() and (error_ := running.exception()) is not None:
                    if not isinstance(error_, NatsError | OSError | FleetFault | TimeoutError):
                        raise error_
                    why, fault = str(error_) or type(error_).__name__, error_
                else:
                    pause = limits.RECONNECT_FIRST
            finally:
                for each in (running, waiting):
                    each.cancel()
                await asyncio.gather(running, waiting, return_exceptions=True)
                self.client = None
                self._away(why, fault)
                await closed(client)
            await asyncio.sleep(pause)
            pause = min(2 * pause, limits.RECONNECT_MOST)

    def _away(self, why: str, fault: BaseException | None = None) -> None:
        self.failures += 1
        self.is_refused = isinstance(fault, CredentialRefused | NotTrusted | TwinIsThere)
        if why != self.why_away:
            log.info("away from the fleet: %s", why)
        self.why_away = why

    async def _note(self, error: Exception) -> None:
        self.errors += 1
        if "permissions violation" in str(error).lower():
            log.warning("the server refused: %s", error)

    async def subscribe(self, client: Client, subject: str, take: Callable[[Msg], None]) -> None:
        """Have a function called with each message; it must not wait."""

        async def taken(message: Msg) -> None:
            try:
                take(message)
            except Exception:
                log.exception("a message on %.80s could not be taken", message.subject)

        await client.subscribe(
            subject, cb=taken, pending_msgs_limit=PENDING_MESSAGES, pending_bytes_limit=PENDING_BYTES
        )


async def kept(
    client: Client, domain: str, stream: str, ask: dict[str, Any], timeout: float = 5.0
) -> list[Msg]:
    """Messages that a stream has, by a direct get of several. Raises NatsError, TimeoutError."""
    found: list[Msg] = []
    inbox = client.new_inbox()
    waiting = await client.subscribe(inbox, pending_bytes_limit=PENDING_BYTES)
    try:
        subject = f"{api(domain)}.DIRECT.GET.{stream}"
        await client.publish(subject, json.dumps(ask).encode(), reply=inbox)
        while True:
            message = await waiting.next_msg(timeout)
            headers = message.headers or {}
            if "Nats-Sequence" in headers:  # what is kept; who wrote it may have put a status there as well
                found.append(message)
                continue
            if (status := headers.get("Status")) in ("204", "404"):
                return found
            if status == "503":
                raise NatsError("the fleet's server does not answer")
            raise NatsError(f"{stream}: {status} {headers.get('Description', '')}")
    finally:
        with contextlib.suppress(NatsError):
            await waiting.unsubscribe()
