"""All agent sessions of a daemon: where their journals are, making, finding, forking them, and their tree.

A session is loaded when somebody wants it, and the least used ones are let go again, so that hundreds of
journals cost nothing at the start. Only sessions in which something waits for an answer are loaded then: each
has a mark beside the journals while that is so.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from .events import ApprovalSettled, ApprovalWanted, Event, Loaded, Unloaded
from .journal import Journal, JournalError
from .session import AgentSession, Judge, Models
from .tools import Tool

MAX_LOADED = 256
"""How many sessions may be loaded at the same time, unless more are busy."""
MAX_SLUG = 100
"""How many characters of a project's path the name of its directory has."""

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")


class NotFound(Exception):
    """There is no such session."""


class Place(NamedTuple):
    """What a session in a directory works with."""

    tools: Mapping[str, Tool]
    judge: Judge
    system: str
    environment: Mapping[str, str]


class AgentStore:
    """The sessions, by id."""

    def __init__(
        self,
        directory: str,
        models: Models,
        place: Callable[[Path], Place],
        listen: Callable[[Event], None],
        is_watched: Callable[[str], bool] = lambda id: False,
    ) -> None:
        self.directory = directory
        self._is_watched = is_watched
        self._models = models
        self._place = place
        self._listen = listen
        self._loaded: dict[str, AgentSession] = {}  # the least used first

    @property
    def loaded(self) -> Sequence[AgentSession]:
        return list(self._loaded.values())

    # --- life -----------------------------------------------------------------------------------------------

    def open(self) -> list[str]:
        """Load the sessions in which something waits; gives what could not be loaded, and why."""
        faults = []
        os.makedirs(self._marks, mode=0o700, exist_ok=True)
        for id in sorted(os.listdir(self._marks)):
            try:
                session = self.find(id)
            except (NotFound, JournalError) as error:
                faults.append(str(error))
                continue
            if not session.approvals:
                self._mark(id, waits=False)
        return faults

    def close(self) -> list[asyncio.Task[None]]:
        """Let go of all sessions; gives what their turns still do."""
        turns = [session.turn for session in self.loaded if session.turn is not None]
        for session in self.loaded:
            self._close(session)
        return turns

    def _close(self, session: AgentSession) -> None:
        session.close()
        del self._loaded[session.id]
        self._listen(Unloaded(session.id))

    # --- sessions -------------------------------------------------------------------------------------------

    def create(self, cwd: str, *, parent: AgentSession | None = None) -> AgentSession:
        """A new session. Raises JournalError."""
        id = str(uuid.uuid4())
        parent_path = parent.journal.path if parent is not None else None
        journal = Journal.create(self._new_path(cwd, id), id=id, cwd=cwd, parent_session=parent_path)
        return self._load(journal)

    def find(self, id: str) -> AgentSession:
        """The session of this id, loaded if need be. Raises NotFound or JournalError."""
        session = self._loaded.pop(id, None)
        if session is None:
            return self.resume(self._path_of(id))
        self._loaded[id] = session  # it is the last used now
        return session

    def resume(self, path: str) -> AgentSession:
        """The session of a journal, ours or Pi's. Raises NotFound or JournalError."""
        path = os.path.realpath(path)
        for session in self._loaded.values():
            if session.journal.path == path:
                return session
        if not os.path.isfile(path):
            raise NotFound(f"Session file not found: {path}")
        return self._load(Journal.open(path))

    def fork(self, session: AgentSession, entry_id: str) -> AgentSession:
        """A new session with all that was said before an entry. Raises JournalError."""
        id = str(uuid.uuid4())
        cwd = str(session.cwd)
        return self._load(session.journal.fork(self._new_path(cwd, id), id=id, before=entry_id))

    def parent_of(self, session: AgentSession) -> str | None:
        """The id of the session that this one came from."""
        path = session.journal.header.parent_session
        return id_of(path) if path is not None else None

    def _load(self, journal: Journal) -> AgentSession:
        id = journal.header.id
        why = ""
        if not _ID.fullmatch(id):
            why = f"{journal.path} has an id that can't be one: {id!r:.80}"
        elif id in self._loaded:
            why = f"{journal.path} is a copy of {self._loaded[id].journal.path}, which is open"
        if why:
            journal.close()
            raise JournalError(why)
        place = self._place(Path(journal.header.cwd))
        session = AgentSession(
            journal,
            self._models,
            place.tools,
            place.judge,
            self._heard,
            system=place.system,
            environment=place.environment,
            is_ours=journal.path.startswith(f"{os.path.realpath(self.directory)}/"),
        )
        self._loaded[session.id] = session
        self._listen(Loaded(session.id))
        self._let_go()
        return session

    def _let_go(self) -> None:
        """Close what is idle and was not used for long, if there is too much."""
        for session in list(self._loaded.values())[:-1]:
            if len(self._loaded) <= MAX_LOADED:
                break
            if session.is_idle and not session.approvals and not self._is_watched(session.id):
                self._close(session)

    # --- what they say --------------------------------------------------------------------------------------

    def _heard(self, event: Event) -> None:
        if isinstance(event, ApprovalWanted):
            self._mark(event.session_id, waits=True)
        elif isinstance(event, ApprovalSettled) and not self._loaded[event.session_id].approvals:
            self._mark(event.session_id, waits=False)
        self._listen(event)

    @property
    def _marks(self) -> str:
        return f"{self.directory}/.waiting"

    def _mark(self, id: str, *, waits: bool) -> None:
        path = f"{self._marks}/{id}"
        if waits:
            os.makedirs(self._marks, mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    # --- places ---------------------------------------------------------------------------------------------

    def _new_path(self, cwd: str, id: str) -> str:
        slug = "--" + re.sub(r"[^0-9A-Za-z._]+", "-", cwd.strip("/"))[-MAX_SLUG:] + "--"
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%f")[:-3] + "Z"
        return f"{os.path.realpath(self.directory)}/{slug}/{moment}_{id}.jsonl"

    def _path_of(self, id: str) -> str:
        found = glob.glob(f"{glob.escape(self.directory)}/*/*_{id}.jsonl") if _ID.fullmatch(id) else []
        if not found:
            raise NotFound(f"Session not found in context: {id}")
        return found[0]


def id_of(path: str) -> str:
    """The session's id in the name of its journal."""
    return os.path.basename(path).removesuffix(".jsonl").rpartition("_")[2]
