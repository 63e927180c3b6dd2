"""The verifier door: each session has a socket on which those who check its turns are told of them.

It speaks Pi's protocol as a builder: verifiers connect, hear of turns that start and stop, send corrections
and reports. Several verifiers may watch one session, of whatever kind; a correction counts for the session,
whoever sends it, and after so many of one turn the next is refused and a person is called.

A verifier that was away says in its hello with which line of the session's file the last turn ended that it
has judged (`since`), and is told of the turns after that. Real verifiers say nothing, and are told nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import os
import socket
import stat
import time
from collections.abc import Callable, Sequence
from typing import Protocol, cast

import msgspec

from ..formats.shown import counted
from ..keeper.credentials import is_our_user
from ..sessions.session import Session, Turn
from ..system.opening import UNFOLLOWED, leads_into
from ..system.settings import SettingError, foreign, safe_dir
from ..system.sockets import is_served
from ..wire import verifier as wire
from ..wire.faults import Broken
from ..wire.verifier import BuilderConnection, Event, EventName, Prompt, Report
from .listening import UnixServer
from .peer_proof import Programs, agent_behind

log = logging.getLogger("fairlead")

MAX_LOOPS = 3
"""How often a turn is sent back before a person is called."""
MAX_VERIFIERS = 16
"""How many verifiers one session may have."""
MAX_LISTENERS = 4
"""How many commands of agent sessions may listen besides."""
MAX_ARRIVING = 256
"""How many connections of a session may wait until it is known whose they are."""
WRITE_LIMIT = 8 * 1024 * 1024
"""How many bytes a verifier may leave unread before it loses its connection."""
LAST_WORDS_WAIT = 1.0
"""Seconds that the last envelope to a verifier has to be read."""
TOO_MANY_LOOPS = "max loops exceeded"
"""As real builders say it."""
OF_AN_AGENT = "a command of an agent session ({}) sent it; only a verifier that no agent started may"
MAX_AGENT_NAME = 80
"""How many characters of whose command it is are told."""
MAX_COMPLAINTS = 10
"""How many of a connection's mistakes are logged."""
STOPPED: tuple[wire.Outcome, ...] = ("aborted", "interrupted")
"""Endings of turns that somebody wanted."""


_IGNORED = ".gitignore"
DEAD_SECONDS = 60.0
"""How old a socket at which nobody listens must be to be removed: a younger one may just be opened."""
MAX_REMOVED = 10_000
"""How many files of a directory are looked at for that."""


class VerifierListener(Protocol):
    """Who is told what verifiers say and do."""

    def left(self, builder: Session) -> None:
        """A verifier has gone."""

    def reported(self, builder: Session, report: Report) -> asyncio.Task[None] | str:
        """Take a report: what ends when it is written down, or why it is refused."""

    def escalated(self, session_id: str, turn: int, reason: str) -> None:
        """A person is needed."""


