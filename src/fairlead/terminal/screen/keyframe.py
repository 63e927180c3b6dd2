"""What a keyframe says: the emulator's own snapshot of a terminal, read field by field.

The layout is libghostty-vt's snapshot format, version 1: an envelope, then records of `[u16 tag][u32 length]
[u32 checksum][payload]`, little-endian. Only the emulator writes it; this module reads it, because nothing
else that the emulator offers tells all of a terminal's state: styles of blank cells, saved cursors, the
screen that is not shown, what soft-wraps. It does no I/O and knows nothing of the emulator.

Order of records: TERMINAL; for each screen SCREEN and the newest pages of its rows; CONTINUATION; READY; for
each screen HISTORY and its older pages, newest first; FINISH. So a reader can stop at READY, or when it has
had enough history.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import Struct
from typing import NamedTuple

MAGIC = b"GHOSTSNP"
VERSION = 1
ENVELOPE = Struct("<8sH")
RECORD = Struct("<HII")

_TERMINAL = Struct("<2H2I4HBHHIBBBBBBBBBBQQQ8s8s8sQQ")
_SCREEN = Struct("<HHQHHBB16sIHBB8sBBB")
_SAVED = Struct("<HH16sBH")
_PAGE = Struct("<6HII")
_GRAPHEME = Struct("<3H")
_U32 = Struct("<I")

PLAIN = bytes(16)
"""The style of a cell that has none."""


class Tag(IntEnum):
    """What a record is."""

    TERMINAL = 1
    SCREEN = 2
    PAGE = 3
    HISTORY = 4
    READY = 5
    FINISH = 6
    CONTINUATION = 7


class SavedMode(IntFlag):
    """The modes of a terminal, as bits of the snapshot's words."""

    KEYBOARD_LOCKED = 1 << 0
    INSERT = 1 << 1
    LOCAL_ECHO_OFF = 1 << 2
    LINEFEED = 1 << 3
    CURSOR_KEYS = 1 << 4
    COLUMNS_132 = 1 << 5
    SLOW_SCROLL = 1 << 6
    REVERSE_COLORS = 1 << 7
    ORIGIN = 1 << 8
    WRAP = 1 << 9
    AUTOREPEAT = 1 << 10
    MOUSE_X10 = 1 << 11
    CURSOR_BLINKING = 1 << 12
    CURSOR_VISIBLE = 1 << 13
    ALLOW_COLUMNS_132 = 1 << 14
    REVERSE_WRAP = 1 << 15
    ALTERNATE_47 = 1 << 16
    KEYPAD = 1 << 17
    BACKARROW = 1 << 18
    MARGINS = 1 << 19
    MOUSE_NORMAL = 1 << 20
    MOUSE_BUTTON = 1 << 21
    MOUSE_ANY = 1 << 22
    FOCUS = 1 << 23
    MOUSE_UTF8 = 1 << 24
    MOUSE_SGR = 1 << 25
    ALTERNATE_SCROLL = 1 << 26
    MOUSE_URXVT = 1 << 27
    MOUSE_PIXELS = 1 << 28
    IGNORE_NUMLOCK = 1 << 29
    ALT_ESCAPE = 1 << 30
    ALT_SENDS_ESCAPE = 1 << 31
    REVERSE_WRAP_EXTENDED = 1 << 32
    ALTERNATE_1047 = 1 << 33
    SAVE_CURSOR = 1 << 34
    ALTERNATE_1049 = 1 << 35
    BRACKETED_PASTE = 1 << 36
    SYNCHRONIZED = 1 << 37
    GRAPHEMES = 1 << 38
    REPORT_COLOR_SCHEME = 1 << 39
    REPORT_VISIBILITY = 1 << 40
    REPORT_SIZE = 1 << 41
    PASTE_EVENTS = 1 << 42


