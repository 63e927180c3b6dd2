"""Builds the room of agent sessions: what they work with, from the settings, and their ops for a door.

The daemon has one, with its terminal sessions for commands; so has `fairlead rpc --standalone`, without.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, NamedTuple

from ..agent.consent.policy import ConsentRule, Policy, rules_from
from ..agent.events import ConversationEvent
from ..agent.instructions import system_prompt
from ..agent.journal import JournalError
from ..agent.library import Library
from ..agent.live import posted
from ..agent.models.catalog import Catalog
from ..agent.models.keys import KeyFiles, is_key
from ..agent.ports import Judge, JudgedCall
from ..agent.query.graph import register_graph
from ..agent.query.registry import Registry
from ..agent.query.resolvers import SESSION_ID, session_resolvers
from ..agent.recall.memory import Memory, memory_resolvers
from ..agent.recall.transcripts import Transcript, Transcripts
from ..agent.secrets import Redactor, environment_for_commands, secret_values
from ..agent.store import AgentStore, Place
from ..agent.tools import Touch, standard_tools
from ..agent.tools.terminals import Terminals
from ..doors.judging import Judging
from ..doors.peer_proof import Programs
from ..doors.rpc.frames import display_name
from ..doors.rpc.handlers import Clients
from ..doors.rpc.ops.agents import AgentOps, Latest
from ..doors.rpc.ops.contents import Listing
from ..hosted.room import HostedRoom
from ..sessions.feed import Feed
from ..sessions.inbox import Inbox
from ..system.database import DatabaseFault
from ..system.settings import SettingError, Settings
from ..verify.store import ReportStore

log = logging.getLogger("fairlead")

SCAN_SECONDS = 0.1
"""How long journals are looked through when sessions are listed; the rest comes the next time."""


CLOSE_WAIT = 3.0
"""Seconds that turns have to end when all is closed."""
KEPT_OUTPUT = 14 * 86_400.0
"""Seconds that the whole output of a command stays in its file."""


class AgentRoom:
    """All agent sessions of a process. `clients` are those of its door; `feed` has what happens."""

    def __init__(
        self,
        settings: Settings,
        terminals: Terminals,
        clients: Clients,
        feed: Feed,
        inbox: Inbox,
        judging: Judging,
        check_free: Callable[[str], Awaitable[None]] | None = None,
        hosted: HostedRoom | None = None,
    ) -> None:
        self._feed = feed
        keys = KeyFiles(f"{settings.state_dir}/keys")
        try:
            self.catalog = catalog = Catalog(settings.config, entered=keys, refresh=settings.refresh)
        except SettingError as error:
            raise settings.located(error) from None
        redactor = Redactor(secret_values(os.environ, catalog.key_variables()) | catalog.keys())
        self.redactor = redactor
        self.key_variables = catalog.key_variables()
        library = Library(os.path.dirname(settings.config_path))
        self._rules = _consent(settings)
        place = _places(settings, catalog, redactor, library, terminals, lambda: self._rules)
        _tidy(f"{settings.state_dir}/outputs")
        watched = judging.door.is_watched
        self.store = AgentStore(
            settings.sessions_dir,
            catalog,
            place,
            self._happened,
            watched,
            inbox,
            check_free,
            hosted.make if hosted is not None else None,
            feed.let_begin,
        )
        self.memory = memory = Memory(f"{settings.state_dir}/memory.db")
        self.transcripts = transcripts = Transcripts(
            f"{settings.state_dir}/transcripts.db", settings.sessions_dir
        )
        self.latest = _latest_of(transcripts)
        self.ops = AgentOps(
            self.store,
            catalog,
            clients,
            registry=_attributes(self.store, catalog, library, memory, transcripts),
            memory=memory,
            library=library,
            latest=self.latest,
            listed=_listed_of(transcripts),
            keyring=_Keyring(catalog, redactor, hosted),
            judging=judging,
            hosted=hosted,
        )

        settings.joined(self._changing)

    def _changing(self, fresh: Settings) -> Callable[[], None]:
        """The configuration changed: models, keys and rules of consent hold at once."""
        catalog, rules = checked(fresh)

        def take() -> None:
            self.catalog.take(catalog)
            self.redactor.learn(self.catalog.keys())
            self._rules = rules

        return take

    async def close(self) -> None:
        """Let go of all sessions; what turns still do ends, or is left."""
        if turns := self.store.close():
            await asyncio.wait(turns, timeout=CLOSE_WAIT)
        await asyncio.gather(self.memory.aclose(), self.transcripts.aclose())

    def _happened(self, event: ConversationEvent) -> None:
        self.ops.heard(event)
        for each in posted(self.store, event):
            self._feed.post(each)


def verification(
    settings: Settings, clients: Clients, feed: Feed, inbox: Inbox, programs: Programs = dict
) -> Judging:
    """What verifies the turns of all sessions that post to `feed`. Reports of `programs` are refused."""
    return Judging(
        settings.verifier_dirs,
        ReportStore(settings.reports_path),
        feed,
        inbox,
        clients.event,
        max_loops=settings.count("verifier", "max_loops"),
        programs=programs,
    )


class _Keyring:
    """Keys that people enter, which are then in no text that is shown."""

    def __init__(self, catalog: Catalog, redactor: Redactor, hosted: HostedRoom | None) -> None:
        self._redactor = redactor
        self._hosted = hosted
        self._catalog = catalog
        self.keys_at = catalog.keys_at
        self.forget_key = catalog.forget_key

    def lacked(self, whose: str) -> tuple[str, ...]:
        of_agent = self._hosted.lacked(whose) if self._hosted is not None else ()
        return of_agent or self._catalog.lacked(whose)

    def enter_key(self, provider: str, key: str) -> None:
        self._catalog.enter_key(provider, key)
        self._redactor.learn([key])

    def lend(self, variable: str, key: str) -> None:
        is_agents = self._hosted is not None and self._hosted.uses(variable) and is_key(key.strip())
        if self._hosted is not None and is_agents:
            self._hosted.lend(variable, key.strip())
        if not is_agents or variable in self._catalog.key_variables():
            self._catalog.lend(variable, key)
        self._redactor.learn([key])


class _Consent(NamedTuple):
    """What `[agent]` says about consent."""

    rules: tuple[ConsentRule, ...]
    allows_all: bool


def checked(settings: Settings) -> tuple[Catalog, _Consent]:
    """The models and the rules of consent of a configuration. Raises SettingError."""
    try:
        catalog = Catalog(settings.config)
    except SettingError as error:
        raise settings.located(error) from None
    return catalog, _consent(settings)


def _consent(settings: Settings) -> _Consent:
    options = settings.section("agent")
    allows_all = options.get("yes", False)
    if not isinstance(allows_all, bool):
        raise settings.located(SettingError("[agent] yes must be true or false"))
    try:
        return _Consent(rules_from(options.get("rules", [])), allows_all)
    except ValueError as error:
        raise settings.located(error) from None


class _LiveJudge:
    """The policy of a session by the rules that hold now. What was consented to for good goes with it."""

    def __init__(
        self,
        made: Callable[[_Consent], Judge],
        rules: Callable[[], _Consent],
        remembered: tuple[tuple[str, Touch], ...] = (),
    ) -> None:
        self._made = made
        self._rules = rules
        self._remembered = remembered
        self._held: tuple[_Consent, Judge] | None = None

    def _now(self) -> Judge:
        rules = self._rules()
        if self._held is None or self._held[0] is not rules:
            judge = self._made(rules)
            for tool, touch in self._remembered:
                judge = judge.remembering(tool, touch, "allow")
            self._held = rules, judge
        return self._held[1]

    def judge(self, tool: str, touch: Touch) -> JudgedCall:
        return self._now().judge(tool, touch)

    def is_hidden(self, path: Path) -> bool:
        return self._now().is_hidden(path)

    def remembering(self, tool: str, touch: Touch, then: Literal["allow"]) -> Judge:
        return _LiveJudge(self._made, self._rules, (*self._remembered, (tool, touch)))


def _places(
    settings: Settings,
    catalog: Catalog,
    redactor: Redactor,
    library: Library,
    terminals: Terminals,
    rules: Callable[[], _Consent],
) -> Callable[[Path], Place]:
    """What an agent session works with, by its directory."""
    outputs = Path(settings.state_dir, "outputs")
    tools = standard_tools(terminals, outputs, redactor)
    readable = (outputs, Path(library.home, "skills"))

    def place(cwd: Path) -> Place:
        environment = environment_for_commands(os.environ, catalog.key_variables())
        home = cwd.resolve()
        policy = _LiveJudge(
            lambda now: Policy(home, now.rules, now.allows_all, readable=readable),
            rules,
        )
        system, faults = system_prompt(cwd, tools, library.shelf(cwd))
        for fault in faults:
            log.warning("%s", fault)
        return Place(tools, policy, system, environment, faults)

    return place


def _tidy(outputs: str) -> None:
    """Remove old output of commands."""
    with contextlib.suppress(OSError):
        for file in os.scandir(outputs):
            if file.stat(follow_symlinks=False).st_mtime < time.time() - KEPT_OUTPUT:
                os.unlink(file)


def _latest_of(transcripts: Transcripts) -> Latest:
    """Finds the journal that was used last."""

    async def latest(*, name: str | None, cwd: str | None) -> str | None:
        try:
            return await transcripts.thread.run(lambda: look(name, cwd))
        except DatabaseFault as fault:
            raise JournalError(f"can't look for the session: {fault}") from None

    def look(name: str | None, cwd: str | None) -> str | None:
        found = transcripts.named(name, SCAN_SECONDS, cwd=cwd)
        return found.path if found is not None else None

    return latest


def _listed_of(transcripts: Transcripts) -> Listing:
    """Lists journals, after a short look at what changed."""

    async def listed(cwd: str | None, limit: int, offset: int) -> list[Transcript]:
        return await transcripts.thread.run(lambda: look(cwd, limit, offset))

    def look(cwd: str | None, limit: int, offset: int) -> list[Transcript]:
        transcripts.scan(SCAN_SECONDS)
        return transcripts.list(cwd, limit, offset)

    return listed


def _attributes(
    store: AgentStore, catalog: Catalog, library: Library, memory: Memory, transcripts: Transcripts
) -> Registry:
    """All that can be asked for with EQL."""
    registry = Registry((SESSION_ID,))

    def listed(limit: int, cwd: str | None) -> list[Transcript]:
        transcripts.scan(SCAN_SECONDS)
        return transcripts.list(cwd, limit)

    registry.register(
        *session_resolvers(
            store.find, lambda: store.loaded, display_name, catalog, library, listed, transcripts.thread
        ),
        *memory_resolvers(memory),
    )
    register_graph(registry)
    return registry
