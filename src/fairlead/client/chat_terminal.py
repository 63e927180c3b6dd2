"""The terminal of a chat: keys one by one, signals as something to wait for, and everything given back.

Output goes to standard output as it is; the terminal's own line feeds and wrapping stay on, so what was said
can be scrolled back, marked and copied as any other output.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import termios
from types import FrameType
from typing import Any

from ..formats.columns import CUT
from .chat_line import Key, Keys
from .own_terminal import Gone

READ_SIZE = 65_536

_SIGNALS = (
    signal.SIGWINCH,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
)
_ENTER, _LEAVE = "\x1b[?2004h", "\x1b[?2004l\x1b[0m\x1b[?25h"


def _noted(number: int, frame: FrameType | None) -> None:
    """The bell rings for it."""


class ChatTerminal:
    """Standard input and output, both a terminal. Use it with `with`: it is given back after it."""

    def __init__(self) -> None:
        self.input = sys.stdin.fileno()
        self._output = sys.stdout.fileno()
        self.bell, self._ringer = socket.socketpair()
        self._before: list[Any] = termios.tcgetattr(self.input)
        self._handlers: dict[int, Any] = {}
        self._keys = Keys()

    def __enter__(self) -> ChatTerminal:
        for each in (self.bell, self._ringer):
            each.setblocking(False)
        self._handlers = {number: signal.signal(number, _noted) for number in _SIGNALS}
        signal.set_wakeup_fd(self._ringer.fileno(), warn_on_full_buffer=False)
        self.enter()
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(Gone):
            self.leave()
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.bell.close()
        self._ringer.close()

    def enter(self) -> None:
        """Keys come one by one, without echo, and ^C and ^Z are keys."""
        mode = termios.tcgetattr(self.input)
        mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IXON)
        mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        self._set(mode)
        self.write(_ENTER)

    def leave(self) -> None:
        """The terminal is as it was before."""
        self._set(self._before)
        self.write(_LEAVE)

    def suspend(self) -> None:
        """Stop, as ^Z does it, until the shell lets us go on."""
        self.leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, _noted)
        self.enter()

    def _set(self, mode: list[Any]) -> None:
        with contextlib.suppress(termios.error, OSError):  # not when the terminal is gone
            termios.tcsetattr(self.input, termios.TCSANOW, mode)

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        with contextlib.suppress(OSError):
            found = os.get_terminal_size(self._output)
            if found.columns and found.lines:
                return found.columns, found.lines
        return 80, 24

    def write(self, text: str) -> None:
        """Show something. Raises Gone."""
        encoding, errors = sys.stdout.encoding, str(sys.stdout.errors).replace("strict", "replace")
        if not encoding.lower().startswith("utf"):
            text = text.replace(CUT, "~")  # as wide as it was
        data = memoryview(text.encode(encoding, errors))
        while data:
            try:
                data = data[os.write(self._output, data) :]
            except BlockingIOError:  # somebody else has set it so
                select.select([], [self._output], [])
            except OSError as error:
                raise Gone(str(error)) from None

    def typed(self) -> list[Key]:
        """What was typed. Raises Gone."""
        try:
            data = os.read(self.input, READ_SIZE)
        except OSError as error:
            raise Gone(str(error)) from None
        if not data:
            raise Gone("end of the terminal's input")
        return self._keys.feed(data)

    @property
    def is_escape_pending(self) -> bool:
        return self._keys.is_pending

    def escape(self) -> list[Key]:
        """Nothing followed it: it was a key of its own."""
        return self._keys.flush()

    def signals(self) -> list[int]:
        """Those that came."""
        with contextlib.suppress(BlockingIOError):
            return list(self.bell.recv(64))
        return []
