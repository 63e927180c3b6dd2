"""Opening a PTY and starting a program in it, as a login on a real terminal would."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Mapping, Sequence

from . import masks

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # what shells exit with
NO_ROOM = 1
"""The code when the system has no terminal, process or descriptor left, whatever the command is."""

_NO_MORE_TERMINALS = (errno.ENOSPC, errno.EAGAIN, errno.ENXIO, errno.ENOENT)  # what systems say then
_PTY_LIMITS = "/proc/sys/kernel/pty"

_IUTF8 = getattr(termios, "IUTF8", 0x4000)


class StartError(Exception):
    """A command that can't be started. `code` is what a shell would exit with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def open_terminal(cols: int, rows: int) -> tuple[int, int]:
    """The ends of a new PTY of this size: ours, which doesn't block, and the program's. Raises StartError."""
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        raise StartError(_why_no_terminal(error), NO_ROOM) from None
    try:
        os.set_blocking(ours, False)
        attributes = termios.tcgetattr(theirs)
        attributes[0] |= _IUTF8
        attributes[1] |= termios.OPOST | termios.ONLCR
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        set_size(ours, cols, rows)
    except BaseException:
        os.close(ours)
        os.close(theirs)
        raise
    return ours, theirs


def _why_no_terminal(error: OSError) -> str:
    """A sentence for a PTY that could not be had."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return (
            f"no terminal can be opened: {os.strerror(error.errno)}; close some sessions or raise the limit"
        )
    if error.errno in _NO_MORE_TERMINALS:
        return f"no free pseudo-terminals: {_terminals_in_use()}; close some, or raise the system's limit"
    return f"no terminal can be opened: {error.strerror or error}"


def _terminals_in_use() -> str:
    """How many PTYs the system has, where it says so."""
    try:
        with open(f"{_PTY_LIMITS}/nr") as used, open(f"{_PTY_LIMITS}/max") as limit:
            return f"{used.read().strip()} of {limit.read().strip()} are in use"
    except OSError:
        return "all are in use"


def set_size(terminal: int, cols: int, rows: int) -> None:
    """Give a terminal a size; its foreground program gets SIGWINCH if that is a change."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def start(command: Sequence[str], cwd: str, environment: Mapping[str, str], theirs: int) -> int:
    """Start a program with the terminal as its own; gives its process id. Raises StartError."""
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
            _become(command, cwd, environment, theirs)
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


def _become(command: Sequence[str], cwd: str, environment: Mapping[str, str], theirs: int) -> None:
    """In the child: a session of its own, the terminal for input, output and errors, then the program."""
    os.setsid()
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    for descriptor in (0, 1, 2):
        os.dup2(theirs, descriptor)
    os.chdir(cwd)
    masks.give_back()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvpe(command[0], list(command), dict(environment))
