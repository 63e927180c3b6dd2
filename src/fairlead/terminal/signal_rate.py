"""How often a session's program may call for attention: bells, notifications, titles and progress.

A program may send ten thousand a second, and each is encoded, told to clients and matched with rules. So each
session has a rate, above which notifications and bells are counted and summed up; of titles and progress only
the last one counts anyway.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from ..formats.shown import counted
from .ports import TerminalEvent

RATE = 20.0
"""How many a second are told,"""
BURST = 40
"""and how many at once after a pause."""
SUM_UP_AFTER = 1.0
"""Seconds after which what was left out is summed up."""
BELL, NOTIFICATION = "terminal/bell", "terminal/notification"
LIMITED = frozenset({BELL, NOTIFICATION, "terminal/title", "terminal/progress"})


class SignalRate:
    """Tells a session's signals, as many as are allowed."""

    def __init__(self, tell: Callable[[TerminalEvent], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._room = float(BURST)
        self._at = self._loop.time()
        self._left_out: Counter[str] = Counter()
        self._last: dict[str, TerminalEvent] = {}  # the last one that was left out, by its topic
        self._timer: asyncio.TimerHandle | None = None

    def take(self, event: TerminalEvent) -> None:
        """Tell one of `LIMITED`, or count it."""
        now = self._loop.time()
        self._room = min(BURST, self._room + (now - self._at) * RATE)
        self._at = now
        if self._room >= 1:
            self._room -= 1
            if event.topic not in (BELL, NOTIFICATION):
                self._last.pop(event.topic, None)
            self._tell(event)
            return
        self._left_out[event.topic] += 1
        self._last[event.topic] = event
        if self._timer is None:
            self._timer = self._loop.call_later(SUM_UP_AFTER, self.sum_up)

    def sum_up(self) -> None:
        """Tell what was left out."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        left_out, self._left_out = self._left_out, Counter()
        last, self._last = self._last, {}
        for topic, event in last.items():
            more = left_out[topic]
            match topic:
                case "terminal/bell":
                    self._tell(TerminalEvent(topic, event.data | {"count": more}))
                case "terminal/notification":
                    body = f"{counted(more, 'more notification')} left out; the last: {event.data['body']}"
                    self._tell(TerminalEvent(topic, event.data | {"body": body}))
                case _:
                    self._tell(event)
