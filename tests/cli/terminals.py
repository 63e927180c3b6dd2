"""A command on a terminal of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from tests.hosting import WAIT, Hosting


def on_a_terminal(hosting: Hosting, *words: str, columns: int = 80) -> tuple[int, str]:
    """The exit code and the output of a command whose output is a terminal."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "fairlead", *words]
    client = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=hosting.environment
    )
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65_536):
            shown += data
    except OSError:  # Linux's way to say that nobody is left on the other side
        pass
    os.close(ours)
    return client.wait(WAIT), shown.decode().replace("\r\n", "\n")
