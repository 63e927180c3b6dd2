"""libghostty-vt, reached through pyghostty: a terminal that takes bytes and keeps a picture of them.

This is the only module where types are `Any`. It adds nothing to the library but names, defaults and
lifetimes; what a screen means is `screen.py`'s.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from ...system.extras import installing
from .keyframe import ENVELOPE, RECORD, page_rows
from .native import load

try:
    _ffi, _lib = load()
except ImportError as error:
    raise ImportError(
        f"terminal sessions need pyghostty, which can't be loaded ({error}): "
        f"{installing('--force-reinstall pyghostty')}",
        name=error.name,
    ) from error

ffi: Final[Any] = _ffi
lib: Final[Any] = _lib

CELL_PIXELS = (8, 16)
"""Width and height of a cell in what programs are told of pixels while no real terminal is attached."""
FOREGROUND = (0xD8, 0xD8, 0xD8)
BACKGROUND = (0x10, 0x10, 0x10)
"""The colours that programs are told while no real terminal is attached, and that pictures use."""
COLUMN_SWITCHING = 40
"""The mode in which a program can ask for 80 or 132 columns. Each time all of the scrollback is wrapped
anew, which takes a millisecond, and the size is not the program's: so the mode is never on."""
IDENTITY = b"fairlead"
"""The answer to the question which terminal this is (XTVERSION)."""

_identity = ffi.new("uint8_t[]", IDENTITY)


class NativeError(RuntimeError):
    """The library refused. `code` is its result."""

    def __init__(self, doing: str, code: int) -> None:
        super().__init__(f"libghostty-vt failed in {doing} with result {code}")
        self.code = code


