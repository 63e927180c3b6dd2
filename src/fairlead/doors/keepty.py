"""The keepty door: a unix socket for each terminal session, at the path that keepty's clients look for. Where
all users share that place there is one more in a directory of our own, and the shared one only if it is ours.

A connection here is a `Viewer` of its session. What a client is owed is queued in its transport; when that
is longer than the limit, the client is `behind`: the session leaves it out until the queue is empty and then
shows it the screen afresh.

A session whose program has ended has no socket there: keepty's programs take one that listens for a running
session. Our own clients find it at one socket for all that have ended: they send the session's name and a
line's end, get the same back, and from then on it is a connection like any other.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from ..keeper.credentials import is_our_user, peer_pid
from ..sessions.inbox import calling_agent
from ..system.settings import SettingError, Settings, safe_dir
from ..system.sockets import is_served
from ..system.terminal_input import shown_terminal
from ..terminal.ports import ProgramState
from ..terminal.session import TerminalSession
from ..wire import keepty
from ..wire.faults import Broken
from .listening import UnixServer, log
from .peer_proof import Programs, agent_behind

SERVE_SECONDS = 0.005
"""How long messages of one client are taken before others have their turn;"""
SERVE_AT_ONCE = 16
"""the time is looked at after so many."""
SETTLE = 0.05
"""Seconds after which it is looked whether a client's transport has nothing more to send: longer than any
pass of the loop, at whose end it begins to."""
READY_SECONDS = 1.0
"""Seconds in which a client has made a person's terminal ready to show a session."""
AWAY = 60.0
"""Seconds since the last key after which nobody need be at a terminal."""
TYPED_GRAIN = 8.0
"""To how many seconds systems tell when something was typed."""
WINDOW = keepty.PACE_WINDOW * keepty.PACE_BYTES
"""How many bytes may be on their way to a client that confirms them."""
MAX_WHO = 60
"""How many characters of a client's name others are shown."""
MAX_NAME = 4096
"""How many bytes the name of an ended session may have that a client asks for."""


def _words_for(hello: keepty.Hello, pid: int, *, is_believed: bool) -> str:
    """Who a client is, for people. What it says of itself is no proof; an agent's is not asked."""
    terminal, name = ("".join(filter(str.isprintable, text)) for text in (hello.terminal, hello.name))
    who = name[:MAX_WHO] if name and is_believed else f"pid {pid}" if pid else "another client"
    return f"{who} on {terminal}" if terminal else who


