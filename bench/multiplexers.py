"""The contenders of the terminal benchmark: a bare read loop, Fairlead, tmux, dtach, screen and keepty.

Each runs a shell script in a terminal that it keeps, in a directory of its own, and lets clients in. A client
is a file descriptor: the terminal of the contender's own attach program, as a person has it. `AtSocket` is
Fairlead without that program, as SDKs have it. All are ended by `close`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fairlead.client.sdk import Host
from fairlead.system.settings import Settings
from fairlead.wire import keepty

COLS, ROWS = 80, 24
PATIENCE = 20.0
"""Seconds until something that does not come up ends the benchmark."""


class Contender:
    """A way to keep a terminal. One object runs one session."""

    name = ""
    share = 1.0
    """How much of the flood it gets; a slow one would take minutes for all of it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="flb-", dir="/tmp"))
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ},
            "HOME": str(self.directory),
            "XDG_RUNTIME_DIR": str(self.directory),
            "FAIRLEAD_VERIFIER_DIR": str(self.directory / "v"),
            "TERM": "xterm-256color",
            "SHELL": "/bin/sh",
            "FAIRLEAD_PASSEPARTOUT_PORT": "0",
        }
        self._clients: list[tuple[int, int]] = []  # process id and terminal of attached programs

    @classmethod
    def is_here(cls) -> bool:
        """Whether this machine has the program."""
        return shutil.which(cls.name) is not None

    def start(self, script: str) -> None:
        """Run a shell script in a terminal."""
        raise NotImplementedError

    def attach_command(self) -> list[str]:
        """How a person attaches."""
        raise NotImplementedError

    def list_command(self) -> list[str] | None:
        """How a person lists the sessions, if there is a way."""
        return None

    def attach(self) -> int:
        """Let a client in; gives what shows its output and takes its input."""
        pid, terminal = spawn(self.attach_command(), self.environment)
        self._clients.append((pid, terminal))
        os.read(terminal, 65_536)  # it is there when it has painted something
        return terminal

    def typed(self, text: bytes) -> bytes:
        """What a client writes to have this typed."""
        return text

    def close(self) -> None:
        """End everything that was started."""
        for pid, terminal in self._clients:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, *command: str) -> None:
        subprocess.run(
            command, env=self.environment, check=True, capture_output=True, timeout=PATIENCE, input=b""
        )


class Bare(Contender):
    """The limit: nothing but a PTY that is read."""

    name = "bare read loop"

    @classmethod
    def is_here(cls) -> bool:
        return True

    def start(self, script: str) -> None:
        self._clients.append(spawn(["sh", "-c", script], self.environment))

    def attach(self) -> int:
        return self._clients[0][1]


class Relays(Contender):
    """The limit of an echo with as many processes in between as Fairlead has: they pass bytes on, no more."""

    name = "two bare relays"

    def __init__(self) -> None:
        super().__init__()
        self._ours, theirs = socket.socketpair()
        self._daemon = theirs
        self._relays: list[int] = []

    @classmethod
    def is_here(cls) -> bool:
        return True

    def start(self, script: str) -> None:
        self._clients.append(spawn(["sh", "-c", script], self.environment))
        terminal, client = self._clients[0][1], self._daemon.fileno()
        keeper, daemon = socket.socketpair()
        with keeper, daemon:
            for ways in ({terminal: keeper.fileno()}, {client: terminal, daemon.fileno(): client}):
                pid = os.fork()
                if pid == 0:
                    try:
                        _pass_on(ways)
                    finally:
                        os._exit(0)
                self._relays.append(pid)

    def attach(self) -> int:
        return self._ours.fileno()

    def close(self) -> None:
        for pid in self._relays:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self._ours.close()
        self._daemon.close()
        super().close()


def _pass_on(ways: dict[int, int]) -> None:
    """Be a relay."""
    poll = select.poll()
    for descriptor in ways:
        poll.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            os.write(ways[descriptor], os.read(descriptor, 65_536))


