"""The room of hosted sessions: which agents there are, and starting and finding their processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..agent import context
from ..agent.events import ConversationEvent
from ..agent.journal import Journal, JournalError
from ..agent.secrets import Redactor, secret_values
from ..agent.store import AgentStore, NotFound
from ..keeper.credentials import AGENT_MARK
from ..system.keepers import NurseryLink
from ..system.settings import SettingError, Settings
from ..wire.acp import McpServer
from . import mcp
from .check import Trial, Tried
from .chosen import AgentSettings
from .known import KnownAgent, agents_in, joined
from .pipe import AgentExit, Pipe, PipeError
from .pipes import Pipes
from .program import STOP_GRACE, HostedError
from .sandbox import NoSandbox, places, sandboxed
from .session import HostedSession

log = logging.getLogger("fairlead")


class HostedProgram(NamedTuple):
    """An agent, as it is listed."""

    name: str
    agent: KnownAgent
    path: str | None
    """Where its program is, if it is there."""


class HostedRoom:
    """The third-party agents that a daemon hosts."""

    def __init__(self, settings: Settings, nursery: NurseryLink, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._runtime_dir = settings.runtime_dir
        self._pipes = Pipes(settings, nursery)
        self._found: dict[str, Pipe] = {}
        self.secrets = Redactor(secret_values(environ))
        self._given = mcp.GivenServers(f"{settings.runtime_dir}/mcp")
        self._lent: dict[str, str] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._take(self._read(settings), settings.number("hosted", "idle_seconds"))
        settings.joined(self._changing)

    def _changing(self, fresh: Settings) -> Callable[[], None]:
        """The configuration changed: agents that are started from now on are started by it."""
        agents, idle = self._read(fresh), fresh.number("hosted", "idle_seconds")
        return lambda: self._take(agents, idle)

    @staticmethod
    def _read(settings: Settings) -> dict[str, KnownAgent]:
        try:
            return agents_in(settings.config)
        except SettingError as error:
            raise settings.located(error) from None

    def _take(self, agents: dict[str, KnownAgent], idle: float) -> None:
        self._agents = agents
        self.idle_seconds = idle
        for agent in agents.values():
            self.secrets.learn(secret_values(agent.env, agent.keys) | mcp.secrets_of(agent.mcp))

    @property
    def programs(self) -> list[HostedProgram]:
        """All agents, and whether their programs are there."""
        path = self._environ.get("PATH")
        return [HostedProgram(name, agent, agent.found(path)) for name, agent in self._agents.items()]

    def agent_programs(self) -> dict[int, str]:
        """The processes of agents and their keepers, with their sessions."""
        found = ((each, str(each.note.get("session", ""))) for each in self._pipes)
        return {pid: id for each, id in found for pid in (each.pid, each.keeper_pid) if pid and id}

    # --- life -----------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Find the agents that run, before sessions are loaded."""
        for pipe in await self._pipes.found():
            session = str(pipe.note.get("session", ""))
            if session in self._found:  # it can have but one
                self._end(pipe)
            else:
                self._found[session] = pipe

    async def load(self, store: AgentStore) -> None:
        """Load the sessions of the agents that run; one whose journal is gone is ended."""
        for id, pipe in list(self._found.items()):
            await store.prepare(id)
            try:
                store.find(id)
            except (NotFound, JournalError) as error:
                log.warning("the agent %s has no session any more: %s", pipe.name, error)
            if self._found.pop(id, None) is not None:
                self._end(pipe)

    def close(self) -> None:
        """Leave the agents to their keepers, and to the next daemon."""
        for task in self._ending:
            task.cancel()
        self._pipes.close()

    def _end(self, pipe: Pipe) -> None:
        pipe.listen(_Unheard())
        task = asyncio.ensure_future(self._ended(pipe))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _ended(self, pipe: Pipe) -> None:
        try:
            await pipe.stop(STOP_GRACE)
        except PipeError as error:
            log.error("%s", error)
        else:
            self._pipes.forget(pipe)

    # --- sessions -------------------------------------------------------------------------------------------

    def make(
        self,
        journal: Journal,
        past: context.Past | None,
        listen: Callable[[ConversationEvent], None],
        is_ours: bool,
    ) -> HostedSession:
        """The session of a journal that names an agent; with that agent's process, if one runs."""
        pipe = self._found.pop(journal.header.id, None) if is_ours else None
        return HostedSession(journal, self, listen, pipe=pipe, is_ours=is_ours, past=past)

    def check(self, name: str) -> None:
        """Raises HostedError if no agent of this name can be started."""
        self._program(name)

    def describe(self, session: HostedSession) -> KnownAgent:
        return self._agents.get(session.agent, KnownAgent())

    # --- keys and MCP servers -------------------------------------------------------------------------------

    def lacked(self, name: str) -> tuple[str, ...]:
        """The variables with keys of an agent, if it would be started without any of them."""
        agent = self._agents.get(name, KnownAgent())
        environment = {**self._environ, **agent.env}
        return () if any(environment.get(each, "").strip() for each in agent.keys) else agent.keys

    def uses(self, variable: str) -> bool:
        """Whether an agent has its key in this variable."""
        return any(variable in agent.keys for agent in self._agents.values())

    def lend(self, variable: str, key: str) -> None:
        """Start agents with a client's key from now on. It is kept in memory alone."""
        self._lent[variable] = key
        self.secrets.learn([key])

    def give_servers(self, session: HostedSession, servers: tuple[McpServer, ...]) -> None:
        """Have a session's agent use MCP servers of a client. Raises HostedError."""
        try:
            self._given.keep(session.id, servers)
        except (OSError, SettingError) as error:
            raise HostedError(f"the MCP servers can't be kept: {error}") from None
        self.secrets.learn(mcp.secrets_of(servers))
        session.settings.choose(mcp=[each.name for each in servers])

    def servers(self, session: HostedSession) -> tuple[McpServer, ...]:
        given = self._given.of(session.id)
        self.secrets.learn(mcp.secrets_of(given))
        return joined(self.describe(session).mcp, given)

    # --- programs -------------------------------------------------------------------------------------------

    def forget(self, pipe: Pipe) -> None:
        self._pipes.forget(pipe)

    def _program(self, name: str) -> tuple[KnownAgent, str]:
        agent = self._agents.get(name)
        if agent is None:
            known = ", ".join(self._agents)
            raise HostedError(f"no agent {name!r}; there are {known}, and [agents.NAME] adds another")
        path = agent.found(self._environ.get("PATH"))
        if path is None:
            how = f"; to install it: {agent.install}" if agent.install else ""
            raise HostedError(f"{name}: there is no program {agent.command[0]!r}{how}")
        return agent, path

    async def start(self, session: HostedSession) -> Pipe:
        return await self._start(session.agent, session.id, str(session.cwd), session.settings)

    async def tried(self, name: str, cwd: str) -> Tried:
        """Try an agent in a directory. Raises HostedError if there is none of this name."""
        agent, _ = self._program(name)
        id = f"trial-{secrets.token_hex(4)}"

        async def start(settings: AgentSettings) -> Pipe:
            return await self._start(name, id, cwd, settings)

        return await Trial(name, cwd, agent, start, self.forget, self.secrets).tried()

    async def _start(self, name: str, id: str, cwd: str, settings: AgentSettings) -> Pipe:
        """Start an agent's program for a session. Raises HostedError."""
        agent, path = self._program(name)
        command = [path, *agent.command[1:]]
        lent = {name: self._lent[name] for name in self.lacked(name) if name in self._lent}
        environment = {**self._environ, **lent, **agent.env, AGENT_MARK: id}
        run = secrets.token_hex(4)
        try:
            if settings.is_sandboxed:
                written = self._places(cwd, agent, settings, environment)
                command = await sandboxed(
                    command, cwd, environment, written=written, hidden=[self._runtime_dir]
                )
                environment["TMPDIR"] = "/tmp"
            return await self._pipes.start(
                f"{name}-{id[:8]}",
                command,
                cwd=os.path.abspath(cwd),
                environment=environment,
                note={"session": id, "agent": name, "run": run},
            )
        except NoSandbox as error:
            raise HostedError(f"{name} can't be started in a sandbox: {error}") from None
        except PipeError as error:
            raise HostedError(f"{name}: {self.secrets.text(str(error))}") from None

    @staticmethod
    def _places(
        cwd: str, agent: KnownAgent, settings: AgentSettings, environment: Mapping[str, str]
    ) -> list[str]:
        """Where a session's agent may write. A place that was something else when the session began there is
        not followed: an agent may have made it a link. Raises NoSandbox."""
        state = agent.state_places(environment)
        for path in state:
            with contextlib.suppress(OSError):  # then it is not there, as it says itself
                os.makedirs(path, 0o700, exist_ok=True)
        found = places(cwd, [*agent.writable, *state])
        known = settings.places
        for path, real in found.items():
            if known.get(path, real) != real:
                raise NoSandbox(f"{path} leads to {real} now, and to {known[path]} when the session began")
        if found.keys() - known.keys():
            settings.choose(places={**known, **found})
        return list(found.values())


class _Unheard:
    """Listens to an agent that is being ended."""

    def received(self, offset: int, data: bytes) -> None: ...

    def output_closed(self) -> None: ...

    def accepted(self) -> None: ...

    def writable(self) -> None: ...

    def input_lost(self) -> None: ...

    def ended(self, end: AgentExit) -> None: ...