class KeeptyDoor:
    """The sockets of all sessions."""

    def __init__(
        self,
        settings: Settings,
        notice: Callable[[TerminalSession], str],
        seen: Callable[[str], None],
        programs: Programs = dict,
    ) -> None:
        """`notice` returns what a person who comes to a session should know, and `seen` is called with the
        session; `programs` are agents'."""
        self.notice = notice
        self.seen = seen
        self.programs = programs
        self._settings = settings
        self._servers: dict[TerminalSession, list[UnixServer]] = {}
        self._ended: UnixServer | None = None
        self.connections: dict[TerminalSession, set[_Client]] = {}

    async def open(self, session: TerminalSession) -> None:
        """Listen for a session's clients. A dead socket at its path is removed, a live one is an error."""
        own, *shared = keepty.socket_dirs(os.environ, self._settings.keepty_dir)
        await self._listen(session, own)
        for directory in shared:
            try:
                await self._listen(session, directory)
            except (OSError, ValueError) as error:
                log.info("keepty's programs can't find session %s: %s", session.id, error)

    async def _listen(self, session: TerminalSession, directory: str) -> None:
        try:
            safe_dir(directory)
        except SettingError as error:
            raise OSError(str(error)) from None
        path = keepty.socket_path(session.id, os.environ, directory)
        if is_served(path):
            raise OSError(f"another program serves {path}")
        self.connections.setdefault(session, set())
        server = UnixServer(path, lambda: _Client(session, self))
        await server.open()
        self._servers.setdefault(session, []).append(server)

    def retire(self, session: TerminalSession) -> None:
        """A session has ended: take its clients only at the socket for those."""
        for server in self._servers.pop(session, ()):
            server.close()

    async def open_ended(self, find: Callable[[str], TerminalSession | None]) -> None:
        """Listen for clients of sessions that have ended."""
        self._ended = UnixServer(self._settings.ended_path, lambda: _Asking(self, find))
        await self._ended.open()

    def close_ended(self) -> None:
        """Listen no more for those."""
        if self._ended is not None:
            self._ended.close()
            self._ended = None

    def close(self, session: TerminalSession) -> None:
        """Take no more clients of a session, and let go of those that are there."""
        self.retire(session)
        for client in list(self.connections.pop(session, ())):
            client.finish()

    @property
    def lost(self) -> list[str]:
        """The sockets that somebody deleted."""
        return [server.path for server in self._all() if server.is_lost]

    def _all(self) -> list[UnixServer]:
        own = [server for servers in self._servers.values() for server in servers]
        return [*own, *([self._ended] if self._ended is not None else [])]

    async def mend(self) -> None:
        """Listen anew where that happened."""
        for server in self._all():
            await server.mend()

    def is_full(self, session: TerminalSession) -> bool:
        return len(self.connections[session]) >= self._settings.count("terminal", "max_connections")

    def session_of(self, pid: int) -> str:
        """The session in whose terminal a process runs, as its program leads the process's session."""
        try:
            leader = os.getsid(pid) if pid else 0
        except OSError:
            return ""
        return next((each.id for each in self.connections if leader and each.pid == leader), "")

    def would_loop(self, shown: str, within: str) -> str:
        """Why a client that runs in a session must not show another one there; empty if it may.

        A session that shows itself, at once or through others, would feed its output to itself for ever.
        """
        if shown == within:
            return f"can't attach to session {shown!r} from within itself"
        shows: dict[str, set[str]] = {}  # what each session shows
        for session, clients in self.connections.items():
            for client in clients:
                if client.within:
                    shows.setdefault(client.within, set()).add(session.id)
        seen, found = {shown}, [shown]
        while found:
            for each in shows.get(found.pop(), ()):
                if each == within:
                    return f"can't attach: session {shown!r} already shows this terminal, through {within!r}"
                if each not in seen:
                    seen.add(each)
                    found.append(each)
        return ""

    def is_watched(self, session: TerminalSession) -> bool:
        """Whether a person looks at a session: the last keys at any terminal that is attached to one were
        typed there, not long ago."""
        last = max(
            (each.typed_at for each in self.connections.get(session, ()) if each.is_person), default=0.0
        )
        if last < time.time() - AWAY:
            return False
        everywhere = (each for clients in self.connections.values() for each in clients if each.is_person)
        return last + TYPED_GRAIN >= max(each.typed_at for each in everywhere)

    def has_person(self, but: str) -> bool:
        """Whether a person is attached to another session than this one."""
        clients = (each for session, all in self.connections.items() if session.id != but for each in all)
        return any(each.is_person for each in clients)

    @property
    def backlog(self) -> int:
        return self._settings.count("terminal", "client_backlog")


class _Asking(asyncio.Protocol):
    """A connection that has not said yet which of the ended sessions it wants."""

    def __init__(self, door: KeeptyDoor, find: Callable[[str], TerminalSession | None]) -> None:
        self._door = door
        self._find = find
        self._asked = b""
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(keepty.HELLO_DEADLINE, self._transport.abort)
        if not is_our_user(transport.get_extra_info("socket")):
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._asked += data
        name, end, rest = self._asked.partition(b"\n")
        if not end and len(name) <= MAX_NAME:
            return
        session = self._find(os.fsdecode(name))
        if session is None:
            self._transport.close()
            return
        self._deadline.cancel()
        self._transport.write(name + b"\n")
        self._door.connections.setdefault(session, set())
        client = _Client(session, self._door)
        self._transport.set_protocol(client)
        client.connection_made(self._transport)
        if rest and not self._transport.is_closing():
            client.data_received(rest)

    def connection_lost(self, error: Exception | None) -> None:
        self._deadline.cancel()


