"""Sends messages to subscribed browsers: encrypted, signed, a few at a time, and tried again where that
helps.

What could not be sent is logged with the service's name and the reason, and is gone: the question itself
waits in the inbox.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import logging
import ssl
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from . import limits
from .accepting import Seldom
from .push_book import PushBook, PushSubscription
from .push_post import BadEndpoint, Endpoint, NotSent, PushReply, endpoint_of, post
from .wired import encoded

log = logging.getLogger("fairlead.web")

CONTACT = "mailto:fairlead@example.org"
"""Whom a service may write to: it has to be there, and the owner's own address is nobody's business."""
SIGNED_SECONDS = 12 * 3600.0
"""Seconds that a signature is good for; at most a day is allowed."""
KEPT_SECONDS = 24 * 3600
"""Seconds for which a service keeps a message for a browser that is away."""
PADDED = 1024
"""Bytes to which a message is padded."""
ALWAYS_SHOWN = ".push.apple.com"
"""Services that take a browser's permission away after messages that show nothing: those get none."""

Outcome = Literal["sent", "gone", "refused", "failed", "dropped", "unwanted"]


class PushMessage(NamedTuple):
    """What one browser is told."""

    topic: str
    """What it is about: a service that still has another one of it forgets that."""
    data: dict[str, str]
    urgency: Literal["high", "normal"] = "high"


def topic_of(token: str, auth: str) -> str:
    """A question's name for a push service, which learns nothing by it."""
    digest = hashlib.sha256(f"{auth} {token}".encode()).digest()
    return base64.urlsafe_b64encode(digest)[:32].decode()


def is_silent_allowed(subscription: PushSubscription) -> bool:
    """True if a browser may be sent what shows nothing."""
    with contextlib.suppress(ValueError):
        return not endpoint_of(subscription.endpoint).host.endswith(ALWAYS_SHOWN)
    return True


class PushSender:
    """Sends messages."""

    def __init__(self, book: PushBook, own: Callable[[], str]) -> None:
        """`own` says which push service of one's own there is."""
        self._book = book
        self._own = own
        self._places = asyncio.Semaphore(limits.PUSHES_AT_ONCE)
        self._waiting = 0
        self._context: ssl.SSLContext | None = None
        self._seldom = Seldom()
        self.counts: dict[str, int] = {}
        """How often each outcome was."""

    async def send(
        self, subscription: PushSubscription, message: PushMessage, is_wanted: Callable[[], bool]
    ) -> bool:
        """Send a message as long as it is wanted; returns whether a service took it. Raises nothing."""
        if self._waiting >= limits.MAX_PUSHES_WAITING:
            return self._ended("dropped", "", "too many messages wait to be pushed")
        self._waiting += 1
        try:
            return await self._send(subscription, message, is_wanted)
        finally:
            self._waiting -= 1

    async def _send(
        self, subscription: PushSubscription, message: PushMessage, is_wanted: Callable[[], bool]
    ) -> bool:
        try:
            endpoint = endpoint_of(subscription.endpoint, self._own())
        except BadEndpoint as error:
            self._drop(subscription)
            return self._ended("refused", "", str(error))
        why = ""
        for number in range(limits.PUSH_TRIES):
            pause = limits.PUSH_PAUSES[min(number, len(limits.PUSH_PAUSES) - 1)]
            async with self._places:
                if not is_wanted():
                    return self._ended("unwanted", endpoint.host, "")
                try:
                    reply = await self._post(endpoint, subscription, message)
                except (NotSent, OSError, ValueError) as error:
                    why = str(error)
                else:
                    status = reply.status
                    if status < 300:
                        return self._ended("sent", endpoint.host, "")
                    if status in (404, 410):
                        self._drop(subscription)
                        return self._ended("gone", endpoint.host, "the browser has unsubscribed")
                    why = f"it answered {status}"
                    if status != 429 and status < 500:
                        return self._ended("refused", endpoint.host, why)
                    if reply.retry_after is not None:
                        pause = min(max(pause, reply.retry_after), limits.MAX_PUSH_PAUSE)
            if number + 1 < limits.PUSH_TRIES:
                await asyncio.sleep(pause)
        return self._ended("failed", endpoint.host, why)

    async def _post(
        self, endpoint: Endpoint, subscription: PushSubscription, message: PushMessage
    ) -> PushReply:
        from .push_crypto import browser_keys, encrypt

        if self._context is None:  # reading the certificates of all authorities takes a moment
            self._context = await asyncio.to_thread(ssl.create_default_context)
            self._context.set_alpn_protocols(["http/1.1"])
        keys = browser_keys(subscription.p256dh, subscription.auth)
        body = encrypt(encoded(message.data), keys, size=PADDED)
        signed = self._book.vapid().authorization(endpoint.audience, time.time() + SIGNED_SECONDS, CONTACT)
        headers = {
            "Authorization": signed,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(KEPT_SECONDS),
            "Urgency": message.urgency,
            "Topic": message.topic,
        }
        return await post(endpoint, self._context, headers, body)

    def _drop(self, subscription: PushSubscription) -> None:
        with contextlib.suppress(OSError):
            self._book.drop([subscription])

    def _ended(self, outcome: Outcome, host: str, why: str) -> bool:
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        if why:
            self._seldom.warn(f"a push was not sent ({host or 'nowhere'}): {why}")
        return outcome == "sent"
