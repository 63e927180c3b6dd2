"""The terminal that a command was started in: raw mode, output that never blocks, signals to wait for, and
everything given back.

Writing to it must not block, as it may be a slow connection or stopped by ^S, and the shell shares it, so
that O_NONBLOCK is not set there. It is opened once more under its own name instead; where that fails, it is
written to in pieces that fit when `select` says so. Imports little, as attaching starts with it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import termios
import time
import tty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MAX_UNSHOWN = 64 * 1024
"""How many bytes may wait for the terminal before no more is taken for it."""
WRITE_SIZE = 16 * 1024
MAX_MESSAGE = 300
"""How many characters of a message for the desktop are given to the terminal."""
RESTORE_WAIT = 2.0
"""Seconds that a terminal which takes no output is given to take what restores it."""

DRAIN_QUIET = 0.03
"""Seconds without input after which what was being typed or pasted is taken to be over."""
DRAIN_WAIT = 1.0
"""Seconds that input may go on arriving before it is left to who comes next."""

_MOUSE_AND_KEYS = "".join(
    f"\x1b[?{mode}l"
    for mode in (1, 9, 66, 67, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2031, 2048, 5522)
)
KITTY_KEYS = b"\x1b[<99u\x1b[=0u"
"""Takes everything off the stack of kitty's keyboard flags, of which each screen has its own."""

SAVE = b"\x1b[22;0t"
"""Keeps the title of the window, where it can be kept."""
MODES_OFF = (
    "\x1b[?2026l"  # show what was held back
    + _MOUSE_AND_KEYS
    + "\x1b>\x1b[>4m"  # keypad, modifyOtherKeys
    + "\x1b[2l\x1b[4l\x1b[12h\x1b[20l"  # keyboard lock, insert mode, local echo, linefeed mode
    + "\x1b[?5l\x1b[?6l\x1b[?7h\x1b[?45l\x1b[?1045l\x1b[?69l\x1b[r"  # colours, origin, wrap, margins
    + "\x1b[?25h\x1b[0 q"
    + "\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[?5W\x1b[0$}"  # character sets, tab stops, status line
    + "\x1b]8;;\x07\x1b]22;text\x07\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07"  # link, pointer, colours
    + '\x1b[0"q\x1b[0m'
).encode()
"""Takes back every mode that a session may have turned on."""
ENTER_ALTERNATE, _LEAVE_ALTERNATE = b"\x1b[?1049h\x1b[2J\x1b[H", b"\x1b[?1049l"
_LEAVE_SCREEN = _LEAVE_ALTERNATE + b"\x1b[?1047l\x1b[?47l"
RESTORE = (
    b"\x18" + KITTY_KEYS + _LEAVE_SCREEN + KITTY_KEYS + MODES_OFF + b"\x1b[23;0t\x1b[999;1H\r\n"
)  # CAN gives up an unfinished sequence
"""Gives back a terminal whose main screen was drawn on. What was shown stays."""
RESTORE_ALTERNATE = b"\x18" + KITTY_KEYS + MODES_OFF + b"\x1b[999;1H\r\n" + _LEAVE_ALTERNATE + b"\x1b[23;0t"
"""Gives back a terminal whose alternate screen was drawn on, with all that it showed before, and the keyboard
flags that its main screen has of its own. The line feed is for terminals that have no alternate screen."""


class LeftTerminal(Exception):
    """A command is done with the terminal: its exit code, and what to tell the person."""

    def __init__(self, code: int = 0, message: str = "") -> None:
        super().__init__(message)
        self.code = code


