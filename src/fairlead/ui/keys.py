"""The keys in what a person types, in whatever way the terminal sends them, across reads.

The program's modes decide how keys come: as they are, as control sequences, or as kitty's `CSI code ;
modifiers u` when it asked for that. Sequences are read whole, so that no part of a terminal's answer is taken
for a key, and what stands between paste brackets is none. Has no clock and imports nothing, as attaching
starts with it.
"""

from __future__ import annotations

ESCAPE_WAIT = 0.1
"""Seconds after which an unfinished sequence was no sequence: the key Escape, or another one with Alt."""
MAX_SEQUENCE = 64
"""How many bytes a control sequence may have; a longer one is none of ours."""
MAX_STRING = 4096
"""How many bytes a terminal's answer may have that comes as a string."""

Key = tuple[int, int]
"""A key's code, and where it begins in what was read. The code is the byte that was typed, as is a control
key's character, or one of the names below."""

ALT = 1 << 16
"""Is added to a code: pressed with Alt, or after Escape; for the named keys below also with Control."""
UP, DOWN, RIGHT, LEFT, HOME, END, DELETE, PASTE, OTHER, BACK_TAB = range(256, 266)
"""Keys that are no character, and a whole paste."""

ESC = 0x1B
_BEL = 0x07
_PASTE, _PASTED = b"\x1b[200~", b"\x1b[201~"
_NO_KEYS = (b"\x1b[I", b"\x1b[O", _PASTED)
_FINALS = {b"A": UP, b"B": DOWN, b"C": RIGHT, b"D": LEFT, b"H": HOME, b"F": END, b"Z": BACK_TAB}
_NUMBERS = {1: HOME, 7: HOME, 4: END, 8: END, 3: DELETE}
_MODIFIER_KEYS = range(57358, 57455)
"""The codes of Shift, Control and their like where they are reported on their own."""
_HELD_ALT, _HELD_CTRL = 2, 4
_RELEASED = b"3"


class KeyReader:
    """Finds keys. Keeps up to `max_paste` bytes of each paste; without it pastes are passed over."""

    def __init__(self, max_paste: int = 0) -> None:
        self.pasting = False
        """True while a paste bracket is open."""
        self.pastes: list[bytes] = []
        """What each `PASTE` stands for, the first one first; to be taken from here."""
        self._max_paste = max_paste
        self._paste = bytearray()
        self._sequence: bytearray | None = None
        self._read_at = 0.0

    @property
    def in_sequence(self) -> bool:
        """True if what came so far ends in an unfinished sequence, or in a paste that goes on."""
        return self.pasting or self._sequence is not None

    @property
    def is_pending(self) -> bool:
        """True after an Escape of which it is not known whether more follows."""
        return self._sequence is not None and not self.pasting

    def flush(self) -> int:
        """Return the key that a pending sequence was after all, as nothing more came: Escape, or one with
        Alt."""
        sequence, self._sequence = self._sequence, None
        return ALT | sequence[1] if sequence is not None and len(sequence) > 1 else ESC

    def read(self, data: bytes, now: float = 0.0) -> list[Key]:
        """Return the keys that are whole with this. With a time, it is noticed when a sequence took too long
        to be one."""
        if self.is_pending and now - self._read_at > ESCAPE_WAIT:
            self.flush()
        self._read_at = now
        found: list[Key] = []
        start = 0
        for place, value in enumerate(data):
            sequence = self._sequence
            if sequence is None or (value == ESC and not _is_string(sequence)):
                if sequence is not None:  # the Escape before was a key of its own
                    self._sequence_ended(ESC, start, sequence, found)
                if value == ESC:
                    self._sequence, start = bytearray((ESC,)), place
                elif self.pasting:
                    self._keep(data[place : place + 1])
                else:
                    found.append((value, place))
                continue
            sequence.append(value)
            if self._is_whole(sequence):
                self._sequence = None
                self._sequence_ended(self._code(bytes(sequence)), start, sequence, found)
        return found

    def skim(self, data: bytes, now: float = 0.0) -> None:
        """Read past much at once, in which no key is looked for: what counts is how it ends."""
        if self._sequence is not None:
            data = bytes(self._sequence) + data
            self._sequence = None
        opened, closed = data.rfind(_PASTE), data.rfind(_PASTED)
        if opened != closed:
            self.pasting = opened > closed
        last = data.rfind(b"\x1b", -MAX_SEQUENCE)
        if last >= 0:
            self.read(data[last:], now)

    def _sequence_ended(self, code: int | None, start: int, sequence: bytearray, found: list[Key]) -> None:
        """Take a sequence that is whole; a code of None is no key."""
        if sequence == _PASTE:
            self.pasting = True
        elif self.pasting and sequence != _PASTED:
            self._keep(sequence)
        elif self.pasting:
            self.pasting = False
            if self._max_paste:
                self.pastes.append(bytes(self._paste))
                self._paste.clear()
                found.append((PASTE, start))
        elif code is not None:
            found.append((code, start))

    def _keep(self, pasted: bytes | bytearray) -> None:
        self._paste += pasted[: max(0, self._max_paste - len(self._paste))]

    def _is_whole(self, sequence: bytearray) -> bool:
        second, last = sequence[1], sequence[-1]
        if len(sequence) == 2:
            return second not in (b"[" if self.pasting else b"[O]PX^_")
        if _is_string(sequence):
            return last == _BEL or sequence.endswith(b"\x1b\\") or len(sequence) >= MAX_STRING
        return not 0x20 <= last < 0x40 or len(sequence) >= MAX_SEQUENCE

    @staticmethod
    def _code(sequence: bytes) -> int | None:
        """The key of a sequence; None for the mouse, the focus, an answer, a key's release."""
        if len(sequence) == 2:
            return ALT | sequence[1]
        rest = sequence[2:]
        if (
            _is_string(sequence)
            or rest[:1] in (b"<", b"?", b">")
            or sequence in (b"\x1b[I", b"\x1b[O", _PASTED)
        ):
            return None
        number, _, more = rest[:-1].partition(b";")
        modifiers, _, kind = more.partition(b";")[0].partition(b":")
        try:
            key = int(number.partition(b":")[0] or b"1")
            held = int(modifiers or b"1") - 1
        except ValueError:
            return OTHER
        if kind == _RELEASED or key in _MODIFIER_KEYS:
            return None
        if rest.endswith(b"u"):
            alt = ALT if held & _HELD_ALT else 0
            return OTHER if key > 127 else (key & 0x1F if held & _HELD_CTRL else key) | alt
        named = _NUMBERS.get(key, OTHER) if rest.endswith(b"~") else _FINALS.get(rest[-1:], OTHER)
        return named | (ALT if held & (_HELD_ALT | _HELD_CTRL) else 0)


def _is_string(sequence: bytes | bytearray) -> bool:
    return sequence[1:2] in (b"]", b"P", b"X", b"^", b"_")
