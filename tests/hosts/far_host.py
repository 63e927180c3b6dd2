"""Another host on this machine: a daemon in places of its own, behind a real sshd with keys of its own."""

from __future__ import annotations

import ctypes
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.hosting import WAIT, Hosting

SSHD_PLACES = "/usr/sbin:/usr/local/sbin:/sbin"
"""Where sshd is, which is often not on PATH."""


def sshd() -> str:
    """The path of sshd; the calling test is skipped without it."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:{SSHD_PLACES}")
    if found is None or shutil.which("ssh") is None:
        pytest.skip("sshd is not there, and this test logs in with the real one: run `make peers`")
    if os.getuid() == 0 and not os.path.isdir("/run/sshd"):
        try:
            os.makedirs("/run/sshd", mode=0o755)
        except OSError:
            pytest.skip("sshd needs the directory /run/sshd, which can't be made here")
    return found


class FarHost(Hosting):
    """A daemon that others reach through sshd, which listens on loopback or where `wrap` puts it."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        address: str = "127.0.0.1",
        wrap: tuple[str, ...] = (),
        links: bool = True,
    ) -> None:
        super().__init__(settings)
        self.address = address
        self._program = sshd()
        self._wrap = wrap
        self.running: subprocess.Popen[bytes] | None = None
        self.ssh_dir = self.directory / "ssh"
        self.ssh_dir.mkdir(mode=0o700)
        self.home = Path(self.environment["HOME"])
        for name in ("host", "user"):
            self.make_key(name)
        (self.ssh_dir / "authorized").write_bytes((self.ssh_dir / "user.pub").read_bytes())
        self.port = self._free_port()
        if links:
            self.put_fairlead()
        self.start_sshd()

    def make_key(self, name: str) -> None:
        path = self.ssh_dir / name
        path.unlink(missing_ok=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=WAIT
        )

    def put_fairlead(self, script: str = "") -> None:
        """Put a `fairlead` where a login finds it: this one, or another script."""
        place = self.home / ".local/bin/fairlead"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(script or f'#!/bin/sh\nexec "{sys.executable}" -m fairlead "$@"\n')
        place.chmod(0o755)

    def _free_port(self) -> int:
        if self.address != "127.0.0.1":
            return 22
        with socket.socket() as probe:
            probe.bind((self.address, 0))
            port: int = probe.getsockname()[1]
            return port

    def start_sshd(self, *, anew: bool = True) -> None:
        """Start sshd, with its configuration as it was made or, unless `anew`, as it is now."""
        config = self.ssh_dir / "sshd_config"
        if anew or not config.exists():
            self._configure(config)
        with open(self.ssh_dir / "sshd.log", "ab") as log:
            self.running = subprocess.Popen(
                [*self._wrap, self._program, "-D", "-e", "-f", str(config)],
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - there are no threads
            )
        self.until(self.is_reachable)

    def _configure(self, config: Path) -> None:
        places = " ".join(
            f'"{name}={value}"' for name, value in self.environment.items() if name not in ("TERM", "LANG")
        )
        config.write_text(
            f"Port {self.port}\nListenAddress {self.address}\nHostKey {self.ssh_dir}/host\n"
            f"AuthorizedKeysFile {self.ssh_dir}/authorized\nPidFile none\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nPermitRootLogin yes\nLogLevel ERROR\nMaxStartups 200\n"
            f"SetEnv {places}\n"
        )

    def is_reachable(self) -> bool:
        assert self.running is not None
        assert self.running.poll() is None, (self.ssh_dir / "sshd.log").read_text()
        done = subprocess.run(
            [*self._wrap, sys.executable, "-c", _PROBE, self.address, str(self.port)],
            check=False,
            timeout=WAIT,
            stderr=subprocess.DEVNULL,
        )
        return done.returncode == 0

    def stop_sshd(self) -> None:
        """End sshd, and the connections that it has."""
        if self.running is not None:
            running, self.running = self.running, None
            for pid in [*descendants(running.pid), running.pid]:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
            running.wait(WAIT)

    def cut(self) -> None:
        """End all connections of sshd, which goes on."""
        assert self.running is not None
        for pid in descendants(self.running.pid):
            if b"sshd" in _command(pid):
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass

    def ssh_config(self, name: str) -> str:
        """What a user's ssh configuration says of this host."""
        return (
            f"Host {name}\n  HostName {self.address}\n  Port {self.port}\n  User {getpass.getuser()}\n"
            f"  IdentityFile {self.ssh_dir}/user\n  IdentitiesOnly yes\n  GlobalKnownHostsFile none\n"
            f"  UserKnownHostsFile {self.ssh_dir}/known\n  StrictHostKeyChecking accept-new\n"
        )

    def close(self) -> None:
        self.stop_sshd()
        super().close()


class NearHost(Hosting):
    """The host from which others are used, with a configuration of ssh of its own."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self.ssh_config = self.directory / "ssh_config"
        self.ssh_config.write_text("")
        self.environment["FAIRLEAD_HOSTS_SSH"] = f"ssh -F {self.ssh_config}"
        self.added: list[str] = []

    def add(self, name: str, far: FarHost, *, check: bool = True) -> None:
        with open(self.ssh_config, "a") as file:
            file.write(far.ssh_config(name))
        self.run("host", "add", name, *([] if check else ["--no-check"]))
        self.added.append(name)

    def forget_connections(self) -> None:
        """Close the shared connections of ssh."""
        for name in self.added:
            for path in Path(self.environment["XDG_RUNTIME_DIR"], "fairlead").glob("ssh-*"):
                subprocess.run(
                    ["ssh", "-F", str(self.ssh_config), "-O", "exit", "-o", f"ControlPath={path}", name],
                    check=False,
                    capture_output=True,
                    timeout=WAIT,
                )

    def close(self) -> None:
        self.forget_connections()
        super().close()


def _end_with_parent() -> None:
    """Be killed when the tests are: sshd writes over its environment, by which others are found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


PR_SET_PDEATHSIG = 1
_PROBE = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()"


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have, the deepest first."""
    found: list[int] = []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in map(int, children):
        found += [*descendants(child), child]
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def until(holds: object, *, wait: float = WAIT) -> None:
    """Wait until something holds that nobody tells."""
    assert callable(holds)
    deadline = time.monotonic() + wait
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
