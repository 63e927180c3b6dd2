"""The screen of a terminal session: an emulated terminal that can be kept, redrawn, read and searched.

`Screen` is all that the rest of Fairlead knows of terminal emulation. It does no I/O. One thread at a time
may use a screen; while it is fed, other threads run.

Two ways lead out of a screen. A *keyframe* (`snapshot`, `Screen.restore`) is exact and for another `Screen`
only. A *redraw* is for a client's terminal, whatever that is.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self

from .. import keys
from ..pace import Pace, cut_down
from . import events, picture, text
from .cells import is_halved, runs
from .emulator import BACKGROUND, FOREGROUND, Emulator, Limits, NativeError, char_width
from .events import Bell, Clipboard, Cwd, Event, KittyNotifications, Notification, Outbox, Progress, Title
from .keyframe import ENVELOPE, MAGIC, RECORD, VERSION, CellRow, Keyframe, Rgb, SavedMode, ScreenState, Tag
from .paint import DEFAULT, encoded, linked, protect
from .redraw import Redraw
from .text import MAX_MATCHES, Match

__all__ = [
    "Bell",
    "Clipboard",
    "Cursor",
    "Cwd",
    "Event",
    "KeyframeError",
    "Match",
    "Notification",
    "Progress",
    "Screen",
    "ScreenModes",
    "Title",
    "fit",
]

MAX_SIZE = 10_000
"""The largest number of columns or of rows."""
MAX_CELLS = 1_000_000
"""How many cells a screen may have, which take 8 bytes each, twice if there is an alternate screen."""
SCROLLBACK_LINES = 10_000
"""How many rows of scrollback are kept unless told otherwise."""
SCROLLBACK_BYTES = 16 * 1024 * 1024
"""How much memory scrollback may take unless told otherwise. Whichever limit comes first holds."""
MAX_UNFINISHED = 256 * 1024
"""How long a sequence may be. What is longer is cut, as terminals do."""
FEED_SLICE = 16 * 1024
"""How much is fed at once. Between slices floods are noticed."""
LONG = 4096
"""How long an unfinished sequence is when its size is counted here and not asked for."""
SMALL = 256
"""How many bytes are drawn without a look at the clock."""
FLOOD = 1000
"""How many bells, titles, questions and the like one slice may have before they are ignored for a while."""
FLOOD_PAUSE = 1024 * 1024
"""For how many bytes they are then ignored: a bell costs a thousand times what a letter costs."""

_INPUT, _PROMPT = 1, 2
"""What cells are, if a shell tells (OSC 133): typed by the user, or its prompt."""

# What ends a sequence that is too long, by what it begins with. All else in it can be left out.
_ENDS = {
    b"\x1b[": re.compile(rb"[^\x20-\x3f]"),
    b"\x1b]": re.compile(rb"[\x07\x18\x1a\x1b]"),
    b"\x1bP": re.compile(rb"[\x18\x1a\x1b]"),
    b"\x1b_": re.compile(rb"[\x18\x1a\x1b]"),
    b"\x1b^": re.compile(rb"[\x18\x1a\x1b]"),
    b"\x1bX": re.compile(rb"[\x18\x1a\x1b]"),
}
_ESCAPE_END = re.compile(rb"[^\x20-\x2f]")
_SEQUENCE_REST = re.compile(rb"\[?[^\x1b\x40-\x7e]*[\x40-\x7e]?")
_SWITCHING = re.compile(rb"\x1b\[\?(?:[0-9]*[;:])*0*40(?:[;:][0-9]*)*h")
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_MOUSE = ("none", "x10", "normal", "button", "any")


class KeyframeError(ValueError):
    """What should be a keyframe is none, or none that this version can read."""


class Cursor(NamedTuple):
    """Where the cursor is and how it looks. Counted from 0 at the top left."""

    x: int
    y: int
    visible: bool
    shape: str
    """`block`, `bar` or `underline`."""
    blinking: bool


class ScreenModes(NamedTuple):
    """What a program has asked of its terminal, as far as it matters to those who type and watch."""

    bracketed_paste: bool
    mouse: str
    """Which movements of the mouse it wants: `none`, `x10`, `normal`, `button` or `any`."""
    mouse_sgr: bool
    application_cursor_keys: bool
    application_keypad: bool
    kitty_keyboard: int
    """The flags of kitty's keyboard protocol; 0 if it is not used."""
    focus_events: bool
    alternate_scroll: bool
    insert: bool
    origin: bool
    wrap: bool
    reverse_colors: bool
    synchronized_output: bool