class VerifierDoor:
    """The sockets of all sessions, in each of the directories that is ours; the first is our own."""

    def __init__(
        self,
        directories: Sequence[str],
        listener: VerifierListener,
        *,
        max_loops: int = MAX_LOOPS,
        ping_interval: float = wire.PING_INTERVAL,
        programs: Programs = dict,
    ) -> None:
        """Reports of `programs` are refused: an agent judges neither itself nor another."""
        self._directories = tuple(directories)
        self._programs = programs
        self._ping_interval = ping_interval
        self._listener = listener
        self._max_loops = max_loops
        self._places: dict[str, _Place] = {}
        self._faults: dict[str, str] = {}  # why a session has no place

    def open(self, builder: Session) -> None:
        """Let verifiers come to a session. What prevents that is logged; the session is the same without."""
        if builder.id in self._places:
            return
        place, faults = (
            _Place(builder, self._received, self._listener.left, self._ping_interval, self._programs),
            [],
        )
        for directory in self._directories:
            try:
                safe_dir(directory)
                place.bind(wire.socket_path(builder.id, directory))
            except (OSError, ValueError, SettingError) as error:
                faults.append(str(error))
        if place.servers:
            place.open()
            self._places[builder.id] = place
            self._faults.pop(builder.id, None)
            for fault in faults:
                log.info("Pi's verifiers can't find session %s: %s", builder.id, fault)
        else:
            self._faults[builder.id] = "; ".join(faults)
            log.warning("session %s has no verifier socket: %s", builder.id, self._faults[builder.id])

    def remove_dead(self) -> None:
        """Remove sockets that a program has left that was killed. May take a while."""
        for directory in self._directories:
            with contextlib.suppress(OSError):
                if not foreign(directory):
                    for entry in itertools.islice(os.scandir(directory), MAX_REMOVED):
                        _remove_if_dead(entry)

    def path(self, session_id: str) -> str:
        """Where a session's verifiers connect. Raises ValueError, with why they can't."""
        place = self._places.get(session_id)
        if place is None:
            why = self._faults.get(session_id) or "it is not open"
            raise ValueError(f"session {session_id} has no socket for verifiers: {why}")
        return place.servers[0].path

    def close(self, session_id: str, reason: str = "session_shutdown") -> None:
        """The session is no more, or not loaded any more."""
        place = self._places.pop(session_id, None)
        self._faults.pop(session_id, None)
        if place is not None:
            place.close(reason)

    def close_all(self, reason: str) -> None:
        for session_id in list(self._places):
            self.close(session_id, reason)

    @property
    def builders(self) -> list[Session]:
        """The sessions that verifiers may come to."""
        return [place.builder for place in self._places.values()]

    @property
    def lost(self) -> list[str]:
        """The sockets that somebody deleted."""
        return [each.path for each in self._servers() if each.is_lost]

    def _servers(self) -> list[UnixServer]:
        return [each for place in self._places.values() for each in place.servers]

    async def mend(self) -> None:
        """Listen anew where that happened."""
        for each in self._servers():
            await each.mend()

    def is_watched(self, session_id: str) -> bool:
        """Whether a verifier is there."""
        place = self._places.get(session_id)
        return place is not None and any(not each.agent for each in place.verifiers)

    async def judged(self, session_id: str, returning: float = 0.0) -> None:
        """Wait until no verifier has yet to report on the last stop. Those that were there before a restart
        have `returning` seconds to come back."""
        place = self._places.get(session_id)
        if place is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(returning):
                await place.is_owed.wait()
        await place.is_settled.wait()

    # --- turns ----------------------------------------------------------------------------------------------

    def started(self, session_id: str, turn: Turn, after: float | None = None) -> None:
        """A person has asked for something: now, or at some time after that one, in seconds since 1970."""
        event = _event("start", session_id, turn)
        if after is not None:
            event = msgspec.structs.replace(event, timestamp=int(after * 1000))
        self._tell(session_id, event)

    def stopped(self, session_id: str, turn: Turn) -> None:
        """A run has ended: of a turn, or of a correction of it."""
        self._tell(session_id, _event("stop", session_id, turn))

    def failed(self, session_id: str, detail: str) -> None:
        self._tell(session_id, Event(name="error", session_id=session_id, detail=detail, timestamp=_now()))

    def _tell(self, session_id: str, event: Event) -> None:
        place = self._places.get(session_id)
        for verifier in list(place.verifiers) if place is not None else ():
            verifier.send(event)

    # --- verifiers ------------------------------------------------------------------------------------------

    def _received(self, builder: Session, verifier: _Verifier, said: wire.Envelope) -> None:
        match said:
            case wire.Hello(since=int(line)):
                for event in _since(builder, line):
                    verifier.send(event)
            case Prompt():
                refusal = _refusal(verifier) or self._injected(builder, said)
                verifier.send(verifier.wire.ack(said, refusal or None))
            case Report() if said.session_id == builder.id:
                if verifier.agent:
                    taken: asyncio.Task[None] | str = _refusal(verifier)
                    log.warning("a report on session %s was refused: %s", builder.id, taken)
                else:
                    taken = self._listener.reported(builder, said)
                if isinstance(taken, str):
                    detail = f"the report was refused: {taken}"
                    verifier.send(Event(name="error", session_id=builder.id, detail=detail, timestamp=_now()))
                else:
                    verifier.writing = taken
                    if said.turn_index >= verifier.told_of:
                        verifier.owes_nothing()

    def _injected(self, builder: Session, prompt: Prompt) -> str:
        """Send a session's turn back; gives why not, if not."""
        if prompt.session_id != builder.id:  # the wire looks at that too, but not if a bye is behind it
            return f"session {prompt.session_id!r} is not here; this is {builder.id!r}"
        if not prompt.message.strip():
            return "message is empty"
        turns = builder.turns
        if not turns:
            return "no turn to correct yet"
        if not builder.is_working and turns[-1].outcome in STOPPED:
            return "the turn was aborted, and an aborted turn is not sent back"
        if turns[-1].corrections >= self._max_loops:
            reason = f"already sent back {counted(self._max_loops, 'time')}"
            self._listener.escalated(builder.id, turns[-1].number, reason)
            return TOO_MANY_LOOPS
        try:
            builder.correct(prompt.message, steer=prompt.deliver_as == "steer")
        except ValueError as error:
            return str(error)
        return ""