ANSI_MODES = {
    SavedMode.KEYBOARD_LOCKED: 2,
    SavedMode.INSERT: 4,
    SavedMode.LOCAL_ECHO_OFF: 12,
    SavedMode.LINEFEED: 20,
}
"""The numbers of the modes that are set by `CSI n h`."""
PRIVATE_MODES = {
    SavedMode.CURSOR_KEYS: 1,
    SavedMode.COLUMNS_132: 3,
    SavedMode.SLOW_SCROLL: 4,
    SavedMode.REVERSE_COLORS: 5,
    SavedMode.ORIGIN: 6,
    SavedMode.WRAP: 7,
    SavedMode.AUTOREPEAT: 8,
    SavedMode.MOUSE_X10: 9,
    SavedMode.CURSOR_BLINKING: 12,
    SavedMode.CURSOR_VISIBLE: 25,
    SavedMode.ALLOW_COLUMNS_132: 40,
    SavedMode.REVERSE_WRAP: 45,
    SavedMode.ALTERNATE_47: 47,
    SavedMode.KEYPAD: 66,
    SavedMode.BACKARROW: 67,
    SavedMode.MARGINS: 69,
    SavedMode.MOUSE_NORMAL: 1000,
    SavedMode.MOUSE_BUTTON: 1002,
    SavedMode.MOUSE_ANY: 1003,
    SavedMode.FOCUS: 1004,
    SavedMode.MOUSE_UTF8: 1005,
    SavedMode.MOUSE_SGR: 1006,
    SavedMode.ALTERNATE_SCROLL: 1007,
    SavedMode.MOUSE_URXVT: 1015,
    SavedMode.MOUSE_PIXELS: 1016,
    SavedMode.IGNORE_NUMLOCK: 1035,
    SavedMode.ALT_ESCAPE: 1036,
    SavedMode.ALT_SENDS_ESCAPE: 1039,
    SavedMode.REVERSE_WRAP_EXTENDED: 1045,
    SavedMode.ALTERNATE_1047: 1047,
    SavedMode.SAVE_CURSOR: 1048,
    SavedMode.ALTERNATE_1049: 1049,
    SavedMode.BRACKETED_PASTE: 2004,
    SavedMode.SYNCHRONIZED: 2026,
    SavedMode.GRAPHEMES: 2027,
    SavedMode.REPORT_COLOR_SCHEME: 2031,
    SavedMode.REPORT_VISIBILITY: 2033,
    SavedMode.REPORT_SIZE: 2048,
    SavedMode.PASTE_EVENTS: 5522,
}
"""The numbers of the modes that are set by `CSI ? n h`."""


class Rgb(NamedTuple):
    """A colour."""

    red: int
    green: int
    blue: int


class Hyperlink(NamedTuple):
    """A hyperlink. `key` tells apart links of the same address that the program gave no id."""

    uri: bytes
    id: bytes | None
    key: int


class TerminalState(NamedTuple):
    """What both screens share. Coordinates count from 0, and a region includes its ends."""

    cols: int
    rows: int
    top: int
    bottom: int
    left: int
    right: int
    status_line: bool
    alternate: bool
    screens: int
    last_char: int | None
    default_cursor: bool
    modify_other_keys: bool
    mouse_event: int
    mouse_format: int
    shift_capture: int
    mouse_shape: int
    modes: int
    saved_modes: int
    default_modes: int
    background: Rgb | None
    foreground: Rgb | None
    cursor_color: Rgb | None
    tabs: int
    """One bit a column."""
    default_palette: bytes
    """256 times three bytes."""
    palette: dict[int, Rgb]
    """What the program has changed in the palette."""
    pwd: bytes
    title: bytes


class SavedCursor(NamedTuple):
    """What `ESC 7` kept."""

    x: int
    y: int
    pen: bytes
    protected: bool
    pending_wrap: bool
    origin: bool
    charset: int


class ScreenState(NamedTuple):
    """One screen. `lines` are its newest rows, of which the last ones are what is shown."""

    alternate: bool
    pages: int
    x: int
    y: int
    shape: int
    pending_wrap: bool
    protected: bool
    semantic: int
    pen: bytes
    charset: int
    protection: int
    keyboard_index: int
    keyboard: bytes
    saved: SavedCursor | None
    link: Hyperlink | None
    lines: list[CellRow]


