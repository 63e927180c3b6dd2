"""The program of a hosted session's agent: starting it, opening or resuming its session, and ending it.

Each step to an open session is seen from the state of the connection, so that another daemon can go on in
the middle. What the agent says is handled by the session (`link.Handler`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

import msgspec

from ..agent.ports import Refused
from ..formats.shown import middle, uncoloured, visible
from ..wire import acp
from . import mcp
from .chosen import AgentSettings
from .link import AgentLink
from .pipe import AgentExit, Pipe, PipeError
from .state import Work

log = logging.getLogger("fairlead")

OPEN_SECONDS = 120.0
"""Seconds that an agent has to start and to open a session."""
HELLO_SECONDS = 60.0
"""Seconds of those that it has to answer at all: some are slow to load."""
GIBBERISH_SECONDS = 8.0
"""The same for one that prints what is no message: it may be a warning, or it may speak no ACP."""
SILENT_SECONDS = 10.0
"""After so many seconds without an answer a person is told of it."""
QUIET_SECONDS = 0.5
"""An agent has repeated all of a session that it has loaded when it says nothing for so many seconds: some
answer before. It is prompted then."""
REPLAY_SECONDS = 60.0
"""Seconds of those for opening a session after which it is prompted all the same."""
EARLY = 0.05
"""Seconds by which a timer may be early."""
STOP_GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL for an agent."""
MAX_STDERR = 2000
"""How many characters of an agent's last errors are told."""
SETTING = ("session/set_mode", "session/set_model", "session/set_config_option")
_OFFERED = acp.ClientCapabilities(meta={"terminal_output": True, "terminal_output_delta": True})
"""We show what commands print, as it is and as it comes, in the way that agents and editors agreed on."""
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
        servers: Callable[[], tuple[acp.McpServer, ...]],
    ) -> None:
        """`attach` has what was started listened to, and sets `link`. `clean` takes secrets out of a text.
        `servers` are the MCP servers that the agent is told of."""
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
        self._servers = servers
        self._used = 0.0  # when something happened last
        self._timer: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None
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
                if (link := self._opened()) is None:
                    await self._greeted()
                while (link := self._opened()) is None:
                    await self._changed()
                if link.work.is_replaying:
                    await self._replayed(link)
                link.work.groups = link.work.groups or sorted(await link.pipe.groups())
                return link
        except TimeoutError:
            raise await self._given_up(f"it did not open a session within {OPEN_SECONDS:g} s") from None

    async def _replayed(self, link: AgentLink) -> None:
        """Wait until the agent has repeated what was said in its session. Raises HostedError."""
        last = time.monotonic() + REPLAY_SECONDS
        while (left := min(self._used + QUIET_SECONDS, last) - time.monotonic()) > 0:
            await self._changed(left)
            if self.link is not link:
                raise HostedError(self._fault or f"{self._agent} ended")

    async def _greeted(self) -> None:
        """Wait until the agent has answered for the first time, or has ended. Raises HostedError."""
        began, is_told = time.monotonic(), False
        gibberish = None
        while (link := self.link) is not None and link.connection.agent is None:
            now = time.monotonic()
            if link.unread and gibberish is None:
                gibberish = now
            left = began + HELLO_SECONDS - now
            if gibberish is not None:
                left = min(left, gibberish + GIBBERISH_SECONDS - now)
            if left <= 0:
                what = b"".join(link.unread).decode("utf-8", "replace")
                said = f"; it printed: {self._quoted(what)}" if what else ""
                raise await self._given_up(f"it does not speak ACP: it does not answer{said}")
            silent = began + SILENT_SECONDS - now
            if silent <= 0 and not is_told:
                is_told = True
                self._notice(await self._with_errors(link, f"{self._agent} has not answered yet"))
            else:
                await self._changed(left, silent)

    async def _changed(self, *limits: float) -> None:
        """Wait for news of the agent, for as long as the smallest limit that is more than nothing."""
        self.news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min((each for each in limits if each > 0), default=None)):
                await self.news.wait()

    async def _given_up(self, why: str) -> HostedError:
        """End an agent with which nothing can be done; returns what people are told."""
        if (link := self.link) is not None:
            why = self._placed(await self._with_errors(link, why))
        self.fail(why)
        return HostedError(f"{self._agent}: {why}")

    async def _with_errors(self, link: AgentLink, why: str) -> str:
        tail = (await link.pipe.stderr_tail()).decode("utf-8", "replace").strip()
        return f"{why}; its last errors: {self._quoted(tail)}" if tail else why

    def _quoted(self, text: str) -> str:
        """What a program printed, as people may see it."""
        return middle(self._clean(visible(uncoloured(text).strip())), MAX_STDERR)

    def _placed(self, why: str) -> str:
        """Why it failed, and that it was in a sandbox, which may be the reason."""
        if not self._settings.is_sandboxed:
            return why
        setting = f'`sandbox = ["DIR"]` below [agents.{self._agent}]'
        return f"{why} (it ran in the sandbox: {setting} lets it write to another directory)"

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
                        client_capabilities=_OFFERED,
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
            try:
                requests = self._settings.missing()
            except Refused as error:
                raise HostedError(str(error)) from None
            link.work.is_configured = True
            for params in requests:
                link.request(params)
            return None if requests else link
        return link

    def _open_session(self, link: AgentLink, can: acp.AgentCapabilities) -> None:
        known, work = self._settings.session, link.work
        servers = self._usable_servers(can)
        if known and not work.is_asked_to_open:
            work.is_asked_to_open = True
            if can.session_capabilities.resume is not None:
                link.request(acp.ResumeSession(session_id=known, cwd=self._cwd, mcp_servers=servers))
                return
            if can.load_session:
                work.is_replaying = True
                link.request(acp.LoadSession(session_id=known, cwd=self._cwd, mcp_servers=servers))
                return
            self._begins_anew("can't resume a session")
        link.request(acp.NewSession(cwd=self._cwd, mcp_servers=servers))

    def _usable_servers(self, can: acp.AgentCapabilities) -> tuple[acp.McpServer, ...]:
        servers, faults = mcp.usable(self._servers(), can)
        for fault in faults:
            self._notice(f"{self._agent} {fault}")
        known = {each.name for each in self._servers()}
        if lost := [name for name in self._settings.servers if name not in known]:
            self._notice(
                f"{self._agent} goes on without the MCP servers {', '.join(lost)}: what clients say of them "
                "is not kept when the machine restarts; open the session from there again"
            )
        return servers

    def _begins_anew(self, why: str) -> None:
        self._notice(f"{self._agent} {why}: it begins a new one, and does not know what was said before")

    def refused(self, failure: acp.CallFailure, work: Work) -> None:
        """The agent does not do what it was asked while its session is opened or set."""
        why = self.said(failure)
        match failure.method:
            case "session/load" | "session/resume":
                work.is_replaying = False
                self._begins_anew(f"can't resume the session: {why}")
            case method if method in SETTING:
                self._notice(f"{self._agent}: {why}")
            case _:
                if failure.error.code == acp.ErrorCode.AUTH_REQUIRED:
                    why = f"{why}: log in with its own program first"
                elif failure.method == "initialize":
                    why = f"it does not speak ACP: {why}"
                self.fail(self._placed(why))

    def said(self, failure: acp.CallFailure) -> str:
        """The agent's own words about what it does not do."""
        more = failure.error.data
        if isinstance(more, dict):  # as agents have it that say no more than "Internal error"
            more = next((more[key] for key in ("details", "message", "error") if key in more), more)
        if more and not isinstance(more, str):
            more = msgspec.json.encode(more).decode()
        told = failure.error.message
        return self._quoted(f"{told}: {more}" if more and more not in told else told)

    # --- having nothing to do -----------------------------------------------------------------------------

    def note_use(self) -> None:
        """Something happened to the agent."""
        self._used = time.monotonic()

    def rest(self, seconds: float, may_end: Callable[[], bool]) -> None:
        """End the program when nothing has happened for so long, if it can go on later with its session and
        nothing works on in its background. `may_end` says whether the session needs it not."""
        self.note_use()
        if self._timer is not None:
            self._timer.cancel()
        if seconds > 0:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look, seconds, may_end)

    def _look(self, seconds: float, may_end: Callable[[], bool]) -> None:
        self._timer = None
        link = self.link
        if link is None or self._failing:
            return
        rested = time.monotonic() - self._used
        if rested >= seconds - EARLY and may_end() and _can_resume(link):
            self._resting = asyncio.ensure_future(self._rested(link, seconds, may_end))
        else:
            again = max(EARLY, seconds - rested) if rested < seconds - EARLY else seconds
            self._timer = asyncio.get_running_loop().call_later(again, self._look, seconds, may_end)

    async def _rested(self, link: AgentLink, seconds: float, may_end: Callable[[], bool]) -> None:
        before = self._used
        works = await link.pipe.groups() - set(link.work.groups)
        if works or self._used != before or not may_end():
            self.rest(seconds, may_end)
        elif self.link is link:
            await self.stop("it had nothing to do")

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
                link.ended(AgentExit(0, 0, b"", str(error)))

    async def stop(self, why: str) -> None:
        """End the program, and wait for that."""
        if self.link is not None:
            self.fail(why)
            assert self._stopping is not None
            await asyncio.wait([self._stopping])

    def why_ended(self, end: AgentExit) -> str:
        """Say why it ended, which is what the next one who waits for it is told."""
        self._fault = f"{self._agent}: {self._failing}" if self._failing else self._described(end)
        self._failing = ""
        return self._fault

    def _described(self, end: AgentExit) -> str:
        how = end.failure or (f"signal {end.signal}" if end.signal else f"exit code {end.code}")
        tail = self._quoted(end.stderr.decode("utf-8", "replace"))
        return self._placed(f"{self._agent} ended with {how}" + (f": {tail}" if tail else ""))


def _can_resume(link: AgentLink) -> bool:
    """Whether another process of the agent can go on with the session."""
    agent = link.connection.agent
    can = agent.agent_capabilities if agent is not None else None
    return can is not None and (can.load_session or can.session_capabilities.resume is not None)


def _version() -> str:
    from .. import __version__

    return __version__
