"""A real daemon in places of its own, driven by the real command."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairlead.client.calls import RequestError
from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from tests import leftovers

GUARD = Path(__file__).parent / "loop_guard"
"""What watches the loops of daemons; see there."""
LIVE: list[Hosting] = []
"""Those that have not been closed."""
HELD_UP: list[str] = []
"""What held up the loops of those that have been closed."""
WAIT = 30.0
"""Seconds until something that does not happen fails the test."""


class Hosting:
    """A runtime directory, a home, and what runs there. Everything is ended by `close`."""

    patience = WAIT

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        # short, as the path of a unix socket has at most 103 bytes
        self.directory = Path(tempfile.mkdtemp(prefix="fl-", dir="/tmp"))
        runtime, home = self.directory / "run", self.directory / "home"
        for each in (runtime, home):
            each.mkdir(mode=0o700)
        kept = {
            name: os.environ[name]
            for name in ("PATH", "LANG", "COVERAGE_PROCESS_START", "PYTHONPATH", leftovers.VARIABLE)
            if name in os.environ
        }
        self.command = [sys.executable, "-m", "fairlead"]
        self.environment = {
            **kept,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(runtime),
            "FAIRLEAD_VERIFIER_DIR": str(self.directory / "v"),
            "SHELL": "/bin/sh",
            "TERM": "xterm-256color",
            "FAIRLEAD_PASSEPARTOUT_PORT": "0",
            **(settings or {}),
        }

        self._slow = self.directory / "slow"
        if "PYTHONPATH" in self.environment:
            self.environment["PYTHONPATH"] = f"{GUARD}:{self.environment['PYTHONPATH']}"
        else:
            self.environment["PYTHONPATH"] = str(GUARD)
        self.environment["LOOP_GUARD"] = str(self._slow)
        self.slow_callbacks: list[str] = []
        """What a test expects to hold the loop up: parts of what is written down then."""
        LIVE.append(self)

    def held_up(self) -> str:
        """What held the daemon's loop up since the last time; empty if nothing did."""
        if not self._slow.exists():
            return ""
        found = self._slow.read_text()
        self._slow.unlink()
        return "" if any(each in found for each in self.slow_callbacks) else found

    def run(
        self, *words: str, check: bool = True, input: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `fairlead WORDS…`."""
        done = subprocess.run(
            [*self.command, *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=self.patience,
            input=input if input is not None else "",
            check=False,
        )
        assert not check or done.returncode == 0, f"fairlead {' '.join(words)}: {done.stderr}{self.log()}"
        return done

    def start(self, name: str, script: str, *words: str) -> None:
        """A session that runs a shell script."""
        self.run("start", name, "-d", *words, "--", "sh", "-c", script)

    def screen(self, name: str) -> str:
        return self.run("screen", name).stdout

    def sessions(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.ask("terminal_list")["sessions"]}

    def ask(self, op: str, **params: Any) -> dict[str, Any]:
        """The daemon's answer to a request; a daemon is started if need be."""
        settings = Settings(self.environment)
        try:
            with DaemonConnection(settings, start=False) as control:
                return control.ask(op, **params)
        except ConnectionError:
            self.run("ls")  # in a process with the right environment, which the daemon inherits
        with DaemonConnection(settings, start=False) as control:
            return control.ask(op, **params)

    def wait_text(self, name: str, text: str) -> None:
        self.run("wait", name, "--text", text, "--timeout", "20")

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that nobody tells."""
        deadline = time.monotonic() + self.patience
        while not holds():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.01)

    def daemon_pid(self) -> int:
        pid: int = self.ask("daemon_status")["pid"]
        return pid

    def nursery_pid(self) -> int:
        """The process that listens at the nursery's socket."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(Settings(self.environment).nursery_path)
            connection.sendall(b'{"back": true}\n')
            assert connection.recv(100)
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            return int.from_bytes(credentials[:4], sys.byteorder)

    def kill_daemon(self) -> None:
        """As hard as can be."""
        os.kill(self.daemon_pid(), signal.SIGKILL)

    @property
    def log_path(self) -> Path:
        return Path(self.environment["HOME"], ".local/state/fairlead/daemon.log")

    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def use(self) -> None:
        """Let this very process find the sockets, as a real client in it would."""
        os.environ["XDG_RUNTIME_DIR"] = self.environment["XDG_RUNTIME_DIR"]

    def processes(self) -> list[int]:
        """The daemon, the nursery and the keepers."""
        return sorted([*_daemons_in(str(self.directory)), *_keepers_in(str(self.directory))])

    def end_sessions(self) -> None:
        """End the programs of all terminal sessions, and let the daemon forget them."""
        for name, row in self.sessions().items():
            if row["state"] == "running" and row["pid"]:
                _kill_group(row["pid"])
            try:
                self.ask("terminal_stop", name=name)
            except RequestError:  # it was forgotten when its program ended
                pass

    def close(self) -> None:
        """End all sessions, the daemon and the nursery."""
        LIVE.remove(self)
        if not _keepers_in(str(self.directory)):  # then there is no daemon either
            shutil.rmtree(self.directory)
            return
        self.end_sessions()
        self.ask("daemon_stop")
        with open(Settings(self.environment).lock_path) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # it holds that until it has ended
        # one that a client has started when another one just came ends by itself, but not at once
        self.until(lambda: not _daemons_in(str(self.directory)))
        for keeper in _keepers_in(str(self.directory)):
            os.kill(keeper, signal.SIGKILL)
        HELD_UP.append(self.held_up())
        shutil.rmtree(self.directory)


def is_alive(pid: int) -> bool:
    """Whether a process runs. One that has ended and waits for its parent's attention does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
    except ProcessLookupError:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _daemons_in(directory: str) -> list[int]:
    """Daemons that have this directory in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        entry = process / "environ"
        try:
            is_there = directory.encode() in entry.read_bytes()
            words = (entry.parent / "cmdline").read_bytes() if is_there else b""
        except OSError:
            continue
        if b"fairlead\0daemon\0run" in words:
            found.append(int(entry.parent.name))
    return found


def _keepers_in(directory: str) -> list[int]:
    """Processes of ours that were started for this directory: keepers that hold an ended session's status."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        entry = process / "cmdline"
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        if b"fairlead.keeper.nursery" in words and directory.encode() in words:
            found.append(int(entry.parent.name))
    return found
