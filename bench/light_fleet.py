"""Many hosts of a fleet in one process: each has a credential, a TLS connection, a row in the bucket, signed
requests and streams, and a daemon that speaks rpc-edn and does nothing. Used by `fleet.py`.

They don't listen to each other's rows and events: one process would do the work of all machines then. What
that takes on a real fleet is worked out in docs/fleet-scale.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from nats.aio.client import Client

from fairlead.client.aio_streams import Events
from fairlead.client.connection import DaemonConnection
from fairlead.client.following import Watching
from fairlead.fleet import subjects
from fairlead.fleet.authority import Authority
from fairlead.fleet.bus import Bus, kept
from fairlead.fleet.creds import read_creds
from fairlead.fleet.guarding import request_of
from fairlead.fleet.member import Member
from fairlead.fleet.subjects import MACHINE
from fairlead.formats.edn import Keyword
from fairlead.system.settings import Settings
from fairlead.wire import rpc
from fairlead.wire.rpc import fields

if TYPE_CHECKING:
    from fleet import BenchFleet, BenchHost

PATIENCE = 300.0
AT_ONCE = 10
"""How many connect at the same time."""


class LightDaemon:
    """What a daemon says, and nothing behind it."""

    is_away = False

    def __init__(self, name: str, sessions: int) -> None:
        now = time.time()
        activity = {"state": "idle", "since": now, "question": "", "seen": True}
        self.sessions: list[dict[str, Any]] = [
            {
                "id": f"{name}-{number}",
                "kind": "terminal",
                "name": f"work{number}",
                "project": f"/home/me/projects/garden{number}",
                "state": "running",
                "activity": activity,
                "what": "python3 -q",
                "idle": 1.0,
                "clients": 0,
                "can": ["attach", "lines"],
                "branch": "main",
            }
            for number in range(sessions)
        ]
        self.questions: dict[str, Any] = {}
        self._told = 0
        self._streams: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass

    def serve(self, connection: socket.socket) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=1 << 20)
        try:
            while line := await reader.readline():
                found = request_of(rpc.loaded(line.rstrip(b"\n")))
                if found is None:
                    continue
                id, op, _ = found
                writer.write(rpc.encode(rpc.Response(id, op, self._answer(op), True)))
                if op == "subscribe":
                    self._streams.add(writer)
        finally:
            self._streams.discard(writer)
            writer.close()

    def _answer(self, op: str) -> Any:
        match op:
            case "handshake":
                return rpc.server_info(server_version="0.0.0")
            case "session_list":
                return fields(sessions=[_edn(row) for row in self.sessions], questions=0)
            case "approvals":
                return fields(approvals=[])
            case "host_row":
                return fields(labels=["light"], capacity=4, processors=8, load=0.5, working=0)
            case "session_find":
                return fields(session=_edn(self.sessions[0]))
            case _:
                return fields(accepted=True, pong=True, subscribed=[], cursor="0")

    def change(self, id: str, state: str) -> int:
        """Say to all who listen that a session's state has changed; to how many."""
        now = time.time()
        data = fields(session_id=id, state=state, question="", seen=True, since=now, evidence=None)
        self._told += 1
        line = rpc.encode(rpc.Event("sessions/state", data, None, self._told, "2026-01-01T00:00:00Z"))
        for writer in self._streams:
            writer.write(line)
        return len(self._streams)


def _edn(value: Any) -> Any:
    if isinstance(value, dict):
        return {Keyword(key.replace("_", "-")): _edn(each) for key, each in value.items()}
    return value


class LightMember(Member):
    """A member whose daemon is a light one."""

    def __init__(self, settings: Settings, bus: Bus, sessions: int) -> None:
        super().__init__(settings, bus)
        self.light = LightDaemon(self.identity.name, sessions)
        self.daemon = self.light  # type: ignore[assignment]
        self._loop = asyncio.get_running_loop()
        self.served = asyncio.Event()

    async def _session(self, client: Client) -> None:
        word = self.identity.word
        await self.bus.subscribe(client, subjects.answer("*", word, ">"), self._answered)
        await self.bus.subscribe(client, subjects.stream("*", word, ">"), self._streamed)
        for message in await kept(
            client, "", subjects.ROW_STREAM, {"multi_last": [subjects.ACCOUNT_KEY], "batch": 1}
        ):
            self.verifier.learn(message.data.decode())
        await self._serve(client)
        self.served.set()
        await self._keep_row(client)

    def _reach(self, what: object, name: str) -> socket.socket | None:
        ours, theirs = socket.socketpair()
        self._loop.call_soon_threadsafe(self.light.serve, theirs)
        return ours


