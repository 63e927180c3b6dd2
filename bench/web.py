"""The web console at its socket: a key and its echo, throughput beside a bare relay in the same run, and what
the process takes: `make bench-web`. Then the same in a real browser, where there is one (`web_pages`).

The relay is the least that could be done instead: a WebSocket server that sends on what a session's client
reads, with no roles, no pen and no acknowledgements. `--quick` takes fewer keys and bytes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

from dashboard import Places
from web_pages import measure
from websockets.sync.client import ClientConnection, connect

KEYS, MEGABYTES, PAGES = 300, 64, 20
PATIENCE = 60.0
ACK = 64 * 1024
GOALS = {"key": 0.03, "beside": 0.1, "ratio": 0.8, "memory": 40.0}

RELAY = """
import asyncio, sys
from fairlead import aio
from websockets.asyncio.server import serve

async def main():
    async with aio.connect() as host:
        async def show(page):
            async with host.attach("flood", "watcher") as view:
                while data := await view.read():
                    await page.send(data)
        async with serve(show, "127.0.0.1", 0, compression=None) as server:
            print(server.sockets[0].getsockname()[1], flush=True)
            await asyncio.Future()

asyncio.run(main())
"""


class Consoles(Places):
    """A daemon with a console."""

    def __enter__(self) -> Consoles:
        began = time.perf_counter()
        found = json.loads(self.run("web", "--no-open", "--json"))
        self.started_in = time.perf_counter() - began
        self.base: str = found["base"]
        self.cookie = self._come_in(found["link"].partition("#")[2])
        return self

    def __exit__(self, *error: object) -> None:
        self.run("web", "--stop", check=False)
        super().__exit__(*error)

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    @property
    def pid(self) -> int:
        return int((self.root / "run/fairlead/web.lock").read_text())

    def _come_in(self, ticket: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Origin": self.base, "Content-Type": "application/json"}
        connection.request("POST", "/in", json.dumps({"ticket": ticket}), headers)
        cookie = connection.getresponse().headers["set-cookie"]
        return str(cookie).partition(";")[0]

    def terminal(self, name: str) -> ClientConnection:
        headers = {"Cookie": self.cookie, "Origin": self.base}
        return opened(self.port, f"/api/terminals/{name}", headers)

    def memory(self) -> float:
        """Megabytes that the console's process has in memory."""
        with open(f"/proc/{self.pid}/status") as file:
            line = next(each for each in file if each.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


def opened(port: int, path: str, headers: dict[str, str]) -> ClientConnection:
    plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    url = f"ws://127.0.0.1:{port}{path}"
    more: dict[str, Any] = {
        "additional_headers": headers,
        "compression": None,
        "max_size": None,
        "proxy": None,
    }
    page: ClientConnection = connect(url, sock=plain, legacy=True, **more)
    return page


def settle(page: ClientConnection) -> None:
    """Take the screen, and what else comes first."""
    while True:
        try:
            page.recv(timeout=1.0)
        except TimeoutError:
            return


def keys(console: Consoles, count: int) -> list[float]:
    """Seconds from each key to its echo."""
    console.run("start", "keys", "-d", "--", "cat")
    took = []
    with console.terminal("keys") as page:
        page.send(json.dumps({"t": "take-pen"}))
        settle(page)
        for _ in range(count):
            began = time.perf_counter()
            page.send(b"x")
            while not isinstance(data := page.recv(timeout=PATIENCE), bytes) or b"x" not in data:
                pass
            took.append(time.perf_counter() - began)
            page.send(json.dumps({"t": "ack", "bytes": len(data)}))
            time.sleep(0.005)
    console.run("stop", "keys")
    return took


def flood(console: Consoles, page: ClientConnection, megabytes: int, *, acks: bool) -> float:
    """Megabytes a second that reach a page while a program prints this much."""
    settle(page)
    console.run("send", "flood", str(megabytes), "-k", "Enter")
    received = owed = 0
    began = 0.0
    tail = b""
    while b"the-end" not in tail:
        data = page.recv(timeout=PATIENCE)
        if not isinstance(data, bytes):
            continue
        began = began or time.perf_counter()
        received += len(data)
        owed += len(data)
        tail = (tail + data)[-65_536:]
        if acks and owed >= ACK:
            page.send(json.dumps({"t": "ack", "bytes": owed}))
            owed = 0
    return received / 1e6 / (time.perf_counter() - began)


def keys_beside_a_flood(console: Consoles, count: int) -> list[float]:
    """The same while a page shows another session that floods, and acknowledges what it gets."""
    console.run("start", "noise", "-d", "--", "yes", "the quick brown fox jumps over the lazy dog")
    is_over = threading.Event()

    def show() -> None:
        with console.terminal("noise") as page:
            while not is_over.is_set():
                data = page.recv(timeout=PATIENCE)
                if isinstance(data, bytes):
                    page.send(json.dumps({"t": "ack", "bytes": len(data)}))

    thread = threading.Thread(target=show)
    thread.start()
    try:
        return keys(console, count)
    finally:
        is_over.set()
        thread.join()
        console.run("stop", "noise")


def throughput(console: Consoles, megabytes: int, rounds: int) -> tuple[float, float]:
    """The median of the console and that of the relay, taken by turns."""
    line = "the quick brown fox jumps over the lazy dog and goes on as far as it can; "
    script = (
        f'stty -echo; while read size; do yes "{line}" | head -c "$size"000000; echo; echo the-""end; done'
    )
    console.run("start", "flood", "-d", "--", "sh", "-c", script)
    relay = subprocess.Popen(
        [sys.executable, "-c", RELAY],
        env=console.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    ours, bare = [], []
    try:
        assert relay.stdout is not None
        port = int(relay.stdout.readline())
        for _ in range(rounds):
            with console.terminal("flood") as page:
                ours.append(flood(console, page, megabytes, acks=True))
            with opened(port, "/", {}) as page:
                bare.append(flood(console, page, megabytes, acks=False))
    finally:
        relay.kill()
        relay.wait()
    console.run("stop", "flood")
    return statistics.median(ours), statistics.median(bare)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--browser", action="store_true", help="only what a browser shows")
    given = parser.parse_args()
    with Consoles() as console:
        missed = [] if given.browser else at_the_socket(console, quick=given.quick)
        missed += measure(console, RELAY, quick=given.quick)
    if missed and not given.quick:
        raise SystemExit(f"missed: {', '.join(missed)}")


def at_the_socket(console: Consoles, *, quick: bool) -> list[str]:
    """Print what the console does at its socket. Returns the goals that were missed."""
    idle = console.memory()
    took = keys(console, 50 if quick else KEYS)
    beside = keys_beside_a_flood(console, 50 if quick else KEYS)
    ours, bare = throughput(console, 8 if quick else MEGABYTES, 1 if quick else 3)
    console.run("start", "many", "-d", "--", "cat")
    pages = [console.terminal("many") for _ in range(PAGES)]
    for page in pages:
        page.recv(timeout=PATIENCE)
    busy = console.memory()
    for page in pages:
        page.close()
    console.run("stop", "many")
    key = statistics.median(took)
    print(f"start until the link is printed        {console.started_in:6.2f} s")
    print(f"a key and its echo, median of {len(took):3}      {key * 1000:6.2f} ms, at most 30")
    print(f"   the slowest of a hundred            {statistics.quantiles(took, n=100)[-1] * 1000:6.2f} ms")
    flooded = statistics.median(beside)
    print(f"   beside a flood, median              {flooded * 1000:6.2f} ms, at most 100")
    print(f"   the slowest of a hundred            {statistics.quantiles(beside, n=100)[-1] * 1000:6.2f} ms")
    print(f"throughput to a page                   {ours:6.1f} MB/s")
    print(f"   of a bare relay                     {bare:6.1f} MB/s: {ours / bare:.2f} of it, at least 0.8")
    print(f"memory at first                        {idle:6.1f} MB, at most 40")
    print(f"   after all this, with {PAGES} pages       {busy:6.1f} MB")
    found = {"key": key, "beside": flooded, "memory": idle}
    missed = [name for name, value in found.items() if value > GOALS[name]]
    return missed + (["ratio"] if ours / bare < GOALS["ratio"] else [])


if __name__ == "__main__":
    os.environ.pop("FAIRLEAD_AGENT", None)
    main()
