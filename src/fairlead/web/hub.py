"""The daemon as the console sees it: calls on shared connections, what happens, and questions that wait.

One task follows the daemon for all pages. It numbers what happens, so that a page whose connection was lost
gets what it missed. A cursor names the console's own start: those of another console mean nothing here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from ..client.aio_streams import Events
from ..client.calls import Call, RequestError
from ..client.following import Watching
from ..client.links import Links
from ..client.reconnect import ABSENCE, Reconnect
from ..system.settings import LOCAL, Settings
from ..wire.rpc_catalog import TOPICS
from . import limits

log = logging.getLogger("fairlead.web")

FOLLOWED = tuple(
    topic
    for topic in TOPICS
    if (topic.startswith(("sessions/", "hosts/", "terminal/", "verify/")) and topic != "sessions/said")
)
QUESTIONS = "sessions/questions"
"""The topic that says that questions were asked or answered: pages get those themselves."""
"""The topics that pages get."""
_ASKING = (
    "sessions/state",
    "sessions/needs-person",
    "sessions/closed",
    "sessions/exited",
    "sessions/changed",
    QUESTIONS,
)
"""After these it is looked which questions wait;"""
GATHER = 0.03
"""so many seconds later, as several come together,"""
LOOK_EVERY = 5.0
"""and after so many seconds anyhow: daemons of before have no topic for that."""
HERE_SECONDS = 5.0
"""Seconds that a request waits for a daemon that is away."""
FAR_LOOK = 1.0
"""Seconds between two looks whether a host is back whose session a page shows."""
RETRY = 1.0
"""Seconds until a daemon that was stopped is looked for again."""


class NumberedEvent(NamedTuple):
    """Something happened."""

    number: int
    topic: str
    data: dict[str, Any]


Listener = Callable[[NumberedEvent], None]


class _Followed(Events):
    """Events of a connection that is opened whether or not there is a daemon to be started."""

    async def open(self, *, start: bool) -> None:
        try:
            await self._reach(start=start)
        except BaseException:
            await self.close()
            raise


class Hub:
    """What the console has of the daemon."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.links = Links(settings, via="web console")
        self._all_hosts = Links(settings, via="web console", hosts=True)
        self.is_away = True
        self.why_away = "the daemon has not been reached yet"
        self.epoch = secrets.token_hex(4)
        self.questions: dict[str, dict[str, Any]] = {}
        """All that waits for a person, by its token."""
        self.has_looked = False
        """True once it is known what waits."""
        self.counts: dict[str, int] = {}
        """How often each topic has come."""
        self.changed = asyncio.Event()
        """Set when `is_away` changes."""
        self._kept: deque[NumberedEvent] = deque(maxlen=limits.MAX_EVENTS_KEPT)
        self._number = 0
        self._listeners: set[Listener] = set()
        self._look = asyncio.Event()
        self._programs: dict[int, str] = {}
        self._may_start = True

    # --- calls --------------------------------------------------------------------------------------------

    async def ask(self, op: str, **given: Any) -> dict[str, Any]:
        """The answer to an op. Raises RequestError or ConnectionError."""
        return await self.links.call(Call(op, given, dict))

    async def ask_all_hosts(self, op: str, **given: Any) -> dict[str, Any]:
        """The same, where `HOST:ID` is a session of another host. Only for those who may see all there is: a
        share's session may have a name that looks like that."""
        return await self._all_hosts.call(Call(op, given, dict))

    async def place(self, name: str) -> tuple[Settings, str]:
        """Where the session of this name among all hosts is: what leads to its daemon, and its name there."""
        host, colon, rest = name.partition(":")
        if not colon or not rest:
            return self.settings, name
        if host == LOCAL:
            return self.settings, rest
        hosts = (await self.ask("host_list"))["hosts"]
        if not any(each["name"] == host for each in hosts):
            return self.settings, name
        return Settings(self.settings.environ, host=host), rest

    async def back(self, settings: Settings) -> None:
        """Wait until the daemon to which these lead is there again, as far as the one here knows: it dials
        hosts that are away with pauses, and a page must not do so on top of that."""
        while True:
            while self.is_away:
                await self.changed.wait()
            if not settings.host:
                return
            await asyncio.sleep(FAR_LOOK)
            with contextlib.suppress(RequestError, ConnectionError, TimeoutError, OSError):
                rows = (await self.ask("host_list"))["hosts"]
                if not any(each["name"] == settings.host and each["state"] != "here" for each in rows):
                    return

    async def here(self) -> None:
        """Wait a moment for a daemon that is away: one that died is back soon, and one that was stopped must
        not be started by a page that is open somewhere. Raises ConnectionError."""
        deadline = asyncio.get_running_loop().time() + HERE_SECONDS
        while self.is_away:
            try:
                async with asyncio.timeout_at(deadline):
                    await self.changed.wait()
            except TimeoutError:
                raise ConnectionError(self.why_away) from None

    async def agent_programs(self) -> dict[int, str]:
        """The processes that the daemon knows to be an agent's; while it is away, those that it knew last."""
        if self.is_away:
            return self._programs
        with contextlib.suppress(RequestError, ConnectionError, TimeoutError, OSError):
            async with asyncio.timeout(limits.PEER_SECONDS / 2):
                found = (await self.ask("agent_programs"))["programs"]
                self._programs = {int(pid): str(agent) for pid, agent in found}
        return self._programs

    # --- what happens -------------------------------------------------------------------------------------

    @property
    def cursor(self) -> str:
        return self.cursor_at(self._number)

    def cursor_at(self, number: int) -> str:
        return f"{self.epoch}-{number}"

    def since(self, cursor: str) -> list[NumberedEvent] | None:
        """What happened after a cursor; None if that is not known any more."""
        epoch, _, number = cursor.partition("-")
        if epoch != self.epoch or not number.isdecimal() or len(number) > 18:
            return None
        missed = self._number - int(number)
        if not 0 <= missed <= len(self._kept):
            return None
        return list(islice(self._kept, len(self._kept) - missed, None))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have a function called with what happens from now on; returns what ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def post(self, topic: str, data: dict[str, Any]) -> None:
        self._number += 1
        happening = NumberedEvent(self._number, topic, data)
        self._kept.append(happening)
        self.counts[topic] = self.counts.get(topic, 0) + 1
        for listener in list(self._listeners):
            listener(happening)

    async def run(self) -> None:
        """Follow the daemon for good."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._watch_questions())

    async def _follow(self) -> None:
        reconnect: Reconnect | None = None
        while True:
            try:
                events = _Followed(Watching(FOLLOWED, hosts=True), self.settings)
                await events.open(start=self._may_start and (reconnect is None or reconnect.may_start))
                reconnect, self._may_start = None, True
                try:
                    self._back()
                    while True:
                        event = await events.next()
                        if event.topic != QUESTIONS:
                            self.post(event.topic, event.data)
                        if event.topic in _ASKING:
                            self._look.set()
                finally:
                    await events.close()
            except RequestError as error:
                self._gone(str(error))
                await asyncio.sleep(RETRY)
            except (ConnectionError, TimeoutError, OSError) as error:
                self._gone(str(error) or "the daemon is away")
                reconnect = reconnect or Reconnect(ABSENCE)
                try:
                    pause = reconnect.pause(error)
                except (
                    OSError
                ):  # it was stopped, or can't start: it is not started, but found when it is back
                    pause, self._may_start = RETRY, False
                await asyncio.sleep(pause)

    def _back(self) -> None:
        self._look.set()
        if self.is_away:
            self.is_away, self.why_away = False, ""
            self.post("web/back", {})
            self._changed()

    def _gone(self, why: str) -> None:
        if not self.is_away:
            self.is_away, self.why_away = True, why
            log.info("the daemon is away: %s", why)
            self.post("web/away", {"why": why})
            self._changed()

    def _changed(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def _watch_questions(self) -> None:
        """Tell which questions were asked, and which don't wait any more."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._look.wait()
                    await asyncio.sleep(GATHER)
            self._look.clear()
            await self.look_at_questions()

    async def look_at_questions(self) -> None:
        """See now which questions wait."""
        if self.is_away:
            return
        try:
            found = (await self.ask("approvals"))["approvals"]
        except (RequestError, ConnectionError, TimeoutError, OSError):
            return
        now = {each["token"]: each for each in found}
        before, self.questions = self.questions, now
        self.has_looked = True
        for token, question in before.items():
            if token not in now:
                data = {"token": token, "session_id": question.get("session_id"), "at": time.time()}
                self.post("questions/answered", data)
        for token, question in now.items():
            if token not in before or before[token].get("lost") != question.get("lost"):
                about = {"question": question, "session_id": question.get("session_id")}
                self.post("questions/opened", about)

    async def close(self) -> None:
        await self.links.close()
        await self._all_hosts.close()
