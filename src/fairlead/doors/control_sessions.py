"""Sessions as the control room sees them: agent sessions are prompted and their answers passed on, terminal
sessions are typed into.

Who asked waits in a line for its session. A prompt to a session that is busy is said when its turn is done;
what is streamed belongs to whoever's prompt was said last.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Awaitable, Callable
from shlex import quote
from typing import NamedTuple

from ..agent import events
from ..agent.events import Event
from ..agent.journal import JournalError
from ..agent.messages import User, text_of
from ..agent.session import AgentSession, Busy, Refused
from ..agent.store import AgentStore, NotFound
from ..control.protocols import SessionFault
from ..control.signals import control_character
from ..formats.guess import meant
from ..terminal.host import Host, HostError
from ..terminal.kind import MAX_UNTYPED
from ..terminal.session import State

MAX_ASKERS = 100
"""How many prompts of clients may wait for one session."""
SHORT_ID = 8
"""How many characters of a session's id are shown, and enough to name it."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SHOWN_SESSIONS = 20
"""How many sessions of each kind a status shows."""


_STANDING = {State.ENDED: "has ended", State.WAITING: "has not been started yet"}
Latest = Callable[[str], Awaitable[str | None]]
"""Finds the journal of the session of a name that was used last. Raises JournalError."""


async def none_known(name: str) -> None:
    """Nothing is known of journals that are not open."""


class _Asker(NamedTuple):
    prompt: str
    on_text: Callable[[str], None]
    on_done: Callable[[str], None]


class ControlSessions:
    """All sessions of a daemon. `latest` finds the journal of a session by its name."""

    def __init__(
        self,
        store: AgentStore,
        host: Host,
        default: str,
        home: str,
        latest: Latest = none_known,
    ) -> None:
        self._store = store
        self._host = host
        self._default = default
        self._home = home
        self._latest = latest
        self._askers: dict[str, deque[_Asker]] = {}  # by session, in the order of their prompts
        self._current: dict[str, _Asker] = {}
        self._faults: dict[str, str] = {}

    # --- what control does --------------------------------------------------------------------------------

    async def load(self, session: str | None) -> None:
        """Load a session that is on the disk only. One that is nowhere is a matter of `prompt`."""
        name = self._default if session is None else session
        if any(name in (each.name, each.id) for each in self._store.loaded):
            return
        try:
            if session is not None:
                await self._store.prepare(session)
                with contextlib.suppress(NotFound):
                    self._store.find(session)
                    return
            if path := await self._latest(name):
                await self._store.prepare(path)
                self._store.resume(path)
        except (NotFound, JournalError) as error:
            raise SessionFault(str(error)) from None

    def prompt(
        self,
        session: str | None,
        text: str,
        on_text: Callable[[str], None],
        on_done: Callable[[str], None],
    ) -> str:
        """Say something to an agent session, by its id or name, or to the default one."""
        found = self._found(session)
        askers = self._askers.setdefault(found.id, deque())
        if len(askers) >= MAX_ASKERS:
            raise SessionFault(f"{MAX_ASKERS} prompts wait for session {found.id} already")
        asker = _Asker(text, on_text, on_done)
        askers.append(asker)
        try:
            found.follow_up(text)
        except (Busy, Refused, JournalError) as error:
            askers.remove(asker)
            raise SessionFault(str(error)) from None
        return found.id

    def type(self, session: str | None, text: str, *, enter: bool = False) -> None:
        """Type into a terminal session a text without control characters, and perhaps press Enter."""
        if key := control_character(text):
            raise SessionFault(f"a text with {key} in it is not typed: control characters are keys")
        try:
            found = self._host.find(session or "")
        except HostError as error:
            raise SessionFault(str(error)) from None
        if found.state is not State.RUNNING:
            raise SessionFault(f"session {session!r} {_STANDING[found.state]}")
        if found.untyped > MAX_UNTYPED:
            raise SessionFault(f"session {session!r} does not read: {found.untyped} bytes wait to be typed")
        found.type(text.encode("utf-8", "replace") + (b"\r" if enter else b""))

    def cancel(self, session: str) -> None:
        """End what an agent session is doing, and what waits for it."""
        self._found(session).abort()

    def status(self) -> str:
        """How all sessions are."""
        lines = []
        called = [each for each in self._store.inbox.open() if each.kind == "escalation"]
        for question in called[-SHOWN_SESSIONS:]:
            name = self.name_of(question.session or "")
            how = f"`fairlead approvals deny {quote(name)}` dismisses it"
            lines.append(f"{name} needs a person: {question.what}; {how}")
        for terminal in list(self._host.sessions.values())[:SHOWN_SESSIONS]:
            lines.append(f"terminal {terminal.id}: {terminal.state.value}")
        for agent in self._store.loaded[-SHOWN_SESSIONS:]:
            waits = f", {len(agent.approvals)} wait for consent" if agent.approvals else ""
            lines.append(f"agent {agent.name or agent.id}: {agent.phase}{waits}")
        return "\n".join(lines) or "no sessions"

    def name_of(self, id: str) -> str:
        """What a person calls a session: the name of an agent session that has one, else as much of the id as
        lists show."""
        short = id[:SHORT_ID] if _UUID.fullmatch(id) else id
        return next((agent.name for agent in self._store.loaded if agent.id == id and agent.name), short)

    def _found(self, session: str | None) -> AgentSession:
        try:
            return self._named(self._default, make=True) if session is None else self._any(session)
        except (NotFound, JournalError) as error:
            raise SessionFault(str(error)) from None

    def _any(self, session: str) -> AgentSession:
        """The session of this id, else the one used last of this name."""
        try:
            return self._store.find(session)
        except NotFound:
            return self._named(session, make=session == self._default)

    def _named(self, name: str, *, make: bool) -> AgentSession:
        for session in reversed(self._store.loaded):
            if session.name == name:
                return self._store.find(session.id)
        if not make:
            names = [session.name for session in self._store.loaded if session.name]
            hint = meant(name, names) or "; `fairlead sessions` lists them"
            raise NotFound(f"no agent session {name!r}{hint}")
        session = self._store.create(self._home)
        self._store.rename(session, name)
        return session

    # --- what sessions say --------------------------------------------------------------------------------

    def heard(self, event: Event) -> None:
        """Pass on what belongs to a prompt of ours."""
        id = event.session_id
        match event:
            case events.MessageSaid(message=User() as message):
                self._said(id, text_of(message))
            case events.TextStreamed(text=text) if id in self._current:
                self._current[id].on_text(text)
            case events.Failed(message=message):
                self._faults[id] = message
            case events.TurnEnded(outcome=outcome):
                fault = self._faults.pop(id, "")
                self._end_current(id, "" if outcome == "done" else fault or f"the turn was {outcome}")
                if outcome == "aborted":
                    self._end_all(id, "aborted before it was said")
            case events.Updated() if id in self._faults:
                self._faults.pop(id)

    def _said(self, id: str, text: str) -> None:
        askers = self._askers.get(id)
        if askers and askers[0].prompt == text:
            self._end_current(id, "")
            self._current[id] = askers.popleft()
            if not askers:
                del self._askers[id]

    def _end_current(self, id: str, fault: str) -> None:
        if asker := self._current.pop(id, None):
            asker.on_done(fault)

    def _end_all(self, id: str, fault: str) -> None:
        for asker in self._askers.pop(id, ()):
            asker.on_done(fault)
