"""The lines that a program prints, one after the other, for those who follow it as they would a log.

A line is what was printed up to a line feed, without escape sequences; a carriage return, a backspace and
erasing to the end of the line do what they do on a screen, so that of a progress bar the last state stays.
Other movements of the cursor are not followed, and what is drawn on the alternate screen is left out: that is
what `Screen` is for. A `Follower` holds what its client has not asked for yet, within limits.
"""

from __future__ import annotations

import codecs
import re
import secrets
import time
from collections import deque
from typing import NamedTuple

from .session import Session, State

MAX_HELD_LINES = 200_000
"""How many lines wait for a client that does not ask; then the oldest are dropped, and their numbers miss."""
MAX_HELD_CHARS = 8 * 1024 * 1024
"""How many characters they may have together."""
MAX_TAKEN_CHARS = 1024 * 1024
"""How many characters a client gets at once, or one line that has more."""
MAX_LINE = 64 * 1024
"""How long a line may be. What is longer becomes more than one."""
MAX_SEQUENCE = 64 * 1024
"""How long an escape sequence may be; what is longer is shown as text."""
MAX_FOLLOWERS = 64
"""How many clients may follow at the same time."""
PATIENCE = 60.0
"""Seconds without a question until a client counts as gone."""
TAB = 8
MAX_GAP = 1000
"""How many columns a jump to the right fills with spaces at the most."""

_SEQUENCE = re.compile(
    r"\x1b(?:\[([0-?]*)[ -/]*([@-~])"  # CSI
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\"  # OSC; DCS, SOS, PM, APC
    r"|[ -/]*[0-OQ-WYZ\\`-~])"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)\Z")
_ERASE, _HIDE, _SHOW = "\x1b", "\x0e", "\x0f"
"""What sequences become that matter: erase to the end of the line, to and from the alternate screen."""
_MOVES = re.compile("([\r\b\x1b])")
_DROPPED = dict.fromkeys([*range(8), 0x0B, 0x0C, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])
_ALTERNATE = {"?47", "?1047", "?1049"}


def _meaning(match: re.Match[str]) -> str:
    """What a sequence becomes."""
    parameters, final = match[1], match[2]
    if final == "K":
        return _ERASE if parameters in ("", "0") else f"\r{_ERASE}" if parameters == "2" else ""
    if final == "C" and (not parameters or parameters.isdecimal()):
        return " " * min(int(parameters or 1) or 1, MAX_GAP)
    if final in ("h", "l") and parameters in _ALTERNATE:
        return _HIDE if final == "h" else _SHOW
    return ""


class Splitter:
    """Makes lines of what a program prints, cut anywhere.

    >>> Splitter().feed(b"one\\r\\ntwo 10%\\rtwo 99%\\r\\n\\x1b[1mthr")
    ['one', 'two 99%']
    """

    def __init__(self, begun: str = "", *, alternate: bool = False) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._unfinished = ""
        self._hidden = alternate
        self._line = begun
        self._column = len(begun)

    @property
    def begun(self) -> str:
        """The line that has not ended."""
        return self._line.rstrip(" ")

    def feed(self, data: bytes) -> list[str]:
        """The lines that end in this."""
        text = self._unfinished + self._decode(data)
        self._unfinished = ""
        if "\x1b" in text:
            if cut := _UNFINISHED.search(text):
                if len(cut[0]) <= MAX_SEQUENCE:
                    self._unfinished = cut[0]
                text = text[: cut.start()]
            # a mark that the program itself printed means nothing
            text = _SEQUENCE.sub(_meaning, text.translate({0x0E: None, 0x0F: None}))
        else:
            text = text.translate({0x0E: None, 0x0F: None})
        return self._lines(self._visible(text).translate(_DROPPED))

    def _visible(self, text: str) -> str:
        """Without what is on the alternate screen."""
        if not self._hidden and _HIDE not in text:
            return text.replace(_SHOW, "")
        shown = []
        for piece in re.split(f"([{_HIDE}{_SHOW}])", text):
            if piece in (_HIDE, _SHOW):
                self._hidden = piece == _HIDE
            elif not self._hidden:
                shown.append(piece)
        return "".join(shown)

    def _lines(self, text: str) -> list[str]:
        ended: list[str] = []
        *whole, last = text.split("\n")
        for piece in whole:
            self._write(piece.rstrip("\r"), ended)
            ended.append(self.begun)
            self._line, self._column = "", 0
        self._write(last, ended)
        return ended

    def _write(self, piece: str, ended: list[str]) -> None:
        if "\r" in piece or "\b" in piece or _ERASE in piece:
            for part in _MOVES.split(piece):
                self._move(part)
        else:
            self._put(piece)
        while len(self._line) > MAX_LINE:
            ended.append(self._line[:MAX_LINE])
            self._line = self._line[MAX_LINE:]
            self._column = max(0, self._column - MAX_LINE)

    def _move(self, part: str) -> None:
        match part:
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\x1b":
                self._line = self._line[: self._column]
            case _:
                self._put(part)

    def _put(self, text: str) -> None:
        if "\t" in text:
            text = (" " * (self._column % TAB) + text).expandtabs(TAB)[self._column % TAB :]
        if self._column == len(self._line):
            self._line += text
        else:
            self._line = self._line[: self._column] + text + self._line[self._column + len(text) :]
        self._column += len(text)


