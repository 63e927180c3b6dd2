"""The program of a hosted session's agent: starting it, opening or resuming its session, and ending it.

Each step to an open session is seen from the state of the connection, so that another daemon can go on in
the middle. What the agent says is handled by the session (`link.Handler`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ..formats.shown import middle, visible
from ..wire import acp
from .chosen import AgentSettings
from .link import AgentLink
from .pipe import Ended, Pipe, PipeError
from .state import Work

log = logging.getLogger("fairlead")

OPEN_SECONDS = 120.0
"""Seconds that an agent has to start and to open a session."""
STOP_GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL for an agent."""
MAX_STDERR = 2000
"""How many characters of an agent's last errors are told."""
SETTING = ("session/set_mode", "session/set_config_option")
_OPENING = ("session/new", "session/load", "session/resume", *SETTING)


class HostedError(Exception):
    """An agent that can't be started or talked to. Says why."""


class AgentProgram:
    """The program of one session's agent; `link` is there while it runs."""

    def __init__(
        self,
        agent: str,
        cwd: str,
        settings: AgentSettings,
        start: Callable[[], Awaitable[Pipe]],
        attach: Callable[[Pipe], None],
        notice: Callable[[str], None],
        clean: Callable[[str], str],
    ) -> None:
        """`attach` has what was started listened to, and sets `link`. `clean` takes secrets out of a text."""
        self.link: AgentLink | None = None
        self.news = asyncio.Event()
        """Set when the agent said something, or ended."""
        self._agent = agent
        self._cwd = cwd
        self._settings = settings
        self._start = start
        self._attach = attach
        self._notice = notice
        self._clean = clean
        self._failing = ""
        self._fault = ""  # why the program that was to be started is no more
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def is_there(self) -> bool:
        """Whether it runs, or is being started."""
        return self.link is not None or (self._starting is not None and not self._starting.done())

    @property
    def is_prompted(self) -> bool:
        """Whether the agent works on what it was told."""
        return self.link is not None and self.link.is_open("session/prompt")

    # --- an open session ----------------------------------------------------------------------------------

    async def ready(self) -> AgentLink:
        """Have an agent with an open session. Raises HostedError."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                if self._stopping is not None:
                    await asyncio.wait([self._stopping])
                if self.link is None:
                    await self._begin()
                while (link := self._opened()) is None:
                    self.news.clear()
                    await self.news.wait()
                return link
        except TimeoutError:
            why = f"it did not open a session within {OPEN_SECONDS:g} s"
            self.fail(why)
            raise HostedError(f"{self._agent}: {why}") from None

    async def _begin(self) -> None:
        self._fault = ""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.ensure_future(self._begun())
        await asyncio.shield(self._starting)

    async def _begun(self) -> None:
        """Start the program, also if nobody waits for it any more."""
        self._attach(await self._start())

    def _opened(self) -> AgentLink | None:
        """Take the next step towards an open session; the link if there is nothing left to do. Raises
        HostedError."""
        link = self.link
        if link is None:
            raise HostedError(self._fault or f"{self._agent} ended")
        agent = link.connection.agent
        if agent is None:
            if not link.is_open("initialize"):
                link.request(
                    acp.Initialize(
                        protocol_version=acp.VERSION,
                        client_info=acp.Implementation(name="fairlead", version=_version()),
                    )
                )
            return None
        if link.is_open(*_OPENING):
            return None
        if not link.work.session:
            self._open_session(link, agent.agent_capabilities)
            return None
        if not link.work.is_configured:
            link.work.is_configured = True
            requests, faults = self._settings.missing()
            for fault in faults:
                self._notice(fault)
            for params in requests:
                link.request(params)
            return None if requests else link
        return link

    def _open_session(self, link: AgentLink, can: acp.AgentCapabilities) -> None:
        known, work = self._settings.session, link.work
        if known and not work.is_asked_to_open:
            work.is_asked_to_open = True
            if can.session_capabilities.resume is not None:
                link.request(acp.ResumeSession(session_id=known, cwd=self._cwd))
                return
            if can.load_session:
                work.is_replaying = True
                link.request(acp.LoadSession(session_id=known, cwd=self._cwd, mcp_servers=()))
                return
            self._begins_anew("can't resume a session")
        link.request(acp.NewSession(cwd=self._cwd, mcp_servers=()))

    def _begins_anew(self, why: str) -> None:
        self._notice(f"{self._agent} {why}: it begins a new one, and does not know what was said before")

    def refused(self, failure: acp.Failure, work: Work) -> None:
        """The agent does not do what it was asked while its session is opened or set."""
        why = self.said(failure)
        match failure.method:
            case "session/load" | "session/resume":
                work.is_replaying = False
                self._begins_anew(f"can't resume the session: {why}")
            case "session/set_mode" | "session/set_config_option":
                self._notice(f"{self._agent}: {why}")
            case _:
                if failure.error.code == acp.ErrorCode.AUTH_REQUIRED:
                    why = f"{why}: log in with its own program first"
                self.fail(why)

    def said(self, failure: acp.Failure) -> str:
        """The agent's own words about what it does not do."""
        return self._clean(visible(failure.error.message))[:MAX_STDERR]

    # --- its end ------------------------------------------------------------------------------------------

    def fail(self, why: str) -> None:
        """The agent can't be talked to, or does not do what it must: it is ended."""
        if self.link is not None and not self._failing:
            self._failing = why
            self._stopping = asyncio.ensure_future(self._stop(self.link))

    async def _stop(self, link: AgentLink) -> None:
        try:
            await link.pipe.stop(STOP_GRACE)
        except PipeError as error:
            log.error("%s", error)
            if self.link is link:
                link.ended(Ended(0, 0, b"", str(error)))

    async def stop(self, why: str) -> None:
        """End the program, and wait for that."""
        if self.link is not None:
            self.fail(why)
            assert self._stopping is not None
            await asyncio.wait([self._stopping])

    def why_ended(self, end: Ended) -> str:
        """Say why it ended, which is what the next one who waits for it is told."""
        self._fault = f"{self._agent}: {self._failing}" if self._failing else self._described(end)
        self._failing = ""
        return self._fault

    def _described(self, end: Ended) -> str:
        how = end.failure or (f"signal {end.signal}" if end.signal else f"exit code {end.code}")
        said = self._clean(visible(end.stderr.decode("utf-8", "replace").strip()))
        tail = middle(said, MAX_STDERR)
        return f"{self._agent} ended with {how}" + (f": {tail}" if tail else "")


def _version() -> str:
    from .. import __version__

    return __version__