class TerminalGone(LeftTerminal):
    """The terminal is no more: its window was closed, or its connection lost."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGHUP)


class SignalBell:
    """Signals as something to wait for, in place of what they do otherwise. Use it with `with`."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers
        self._ends = socket.socketpair()

    def __enter__(self) -> SignalBell:
        for end in self._ends:
            end.setblocking(False)
        self._previous = {number: signal.signal(number, lambda *_: None) for number in self._numbers}
        signal.set_wakeup_fd(self._ends[1].fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        for end in self._ends:
            end.close()

    def fileno(self) -> int:
        return self._ends[0].fileno()

    def rung(self) -> list[int]:
        """Return the signals that came."""
        with contextlib.suppress(BlockingIOError):
            return list(self._ends[0].recv(64))
        return []


class OwnTerminal:
    """Standard input and output, mostly a terminal. Use it with `with`: it is given back after it.

    With `alternate`, what is shown goes to the alternate screen, and all that was there before comes back.
    """

    def __init__(self, *, alternate: bool = False) -> None:
        self.input = sys.stdin.fileno()
        self.is_typed = os.isatty(self.input)
        self.unshown = bytearray()
        """What waits until the terminal takes it."""
        self._standard = sys.stdout.fileno()
        self._is_shown = os.isatty(self._standard)
        self._opened = _opened_again(self._standard)
        self.output = self._standard if self._opened is None else self._opened
        self._piece = select.PIPE_BUF if self._opened is None else WRITE_SIZE
        self._before: list[Any] | None = None
        self._used = False
        self._alternate = alternate

    def __enter__(self) -> OwnTerminal:
        if self.is_typed:
            self._before = termios.tcgetattr(self.input)
            self.make_raw()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self._used and self._is_shown:
                self._restore()
        finally:
            self._close_output()
            if self._before is not None:
                with contextlib.suppress(termios.error, OSError):
                    self._drop_input()
                self._set(self._before)

    def _close_output(self) -> None:
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None

    def make_raw(self) -> None:
        """Let every key come as it is typed."""
        if self._before is not None:
            with contextlib.suppress(termios.error, OSError):
                tty.setraw(self.input, termios.TCSANOW)

    def _set(self, mode: list[Any]) -> None:
        with contextlib.suppress(termios.error, OSError):  # not when the terminal is gone
            termios.tcsetattr(self.input, termios.TCSANOW, mode)

    @property
    def size(self) -> tuple[int, int]:
        for descriptor in (self._standard, self.input):
            with contextlib.suppress(OSError):
                found = os.get_terminal_size(descriptor)
                return found.columns, found.lines
        return 80, 24

    @property
    def name(self) -> str:
        """The terminal's name as `ps` and `who` have it; empty if there is none."""
        try:
            return os.ttyname(self.input).removeprefix("/dev/")
        except OSError:
            return ""

    @property
    def behind(self) -> bool:
        """Whether it has so much to show that no more should be given to it."""
        return len(self.unshown) >= MAX_UNSHOWN

    def show(self, data: bytes) -> None:
        """Let it show something; `flush` does it, when the terminal can take it."""
        if not self._used and self._is_shown:
            self.unshown += SAVE + ENTER_ALTERNATE if self._alternate else SAVE
        self._used = True
        self.unshown += data

    def show_now(self, data: bytes) -> None:
        """Show something at once as far as the terminal takes it, without waiting; `flush` does the rest."""
        if not self._used or self.unshown or self._opened is None:
            self.show(data)
        else:
            try:
                written = os.write(self._opened, data)
            except BlockingIOError:
                written = 0
            except OSError:
                raise TerminalGone from None
            if written < len(data):
                self.unshown += data[written:]

    def flush(self) -> None:
        """Write as much as the terminal takes now. Raises Gone, or BrokenPipeError where it is none."""
        try:
            written = os.write(self.output, self.unshown[: self._piece])
        except BlockingIOError:
            return
        except BrokenPipeError:
            raise
        except OSError:
            raise TerminalGone from None
        del self.unshown[:written]

    def read(self, size: int) -> bytes:
        """What was typed; nothing if that is over. Raises Gone."""
        try:
            typed = os.read(self.input, size)
        except OSError:
            raise TerminalGone from None
        if not typed and self.is_typed:
            raise TerminalGone
        return typed

    def _drop_input(self) -> None:
        """Read and drop what still arrives, so that the rest of a paste is not run by the shell. What the
        kernel has is dropped without waiting for output to be taken, which TCSAFLUSH would do."""
        deadline = time.monotonic() + DRAIN_WAIT
        while time.monotonic() < deadline and select.select([self.input], [], [], DRAIN_QUIET)[0]:
            if not os.read(self.input, 65_536):
                break
        termios.tcflush(self.input, termios.TCIFLUSH)

    def _restore(self) -> None:
        """What is not shown yet is dropped: who leaves does not want to wait for it."""
        self.unshown[:] = RESTORE_ALTERNATE if self._alternate else RESTORE
        deadline = time.monotonic() + RESTORE_WAIT
        with contextlib.suppress(TerminalGone, OSError):
            while self.unshown and (left := deadline - time.monotonic()) > 0:
                if select.select([], [self.output], [], left)[1]:
                    self.flush()


def _opened_again(descriptor: int) -> int | None:
    """The terminal of a descriptor, opened so that writing does not block; the other one stays as it is."""
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


def desktop_message(title: str, text: str, environ: Mapping[str, str]) -> bytes:
    """What makes a terminal show a message on the desktop that it is on: OSC 777 where that is known, else
    OSC 9. A terminal that knows neither ignores it."""
    if environ.get("TERM", "") in ("", "dumb", "linux"):
        return b""
    shown = "".join(filter(str.isprintable, text))[:MAX_MESSAGE]
    has_777 = "VTE_VERSION" in environ or environ.get("TERM", "").startswith(("foot", "rxvt"))
    said = f"777;notify;{title};{shown.replace(';', ',')}" if has_777 else f"9;{title}: {shown}"
    return f"\x1b]{said}\x1b\\".encode("utf-8", "replace")
