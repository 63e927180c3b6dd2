"""Trying an agent: whether its program starts, speaks ACP and opens a session, and what it says of itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from ..agent.secrets import Redactor
from ..wire import acp
from ..wire.faults import Broken
from .chosen import AgentDefaults, AgentSettings
from .link import AgentLink
from .pipe import AgentExit, Pipe
from .program import AgentProgram, HostedError
from .state import Work


class Tried(Struct, frozen=True):
    """What came of it."""

    fault: str = ""
    """Why the agent can't be used; empty if it can."""
    name: str = ""
    version: str = ""
    can: Sequence[str] = ()
    """What it can do besides talking: resume, load, image, mcp-http, mcp-sse."""
    modes: Sequence[str] = ()
    models: Sequence[str] = ()
    logins: Sequence[str] = ()
    """Its own ways to log in."""
    notices: Sequence[str] = ()


class Trial:
    """One try. The program is ended after it, and nothing is kept of it."""

    def __init__(
        self,
        agent: str,
        cwd: str,
        described: AgentDefaults,
        start: Callable[[AgentSettings], Awaitable[Pipe]],
        forget: Callable[[Pipe], None],
        secrets: Redactor,
    ) -> None:
        self._forget = forget
        self._work = Work()
        self._agent: acp.InitializeResult | None = None
        self._secrets = secrets
        self._notices: list[str] = []
        self._settings = AgentSettings(
            lambda entry: None, agent, lambda: described, lambda: self._work, lambda: None
        )
        self._program = AgentProgram(
            agent,
            cwd,
            self._settings,
            lambda: start(self._settings),
            self._attach,
            self._notices.append,
            secrets.text,
            lambda: (),
        )

    async def tried(self) -> Tried:
        """Try it."""
        fault = ""
        try:
            await self._program.ready()
        except HostedError as error:
            fault = str(error)
        found = self._described(fault)
        await self._program.stop("it was tried")
        return found

    def _described(self, fault: str) -> Tried:
        if self._agent is None:
            return Tried(fault, notices=self._notices)
        can = self._agent.agent_capabilities
        abilities = {
            "resume": can.session_capabilities.resume is not None,
            "load": can.load_session,
            "image": can.prompt_capabilities.image,
            "mcp-http": can.mcp_capabilities.http,
            "mcp-sse": can.mcp_capabilities.sse,
        }
        about = self._agent.agent_info
        return Tried(
            fault,
            (about.title or about.name) if about is not None else "",
            about.version if about is not None else "",
            [name for name, is_there in abilities.items() if is_there],
            self._settings.modes,
            list(self._settings.models),
            [each.name for each in self._agent.auth_methods],
            self._notices,
        )

    # --- what its program says ----------------------------------------------------------------------------

    def _attach(self, pipe: Pipe) -> None:
        self._program.link = link = AgentLink(pipe, self, None, self._secrets)
        self._work = link.work
        link.begin()

    def handle(self, item: acp.Item) -> None:
        link = self._program.link
        assert link is not None
        self._agent = link.connection.agent
        match item:
            case acp.CallAnswer(result=acp.NewSessionResult(session_id=id) as result):
                self._settings.opened(id, result)
            case acp.CallFailure():
                self._program.refused(item, link.work)
            case acp.CallRefused(reply=reply):
                link.send(reply)
            case Broken():
                self.failed(str(item))
        self._program.news.set()

    def keep(self, work: Work) -> None: ...

    def failed(self, why: str) -> None:
        self._program.fail(why)

    def ended(self, end: AgentExit) -> None:
        link = self._program.link
        if link is not None:
            self._program.why_ended(end)
            self._program.link = None
            self._forget(link.pipe)
            self._program.news.set()
