"""Playing a recording in one's own terminal: what `fairlead play` does.

The recorded output is written at its times, through a filter that leaves out what a terminal must not act on:
a recording may be somebody else's. A jump shows the screen as it was then: with a `PlayerPicture`,
an emulated terminal that is fed instead of ours, by painting what that shows; without one by a full reset
and all the output up to then. Where a picture and a filter come from is the caller's business.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn, Protocol

from ..formats.asciicast import RESIZE, read_size
from .cast import Cast
from .keys import ALT, LEFT, RIGHT, KeyReader
from .own_terminal import LeftTerminal, OwnTerminal
from .translate import Translator

STEP = 5.0
"""Seconds that the arrow keys jump."""
MIN_SPEED, MAX_SPEED = 1 / 64, 64.0
READ_SIZE = 4096
PIECE = 256 * 1024
"""How many bytes are gathered before they are written where nobody watches."""

RESET = b"\x18\x1bc"
"""Give up an unfinished sequence, full reset, no scrollback."""
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

_ARROWS = {LEFT: "<", RIGHT: ">"}


class PlayerPicture(Protocol):
    """An emulated terminal."""

    def feed(self, data: bytes) -> None: ...

    def resize(self, cols: int, rows: int) -> None: ...

    def redraw(self) -> bytes:
        """What makes a terminal show the same."""

    def close(self) -> None: ...


MakePicture = Callable[[int, int], PlayerPicture]
Filter = Callable[[bytes], bytes]
"""Takes output, cut anywhere, and gives what the terminal may see of it."""
MakeFilter = Callable[[], Filter]


class Player:
    """Plays a cast from a time to a time."""

    def __init__(
        self,
        cast: Cast,
        *,
        start: float = 0.0,
        end: float | None = None,
        speed: float = 1.0,
        make_picture: MakePicture | None = None,
        make_filter: MakeFilter,
    ) -> None:
        self._cast = cast
        self._end = cast.duration if end is None else min(end, cast.duration)
        self._start = min(start, self._end)
        self._last = cast.until(self._end)  # the number of events that are played
        self._next = 0
        self._speed = speed
        self._paused = False
        self._reached = 0.0  # the time in the recording at the moment `_since`
        self._since = time.monotonic()
        self._make_picture = make_picture
        self._make_filter = make_filter
        self._filter = make_filter()
        self._translator = Translator(alternate=False)
        self._picture: PlayerPicture | None = None  # made at the first jump, as most are played through

    # --- where nobody watches -----------------------------------------------------------------------------

    def write(self, descriptor: int) -> None:
        """Write all at once, without waiting."""
        gathered = bytearray()
        if self._start:
            gathered += self._jump(self._start)
        while self._next < self._last or gathered:
            while self._next < self._last and len(gathered) < PIECE:
                gathered += self._drawn_bytes(self._take())
            view = memoryview(bytes(gathered))
            gathered.clear()
            while view:
                view = view[os.write(descriptor, view) :]

    # --- where somebody does ------------------------------------------------------------------------------

    def play(self) -> int:
        """Play in this terminal until the end, or until the person has seen enough. Gives the exit code."""
        previous = {number: signal.signal(number, _end_by_signal) for number in _SIGNALS}
        try:
            with OwnTerminal() as terminal:
                if self._start:
                    terminal.show(self._jump(self._start))
                self._since = time.monotonic()
                keys = KeyReader()
                while True:
                    self._turn(terminal, keys)
        except LeftTerminal as left:
            return left.code
        except BrokenPipeError:
            return 128 + signal.SIGPIPE
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _turn(self, terminal: OwnTerminal, keys: KeyReader) -> None:
        """Do what is due, then wait for the next event, for a key, or for the terminal."""
        now = self._now()
        while self._next < self._last and self._cast.time(self._next) <= now and not terminal.behind:
            terminal.show(self._drawn_bytes(self._take()))
        over = self._next >= self._last and now >= self._end and not self._paused
        if over and not terminal.unshown:
            raise LeftTerminal
        reading = [terminal.input] if terminal.is_typed else []
        writing = [terminal.output] if terminal.unshown else []
        readable, writable, _ = select.select(reading, writing, [], self._pause(now, terminal))
        if writable:
            terminal.flush()
        if readable:
            for code, _ in keys.read(terminal.read(READ_SIZE), time.monotonic()):
                self._typed(chr(code) if code < 128 else _ARROWS.get(code & ~ALT, ""), terminal)

    def _pause(self, now: float, terminal: OwnTerminal) -> float | None:
        """Seconds until the next event is due."""
        if terminal.behind or (terminal.unshown and self._next >= self._last):
            return None
        if self._paused and (self._next >= self._last or self._cast.time(self._next) > now):
            return None
        due = self._cast.time(self._next) if self._next < self._last else self._end
        return max(0.0, due - now) / self._speed

    def _typed(self, key: str, terminal: OwnTerminal) -> None:
        match key:
            case "q" | "\x03":
                raise LeftTerminal
            case " ":
                self._set_clock(paused=not self._paused)
            case "." if self._paused:
                if self._next < self._last:
                    self._set_clock(self._cast.time(self._next))
            case "<" | ">":
                self._seek(self._now() + (STEP if key == ">" else -STEP), terminal)
            case "+" | "=":
                self._set_clock(speed=self._speed * 2)
            case "-" | "_":
                self._set_clock(speed=self._speed / 2)
            case _ if key.isascii() and key.isdigit():
                self._seek(self._end * int(key) / 10, terminal)

    def _now(self) -> float:
        """The time in the recording."""
        if self._paused:
            return self._reached
        return min(self._end, self._reached + (time.monotonic() - self._since) * self._speed)

    def _set_clock(
        self, at: float | None = None, *, paused: bool | None = None, speed: float | None = None
    ) -> None:
        self._reached = self._now() if at is None else at
        self._since = time.monotonic()
        if paused is not None:
            self._paused = paused
        if speed is not None:
            self._speed = min(MAX_SPEED, max(MIN_SPEED, speed))

    def _seek(self, at: float, terminal: OwnTerminal) -> None:
        terminal.unshown.clear()  # what is not shown yet is not seen at the other time
        terminal.show(self._jump(at))

    # --- the recording ------------------------------------------------------------------------------------

    def _jump(self, at: float) -> bytes:
        """Go to a time; gives what the terminal is to show first. Without a picture all before it is due."""
        at = min(self._end, max(0.0, at))
        self._set_clock(at)
        self._filter = self._make_filter()
        self._translator = Translator(alternate=False)
        if self._make_picture is None:
            self._next = 0
            return self._drawn_bytes(RESET)
        wanted = self._cast.until(at)
        if self._picture is None or wanted < self._next:
            self.close()
            self._picture = self._make_picture(self._cast.header.cols, self._cast.header.rows)
            self._next = 0
        while self._next < wanted:
            self._take()
        return self._drawn_bytes(self._picture.redraw())

    def _drawn_bytes(self, printed: bytes) -> bytes:
        """What a terminal gets of this, which keeps its own lines and scrollback."""
        return self._translator.translate(self._filter(printed))

    def close(self) -> None:
        """Give up the picture."""
        if self._picture is not None:
            self._picture.close()
            self._picture = None

    def _take(self) -> bytes:
        """The next event: what the program printed."""
        event = self._cast.event(self._next)
        self._next += 1
        if event.code == RESIZE:
            if self._picture is not None:
                self._picture.resize(*read_size(event.data))
            return b""
        data = event.data.encode("utf-8", "replace")
        if self._picture is not None:
            self._picture.feed(data)
        return data


def _end_by_signal(number: int, frame: FrameType | None) -> NoReturn:
    raise LeftTerminal(128 + number)


def play(
    path: str,
    *,
    start: float = 0.0,
    end: float | None = None,
    speed: float = 1.0,
    idle_limit: float | None = None,
    make_picture: MakePicture | None = None,
    make_filter: MakeFilter,
) -> int:
    """Play a recording in this terminal, or write it where the output is none. Raises CastError."""
    with Cast(path, idle_limit=idle_limit) as cast:
        player = Player(
            cast, start=start, end=end, speed=speed, make_picture=make_picture, make_filter=make_filter
        )
        with contextlib.closing(player):
            if sys.stdout.isatty():
                return player.play()
            player.write(sys.stdout.fileno())
            return 0
