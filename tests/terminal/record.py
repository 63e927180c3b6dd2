"""Records the byte streams in tests/data/streams by running real programs in a PTY.

Run it from the top of the checkout, `python -m tests.terminal.record`, to make them anew; the tests read the
files. Programs that are missing are left out.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import struct
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path

STREAMS = Path(__file__).parents[1] / "data" / "streams"
COLS, ROWS = 80, 24
QUIET = 0.4
"""Seconds without output after which the next keys are typed."""

POEM = "".join(
    f"{number:3}  The tide that lifts the {name} boat\n     will set it down again ashore.\n\n"
    for number, name in enumerate(("red", "blue", "small", "tall", "old", "new", "broad", "swift") * 12)
)

VIM = [
    b"", b"ihello from vim\x1b", b":set number\r", b":syntax on\r", b"10j", b"yy5p", b":vsplit\r",
    b"G", b"\x04", b"\x15", b"/boat\r", b"n", b"n", b":set hlsearch\r", b"v10jd", b"u",
    b":help\r", b"\x06", b":q\r", b"ggdG", b"u", b":qa!\r",
]  # fmt: skip
LESS = [b"", b" ", b" ", b"/tide\r", b"n", b"G", b"g", b"5j", b"h", b"q", b"q"]
TOP = [b"", b"z", b"x", b"1", b"t", b"m", b"q"]
TMUX = [
    b"", b"echo one\r", b'\x02"', b"seq 1 40\r", b"\x02%", b"printf '\\033[44mblue\\033[K\\n'\r",
    b"\x02o", b"\x02z", b"\x02z", b"\x02[", b"\x15", b"q", b"exit\r", b"exit\r", b"exit\r",
]  # fmt: skip
SHELL = [
    b"", b"ls --color=always\r", b"printf '\\033]0;a title\\007'\r", b"echo $'\\033[1;31mred\\033[0m'\r",
    b"seq 1 60\r", b"echo " + b"a long line that goes on " * 5 + b"\r",
    b"\x1b[A\x1b[A\r", b"clear\r", b"exit\r",
]  # fmt: skip


def record(command: Sequence[str], typed: Sequence[bytes], where: str, environment: dict[str, str]) -> bytes:
    """Run a program, type to it whenever it has gone quiet, and give all that it printed."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(where)
        os.execvpe(command[0], list(command), environment)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLS, 0, 0))
    keys = list(typed)
    printed = b""
    while True:
        ready, _, _ = select.select([fd], [], [], QUIET)
        if not ready:
            if not keys:
                break
            os.write(fd, keys.pop(0))
            continue
        try:
            data = os.read(fd, 65536)
        except OSError:
            data = b""
        if not data:
            break
        printed += data
    os.close(fd)
    os.waitpid(pid, 0)
    return printed


def main() -> None:
    environment = {
        "PATH": os.defpath, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": "$ ", "HOME": "/nonexistent",
        "SHELL": "/bin/sh",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as where:
        Path(where, "poem.txt").write_text(POEM)
        Path(where, "tmux.conf").write_text("set -g status-right ''\nset -g default-command 'bash --norc'\n")
        tmux = ["tmux", "-L", "recording", "-f", "tmux.conf", "new-session", "-n", "shell"]
        for name, command, typed in (
            ("vim", ["vim", "-u", "NONE", "-N", "-i", "NONE", "poem.txt"], VIM),
            ("less", ["less", "poem.txt"], LESS),
            ("top", ["top", "-p", str(os.getpid())], TOP),
            ("tmux", tmux, TMUX),
            ("shell", ["bash", "--norc"], SHELL),
        ):
            if shutil.which(command[0]) is None:
                print(f"{command[0]} is not installed", file=sys.stderr)
                continue
            stream = record(command, typed, where, environment)
            (STREAMS / f"{name}.bin").write_bytes(stream)
            print(f"{name}: {len(stream)} bytes")


if __name__ == "__main__":
    main()