async def serve(url: str, ca: str, directory: str, hosts: int, sessions: int) -> None:
    """Be all of them. Each line of standard input asks for a change of state, and is answered with when."""
    settings = Settings()
    members = []
    room = asyncio.Semaphore(AT_ONCE)
    tasks = set()
    for number in range(hosts):
        creds = read_creds(f"{directory}/creds/machine-light{number}.creds")
        members.append(LightMember(settings, Bus(url, ca, creds), sessions))

    async def begin(member: LightMember) -> None:
        async with room:
            tasks.add(asyncio.ensure_future(member.run()))
            await member.served.wait()

    await asyncio.gather(*map(begin, members))
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    asked = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
    number = 0
    while await asked.readline():
        number += 1
        member = random.choice(members)
        id = random.choice(member.light.sessions)["id"]
        at = time.monotonic()
        heard = member.light.change(id, "working" if number % 2 else "idle")
        print(json.dumps([member.identity.name, id, at, heard]), flush=True)


async def changes(near: BenchHost, light: subprocess.Popen[str], count: int) -> list[float]:
    """Seconds from a change of state until a client of the other host's daemon hears of it."""
    times = []
    assert light.stdin is not None
    assert light.stdout is not None
    events = Events(Watching(("sessions/state",), hosts=True), near.settings)
    async with events:
        for _ in range(count):
            light.stdin.write("change\n")
            light.stdin.flush()
            host, id, at, heard = json.loads(await asyncio.to_thread(light.stdout.readline))
            if not heard:
                continue
            async with asyncio.timeout(10.0):
                while (await events.next()).data.get("session_id") != f"{host}:{id}":
                    pass
            times.append(time.monotonic() - at)
            await asyncio.sleep(0.02)
    return times


def simulated(fleet: BenchFleet, near: BenchHost, hosts: int, sessions: int, count: int) -> None:
    """Measure a fleet of so many hosts."""
    from fleet import GOALS, told

    print(f"\n{hosts} simulated hosts with {sessions} sessions each", flush=True)
    authority = Authority(fleet.directory)
    with authority.changing():
        for number in range(hosts):
            authority.issue(MACHINE, f"light{number}")
    before = fleet.memory()
    began = time.perf_counter()
    light = subprocess.Popen(
        [sys.executable, __file__, fleet.url, fleet.ca, fleet.directory, str(hosts), str(sessions)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert light.stdout is not None
        assert light.stdin is not None
        light.stdout.readline()
        told("until all have joined", time.perf_counter() - began, "s")
        began = time.perf_counter()

        def here() -> bool:
            rows = [row for row in near.hosts() if row["name"].startswith("light")]
            followed = [row for row in rows if row["state"] == "here" and row["sessions"] == sessions]
            return len(followed) == hosts

        near.until(here, "all hosts", PATIENCE)
        told("until one daemon follows all of them", time.perf_counter() - began, "s")
        near.run("ls", "--all", "-q")
        times = []
        for _ in range(5):
            began = time.perf_counter()
            lines = near.run("ls", "--all").count("\n")
            times.append(time.perf_counter() - began)
        told(f"`fairlead ls --all` with {lines} lines, median", statistics.median(times), "s", GOALS["ls"])
        with DaemonConnection(near.settings, start=False) as control:
            began = time.perf_counter()
            control.ask("session_list", hosts=True)
            told("   of that, the daemon's answer", time.perf_counter() - began, "s")
        heard = sorted(asyncio.run(changes(near, light, count)))
        told("a change of state is heard, median", statistics.median(heard), "s")
        told("   99 %", heard[int(len(heard) * 0.99)], "s", GOALS["change"])
        told("the hub's memory", fleet.memory(), "MB")
        told("   for each host", (fleet.memory() - before) / hosts, "MB")
        pid = json.loads(near.run("daemon", "status", "--json"))["pid"]
        told("the daemon that follows them", _memory(pid), "MB")
        status = json.loads(near.run("fleet", "status", "--json"))
        told("the fleet's process beside it", _memory(status["pid"]), "MB")
    finally:
        light.kill()
        light.wait()
        for pipe in (light.stdin, light.stdout):
            if pipe is not None:
                pipe.close()


def _memory(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


if __name__ == "__main__":
    os.environ.setdefault("FAIRLEAD_PASSEPARTOUT_PORT", "0")
    asyncio.run(serve(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
