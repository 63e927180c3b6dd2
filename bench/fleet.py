"""A fleet on one machine: an op, a terminal and a question across two hosts beside what NATS itself does in
the same run, and a simulated fleet of many hosts that speak the real protocol: `make bench-fleet`.

Bare NATS is two processes with nats-py, TLS and credentials, on the same server. `--quick` takes fewer of
everything, `--hosts N` that many simulated ones (`light_fleet.py`), and 0 none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dashboard import Places

from fairlead import aio
from fairlead.client.aio_streams import Events
from fairlead.client.connection import DaemonConnection
from fairlead.client.following import Watching
from fairlead.client.links import DaemonLink
from fairlead.fleet import server
from fairlead.fleet.creds import read_creds
from fairlead.system.settings import Settings

GOALS = {"op": 1.5, "attach": 0.5, "question": 0.02, "ls": 1.0, "change": 0.1}
PATIENCE = 60.0
FLOOD = "exec yes 'the quick brown fox jumps over the lazy dog'"

ECHO = """
import asyncio, sys
from fairlead.fleet import server
from fairlead.fleet.creds import read_creds

async def main():
    url, ca, path, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    creds = read_creds(path)
    client = await server.connected(url, ca, creds.jwt, creds.key, creds.identity.word)

    async def asked(message):
        if message.data == b"flood":
            chunk = b"x" * 32768
            for sent in range(size // len(chunk)):
                await client.publish("fl.echo.st.asker.flood", chunk)
                if sent % 8 == 7:
                    await client.flush()
            return
        await client.publish(message.reply, message.data)

    await client.subscribe("fl.ask.echo.>", cb=asked)
    await client.flush()
    print("ready", flush=True)
    await asyncio.Future()

asyncio.run(main())
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class BenchHost(Places):
    """A daemon with a home of its own that is a member."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __enter__(self) -> BenchHost:
        return self

    def __exit__(self, *error: object) -> None:
        self.run("fleet", "leave", check=False)
        super().__exit__(*error)

    @property
    def settings(self) -> Settings:
        return Settings(self.environment)

    def far(self, host: str) -> Settings:
        return Settings(self.environment, host=host)

    def until(self, holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not holds():
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.name}: {what} has not come in {patience:g} s")
            time.sleep(0.05)

    def hosts(self) -> list[dict[str, Any]]:
        with DaemonConnection(self.settings, start=False) as control:
            found: list[dict[str, Any]] = control.ask("host_list")["hosts"]
            return found


class BenchFleet:
    """A hub, and who belongs to it."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.directory = str(places.root / "fleet")
        self.url = f"tls://127.0.0.1:{free_port()}"
        listen, leaf = self.url.removeprefix("tls://"), f"127.0.0.1:{free_port()}"
        given = ("--address", "127.0.0.1", "--listen", listen, "--leaf-listen", leaf)
        places.run("fleet", "init", self.directory, *given)
        self.ca = f"{self.directory}/tls/ca.pem"
        self._server = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "fleet", "serve", self.directory],
            env=places.environment,
            stdout=subprocess.PIPE,
            stderr=open(places.root / "hub.log", "w"),  # noqa: SIM115
            text=True,
        )
        assert self._server.stdout is not None
        if "serving" not in self._server.stdout.readline():
            raise SystemExit((places.root / "hub.log").read_text())

    def creds(self, name: str) -> str:
        words = ("fleet", "creds", "machine", name, "--dir", self.directory, "--json")
        return str(json.loads(self.places.run(*words))["creds"])

    def join(self, host: BenchHost) -> None:
        host.run("fleet", "join", self.url, "--creds", self.creds(host.name), "--ca", self.ca)

    def memory(self) -> float:
        """MB that the server takes now."""
        pid = Path(self.directory, "nats-server.pid").read_text().strip()
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return float("nan")

    def close(self) -> None:
        self._server.send_signal(signal.SIGTERM)
        self._server.wait(PATIENCE)


def told(name: str, value: float, unit: str, goal: float | None = None, *, most: bool = True) -> None:
    held = ""
    if goal is not None:
        is_held = value <= goal if most else value >= goal
        held = f"   goal {'at most' if most else 'at least'} {goal:g}: {'held' if is_held else 'NOT HELD'}"
    print(f"{name:<58} {value:9.3f} {unit}{held}", flush=True)


