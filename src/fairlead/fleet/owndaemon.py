"""This machine's daemon, as the fleet's process sees it: its sessions, its questions, and what happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from ..client.aio_streams import Events
from ..client.calls import Call, RequestError
from ..client.following import Watching
from ..client.links import Links
from ..client.reconnect import ABSENCE, Reconnect
from ..system.settings import Settings
from ..wire.rpc_catalog import TOPICS
from . import limits

log = logging.getLogger("fairlead.fleet")

FOLLOWED = tuple(topic for topic in TOPICS if topic.startswith("sessions/") and topic != "sessions/said")
LOOK_EVERY = 5.0
RETRY = 1.0
ASK_SECONDS = 10.0


class _Followed(Events):
    """Events of a connection that is opened whether or not a daemon is to be started."""

    async def open(self, *, start: bool) -> None:
        try:
            await self._reach(start=start)
        except BaseException:
            await self.close()
            raise


class OwnDaemon:
    """The daemon, followed for good. `happened` gets each event; `changed` is called when lists change."""

    def __init__(
        self, settings: Settings, happened: Callable[[str, dict[str, Any]], None], changed: Callable[[], None]
    ) -> None:
        self.settings = settings
        self.is_away = True
        self.sessions: list[dict[str, Any]] = []
        self.questions: dict[str, dict[str, Any]] | None = None
        self.links = Links(settings, via="fleet")
        self._happened = happened
        self._changed = changed
        self._look = asyncio.Event()
        self._programs: dict[int, str] = {}
        self._was_here = False

    async def ask(self, op: str, **given: Any) -> dict[str, Any]:
        """The answer to an op. Raises RequestError or ConnectionError."""
        return await self.links.call(Call(op, given, dict))

    async def agent_programs(self) -> dict[int, str]:
        """The processes that the daemon knows to be an agent's; while it is away, those that it knew last."""
        if not self.is_away:
            with contextlib.suppress(RequestError, ConnectionError, TimeoutError, OSError):
                async with asyncio.timeout(ASK_SECONDS / 2):
                    found = (await self.ask("agent_programs"))["programs"]
                    self._programs = {int(pid): str(agent) for pid, agent in found}
        return self._programs

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._watch())

    async def _follow(self) -> None:
        reconnect: Reconnect | None = None
        may_start = True
        while True:
            try:
                events = _Followed(Watching(FOLLOWED), self.settings)
                await events.open(start=may_start and (reconnect is None or reconnect.may_start))
                reconnect, may_start = None, True
                self._back()
                try:
                    while True:
                        event = await events.next()
                        self._happened(event.topic, event.data)
                        self._look.set()
                finally:
                    await events.close()
            except RequestError as error:
                self._gone(str(error))
                await asyncio.sleep(RETRY)
            except (ConnectionError, TimeoutError, OSError) as error:
                self._gone(str(error))
                reconnect = reconnect or Reconnect(ABSENCE)
                try:
                    pause = reconnect.pause(error)
                except OSError:  # it was stopped: it is not started by us, but found when it is back
                    pause, may_start = RETRY, False
                await asyncio.sleep(pause)

    def _back(self) -> None:
        self.is_away = False
        self._look.set()
        if self._was_here:  # what happened meanwhile, nobody has told us
            self._happened("fleet/reset", {"why": "the daemon was away"})
        self._was_here = True
        self._changed()

    def _gone(self, why: str) -> None:
        if not self.is_away:
            self.is_away = True
            log.info("the daemon is away: %s", why)
            self._happened("fleet/daemon-away", {})
            self._changed()

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._look.wait()
                    await asyncio.sleep(limits.ROW_GATHER)
            self._look.clear()
            if not self.is_away:
                await self._look_at_lists()

    async def _look_at_lists(self) -> None:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                sessions = (await self.ask("session_list"))["sessions"]
                found = (await self.ask("approvals"))["approvals"]
        except (RequestError, ConnectionError, TimeoutError, OSError):
            return
        now = {str(each["token"]): each for each in found}
        before, self.questions = self.questions, now
        for token, question in (before or {}).items():
            if token not in now:
                self._happened(
                    "questions/answered", {"token": token, "session_id": question.get("session_id")}
                )
        for token, question in now.items():
            if token not in (before or {}):
                about = ("token", "kind", "session_id", "session_name", "title", "summary", "options")
                self._happened("questions/opened", {key: question.get(key) for key in about})
        if (sessions, before) != (self.sessions, now):
            self.sessions = sessions
            self._changed()

    async def close(self) -> None:
        await self.links.close()
