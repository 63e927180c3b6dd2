"""A question with yes or no, asked in a terminal before something is lost."""

from __future__ import annotations

import contextlib
import signal
import sys
import termios
from types import FrameType
from typing import NoReturn


class _Continued(Exception):
    """We were stopped, and go on."""


def has_agreed(question: str) -> bool:
    """Whether the person at the terminal says yes. After we were stopped it is asked again: others may have
    used the terminal, and what was typed meanwhile was for nobody."""
    before = signal.signal(signal.SIGCONT, _ask_again)
    try:
        while True:
            try:
                return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
            except _Continued:
                with contextlib.suppress(termios.error, OSError, ValueError):
                    termios.tcflush(sys.stdin, termios.TCIFLUSH)
                print()
            except EOFError:
                print()
                return False
    finally:
        signal.signal(signal.SIGCONT, before)


def _ask_again(number: int, frame: FrameType | None) -> NoReturn:
    raise _Continued
