"""What a program printed on a terminal, as lines of plain text.

A line is what was printed up to a line feed, without escape sequences. A carriage return, a backspace, moves
within the line and erasing in it do what they do on a screen, so that of a progress bar its last state stays.
Other moves are not followed, and what is drawn on the alternate screen is left out: an emulator is for that.
"""

from __future__ import annotations

import codecs
import re

MAX_LINE = 8 * 1024
"""How long a line may be. What is longer becomes more than one."""
MAX_SEQUENCE = 16 * 1024
"""How long an escape sequence may be; what is longer is dropped."""
MAX_GAP = 1000
"""How many columns a move to the right may go beyond the end of the line."""
MAX_DIGITS = 7
"""How many digits of a number count."""
TAB = 8

_MEANT = r"\[(?:[0-9]*[CDGK`]|\?(?:47|1047|1049)[hl])"
"""After ESC: moves right, left and to a column, erasing in the line, to and from the alternate screen."""
_IGNORED = re.compile(
    r"\x1b(?:\[[0-9;:]*m"  # colours, by far the most
    rf"|(?!{_MEANT})(?:\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\"  # OSC; DCS, SOS, PM, APC
    r"|[ -/]*[0-OQ-WYZ\\`-~]|))"
)
_ANY_SEQUENCE = re.compile(_IGNORED.pattern.replace(f"(?!{_MEANT})", ""))
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)\Z")
_MOVES = re.compile(rf"(\x1b{_MEANT}|[\r\b])")
_DROPPED = dict.fromkeys([*range(8), 0x0B, 0x0C, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])
_SPECIAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_RIGHT = re.compile(r"\x1b\[([0-9]*)C")
_ELSEWHERE = re.compile(
    r"\x1b(?:\[[0-9;]*[ABD-JLMPSTZ@`adefrsu]|\[\?(?:47|1047|1049)[hl]|[DEM8c])"  # moves, erased screens
    r"|\r*\n|[\r\b\x0b\x0c]"
)


