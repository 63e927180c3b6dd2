"""Notifications: a durable queue, and the task that sends what is in it through Apprise.

Each receiver's copy is a row of its own, so that one that fails does not make others get theirs twice. A
notification is sent at most once: it is marked before it is sent, and tried again only if the sender says
that it was not sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..formats.columns import printable
from ..formats.shown import middle
from ..system.database import DatabaseFault
from ..system.extras import is_missing, missing
from .actuators import Feedback, GiveUp
from .signals import Action, Context
from .store import ControlStore, Full, Notice

log = logging.getLogger("fairlead.control")

MAX_URLS = 32
MAX_TRIES = 5
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0
"""Seconds before the second try; each pause is four times the one before."""
SEND_WAIT = 120.0
"""Seconds until a sender that does not come back is left to itself; what it had is lost or sent."""
CLOSE_WAIT = 5.0
"""Seconds that what is being sent may take when the daemon ends."""
MAX_A_MINUTE = 60
"""How many notifications are taken within a minute: whoever calls a person more often calls nobody."""
MAX_BODY = 4000
"""How many characters of a text are sent; of a longer one the middle is left out."""
MAX_SCHEME = 20
"""How many characters of an address are shown at the most, all before its colon."""
TROUBLE_PAUSE = 10.0
"""Seconds until a database that can't be used is tried again."""

T = TypeVar("T")
Send = Callable[[str, str, str], bool]
"""Sends to an address a title and a text; tells whether it was sent. It may block."""


class TooManyNotices(Exception):
    """As many notifications were taken within a minute as may be."""


def _apprise() -> Any:
    """The library, which logs nothing: addresses have passwords in them."""
    if is_missing("apprise"):
        raise GiveUp(missing("notifications need Apprise", "notify"))
    import apprise

    logging.getLogger("apprise").disabled = True
    return apprise


def send_with_apprise(url: str, title: str, body: str) -> bool:
    """Send with Apprise, which knows some hundred services by their addresses."""
    sender = _apprise().Apprise()
    if not sender.add(url):
        raise GiveUp("Apprise does not recognize an address in [notify] urls")
    return bool(sender.notify(body=body, title=title))


def unrecognized(urls: Sequence[str]) -> str:
    """Which addresses Apprise knows no service for, without what is secret in them; empty if it knows all."""
    known = _apprise().Apprise
    bad = [(at, url) for at, url in enumerate(urls, 1) if known.instantiate(url) is None]
    what = ", ".join(f"number {at} ({url.partition(':')[0][:MAX_SCHEME]}:…)" for at, url in bad)
    return f"Apprise does not recognize [notify] urls, {what}" if bad else ""


def check_urls(urls: Sequence[str]) -> None:
    """Raise ValueError if there are too many."""
    if len(urls) > MAX_URLS:
        raise ValueError(f"[notify] urls: at most {MAX_URLS} addresses, not {len(urls)}")