class KeptLines(NamedTuple):
    """The lines of a screen and its scrollback."""

    texts: list[str]
    cursor: int
    """In which of them the cursor is."""
    printed: int
    """In which of them the primary screen's cursor is, whichever screen is shown."""


class LastRows(NamedTuple):
    """The last rows of a screen."""

    rows: list[CellRow]
    cursor: tuple[int, int, bool]
    """Its column, its row among these, and whether it is visible."""
    repaints: bool
    """True while the program draws what should be shown only when it is whole (synchronized output)."""


def fit(cols: int, rows: int) -> tuple[int, int]:
    """The nearest size that a screen can have."""
    cols = min(max(cols, 1), MAX_SIZE)
    return cols, min(max(rows, 1), MAX_SIZE, MAX_CELLS // cols)


class Screen:
    """One emulated terminal.

    >>> screen = Screen(80, 24)
    >>> screen.feed(b"hello \\x1b[1mworld\\x1b[0m\\x1b[6n")
    >>> screen.text()
    'hello world'
    >>> screen.take_replies()
    b'\\x1b[1;12R'
    >>> again = Screen.restore(screen.snapshot())
    >>> again.text()
    'hello world'
    >>> screen.close(), again.close()
    (None, None)
    """

    def __init__(
        self,
        cols: int,
        rows: int,
        *,
        scrollback_lines: int = SCROLLBACK_LINES,
        scrollback_bytes: int = SCROLLBACK_BYTES,
    ) -> None:
        cols, rows = fit(cols, rows)
        outbox = Outbox()
        emulator = Emulator.new(cols, rows, _limits(scrollback_lines, scrollback_bytes), outbox)
        self._begin(emulator, outbox, cols, rows)

    def _begin(self, emulator: Emulator, outbox: Outbox, cols: int, rows: int) -> None:
        self._emulator: Emulator | None = emulator
        self._outbox = outbox
        self._cols, self._rows = cols, rows
        self._notifications = KittyNotifications()
        self._title = emulator.title()
        self._pwd = emulator.pwd()
        if emulator.unfinished_size():
            self._notifications.find(emulator.unfinished())
        self._deaf = 0  # for how many bytes signals are still ignored
        self._pace = Pace()
        self._ends: re.Pattern[bytes] | None = None  # what ends the sequence, if a long one is unfinished
        self._skips = False  # whether that is too long
        self._ask_unfinished(emulator)

    @classmethod
    def restore(
        cls,
        blob: bytes,
        *,
        scrollback_lines: int = SCROLLBACK_LINES,
        scrollback_bytes: int = SCROLLBACK_BYTES,
    ) -> Self:
        """Make the screen that `snapshot` was called on.

        Raises `KeyframeError` if that can't be done.
        """
        cols, rows = _size_of(blob)
        outbox = Outbox()
        try:
            emulator, used = Emulator.decode(blob, cols, _limits(scrollback_lines, scrollback_bytes), outbox)
        except NativeError as error:
            raise KeyframeError(f"the keyframe of {len(blob)} bytes is damaged or cut off") from error
        if used != len(blob):
            emulator.close()
            raise KeyframeError(f"after the keyframe of {used} bytes there are {len(blob) - used} more")
        screen = cls.__new__(cls)
        screen._begin(emulator, outbox, cols, rows)
        return screen

    def __repr__(self) -> str:
        state = "closed" if self._emulator is None else "open"
        return f"<Screen {self._cols}×{self._rows}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the memory. Calling it again does nothing; anything else is a `ValueError` from now on."""
        if self._emulator is not None:
            self._emulator.close()
            self._emulator = None

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._emulator is None

    @property
    def _open(self) -> Emulator:
        if self._emulator is None:
            raise ValueError("the screen is closed")
        return self._emulator

    # --- what goes in ---------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take what the program printed: any bytes, cut anywhere."""
        self.feed_for(data, math.inf)

    def feed_for(self, data: bytes, seconds: float) -> int:
        """Take what the program printed for about so long; gives how many bytes were taken, one at least."""
        emulator = self._open
        deadline = time.perf_counter() + seconds
        taken = 0
        while taken < len(data):
            taken += self._feed(emulator, data[taken : taken + FEED_SLICE], deadline)
            if time.perf_counter() > deadline:
                break
        return taken

    def _feed(self, emulator: Emulator, data: bytes, deadline: float) -> int:
        """Take a slice, or as much of it as time allows; gives how many bytes that was."""
        taken = 0
        while taken < len(data) and self._is_too_long(emulator, len(data) - taken):
            taken += self._skip(emulator, data[taken:])
        if not taken and self._unfinished:
            # What ends here may be the mode that nobody may set: with that, the rest would take very long.
            rest = _SEQUENCE_REST.match(data)
            taken = rest.end() if rest is not None else 0
            self._write(emulator, data[:taken], math.inf)
        if taken < len(data):
            more = data[taken:] if taken else data
            if b"?" in more and b"40" in more:
                more = more.replace(b"\x1b[?40h", b"\x1b[?00h")  # as it is usually said, at no cost
                more = _SWITCHING.sub(_without_switching, more)
            if self._pace.is_wary:
                more = cut_down(more, self._cols, self._rows)
            taken += self._write(emulator, more, deadline)
        for note in self._notifications.find(data if taken == len(data) else data[:taken]):
            self._outbox.add(note)
        self._hear(emulator, taken, is_cut=taken < len(data))
        return taken

    def _is_too_long(self, emulator: Emulator, more: int) -> bool:
        if self._unfinished + more > MAX_UNFINISHED and not self._skips:
            self._ask_unfinished(emulator)
            self._skips = self._unfinished + more > MAX_UNFINISHED
        return self._skips

    def _skip(self, emulator: Emulator, data: bytes) -> int:
        """Leave out what lies before the end of a sequence that is too long; gives where the end is."""
        assert self._ends is not None
        match = self._ends.search(data)
        if match is None:
            return len(data)
        self._write(emulator, data[match.start() : match.end()], math.inf)
        self._skips = False
        return match.end()

    def _ask_unfinished(self, emulator: Emulator) -> None:
        """Ask how long an unfinished sequence is, which takes as long as it is, and by what it ends."""
        self._unfinished = emulator.unfinished_size()
        self._ends = None
        if self._unfinished >= LONG:
            self._ends = _ENDS.get(emulator.unfinished()[:2], _ESCAPE_END)

    def _write(self, emulator: Emulator, data: bytes, deadline: float) -> int:
        """Draw until then, looking at the clock now and then; gives how many bytes were drawn."""
        taken = size = len(data)
        if size <= SMALL:
            emulator.write(data)
        else:
            taken = self._write_steps(emulator, data, deadline)
        ground, cols, switches = emulator.settled()
        if ground:
            self._unfinished, self._ends = 0, None
        elif self._ends is not None and self._ends.search(data, 0, taken) is None:
            self._unfinished += taken
        else:
            self._ask_unfinished(emulator)
        if switches:
            emulator.forbid_column_switching()
        if cols != self._cols:
            emulator.resize(self._cols, self._rows)
        return taken

    def _write_steps(self, emulator: Emulator, data: bytes, deadline: float) -> int:
        began = time.thread_time()  # of the processor, as the machine may be busy with something else
        size, step = len(data), self._pace.step
        taken = 0
        while taken < size:
            emulator.write(data[taken : taken + step] if step < size else data)
            taken += step
            if time.perf_counter() > deadline:
                break
        taken = min(taken, size)
        self._pace.drew(taken, time.thread_time() - began)
        return taken

    def _hear(self, emulator: Emulator, size: int, *, is_cut: bool) -> None:
        """See what was said while feeding, and stop listening to who says too much in one slice."""
        outbox = self._outbox
        if outbox.calls > FLOOD:
            emulator.listen(False)
            self._deaf = FLOOD_PAUSE
            outbox.calls = 0
        elif self._deaf:
            self._deaf = max(0, self._deaf - size)
            if not self._deaf:
                emulator.listen(True)
                outbox.renamed = outbox.moved = True
        if not is_cut:  # else the slice goes on next time
            outbox.calls = 0
        if outbox.renamed:
            outbox.renamed = False
            title = emulator.title()
            if title != self._title:
                self._title = title
                outbox.add(Title(events.decoded(title)))
        if outbox.moved:
            outbox.moved = False
            pwd = emulator.pwd()
            if pwd != self._pwd:
                self._pwd = pwd
                outbox.add(Cwd(events.local_path(pwd)))

    def resize(self, cols: int, rows: int) -> None:
        """Change the size; lines that were wrapped are wrapped anew. An absurd size becomes a good one."""
        emulator = self._open
        cols, rows = fit(cols, rows)
        if cols < self._cols:
            emulator.write(_before_narrowing(self._frame(), cols))
        emulator.resize(cols, rows)
        self._cols, self._rows = cols, rows

    @property
    def unfinished(self) -> bytes:
        """The beginning of a sequence or character that has not ended."""
        return self._open.unfinished() if self._unfinished else b""

    # --- what the program says besides ----------------------------------------------------------------------

    def take_replies(self) -> bytes:
        """The answers to the program's questions since the last call, to be typed to it.

        Send them only while no real terminal is attached, for that answers by itself.
        """
        return self._outbox.take_replies()

    def take_events(self) -> list[Event]:
        """What happened since the last call, the oldest first."""
        return self._outbox.take_events()

    # --- keyframes ------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """A keyframe: all of the state, for `restore`. It has no images, for none are kept."""
        return self._open.snapshot()

    # --- what it shows --------------------------------------------------------------------------------------

    def redraw(self, max_bytes: int, *, scrollback: bool = True) -> bytes:
        """The bytes that make a terminal of the same size show exactly this, and go on from here.

        First the terminal is reset. Then comes as much scrollback as fits into `max_bytes` together with the
        rest, dropping the oldest rows; then the screens, all state, and at the very end the beginning of a
        sequence or character that has not ended. If not even the screens fit, rows from the top are left out.

        Not exact are: images, which are not kept; the cursor's place in origin mode outside of the margins; a
        cursor that waits to wrap in a column that is not the last, or over a blank, which becomes a space;
        the character to be repeated by `CSI n b`, if it is nowhere on a full screen; marks of prompts on rows
        that are blank.

        Raises `ValueError` if `max_bytes` is less than the state alone takes.
        """
        painting = Redraw(max_bytes, scrollback=scrollback, char_width=char_width)
        self._open.records(painting.take)
        return painting.done()

    def _frame(self, *, history: bool = False) -> Keyframe:
        frame = Keyframe(history=history)
        self._open.records(frame.take)
        return frame

    def text(self, scrollback: bool = False, *, unwrap: bool = False) -> str:
        """What is shown, as plain text: one line a row, or one line a printed line with `unwrap`.

        With `scrollback`, what was scrolled off the primary screen comes first.
        """
        frame = self._frame(history=scrollback)
        above = frame.scrollback() if scrollback else []
        return text.plain([*above, *frame.shown(frame.active)], unwrap=unwrap)

    def readings(self) -> list[str]:
        """What is shown, as the lines that were printed, and as its rows if some of them wrap."""
        frame = self._frame()
        shown = frame.shown(frame.active)
        return list(dict.fromkeys(text.plain(shown, unwrap=unwrap) for unwrap in (True, False)))

    def before_cursor(self, ended: int) -> Callable[[], str]:
        """The last lines that have ended on the primary screen, and the one that has not; blank rows at the
        cursor count. What is there is taken now, and the result may be called in another thread."""
        frame = self._frame(history=ended > 0)
        primary = frame.screens[0]
        rows = [*(frame.scrollback() if ended else ()), *frame.shown(primary)[: primary.y + 1]]

        def read() -> str:
            texts = [line.text for line in text.logical_lines(rows)][-ended - 1 :]
            return "\n".join(texts) + ("\n" if texts[-1] and not primary.x else "")

        return read

    def last_rows(self, limit: int) -> LastRows:
        """The last rows that are shown, so many at most."""
        frame = self._frame()
        rows = frame.shown(frame.active)
        cursor = _cursor(frame)
        at = cursor.y - max(0, len(rows) - limit)
        repaints = frame.terminal.modes & SavedMode.SYNCHRONIZED != 0
        return LastRows(rows[-limit:], (cursor.x, at, cursor.visible), repaints)

    def lines(self) -> KeptLines:
        """The scrollback and what is shown as the lines that were printed."""
        frame = self._frame(history=True)
        above = frame.scrollback()

        def placed(buffer: ScreenState) -> tuple[list[text.Logical], int]:
            found = list(text.logical_lines([*above, *frame.shown(buffer)]))
            return found, sum(line.first <= len(above) + buffer.y for line in found) - 1

        found, cursor = placed(frame.active)
        printed = placed(frame.screens[0])[1] if frame.terminal.alternate else cursor
        return KeptLines([line.text for line in found], cursor, printed)

    @property
    def has_lost_rows(self) -> bool:
        """Whether rows were dropped from the top of the scrollback, or all by a reset."""
        return not self._open.has_top()

    def ansi(self, scrollback: bool = False) -> bytes:
        """What is shown, as text with sequences for its colours, to be printed to any terminal or pager.

        With `scrollback`, what was scrolled off the primary screen comes first.
        """
        frame = self._frame(history=scrollback)
        above = frame.scrollback() if scrollback else []
        return text.colored([*above, *frame.shown(frame.active)]).encode()

    def html(self) -> str:
        """What is shown, as a `pre` element."""
        frame = self._frame()
        return picture.html(frame, _palette(frame), char_width)

    def svg(self) -> str:
        """What is shown, as an SVG document."""
        frame = self._frame()
        return picture.svg(frame, _palette(frame), char_width)

    def png(self) -> bytes:
        """What is shown, as a PNG image. Needs Pillow, else it raises `ImportError`."""
        return self.png_of_now()()

    def png_of_now(self) -> Callable[[], bytes]:
        """What draws what is shown now. That takes long, needs nothing of ours and may be done elsewhere."""
        frame = self._frame()
        return lambda: picture.png(frame, _palette(frame), char_width)

    def cells(self) -> dict[str, Any]:
        """What is shown, as a model that JSON can carry.

        `lines` has a row each with `wraps` and `runs`; a run has `x`, `width` (in columns), `text`, `fg` and
        `bg` (a number of the palette, `#rrggbb`, or null), `attributes`, and a `link` if there is one. Blanks
        without a colour are left out.
        """
        frame = self._frame()
        return {
            "cols": self._cols,
            "rows": self._rows,
            "title": self.title,
            "cwd": self.cwd,
            "alternate": self.alternate,
            "at_prompt": self.at_prompt,
            "cursor": _cursor(frame)._asdict(),
            "modes": _modes(frame)._asdict(),
            "lines": picture.model(frame),
        }

    def search(self, needle: str, *, regex: bool = False, limit: int = MAX_MATCHES) -> list[Match]:
        """Find a text, or what a regular expression matches, in the scrollback and on the screen.

        Lines are searched as they were printed, whatever their wraps. Raises `ValueError` for an empty needle
        and for a pattern that is none, and `TimeoutError` if it takes too long.
        """
        return self.searcher(needle, regex=regex, limit=limit)(lambda: True)

    def searcher(
        self, needle: str, *, regex: bool = False, limit: int = MAX_MATCHES
    ) -> Callable[[Callable[[], bool]], list[Match]]:
        """The same in two steps: what is shown is taken now, and the result may be called in another thread.

        It takes a function that says whether the search goes on.
        """
        frame = self._frame(history=True)
        lines = [*frame.scrollback(), *frame.shown(frame.active)]

        def search(goes_on: Callable[[], bool]) -> list[Match]:
            return text.search(
                lines, needle, regex=regex, limit=limit, char_width=char_width, goes_on=goes_on
            )

        return search

    # --- properties -----------------------------------------------------------------------------------------

    @property
    def cols(self) -> int:
        return self._cols

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def cursor(self) -> Cursor:
        return _cursor(self._frame())

    @property
    def title(self) -> str:
        """The window's title, as the program has set it."""
        return events.decoded(self._open.title())

    @property
    def cwd(self) -> str:
        """The directory that the program says it is in, or nothing."""
        return events.local_path(self._open.pwd())

    @property
    def alternate(self) -> bool:
        """Whether the alternate screen is shown, as by editors and pagers."""
        return self._open.alternate()

    @property
    def at_prompt(self) -> bool:
        """Whether the cursor is where a shell reads a command, if the shell tells (OSC 133)."""
        return self._open.at_prompt()

    @property
    def is_input_empty(self) -> bool:
        """Whether the cursor is right behind a prompt that a shell has marked from its begin to its end
        (OSC 133), and nothing was typed there."""
        if not self.at_prompt or self.alternate:
            return False
        frame = self._frame()
        cursor, screen = _cursor(frame), frame.active
        if screen.semantic != _INPUT:
            return False
        own, *below = list(frame.shown(screen))[cursor.y :]
        before = [run for run in runs(own) if run.text.strip() and run.x < cursor.x]
        is_prompt = bool(before) and all(run.semantic == _PROMPT for run in before)
        typed = (run for line in (own, *below) for run in runs(line) if run.text.strip())
        is_typed = any(run.semantic == _INPUT for run in typed)
        blank = any(run.semantic == _INPUT and run.text and run.x < cursor.x for run in runs(own))
        return is_prompt and not own.secondary_prompt and not is_typed and not blank

    @property
    def scrollback_rows(self) -> int:
        """How many rows are above the screen."""
        return self._open.scrollback_rows()

    @property
    def modes(self) -> ScreenModes:
        return _modes(self._frame())

    # --- what is typed --------------------------------------------------------------------------------------

    def key(self, name: str) -> bytes:
        """What the program reads when a key is pressed: `Enter`, `C-c`, `M-x`, `S-Tab`, `F5`, `Up`, `x`.

        Names are tmux's. Raises `ValueError` for one that is unknown.
        """
        emulator = self._open
        key = keys.named(name)
        if key.classic is not None and not emulator.keyboard_flags():
            return key.classic
        return emulator.key(key.place, key.text, key.unshifted, key.modifiers, key.consumed)

    def paste(self, text: str) -> bytes:
        """What the program reads when text is pasted.

        It is marked as pasted if the program has asked for that. Control characters, which could end the mark
        or act as keys, are taken out; line ends become what Enter types.
        """
        clean = pasteable(text.replace("\r\n", "\n"))
        if self._open.bracketed_paste():
            return b"\x1b[200~" + clean.encode("utf-8", "replace") + b"\x1b[201~"
        return clean.replace("\n", "\r").encode("utf-8", "replace")


def pasteable(text: str) -> str:
    """A text without what is never pasted."""
    return _UNSAFE.sub("", text)


def _without_switching(sequence: re.Match[bytes]) -> bytes:
    """A sequence of the same length that sets no mode 40; there is no mode 0."""
    return re.sub(rb"(?<![0-9])0*40(?![0-9])", lambda mode: b"0" * len(mode[0]), sequence[0])


def _limits(scrollback_lines: int, scrollback_bytes: int) -> Limits:
    return Limits(
        scrollback_lines=max(0, scrollback_lines),
        scrollback_bytes=max(0, scrollback_bytes),
        unfinished=MAX_UNFINISHED + FEED_SLICE,  # the library needs some room to work in
        clipboard=events.MAX_CLIPBOARD,
    )


def _before_narrowing(frame: Keyframe, cols: int) -> bytes:
    """What to feed so that no wide character of the alternate screen is cut in half.

    The library cuts them there, and then can make no snapshot until the program has drawn over them. For the
    primary screen it wraps lines anew.
    """
    halved: list[int] = []
    if len(frame.screens) > 1:
        rows = enumerate(frame.shown(frame.screens[1]), 1)
        halved = [row for row, line in rows if is_halved(line, cols)]
    if not halved:
        return b""
    erase = "".join(f"\x1b[{row};{cols}H\x1b[X" for row in halved)
    if frame.screens[1].protection == 1:  # ISO's kind of protected cells can't be erased, DEC's can
        erase = f"{protect(2, True)}{erase}{protect(1, True)}"
    mend = f"\x1b7\x1b[?6l{DEFAULT}{erase}\x1b8"
    if not frame.terminal.alternate:
        mend = f"\x1b[?47h{mend}\x1b[?47l{linked(frame.active.link) if frame.active.link else ''}"
    return (b"\x18" if frame.unfinished else b"") + encoded(mend) + frame.unfinished


def _cursor(frame: Keyframe) -> Cursor:
    modes, active = frame.terminal.modes, frame.active
    visible, blinking = modes & SavedMode.CURSOR_VISIBLE != 0, modes & SavedMode.CURSOR_BLINKING != 0
    return Cursor(active.x, active.y, visible, picture.SHAPES[active.shape], blinking)


def _modes(frame: Keyframe) -> ScreenModes:
    state, active = frame.terminal, frame.active

    def on(mode: SavedMode) -> bool:
        return state.modes & mode != 0

    return ScreenModes(
        bracketed_paste=on(SavedMode.BRACKETED_PASTE),
        mouse=_MOUSE[state.mouse_event],
        mouse_sgr=on(SavedMode.MOUSE_SGR),
        application_cursor_keys=on(SavedMode.CURSOR_KEYS),
        application_keypad=on(SavedMode.KEYPAD),
        kitty_keyboard=active.keyboard[active.keyboard_index],
        focus_events=on(SavedMode.FOCUS),
        alternate_scroll=on(SavedMode.ALTERNATE_SCROLL),
        insert=on(SavedMode.INSERT),
        origin=on(SavedMode.ORIGIN),
        wrap=on(SavedMode.WRAP),
        reverse_colors=on(SavedMode.REVERSE_COLORS),
        synchronized_output=on(SavedMode.SYNCHRONIZED),
    )


def _palette(frame: Keyframe) -> picture.Palette:
    return picture.Palette(frame, Rgb(*FOREGROUND), Rgb(*BACKGROUND))


def _size_of(blob: bytes) -> tuple[int, int]:
    """The size in a keyframe, looked at before anything is allocated for it."""
    if len(blob) < ENVELOPE.size + RECORD.size + 4 or not blob.startswith(MAGIC):
        raise KeyframeError(
            f"not a keyframe: it should begin with {MAGIC!r} and begins with {bytes(blob[:8])!r}"
        )
    _, version = ENVELOPE.unpack_from(blob)
    if version != VERSION:
        raise KeyframeError(f"the keyframe is of version {version}, and only {VERSION} can be read")
    tag, _, _ = RECORD.unpack_from(blob, ENVELOPE.size)
    at = ENVELOPE.size + RECORD.size
    cols, rows = (int.from_bytes(blob[start : start + 2], "little") for start in (at, at + 2))
    if tag != Tag.TERMINAL or (cols, rows) != fit(cols, rows):
        raise KeyframeError(f"the keyframe is damaged: its screen would be {cols}×{rows}")
    return cols, rows
