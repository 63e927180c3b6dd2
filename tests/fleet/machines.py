"""Machines of a fleet: daemons with homes of their own, which have joined."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings
from tests.fleet.fleets import Fleet
from tests.hosting import Hosting


class Machine(Hosting):
    """A daemon that is a member of a fleet under a name."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        super().__init__()
        self.fleet = fleet
        self.name = name

    def join(self, *words: str, kind: str = "machine", url: str = "") -> None:
        creds = self.fleet.creds_path(kind, self.name)
        self.run("fleet", "join", url or self.fleet.url, "--creds", creds, "--ca", self.fleet.ca, *words)
        self.until(lambda: bool(self.status()["connected"]))

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("fleet", "status", "--json").stdout)
        return found

    def sees(self, name: str, state: str = "here") -> bool:
        return any((each["name"], each["state"]) == (name, state) for each in self.status()["hosts"])

    def wait_for(self, *names: str) -> None:
        """Wait until these hosts are there."""
        for name in names:
            self.until(lambda name=name: self.sees(name))  # type: ignore[misc]

    def far(self, host: str) -> Settings:
        """Settings with which this process asks a host of the fleet from this machine."""
        return Settings(self.environment, host=host)

    def asked_there(self, host: str, op: str, **params: Any) -> dict[str, Any]:
        with DaemonConnection(self.far(host), start=False) as control:
            return control.ask(op, **params)

    def feed(self, since: int = 0) -> list[dict[str, Any]]:
        said = self.run("fleet", "feed", "--since", str(since)).stdout
        return [json.loads(line) for line in said.splitlines()]

    def log(self) -> str:
        return f"{super().log()}\n{self.fleet_log()}"

    def fleet_log(self) -> str:
        path = Path(self.environment["HOME"], ".local/state/fairlead/fleet.log")
        return path.read_text() if path.exists() else ""

    def local(self, line: str) -> socket.socket:
        """A connection to fleet.sock on which something was said."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(self.patience)
        connection.connect(f"{Settings(self.environment).runtime_dir}/fleet.sock")
        connection.sendall(f"{line}\n".encode())
        return connection

    def kill_fleet(self) -> None:
        pid = self.status()["pid"]
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + self.patience
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    def close(self) -> None:
        self.run("fleet", "leave", check=False)
        super().close()