async def bare(fleet: BenchFleet, count: int, megabytes: int) -> tuple[list[float], float]:
    """How long requests of NATS itself take, and MB a second that one process sends to another."""
    size = megabytes * 1024 * 1024
    echo = subprocess.Popen(
        [sys.executable, "-c", ECHO, fleet.url, fleet.ca, fleet.creds("echo"), str(size)],
        stdout=subprocess.PIPE,
    )
    try:
        assert echo.stdout is not None
        echo.stdout.readline()
        creds = read_creds(fleet.creds("asker"))
        client = await server.connected(fleet.url, fleet.ca, creds.jwt, creds.key, creds.identity.word)
        answers: dict[str, asyncio.Future[None]] = {}

        async def answered(message: Any) -> None:
            answers.pop(message.subject).set_result(None)

        await client.subscribe("fl.*.ans.asker.>", cb=answered)
        times = []
        for number in range(count + 20):
            subject = f"fl.echo.ans.asker.{number}"
            waiting = answers[subject] = asyncio.get_running_loop().create_future()
            began = time.perf_counter()
            await client.publish("fl.ask.echo.asker.look", b"x" * 100, reply=subject)
            await waiting
            times.append(time.perf_counter() - began)
        got, whole = 0, asyncio.Event()

        async def flooded(message: Any) -> None:
            nonlocal got
            got += len(message.data)
            if got >= size:
                whole.set()

        await client.subscribe(
            "fl.*.st.asker.>", cb=flooded, pending_msgs_limit=1 << 20, pending_bytes_limit=1 << 30
        )
        await client.flush()
        began = time.perf_counter()
        await client.publish("fl.ask.echo.asker.look", b"flood")
        async with asyncio.timeout(PATIENCE):
            await whole.wait()
        speed = megabytes / (time.perf_counter() - began)
        await client.close()
        return times[20:], speed
    finally:
        echo.kill()
        echo.wait()
        assert echo.stdout is not None
        echo.stdout.close()


def ops(settings: Settings, count: int) -> list[float]:
    """How long an op takes that asks for a session."""
    times = []
    with DaemonConnection(settings, start=False) as control:
        for _ in range(count + 20):
            began = time.perf_counter()
            control.ask("session_find", name="work")
            times.append(time.perf_counter() - began)
    return times[20:]


async def attached(settings: Settings, megabytes: int) -> float:
    """MB a second of a flood that who attaches reads."""
    got, size = 0, megabytes * 1024 * 1024
    async with aio.connect(settings) as host, host.attach("flood", "monitor") as view:
        while got < 1024 * 1024:
            got += len(await view.read())
        got = 0
        began = time.perf_counter()
        while got < size:
            got += len(await view.read())
        return megabytes / (time.perf_counter() - began)


async def questions(near: BenchHost, far: BenchHost, count: int) -> list[float]:
    """Seconds from asking on one host until the other one's daemon lists the question."""
    times = []
    events = Events(Watching(("hosts/changed",), hosts=True), near.settings)
    listing, asking = await DaemonLink.open(near.settings, hosts=True), await DaemonLink.open(far.settings)
    async with events:
        for number in range(count):
            text = f"bench {number} of {count}?"
            asked = {"token": f"{number:08x}", "text": text, "project": "/tmp"}
            began = time.perf_counter()
            task = asyncio.ensure_future(asking.ask("ask_person", asked, waits=True))
            while True:
                await events.next()
                rows = (await listing.ask("approvals", {"hosts": True}, waits=False))["approvals"]
                if any(row["token"].startswith(f"{far.name}:") and text in str(row) for row in rows):
                    break
            times.append(time.perf_counter() - began)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.sleep(0.3)  # so that each one is asked where nothing else happens
    await listing.close()
    await asking.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--hosts", type=int, default=None)
    parser.add_argument("--no-pair", action="store_true", help="only the simulated fleet")
    given = parser.parse_args()
    count, megabytes = (200, 8) if given.quick else (1000, 64)
    many = given.hosts if given.hosts is not None else (20 if given.quick else 200)
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before")
    with Places() as hub, BenchHost("near") as near, BenchHost("far") as far:
        fleet = BenchFleet(hub)
        try:
            for host in (near, far):
                fleet.join(host)
            near.run("ls")
            if not given.no_pair:
                pair(fleet, near, far, count, megabytes)
            if many:
                from light_fleet import simulated

                simulated(fleet, near, many, 50, 30 if given.quick else 200)
        finally:
            fleet.close()


def pair(fleet: BenchFleet, near: BenchHost, far: BenchHost, count: int, megabytes: int) -> None:
    far.run("start", "work", "-d", "--", "cat")
    near.run("ls")
    near.until(lambda: any((row["name"], row["state"]) == ("far", "here") for row in near.hosts()), "far")
    requests, speed = asyncio.run(bare(fleet, count, megabytes))
    own, across = ops(far.settings, count), ops(near.far("far"), count)
    bare_ms, own_ms, across_ms = (statistics.median(each) * 1000 for each in (requests, own, across))
    told("a bare NATS request, median", bare_ms, "ms")
    told("an op on the host itself, median", own_ms, "ms")
    told("an op to a session on the other host, median", across_ms, "ms")
    told("   beside a bare request", across_ms / bare_ms, "times", GOALS["op"])
    far.run("start", "flood", "-d", "--", "sh", "-c", FLOOD)
    here, there = (
        asyncio.run(attached(far.settings, megabytes)),
        asyncio.run(attached(near.far("far"), megabytes)),
    )
    far.run("stop", "flood")
    told("bare NATS from one process to another", speed, "MB/s")
    told("attached on the host itself", here, "MB/s")
    told("attached from the other host", there, "MB/s")
    told("   beside bare NATS", there / speed, "times", GOALS["attach"], most=False)
    told("   beside the host itself", there / here, "times")
    seen = asyncio.run(questions(near, far, 30))
    told("a question is listed on the other host, median", statistics.median(seen), "s", GOALS["question"])
    told("the hub's memory", fleet.memory(), "MB")


if __name__ == "__main__":
    main()
