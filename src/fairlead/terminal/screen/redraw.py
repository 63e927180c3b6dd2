"""Redraw: the bytes that make a client's terminal show what an emulated one shows.

A terminal has no sequence that sets its state, so each part is brought about the way a program would: rows
are printed, soft wraps happen by printing over the edge, a saved cursor is saved where it was saved, and
modes come last because some of them change what printing does. The emulator's own formatter is no help here:
it drops coloured blanks and links, and lets styles run on into gaps.

What can't be brought about that way is listed at `Screen.redraw`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from .cells import Run, runs
from .keyframe import (
    ANSI_MODES,
    PRIVATE_MODES,
    CellRow,
    Keyframe,
    SavedCursor,
    SavedMode,
    ScreenState,
    Tag,
    read_page,
)
from .paint import DEFAULT, Painter, encoded, has_background, linked, mark, protect, sgr, unquoted

RESET = "\x18\x1bc\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07"
"""What every redraw starts with: give up an unfinished sequence, full reset, and the colours, which a full
reset leaves alone in some terminals."""


def _switches(mode: SavedMode) -> tuple[str, str]:
    """What turns a mode off and on."""
    number = f"{ANSI_MODES[mode]}" if mode in ANSI_MODES else f"?{PRIVATE_MODES[mode]}"
    return f"\x1b[{number}l", f"\x1b[{number}h"


_MOUSE_EVENTS = (SavedMode.MOUSE_X10, SavedMode.MOUSE_NORMAL, SavedMode.MOUSE_BUTTON, SavedMode.MOUSE_ANY)
_MOUSE_FORMATS = (SavedMode.MOUSE_UTF8, SavedMode.MOUSE_SGR, SavedMode.MOUSE_URXVT, SavedMode.MOUSE_PIXELS)
_PLACED_BY_HAND = (
    SavedMode.ALTERNATE_47, SavedMode.ALTERNATE_1047, SavedMode.ALTERNATE_1049,
    SavedMode.SAVE_CURSOR, SavedMode.ORIGIN, SavedMode.MARGINS, SavedMode.COLUMNS_132,
)  # fmt: skip
# Plain numbers, because arithmetic with an IntFlag is slow. One mode holds back drawing, so it is set last.
_FREE_MODES = tuple(
    (int(mode), *_switches(mode))
    for mode in sorted(SavedMode, key=lambda mode: mode is SavedMode.SYNCHRONIZED)
    if mode not in (*_PLACED_BY_HAND, *_MOUSE_EVENTS, *_MOUSE_FORMATS, SavedMode.CURSOR_BLINKING)
)
_KEPT_MODES = tuple(
    (int(mode), number, *_switches(mode))
    for mode, number in PRIVATE_MODES.items()
    if mode not in _PLACED_BY_HAND
)
_MICE = tuple(
    tuple((int(mode), *_switches(mode)) for mode in kinds) for kinds in (_MOUSE_EVENTS, _MOUSE_FORMATS)
)
_WAYS_IN = tuple((int(mode), _switches(mode)[1]) for mode in _PLACED_BY_HAND[:3])
_ALTERNATE_47 = int(SavedMode.ALTERNATE_47)
_ORIGIN, _ORIGIN_OFF, _ORIGIN_ON = int(SavedMode.ORIGIN), *_switches(SavedMode.ORIGIN)
_MARGINS, _MARGINS_ON = int(SavedMode.MARGINS), _switches(SavedMode.MARGINS)[1]
_SAVE_CURSOR = int(SavedMode.SAVE_CURSOR)
_BLINKING, _BLINKING_OFF, _BLINKING_ON = int(SavedMode.CURSOR_BLINKING), *_switches(SavedMode.CURSOR_BLINKING)

_POINTERS = (
    "default", "context-menu", "help", "pointer", "progress", "wait", "cell", "crosshair", "text",
    "vertical-text", "alias", "copy", "move", "no-drop", "not-allowed", "grab", "grabbing", "all-scroll",
    "col-resize", "row-resize", "n-resize", "e-resize", "s-resize", "w-resize", "ne-resize", "nw-resize",
    "se-resize", "sw-resize", "ew-resize", "ns-resize", "nesw-resize", "nwse-resize", "zoom-in", "zoom-out",
)  # fmt: skip
_TEXT_POINTER = 8
_BLOCK = 1
_SHAPES = {0: 5, 1: 1, 2: 3}
_DEFAULT_SHAPE = "\x1b[0 q"
_TAB_WIDTH = 8
_PLAIN_CHARSET = 2 << 10


def _charset(wanted: int, current: int) -> str:
    """What leads from one choice of character sets to another."""
    out = ""
    for slot in range(4):
        want, have = wanted >> 2 * slot & 3, current >> 2 * slot & 3
        if want != have and (want, have) != (0, 1):
            out += f"\x1b{'()*+'[slot]}{'BBA0'[want]}"
    if wanted >> 8 & 3 != current >> 8 & 3:
        out += ("\x0f", "\x0e", "\x1bn", "\x1bo")[wanted >> 8 & 3]
    if wanted >> 10 & 3 != current >> 10 & 3:
        out += ("", "\x1b~", "\x1b}", "\x1b|")[wanted >> 10 & 3]
    return out


def _shorten(rows: list[bytes], excess: int) -> int:
    """Leave out rows from the top until `excess` bytes are saved, and say how many are still too many."""
    for index, row in enumerate(rows):
        if excess <= 0:
            break
        blank = b"\r\n" if index < len(rows) - 1 else b""
        excess -= len(row) - len(blank)
        rows[index] = blank
    return excess


class Region(NamedTuple):
    """Where the cursor can be placed, and the column at which it waits to wrap."""

    top: int
    bottom: int
    left: int
    right: int
    edge: int = -1


class Redraw:
    """Takes the records of a snapshot (`take`) until it has enough, and then has the bytes (`done`)."""

    def __init__(self, max_bytes: int, *, scrollback: bool, char_width: Callable[[int], int]) -> None:
        self._max_bytes = max_bytes
        self._scrollback = scrollback
        self._char_width = char_width
        self._frame = Keyframe(history=scrollback)
        self._before: list[list[bytes]] = []
        self._history: list[bytes] = []
        self._after: list[list[bytes]] = []
        self._room = 0
        self._newest: CellRow | None = None

    def take(self, tag: int, payload: bytes) -> bool:
        """Take one record; false when no more are wanted."""
        if tag == Tag.PAGE and self._newest is not None:
            return self._take_history(read_page(payload))
        more = self._frame.take(tag, payload)
        if tag == Tag.READY:
            self._terminal = self._frame.terminal
            self._painter = Painter(self._terminal.cols, self._char_width)
            self._everything = Region(0, self._terminal.rows - 1, 0, self._terminal.cols - 1)
            self._paint()
        elif tag == Tag.HISTORY and more:
            self._newest = self._frame.shown(self._frame.screens[0])[0]
            return self._take_history(self._frame.scrollback())
        return more

    def done(self) -> bytes:
        """The redraw."""
        parts = (*self._before, reversed(self._history), *self._after)
        return b"".join(chain.from_iterable(parts))

    def _take_history(self, lines: list[CellRow]) -> bool:
        """Add rows above those that are there, from the newest back, while there is room."""
        painter, newest = self._painter, self._newest
        for line in reversed(lines):
            assert newest is not None
            wrap, gap = painter.between(line, newest)
            row = encoded(painter.line(line, wrap=wrap) + gap)
            self._room -= len(row)
            if self._room < 0:
                return False
            self._history.append(row)
            newest = line
        self._newest = newest
        return True

    # --- all but the scrollback -----------------------------------------------------------------------------

    def _paint(self) -> None:
        terminal, screens = self._terminal, self._frame.screens
        primary, rows = screens[0], [self._rows(screen) for screen in screens]
        if len(screens) == 1:
            self._before = [_text([RESET])]
            self._after = [rows[0], _text([*self._own(primary), *self._shared(primary)])]
            hidden: list[bytes] = []
        elif terminal.alternate:
            alternate = screens[1]
            switch = [*self._own(primary), *self._enter(primary), self._clean(primary)]
            self._before = [_text([RESET])]
            self._after = [rows[0], _text(switch), rows[1]]
            self._after.append(_text([*self._own(alternate), *self._shared(alternate)]))
            hidden = rows[0]
        else:
            # The program may go back to the alternate screen and find there what it left.
            alternate = screens[1]
            way_out = "\x1b[?1049l" if terminal.modes & _ALTERNATE_47 else "\x1b[?47l"
            switch = [*self._own(alternate), *self._state(alternate), way_out, self._clean(alternate)]
            self._before = [_text([RESET, *self._ways_in()]), rows[1], _text(switch)]
            self._after = [rows[0], _text([*self._own(primary), *self._shared(primary)])]
            hidden = rows[1]
        self._after.append([self._frame.unfinished])
        self._room = self._max_bytes - sum(map(len, chain(*self._before, *self._after)))
        if self._room < 0:
            shown = rows[terminal.alternate]
            excess = _shorten(shown, _shorten(hidden, -self._room))
            if excess > 0:
                raise ValueError(
                    f"a redraw of this screen takes at least {self._max_bytes + excess} bytes, "
                    f"and {self._max_bytes} were allowed"
                )

    def _rows(self, screen: ScreenState) -> list[bytes]:
        return [encoded(row) for row in self._painter.rows(self._frame.shown(screen), screen.protection or 2)]

    def _own(self, screen: ScreenState) -> list[str]:
        """What a screen has of its own besides rows and cursor: keyboard flags and the saved cursor."""
        out: list[str] = []
        index, flags = screen.keyboard_index, screen.keyboard
        if any(flags):
            # The stack is a ring of eight; if it has gone round, all eight are put there.
            full = any(flags[index + 1 :])
            order = [*range(1, 8), *range(index + 1)] if full else range(1, index + 1)
            if flags[0] and not full:
                out.append(f"\x1b[={flags[0]};1u")
            out += [f"\x1b[>{flags[place]}u" for place in order]
        if screen.saved is not None:
            out += self._save(screen, screen.saved)
        return out

    def _save(self, screen: ScreenState, saved: SavedCursor) -> list[str]:
        return [
            _ORIGIN_ON if saved.origin else "",
            *self._place(screen, saved.x, saved.y, saved.pending_wrap, self._everything),
            sgr(saved.pen),
            protect(screen.protection, True) if saved.protected else "",
            _charset(saved.charset, _PLAIN_CHARSET),
            "\x1b[?1048h" if self._terminal.modes & _SAVE_CURSOR else "\x1b7",
            _ORIGIN_OFF if saved.origin else "",
            protect(screen.protection, False) if saved.protected else "",
            _charset(_PLAIN_CHARSET, saved.charset),
            DEFAULT,
        ]

    # --- from one screen to the other -----------------------------------------------------------------------

    def _ways_in(self) -> list[str]:
        """How the program went to the alternate screen."""
        return [on for mode, on in _WAYS_IN if self._terminal.modes & mode] or ["\x1b[?47h"]

    def _enter(self, primary: ScreenState) -> list[str]:
        """Leave the primary screen as it is and go to the alternate one."""
        ways, saved = self._ways_in(), primary.saved
        origin = saved is not None and saved.origin
        pen = (primary.pen, primary.protected, primary.pending_wrap, origin, primary.charset)
        if saved == SavedCursor(primary.x, primary.y, *pen):
            ways.reverse()  # going there by 1049 saves the cursor, and it is found to be saved like that
        out = [*self._state(primary), *ways]
        return [_ORIGIN_ON, *out, _ORIGIN_OFF] if origin else out

    def _state(self, screen: ScreenState) -> list[str]:
        """The cursor of a screen that is not the one shown in the end."""
        place = self._place(screen, screen.x, screen.y, screen.pending_wrap, self._everything)
        return [self._shape(screen), *place, *self._pen(screen)]

    def _clean(self, screen: ScreenState) -> str:
        """Undo what was brought along from another screen."""
        return "".join(
            (
                "\x1b[H\x1b[0m",
                "\x1b[2J" if has_background(screen.pen) else "",  # it was cleared to that background
                _charset(_PLAIN_CHARSET, screen.charset),
                linked(None) if screen.link is not None else "",
                protect(screen.protection, False) if screen.protected else "",
                mark(0) if screen.semantic else "",
            )
        )

    # --- the cursor -----------------------------------------------------------------------------------------

    def _place(self, screen: ScreenState, x: int, y: int, pending_wrap: bool, region: Region) -> list[str]:
        """Put the cursor somewhere; if it waits to wrap, by printing again what is there.

        With origin mode, places count from the region's corner and none outside of it can be reached.
        """
        near_x = min(max(x, region.left), region.right)
        near_y = min(max(y, region.top), region.bottom)
        at = f"\x1b[{near_y - region.top + 1};{near_x - region.left + 1}H"
        if not pending_wrap or (near_x, near_y) != (x, y) or x not in (region.edge, self._terminal.cols - 1):
            return [at]
        for run in runs(self._frame.shown(screen)[y]):
            if run.x <= x < run.x + run.width:
                cell = self._cell(run, x) if run.text else run._replace(x=x, width=1, text=" ")
                return [at, "\x1b[D" * (x - cell.x), *self._print(screen, cell)]
        return [at, *self._print(screen, Run(x, 1, " "))]

    def _cell(self, run: Run, x: int) -> Run:
        """The one cell of a run that covers column `x`."""
        if run.cluster:
            return run
        column = run.x
        for char in run.text:
            width = self._char_width(ord(char)) or 1
            if column + width > x:
                return run._replace(x=column, width=width, text=char)
            column += width
        return Run(x, 1, " ")

    def _print(self, screen: ScreenState, run: Run) -> list[str]:
        """Print a run where the cursor is; the style stays."""
        out = [sgr(run.style), self._painter.text(run)]
        if run.link is not None:
            out = [linked(run.link), *out, linked(None)]
        if run.protected:
            out = [protect(screen.protection, True), *out, protect(screen.protection, False)]
        if run.semantic:
            out = [mark(run.semantic), *out, mark(0)]
        return out

    def _pen(self, screen: ScreenState) -> list[str]:
        """What a screen's cursor prints with."""
        out = [sgr(screen.pen)]
        if screen.link is not None:
            out.append(linked(screen.link))
        if screen.protection or screen.protected:
            out.append(protect(screen.protection, True))
            if not screen.protected:
                out.append(protect(screen.protection, False))
        out.append(_charset(screen.charset, _PLAIN_CHARSET))
        if screen.semantic:
            out.append(mark(screen.semantic))
        return out

    def _shape(self, screen: ScreenState) -> str:
        """The cursor's shape, if the program has ever chosen one."""
        state = self._terminal
        if state.default_cursor and all(each.shape == _BLOCK for each in self._frame.screens):
            return ""
        return f"\x1b[{_SHAPES.get(screen.shape, 1) + (not state.modes & _BLINKING)} q"

    # --- what belongs to the terminal as a whole ------------------------------------------------------------

    def _shared(self, active: ScreenState) -> list[str]:
        state = self._terminal
        out: list[str] = []
        if state.title:
            out.append(f"\x1b]2;{unquoted(state.title)}\x07")
        if state.pwd:
            out.append(f"\x1b]7;{unquoted(state.pwd)}\x07")
        colors = [(f"4;{index}", rgb) for index, rgb in state.palette.items()]
        for number, rgb in (("10", state.foreground), ("11", state.background), ("12", state.cursor_color)):
            if rgb is not None:
                colors.append((number, rgb))
        out += ["\x1b]{};rgb:{:02x}/{:02x}/{:02x}\x07".format(number, *rgb) for number, rgb in colors]
        out += self._tabs()
        if state.mouse_shape != _TEXT_POINTER and state.mouse_shape < len(_POINTERS):
            out.append(f"\x1b]22;{_POINTERS[state.mouse_shape]}\x07")
        if state.shift_capture:
            out.append(f"\x1b[>{state.shift_capture - 1}s")
        if state.modify_other_keys:
            out.append("\x1b[>4;2m")
        shape = self._shape(active)
        if shape and state.default_cursor and active.shape == _BLOCK:
            shape = _DEFAULT_SHAPE
        out.append(shape)
        out += self._kept_modes()
        out += self._last_printed(active)
        out += self._cursor(active)
        blinks = shape not in ("", _DEFAULT_SHAPE) and state.modes & _BLINKING != 0
        if blinks != (state.modes & _BLINKING != 0):
            out.append(_BLINKING_OFF if blinks else _BLINKING_ON)
        out += self._modes()
        if state.status_line:
            out.append("\x1b[1$}")
        return out

    def _tabs(self) -> list[str]:
        state = self._terminal
        usual = sum(1 << column for column in range(_TAB_WIDTH, state.cols, _TAB_WIDTH))
        but_the_last = (1 << state.cols - 1) - 1  # where a tab ends anyway
        if not (state.tabs ^ usual) & but_the_last:
            return []
        stops = [column for column in range(state.cols) if state.tabs >> column & 1]
        return ["\x1b[3g", *(f"\x1b[{column + 1}G\x1bH" for column in stops)]

    def _kept_modes(self) -> list[str]:
        """What `CSI ? n s` has kept: set each so, keep it, and leave it as a reset left it."""
        state = self._terminal
        out = []
        changed = state.saved_modes ^ state.default_modes
        if changed:
            for mode, number, off, on in _KEPT_MODES:
                if changed & mode:
                    there, back = (on, off) if state.saved_modes & mode else (off, on)
                    out.append(f"{there}\x1b[?{number}s{back}")
        return out

    def _last_printed(self, active: ScreenState) -> list[str]:
        """Print once more the character that was printed last, so that it can be repeated (`CSI n b`).

        It is printed where it already is, else on a blank that is blanked again.
        """
        last = self._terminal.last_char
        if last is None:
            return []
        char = chr(last)
        width = self._char_width(last) or 1
        lines = self._frame.shown(active)
        blank: tuple[int, Run] | None = None
        for y in (active.y, *range(len(lines))):
            line, end = lines[y], 0
            for run in runs(line):
                end = run.x + run.width
                if char in run.text and not run.cluster:
                    before = run.text[: run.text.index(char)]
                    x = run.x + sum(self._char_width(ord(other)) or 1 for other in before)
                    cell = run._replace(x=x, width=width, text=char)
                    return [f"\x1b[{y + 1};{x + 1}H", *self._print(active, cell), DEFAULT]
                if not run.text and run.width >= width and not line.wraps:
                    blank = y, run
            if end + width <= self._terminal.cols and not line.wraps:
                blank = y, Run(end, width, "")
        if blank is None:
            return []
        y, run = blank
        place = f"\x1b[{y + 1};{run.x + 1}H"
        return [place, sgr(run.style), char, place, f"\x1b[{width}X", DEFAULT]

    def _cursor(self, active: ScreenState) -> list[str]:
        """Margins, the cursor's place in them, and what it prints with."""
        state = self._terminal
        out: list[str] = []
        region = self._everything
        if state.modes & _MARGINS:
            out.append(_MARGINS_ON)
            if (state.left, state.right) != (0, state.cols - 1):
                out.append(f"\x1b[{state.left + 1};{state.right + 1}s")
        if (state.top, state.bottom) != (0, state.rows - 1):
            out.append(f"\x1b[{state.top + 1};{state.bottom + 1}r")
        if state.modes & _ORIGIN:
            out.append(_ORIGIN_ON)
            region = Region(state.top, state.bottom, state.left, state.right)
        region = region._replace(edge=state.right)
        out += self._place(active, active.x, active.y, active.pending_wrap, region)
        out += self._pen(active)
        shift = active.charset >> 12 & 7
        if shift:
            out.append("\x1bN" if shift == 3 else "\x1bO")
        return out

    def _modes(self) -> list[str]:
        state = self._terminal
        modes, changed = state.modes, state.modes ^ state.default_modes
        out = []
        # Of these the one that was set last counts, and resetting any of them leaves none.
        for kinds, current in zip(_MICE, (state.mouse_event, state.mouse_format)):
            on = [place for place, (mode, _, _) in enumerate(kinds, 1) if modes & mode]
            out += [kinds[place - 1][2] for place in on if place != current]
            if current:
                out.append(kinds[current - 1][2])
            elif on:
                out += [kinds[place - 1][1] for place in range(1, len(kinds) + 1) if place not in on][:1]
        out += [on if modes & mode else off for mode, off, on in _FREE_MODES if changed & mode]
        return out


def _text(parts: list[str]) -> list[bytes]:
    return [encoded("".join(parts))]