class CellPage:
    """Styles and links that the rows of one page refer to by number."""

    __slots__ = ("cols", "links", "styles")

    def __init__(self, cols: int) -> None:
        self.cols = cols
        self.styles: dict[int, bytes] = {0: PLAIN}
        self.links: dict[int, Hyperlink] = {}


class CellRow:
    """One row of cells, as packed as it came. `cells` has 1, 2, 4 or 8 bytes a cell, by `width`."""

    __slots__ = ("cells", "flags", "page", "suffixes")

    def __init__(self, page: CellPage, flags: int, cells: bytes) -> None:
        self.page = page
        self.flags = flags
        self.cells = cells
        self.suffixes: dict[int, str] | None = None
        """By column, what follows a cell's first character in the same cell."""

    def cut(self, columns: int) -> CellRow:
        """Its first columns."""
        size = columns << self.width
        if len(self.cells) <= size:
            return self
        row = CellRow(self.page, self.flags, self.cells[:size])
        row.suffixes = self.suffixes
        return row

    @property
    def wraps(self) -> bool:
        """Whether the line goes on in the next row."""
        return self.flags & 1 != 0

    @property
    def secondary_prompt(self) -> bool:
        """Whether a prompt stands here that continues an earlier one."""
        return self.flags >> 2 & 3 == 2

    @property
    def width(self) -> int:
        """The size of a cell as a power of two."""
        return self.flags >> 4 & 3


class Keyframe:
    """A snapshot as far as it was read: give it the records (`take`) until it wants no more.

    Without `history` it is done at READY and has what the screens show; with it, it reads all.
    """

    terminal: TerminalState
    unfinished: bytes
    """The bytes of a sequence or character that has not ended."""

    def __init__(self, *, history: bool = False) -> None:
        self.screens: list[ScreenState] = []
        self._history = history
        self._older: list[list[CellRow]] = []
        self._histories = 0

    def take(self, tag: int, payload: bytes) -> bool:
        """Take one record; false when no more are wanted."""
        match tag:
            case Tag.TERMINAL:
                self.terminal = read_terminal(payload)
            case Tag.SCREEN:
                self.screens.append(read_screen(payload))
            case Tag.PAGE if not self._histories:
                last = None if self._history else self.terminal.rows
                self.screens[-1].lines.extend(read_page(payload, last))
            case Tag.PAGE:
                self._older.append(read_page(payload))
            case Tag.CONTINUATION:
                self.unfinished = payload
            case Tag.READY:
                return self._history
            case Tag.HISTORY:
                self._histories += 1
                return self._histories == 1  # the alternate screen has no history
        return True

    @property
    def active(self) -> ScreenState:
        """The screen that is shown."""
        return self.screens[self.terminal.alternate]

    def shown(self, screen: ScreenState) -> list[CellRow]:
        """The rows that a screen shows."""
        return screen.lines[-self.terminal.rows :]

    def scrollback(self) -> list[CellRow]:
        """The rows above the primary screen, the oldest first, as far as they were read."""
        newer = self.screens[0].lines[: -self.terminal.rows]
        return [line for page in (*reversed(self._older), newer) for line in page]


def page_rows(blob: bytes) -> list[int]:
    """How many rows each page of a snapshot has."""
    rows = []
    at = ENVELOPE.size
    while at + RECORD.size <= len(blob):
        tag, size, _ = RECORD.unpack_from(blob, at)
        at += RECORD.size
        if tag == Tag.PAGE:
            rows.append(int.from_bytes(blob[at + 2 : at + 4], "little"))
        at += size
    return rows