def _refusal(verifier: _Verifier) -> str:
    """Why a verifier may only listen, if so."""
    return OF_AN_AGENT.format(verifier.agent[:MAX_AGENT_NAME]) if verifier.agent else ""


def _now() -> int:
    return int(time.time() * 1000)


def _event(name: EventName, session_id: str, turn: Turn) -> Event:
    return Event(
        name=name,
        session_id=session_id,
        turn_index=turn.number,
        timestamp=_now(),
        user_prompt=turn.prompt,
        session_file_start_line=1 if turn.number == 1 else turn.first_line,
        session_file_end_line=turn.last_line if name == "stop" else None,
        outcome=turn.outcome if name == "stop" else None,
        detail=(turn.fault or None) if name == "stop" else None,
    )


def _since(builder: Session, line: int) -> list[Event]:
    """What was told of the turns that go beyond a line, as far as it still matters."""
    events = []
    turns = builder.turns
    for at, turn in enumerate(turns, 1):
        if turn.first_line > line:
            events.append(_event("start", builder.id, turn))
        if turn.last_line > line and not (at == len(turns) and builder.is_working):
            events.append(_event("stop", builder.id, turn))
    return events


class _Place:
    """One session's sockets and the verifiers on them."""

    def __init__(
        self,
        builder: Session,
        heard: Callable[[Session, _Verifier, wire.Envelope], None],
        left: Callable[[Session], None],
        ping_interval: float,
        programs: Programs,
    ) -> None:
        self.builder = builder
        self.programs = programs
        self.left = left
        self.ping_interval = ping_interval
        self.verifiers: set[_Verifier] = set()
        self._owing: set[_Verifier] = set()  # those that were told of a stop and have not reported on it
        self.is_settled, self.is_owed = asyncio.Event(), asyncio.Event()
        self.is_settled.set()
        self.heard = heard
        self.servers: list[UnixServer] = []
        self._opening: list[asyncio.Task[None]] = []
        self._breadcrumb = ""

    def bind(self, path: str) -> None:
        """Have a socket there. Raises OSError, or ValueError if another process does."""
        if is_served(path):
            raise ValueError(f"another process listens on {path}")
        server = UnixServer(path, lambda: _Verifier(self))
        server.bind()
        self.servers.append(server)

    def open(self) -> None:
        """Take who comes."""
        self._breadcrumb = _dropped(self.builder, self.servers[0].path)
        loop = asyncio.get_running_loop()
        self._opening = [loop.create_task(each.open()) for each in self.servers]

    def owes(self, verifier: _Verifier, is_owing: bool) -> None:
        """A verifier has to report on a stop, or has done so, or is gone."""
        (self._owing.add if is_owing else self._owing.discard)(verifier)
        owed, settled = self.is_owed, self.is_settled
        (owed.set if self._owing else owed.clear)()
        (settled.clear if self._owing else settled.set)()

    def close(self, reason: str) -> None:
        for verifier in list(self.verifiers):
            verifier.leave(reason)
        self._owing.clear()
        self.is_settled.set()
        for task in self._opening:
            task.cancel()
        for each in self.servers:
            each.close()
        if self._breadcrumb:
            _remove_breadcrumb(self._breadcrumb)


def _dropped(builder: Session, path: str) -> str:
    """Leave a file that says where the socket is, in a project that Pi works in; returns its path. It is of
    no great matter."""
    breadcrumb = wire.breadcrumb_path(builder.id, builder.project)
    folder = os.path.dirname(breadcrumb)
    if not os.path.isdir(os.path.dirname(folder)):  # other projects get nothing from us
        return ""
    with contextlib.suppress(OSError):
        if not leads_into(folder, builder.project):
            return ""
        if not os.path.isdir(folder):
            os.mkdir(folder, mode=0o700)
            with open(f"{folder}/{_IGNORED}", "x") as file:
                file.write("*\n")
        descriptor = os.open(breadcrumb, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | UNFOLLOWED, 0o600)
        with open(descriptor, "w") as file:
            file.write(f"{path}\n")
    return breadcrumb


def _remove_if_dead(entry: os.DirEntry[str]) -> None:
    with contextlib.suppress(OSError):
        found = entry.stat(follow_symlinks=False)
        is_old = time.time() - found.st_mtime > DEAD_SECONDS
        is_socket = stat.S_ISSOCK(found.st_mode) and entry.name.endswith(".sock")
        if is_socket and is_old and not is_served(entry.path):
            os.unlink(entry.path)


def _remove_breadcrumb(path: str) -> None:
    """Take it away, and its directory if it has nothing of others."""
    folder = os.path.dirname(path)
    with contextlib.suppress(OSError):
        os.unlink(path)
        if os.listdir(folder) == [_IGNORED]:
            os.unlink(f"{folder}/{_IGNORED}")
            os.rmdir(folder)


