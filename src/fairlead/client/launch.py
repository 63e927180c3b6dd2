"""Starting the daemon when there is none. Imports little, as every command may need it."""

from __future__ import annotations

import os
import socket
import sys
import time

from ..settings import Settings, safe_dir

START_WAIT = 10.0
"""Seconds until a daemon that does not come up is an error."""
QUICK_ANSWER = 1.0
"""Seconds after which it is looked up how long to wait: a daemon that is well answers in one thousandth."""
RECONNECT_WAIT = 15.0
"""Seconds that a client waits for a daemon that died to come back."""
ABSENT_TRIES = 3
"""How often a session's socket is looked for while there is a daemon, until there is no such session."""


class NoDaemon(ConnectionError):
    """There is no daemon, and none could be started."""


class HungDaemon(NoDaemon):
    """There is a daemon, and it does not answer."""

    def __init__(self, pid: int, seconds: float) -> None:
        super().__init__(
            f"the daemon, process {pid}, is hung: it has not answered for {seconds:g} s; "
            "`fairlead daemon restart` replaces it"
        )
        self.pid = pid


def reached(path: str, timeout: float | None = None) -> socket.socket | None:
    """A connection to a socket, if anyone serves it. Raises TimeoutError if that takes too long."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def reached_daemon(settings: Settings) -> socket.socket | None:
    """A connection to the daemon's control socket, if a daemon is there and answers.

    One that was just killed may still be connected to for a moment. So it gets a line that says nothing,
    which rpc-edn answers with an error, before anything depends on it.
    """
    began = time.monotonic()
    try:
        connection = reached(settings.rpc_path, QUICK_ANSWER)
    except (TimeoutError, BlockingIOError):  # so many wait for it that there is no room for one more
        _raise_if_hung(settings, began)
        return None
    if connection is None:
        return None
    try:
        connection.sendall(b"\n")
        answer = _line(connection)
        if answer is None:
            wait = settings.number("daemon", "answer_seconds")
            connection.settimeout(max(0.01, began + wait - time.monotonic()))
            answer = _line(connection)
        connection.settimeout(None)
    except OSError:
        answer = b""
    if answer is None:
        connection.close()
        _raise_if_hung(settings, began)
        return None
    if b"empty frame" in answer:
        return connection
    connection.close()
    if answer:
        raise NoDaemon(f"the daemon lets nobody in: {answer.decode(errors='replace').strip()}")
    return None


def _line(connection: socket.socket) -> bytes | None:
    """A line of an answer, whatever there was of it at the end, or None if the time was over."""
    answer = b""
    try:
        while not answer.endswith(b"\n") and (data := connection.recv(4096)):
            answer += data
    except TimeoutError:
        return None
    return answer


def _raise_if_hung(settings: Settings, began: float) -> None:
    from .hung import lock_holder

    if pid := lock_holder(settings):
        raise HungDaemon(pid, round(time.monotonic() - began))


def connected(settings: Settings, *, start: bool = True) -> socket.socket:
    """A connection to the daemon's control socket; the daemon is started if need be."""
    deadline = time.monotonic() + START_WAIT
    started = False
    while (connection := reached_daemon(settings)) is None:
        if not start:
            raise NoDaemon("no daemon is running")
        if not started:
            started = True
            spawn(settings)
        if time.monotonic() > deadline:
            raise NoDaemon(f"the daemon did not start; see {settings.log_path}")
        time.sleep(0.01)
    return connection


def session_socket(path: str, settings: Settings) -> socket.socket | None:
    """A connection to a session's own socket, or none if there is no such session. The daemon is started if
    need be; it opens the sockets of its sessions before its own."""
    for _ in range(ABSENT_TRIES):
        if (connection := reached(path)) is not None:
            return connection
        connected(settings).close()
    return None


def spawn(settings: Settings) -> None:
    """A daemon in a session of its own, with its output in the log. A shell starts it and ends at once, so
    that it is nobody's child: a program that uses the SDK need not wait for it."""
    safe_dir(settings.runtime_dir)
    safe_dir(settings.state_dir)
    log = os.open(settings.log_path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    command = [sys.executable, "-m", "fairlead", "daemon", "run"]
    shell = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", '"$@" &', "sh", *command, "--asked-at", str(time.time())],
        {**os.environ, **settings.environ},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, nothing, 0),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ],
        setsid=True,
    )
    os.waitpid(shell, 0)
    os.close(log)
    os.close(nothing)
