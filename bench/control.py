"""The control room: health, signals, connections, and a minute under attack: `make bench-control`."""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from multiplexers import PATIENCE, Fairlead

from fairlead.formats.sexp import Keyword
from fairlead.wire.passepartout import ClientConnection, HealthCheck, Message, event, frame, plist

ROUND_TRIPS = 5000
SIGNALS, WINDOW = 20_000, 200
CONNECTIONS = 500
ATTACK_SECONDS = 60.0
ATTACK_PAUSE = 0.02
RULE = (
    '[[control.rules]]\nsensor = "build"\npattern = "number"\nthen = { actuator = "log", text = "{text}" }\n'
)
CHECK = frame(HealthCheck().plist)
ROOT = Path(__file__).parents[1]


class Client:
    """A connection to the door, which counts answers."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(path)
        self.wire = ClientConnection()
        self.receive()

    def receive(self) -> list[Any]:
        return list(self.wire.receive(self.socket.recv(262_144)))

    def health(self) -> float:
        """The seconds that an answer takes."""
        began = time.perf_counter()
        self.socket.sendall(CHECK)
        while b":HEALTH-RESPONSE" not in self.socket.recv(262_144):
            pass
        return time.perf_counter() - began


def row(name: str, shown: str, met: bool | None = None) -> bool:
    print(f"  {name:<52}{shown:>14}{'' if met is None else '   met' if met else '   MISSED'}", flush=True)
    return met is not False


def memory_of(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * 4096


def health(client: Client) -> bool:
    median = statistics.median(client.health() for _ in range(ROUND_TRIPS))
    return row("a health check's round trip, median", f"{median * 1e6:.0f} µs", median <= 300e-6)


def signals(client: Client) -> bool:
    """Through the socket, perceiving, a rule, five gates and the log; each is answered."""
    frames = [
        client.wire.send(event(plist(sensor=Keyword("BUILD"), text=f"number {number}")))
        for number in range(SIGNALS)
    ]
    sent = answered = 0
    began = time.perf_counter()
    while answered < SIGNALS:
        room = min(WINDOW - (sent - answered), SIGNALS - sent)
        if room > WINDOW // 4 or sent + room == SIGNALS:
            client.socket.sendall(b"".join(frames[sent : sent + room]))
            sent += room
        answered += sum(_ends(item) for item in client.receive())
    rate = SIGNALS / (time.perf_counter() - began)
    return row("signals a second, through a rule to the log", f"{rate:,.0f}", rate >= 2000)


def _ends(item: Any) -> bool:
    return isinstance(item, Message) and item.type == "REQUEST" and item.get("payload", "text") == ""


def connections(port: int, pid: int, client: Client) -> bool:
    before = memory_of(pid)
    began = time.perf_counter()
    kept = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(CONNECTIONS)]
    for each in kept:
        each.recv(4096)
    taken = time.perf_counter() - began
    client.health()
    cost = memory_of(pid) - before
    met = row(f"{CONNECTIONS} connections, memory", f"{cost / 2**20:.1f} MiB", cost <= 30 * 2**20)
    row("a connection, until it is greeted", f"{taken / CONNECTIONS * 1e6:.0f} µs")
    for each in kept:
        each.close()
    return met


def attack(port: int, pid: int, path: str, made: Path, seconds: float) -> bool:
    forged = f'(:TYPE :REQUEST :TARGET :SHELL :PAYLOAD (:ACTION :SHELL :TEXT "touch {made}"))'
    before = most = memory_of(pid)
    times = []
    attacker = subprocess.Popen(
        [sys.executable, "-m", "tests.doors.attacks", str(port), forged],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert attacker.stdin is not None
    assert attacker.stdout is not None
    attacker.stdout.readline()
    client = Client(path)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        times.append(client.health())
        most = max(most, memory_of(pid))
        time.sleep(ATTACK_PAUSE)
    attacker.stdin.close()
    attacker.wait(PATIENCE)
    times.sort()
    median, late = statistics.median(times), times[int(len(times) * 0.99)]
    row("under attack: a health check, median", f"{median * 1e3:.1f} ms")
    met = row("under attack: 99 of 100 within", f"{late * 1e3:.1f} ms", late <= 0.05)
    row("under attack: the slowest", f"{times[-1] * 1e3:.1f} ms")
    grown = most - before
    met &= row("under attack: more memory", f"{grown / 2**20:.1f} MiB", grown <= 64 * 2**20)
    return met & row("under attack: forged actions done", str(int(made.exists())), not made.exists())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attack", type=float, default=ATTACK_SECONDS, metavar="SECONDS")
    options = parser.parse_args()
    contender = Fairlead()
    config = contender.directory / "config.toml"
    config.write_text(RULE)
    contender.environment["FAIRLEAD_CONFIG"] = str(config)
    met = True
    try:
        with contender.connect() as host:
            status = host.status()
            port, pid = status["passepartout_port"], status["pid"]
            path = contender.settings.passepartout_path
            client = Client(path)
            met &= health(client)
            met &= signals(client)
            met &= connections(port, pid, client)
            met &= attack(port, pid, path, contender.directory / "made", options.attack)
    finally:
        contender.close()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
