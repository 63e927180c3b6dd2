"""All terminal sessions of a daemon: finding their keepers, starting and stopping them.

It asks the nursery for keepers, connects to each, and gives every session its link. When the nursery dies it
is started again; when the daemon dies the next one finds the keepers by their sockets. A keeper whose
connection is lost is looked for again, and only when nobody listens at its socket is its program given up.

A start is whole or leaves nothing: the keeper is made first, and told to start the program when it is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from ..formats.guess import meant
from ..formats.shown import name_fault
from ..keeper.keeper import Spec
from ..keeper.protocol import FrameKind
from ..system.fair import FairLine
from ..system.keepers import (
    FIND_PAUSE,
    FIND_REST,
    FIND_TRIES,
    KEEPER_KILLED,
    START_WAIT,
    KeeperGone,
    NurseryError,
    NurseryLink,
    Reached,
    Tasks,
    discard,
    reach,
    sockets_in,
)
from ..system.processes import foreground, running
from ..system.settings import SettingError, Settings, foreign, safe_dir
from ..system.sockets import is_served
from ..wire import keepty
from .environment import for_program
from .link import KeeperLink
from .ports import ProgramState, TerminalEvent
from .recording import Recorder, RecordingError
from .screen.outward import Allowed
from .session import TerminalSession

log = logging.getLogger("fairlead")

QUIET = 1.0
"""Seconds between looks at sessions that may want a keyframe or have ended long ago."""
HANG_UP_GRACE = 1.0
"""Seconds that a program has to end when its terminal is closed, before it is told in another way."""
LOOK_PAUSE = 0.02
"""Seconds between two looks whether a program has ended that is nobody's child."""
MAX_TERM = 64
"""How much of TERM a recording tells."""
MAX_SAME_NAMES = 100
"""How many recordings of one name may be begun in the same second."""


