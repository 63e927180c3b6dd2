"""What the kernel tells of the input of a terminal, asked at its master side."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
import termios

_OPEN_PEER = 0x5441
"""Linux's TIOCGPTPEER: opens the side that programs have."""


def takes_lines(terminal: int) -> bool:
    """True if the terminal itself gathers lines for who reads it, as for `read`; line editors want keys."""
    try:
        return bool(termios.tcgetattr(terminal)[3] & termios.ICANON)
    except (termios.error, ValueError):  # it is gone
        return False


def shown_terminal(pid: int) -> str:
    """The terminal, below /dev, that a process has as its standard input and that sends it keys, not lines:
    what shows another terminal in its own does that. Empty if there is none, or it is not known."""
    with contextlib.suppress(OSError, termios.error):
        path = os.readlink(f"/proc/{pid}/fd/0")
        if path.startswith("/dev/pts/") and path.removeprefix("/dev/pts/").isdecimal():
            terminal = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return "" if takes_lines(terminal) else path.removeprefix("/dev/")
            finally:
                os.close(terminal)
    return ""


def unread(terminal: int) -> int | None:
    """How many bytes were typed that the program has not read; None if that is not known."""
    if sys.platform != "linux" or terminal < 0:
        return None
    with contextlib.suppress(OSError):
        peer = fcntl.ioctl(terminal, _OPEN_PEER, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return int(struct.unpack("i", fcntl.ioctl(peer, termios.FIONREAD, bytes(4)))[0])
        finally:
            os.close(peer)
    return None
