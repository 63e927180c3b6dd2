"""The fleet's process: its lock, its log, its socket for this machine's clients, and what runs in it.

It is a client of the daemon like others, so it holds up no terminal, and it survives the daemon. At its
socket a client says in one line what it wants: a stream to a host, the list of hosts as they come and go,
events, or the status. Agents' processes may not use it: through it one speaks as this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from nats.errors import Error as NatsError

from .. import __version__
from ..doors.listening import UnixServer
from ..doors.peer_proof import agent_behind
from ..keeper.credentials import is_our_user
from ..system import own_place
from ..system.files import replace_file
from ..system.logfile import LogFile
from ..system.processes import agent_of
from ..system.settings import SettingError, Settings, safe_dir
from ..wire import link
from . import limits
from .authority import FleetFault
from .bus import Bus
from .creds import read_creds
from .happenings import events
from .job_desk import JobDesk
from .job_store import JobStore, QueueAway
from .leaf import Leaf
from .member import AskRefused, HostIsAway, Member
from .places import FleetPlaces
from .shift import WorkShift
from .subjects import DOMAIN

log = logging.getLogger("fairlead.fleet")

TIDY_EVERY = 5.0


class AlreadyJoined(Exception):
    """Another process of this user is in the fleet."""


def run(settings: Settings, ready: Callable[[], None]) -> None:
    """Belong to the fleet until told to stop. Raises AlreadyJoined, FleetFault, SettingError or OSError."""
    safe_dir(settings.runtime_dir)
    safe_dir(settings.state_dir)
    places = FleetPlaces(settings)
    if (agent := agent_of(os.getpid(), {})) != "":
        raise SettingError(f"an agent's command can't join a fleet ({agent or 'unknown'})")
    joined = places.read()
    creds = read_creds(places.creds)
    if not creds.identity.operator:
        raise FleetFault(
            f"the credential of {creds.identity.name} does not name the fleet's operator: "
            "revoke it, and make another with `fairlead fleet creds`"
        )
    signer = read_creds(places.user) if joined.has_user else None
    lock = os.open(places.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise AlreadyJoined from None
    logfile = LogFile(
        places.log, settings.count("daemon", "log_bytes"), settings.count("daemon", "log_count")
    )
    logfile.log_here()
    ca = places.ca if joined.has_ca else None
    try:
        with asyncio.Runner() as runner:
            leaf = Leaf(joined.url, ca, places) if joined.leaf else None
            bus = Bus(leaf.url, None, creds, leaf.token, DOMAIN) if leaf else Bus(joined.url, ca, creds)
            member = Member(settings, bus, signer, places.place())
            runner.run(_FleetProcess(settings, places, joined.url, member, leaf, logfile).serve(ready))
    finally:
        os.close(lock)


class _FleetProcess:
    """Everything that runs in it."""

    def __init__(
        self,
        settings: Settings,
        places: FleetPlaces,
        url: str,
        member: Member,
        leaf: Leaf | None,
        logfile: LogFile,
    ) -> None:
        self._settings = settings
        self._places = places
        self._url = url
        self._member = member
        self._leaf = leaf
        self._logfile = logfile
        self._stopping = asyncio.Event()
        self._local = 0
        bus = member.bus
        self._jobs = JobStore(
            lambda: bus.client if self._is_connected else None, bus.creds, bus.domain, member.verifier
        )
        self._desk = JobDesk(self._jobs, self._rows)
        self._shift = WorkShift(settings, member, self._jobs)

    async def serve(self, ready: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        server = UnixServer(self._places.socket, self._connected)
        await server.open()
        running: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(doing) for doing in (self._member.run(), self._tidy(server))
        ]
        if self._leaf is not None:
            running.append(asyncio.ensure_future(self._leaf.run()))
        working = asyncio.ensure_future(self._shift.run())
        running.append(working)
        running.append(asyncio.ensure_future(self._put_jobs_back()))
        stopping = asyncio.ensure_future(self._stopping.wait())
        log.info("a member of the fleet at %s as %s", self._url, self._member.identity.name)
        try:
            ready()
            done, _ = await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            server.close()
            working.cancel()  # what it runs is given back while there is a connection
            await asyncio.wait([working])
            await self._member.leave()
            for each in (*running, stopping):
                each.cancel()
            await asyncio.gather(*running, stopping, return_exceptions=True)
            with contextlib.suppress(OSError):
                os.unlink(self._places.metrics)

    async def _put_jobs_back(self) -> None:
        while True:
            await asyncio.sleep(limits.PUT_BACK_EVERY)
            try:
                if not self._member.identity.read_only and (lost := await self._jobs.put_back()):
                    log.warning("jobs were taken out of the queue, and are put back: %s", " ".join(lost[:20]))
            except (QueueAway, ValueError) as error:
                log.debug("%s", error)

    async def _tidy(self, server: UnixServer) -> None:
        while True:
            with contextlib.suppress(OSError):
                replace_file(self._places.metrics, self._metrics().encode())
            await asyncio.sleep(TIDY_EVERY)
            await server.mend()
            self._logfile.rotate_if_due()
            self._settings.refresh()

    # --- what this machine's clients want -------------------------------------------------------------------

    def _connected(self) -> asyncio.BaseProtocol:
        reader = asyncio.StreamReader(limit=limits.MAX_LOCAL_LINE)
        return asyncio.StreamReaderProtocol(reader, self._serve_one)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._local += 1
        try:
            if self._local <= limits.MAX_LOCAL:
                await self._answer(reader, writer)
        except (OSError, ValueError, TimeoutError, NatsError) as error:
            log.info("a client of fleet.sock: %s", str(error) or type(error).__name__)
        except asyncio.CancelledError:
            pass
        finally:
            self._local -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        async with asyncio.timeout(limits.LOCAL_SECONDS):
            line = (await reader.readline()).decode("utf-8", "surrogateescape")
            programs = await self._member.daemon.agent_programs()
            agent = await asyncio.to_thread(agent_behind, connection, lambda: programs)
        if not is_our_user(connection) or agent:
            why = "another user's process may not use the fleet of this one"
            if agent:
                why = f"an agent's command may not use the fleet ({agent:.80})"
            writer.write(link.greeting(link.FAILED, why))
            await writer.drain()
            return
        what, _, rest = line.rstrip("\n").partition(" ")
        if what == "control" and rest:
            await self._dial(rest, "control", "", reader, writer)
        elif what == "terminal" and " " in rest:
            host, _, name = rest.partition(" ")
            await self._dial(host, "terminal", name, reader, writer)
        elif what == "hosts":
            await self._tell_hosts(reader, writer)
        elif what == "status":
            await self._write(writer, await self._status())
        elif what == "feed":
            since, _, follow = rest.partition(" ")
            await self._tell_events(int(since or 0), follow == "follow", writer)
        elif what == "queue":
            await self._desk.serve(rest, reader, writer)
        elif what == "stop":
            await self._write(writer, {"ok": True})
            self._stopping.set()
        else:
            writer.write(link.greeting(link.FAILED, f"the fleet does not know what {what!r:.40} is"))
            await writer.drain()

    async def _dial(
        self, host: str, what: str, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            word, channel = await self._member.open(host, what, name)
        except AskRefused as error:
            writer.write(link.greeting(link.FAILED, str(error)))
            return await writer.drain()
        except HostIsAway as error:  # without a greeting: it may be there again soon
            writer.write(f"{error}\n".encode())
            return await writer.drain()
        writer.write(link.greeting(word, __version__) if word == link.READY else link.greeting(word))
        if word != link.READY:
            channel.lose("there is nothing at its other end")
            return await writer.drain()
        await self._member.carry_near(host, channel, what, (reader, writer))
        return None

    async def _tell_hosts(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The list of hosts, again whenever it changes, until the client has gone."""
        gone = asyncio.ensure_future(reader.read())
        told = None
        try:
            while not gone.done():
                hosts = [
                    {key: value for key, value in row.items() if key not in ("rows", "seen", "skew", "load")}
                    for row in self._member.hosts.listed()
                ]
                if hosts != told:
                    told = hosts
                    await self._write(writer, {"hosts": hosts, "own": self._member.identity.name})
                await asyncio.wait([gone], timeout=limits.TELL_EVERY)
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    async def _tell_events(self, since: int, follow: bool, writer: asyncio.StreamWriter) -> None:
        news = asyncio.Event()
        self._member.feed_news.add(news)
        try:
            while True:
                client = self._member.bus.client
                if client is None:
                    if not follow:
                        raise FleetFault(f"the fleet's server is away: {self._member.bus.why_away}")
                    await asyncio.sleep(limits.RECONNECT_FIRST)
                    continue
                try:
                    async for event in events(
                        client, self._member.bus.domain, since, follow, news, self._member.verifier
                    ):
                        since = event["seq"]
                        await self._write(writer, event)
                    return
                except (NatsError, TimeoutError):
                    if not follow:
                        raise
        except FleetFault as error:
            await self._write(writer, {"error": str(error)})
        finally:
            self._member.feed_news.discard(news)

    async def _write(self, writer: asyncio.StreamWriter, value: dict[str, Any]) -> None:
        writer.write(json.dumps(value, separators=(",", ":"), default=str).encode() + b"\n")
        await writer.drain()

    async def _status(self) -> dict[str, Any]:
        member = self._member
        return {
            "pid": os.getpid(),
            "version": __version__,
            "name": member.identity.name,
            "role": member.identity.role.removeprefix("fairlead-"),
            "read_only": member.identity.read_only,
            "url": self._url,
            "leaf": self._leaf is not None,
            "connected": self._is_connected,
            "why_away": "" if self._is_connected else self._why_away,
            "failures": member.bus.failures,
            "refused": member.bus.is_refused or bool(self._leaf and self._leaf.is_refused),
            "connections": member.bus.connections,
            "waiting": member.outbox.waiting,
            "sent": member.outbox.sent,
            "dropped_events": member.outbox.dropped,
            "dropped_requests": member.dropped,
            "streams": len(member.channels),
            "hosts": [
                {key: value for key, value in row.items() if key != "rows"}
                | ({} if self._is_connected else {"state": "away"})
                for row in member.hosts.listed()
            ],
        }

    def _rows(self) -> list[Mapping[str, Any]]:
        """The hosts of the fleet, with this one."""
        rows: list[Mapping[str, Any]] = list(self._member.hosts.listed())
        with contextlib.suppress(SettingError):  # who takes jobs with it logs it
            own = {**own_place.row(self._settings, 0), "name": self._member.identity.name, "state": "here"}
            if self._member.is_machine:
                rows.append(own)
        return rows

    @property
    def _is_connected(self) -> bool:
        return self._member.is_joined and self._member.bus.is_here

    @property
    def _why_away(self) -> str:
        return (self._leaf.why if self._leaf is not None else "") or self._member.bus.why_away

    def _metrics(self) -> str:
        """Lines for Prometheus, which the console's /metrics has as well."""
        member = self._member
        rows = member.hosts.listed()
        here = sum(row["state"] == "here" for row in rows)
        lines = []

        def family(name: str, kind: str, means: str, *values: tuple[str, float]) -> None:
            lines.append(f"# HELP fairlead_fleet_{name} {means}")
            lines.append(f"# TYPE fairlead_fleet_{name} {kind}")
            lines.extend(f"fairlead_fleet_{name}{labels} {value:g}" for labels, value in values)

        family("up", "gauge", "1 if the fleet's server is there", ("", float(self._is_connected)))
        family(
            "hosts",
            "gauge",
            "other hosts, by whether they are there",
            ('{state="here"}', here),
            ('{state="away"}', len(rows) - here),
        )
        family("waiting_events", "gauge", "events that the stream lacks", ("", member.outbox.waiting))
        family("events_total", "counter", "events for the stream", ("", member.outbox.number))
        family("dropped_events_total", "counter", "events that were dropped", ("", member.outbox.dropped))
        family("dropped_requests_total", "counter", "requests dropped unread", ("", member.dropped))
        family("streams", "gauge", "open streams", ("", len(member.channels)))
        each = [(f'{{host="{row["name"]}"}}', row) for row in rows]
        family("host_lag", "gauge", "its events not in the stream", *((at, row["lag"]) for at, row in each))
        family("host_sessions", "gauge", "its sessions", *((at, row["sessions"]) for at, row in each))
        family("host_questions", "gauge", "its questions", *((at, row["questions"]) for at, row in each))
        family("host_seen_seconds", "gauge", "since its last row", *((at, row["seen"]) for at, row in each))
        skews = [(at, row["skew"]) for at, row in each if row["skew"] is not None]
        family("host_clock_skew_seconds", "gauge", "how far its clock is ahead", *skews)
        return "\n".join(lines) + "\n"
