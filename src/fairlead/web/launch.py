"""The commands' side of the console: asking its process over `web.sock`, and starting it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from typing import Any

from ..client.calls import RequestError
from ..client.launch import NEWS_FD, NEWS_SIZE
from ..keeper.credentials import AGENT_MARK
from ..system.settings import Settings, safe_dir
from .places import Listening, Places

ANSWER_SECONDS = 15.0
START_SECONDS = 20.0
MAX_ANSWER = 4 * 1024 * 1024
LOOK_EVERY = 0.02


class NoConsole(ConnectionError):
    """No console is running, or it does not answer."""

    def __init__(self, why: str = "no console is running; `fairlead web` starts it") -> None:
        super().__init__(why)


def asked(settings: Settings, ask: str, **given: Any) -> dict[str, Any]:
    """The console's answer to a request. Raises NoConsole, or RequestError if it refuses."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.connect(Places(settings).socket)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise NoConsole from None
        try:
            connection.sendall(json.dumps({"ask": ask, **given}).encode() + b"\n")
            answer = bytearray()
            while not answer.endswith(b"\n") and len(answer) < MAX_ANSWER:
                if not (data := connection.recv(65_536)):
                    break
                answer += data
        except OSError as error:
            raise NoConsole(f"the console does not answer: {error}") from None
    if not answer.endswith(b"\n"):
        raise NoConsole("the console closed the connection")
    said = json.loads(answer)
    if not said["ok"]:
        raise RequestError(said["error"]["code"], said["error"]["message"])
    result: dict[str, Any] = said["data"]
    return result


def is_running(settings: Settings) -> bool:
    """True if a console answers."""
    try:
        asked(settings, "status")
    except NoConsole:
        return False
    return True


def start(settings: Settings, listen: Listening) -> None:
    """Start the console in a session of its own and wait until it serves. Raises NoConsole."""
    safe_dir(settings.runtime_dir)
    safe_dir(settings.state_dir)
    log = os.open(Places(settings).log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    news, theirs = os.pipe()
    insecure = ["--insecure"] if listen.warnings() else []
    words = ["web", "--foreground", "--news", str(NEWS_FD), *listen.words, *insecure]
    try:
        shell = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", '"$@" &', "sh", sys.executable, "-m", "fairlead", *words],
            {name: value for name, value in (os.environ | settings.environ).items() if name != AGENT_MARK},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nothing, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
                (os.POSIX_SPAWN_DUP2, theirs, NEWS_FD),
            ],
            setsid=True,
        )
        os.waitpid(shell, 0)
    finally:
        for each in (log, nothing, theirs):
            os.close(each)
    with open(news, "rb") as said:
        line = _last_line(said.fileno())
    word, _, why = line.partition(" ")
    if word not in ("ready", "elsewhere"):
        raise NoConsole(f"the console can't start: {why or f'see {Places(settings).log}'}")


def _last_line(descriptor: int) -> str:
    """The last line that comes on a pipe until it is closed."""
    import select

    heard = b""
    deadline = time.monotonic() + START_SECONDS
    while (left := deadline - time.monotonic()) > 0 and select.select([descriptor], [], [], left)[0]:
        if not (data := os.read(descriptor, NEWS_SIZE)):
            break
        heard = (heard + data)[-NEWS_SIZE:]
    lines = heard.decode(errors="replace").splitlines()
    return lines[-1] if lines else ""


def stop(settings: Settings) -> None:
    """End the console, and wait until it has. Raises NoConsole."""
    pid = asked(settings, "status")["pid"]
    asked(settings, "stop")
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] in "ZX":
                return
        time.sleep(LOOK_EVERY)
    raise NoConsole(f"the console, process {pid}, has not ended")
