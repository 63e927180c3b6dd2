"""What a program printed on a terminal, as lines of plain text.

Escape sequences are left out; a carriage return and a backspace do what they do on a screen, so that of a
progress bar its last state stays. Other movements of the cursor are not followed.
"""

from __future__ import annotations

import codecs
import re

MAX_LINE = 8 * 1024
"""How long a line may be. What is longer becomes more than one."""
MAX_SEQUENCE = 16 * 1024
"""How long an escape sequence may be; what is longer is dropped."""

_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\"  # OSC; DCS, SOS, PM, APC
    r"|[ -/]*[0-OQ-WYZ\\`-~])"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)\Z")
_ERASE = re.compile(r"\x1b\[0?K")
_ERASED = "\x0b"
"""What erasing to the end of the line becomes while a line is made."""
_MOVES = re.compile("([\r\b\x0b])")
_DROPPED = dict.fromkeys([*range(8), *range(0x0C, 0x0D), *range(0x0E, 0x20), 0x7F])


class Printed:
    """Makes lines of what a program prints, cut anywhere.

    >>> printed = Printed()
    >>> printed.feed(b"one\\r\\n 10%\\r 99%\\r\\n\\x1b[1mthr"), printed.begun
    (['one', ' 99%'], 'thr')
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._unfinished = ""
        self._line = ""
        self._column = 0

    @property
    def begun(self) -> str:
        """The line that has not ended."""
        return self._line

    def feed(self, data: bytes) -> list[str]:
        """The lines that end in this."""
        text = (self._unfinished + self._decode(data)).replace(_ERASED, "")
        self._unfinished = ""
        if "\x1b" in text:
            if cut := _UNFINISHED.search(text):
                if len(cut[0]) <= MAX_SEQUENCE:
                    self._unfinished = cut[0]
                text = text[: cut.start()]
            text = _SEQUENCE.sub("", _ERASE.sub(_ERASED, text))
        ended: list[str] = []
        text = text.translate(_DROPPED).replace("\r\n", "\n")
        *whole, last = text.split("\n")
        for number, piece in enumerate(whole):
            if number == 1 and not _MOVES.search(text) and max(map(len, whole)) <= MAX_LINE:
                ended += whole[1:]  # the usual case, many thousand times a second
                break
            self._put(piece.rstrip("\r"), ended)
            ended.append(self._line)
            self._line, self._column = "", 0
        self._put(last, ended)
        return ended

    def _put(self, piece: str, ended: list[str]) -> None:
        is_plain = "\r" not in piece and "\b" not in piece and _ERASED not in piece
        for part in (piece,) if is_plain else _MOVES.split(piece):
            match part:
                case "\r":
                    self._column = 0
                case "\b":
                    self._column = max(0, self._column - 1)
                case "\x0b":
                    self._line = self._line[: self._column]
                case _:
                    rest = self._line[self._column + len(part) :]
                    self._line = self._line[: self._column] + part + rest
                    self._column += len(part)
        while len(self._line) > MAX_LINE:
            ended.append(self._line[:MAX_LINE])
            self._line = self._line[MAX_LINE:]
            self._column = max(0, self._column - MAX_LINE)
