"""The dashboard with many sessions: how soon it is there, how soon a key is answered while others flood, and
what it takes when nothing happens: `make bench-dashboard`.

It runs in a PTY of its own, as a person has it. Each key selects the next session; it is answered when its
name stands behind the sign of the selection. `--quick` takes fewer sessions and keys.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

SESSIONS, FLOODING, KEYS, STARTS = 200, 4, 200, 5
IDLE_SECONDS = 10.0
COLUMNS, ROWS = 160, 50
PATIENCE = 60.0
GOALS = {"start": 0.5, "key": 0.05, "memory": 80.0, "idle": 3.0}
FLOOD = 'i=0; while :; do i=$((i+1)); echo "$i the quick brown fox jumps over the lazy dog"; done'


class Places:
    """A daemon with directories of its own, ended at the end."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="fl-", dir="/tmp"))
        for name in ("run", "home"):
            (self.root / name).mkdir(mode=0o700)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"HOME": str(self.root / "home"), "XDG_RUNTIME_DIR": str(self.root / "run")}
        own |= {"FAIRLEAD_VERIFIER_DIR": str(self.root / "v"), "FAIRLEAD_PASSEPARTOUT_PORT": "0"}
        self.environment = {**kept, **own, "TERM": "xterm-256color", "SHELL": "/bin/sh"}

    def __enter__(self) -> Places:
        return self

    def __exit__(self, *error: object) -> None:
        names = self.run("ls", "-q", check=False).split()
        for at in range(0, len(names), 50):
            self.run("stop", *names[at : at + 50], check=False)
        self.run("daemon", "stop", check=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def run(self, *words: str, check: bool = True) -> str:
        command = [sys.executable, "-m", "fairlead", *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=check)
        return done.stdout

    def start(self, names: list[str], script: str) -> None:
        from fairlead.client.connection import DaemonConnection
        from fairlead.system.settings import Settings

        self.run("ls")
        with DaemonConnection(Settings(self.environment), start=False) as control:
            for name in names:
                given = {"name": name, "cwd": str(self.root), "env": self.environment}
                control.ask("terminal_start", argv=["sh", "-c", script], cols=80, rows=24, **given)


class Screen:
    """The dashboard in a PTY."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._output = b""
        self.began = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if not self.pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.execve(sys.executable, [sys.executable, "-m", "fairlead"], environment)

    def until(self, pattern: bytes) -> float:
        """Read until this was written; returns when, in seconds since the dashboard was started."""
        wanted, deadline = re.compile(pattern), time.monotonic() + PATIENCE
        while True:
            if wanted.search(self._output):
                self._output = b""
                return time.perf_counter() - self.began
            if not select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"{pattern!r} was not shown: {self._output[-2000:]!r}")
            self._output = (self._output + os.read(self._fd, 65536))[-200_000:]

    def read_for(self, seconds: float) -> int:
        """Read what comes for a while; returns how many bytes came."""
        until, read = time.monotonic() + seconds, 0
        while (left := until - time.monotonic()) > 0:
            if select.select([self._fd], [], [], left)[0]:
                read += len(os.read(self._fd, 65536))
        self._output = b""
        return read

    def press(self, key: bytes) -> None:
        os.write(self._fd, key)

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)

    @property
    def memory(self) -> float:
        """Megabytes that are its own."""
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
        return 0.0

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def started(places: Places, count: int, times: int) -> Iterator[tuple[float, float]]:
    """Seconds until all sessions are listed, and seconds of processor time until then."""
    for _ in range(times):
        screen = Screen(places.environment)
        try:
            yield screen.until(rb"%d sessions" % count), screen.cpu_seconds
        finally:
            screen.close()


def answered(screen: Screen, count: int) -> Iterator[float]:
    """Seconds until a key's answer is shown."""
    screen.press(b"\x1b[H")
    screen.read_for(1.0)
    for number in range(count):
        down = number // 20 % 2 == 0
        screen.read_for(0.05 + number % 7 / 100)  # not in step with anything
        began = time.perf_counter()
        screen.press(b"j" if down else b"k")
        yield screen.until("›".encode()) + screen.began - began


def show(name: str, value: float, unit: str, goal: float) -> None:
    print(f"{name:<46}{value:8.1f} {unit:<3} goal {goal:g}{'' if value <= goal else '   MISSED'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    sessions, keys = (30, 40) if quick else (SESSIONS, KEYS)
    with Places() as places:
        quiet = [f"quiet{number:03}" for number in range(sessions - FLOODING)]
        places.start(quiet, "echo ready; exec sleep 100000")
        places.start([f"flood{number}" for number in range(FLOODING)], f"read x; {FLOOD}")
        found = list(started(places, sessions, STARTS))
        print(f"{sessions} sessions; a terminal of {COLUMNS}x{ROWS}; load {os.getloadavg()[0]:.1f}")
        show("start, median", statistics.median(wall for wall, _ in found) * 1e3, "ms", GOALS["start"] * 1e3)
        print(f"start, processor time: {statistics.median(cpu for _, cpu in found) * 1e3:.0f} ms")
        screen = Screen(places.environment)
        try:
            screen.until(rb"%d sessions" % sessions)
            screen.read_for(5.0)
            began = screen.cpu_seconds
            written = screen.read_for(IDLE_SECONDS)
            show("idle, of a core", (screen.cpu_seconds - began) / IDLE_SECONDS * 100, "%", GOALS["idle"])
            print(f"idle, bytes written each second: {written / IDLE_SECONDS:.0f}")
            for name in ("quiet", "flood"):
                if name == "flood":
                    for number in range(FLOODING):
                        places.run("send", f"flood{number}", "go", "-k", "Enter")
                    screen.read_for(2.0)
                began, at = screen.cpu_seconds, time.perf_counter()
                taken = sorted(answered(screen, keys))
                share = (screen.cpu_seconds - began) / (time.perf_counter() - at) * 100
                show(f"a key, {name}, median", statistics.median(taken) * 1e3, "ms", GOALS["key"] * 1e3)
                show(f"a key, {name}, 95 %", taken[int(len(taken) * 0.95)] * 1e3, "ms", GOALS["key"] * 1e3)
                print(f"a key, {name}, worst: {taken[-1] * 1e3:.0f} ms; meanwhile {share:.1f} % of a core")
            show("memory, its own part", screen.memory, "MB", GOALS["memory"])
        finally:
            screen.close()


if __name__ == "__main__":
    main()