class Printed:
    """Makes lines of what a program prints, cut anywhere.

    >>> printed = Printed()
    >>> printed.feed(b"one\\r\\n 10%\\r 99%\\r\\n\\x1b[1mthr"), printed.begun
    (['one', ' 99%'], 'thr')

    With `as_shown`, tabs become spaces and spaces at the end of a line are gone, as on a screen; without it
    they stay, as they may be part of a file that was printed.
    """

    def __init__(
        self, begun: str = "", *, alternate: bool = False, as_shown: bool = False, max_line: int = MAX_LINE
    ) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._unfinished = ""
        self._is_hidden = alternate
        self._as_shown = as_shown
        self._max_line = max_line
        self._line = begun
        self._column = len(begun)

    @property
    def begun(self) -> str:
        """The line that has not ended."""
        return self._line.rstrip(" ") if self._as_shown else self._line

    def feed(self, data: bytes) -> list[str]:
        """The lines that end in this."""
        text = self._unfinished + self._decode(data)
        self._unfinished = ""
        if "\x1b" in text:
            if cut := _UNFINISHED.search(text):
                if len(cut[0]) <= MAX_SEQUENCE:
                    self._unfinished = cut[0]
                text = text[: cut.start()]
            text = _IGNORED.sub("", text)
        text = text.replace("\r\n", "\n")
        ended: list[str] = []
        *whole, last = text.split("\n")
        is_plain = not self._is_hidden and _SPECIAL.search(text) is None
        if is_plain and len(whole) > 1 and max(map(len, whole)) <= self._max_line:
            self._write(whole[0], ended)  # the usual case, many thousand times a second
            self._end_line(ended)
            if self._as_shown:
                ended += [_expanded(line, 0).rstrip(" ") for line in whole[1:]]
            else:
                ended += whole[1:]
            whole = []
        for piece in whole:
            self._write(piece.rstrip("\r"), ended)
            self._end_line(ended)
        self._write(last, ended)
        return ended

    def _end_line(self, ended: list[str]) -> None:
        if not self._is_hidden:
            ended.append(self.begun)
            self._line, self._column = "", 0

    def _write(self, piece: str, ended: list[str]) -> None:
        if _SPECIAL.search(piece) is None:
            self._put(piece)
        else:
            for part in _MOVES.split(piece.translate(_DROPPED)):
                if self._is_hidden and part[:1] != "\x1b":
                    continue
                if part == "\r":  # this and the next are what progress bars do
                    self._column = 0
                elif part == "\x1b[K":
                    self._line = self._line if self._is_hidden else self._line[: self._column]
                elif part[:1] in ("\b", "\x1b"):
                    self._move(part)
                else:
                    self._put(part)
                    if len(self._line) > 2 * self._max_line:  # each move costs as much as the line is long
                        self._cut(ended)
        self._cut(ended)

    def _cut(self, ended: list[str]) -> None:
        """End what is longer than a line may be."""
        while len(self._line) > self._max_line:
            ended.append(self._line[: self._max_line])
            self._line = self._line[self._max_line :]
            self._column = max(0, self._column - self._max_line)

    def _move(self, part: str) -> None:
        final = part[-1]
        if final in "hl":
            self._is_hidden = final == "h"
            return
        if self._is_hidden:
            return
        number = int(part[2:-1][:MAX_DIGITS] or 0)
        column = self._column
        match final:
            case "\b" | "D":
                column -= max(1, number)
            case "C":
                column += max(1, number)
            case "G" | "`":
                column = number - 1
            case _:
                self._erase(number)
        self._column = min(max(0, column), len(self._line) + MAX_GAP)

    def _erase(self, what: int) -> None:
        column = self._column
        match what:
            case 0:
                self._line = self._line[:column]
            case 1:
                self._line = " " * min(column + 1, len(self._line)) + self._line[column + 1 :]
            case 2:
                self._line = ""

    def _put(self, text: str) -> None:
        if self._is_hidden or not text:
            return
        if self._as_shown:
            text = _expanded(text, self._column)
        if self._column == len(self._line):
            self._line += text
        else:
            line = self._line.ljust(self._column)
            self._line = line[: self._column] + text + line[self._column + len(text) :]
        self._column += len(text)


class Drawn:
    """Makes text of all that a program draws, in the order in which it draws it and on either screen, for who
    looks for words in it: what was drawn over later is in it, too. Moves of the cursor end a line.

    >>> drawn = Drawn()
    >>> drawn.feed(b"\\x1b[2J\\x1b[1;1H\\x1b[1mREA"), drawn.feed(b"DY\\x1b[0m \\r10%\\r")
    ('\\n\\nREA', 'DY\\n10%')
    """

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._unfinished = ""

    def feed(self, data: bytes) -> str:
        text = self._unfinished + self._decode(data)
        self._unfinished = ""
        if "\x1b" in text:
            if cut := _UNFINISHED.search(text):
                self._unfinished = cut[0] if len(cut[0]) <= MAX_SEQUENCE else ""
                text = text[: cut.start()]
            text = _RIGHT.sub(lambda move: " " * min(MAX_GAP, int(move[1][:MAX_DIGITS] or 1)), text)
        if text.endswith("\r"):  # its line feed may follow
            text, self._unfinished = text[:-1], "\r" + self._unfinished
        text = _ELSEWHERE.sub("\n", text)
        if _SPECIAL.search(text) is not None:
            text = _ANY_SEQUENCE.sub("", text).translate(_DROPPED)
        *whole, last = text.split("\n")
        return "\n".join([*(line.rstrip(" ") for line in whole), last])


def _expanded(text: str, column: int) -> str:
    """A text with spaces for tabs, if it begins in this column."""
    if "\t" not in text:
        return text
    before = column % TAB
    return (" " * before + text).expandtabs(TAB)[before:]