class _Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, session: TerminalSession, door: KeeptyDoor) -> None:
        self.behind = False
        self.within = ""
        """The session in which this client shows ours, if it does."""
        self._terminal = ""  # the person's
        self._may_be_person = False
        self._pid = 0
        self._session = session
        self._door = door
        self._wire = keepty.BrokerConnection()
        self._reasons = self._notices = False
        self._overfull = False
        self._is_paused = False  # by the session, whose program does not read
        self._waiting: deque[Any] = deque()  # messages that have come and were not taken yet
        self._is_deferred = False  # whether that goes on later
        self._agent: str | None = None  # the agent session whose command it is, once that matters
        self._checking: asyncio.Task[None] | None = None  # finds that out
        self._is_paced = False  # whether the client confirms what it has taken
        self._unconfirmed = 0  # bytes that it has not
        self._direct = -1  # the socket, while nothing waits in the transport
        self._settling: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle | None = None

    # --- asyncio's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        if not is_our_user(transport.get_extra_info("socket")):
            transport.abort()
            return
        if self._session not in self._door.connections or self._door.is_full(self._session):
            self._refuse("this session has reached its limit of clients")
            return
        self._door.connections[self._session].add(self)
        transport.set_write_buffer_limits(high=self._door.backlog, low=0)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(
            keepty.HELLO_DEADLINE, self._refuse, f"no HELLO within {keepty.HELLO_DEADLINE:g} s"
        )

    def data_received(self, data: bytes) -> None:
        self._waiting.extend(self._wire.receive(data))
        if not self._is_deferred:
            self._serve()

    def _serve(self) -> None:
        """Take what has come. Thousands of small messages fit into one read: what takes longer than a moment
        is left for later, and nothing more is read until then."""
        until = time.monotonic() + SERVE_SECONDS
        count = 0
        while self._waiting and self._checking is None:
            if self._agent is None and _is_looked_into(self._waiting[0], self._session):
                self._checking = asyncio.get_running_loop().create_task(self._check())
                break
            self._take(self._waiting.popleft())
            count += 1
            if count % SERVE_AT_ONCE == 0 and time.monotonic() > until:
                break
        if self._transport.is_closing():
            self._waiting.clear()
        was_deferred, self._is_deferred = self._is_deferred, bool(self._waiting)
        if self._transport.get_write_buffer_size() > 2 * self._door.backlog:
            self._overfull = True  # it asks and asks and never reads an answer
            self._transport.pause_reading()
        if self._is_deferred:
            self._transport.pause_reading()
            if self._checking is None:
                asyncio.get_running_loop().call_soon(self._serve)
        elif was_deferred:
            self._read_on()

    async def _check(self) -> None:
        """Find out whose a client is, before it is let in."""
        connection = self._transport.get_extra_info("socket")
        self._agent = await asyncio.to_thread(agent_behind, connection, self._door.programs)
        self._checking = None
        self._serve()

    def _take(self, message: Any) -> None:
        if self._transport.is_closing():
            return
        match message:
            case Broken(reply=reply):
                self._transport.write(reply)
                self._transport.close()
            case keepty.Hello() if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
                self._reasons = bool(message.wishes & keepty.Wish.REASONS)
                self._notices = bool(message.wishes & keepty.Wish.NOTICES)
                self._is_paced = bool(message.wishes & keepty.Wish.PACED)
                self._come(message)
            case keepty.Resize(cols=keepty.PACE_COLS, rows=count) if self._is_paced:
                self._confirmed(count * keepty.PACE_BYTES)
            case _:
                calling = calling_agent.set(self._agent or "")
                reason = self._session.receive(self, message)
                calling_agent.reset(calling)
                if reason and self._reasons:
                    self.write(keepty.Error(reason).encode())

    def pause_writing(self) -> None:
        self.behind = True

    def resume_writing(self) -> None:
        if self._overfull:
            self._overfull = False
            self._read_on()
        if self.behind and self._unconfirmed <= WINDOW // 2:
            self.behind = False
            self._session.resync(self)

    def _confirmed(self, size: int) -> None:
        """The client has taken so much of its output."""
        self._unconfirmed = max(0, self._unconfirmed - size)
        if self.behind and not self._transport.get_write_buffer_size():
            self.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._direct = -1
        for message in self._waiting:
            if isinstance(message, keepty.Input):  # what was typed is typed
                self._session.receive(self, message)
        self._waiting.clear()
        if self._settling is not None:
            self._settling.cancel()
        if self._deadline is not None:
            self._deadline.cancel()
        self._door.connections.get(self._session, set()).discard(self)
        self._session.detach(self)

    def _come(self, hello: keepty.Hello) -> None:
        """Let the client in, unless its session would show itself."""
        pid = peer_pid(self._transport.get_extra_info("socket")) or 0
        if hello.wishes & keepty.Wish.SHOWN:
            verified = self._door.session_of(pid)
            within = verified or hello.within  # a terminal in it, as tmux has them, is known by name alone
            if within and (reason := self._door.would_loop(self._session.id, within)):
                hint = "" if verified else "; if this terminal is not in it, unset FAIRLEAD_SESSION"
                self._refuse(reason + hint)
                return
            self.within = within
        who = _words_for(hello, pid, is_believed=not self._agent)
        if self._agent:  # then all that it types comes through us
            wishes = hello.wishes & ~keepty.Wish.DIRECT
            given = (hello.terminal, hello.within, hello.name)
            hello = keepty.Hello(hello.role, hello.cols, hello.rows, wishes, *given)
            self._session.typed_by(self._agent)
        self._session.attach(self, hello, self._greet, who)
        is_shown = hello.role is keepty.Role.WRITER or bool(hello.wishes & keepty.Wish.SHOWN)
        if is_shown and not self._agent and not self._transport.is_closing():
            self._may_be_person, self._pid = True, pid
            self._terminal = hello.terminal
            self._note_seen()
            if not self._terminal:  # another client than ours makes its terminal ready now
                asyncio.get_running_loop().call_later(READY_SECONDS, self._note_seen)
        if not self._transport.is_closing() and (notice := self._door.notice(self._session)):
            self.say(notice)
        is_watched = hello.role is keepty.Role.WATCHER and bool(hello.wishes & keepty.Wish.SHOWN)
        if is_watched and self._session.writer and not self._transport.is_closing():
            self.say(f"{self._session.writer} writes here")

    def _note_seen(self) -> None:
        if self.is_person and not self._transport.is_closing():
            self._door.seen(self._session.id)

    @property
    def is_person(self) -> bool:
        """Whether a person looks at it here: it shows the session in a terminal, and is no agent's. A script
        has none."""
        if self._may_be_person and not self._terminal:
            self._terminal = shown_terminal(self._pid)
        return self._may_be_person and bool(self._terminal)

    @property
    def typed_at(self) -> float:
        """When the person last pressed a key, as the system knows it of the terminal; else now."""
        try:
            if self._terminal.replace("/", "").isalnum():  # as pts/7 is, and nothing outside of /dev
                return os.stat(f"/dev/{self._terminal}").st_atime
        except OSError:
            pass
        return time.time()

    # --- the session's side ---------------------------------------------------------------------------------

    def write(self, frame: bytes) -> None:
        """Send a frame: at once where nothing waits before it, as a key's echo does not."""
        if self._is_paced:
            self._unconfirmed += len(frame)
            if self._unconfirmed > WINDOW:
                self.behind = True
        if self._direct >= 0:
            try:
                sent = os.write(self._direct, frame)
            except OSError:  # it has no room, or is gone, which the transport sees too
                sent = 0
            if sent == len(frame):
                return
            frame = frame[sent:]
        self._queue(frame)

    def _queue(self, frame: bytes) -> None:
        self._transport.write(frame)
        self._direct = -1
        if self._settling is None:
            self._settling = asyncio.get_running_loop().call_later(SETTLE, self._settle)

    def _settle(self) -> None:
        """Write directly again if the transport has given all it had to the kernel."""
        self._settling = None
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size():
            self._settling = asyncio.get_running_loop().call_later(SETTLE, self._settle)
        else:
            self._direct = self._transport.get_extra_info("socket").fileno()

    def say(self, text: str) -> None:
        if self._notices:
            self.write(keepty.Error(text).encode())

    def finish(self) -> None:
        self._transport.close()

    def pause(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    def resume(self) -> None:
        self._is_paused = False
        self._read_on()

    def _read_on(self) -> None:
        """Read again, unless something else is in the way."""
        if not (self._is_paused or self._overfull or self._is_deferred or self._transport.is_closing()):
            self._transport.resume_reading()

    def _greet(self, message: keepty.HelloAck, terminal: int) -> None:
        frame = self._wire.send(message)
        if message.wishes & keepty.Wish.DIRECT:  # what can't be queued in a transport; nothing is before it
            with socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno())) as alone:
                frame = frame[socket.send_fds(alone, [frame], [terminal]) :]
        if frame:
            self._queue(frame)

    def _refuse(self, reason: str) -> None:
        self._transport.write(keepty.Error(reason).encode())
        self._transport.close()


def _is_looked_into(message: Any, session: TerminalSession) -> bool:
    """Whether this is the greeting of a client that may give a program input, or shows it to somebody."""
    if not isinstance(message, keepty.Hello) or session.state is ProgramState.ENDED:
        return False
    return message.role is keepty.Role.WRITER or bool(message.wishes & keepty.Wish.SHOWN)