class Kept(NamedTuple):
    """The lines that a session still has, by number from the first that it ever printed."""

    texts: list[str]
    cursor: int
    """In which of them the cursor is."""
    first: int
    """The number of the oldest. If earlier ones are gone and nobody knows how many, 1."""
    is_complete: bool
    """Whether it has all that were printed."""


def kept(session: Session) -> Kept:
    """What there is of a session's lines now."""
    lines, count = session.screen.lines(), session.count
    first = 1
    if count.are_lost and count.ended is not None:
        first = max(1, count.ended + 1 - lines.printed)
    return Kept(lines.texts, lines.cursor, first, not count.are_lost)


class Lines(NamedTuple):
    """Some lines: the first one's number, counted from 1 at the oldest that there was, and their texts."""

    first: int
    texts: list[str]
    are_last: bool
    """Whether the program has ended and nothing comes after them."""


class Follower:
    """A client that follows a session's lines."""

    def __init__(self, session: Session) -> None:
        self.id = secrets.token_hex(8)
        self.session = session
        self.asked_at = time.monotonic()
        found = kept(session)
        alternate = session.screen.alternate
        self.before = found._replace(texts=found.texts[: found.cursor])
        """The lines that had ended when it came."""
        self._splitter = Splitter("" if alternate else found.texts[found.cursor], alternate=alternate)
        self._held: deque[str] = deque()
        self._chars = 0
        self._next = found.first + found.cursor  # the number of the first one held
        self._over = False
        self.is_gone = False
        session.taps.add(self._printed)

    def _printed(self, data: bytes) -> None:
        if time.monotonic() - self.asked_at > PATIENCE:
            self.close()
            return
        for text in self._splitter.feed(data):
            self._hold(text)

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._chars += len(text)
        while len(self._held) > MAX_HELD_LINES or self._chars > MAX_HELD_CHARS:
            self._forget()

    def _forget(self) -> None:
        self._chars -= len(self._held.popleft())
        self._next += 1

    def take(self, number: int, limit: int) -> Lines:
        """The lines from a number on. Those before it have been received, and are forgotten."""
        self.asked_at = time.monotonic()
        if self.session.state is State.ENDED and not self._over:
            self._over = True
            if self._splitter.begun:
                self._hold(self._splitter.begun)
        while self._held and self._next < number:
            self._forget()
        texts: list[str] = []
        chars = 0
        for text in self._held:
            chars += len(text)
            if len(texts) >= limit or (texts and chars > MAX_TAKEN_CHARS):
                break
            texts.append(text)
        return Lines(self._next, texts, self._over and len(texts) == len(self._held))

    def close(self) -> None:
        """Follow no more."""
        self.is_gone = True
        self.session.taps.discard(self._printed)


class Followers:
    """All clients that follow, by their ids. Those that have not asked for long are let go."""

    def __init__(self) -> None:
        self._followers: dict[str, Follower] = {}

    def add(self, session: Session) -> Follower:
        """Follow a session. Raises ValueError if there are too many."""
        now = time.monotonic()
        for follower in list(self._followers.values()):
            if follower.is_gone or now - follower.asked_at > PATIENCE:
                self.remove(follower)
        if len(self._followers) >= MAX_FOLLOWERS:
            raise ValueError(f"{MAX_FOLLOWERS} clients follow sessions already")
        follower = Follower(session)
        self._followers[follower.id] = follower
        return follower

    def find(self, id: str) -> Follower | None:
        """The follower of this id, unless it was let go."""
        follower = self._followers.get(id)
        return None if follower is None or follower.is_gone else follower

    def remove(self, follower: Follower) -> None:
        follower.close()
        self._followers.pop(follower.id, None)
