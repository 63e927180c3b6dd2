"""The terminal of a chat: keys one by one, with names.

The terminal's own line feeds and wrapping stay on, so what was said can be scrolled back, marked and copied
as any other output.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios

from ...formats.columns import CUT
from ..own_terminal import OwnTerminal, SignalBell, TerminalGone
from .line import Key, LineKeys

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


class ChatTerminal(OwnTerminal):
    """Standard input and output, both a terminal. Use it with `with`: it is given back after it."""

    def __init__(self) -> None:
        super().__init__()
        self.bell = SignalBell(*_SIGNALS)
        self.keys = LineKeys()

    def __enter__(self) -> ChatTerminal:
        self._before = termios.tcgetattr(self.input)
        self.bell.__enter__()
        self.enter()
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(TerminalGone):
            self.leave()
        self._close_output()
        self.bell.__exit__()

    def enter(self) -> None:
        """Let keys come one by one, without echo, and ^C and ^Z as keys."""
        mode = termios.tcgetattr(self.input)
        mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IXON)
        mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        self._set(mode)
        self.write(_ENTER)

    def leave(self) -> None:
        """Make the terminal what it was before."""
        if self._before is not None:
            self._set(self._before)
        self.write(_LEAVE)

    def suspend(self) -> None:
        """Stop, as ^Z does it, until the shell lets us go on."""
        self.leave()
        noted = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, noted)
        self.enter()

    def drop_typed(self) -> None:
        """Drop what was typed and not read yet."""
        with contextlib.suppress(termios.error, OSError):
            termios.tcflush(self.input, termios.TCIFLUSH)
        self.keys = LineKeys()

    def write(self, text: str) -> None:
        """Show something, however long that takes. Raises Gone."""
        encoding, errors = sys.stdout.encoding, str(sys.stdout.errors).replace("strict", "replace")
        if not encoding.lower().startswith("utf"):
            text = text.replace(CUT, "~")  # as wide as it was
        self.unshown += text.encode(encoding, errors)
        while self.unshown:
            select.select([], [self.output], [])
            self.flush()

    def typed(self) -> list[Key]:
        """Return what was typed. Raises Gone."""
        return self.keys.feed(self.read(READ_SIZE))