class Signals:
    """What a terminal says while it is fed. `calls` counts how often, whatever it was."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0

    def reply(self, data: bytes) -> None:
        """An answer for the program."""

    def bell(self) -> None: ...

    def title(self) -> None: ...

    def pwd(self) -> None: ...

    def notify(self, title: bytes, body: bytes) -> None: ...

    def progress(self, state: int, percent: int) -> None: ...

    def clipboard(self, selection: int, data: bytes) -> None: ...


def _check(code: int, doing: str) -> None:
    if code:
        raise NativeError(doing, code)


def _bytes(string: Any) -> bytes:
    return bytes(ffi.buffer(string.ptr, string.len)) if string.len else b""


def _heard(userdata: Any) -> Signals:
    signals: Signals = ffi.from_handle(userdata)
    signals.calls += 1
    return signals


# One set of callbacks serves all terminals; each terminal's userdata says whose they are.


@ffi.callback("GhosttyTerminalWritePtyFn")  # type: ignore[untyped-decorator]
def _on_reply(_: Any, userdata: Any, data: Any, size: int) -> None:
    _heard(userdata).reply(bytes(ffi.buffer(data, size)))


@ffi.callback("GhosttyTerminalBellFn")  # type: ignore[untyped-decorator]
def _on_bell(_: Any, userdata: Any) -> None:
    _heard(userdata).bell()


@ffi.callback("GhosttyTerminalTitleChangedFn")  # type: ignore[untyped-decorator]
def _on_title(_: Any, userdata: Any) -> None:
    _heard(userdata).title()


@ffi.callback("GhosttyTerminalPwdChangedFn")  # type: ignore[untyped-decorator]
def _on_pwd(_: Any, userdata: Any) -> None:
    _heard(userdata).pwd()


@ffi.callback("GhosttyTerminalDesktopNotificationFn")  # type: ignore[untyped-decorator]
def _on_notification(_: Any, userdata: Any, note: Any) -> None:
    _heard(userdata).notify(_bytes(note.title), _bytes(note.body))


@ffi.callback("GhosttyTerminalProgressReportFn")  # type: ignore[untyped-decorator]
def _on_progress(_: Any, userdata: Any, report: Any) -> None:
    _heard(userdata).progress(report.state, report.progress)


@ffi.callback("GhosttyTerminalClipboardWriteFn")  # type: ignore[untyped-decorator]
def _on_clipboard(_: Any, userdata: Any, write: Any) -> None:
    data = b""
    for index in range(write.contents_len):
        if _bytes(write.contents[index].mime).startswith(b"text/plain"):
            data = _bytes(write.contents[index].data)
            break
    _heard(userdata).clipboard(write.location, data)
    answer = ffi.new("GhosttyClipboardWriteReply*")
    answer.size = ffi.sizeof("GhosttyClipboardWriteReply")
    # No clipboard is here; whoever hears of the event may have one, but the program can't be told of that.
    answer.result = lib.GHOSTTY_CLIPBOARD_WRITE_RESULT_UNSUPPORTED
    write.reply(write, answer)


@ffi.callback("GhosttyTerminalSizeFn")  # type: ignore[untyped-decorator]
def _on_size(terminal: Any, _: Any, size: Any) -> bool:
    cols, rows = ffi.new("uint16_t*"), ffi.new("uint16_t*")
    lib.ghostty_terminal_get(terminal, lib.GHOSTTY_TERMINAL_DATA_COLS, cols)
    lib.ghostty_terminal_get(terminal, lib.GHOSTTY_TERMINAL_DATA_ROWS, rows)
    size.columns, size.rows = cols[0], rows[0]
    size.cell_width, size.cell_height = CELL_PIXELS
    return True


@ffi.callback("GhosttyTerminalColorSchemeFn")  # type: ignore[untyped-decorator]
def _on_color_scheme(_: Any, userdata: Any, scheme: Any) -> bool:
    scheme[0] = lib.GHOSTTY_COLOR_SCHEME_DARK
    return True


@ffi.callback("GhosttyTerminalXtversionFn")  # type: ignore[untyped-decorator]
def _on_identity(_: Any, userdata: Any) -> Any:
    return ffi.new("GhosttyString*", {"ptr": _identity, "len": len(IDENTITY)})[0]


_SIGNALS = (
    (lib.GHOSTTY_TERMINAL_OPT_WRITE_PTY, _on_reply),
    (lib.GHOSTTY_TERMINAL_OPT_BELL, _on_bell),
    (lib.GHOSTTY_TERMINAL_OPT_TITLE_CHANGED, _on_title),
    (lib.GHOSTTY_TERMINAL_OPT_PWD_CHANGED, _on_pwd),
    (lib.GHOSTTY_TERMINAL_OPT_DESKTOP_NOTIFICATION, _on_notification),
    (lib.GHOSTTY_TERMINAL_OPT_PROGRESS_REPORT, _on_progress),
    (lib.GHOSTTY_TERMINAL_OPT_CLIPBOARD_WRITE, _on_clipboard),
)
_ANSWERS = (
    (lib.GHOSTTY_TERMINAL_OPT_SIZE, _on_size),
    (lib.GHOSTTY_TERMINAL_OPT_COLOR_SCHEME, _on_color_scheme),
    (lib.GHOSTTY_TERMINAL_OPT_XTVERSION, _on_identity),
)


PAGE_BYTES = 400 * 1024
"""What the library counts for a page of rows, full or not."""
MAX_SPARE = 64 * 1024 * 1024
"""How much of that may be for pages that are not full, which takes no memory but counts."""


def _row_bytes(cols: int) -> int:
    return 9 * cols + 16


_CLEAR = b'\x1b7\x1b[?6l\x1b[0m\x1b[1"q\x1b[0"q\x1b[2J\x1b8'
"""Clear the screen, whatever is protected, and leave the cursor as it is."""


class Limits:
    """What one terminal may keep. Limits are no part of a snapshot and are set again on each terminal."""

    __slots__ = ("clipboard", "scrollback_bytes", "scrollback_lines", "unfinished")

    def __init__(
        self, *, scrollback_lines: int, scrollback_bytes: int, unfinished: int, clipboard: int
    ) -> None:
        self.scrollback_lines = scrollback_lines
        self.scrollback_bytes = scrollback_bytes
        self.unfinished = unfinished
        """How many bytes of a sequence that has not ended are kept, so that it can be told to others."""
        self.clipboard = clipboard

    def scrollback(self, cols: int, spare: int) -> tuple[int, int]:
        """The limits of scrollback in lines and in bytes as the library should have them.

        When its limit in bytes is reached it uses memory again; when its limit in lines is reached it frees
        memory and asks for new, and is ten times slower. So the limit in lines is told as one in bytes too.

        A restored terminal never adds to a page that it was restored with, so each time some of a page stays
        empty, and yet is counted. That is `spare`, and it comes on top; else scrollback would shrink with
        every restart.
        """
        if not self.scrollback_lines or not self.scrollback_bytes:
            return 0, 0
        enough = 3 * PAGE_BYTES // 2 + self.scrollback_lines * _row_bytes(cols)
        return 2 * self.scrollback_lines + 1000, min(self.scrollback_bytes, enough) + spare


class _Point(ctypes.Structure):
    """`GhosttyPoint`, which has a union in it: cffi can't give that to a function by value, ctypes can."""

    _fields_ = (("tag", ctypes.c_uint32), ("place", ctypes.c_uint64), ("padding", ctypes.c_uint64))