class _Verifier(asyncio.Protocol):
    """One verifier."""

    def __init__(self, place: _Place) -> None:
        self._place = place
        self.wire = BuilderConnection(place.builder.id)
        self.told_of = 0
        """The turn of the last stop that it was told of."""
        self._transport: asyncio.Transport
        self._liveness: wire.Liveness
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self.agent = ""
        """The agent session one of whose commands it is, if so."""
        self._is_known = False
        self._complaints = 0
        self.writing: asyncio.Task[None] | None = None
        """Writes down its last report. Others before it are written by then."""

    @property
    def is_listener(self) -> bool:
        """Whether it may only listen."""
        return bool(self.agent)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._liveness = wire.Liveness(loop.time(), self._place.ping_interval)
        if not is_our_user(transport.get_extra_info("socket")):
            self._transport.abort()
        elif len(self._place.verifiers) >= MAX_ARRIVING:
            self.leave(f"{MAX_ARRIVING} connections are already open")
        else:
            self._place.verifiers.add(self)
            self._timer = loop.call_at(self._liveness.next, self._ping)
            self._transport.pause_reading()  # until it is known whose it is
            self._asking = loop.create_task(self._ask_whose(transport.get_extra_info("socket")))

    async def _ask_whose(self, connection: socket.socket) -> None:
        self.agent = await asyncio.to_thread(agent_behind, connection, self._place.programs)
        self._is_known = True
        alike = [
            each for each in self._place.verifiers if each._is_known and each.is_listener == self.is_listener
        ]
        limit, what = (MAX_LISTENERS, "commands of agents") if self.agent else (MAX_VERIFIERS, "verifiers")
        if len(alike) > limit:
            self.leave(f"{limit} {what} are already connected")
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.wire.close()
        self._place.verifiers.discard(self)
        self.owes_nothing()
        if self._timer is not None:  # it was let in
            self._timer.cancel()
            self._place.left(self._place.builder)

    def data_received(self, data: bytes) -> None:
        for item in self.wire.receive(data):
            if (answer := self.wire.answer(item)) is not None:
                if isinstance(answer, wire.Pong) and self.writing is not None and not self.writing.done():
                    # it asks whether its report has arrived: that is so when no crash can lose it
                    self.writing.add_done_callback(functools.partial(self._answer_later, answer))
                    continue
                self.send(answer)
                if isinstance(item, Prompt):
                    continue  # it was refused
            match item:
                case Broken():
                    self._transport.write(item.reply)
                    self._close()
                case wire.Misdirected():
                    self._complain(item.reason)
                case wire.Malformed():
                    self._complain(f"it sent a wrong {item.reason}")
                case wire.Pong():
                    self._liveness.heard(item)
                case wire.Bye():
                    self._close()
                    return
                case _:
                    self._place.heard(self._place.builder, self, item)

    def _complain(self, why: str) -> None:
        """Log what is wrong with a verifier, but not for ever."""
        self._complaints += 1
        if self._complaints <= MAX_COMPLAINTS:
            log.warning("a verifier of %s: %s", self.wire.session_id, why)

    def send(self, envelope: wire.Envelope) -> None:
        """Tell it, unless it has left; one that does not read is let go."""
        if self.wire.state is not wire.State.OPEN:
            return
        if self._transport.get_write_buffer_size() > WRITE_LIMIT:
            self._transport.abort()
            return
        self._transport.write(self.wire.send(envelope))
        if isinstance(envelope, Event) and envelope.name == "stop" and not self.agent:
            self.told_of = envelope.turn_index or 0
            self._place.owes(self, True)

    def owes_nothing(self) -> None:
        """It has said what it has to say."""
        self._place.owes(self, False)

    def _answer_later(self, answer: wire.Envelope, written: asyncio.Task[None]) -> None:
        self.send(answer)

    def leave(self, reason: str) -> None:
        """Say bye and go."""
        self.send(wire.Bye(reason=reason))
        self._close()

    def _close(self) -> None:
        self._place.verifiers.discard(self)
        self.owes_nothing()
        self._transport.close()
        asyncio.get_running_loop().call_later(LAST_WORDS_WAIT, self._transport.abort)

    def _ping(self) -> None:
        loop = asyncio.get_running_loop()
        ping = self._liveness.due(loop.time())
        if ping is None:
            log.info("a verifier of %s does not answer", self.wire.session_id)
            self._transport.abort()
            return
        self.send(ping)
        self._timer = loop.call_at(self._liveness.next, self._ping)