def _name(url: str) -> str:
    """What an address is called in the database: it has passwords in it."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


class Notifier:
    """The queue's sender, and the actuator :notify that fills it. `failed` hears of what it gave up."""

    def __init__(
        self,
        store: ControlStore,
        urls: Sequence[str],
        failed: Callable[[str], None],
        *,
        send: Send = send_with_apprise,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        check_urls(urls)
        self._store = store
        self.set_urls(urls)
        self._failed = failed
        self._send = send
        self._first_pause = first_pause
        self._wake = asyncio.Event()
        self._stops = False
        self._lately: deque[float] = deque()  # when the last ones were asked for
        self._task: asyncio.Task[None] | None = None

    def set_urls(self, urls: Sequence[str]) -> None:
        """Send to these addresses from now on."""
        self._urls = {_name(url): url for url in urls}

    @property
    def has_urls(self) -> bool:
        """Whether there is an address to send to."""
        return bool(self._urls)

    async def notify(self, action: Action, context: Context) -> Feedback:
        """:notify. What it takes will be sent, also by the next daemon."""
        if self._send is send_with_apprise and is_missing("apprise"):  # who asks is told, not only the log
            raise GiveUp(missing("notifications need Apprise", "notify"))
        if not self._urls:
            raise GiveUp("no address to notify: [notify] urls in config.toml is empty")
        try:
            self._count()
            title, body = printable(action.title), middle(printable(action.text, "\n\t"), MAX_BODY)
            await self._on_thread(lambda: self._store.queue(list(self._urls), title, body))
        except (Full, TooManyNotices) as error:
            raise GiveUp(str(error)) from None
        self._wake.set()
        if self._send is send_with_apprise:
            async with asyncio.timeout(SEND_WAIT):
                bad = await asyncio.to_thread(unrecognized, list(self._urls.values()))
            if bad:  # the others get it
                raise GiveUp(bad)
        return None

    def _count(self) -> None:
        """Take one more. Raises TooManyNotices."""
        now = time.monotonic()
        while self._lately and now - self._lately[0] > 60.0:
            self._lately.popleft()
        if len(self._lately) >= MAX_A_MINUTE:
            raise TooManyNotices(f"{MAX_A_MINUTE} notifications were sent within a minute; this one is not")
        self._lately.append(now)

    async def tell(self, keys: Sequence[str], title: str, body: str) -> bool:
        """Send what the first of `keys` stands for, unless it was told or seen before: then this gives False.
        Raises TooManyNotices."""
        if not await self.untold(keys[:1]):
            return False
        if self._urls:
            self._count()
        body = middle(body, MAX_BODY)
        is_new = await self._on_thread(lambda: self._store.tell(keys, list(self._urls), title, body))
        self._wake.set()
        return is_new

    async def note_seen(self, keys: Sequence[str]) -> None:
        """A person has seen this: it need not be told."""
        await self._on_thread(lambda: self._store.note_seen(keys))

    async def untold(self, keys: Sequence[str]) -> list[str]:
        """Which of these were neither told nor seen."""
        return await self._on_thread(lambda: self._store.untold(keys))

    def open(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop sending. What is being sent may take a moment; after that it counts as lost or sent."""
        self._stops = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_WAIT)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await self._store.thread.run(work)

    async def _run(self) -> None:
        while not self._stops:
            try:
                await self._send_all()
                due = await self._on_thread(self._store.next_due)
                pause = max(0.0, due - time.time()) if due is not None else None
            except DatabaseFault as error:
                log.warning("notifications are delayed: %s", error)
                pause = TROUBLE_PAUSE
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def _send_all(self) -> None:
        if not self._stops:
            self._wake.clear()
        while not self._stops and (notice := await self._on_thread(self._store.begin)) is not None:
            await self._send_one(notice)

    async def _send_one(self, notice: Notice) -> None:
        url = self._urls.get(notice.target)
        if url is None:
            await self._give_up(notice, "its address is no longer in [notify] urls")
            return
        try:
            async with asyncio.timeout(SEND_WAIT):
                is_sent = await asyncio.to_thread(self._send, url, notice.title, notice.body)
        except GiveUp as error:
            await self._give_up(notice, str(error))
        except TimeoutError:
            await self._give_up(notice, f"the service did not answer within {SEND_WAIT:g} s")
        except Exception as error:  # whatever a service's plugin raises
            await self._give_up(notice, f"{type(error).__name__}: {error}")
        else:
            if is_sent:
                await self._on_thread(lambda: self._store.sent(notice))
            elif notice.tries >= MAX_TRIES:
                await self._give_up(notice, f"the service refused it {notice.tries} times")
            else:
                pause = min(self._first_pause * 4 ** (notice.tries - 1), LONGEST_PAUSE)
                due = time.time() + pause
                await self._on_thread(lambda: self._store.again(notice, "refused", due))

    async def _give_up(self, notice: Notice, why: str) -> None:
        await self._on_thread(lambda: self._store.failed(notice, why))
        self._failed(f"a notification was not sent: {why}")
