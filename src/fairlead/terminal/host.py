"""All terminal sessions of a daemon: finding their keepers, starting and stopping them.

It asks the nursery for keepers, connects to each, and gives every session its link. When the nursery dies it
is started again; when the daemon dies the next one finds the keepers by their sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..keeper.keeper import Spec
from ..keeper.protocol import Decoder, Kind, frame
from ..settings import SettingError, Settings, safe_dir
from ..wire import keepty
from .fair import Feed, Line
from .recording import Recorder, RecordingError
from .session import Event, Session, State

log = logging.getLogger("fairlead")

START_WAIT = 10.0
"""Seconds until a nursery or a keeper that does not answer is an error."""
MAX_FILES = 8192
"""How many files the daemon may have open, where the system allows it: three a session, one a client."""
GREETING_SIZE = 65_536
"""How many bytes are read at once of what a keeper says first."""
QUIET = 1.0
"""Seconds between looks at sessions that may want a keyframe or have ended long ago."""
BEAT = 1.0
"""Seconds between the signs of life that the nursery gets."""
RECORD_DELAY = 0.25
"""Seconds until a recording has in its file what the program printed."""
MAX_TERM = 64
"""How much of TERM a recording tells."""
MAX_SAME_NAMES = 100
"""How many recordings of one name may be begun in the same second."""


class HostError(Exception):
    """A session that can't be started or found. `kind` tells them apart."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def is_served(path: str) -> bool:
    """Whether a program listens at this socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:  # it is too busy to answer, or not ours to ask
            return True
        return True


def open_more_files() -> int:
    """Let this process have as many open files as sessions need; gives how many it could have before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft


async def _reach(path: str) -> tuple[socket.socket, bytes, int]:
    """A connection to a keeper, the first bytes that it says, and its PTY's end, or -1 without that."""
    loop = asyncio.get_running_loop()
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    try:
        await loop.sock_connect(connection, path)
        readable = asyncio.Event()
        loop.add_reader(connection, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(connection)
        greeting, terminals, _, _ = socket.recv_fds(connection, GREETING_SIZE, 1)
    except BaseException:
        connection.close()
        raise
    for terminal in terminals:
        os.set_inheritable(terminal, False)
    return connection, greeting, terminals[0] if terminals else -1


class _Link(asyncio.Protocol):
    """The connection to a keeper. What it says reaches the session in its turn."""

    def __init__(self, line: Line, lost: Callable[[], None], greeting: bytes, terminal: int) -> None:
        self.session: Session
        self._feed = Feed(line, self)
        self._greeting = greeting
        self._terminal = terminal  # the PTY's end, or -1 if the keeper did not give it
        self.ready = asyncio.get_running_loop().create_future()
        self._lost = lost
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self._writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.data_received(self._greeting)

    def data_received(self, data: bytes) -> None:
        for kind, payload in self._decoder.feed(data):
            self._feed.put(kind, payload)
        self.served()

    def heard(self, kind: int, payload: bytes) -> None:
        self.session.heard(kind, payload)

    def printed(self, offset: int, data: bytes, seconds: float) -> int:
        return self.session.printed(offset, data, seconds)

    def served(self) -> None:
        if self._writing is None and self.session.unwritten:
            self._writing = asyncio.get_running_loop().call_later(RECORD_DELAY, self._write_recording)
        if self.session.ready and not self.ready.done():
            self.ready.set_result(None)

    def failed(self, error: Exception) -> None:
        log.error("session %s can't be drawn", self.session.id, exc_info=error)
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _write_recording(self) -> None:
        self._writing = None
        self.session.write_recording()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1
        if not self.ready.done():
            self.ready.set_exception(HostError("failed", "the keeper ended before it said anything"))
            self.ready.exception()
        self._feed.finish(self._lost)

    def tell(self, kind: Kind, *parts: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame(kind, *parts))

    def type(self, data: bytes) -> int:
        try:
            return os.write(self._terminal, data) if self._terminal >= 0 else 0
        except OSError:  # it has no room, or is gone: the keeper will see which
            return 0

    def close(self) -> None:
        self._feed.close()
        if self._transport is not None:
            self._transport.close()


class Host:
    """The terminal sessions of this daemon, by name."""

    def __init__(self, settings: Settings, notify: Callable[[Session, Event], None]) -> None:
        self.sessions: dict[str, Session] = {}
        self._settings = settings
        self._notify = notify
        self._links: dict[Session, _Link] = {}
        self._ended: dict[Session, float] = {}
        self._exits: dict[Session, asyncio.Event] = {}
        self._line = Line()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._nursery: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._nursery_lock = asyncio.Lock()
        self._is_watched = False
        self._starting: set[str] = set()
        self._closing = False
        self._files = open_more_files()

    # --- life ---------------------------------------------------------------------------------------------

    async def open(self, command: Sequence[str] | None) -> None:
        """Find the keepers that are there. `command` is how the nursery starts this daemon again; None if
        someone else does that."""
        pause = self._settings.number("daemon", "restart_pause")
        watched = {"pid": os.getpid(), "hang": self._settings.number("daemon", "hang_seconds")}
        told: dict[str, Any] = (
            {"back": True} if command is None else {"daemon": list(command), "pause": pause}
        )
        self._introduction = told | watched
        safe_dir(self._settings.runtime_dir)
        safe_dir(self._settings.keepers_dir)
        await self._introduce()
        self._later(self._beat())
        directory = self._settings.keepers_dir
        found = [f"{directory}/{name}" for name in os.listdir(directory) if name.endswith(".sock")]
        await asyncio.gather(*(self._adopt(path) for path in found))
        self._later(self._look_around())

    async def close(self, *, for_good: bool) -> None:
        """Leave the keepers alone. `for_good` ends the nursery too; else the daemon comes back by itself."""
        self._closing = True
        if self._nursery is not None:
            with contextlib.suppress(OSError, HostError, TimeoutError):
                await self._ask_nursery({"bye" if for_good else "back": True})
        for task in list(self._tasks):
            task.cancel()
        if for_good:
            for session in list(self._ended):
                self.forget(session)
        for session, link in list(self._links.items()):
            session.write_recording()
            link.close()
        if self._nursery is not None:
            self._nursery[1].close()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._files, hard))  # the next daemon begins as we did

    def _later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_around(self) -> None:
        """Now and then: keyframes for quiet sessions, an end to those long over, the nursery's health."""
        while True:
            await asyncio.sleep(QUIET)
            now = time.monotonic()
            for session in list(self.sessions.values()):
                if now - session.active_at > QUIET:
                    session.keep_if_quiet()
            keep = self._settings.number("terminal", "keep_ended")
            for session, moment in list(self._ended.items()):
                if now - moment > keep:
                    self.forget(session)
            if self._nursery is not None and self._nursery[0].at_eof():
                with contextlib.suppress(OSError, HostError, TimeoutError):
                    await self._introduce()

    async def _introduce(self) -> None:
        answer = await self._ask_nursery(self._introduction)
        self._is_watched = bool(answer.get("watches"))  # an older nursery does not know that

    async def _beat(self) -> None:
        """Tell the nursery that this loop runs, as long as it does."""
        while True:
            if self._is_watched and self.has_nursery:
                assert self._nursery is not None
                writer = self._nursery[1]
                if not writer.transport.get_write_buffer_size():
                    writer.write(b'{"alive": true}\n')
            await asyncio.sleep(BEAT)

    # --- the nursery ----------------------------------------------------------------------------------------

    @property
    def has_nursery(self) -> bool:
        """Whether the nursery is connected."""
        return self._nursery is not None and not self._nursery[0].at_eof()

    async def _ask_nursery(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask the nursery, starting it if there is none."""
        async with self._nursery_lock, asyncio.timeout(START_WAIT):
            reader, writer = await self._reach_nursery()
            writer.write(json.dumps(request).encode() + b"\n")
            line = await reader.readline()
        if not line:
            raise HostError("failed", "the nursery ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise HostError("failed", f"the nursery could not do it: {answer['error']}")
        return answer

    async def _reach_nursery(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._nursery is not None and not self._nursery[0].at_eof():
            return self._nursery
        path = self._settings.nursery_path
        started = False
        while True:
            try:
                self._nursery = await asyncio.open_unix_connection(path)
            except (FileNotFoundError, ConnectionRefusedError):
                if not started:
                    started = True
                    await self._start_nursery(path)
                await asyncio.sleep(0.01)
            else:
                return self._nursery

    async def _start_nursery(self, path: str) -> None:
        # the programs in its keepers get as many open files as the daemon was given, not as it took
        await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            'ulimit -S -n "$0"; exec "$@"',
            str(self._files),
            sys.executable,
            "-m",
            "fairlead.keeper.nursery",
            path,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )

    # --- sessions -------------------------------------------------------------------------------------------

    async def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        cols: int,
        rows: int,
        deferred: bool = False,
        record: bool | str = False,
    ) -> Session:
        """A new session, recorded to a file if wanted. Raises HostError if it can't be started."""
        try:
            keepty.socket_path(name, os.environ)
            safe_dir(keepty.socket_dir(os.environ))
        except ValueError as error:
            raise HostError("invalid", str(error)) from None
        except SettingError as error:
            raise HostError("failed", str(error)) from None
        if name in self._starting:
            raise HostError("exists", f"session {name!r} is being started")
        if name in self.sessions:
            if self.sessions[name].state is not State.ENDED:
                raise HostError("exists", f"session {name!r} is already running")
            self.forget(self.sessions[name])
        if is_served(path := keepty.socket_path(name, os.environ)):
            raise HostError("exists", f"another program serves {path}")
        if len(self.sessions) >= self._settings.count("terminal", "max_sessions"):
            raise HostError("limit", f"there are {len(self.sessions)} sessions already")
        if not os.path.isdir(cwd):
            raise HostError("invalid", f"no such directory: {cwd}")
        spec: Spec = {
            "id": name,
            "command": list(command),
            "cwd": cwd,
            "environment": {"TERM": "xterm-256color", "SHELL": "/bin/sh"}
            | dict(environment)
            | {"FAIRLEAD_SESSION": name},
            "cols": keepty.clamped(cols),
            "rows": keepty.clamped(rows),
            "deferred": deferred,
        }
        # never a path that was there before: a keeper that is told to go removes its own when it is gone
        path = f"{self._settings.keepers_dir}/{secrets.token_hex(8)}.sock"
        self._starting.add(name)
        recording = ""
        try:
            if record:  # the file is there before the program is, so that not even its first byte is missed
                recording = self._new_recording(name, record, spec)
                spec["note"] = {"recording": recording}
            await self._ask_nursery({"keep": spec, "socket": path})
            return await self._connect(path, spec.get("note"))
        except (OSError, HostError, TimeoutError):
            if recording:
                with contextlib.suppress(OSError):
                    os.unlink(recording)
            raise
        finally:
            self._starting.discard(name)

    def record(self, name: str, path: str | None = None) -> str:
        """Record a session from now on; gives the file. Raises HostError."""
        session = self.find(name)
        if session.state is State.ENDED:
            raise HostError("invalid", f"session {name!r} has ended")
        if session.recording is not None:
            raise HostError("exists", f"session {name!r} is recorded already, to {session.recording}")
        return self._recorded(name, path or True, session.record)

    def _new_recording(self, name: str, wanted: bool | str, spec: Spec) -> str:
        size = (spec["cols"], spec["rows"])
        terminal = spec["environment"]["TERM"][:MAX_TERM]

        def create(path: str) -> None:
            Recorder.create(path, size, title=name, command=spec["command"], terminal=terminal).close()

        return self._recorded(name, wanted, create)

    def _recorded(self, name: str, wanted: bool | str, create: Callable[[str], None]) -> str:
        """The path of a new recording, made: the one that is wanted, or a free one at the usual place."""
        try:
            if isinstance(wanted, str):
                if not os.path.isabs(wanted):
                    raise HostError("invalid", f"the path of a recording must be absolute: {wanted}")
                create(wanted)
                return wanted
            stem = f"{safe_dir(self._settings.recordings_dir)}/{name}-{time.strftime('%Y%m%d-%H%M%S')}"
            paths = [f"{stem}.cast", *(f"{stem}-{number}.cast" for number in range(2, MAX_SAME_NAMES))]
            path = next((path for path in paths if not os.path.lexists(path)), paths[-1])
            create(path)
            return path
        except RecordingError as error:
            raise HostError("invalid", str(error)) from None
        except SettingError as error:
            raise HostError("failed", str(error)) from None

    async def _adopt(self, path: str) -> None:
        """Take over a keeper that is there; the socket of one that isn't is removed."""
        try:
            await self._connect(path)
        except TimeoutError:
            log.warning("the keeper at %s does not answer; it is left alone", path)
        except (OSError, HostError):
            with contextlib.suppress(OSError):
                os.unlink(path)

    async def _connect(self, path: str, note: dict[str, Any] | None = None) -> Session:
        loop = asyncio.get_running_loop()
        session: Session

        def lost() -> None:
            self._lost(session)

        async with asyncio.timeout(START_WAIT):
            connection, greeting, terminal = await _reach(path)
        link = _Link(self._line, lost, greeting, terminal)
        session = link.session = Session(
            link,
            self._happened,
            scrollback_lines=self._settings.count("terminal", "scrollback_lines"),
            scrollback_bytes=self._settings.count("terminal", "scrollback_bytes"),
            note=note,
        )
        async with asyncio.timeout(START_WAIT):
            await loop.create_unix_connection(lambda: link, sock=connection)
            await link.ready
        self._links[session] = link
        if rival := self.sessions.get(session.id):  # an ended one of the same name, not dismissed in time
            older = min(session, rival, key=lambda each: each.started_at)
            self.forget(older)
            if older is session:
                return session
        self.sessions[session.id] = session
        self._notify(session, Event("opened", {"name": session.id}))
        return session

    def _happened(self, session: Session, event: Event) -> None:
        if event.topic == "shutdown":
            self._later(self.stop(session.id))
            return
        if event.topic == "terminal/recording" and "error" in event.data:
            log.warning("session %s is not recorded any more: %s", session.id, event.data["error"])
        if event.topic == "terminal/exited":
            self._ended[session] = time.monotonic()
            if session in self._exits:
                self._exits[session].set()
        self._notify(session, event)

    def _lost(self, session: Session) -> None:
        """The keeper is gone. If that was not our wish, its program is gone with it."""
        self._links.pop(session, None)
        if self._closing or not session.ready or session.state is State.ENDED:
            return
        session.heard(Kind.EXITED, (128 + signal.SIGKILL).to_bytes(4))

    def __contains__(self, session: Session) -> bool:
        return self.sessions.get(session.id) is session

    def find(self, name: str) -> Session:
        """The session of this name. Raises HostError."""
        if name not in self.sessions:
            raise HostError("missing", f"no session {name!r}")
        return self.sessions[name]

    def forget(self, session: Session) -> None:
        """An ended session can't be looked at any more."""
        self._ended.pop(session, None)
        self._exits.pop(session, None)
        if self.sessions.get(session.id) is session:
            del self.sessions[session.id]
        session.dismiss()
        if link := self._links.pop(session, None):
            link.close()
        self._notify(session, Event("forgotten", {"name": session.id}))

    async def ended(self, session: Session) -> int:
        """Wait until a session has ended; gives its exit code."""
        if session.exit_code is None:
            await self._exits.setdefault(session, asyncio.Event()).wait()
        assert session.exit_code is not None
        return session.exit_code

    async def stop(self, name: str) -> int:
        """End a session's program: SIGTERM, some grace, SIGKILL. Gives its exit code."""
        session = self.find(name)
        for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGKILL):
            if session.state is State.WAITING:  # nothing runs yet, so there is nothing to wait for
                session.heard(Kind.EXITED, (0).to_bytes(4))
            session.signal(number)
            grace = 0.0 if number == signal.SIGTERM else self._settings.number("terminal", "stop_grace")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace if number != signal.SIGKILL else START_WAIT):
                    return await self.ended(session)
        raise HostError("failed", f"session {name!r} does not end")
