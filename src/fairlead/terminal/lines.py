"""The lines that a program prints, one after the other, for those who follow it as they would a log.

What a line is, `Printed` says; here they have numbers. A `LineFollower` holds what its client has not asked
for yet, within limits.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from typing import NamedTuple

from ..formats.printed import Printed
from .ports import ProgramState
from .session import TerminalSession

MAX_HELD_LINES = 200_000
"""How many lines wait for a client that does not ask; then the oldest are dropped, and their numbers miss."""
MAX_HELD_CHARS = 8 * 1024 * 1024
"""How many characters they may have together."""
MAX_TAKEN_CHARS = 1024 * 1024
"""How many characters a client gets at once, or one line that has more."""
MAX_LINE = 64 * 1024
"""How long a line may be. What is longer becomes more than one."""
MAX_FOLLOWERS = 64
"""How many clients may follow at the same time."""
PATIENCE = 60.0
"""Seconds without a question until a client counts as gone."""


class LoggedLines(NamedTuple):
    """The lines that a session still has, by number from the first that it ever printed."""

    texts: list[str]
    cursor: int
    """In which of them the cursor is."""
    first: int
    """The number of the oldest. If earlier ones are gone and nobody knows how many, 1."""
    is_complete: bool
    """Whether it has all that were printed."""


def kept(session: TerminalSession) -> LoggedLines:
    """What there is of a session's lines now."""
    lines, count = session.screen.lines(), session.count
    first = 1
    if count.are_lost and count.ended is not None:
        first = max(1, count.ended + 1 - lines.printed)
    return LoggedLines(lines.texts, lines.cursor, first, not count.are_lost)


class Lines(NamedTuple):
    """Some lines: the first one's number, counted from 1 at the oldest that there was, and their texts."""

    first: int
    texts: list[str]
    are_last: bool
    """Whether the program has ended and nothing comes after them."""


class LineFollower:
    """A client that follows a session's lines."""

    def __init__(self, session: TerminalSession) -> None:
        self.id = secrets.token_hex(8)
        self.session = session
        self.asked_at = time.monotonic()
        found = kept(session)
        alternate = session.screen.alternate
        self.before = found._replace(texts=found.texts[: found.cursor])
        """The lines that had ended when it came."""
        begun = "" if alternate else found.texts[found.cursor]
        self._printed = Printed(begun, alternate=alternate, as_shown=True, max_line=MAX_LINE)
        self._held: deque[str] = deque()
        self._chars = 0
        self._next = found.first + found.cursor  # the number of the first one held
        self._over = False
        self.is_gone = False
        session.taps.add(self._take_output)

    def _take_output(self, data: bytes) -> None:
        if time.monotonic() - self.asked_at > PATIENCE:
            self.close()
            return
        for text in self._printed.feed(data):
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
        if self.session.state is ProgramState.ENDED and not self._over:
            self._over = True
            if self._printed.begun:
                self._hold(self._printed.begun)
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
        self.session.taps.discard(self._take_output)


class Followers:
    """All clients that follow, by their ids. Those that have not asked for long are let go."""

    def __init__(self) -> None:
        self._followers: dict[str, LineFollower] = {}

    def add(self, session: TerminalSession) -> LineFollower:
        """Follow a session. Raises ValueError if there are too many."""
        now = time.monotonic()
        for follower in list(self._followers.values()):
            if follower.is_gone or now - follower.asked_at > PATIENCE:
                self.remove(follower)
        if len(self._followers) >= MAX_FOLLOWERS:
            raise ValueError(f"{MAX_FOLLOWERS} clients are already following sessions")
        follower = LineFollower(session)
        self._followers[follower.id] = follower
        return follower

    def find(self, id: str) -> LineFollower | None:
        """The follower of this id, unless it was let go."""
        follower = self._followers.get(id)
        return None if follower is None or follower.is_gone else follower

    def remove(self, follower: LineFollower) -> None:
        follower.close()
        self._followers.pop(follower.id, None)
