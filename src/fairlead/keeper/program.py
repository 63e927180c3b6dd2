"""Starting a program for a keeper: in a session of its own, with nothing of ours but what it is given."""

from __future__ import annotations

import errno
import os
import signal
import struct
from collections.abc import Callable, Mapping, Sequence

from . import masks
from .credentials import AGENT_MARK, mark_as_agents

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # what shells exit with
NO_ROOM = 1
"""The code when the system has no terminal, process or descriptor left, whatever the command is."""


class StartError(Exception):
    """A command that can't be started. `code` is what a shell would exit with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def start(
    command: Sequence[str], cwd: str, environment: Mapping[str, str], set_up: Callable[[], None]
) -> int:
    """Start a program and return its process id. `set_up` runs in the child and gives it its input, output
    and errors. Raises StartError."""
    try:
        reading, writing = os.pipe()  # closed by a successful exec, else it says why not
    except OSError as error:
        raise StartError(f"can't start {command[0]!r}: {error.strerror}", NO_ROOM) from None
    try:
        child = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        why = f"no other process can be started ({error.strerror})"
        raise StartError(f"can't start {command[0]!r}: {why}", NO_ROOM) from None
    if child == 0:
        try:
            _become(command, cwd, environment, set_up)
        except OSError as error:
            os.write(writing, struct.pack("i", error.errno or errno.EIO))
        finally:
            os._exit(NOT_FOUND)
    os.close(writing)
    with open(reading, "rb") as pipe:
        failure = pipe.read(4)
    if not failure:
        return child
    os.waitpid(child, 0)
    (number,) = struct.unpack("i", failure)
    code = NOT_FOUND if number in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE
    raise StartError(f"can't start {command[0]!r}: {os.strerror(number)}", code)


def _become(
    command: Sequence[str], cwd: str, environment: Mapping[str, str], set_up: Callable[[], None]
) -> None:
    os.setsid()
    set_up()
    os.chdir(cwd)
    masks.give_back()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if AGENT_MARK in environment:
        mark_as_agents()
    os.execvpe(command[0], list(command), dict(environment))