_track = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _Point, ctypes.c_void_p)(
    int(ffi.cast("uintptr_t", ffi.addressof(lib, "ghostty_terminal_grid_ref_track")))
)


def _freeing(marks: list[Any]) -> Callable[[Any], None]:
    """What frees a terminal, and before that the marks on its rows."""

    def free(terminal: Any) -> None:
        for mark in marks:
            lib.ghostty_tracked_grid_ref_free(mark)
        lib.ghostty_terminal_free(terminal)

    return free


class Emulator:
    """One terminal. Not for two threads at once. After `close` nothing else may be called."""

    def __init__(self, terminal: Any, cols: int, spare: int, limits: Limits, signals: Signals) -> None:
        self._marks: list[Any] = []  # on the oldest row, if it could be marked yet
        self._terminal = ffi.gc(terminal, _freeing(self._marks))
        self._limits = limits
        self._columns, self._spare = cols, spare
        self._handle = ffi.new_handle(signals)
        self._set(lib.GHOSTTY_TERMINAL_OPT_USERDATA, self._handle)
        for option, value in (
            (lib.GHOSTTY_TERMINAL_OPT_CONTINUATION_MAX_BYTES, limits.unfinished),
            (lib.GHOSTTY_TERMINAL_OPT_CLIPBOARD_WRITE_MAX_BYTES, limits.clipboard),
            (lib.GHOSTTY_TERMINAL_OPT_APC_MAX_BYTES, limits.unfinished),
        ):
            self._set(option, ffi.new("size_t*", value))
        self._limit_scrollback()
        # Images and glyphs are in no snapshot and in no redraw, so none are kept and no program is told to
        # send any.
        self._set(lib.GHOSTTY_TERMINAL_OPT_KITTY_IMAGE_STORAGE_LIMIT, ffi.new("uint64_t*", 0))
        self._set(lib.GHOSTTY_TERMINAL_OPT_GLYPH_PROTOCOL, ffi.new("bool*", False))
        for option, color in (
            (lib.GHOSTTY_TERMINAL_OPT_COLOR_FOREGROUND, FOREGROUND),
            (lib.GHOSTTY_TERMINAL_OPT_COLOR_BACKGROUND, BACKGROUND),
            (lib.GHOSTTY_TERMINAL_OPT_COLOR_CURSOR, FOREGROUND),
        ):
            self._set(option, ffi.new("GhosttyColorRgb*", color))
        for option, callback in _ANSWERS:
            self._set(option, callback)
        self.listen(True)
        self._ground, self._cols = ffi.new("bool*"), ffi.new("uint16_t*")
        self._switches = ffi.new("GhosttyTerminalModeConfig*", {"mode": COLUMN_SWITCHING})
        self._settled_keys = ffi.new(
            "GhosttyTerminalData[]",
            [
                lib.GHOSTTY_TERMINAL_DATA_VT_GROUND,
                lib.GHOSTTY_TERMINAL_DATA_COLS,
                lib.GHOSTTY_TERMINAL_DATA_MODE,
            ],
        )
        self._settled_values = ffi.new("void*[]", [self._ground, self._cols, self._switches])
        self.forbid_column_switching()
        self.has_top()

    @classmethod
    def new(cls, cols: int, rows: int, limits: Limits, signals: Signals) -> Emulator:
        """Make an empty terminal."""
        out = ffi.new("GhosttyTerminal*")
        _check(lib.ghostty_terminal_new(ffi.NULL, out, cols, rows), "making a terminal")
        return cls(out[0], cols, 0, limits, signals)

    @classmethod
    def decode(cls, blob: bytes, cols: int, limits: Limits, signals: Signals) -> tuple[Emulator, int]:
        """Make a terminal from a snapshot, and say how many bytes of `blob` that was."""
        decoder, out, used = (
            ffi.new("GhosttySnapshotDecoder*"),
            ffi.new("GhosttyTerminal*"),
            ffi.new("size_t*"),
        )
        source = ffi.from_buffer("uint8_t[]", blob)
        _check(
            lib.ghostty_snapshot_decoder_new_buf(ffi.NULL, decoder, source, len(blob)), "reading a snapshot"
        )
        try:
            for option, value in (
                (
                    lib.GHOSTTY_SNAPSHOT_DECODER_OPT_MAX_CONTINUATION_BYTES,
                    ffi.new("size_t*", limits.unfinished),
                ),
                (lib.GHOSTTY_SNAPSHOT_DECODER_OPT_RETAIN_CONTINUATION, ffi.new("bool*", True)),
            ):
                _check(lib.ghostty_snapshot_decoder_set(decoder[0], option, value), "reading a snapshot")
            _check(lib.ghostty_snapshot_decoder_decode(decoder[0], out), "reading a snapshot")
            offset = lib.GHOSTTY_SNAPSHOT_DECODER_DATA_SOURCE_OFFSET
            lib.ghostty_snapshot_decoder_get(decoder[0], offset, used)
        finally:
            lib.ghostty_snapshot_decoder_free(decoder[0])
        return cls(out[0], cols, _spare(blob, cols), limits, signals), used[0]

    def _set(self, option: int, value: Any) -> None:
        _check(lib.ghostty_terminal_set(self._terminal, option, value), f"setting option {option}")

    def _limit_scrollback(self) -> None:
        lines, size = self._limits.scrollback(self._columns, self._spare)
        self._set(lib.GHOSTTY_TERMINAL_OPT_SCROLLBACK_MAX_LINES, ffi.new("size_t*", lines))
        self._set(lib.GHOSTTY_TERMINAL_OPT_SCROLLBACK_MAX_BYTES, ffi.new("size_t*", size))

    def has_top(self) -> bool:
        """Whether the row is still there that was the oldest when this was made.

        One that was made while its alternate screen was shown marks it when it is asked on the primary one.
        """
        if not self._marks:
            if self.alternate():
                return True
            mark = ffi.new("GhosttyTrackedGridRef*")
            terminal, out = (int(ffi.cast("uintptr_t", each)) for each in (self._terminal, mark))
            _check(_track(terminal, _Point(lib.GHOSTTY_POINT_TAG_SCREEN), out), "marking a row")
            self._marks.append(mark[0])
        return bool(lib.ghostty_tracked_grid_ref_has_value(self._marks[0]))

    def listen(self, on: bool) -> None:
        """Tell the signals, or stop telling them: each costs a call into Python."""
        for option, callback in _SIGNALS:
            self._set(option, callback if on else ffi.NULL)

    def write(self, data: bytes) -> None:
        """Take what the program printed."""
        lib.ghostty_terminal_vt_write(self._terminal, data, len(data))

    def settled(self) -> tuple[bool, int, bool]:
        """Whether no sequence or character is unfinished, how many columns there are, and whether the program
        may change that."""
        lib.ghostty_terminal_get_multi(self._terminal, 3, self._settled_keys, self._settled_values, ffi.NULL)
        return self._ground[0], self._cols[0], self._switches.value

    def forbid_column_switching(self) -> None:
        """Let the program's wish for 80 or 132 columns (DECCOLM) do nothing."""
        self._set_mode(COLUMN_SWITCHING, False)

    def unfinished_size(self) -> int:
        """How many bytes of an unfinished sequence or character there are."""
        size = ffi.new("size_t*")
        lib.ghostty_terminal_continuation_buf(self._terminal, ffi.NULL, 0, size)
        return int(size[0])

    def unfinished(self) -> bytes:
        """The bytes of an unfinished sequence or character."""
        size = ffi.new("size_t*")
        lib.ghostty_terminal_continuation_buf(self._terminal, ffi.NULL, 0, size)
        if not size[0]:
            return b""
        buffer = ffi.new("uint8_t[]", size[0])
        _check(
            lib.ghostty_terminal_continuation_buf(self._terminal, buffer, size[0], size),
            "asking for the unfinished sequence",
        )
        return bytes(ffi.buffer(buffer, size[0]))

    def resize(self, cols: int, rows: int) -> None:
        """Change the size. Lines are wrapped anew even if the program has turned wrapping off.

        Else the library would cut them off, and wide characters with them in the middle.
        """
        wraps = self._mode(7)
        if not wraps:
            self._set_mode(7, True)
        _check(lib.ghostty_terminal_resize(self._terminal, cols, rows, *CELL_PIXELS), "resizing")
        if not wraps:
            self._set_mode(7, False)
        self._columns = cols
        self._limit_scrollback()

    def snapshot(self) -> bytes:
        """All of the state, to be decoded by `decode`."""
        parts: list[bytes] = []

        def take(_: Any, data: Any, size: int) -> bool:
            parts.append(bytes(ffi.buffer(data, size)))
            return True

        _check(self._encode(take), "making a snapshot")
        blob = b"".join(parts)
        spare = _spare(blob, self._columns)
        if spare < self._spare:  # pages that were not full are gone
            self._spare = spare
            self._limit_scrollback()
        return blob

    def records(self, take: Callable[[int, bytes], bool]) -> None:
        """Hand over the records of a snapshot, each as tag and payload, until `take` gives false."""
        waiting = bytearray()
        at = ENVELOPE.size
        trouble: list[BaseException] = []
        enough = False

        def write(_: Any, data: Any, size: int) -> bool:
            nonlocal at, enough
            waiting.extend(ffi.buffer(data, size))
            try:
                while len(waiting) >= at + RECORD.size:
                    tag, length, _ = RECORD.unpack_from(waiting, at)
                    end = at + RECORD.size + length
                    if len(waiting) < end:
                        break
                    payload = bytes(waiting[at + RECORD.size : end])
                    del waiting[:end]
                    at = 0
                    if not take(tag, payload):
                        enough = True
                        return False
            except BaseException as error:
                trouble.append(error)
                return False
            return True

        code = self._encode(write)
        if trouble:
            raise trouble[0]
        if not enough:
            _check(code, "making a snapshot")

    def _encode(self, write: Callable[[Any, Any, int], bool]) -> int:
        callback = ffi.callback("GhosttyWriterFn", write)
        writer = ffi.new("GhosttyWriter*", {"write": callback})
        code = int(lib.ghostty_snapshot_encode(self._terminal, writer[0]))
        # Some states can't be encoded, and then nothing was written. A state that can't be kept is worse than
        # one that has lost a little. First an unfinished sequence is given up: an APC with a C1 control in it
        # is one that can't be kept. Then the alternate screen is cleared: a program that asks for 80 columns
        # may have cut wide characters on it in half.
        for mend in (b"\x18", _CLEAR if self.alternate() else b"\x1b[?47h" + _CLEAR + b"\x1b[?47l"):
            if code != lib.GHOSTTY_INVALID_VALUE:
                break
            self.write(mend)
            code = int(lib.ghostty_snapshot_encode(self._terminal, writer[0]))
        return code

    def alternate(self) -> bool:
        """Whether the alternate screen is shown."""
        return bool(self._get("ACTIVE_SCREEN", "GhosttyTerminalScreen")[0])

    def at_prompt(self) -> bool:
        """Whether the cursor is at a shell's prompt."""
        return bool(self._get("CURSOR_AT_PROMPT", "bool")[0])

    def keyboard_flags(self) -> int:
        """The flags of kitty's keyboard protocol."""
        return int(self._get("KITTY_KEYBOARD_FLAGS", "uint8_t")[0])

    def scrollback_rows(self) -> int:
        """How many rows are above the screen that is shown."""
        return int(self._get("SCROLLBACK_ROWS", "size_t")[0])

    def title(self) -> bytes:
        return _bytes(self._get("TITLE", "GhosttyString")[0])

    def pwd(self) -> bytes:
        """The working directory in the program's own words."""
        return _bytes(self._get("PWD", "GhosttyString")[0])

    def bracketed_paste(self) -> bool:
        """Whether the program wants pasted text to be marked."""
        return self._mode(2004)

    def _mode(self, number: int) -> bool:
        out = ffi.new("GhosttyTerminalModeConfig*", {"mode": number})
        code = lib.ghostty_terminal_get(self._terminal, lib.GHOSTTY_TERMINAL_DATA_MODE, out)
        _check(code, "asking for a mode")
        return bool(out.value)

    def _set_mode(self, number: int, on: bool) -> None:
        mode = ffi.new("GhosttyTerminalModeConfig*", {"mode": number, "value": on})
        self._set(lib.GHOSTTY_TERMINAL_OPT_MODE, mode)

    def _get(self, key: str, kind: str) -> Any:
        """One value. The type must be the one of the library's header, for it is written unchecked."""
        out = ffi.new(f"{kind}*")
        code = lib.ghostty_terminal_get(self._terminal, getattr(lib, f"GHOSTTY_TERMINAL_DATA_{key}"), out)
        _check(code, f"asking for {key}")
        return out

    def key(self, place: str, text: str, unshifted: int, modifiers: int, consumed: int) -> bytes:
        """What the program reads when a key is pressed. `place` is the last part of a GHOSTTY_KEY name."""
        encoder = ffi.new("GhosttyKeyEncoder*")
        event = ffi.new("GhosttyKeyEvent*")
        _check(lib.ghostty_key_encoder_new(ffi.NULL, encoder), "encoding a key")
        owned = ffi.gc(encoder[0], lib.ghostty_key_encoder_free)
        _check(lib.ghostty_key_event_new(ffi.NULL, event), "encoding a key")
        pressed = ffi.gc(event[0], lib.ghostty_key_event_free)
        lib.ghostty_key_encoder_setopt_from_terminal(owned, self._terminal)
        lib.ghostty_key_event_set_action(pressed, lib.GHOSTTY_KEY_ACTION_PRESS)
        lib.ghostty_key_event_set_key(pressed, getattr(lib, f"GHOSTTY_KEY_{place}"))
        lib.ghostty_key_event_set_mods(pressed, modifiers)
        lib.ghostty_key_event_set_consumed_mods(pressed, consumed)
        spelled = text.encode()
        typed = ffi.new("char[]", spelled)
        lib.ghostty_key_event_set_utf8(pressed, typed, len(spelled))
        lib.ghostty_key_event_set_unshifted_codepoint(pressed, unshifted)
        buffer, size = ffi.new("char[]", 64), ffi.new("size_t*")
        _check(lib.ghostty_key_encoder_encode(owned, pressed, buffer, 64, size), "encoding a key")
        return bytes(ffi.buffer(buffer, size[0]))

    def close(self) -> None:
        """Free the terminal."""
        if self._terminal is not None:
            ffi.release(self._terminal)
            self._terminal = None


def _spare(blob: bytes, cols: int) -> int:
    """How many bytes of a snapshot's pages are counted and not used, but for those being filled."""
    pages = sorted(page_rows(blob))[:-2]
    return min(MAX_SPARE, sum(max(0, PAGE_BYTES - rows * _row_bytes(cols)) for rows in pages))


def char_width(codepoint: int) -> int:
    """How many columns the emulator gives to a character by itself: 0, 1 or 2."""
    return int(lib.ghostty_unicode_codepoint_width(codepoint))
