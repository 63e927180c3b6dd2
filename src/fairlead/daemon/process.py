"""The daemon: builds the rooms and joins them. It may be killed at any moment; no session may notice.

There is one for each runtime directory, held by a lock. Started on first use by any command, started again by
the nursery when it dies, and ended by SIGTERM or `fairlead daemon stop`, which leaves all sessions running.
One that is supervised, by systemd or launchd, is started again by its supervisor and not by the nursery.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import fcntl
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from .. import __version__
from ..agent.kind import AgentKind
from ..control.store import ControlStore
from ..doors.checks import host_checks
from ..doors.rpc import happenings
from ..doors.rpc.handlers import Clients, Data, OpError, handlers_of, op
from ..doors.rpc.ops.approvals import ApprovalOps
from ..doors.rpc.ops.asks import AskOps
from ..doors.rpc.ops.hosts import HostOps
from ..doors.rpc.ops.sessions import SessionOps
from ..doors.rpc.ops.terminals import TerminalOps
from ..doors.rpc.ops.timeline import TimelineOps
from ..doors.rpc.ops.trees import TreeOps
from ..doors.rpc.ops.verify import VerifyOps
from ..doors.rpc.server import RpcDoor
from ..hosted.room import HostedRoom
from ..keeper import masks
from ..keeper.credentials import AGENT_MARK
from ..sessions import feed
from ..sessions.asks import Asks
from ..sessions.directory import Directory, Kind
from ..sessions.feed import Feed
from ..sessions.inbox import Inbox, calling_agent
from ..sessions.session import Opening
from ..sessions.state import States
from ..system.logfile import LogFile
from ..system.setting_rows import rows
from ..system.setting_table import AT_START
from ..system.settings import HOST_VARIABLE, SettingError, Settings, safe_dir
from ..system.sockets import is_served
from ..system.whereabouts import write_whereabouts
from ..terminal.host import TerminalHost
from ..trees.room import TreeRoom
from ..trees.turns import TurnSnapshots
from ..wire.rpc import ErrorCode, fields
from . import agents as agent_room
from . import control as control_room
from .agents import AgentRoom, verification
from .control import ControlRoom
from .elsewhere import OtherHosts
from .terminals import TerminalRoom

log = logging.getLogger("fairlead")

COMMAND = [sys.executable, "-m", "fairlead", "daemon", "run"]
"""How a daemon is started."""
LOCK_WAIT = 5.0
"""Seconds that another daemon which does not serve may hold the lock: one that ends says so first."""
SOCKET_LOOK = 2.0
"""Seconds between looks whether somebody deleted our sockets: a stat for each."""
HOME_LOOK = 5.0
"""Seconds between looks whether the runtime directory is still there."""

MakeKind = Callable[[Feed, Inbox, Directory], Kind]
"""Makes another kind of sessions, which posts to a feed, asks in an inbox, and has names that are free in a
directory."""


class AlreadyRunning(Exception):
    """Another daemon has this runtime directory."""


class Outdated(Exception):
    """This daemon was asked for before somebody said stop, and is not wanted any more."""


class Daemon:
    """All rooms of one daemon."""

    def __init__(
        self,
        settings: Settings,
        log_file: LogFile,
        supervisor: Supervisor,
        *,
        supervised: bool = False,
        ready: Callable[[], None] = lambda: None,
        kinds: Sequence[MakeKind] = (),
    ) -> None:
        self._settings = settings
        self._first_rows = {row["name"]: row for row in rows(settings)}
        self._log_file = log_file
        self._supervisor = supervisor
        self._supervised = supervised
        self._ready = ready
        clients, feed, inbox = Clients(), Feed(), Inbox(f"{settings.state_dir}/inbox.jsonl")
        self._inbox, self._clients = inbox, clients
        self._asks = Asks(f"{settings.state_dir}/asked", inbox)
        self._host = host = TerminalHost(settings)
        self._judging = judging = verification(settings, clients, feed, inbox, self._agent_programs)
        self._states = states = States(feed, f"{settings.state_dir}/activity.json", self._is_watched)
        self._terminals = terminals = TerminalRoom(
            settings, host, clients, feed, inbox, judging, self._agent_programs, states
        )
        self._trees = trees = TreeRoom(settings)
        self._snapshots = snapshots = TurnSnapshots(settings, feed)
        directory = Directory(
            inbox,
            judging.shown,
            states,
            {settings.text("control", "session"): AgentKind.names[0]},
            trees.shown,
        )
        self._hosted = hosted = HostedRoom(settings, host.nursery, os.environ)
        self._agents = agents = AgentRoom(
            settings,
            terminals.commands,
            clients,
            feed,
            inbox,
            judging,
            check_free=partial(directory.check_free, but=AgentKind.names),
            hosted=hosted,
        )
        self._more_kinds = [make(feed, inbox, directory) for make in kinds]
        own: list[Kind] = [terminals.kind]
        own += (AgentKind(agents.store, agents.transcripts, feed, name) for name in AgentKind.names)
        for kind in (*own, *self._more_kinds):
            directory.add(kind)
        waiting = ControlStore(f"{settings.state_dir}/control.db")
        databases = (agents.memory, agents.transcripts, judging.reports, waiting)
        self._control = ControlRoom(
            settings,
            waiting,
            inbox,
            agents.redactor,
            directory,
            feed,
            is_watched=self._is_watched,
            ring=terminals.ring,
            has_terminals=terminals.door.has_person,
            programs=self._agent_programs,
            key_variables=agents.key_variables,
            checkers=host_checks(settings, host, agents.store, agents.catalog, self._lost_sockets, databases),
        )
        directory.follow(feed)
        feed.listen(self._posted)
        happenings.follow(feed, inbox, clients)
        self._elsewhere = elsewhere = OtherHosts(settings, clients)
        handlers = handlers_of(
            self,
            TerminalOps(
                host, terminals.kind, terminals.turns, terminals.permissions, directory, terminals.all_opened
            ),
            SessionOps(directory, feed, elsewhere),
            ApprovalOps(inbox, elsewhere),
            HostOps(elsewhere, directory, settings),
            VerifyOps(judging.door, directory, judging.reports, elsewhere),
            TimelineOps(directory, inbox, judging.reports),
            TreeOps(directory, trees, snapshots),
            self._control.ops,
            AskOps(self._asks, directory, settings),
        )
        self._rpc = RpcDoor(
            settings,
            handlers,
            agents.ops,
            clients,
            self._agent_programs,
            directory,
            self._session_programs,
            elsewhere,
        )
        self._started_at = time.time()
        self._over = asyncio.Event()
        self._again = False
        self._python = sys.executable
        self.environment: dict[str, str] | None = None
        """What the next daemon finds in its environment: that of who asked for it."""
        self._handover = False  # another daemon waits to take our place

    def _agent_programs(self) -> dict[int, str]:
        """The processes that are known to be an agent's, with the agent. In sessions that an agent typed into
        an agent's program is known by its own name. Any thread may ask."""
        hosted = self._hosted.agent_programs()
        return self._host.agent_programs() | self._terminals.turns.agent_programs() | hosted

    def _is_watched(self, id: str) -> bool:
        """Whether a person looks at a session."""
        terminal = self._host.sessions.get(id)
        return (
            self._terminals.door.is_watched(terminal) if terminal is not None else self._clients.look_at(id)
        )

    def _session_programs(self) -> dict[int, str]:
        """The processes that are known to be a session's, with the session. Any thread may ask."""
        return self._host.session_programs() | self._hosted.agent_programs()

    async def run(self) -> str:
        """Serve until told to stop. Returns the Python to start again with, with the code that is installed
        there now; nothing if that is not wanted."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        try:
            orphans = await self._open_all()
        except BaseException:  # it would fail again, so the nursery must not start it over and over
            await self._host.close(for_good=not self._host.sessions)
            raise
        count = len(self._host.sessions)
        log.info("serving %d session%s in %s", count, "s" * (count != 1), self._settings.runtime_dir)
        self._supervisor.tell("READY=1")
        self._ready()
        beats = loop.create_task(self._supervisor.beat())
        mending = loop.create_task(self._mend_sockets())
        await self._told_to_stop()
        orphans.cancel()
        beats.cancel()
        mending.cancel()
        self._asks.close()
        self._terminals.permissions.close()
        self._rpc.close()
        await self._elsewhere.close()
        await self._control.close()
        why = "daemon_restart" if self._again or self._handover else "daemon_stopped"
        self._judging.door.close_all(why)
        for kind in self._more_kinds:
            if isinstance(kind, Opening):
                await kind.close()
        await self._agents.close()
        self._hosted.close()
        await self._judging.close()
        await self._terminals.close(for_good=not self._again and not self._handover)
        self._states.close()
        self._trees.close()
        self._snapshots.close()
        return self._python if self._again else ""

    async def _open_all(self) -> asyncio.Task[None]:
        """Find the sessions and let clients in, at our own socket last. Returns the task that ends commands
        whose agents are gone."""
        self._inbox.load()
        self._states.load()
        await self._judging.open()
        await self._trees.open()
        self._snapshots.open()
        await self._terminals.open(None if self._supervised else [*COMMAND, "--asked-at", "{now}"])
        await self._hosted.open()
        await self._agents.store.prepare_waiting()
        for fault in self._agents.store.open():
            log.warning("an agent session can't be loaded: %s", fault)
        await self._hosted.load(self._agents.store)
        for kind in self._more_kinds:
            if isinstance(kind, Opening):
                await kind.open()
        self._asks.open()
        self._terminals.permissions.open()
        self._judging.report_lost()
        orphans = asyncio.get_running_loop().create_task(self._terminals.commands.end_orphans())
        await self._control.open()
        await self._terminals.door.open_ended(self._host.sessions.get)
        await self._rpc.open()
        self._elsewhere.open()
        return orphans

    def _signalled(self) -> None:
        """Told to end. A supervisor does that for a restart as well: the next one must find all there is."""
        self._handover = self._supervised
        self._over.set()

    async def _told_to_stop(self) -> None:
        """Wait until someone says so, or nobody can find us any more and we have nothing to serve."""
        while not self._over.is_set():
            try:
                async with asyncio.timeout(HOME_LOOK):
                    await self._over.wait()
            except TimeoutError:
                self._log_file.rotate_if_due()
                if not os.path.exists(self._settings.lock_path) and not self._host.sessions:
                    log.warning("%s is gone, and so are we", self._settings.runtime_dir)
                    self._over.set()

    async def _mend_sockets(self) -> None:
        """Listen anew where somebody deleted a socket."""
        while True:
            await asyncio.sleep(SOCKET_LOOK)
            try:
                await self._terminals.door.mend()
                await self._judging.door.mend()
                if os.path.exists(self._settings.lock_path):  # else the whole directory is gone
                    assert self._rpc.server is not None
                    await self._rpc.server.mend()
                    await self._control.door.server.mend()
            except Exception:
                log.exception("looking at the sockets failed")

    def _lost_sockets(self) -> list[str]:
        own = [server for server in (self._rpc.server, self._control.door.server) if server is not None]
        lost = [server.path for server in own if server.is_lost]
        return [*lost, *self._terminals.door.lost, *self._judging.door.lost]

    def _posted(self, event: feed.FeedEvent) -> None:
        """Show verdicts with their sessions. If a person is needed, tell those at its terminal; others are
        told if nobody sees it (`control/telling.py`)."""
        if isinstance(event, feed.VerdictGiven | feed.NeedsPerson):
            self._agents.ops.judged(event.session)
        if isinstance(event, feed.NeedsPerson):
            self._control.escalated(event.session, event.turn, event.reason)
            name = self._control.sessions.name_of(event.session)
            text = f"{name} needs a person: {event.reason}"
            self._terminals.say(text, session=event.session)

    # --- ops of its own -----------------------------------------------------------------------------------

    @op
    async def daemon_status(self) -> Data:
        return fields(
            version=__version__,
            pid=os.getpid(),
            started_at=self._started_at,
            sessions=len(self._host.sessions),
            supervised=self._supervised,
            runtime_dir=self._settings.runtime_dir,
            log_path=self._settings.log_path,
            passepartout_port=self._control.door.port,
        )

    @op
    async def agent_programs(self) -> Data:
        return fields(programs=[[pid, agent] for pid, agent in self._agent_programs().items()])

    @op
    async def config(self) -> Data:
        """The settings that hold here; those that are read at the start as they were then."""
        now = {row["name"]: row for row in rows(self._settings)}
        held = [self._first_rows[name] if name in AT_START else row for name, row in now.items()]
        return fields(rows=[fields(name=row["name"], value=row["value"]) for row in held])

    @op
    async def daemon_stop(self, handover: bool = False) -> Data:
        if agent := calling_agent.get():  # the next one would be its own
            why = f"only a person may stop the daemon, and a command of an agent session ({agent:.80}) asks"
            log.warning("%s", why)
            raise OpError(ErrorCode.FAILED, why)
        self._handover = handover
        asyncio.get_running_loop().call_soon(self._over.set)
        # a turn that waits for consent goes on with the answer, and that of a third-party agent by itself
        loaded = [each for each in self._agents.store.loaded if not each.outlives_daemon]
        turns = sum(not each.is_idle and not each.approvals for each in loaded)
        prompts = sum(len(each.prompts.queued) for each in loaded)
        return fields(
            accepted=True, started_at=self._started_at, interrupted_turns=turns, dropped_prompts=prompts
        )

    @op
    async def daemon_restart(self, env: Mapping[Any, Any] | None = None, python: str = "") -> Data:
        """Be replaced by a new daemon, of the installation and with the environment of who asks, unless a
        supervisor decides that."""
        self._settings.refresh()
        if self._settings.fault:  # the next one could not start with it
            raise OpError(ErrorCode.FAILED, self._settings.fault)
        stopped = await self.daemon_stop()
        self._again = True
        if python and not self._supervised:
            self._python = python if os.access(python, os.X_OK) else sys.executable
        if env and not self._supervised:
            self.environment = {str(name): str(value) for name, value in env.items()}
            self.environment.pop(AGENT_MARK, None)
        return stopped


class Supervisor:
    """systemd, if it started us and wants to know how we are: sd_notify(3), sd_watchdog_enabled(3)."""

    VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

    def __init__(self) -> None:
        # for us alone, and not for sessions' programs
        self._told = {name: os.environ.pop(name) for name in self.VARIABLES if name in os.environ}
        self._path = self._told.get("NOTIFY_SOCKET", "")

    def tell(self, state: str) -> None:
        path = self._path
        if path:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
                supervisor.setblocking(False)  # one that does not read must not be what we hang in
                supervisor.connect("\0" + path[1:] if path.startswith("@") else path)
                supervisor.send(state.encode())

    async def beat(self) -> None:
        """Say that this loop runs as often as is wanted, if it is."""
        usec, pid = self._told.get("WATCHDOG_USEC", ""), self._told.get("WATCHDOG_PID", "")
        while usec.isdigit() and int(usec) > 0 and pid in ("", str(os.getpid())):
            self.tell("WATCHDOG=1")
            await asyncio.sleep(int(usec) / 2e6)

    def hand_over(self) -> None:
        """Leave everything as it was for what is executed in our place."""
        os.environ.update(self._told)


def _tell_where_it_hangs(log_file: LogFile) -> None:
    """When somebody finds that we hang, and when we crash, the log has the stack of each thread."""
    faulthandler.enable(log_file.file)
    faulthandler.register(signal.SIGUSR2, log_file.file, all_threads=True)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stopped_at(lock: int) -> float:
    """When the last daemon was told to stop, by what it wrote; 0 if it died, or there was none."""
    words = os.pread(lock, 64, 0).split()
    return float(words[1]) if words[:1] == [b"stopped"] else 0.0


def _write_down(lock: int, what: str) -> None:
    os.truncate(lock, 0)
    os.pwrite(lock, f"{what}\n".encode(), 0)


def _check(settings: Settings) -> None:
    """Raise SettingError if the settings make no sense. A file that does not any more, but did once, is no
    reason to lock people out of their sessions: the last good copy of it holds."""
    try:
        settings.check()
        agent_room.checked(settings)
        control_room.checked(settings)
    except SettingError as error:
        settings.fall_back(error)
        return
    settings.keep()


def run(
    settings: Settings,
    *,
    supervised: bool = False,
    asked_at: float | None = None,
    ready: Callable[[], None] = lambda: None,
    kinds: Sequence[MakeKind] = (),
) -> None:
    """Be the daemon; `ready` is called when it serves. Raises AlreadyRunning if there is one.

    One that is `supervised` is started again by who started it when it dies, so the nursery leaves that. One
    that was `asked` for before somebody said stop, and comes only now, is not wanted any more: Outdated.
    """
    masks.be_private()
    safe_dir(settings.runtime_dir)
    safe_dir(settings.state_dir)
    lock = os.open(settings.lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_WAIT
    while not _locked(lock):
        if is_served(settings.rpc_path) or time.monotonic() > deadline:
            os.close(lock)
            raise AlreadyRunning(f"a daemon serves {settings.runtime_dir} already")
        time.sleep(0.01)  # it is just coming, or going
    if asked_at is not None and asked_at < _stopped_at(lock):
        raise Outdated
    _check(settings)
    _write_down(lock, str(os.getpid()))
    with contextlib.suppress(OSError):  # a full disk: others find us by their environment
        xdg_runtime_dir = settings.environ.get("XDG_RUNTIME_DIR", "")
        write_whereabouts(settings.state_dir, settings.runtime_dir, xdg_runtime_dir)
    limit, count = settings.count("daemon", "log_bytes"), settings.count("daemon", "log_count")
    log_file = LogFile(settings.log_path, limit, count)
    log_file.log_here()
    log_file.rotate_if_due()
    _tell_where_it_hangs(log_file)
    if settings.fault:
        log.warning("%s; until that is fixed, %s is used", settings.fault, settings.good_path)
    supervisor = Supervisor()
    os.environ.pop(AGENT_MARK, None)  # what we start is no agent's, whoever started us
    os.environ.pop(HOST_VARIABLE, None)  # nor meant for another host

    environment: dict[str, str] | None = None

    async def serve() -> str:
        nonlocal environment
        daemon = Daemon(settings, log_file, supervisor, supervised=supervised, ready=ready, kinds=kinds)
        python = await daemon.run()
        environment = daemon.environment
        return python

    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    if python := asyncio.run(serve()):
        supervisor.hand_over()
        # It has no lock until it is up: if another one was quicker and was told to stop, it is not wanted.
        # One that is supervised tells that other one to stop, and takes its place.
        more = ["--supervised"] if supervised else ["--asked-at", str(time.time())]
        masks.give_back()
        os.execve(python, [python, *COMMAND[1:], *more], environment or os.environ)
    _write_down(lock, f"stopped {time.time()}")