class Fairlead(Contender):
    name = "fairlead"

    def __init__(self) -> None:
        super().__init__()
        self._sockets: list[socket.socket] = []

    @classmethod
    def is_here(cls) -> bool:
        return True

    @property
    def settings(self) -> Settings:
        return Settings(self.environment)

    def connect(self) -> Host:
        """The SDK, at this contender's daemon."""
        self._run(*command_of("ls"))
        return Host(self.settings)

    def start(self, script: str, name: str = "bench") -> None:
        self._run(*command_of("start", name, "-d", "--", "sh", "-c", script))

    def attach_command(self) -> list[str]:
        return command_of("attach", "bench")

    def list_command(self) -> list[str]:
        return command_of("ls")

    def reach(self, name: str = "bench", role: keepty.Role = keepty.Role.WRITER) -> int:
        """Let a client in at a session's socket."""
        path = keepty.socket_path(name, self.environment)
        deadline = time.monotonic() + PATIENCE
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(path)
                break
            except OSError:
                connection.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        connection.sendall(keepty.Hello(role, COLS, ROWS).encode())
        connection.recv(65_536)
        self._sockets.append(connection)
        return connection.fileno()

    def close(self) -> None:
        for connection in self._sockets:
            connection.close()
        with contextlib.suppress(subprocess.CalledProcessError), Host(self.settings) as host:
            for row in host.terminals():
                if row["state"] == "running":
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(row["pid"], signal.SIGKILL)
            self._run(*command_of("daemon", "stop"))
        time.sleep(0.2)
        super().close()


class AtSocket(Fairlead):
    """Fairlead's clients at the session's socket, without the attach program."""

    name = "fairlead, at the socket"

    def attach(self) -> int:
        return self.reach()

    def typed(self, text: bytes) -> bytes:
        return keepty.Input(text).encode()


class Tmux(Contender):
    name = "tmux"
    share = 0.25

    def start(self, script: str) -> None:
        size = ["-x", str(COLS), "-y", str(ROWS)]
        self._run("tmux", "-S", self._path, "new-session", "-d", "-s", "bench", *size, script)

    @property
    def _path(self) -> str:
        return str(self.directory / "tmux.sock")

    def attach_command(self) -> list[str]:
        return ["tmux", "-S", self._path, "attach", "-t", "bench"]

    def list_command(self) -> list[str]:
        return ["tmux", "-S", self._path, "ls"]

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("tmux", "-S", self._path, "kill-server")
        super().close()


class Dtach(Contender):
    name = "dtach"

    def start(self, script: str) -> None:
        # its server prints nowhere until somebody attaches, and ends with its program
        pidfile = self.directory / "pid"
        self._pidfile = pidfile
        self._run("dtach", "-n", self._path, "sh", "-c", f"echo $$ > {pidfile}; {script}")
        _until(lambda: pidfile.exists() and os.path.exists(self._path))

    @property
    def _path(self) -> str:
        return str(self.directory / "dtach.sock")

    def attach_command(self) -> list[str]:
        return ["dtach", "-a", self._path, "-r", "winch"]

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError, ValueError):
            os.killpg(int(self._pidfile.read_text()), signal.SIGKILL)
        super().close()


class Screen(Contender):
    name = "screen"
    share = 0.05

    def __init__(self) -> None:
        super().__init__()
        sockets = self.directory / "screens"
        sockets.mkdir(mode=0o700)
        self.environment["SCREENDIR"] = str(sockets)

    def start(self, script: str) -> None:
        self._run("screen", "-U", "-d", "-m", "-S", "bench", "sh", "-c", script)

    def attach_command(self) -> list[str]:
        return ["screen", "-U", "-x", "bench"]

    def list_command(self) -> list[str]:
        return ["screen", "-ls"]

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("screen", "-S", "bench", "-X", "quit")
        super().close()


class Keepty(Contender):
    """keepty's own broker and client, if the real program is on PATH."""

    name = "keepty"

    def start(self, script: str) -> None:
        self._run("keepty", "start", "bench", "-d", "--", "sh", "-c", script)

    def attach_command(self) -> list[str]:
        return ["keepty", "attach", "bench"]

    def list_command(self) -> list[str]:
        return ["keepty", "list"]

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("keepty", "stop", "bench")
        super().close()


CONTENDERS: Sequence[type[Contender]] = (Bare, Fairlead, AtSocket, Tmux, Dtach, Screen, Keepty)


def command_of(*words: str) -> list[str]:
    """The `fairlead` command, as it is installed beside this Python."""
    installed = Path(sys.executable).parent / "fairlead"
    return [str(installed), *words] if installed.exists() else [sys.executable, "-m", "fairlead", *words]


def spawn(command: Sequence[str], environment: dict[str, str]) -> tuple[int, int]:
    """A program in a terminal of our own: its process id and the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.execvpe(command[0], list(command), environment)
        finally:
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLS, 0, 0))
    return pid, terminal


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("a contender did not come up")
        time.sleep(0.01)
