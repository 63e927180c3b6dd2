"""Builds the room of agent sessions: what they work with, from the settings, and their ops for a door.

The daemon has one, with its terminal sessions for commands; so has `fairlead rpc --standalone`, without.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .agent.events import Event
from .agent.graph import register_graph
from .agent.instructions import system_prompt
from .agent.library import Library
from .agent.memory import Memory, memory_resolvers
from .agent.models.catalog import Catalog
from .agent.models.keys import Keys
from .agent.policy import Policy, rules_from
from .agent.query import Registry
from .agent.resolvers import SESSION_ID, session_resolvers
from .agent.secrets import Redactor, environment_for_commands, secret_values
from .agent.store import AgentStore, Place
from .agent.tools import standard_tools
from .agent.tools.terminals import Terminals
from .agent.transcripts import Transcript, Transcripts
from .doors.agent_frames import display_name
from .doors.agent_ops import AgentOps
from .doors.judging import Judging
from .doors.rpc import Caller
from .settings import SettingError, Settings
from .verify.store import ReportStore

SCAN_SECONDS = 0.1
"""How long journals are looked through when sessions are listed; the rest comes the next time."""


CLOSE_WAIT = 3.0
"""Seconds that turns have to end when all is closed."""
KEPT_OUTPUT = 14 * 86_400.0
"""Seconds that the whole output of a command stays in its file."""


class AgentRoom:
    """All agent sessions of a process. `callers` are the clients of its door; `also` hears what they hear."""

    def __init__(
        self,
        settings: Settings,
        terminals: Terminals,
        callers: Callable[[], list[Caller]],
        also: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self._also = also
        self.catalog = catalog = Catalog(settings.config, entered=Keys(f"{settings.state_dir}/keys"))
        redactor = Redactor(secret_values(os.environ, catalog.key_variables()) | catalog.keys())
        self.redactor = redactor
        self.key_variables = catalog.key_variables()
        library = Library(os.path.dirname(settings.config_path))
        place = _places(settings, catalog, redactor, library, terminals)
        _tidy(f"{settings.state_dir}/outputs")
        self.reports = ReportStore(settings.reports_path)
        self.judging = Judging(
            settings.verifier_dir,
            self.reports,
            self._tell_all,
            max_loops=settings.count("verifier", "max_loops"),
        )
        self._callers = callers
        watched = self.judging.door.is_watched
        self.store = AgentStore(settings.sessions_dir, catalog, place, self._told, watched)
        memory = Memory(f"{settings.state_dir}/memory.db")
        transcripts = Transcripts(f"{settings.state_dir}/transcripts.db", settings.sessions_dir)
        self.latest = _latest_of(transcripts)
        self.ops = AgentOps(
            self.store,
            catalog,
            callers,
            registry=_attributes(self.store, catalog, library, memory, transcripts),
            memory=memory,
            library=library,
            latest=self.latest,
            keyring=_Keyring(catalog, redactor),
            judging=self.judging,
        )

    async def close(self, reason: str) -> None:
        """Let go of all sessions and those who watch them; what turns still do ends, or is left."""
        self.judging.door.close_all(reason)
        if turns := self.store.close():
            await asyncio.wait(turns, timeout=CLOSE_WAIT)

    def _told(self, event: Event) -> None:
        self.ops.heard(event)
        self.judging.heard(self.store, event)
        self._also(event)

    def _tell_all(self, topic: str, data: Mapping[Any, Any]) -> None:
        for caller in self._callers():
            caller.event(topic, data)


class _Keyring:
    """Keys that people enter, which are then in no text that is shown."""

    def __init__(self, catalog: Catalog, redactor: Redactor) -> None:
        self._redactor = redactor
        self._catalog = catalog
        self.keys_at = catalog.keys_at
        self.forget_key = catalog.forget_key

    def enter_key(self, provider: str, key: str) -> None:
        self._catalog.enter_key(provider, key)
        self._redactor.learn([key])


def _places(
    settings: Settings, catalog: Catalog, redactor: Redactor, library: Library, terminals: Terminals
) -> Callable[[Path], Place]:
    """What an agent session works with, by its directory."""
    environment = environment_for_commands(os.environ, catalog.key_variables())
    outputs = Path(settings.state_dir, "outputs")
    tools = standard_tools(terminals, outputs, redactor)
    readable = (outputs, Path(library.home, "skills"))
    options = settings.section("agent")
    allows_all = options.get("yes", False)
    if not isinstance(allows_all, bool):
        raise SettingError(f"{settings.config_path}: [agent] yes must be true or false")
    try:
        rules = rules_from(options.get("rules", []))
    except ValueError as error:
        raise SettingError(f"{settings.config_path}: {error}") from None

    def place(cwd: Path) -> Place:
        policy = Policy(cwd.resolve(), rules, allows_all, readable=readable)
        return Place(tools, policy, system_prompt(cwd, tools, library.shelf(cwd).skills), environment)

    return place


def _tidy(outputs: str) -> None:
    """Remove old output of commands."""
    with contextlib.suppress(OSError):
        for file in os.scandir(outputs):
            if file.stat(follow_symlinks=False).st_mtime < time.time() - KEPT_OUTPUT:
                os.unlink(file)


def _latest_of(transcripts: Transcripts) -> Callable[..., str | None]:
    """Finds the journal that was used last."""

    def latest(*, name: str | None, cwd: str | None) -> str | None:
        left = transcripts.scan(SCAN_SECONDS).left
        found = transcripts.latest(name=name, cwd=cwd)
        if found is None and left:
            transcripts.scan()
            found = transcripts.latest(name=name, cwd=cwd)
        return found.path if found is not None else None

    return latest


def _attributes(
    store: AgentStore, catalog: Catalog, library: Library, memory: Memory, transcripts: Transcripts
) -> Registry:
    """All that can be asked for with EQL."""
    registry = Registry((SESSION_ID,))

    def listed(limit: int) -> list[Transcript]:
        transcripts.scan(SCAN_SECONDS)
        return transcripts.list(limit=limit)

    registry.register(
        *session_resolvers(store.find, lambda: store.loaded, display_name, catalog, library, listed),
        *memory_resolvers(memory),
    )
    register_graph(registry)
    return registry
