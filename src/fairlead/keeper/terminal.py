"""Opening a PTY and giving it to a program, as a login on a real terminal would."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios

from .program import NO_ROOM, StartError

_NO_MORE_TERMINALS = (errno.ENOSPC, errno.EAGAIN, errno.ENXIO, errno.ENOENT)  # what systems say then
_PTY_LIMITS = "/proc/sys/kernel/pty"

_IUTF8 = getattr(termios, "IUTF8", 0x4000)


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


def take(theirs: int) -> None:
    """In a program's process, before it runs: have this terminal as its own, for input, output and errors."""
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    for descriptor in (0, 1, 2):
        os.dup2(theirs, descriptor)
