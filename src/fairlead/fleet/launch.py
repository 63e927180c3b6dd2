"""The commands' side of the fleet's process: asking it over `fleet.sock`, and starting it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

from ..client.launch import NEWS_FD, NEWS_SIZE
from ..keeper.credentials import AGENT_MARK
from ..system.settings import Settings, safe_dir
from .authority import FleetFault
from .places import FleetPlaces

ANSWER_SECONDS = 15.0
START_SECONDS = 20.0
FIRST_SECONDS = 5.0
"""Seconds that the fleet has to answer a machine that joins, unless it is only slow."""
LOOK_EVERY = 0.02


NOT_RUNNING = "the fleet's process does not run; `fairlead fleet join` starts it"


class NoFleet(FleetFault):
    """The fleet's process does not run, or does not answer."""

    def __init__(self, why: str = NOT_RUNNING) -> None:
        super().__init__(why)


def said(
    settings: Settings, line: str, *, timeout: float | None = ANSWER_SECONDS
) -> Iterator[dict[str, Any]]:
    """What the process says to a line, line by line. Raises NoFleet."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(FleetPlaces(settings).socket)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise NoFleet from None
        try:
            connection.sendall(f"{line}\n".encode())
            with connection.makefile("rb") as file:
                for each in file:
                    try:
                        value = json.loads(each)
                    except ValueError:
                        if not each.strip():
                            continue
                        raise NoFleet(f"the fleet's process refuses: {_plain(each)}") from None
                    yield value
        except OSError as error:
            raise NoFleet(f"the fleet's process does not answer: {error}") from None


def _plain(line: bytes) -> str:
    from ..wire.link import Search

    found, _ = Search().take(line.lstrip(b"\n"))
    return found.text if found is not None else line.decode(errors="replace").strip()


def asked(settings: Settings, line: str) -> dict[str, Any]:
    """The process's one answer. Raises NoFleet."""
    for answer in said(settings, line):
        return answer
    raise NoFleet("the fleet's process closed the connection")


def is_running(settings: Settings) -> bool:
    try:
        asked(settings, "status")
    except NoFleet:
        return False
    return True


def start(settings: Settings) -> None:
    """Start the process in a session of its own and wait until it serves. Raises NoFleet."""
    safe_dir(settings.runtime_dir)
    safe_dir(settings.state_dir)
    log = os.open(FleetPlaces(settings).log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    news, theirs = os.pipe()
    words = ["fleet", "join", "--foreground", "--news", str(NEWS_FD)]
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
    with open(news, "rb") as pipe:
        word, _, why = _last_line(pipe.fileno()).partition(" ")
    if word not in ("ready", "elsewhere"):
        raise NoFleet(f"the fleet's process can't start: {why or f'see {FleetPlaces(settings).log}'}")


def _last_line(descriptor: int) -> str:
    heard = b""
    deadline = time.monotonic() + START_SECONDS
    while (left := deadline - time.monotonic()) > 0 and select.select([descriptor], [], [], left)[0]:
        if not (data := os.read(descriptor, NEWS_SIZE)):
            break
        heard = (heard + data)[-NEWS_SIZE:]
    lines = heard.decode(errors="replace").splitlines()
    return lines[-1] if lines else ""


def first_answer(settings: Settings) -> dict[str, Any]:
    """The status of a process that was just started, once it has an answer of the fleet or a reason why there
    is none. Raises NoFleet."""
    began = time.monotonic()
    while True:
        status = asked(settings, "status")
        spent = time.monotonic() - began
        is_over = spent > FIRST_SECONDS and (status["failures"] or spent > START_SECONDS)
        if status["connected"] or status["refused"] or is_over:
            return status
        time.sleep(LOOK_EVERY)


def stop(settings: Settings) -> None:
    """End the process, and wait until it has. Raises NoFleet."""
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
    raise NoFleet(f"the fleet's process, {pid}, has not ended")
