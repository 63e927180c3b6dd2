"""How much of a program's output is drawn between two looks at the clock.

A byte of coloured text is drawn in 3 ns, a byte of the costliest sequences in 7 µs, and which of them come
can't be told beforehand without looking at each. So a program is trusted with long steps when it has printed
nothing costly for a while, and each time that it does, it takes twice as much text to be trusted again. Soon
after, sequences that ask for much work are also cut down to what can be seen of them.
"""

from __future__ import annotations

import re

LONG_STEP, STEP, WARY_STEP = 16 * 1024, 2048, 128
"""How many bytes are drawn at once of a program that is trusted, of one that is not, and of one that was
costly of late. At worst the first takes 0.1 s, which happens a few times in a program's life."""
COSTLY = 200e-9
"""Seconds for a byte that are long: ten times what coloured text takes."""
WARY_FOR = 1024 * 1024
"""For how many bytes after that a program is costly of late."""
TRUSTED_AFTER, MAX_TRUSTED_AFTER = 128 * 1024, 1024 * 1024 * 1024
"""After how many bytes without any a program is trusted, the first time and at most."""
MAX_NUMBER = 0xFFFF
"""The largest number that a sequence can say; a larger one is this."""

_REPEATS = re.compile(rb"\x1b\[0*([1-9][0-9]{3,})b")
_RESETS = re.compile(rb"(?:\x1bc){2,}")


class Pace:
    """The steps of one screen."""

    def __init__(self) -> None:
        self.step = STEP
        """How many bytes to draw before the clock is looked at."""
        self._good = 0  # bytes drawn since the last that were costly
        self._trusted_after = TRUSTED_AFTER

    @property
    def is_wary(self) -> bool:
        """Whether the program has printed something costly of late."""
        return self.step == WARY_STEP

    def drew(self, size: int, seconds: float) -> None:
        """So many bytes were drawn and took that long."""
        if seconds > COSTLY * max(size, WARY_STEP):
            self.step = WARY_STEP
            self._good = 0
            self._trusted_after = min(2 * self._trusted_after, MAX_TRUSTED_AFTER)
        elif self.step != LONG_STEP:
            self._good += size
            if self._good >= max(self._trusted_after, WARY_FOR if self.is_wary else 0):
                self.step = LONG_STEP
            elif self.is_wary and self._good >= WARY_FOR:
                self.step = STEP


def cut_down(data: bytes, cols: int, rows: int) -> bytes:
    """Output of the same length with less work: of many repetitions of a character (REP) as many as fill the
    screen twice and end in the same column, and of resets that follow each other one."""
    limit = 2 * cols * rows

    def fewer(found: re.Match[bytes]) -> bytes:
        count = min(int(found[1][:6]), MAX_NUMBER)
        kept = limit + (count - limit) % cols
        return found[0] if count <= kept else b"\x1b[%0*db" % (len(found[0]) - 3, kept)

    return _RESETS.sub(lambda found: b"\x1bc".ljust(len(found[0]), b"\0"), _REPEATS.sub(fewer, data))
