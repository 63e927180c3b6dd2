"""Builds the room of terminal sessions: their kind, the turns of agents in them, and keepty's door."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from ..doors.agent_terminals import HostTerminals
from ..doors.judging import Judging
from ..doors.keepty import KeeptyDoor
from ..doors.peer_proof import Programs
from ..doors.rpc.handlers import Clients
from ..sessions.feed import Feed
from ..sessions.inbox import Inbox
from ..sessions.questions import Answer, Question
from ..sessions.state import DoesNow, States
from ..system.settings import Settings
from ..terminal.host import TerminalHost
from ..terminal.kind import TerminalKind
from ..terminal.permissions import TerminalPermissions, hook_says
from ..terminal.ports import ProgramState, TerminalEvent
from ..terminal.prompting import TerminalPrompts
from ..terminal.session import TerminalSession
from ..terminal.signal_rate import LIMITED, SignalRate
from ..terminal.state.rules import RuleFiles
from ..terminal.state.tracker import Trackers
from ..terminal.submitting import Submitters
from ..terminal.turns import TerminalTurns
from ..wire import keepty
from ..wire.rpc import fields

log = logging.getLogger("fairlead")

EXIT_TOLD_AFTER = 1.0
"""Seconds after which what was done about the end of a session is written down. A daemon that dies before is
followed by one that tells of it again."""
MAX_NOTICE = 500
"""How many characters of a reason are shown on terminals."""


class TerminalRoom:
    """All terminal sessions of a daemon."""

    def __init__(
        self,
        settings: Settings,
        host: TerminalHost,
        clients: Clients,
        feed: Feed,
        inbox: Inbox,
        judging: Judging,
        programs: Programs,
        states: States,
    ) -> None:
        host.listen(self._happened)
        self.host = host
        self.door = KeeptyDoor(settings, self._notice, states.seen, programs)
        self.rules = RuleFiles(f"{os.path.dirname(settings.config_path)}/rules")
        submitters = Submitters(self.rules.of_program, states.of)
        self.turns = TerminalTurns(
            host,
            f"{settings.state_dir}/turns",
            feed,
            self._tell,
            judging.door.judged,
            self._hooked,
            submitters,
            begin_wait=settings.number("verifier", "begin_seconds"),
        )
        self.trackers = Trackers(states, self.rules.of_program, self._asked)
        self.permissions = TerminalPermissions(
            f"{settings.state_dir}/permissions",
            inbox,
            host,
            self._hook_says,
            partial(settings.number, "hooks", "permission_seconds"),
        )
        """What agents in terminals ask for, as their hooks tell."""
        self.prompts = TerminalPrompts(submitters, f"{settings.state_dir}/prompts", feed)
        self.kind = TerminalKind(host, self.turns, feed, self.trackers, self.prompts, submitters)
        inbox.listen(self)
        self.commands = HostTerminals(host)
        """Where agents run their commands."""
        self._clients = clients
        self._inbox = inbox
        self._opening: set[asyncio.Task[None]] = set()
        self._rates: dict[TerminalSession, SignalRate] = {}

    async def open(self, command: list[str] | None) -> None:
        """Find the sessions, and let clients come to them. `command` starts the next daemon."""
        await self.host.open(command)
        while self._opening:
            await asyncio.wait(self._opening)

    async def all_opened(self) -> None:
        """Clients can attach to all sessions that were started."""
        if self._opening:
            await asyncio.wait(self._opening)

    async def close(self, *, for_good: bool) -> None:
        self.trackers.close()
        self.prompts.close()
        for session in list(self.host.sessions.values()):
            self.door.close(session)
        self.door.close_ended()
        await self.host.close(for_good=for_good)

    def say(self, text: str, *, session: str) -> None:
        """Tell those at a session's terminal something."""
        if (found := self.host.sessions.get(session)) is not None:
            found.say(text[:MAX_NOTICE])

    def ring(self, text: str, but: str) -> None:
        """Call those at all terminals but a session's own."""
        for each in self.host.sessions.values():
            if each.id != but:
                each.say(f"{keepty.RING}{text[:MAX_NOTICE]}")

    # --- questions ------------------------------------------------------------------------------------------

    def _asked(self, id: str) -> Question | None:
        """The oldest question of a session."""
        found = (each for each in self._inbox.open() if each.session == id and not each.lost)
        return next((each for each in found if each.is_consent), None)

    def asked(self, question: Question) -> None:
        self.trackers.asks(question.session)

    def closed(self, question: Question, answer: Answer) -> None:
        self.trackers.asks(question.session)

    def warned(self, question: Question, why: str) -> None:
        """Nothing is done about it here."""

    # --- hooks ----------------------------------------------------------------------------------------------

    def _hooked(self, id: str, event: str, words: str, call: str, subagent: str) -> None:
        """An agent's hook was called."""
        self.permissions.called(id, event, call, subagent)
        if (says := hook_says(event, words)) is not None:
            self._hook_says(id, says, words or event)

    def _hook_says(self, id: str, says: DoesNow | Literal[""], words: str, question: str = "") -> None:
        if (tracker := self.trackers.of(id)) is not None:
            if says:
                tracker.hooked(says, words, question)
            else:
                tracker.hook_withdrawn()

    # --- what happens ---------------------------------------------------------------------------------------

    def _happened(self, session: TerminalSession, event: TerminalEvent) -> None:
        match event.topic:
            case "opened":
                self.trackers.opened(session)  # at once: what it prints first may be what it waits for
                task = asyncio.get_running_loop().create_task(self._open(session))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
            case topic if topic in LIMITED:
                self._signals(session).take(event)
            case "forgotten":
                self._rates.pop(session, None)
                self.permissions.ended(session.id)
                self.trackers.closed(session)
                self.door.close(session)
                self.turns.closed(session)
                self.prompts.closed(session)
            case _:
                if event.topic == "terminal/exited":
                    self.permissions.ended(session.id)
                    self._signals(session).sum_up()
                    self.door.retire(session)
                    if session.note.get("exit_told"):  # by a daemon before us
                        return
                    asyncio.get_running_loop().call_later(EXIT_TOLD_AFTER, self._note_exit, session)
                self._tell_all(session, event)

    def _tell_all(self, session: TerminalSession, event: TerminalEvent) -> None:
        self._tell(event.topic, event.data)
        self.kind.happened(session, event)
        self.trackers.heard(session, event)

    def _signals(self, session: TerminalSession) -> SignalRate:
        """How much of what a session's program calls is told."""
        if session not in self._rates:
            self._rates[session] = SignalRate(partial(self._tell_all, session))
        return self._rates[session]

    def _note_exit(self, session: TerminalSession) -> None:
        """Everybody knows that a session has ended, and rules were followed: the next daemon is silent."""
        if session in self.host:
            session.remember(exit_told=True)

    def _tell(self, topic: str, data: Mapping[str, Any]) -> None:
        self._clients.event(topic, fields(**data))

    async def _open(self, session: TerminalSession) -> None:
        try:
            if session.state is not ProgramState.ENDED and session.ended_for is None:
                await self.door.open(session)
        except (OSError, ValueError) as error:
            log.warning("session %s has no keepty socket: %s", session.id, error)
        if session.state is ProgramState.ENDED:  # meanwhile
            self.door.retire(session)
        if session not in self.host:
            self.door.close(session)
            return
        self.turns.opened(session)
        self.prompts.opened(session)

    def _notice(self, session: TerminalSession) -> str:
        called = self._inbox.escalation(session.id)
        return f"{session.id} needs a person: {called.what}"[:MAX_NOTICE] if called is not None else ""
