"""What a person typed, read for the few keys that `fairlead attach` takes for itself.

The program's modes decide how keys come: as they are, or as kitty's `CSI code ; modifiers u` when it asked
for all keys that way. What is pasted between paste brackets is no key. Imports nothing, as attaching starts
with it.
"""

from __future__ import annotations

MAX_SEQUENCE = 64
"""How many bytes of an escape sequence are looked at; a longer one is none of ours."""

_ESC, _CSI = 0x1B, ord("[")
_NO_KEY = -1
"""A sequence that says nothing of a key: the mouse, the focus, an answer, a key's release."""
_OTHER_KEY = -2
_MODIFIER_KEYS = range(57358, 57455)
"""The codes of Shift, Control and their like where they are reported on their own."""
_CTRL = 4
_PASTE, _PASTED = b"\x1b[200~", b"\x1b[201~"

UP, DOWN, RIGHT, LEFT = range(-10, -14, -1)
"""The codes of the arrow keys."""
_ARROWS = {b"A": UP, b"B": DOWN, b"C": RIGHT, b"D": LEFT}


class Typed:
    """Gives the keys of what is typed, across reads."""

    def __init__(self) -> None:
        self._sequence: bytearray | None = None
        self.pasting = False
        """Whether a paste bracket is open."""

    @property
    def in_sequence(self) -> bool:
        """Whether what came so far ends in an unfinished sequence, or in a paste that goes on."""
        return self.pasting or self._sequence is not None

    def keys(self, data: bytes) -> list[tuple[int, int]]:
        """Each key's code, and where it begins in the data. A control key's code is its control character."""
        found: list[tuple[int, int]] = []
        start = 0
        for place, value in enumerate(data):
            sequence = self._sequence
            if sequence is not None:
                sequence.append(value)
                if len(sequence) == 2 and value == _CSI:
                    continue
                if len(sequence) > 2 and 0x20 <= value < 0x40 and len(sequence) < MAX_SEQUENCE:
                    continue
                self._sequence = None
                if len(sequence) > 2:
                    if (code := self._told(bytes(sequence[2:]))) != _NO_KEY and not self.pasting:
                        found.append((code, start))
                    continue
            if value == _ESC:  # what follows decides; a second ESC begins anew
                self._sequence = bytearray((value,))
                start = place
            elif not self.pasting:
                found.append((value, place))
        return found

    def skim(self, data: bytes) -> None:
        """Read past much at once, in which no key is looked for: what counts is how it ends."""
        if self._sequence is not None:
            data = bytes(self._sequence) + data
            self._sequence = None
        opened, closed = data.rfind(_PASTE), data.rfind(_PASTED)
        if opened != closed:
            self.pasting = opened > closed
        last = data.rfind(b"\x1b", -MAX_SEQUENCE)
        if last >= 0:
            self.keys(data[last:])

    def _told(self, rest: bytes) -> int:
        """The key of a control sequence, without its introducer."""
        if rest in (b"200~", b"201~"):
            self.pasting = rest == b"200~"
            return _NO_KEY
        if rest[:1] in (b"<", b"?", b">") or rest in (b"I", b"O"):
            return _NO_KEY
        if rest in _ARROWS:
            return _ARROWS[rest]
        if not rest.endswith(b"u"):
            return _OTHER_KEY
        code, _, more = rest[:-1].partition(b";")
        modifiers, _, kind = more.partition(b";")[0].partition(b":")
        try:
            key = int(code.partition(b":")[0])
            held = int(modifiers or b"1") - 1
        except ValueError:
            return _OTHER_KEY
        if kind == b"3" or key in _MODIFIER_KEYS:
            return _NO_KEY
        return key & 0x1F if held & _CTRL else key
