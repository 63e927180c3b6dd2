"""The far end of a link: what `fairlead link` does on the host that is linked to. It connects to the daemon
there, which is started if need be, says so in one line, and carries bytes from then on."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time

from ... import __version__
from ...system.settings import HOST_VARIABLE, SettingError, Settings
from ...wire import link
from ..launch import NoDaemon, connected, session_socket

READ_SIZE = 65_536
LOOK_EVERY = 0.1
"""Seconds between two looks whether who wants a command's output is still there."""
LAST_WORDS = 10.0
"""Seconds that the daemon has to say the rest when who linked has nothing more to say."""


def control(settings: Settings, reading: int, writing: int) -> int:
    """Link to the daemon; gives the exit code."""
    try:
        daemon = connected(settings)
    except (NoDaemon, SettingError, OSError) as error:
        _write(writing, link.greeting(link.FAILED, str(error)))
        return 1
    _write(writing, link.greeting(link.READY, __version__))
    carry(daemon, reading, writing)
    return 0


def terminal(name: str, settings: Settings, reading: int, writing: int) -> int:
    """Link to a terminal session; gives the exit code."""
    try:
        session = session_socket(name, settings)
    except (NoDaemon, SettingError, OSError, ValueError) as error:
        _write(writing, link.greeting(link.FAILED, str(error)))
        return 1
    if session is None:
        _write(writing, link.greeting(link.ABSENT))
        return 1
    _write(writing, link.greeting(link.READY, __version__))
    carry(session, reading, writing)
    return 0


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def carry(daemon: socket.socket, reading: int, writing: int) -> None:
    """Carry bytes both ways until one side has closed. Each way holds one piece that does not fit yet."""
    daemon.setblocking(False)
    for each in (reading, writing):
        os.set_blocking(each, False)
    inward = outward = b""
    until: float | None = None
    while until is None or time.monotonic() < until:
        poll = select.poll()
        if wants := (0 if outward else select.POLLIN) | (select.POLLOUT if inward else 0):
            poll.register(daemon, wants)
        if until is None and not inward:
            poll.register(reading, select.POLLIN)
        poll.register(writing, select.POLLOUT if outward else 0)  # without it, only whether it has gone
        ready = dict(poll.poll(None if until is None else 200))
        try:
            if ready.get(daemon.fileno(), 0) & ~select.POLLOUT and not outward:
                outward = daemon.recv(READ_SIZE)
                if not outward:
                    return
            if outward:
                outward = outward[_written(writing, outward) :]
            if ready.get(writing, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                return
            if until is None and not inward and ready.get(reading, 0):
                try:
                    inward = os.read(reading, READ_SIZE)
                except BlockingIOError:
                    continue
                if not inward:
                    with contextlib.suppress(OSError):
                        daemon.shutdown(socket.SHUT_WR)
                    until = time.monotonic() + LAST_WORDS
            if inward:
                with contextlib.suppress(BlockingIOError):
                    inward = inward[daemon.send(inward) :]
        except BlockingIOError:
            continue
        except OSError:
            return


def _written(descriptor: int, data: bytes) -> int:
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0


def run(words: list[str]) -> int:
    """Run a command of ours in the home directory, for who asked for it elsewhere; gives its exit code. It is
    told to end when who asked has gone, unless it has a terminal, which tells it by itself."""
    environment = {name: value for name, value in os.environ.items() if name != HOST_VARIABLE}
    command = [sys.executable, "-m", "fairlead", *words]
    os.chdir(os.path.expanduser("~"))
    if os.isatty(sys.stdout.fileno()):
        os.execve(command[0], command, environment)
    _write(sys.stdout.fileno(), link.greeting(link.READY, __version__))
    import subprocess

    running = subprocess.Popen(command, env=environment, start_new_session=True)
    gone = select.poll()
    gone.register(sys.stdout.fileno(), 0)
    while True:
        try:
            code = running.wait(LOOK_EVERY)
            return code if code >= 0 else 128 - code
        except subprocess.TimeoutExpired:
            pass
        if gone.poll(0):
            with contextlib.suppress(OSError):
                os.killpg(running.pid, signal.SIGHUP)
            return 128 + signal.SIGHUP
