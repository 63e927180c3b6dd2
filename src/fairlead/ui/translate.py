"""What a session prints, made fit for a terminal that belongs to somebody else.

A program may reset its own terminal, empty its scrollback and switch to its alternate screen; the person's
terminal must not follow: their lines and their scrollback are to be there again when they leave. So a reset
becomes one that keeps both, erasing the scrollback is left out, and, when the session is drawn in the
alternate screen, switching screens becomes a redraw that is asked from the session. Does no I/O and imports
little, as attaching starts with it; what needs no change is passed on after a few searches.
"""

from __future__ import annotations

from .own_terminal import KITTY_KEYS, MODES_OFF

MAX_HELD = 256
"""How many bytes of an unfinished sequence are held back until its end is there; a longer one is passed
on."""
MAX_RESETS = 8
"""How many resets at once are translated one by one. What comes before the last of more is cleared anyway."""

REDRAW = b"\x18\x1bc\x1b]104"
"""What the daemon's redraws begin with."""

_RESET = b"\x1b[!p" + KITTY_KEYS + MODES_OFF
_CLEAR_ALTERNATE = b"\x1b[H\x1b[2J"
_CLEAR_MAIN = b"\x1b[?1049l\x1b[?1047l\x1b[?47l" + _RESET + b"\x1b[H\x1b[J"
_SCREENS = (47, 1047, 1049)
_CONTROLS = bytes([*range(0x1B), *range(0x1C, 0x20), 0x7F])
_ESC, _CAN, _SUB, _DELETE, _BRACKET = 0x1B, 0x18, 0x1A, 0x7F, ord("[")


class Translator:
    """Takes the session's output, frame by frame, and gives what the terminal gets."""

    def __init__(self, *, alternate: bool) -> None:
        self.redraw_wanted = False
        """Whether the screen is right only after a redraw. For the caller to ask for it, and to reset."""
        self._alternate = alternate
        self._held = b""
        self._drawing = False

    def translate(self, data: bytes) -> bytes:
        """What the terminal gets for a frame of output."""
        if self._held:
            data = self._held + data
            self._held = b""
        if b"\x1b" not in data:
            return data
        self._drawing = data.startswith(REDRAW)
        probe = data.translate(None, _CONTROLS)  # a terminal obeys controls in the middle of a sequence
        if (
            b"\x1bc" not in probe
            and b"J" not in probe
            and not (self._alternate and b"\x1b[?" in probe)
            and not _is_unfinished(data)
        ):
            return data
        return self._rewritten(data)

    def _rewritten(self, data: bytes) -> bytes:
        if data.count(b"\x1bc") > MAX_RESETS:
            data = data[data.rfind(b"\x1bc") :]
        out: list[bytes] = []
        start, place = 0, data.find(b"\x1b")
        while place >= 0:
            found = _sequence(data, place)
            if found is None:
                if len(data) - place <= MAX_HELD:
                    self._held = data[place:]
                    data = data[:place]
                break
            end, body, controls = found
            changed = self._changed(body)
            if changed is not None:
                out += data[start:place], controls, changed
                start = end
            place = data.find(b"\x1b", end)
        out.append(data[start:])
        return b"".join(out)

    def _changed(self, body: bytes) -> bytes | None:
        """What takes the place of a sequence, given without its ESC; None if it stays."""
        if body == b"c":
            return _RESET + _CLEAR_ALTERNATE if self._alternate else _CLEAR_MAIN
        final = body[-1:]
        if final == b"J":
            first = body[1:-1].lstrip(b"?").partition(b";")[0]
            return b"" if _number(first) == 3 else None
        if not self._alternate or body[:2] != b"[?" or final not in (b"h", b"l", b"s", b"r"):
            return None
        numbers = body[2:-1].split(b";")
        kept = [each for each in numbers if _number(each) not in _SCREENS]
        if len(kept) == len(numbers):
            return None
        out = b"\x1b[?" + b";".join(kept) + final if kept else b""
        if final == b"s":
            return out
        if self._drawing:  # the redraw paints what belongs there itself
            return out + KITTY_KEYS + (b"\x1b[2J" if final == b"h" else b"\x1b[0m\x1b[2J")
        self.redraw_wanted = True
        return out + b"\x1b[2J" if final == b"h" else out


def is_whole(data: bytes) -> bool:
    """Whether something else can be written after this output without breaking a sequence or a character."""
    if data[-1:] >= b"\x80":
        for length in range(1, 5):
            if data[-length:][:1] >= b"\xc0":
                return length >= (2 if data[-length] < 0xE0 else 3 if data[-length] < 0xF0 else 4)
        return False
    last = data.rfind(b"\x1b")
    if last < 0:
        return True
    if data[last + 1 : last + 2] in (b"]", b"P", b"_", b"^", b"X"):
        return b"\x07" in data[last:]
    return not _is_unfinished(data)


def _is_unfinished(data: bytes) -> bool:
    last = data.rfind(b"\x1b")
    return last >= 0 and len(data) - last <= MAX_HELD and _sequence(data, last) is None


def _sequence(data: bytes, start: int) -> tuple[int, bytes, bytes] | None:
    """Where the sequence that begins with this ESC ends, what it is without ESC (empty if it was given up),
    and the controls in the midst of it. None if its end is not there."""
    body, controls = bytearray(), bytearray()
    for place in range(start + 1, min(len(data), start + MAX_HELD + 1)):
        value = data[place]
        if value < 0x20:
            if value == _ESC:
                return place, b"", b""
            if value in (_CAN, _SUB):
                return place + 1, b"", b""
            controls.append(value)
        elif value != _DELETE:
            if value >= 0x80:
                return place, b"", b""
            body.append(value)
            if value != _BRACKET if len(body) == 1 else value >= 0x40:
                return place + 1, bytes(body), bytes(controls)
    if len(data) - start > MAX_HELD:
        return start + MAX_HELD, b"", b""
    return None


def _number(digits: bytes) -> int:
    return int(digits) if digits.isdigit() else -1