def read_terminal(payload: bytes) -> TerminalState:
    """Read a TERMINAL record."""
    (cols, rows, _, _, top, bottom, left, right, status, active, screens, last) = _TERMINAL.unpack_from(
        payload
    )[:12]
    (default_cursor, _, _, _, modify, event, form, shift, shape, _) = _TERMINAL.unpack_from(payload)[12:22]
    (modes, saved, default, background, foreground, cursor, _, _) = _TERMINAL.unpack_from(payload)[22:]
    at = _TERMINAL.size
    tabs_end = at + (cols + 7) // 8
    tabs = int.from_bytes(payload[at:tabs_end], "little")
    at = tabs_end
    palette = payload[at : at + 768]
    at += 768
    mask = int.from_bytes(payload[at : at + 32], "little")
    at += 32
    overrides = {}
    if mask:
        for index in range(256):
            if mask >> index & 1:
                overrides[index] = Rgb(*payload[at : at + 3])
                at += 3
    pwd, at = _string(payload, at)
    title, at = _string(payload, at)
    return TerminalState(
        cols, rows, top, bottom, left, right, status == 1, active == 1, screens,
        None if last == 0xFFFFFFFF else last, default_cursor == 1, modify == 1, event, form, shift, shape,
        modes, saved, default, _override(background), _override(foreground), _override(cursor),
        tabs, palette, overrides, pwd, title,
    )  # fmt: skip


def read_screen(payload: bytes) -> ScreenState:
    """Read a SCREEN record; its lines are in the pages that follow."""
    (key, pages, _, x, y, shape, flags, pen, _, charset, protection, index, keyboard, _, _, has_saved) = (
        _SCREEN.unpack_from(payload)
    )
    at = _SCREEN.size
    saved = None
    if has_saved:
        saved_x, saved_y, saved_pen, bits, saved_charset = _SAVED.unpack_from(payload, at)
        saved = SavedCursor(
            saved_x, saved_y, saved_pen, bits & 1 != 0, bits & 2 != 0, bits & 4 != 0, saved_charset
        )
        at += _SAVED.size
    link, _ = _link(payload, at)
    return ScreenState(
        key == 1, pages, x, y, shape, flags & 1 != 0, flags & 2 != 0, flags >> 2 & 3, pen, charset,
        protection, index, keyboard, saved, link, [],
    )  # fmt: skip


def read_page(payload: bytes, last: int | None = None) -> list[CellRow]:
    """Read a PAGE record: its rows from the top, or only the last few of them."""
    cols, rows, styles, links, _, _, _, _ = _PAGE.unpack_from(payload)
    at = _PAGE.size
    page = CellPage(cols)
    for _ in range(styles):
        page.styles[payload[at] | payload[at + 1] << 8] = payload[at + 2 : at + 18]
        at += 18
    for _ in range(links):
        number = payload[at] | payload[at + 1] << 8
        link, at = _link(payload, at + 2)
        if link is not None:
            page.links[number] = link
    skipped = 0 if last is None else max(0, rows - last)
    for _ in range(skipped):
        at += 3 + ((payload[at + 1] | payload[at + 2] << 8) << (payload[at] >> 4 & 3))
    lines = []
    for _ in range(skipped, rows):
        flags = payload[at]
        start = at + 3
        at = start + ((payload[at + 1] | payload[at + 2] << 8) << (flags >> 4 & 3))
        lines.append(CellRow(page, flags, payload[start:at]))
    (graphemes,) = _U32.unpack_from(payload, at)
    at += 4
    for _ in range(graphemes):
        row, column, count = _GRAPHEME.unpack_from(payload, at)
        at += 6
        if row >= skipped:
            line = lines[row - skipped]
            if line.suffixes is None:
                line.suffixes = {}
            line.suffixes[column] = payload[at : at + 4 * count].decode("utf-32-le", "replace")
        at += 4 * count
    return lines


def _string(payload: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _U32.unpack_from(payload, at)
    return payload[at + 4 : at + 4 + size], at + 4 + size


def _link(payload: bytes, at: int) -> tuple[Hyperlink | None, int]:
    kind = payload[at]
    at += 1
    if kind == 1:
        (key,) = _U32.unpack_from(payload, at)
        uri, at = _string(payload, at + 4)
        return Hyperlink(uri, None, key), at
    if kind == 2:
        name, at = _string(payload, at)
        uri, at = _string(payload, at)
        return Hyperlink(uri, name, 0), at
    return None, at


def _override(color: bytes) -> Rgb | None:
    """The colour that the program has set, if any, of a dynamic colour."""
    return Rgb(*color[5:8]) if color[4] else None