class HostError(Exception):
    """A session that can't be started or found. `kind` tells them apart; a command that can't be executed
    also has the `code` that a shell would exit with."""

    def __init__(self, kind: str, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code


class TerminalHost:
    """The terminal sessions of this daemon, by name."""

    def __init__(self, settings: Settings) -> None:
        self.sessions: dict[str, TerminalSession] = {}
        self._settings = settings
        self._listeners: list[Callable[[TerminalSession, TerminalEvent], None]] = []
        self._links: dict[TerminalSession, KeeperLink] = {}
        self._paths: dict[TerminalSession, str] = {}  # where their keepers listen
        self._unborn: dict[
            TerminalSession, tuple[asyncio.Event, list[TerminalEvent]]
        ] = {}  # being started; nobody sees them
        self._found_at: dict[TerminalSession, float] = {}
        self._orphans: set[TerminalSession] = set()  # those that are ended because their owner is gone
        self._ended: dict[TerminalSession, float] = {}
        self._exits: dict[TerminalSession, asyncio.Event] = {}
        self._line = FairLine()
        self._tasks = Tasks()
        self.nursery = NurseryLink(settings)
        self._starting: set[str] = set()
        self._closing = False

    # --- life ---------------------------------------------------------------------------------------------

    async def open(self, command: Sequence[str] | None) -> None:
        """Find the keepers that are there. `command` is how the nursery starts this daemon again; None if
        someone else does that."""
        await self.nursery.open(command)
        found = sockets_in(self._settings.keepers_dir)
        await asyncio.gather(*(self._adopt(path) for path in found))
        await self._clear(time.monotonic())  # here too, as a daemon may not live until the first look
        self._later(self._look_around())

    async def close(self, *, for_good: bool) -> None:
        """Leave the keepers alone. `for_good` ends the nursery too; else the daemon comes back by itself."""
        self._closing = True
        await self.nursery.leave(for_good=for_good)
        self._tasks.cancel()
        if for_good:
            for session in list(self._ended):
                self.forget(session)
        for session, link in list(self._links.items()):
            session.write_recording()
            link.close()
        self.nursery.close()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        _ = self._tasks.begin(work)

    async def _look_around(self) -> None:
        """Now and then: keyframes for quiet sessions, an end to those long over, the nursery's health."""
        while True:
            await asyncio.sleep(QUIET)
            now = time.monotonic()
            for session in list(self.sessions.values()):
                if now - session.active_at > QUIET:
                    session.keep_if_quiet()
            await self._clear(now)
            await self.nursery.mend()

    async def _clear(self, now: float) -> None:
        """Forget sessions that ended long ago. End those whose owner is gone, and those that have waited too
        long for their first writer."""
        kept = self._settings.number("terminal", "keep_ended")
        for session, moment in list(self._ended.items()):
            if now - moment > kept:
                self.forget(session)
        keep = self._settings.number("terminal", "keep_waiting")
        for session in list(self.sessions.values()):
            if session.state is ProgramState.ENDED or session in self._orphans:
                continue
            owner = session.note.get("owner")
            is_waiting = session.state is ProgramState.WAITING and not session.viewers
            is_over = is_waiting and (now - session.made_at > keep or bool(session.note.get("starting")))
            if is_over or (owner and not await asyncio.to_thread(_is_there, owner)):
                log.info(
                    "session %s is ended: %s", session.id, "nobody came" if is_over else "its owner is gone"
                )
                self._orphans.add(session)
                self._later(self._end_orphan(session))

    async def _end_orphan(self, session: TerminalSession) -> None:
        try:
            with contextlib.suppress(HostError):
                await self.stop(session.id, hang_up=False)
            if session in self:
                self.forget(session)
        finally:
            self._orphans.discard(session)

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
        note: Mapping[str, Any] | None = None,
        owner: int | None = None,
    ) -> TerminalSession:
        """A new session, recorded to a file if wanted. Raises HostError if it can't be started.

        `note` is what the next daemon should know of it. A session with an `owner`, a process id, is ended
        when that process is gone. If who asks is cancelled, the session is started all the same.
        """
        spec = self._checked(name, command, cwd, environment, (cols, rows))
        spec["note"] = dict(note or {})
        if not deferred:
            spec["note"]["starting"] = True
        if owner is not None and (program := await asyncio.to_thread(running, owner)) is not None:
            spec["note"]["owner"] = list(program)
        self._starting.add(name)
        return await asyncio.shield(self._tasks.begin(self._start(spec, record, deferred)))

    def agent_programs(self) -> dict[int, str]:
        """The first process of each session that is, or was started by, a command of an agent session, and
        its keeper's, with the agent."""
        sessions = [*list(self.sessions.values()), *list(self._unborn)]  # another thread may ask
        return {
            pid: agent
            for each in sessions
            if each.state is not ProgramState.ENDED
            if (agent := each.agent)
            for pid in (each.pid, each.keeper_pid)
            if pid
        }

    def session_programs(self) -> dict[int, str]:
        """The first process of each session, with the session; or with the agent whose command it is."""
        sessions = list(self.sessions.values())  # another thread may ask
        running = (each for each in sessions if each.pid and each.state is not ProgramState.ENDED)
        return {each.pid: each.started_by or each.id for each in running}

    def _checked(
        self,
        name: str,
        command: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        size: tuple[int, int],
    ) -> Spec:
        """What a keeper is told of a new session, if there can be one. Raises HostError."""
        try:
            own, *shared = keepty.socket_dirs(os.environ, self._settings.keepty_dir)
            paths = [keepty.socket_path(name, os.environ, own)]
            safe_dir(own)
            paths += [keepty.socket_path(name, os.environ, each) for each in shared if not foreign(each)]
        except ValueError as error:
            raise HostError("invalid", str(error)) from None
        except SettingError as error:
            raise HostError("failed", str(error)) from None
        if not name.isprintable():  # it is shown in tables, titles and logs
            raise HostError("invalid", f"a session's name must be printable UTF-8: {name!r}")
        if why := name_fault(name):
            raise HostError("invalid", why)
        if name in self._starting:
            raise HostError("exists", f"session {name!r} is being started")
        if name in self.sessions:
            if self.sessions[name].state is not ProgramState.ENDED:
                raise HostError("exists", f"session {name!r} is already running")
            self.forget(self.sessions[name])
        for path in filter(is_served, paths):
            raise HostError("exists", f"another program serves {path}")
        if len(self.sessions) >= self._settings.count("terminal", "max_sessions"):
            raise HostError("limit", f"the limit of {len(self.sessions)} sessions is reached")
        if not os.path.isdir(cwd):
            raise HostError("invalid", f"no such directory: {cwd}")
        return {
            "id": name,
            "command": list(command),
            "cwd": cwd,
            "environment": for_program(environment, name),
            "cols": keepty.clamped(size[0]),
            "rows": keepty.clamped(size[1]),
            "deferred": True,  # until its keeper is ours
        }

    async def _start(self, spec: Spec, record: bool | str, deferred: bool) -> TerminalSession:
        # never a path that was there before: a keeper that is told to go removes its own when it is gone
        path = f"{self._settings.keepers_dir}/{secrets.token_hex(8)}.sock"
        recording = ""
        keeper = 0
        try:
            if record:  # the file is there before the program is, so that not even its first byte is missed
                recording = self._new_recording(spec["id"], record, spec)
                spec["note"]["recording"] = recording
            keeper = (await self.nursery.ask({"keep": spec, "socket": path}))["pid"]
            session = await self._connect(path, spec["note"], is_unborn=not deferred)
            session.keeper_pid = keeper
            if not deferred:
                await self._give_birth(session, spec["cols"], spec["rows"])
            return session
        except BaseException as error:
            discard(keeper, path)
            if recording:
                with contextlib.suppress(OSError):
                    os.unlink(recording)
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise HostError(
                    "failed", f"the session can't be started: {error.strerror or error}"
                ) from None
            if isinstance(error, NurseryError):
                raise HostError("failed", str(error)) from None
            if isinstance(error, TimeoutError):
                raise HostError("failed", f"the session did not start within {START_WAIT:g} s") from None
            raise
        finally:
            self._starting.discard(spec["id"])

    async def _give_birth(self, session: TerminalSession, cols: int, rows: int) -> None:
        """Start a session's program. Others see the session when it runs; if it can't be, they never do."""
        begun, events = self._unborn[session]
        try:
            session.start(cols, rows)
            async with asyncio.timeout(START_WAIT):
                await begun.wait()
            if session.failure:
                raise HostError("command", session.failure, session.exit_code)
        except BaseException:
            self._unborn.pop(session)
            self._let_go(session)
            raise
        del self._unborn[session]
        self._register(session)
        for event in events:
            self._happened(session, event)

    def record(self, name: str, path: str | None = None) -> str:
        """Record a session from now on; gives the file. Raises HostError."""
        session = self.find(name)
        if session.state is ProgramState.ENDED:
            raise HostError("invalid", f"session {name!r} has ended")
        if session.recording is not None:
            raise HostError("exists", f"session {name!r} is already being recorded, to {session.recording}")
        return self._recorded(name, path or True, session.record)

    def _new_recording(self, name: str, wanted: bool | str, spec: Spec) -> str:
        size = (spec["cols"], spec["rows"])
        terminal = spec["environment"]["TERM"][:MAX_TERM]

        def create(path: str) -> None:
            recorder = Recorder.create(path, size, title=name, command=spec["command"], terminal=terminal)
            spec["note"]["recording_file"] = recorder.file
            recorder.close()

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
            log.warning("the keeper at %s does not respond; leaving it alone", path)
        except (OSError, HostError) as error:
            if is_served(path):  # it lives, and may let the next daemon in
                log.error("the keeper at %s can't be taken over: %s", path, error)
                return
            with contextlib.suppress(OSError):
                os.unlink(path)

    async def _connect(
        self, path: str, note: dict[str, Any] | None = None, *, is_unborn: bool = False
    ) -> TerminalSession:
        try:
            reached = await reach(path)
        except KeeperGone as error:
            raise HostError("failed", str(error)) from None
        limits = {
            key: self._settings.count("terminal", key) for key in ("scrollback_lines", "scrollback_bytes")
        }
        allowed = Allowed(
            clipboard=self._settings.flag("attach", "clipboard"),
            notifications=self._settings.flag("attach", "notifications"),
        )
        made: list[TerminalSession] = []

        def session_of(link: KeeperLink) -> TerminalSession:
            session = TerminalSession(link, self._happened, note=note, allowed=allowed, **limits)
            if is_unborn:
                self._unborn[session] = asyncio.Event(), []
            made.append(session)
            return session

        try:
            await self._join(path, reached, session_of)
        except BaseException:
            for session in made:
                self._unborn.pop(session, None)
                self._links.pop(session, None)
                self._paths.pop(session, None)
            raise
        (session,) = made
        return session if is_unborn else self._register(session)

    async def _join(
        self, path: str, reached: Reached, session_of: Callable[[KeeperLink], TerminalSession]
    ) -> None:
        """Make a connection to a keeper a session's link."""
        connection, greeting, handed = reached

        def lost() -> None:
            self._lost(link)

        link = KeeperLink(self._line, lost, greeting, handed)
        session = link.session = session_of(link)
        self._links[session] = link
        self._paths[session] = path
        async with asyncio.timeout(START_WAIT):
            await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=connection)
            try:
                await link.ready
            except KeeperGone as error:
                raise HostError("failed", str(error)) from None

    def _register(self, session: TerminalSession) -> TerminalSession:
        """From now on others find the session by its name."""
        if rival := self.sessions.get(session.id):  # an ended one of the same name, not dismissed in time
            older = min(session, rival, key=lambda each: each.started_at)
            self.forget(older)
            if older is session:
                return session
        self.sessions[session.id] = session
        self._notify(session, TerminalEvent("opened", {"name": session.id}))
        return session

    def listen(self, listener: Callable[[TerminalSession, TerminalEvent], None]) -> None:
        """Have `listener` called with what happens in each session: also that it is opened and forgotten."""
        self._listeners.append(listener)

    def _notify(self, session: TerminalSession, event: TerminalEvent) -> None:
        for listener in self._listeners:
            listener(session, event)

    def _happened(self, session: TerminalSession, event: TerminalEvent) -> None:
        if session in self._unborn:
            begun, events = self._unborn[session]
            events.append(event)
            if event.topic in ("terminal/started", "terminal/exited"):
                begun.set()
            return
        if event.topic == "shutdown":
            self._later(self._shut_down(session))
            return
        if event.topic == "terminal/recording" and "error" in event.data:
            log.warning("the recording of session %s stopped: %s", session.id, event.data["error"])
        if event.topic == "terminal/exited":
            self._ended[session] = time.monotonic() - (session.ended_for or 0.0)
            if session in self._exits:
                self._exits[session].set()
        self._notify(session, event)

    async def _shut_down(self, session: TerminalSession) -> None:
        with contextlib.suppress(HostError):
            await self.stop(session.id, hang_up=False)

    def _lost(self, link: KeeperLink) -> None:
        """A connection to a keeper is gone. If that was not our wish, we look for the keeper."""
        session = link.session
        if self._links.get(session) is not link:
            return
        if self._closing or not session.ready or session.state is ProgramState.ENDED:
            self._links.pop(session)
            return
        session.unlink()
        self._later(self._find_again(session))

    async def _find_again(self, session: TerminalSession) -> None:
        """Connect to a keeper that was lost. Its program is given up only when nobody listens there."""
        path = self._paths[session]
        if time.monotonic() - self._found_at.get(session, -FIND_REST) < FIND_REST:
            await asyncio.sleep(FIND_REST)
        for _ in range(FIND_TRIES):
            try:
                reached = await reach(path)
                self._found_at[session] = time.monotonic()
                await self._join(path, reached, lambda link: _relinked(session, link))
                log.warning(
                    "the keeper of session %s had closed its connection; it is connected again", session.id
                )
                return
            except (FileNotFoundError, ConnectionRefusedError):
                break
            except (OSError, KeeperGone, HostError, TimeoutError):
                await asyncio.sleep(FIND_PAUSE)
        if session.state is ProgramState.ENDED or self._closing:
            return
        if is_served(path):
            log.error(
                "the keeper of session %s refuses the connection; another daemon may have it", session.id
            )
            self._drop(session)
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        self._links.pop(session, None)
        became = await self._after_hang_up(session) if session.pid else "its program had not been started"
        sentence = f"the keeper of session {session.id} was killed; {became}"
        log.error("%s", sentence)
        session.heard(FrameKind.FAILED, sentence.encode())
        session.heard(FrameKind.EXITED, KEEPER_KILLED.to_bytes(4))

    @staticmethod
    async def _after_hang_up(session: TerminalSession) -> str:
        """What becomes of a program whose terminal has no other end any more: the kernel hangs it up. But a
        client that is stopped may still have the other end."""
        deadline = time.monotonic() + HANG_UP_GRACE
        program = f"its program (pid {session.pid})"
        while (found := await asyncio.to_thread(running, session.pid)) is not None:
            if time.monotonic() > deadline:
                session.stray = found
                if await asyncio.to_thread(foreground, session.pid) is not None:
                    return f"{program} still runs: a client that does not answer keeps its terminal open"
                return f"{program} got a hang-up and still runs"
            await asyncio.sleep(LOOK_PAUSE)
        return f"{program} got a hang-up and ended"

    def __contains__(self, session: TerminalSession) -> bool:
        return self.sessions.get(session.id) is session

    def find(self, name: str) -> TerminalSession:
        """The session of this name. Raises HostError."""
        if name not in self.sessions:
            raise HostError("missing", f"no session {name!r}{meant(name, self.sessions)}")
        return self.sessions[name]

    def forget(self, session: TerminalSession) -> None:
        """An ended session can't be looked at any more."""
        self._let_go(session)
        self._drop(session)

    def _let_go(self, session: TerminalSession) -> None:
        """The keeper of an ended session may go."""
        session.dismiss()
        self._paths.pop(session, None)
        if link := self._links.pop(session, None):
            link.close()

    def _drop(self, session: TerminalSession) -> None:
        """Have nothing to do with a session any more."""
        for known in (self._ended, self._exits, self._found_at, self._links, self._paths):
            known.pop(session, None)
        if self.sessions.get(session.id) is session:
            del self.sessions[session.id]
        self._notify(session, TerminalEvent("forgotten", {"name": session.id}))

    async def ended(self, session: TerminalSession) -> int:
        """Wait until a session has ended; gives its exit code."""
        if session.exit_code is None:
            await self._exits.setdefault(session, asyncio.Event()).wait()
        assert session.exit_code is not None
        return session.exit_code

    async def stop(self, name: str, *, hang_up: bool = True) -> int:
        """End a session's program; gives its exit code. If who asks is cancelled, it is ended all the same.

        It is told as by a terminal that is closed, which an interactive shell heeds; then SIGTERM, some grace
        and SIGKILL. Without `hang_up` it begins with SIGTERM, as keepty does.
        """
        return await asyncio.shield(self._tasks.begin(self._stop(self.find(name), hang_up)))

    async def _stop(self, session: TerminalSession, hang_up: bool) -> int:
        def terminate() -> None:
            session.signal(signal.SIGTERM)
            session.signal(signal.SIGCONT)

        session.is_ending = True
        if session.state is ProgramState.WAITING:  # nothing runs yet, so there is nothing to wait for
            session.heard(FrameKind.EXITED, (0).to_bytes(4))
        grace = self._settings.number("terminal", "stop_grace")
        steps: list[tuple[Callable[[], None], float]] = [
            (terminate, grace),
            (lambda: session.signal(signal.SIGKILL), START_WAIT),
        ]
        if hang_up:
            steps.insert(0, (session.hang_up, min(HANG_UP_GRACE, grace)))
        for tell, wait in steps:
            if session.state is not ProgramState.ENDED:
                tell()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    return await self.ended(session)
        raise HostError("failed", f"session {session.id!r} does not end")


def _relinked(session: TerminalSession, link: KeeperLink) -> TerminalSession:
    session.relink(link)
    return session


def _is_there(owner: Sequence[Any]) -> bool:
    """Whether the process that a note names still runs, and is not another one with its number."""
    program = running(owner[0])
    return program is not None and program.began == owner[2]
