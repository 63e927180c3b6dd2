"""When a key may answer a question: after all of it was shown for a moment, and not by accident.

Whoever holds a key, pastes, or types on when a question comes up answers nothing. A key is an answer if none
came shortly before it and none follows shortly after it, and if every line of the question was on the screen
for a moment. Does no I/O and has no clock: the times of what happens are given.

A moment in which we did not run is none in which something was shown, or no key followed: we may have been
stopped, or the machine was busy, and what was typed meanwhile comes only now. So time passes in steps, and a
long one counts as a short one; the caller looks again and again. After a pause that is longer still, or in
which we are known to have been stopped, all begins again: others had the screen, or nobody was at it.
"""

from __future__ import annotations

MOMENT = 0.4
"""Seconds for which each line must have been on the screen."""
QUIET = 0.3
"""Seconds without a key before one that answers,"""
SETTLED = 0.25
"""and after it: a key that is held comes again, and so does the next one of a paste."""
TYPED = 0.04
"""Seconds between the last key of a text and the one that sends it; those of a paste come sooner."""
STEP = 0.15
"""How many seconds count at the most from one look to the next."""

PAUSE = 1.0
"""Seconds from one look to the next after which nothing counts as shown."""


class AnswerGate:
    """Of one question, as it is shown. `quiet` is for how long no key may come before one that answers."""

    def __init__(self, now: float, quiet: float = QUIET) -> None:
        self._quiet = quiet
        self._last_key = now  # the one that opened it
        self._looked_at = now
        self._clocks: tuple[float, float] | None = None  # at the last look, ours and that of the day
        self._passed = 0.0  # the time that counts
        self._seen = 0  # all lines before this one were seen
        self._window: tuple[int, int, int] | None = None  # first, end and number of lines on the screen
        self._since = 0.0
        self._answer: str | None = None
        self._answered_at = 0.0

    def _pass(self, now: float) -> float:
        self._passed += max(0.0, min(now - self._looked_at, STEP))
        self._looked_at = max(now, self._looked_at)
        return self._passed

    def shown(self, now: float, first: int, end: int, total: int) -> None:
        """These lines of so many are on the screen now."""
        window = (first, end, total)
        passed = self._pass(now)
        if self._window is not None and self._window[2] != total:
            self._seen, self._window = 0, None  # they are other lines: the terminal has another width
        if window != self._window:
            self._seen = self.next_line(now)
            self._window, self._since = window, passed

    def hidden(self) -> None:
        """Some of it can't be shown: nothing was seen."""
        self._seen, self._window = 0, None

    def interrupted(self, now: float) -> None:
        """We were stopped until now: nothing was seen, and what was pressed before answers nothing."""
        self.hidden()
        self._answer, self._last_key = None, max(now, self._last_key)
        self._pass(now)

    def has_paused(self, now: float, day: float) -> bool:
        """Whether we did not run for long since the last look, so that all has begun again. `day` is the time
        of the day, which goes on while the machine sleeps; the other one stands still then."""
        before, self._clocks = self._clocks, (now, day)
        if before is None or max(now - before[0], abs(day - before[1])) <= PAUSE:
            return False
        self.interrupted(now)
        return True

    def is_whole(self, now: float) -> bool:
        """Whether every line was on the screen for a moment."""
        return self._window is not None and self.next_line(now) >= self._window[2]

    def next_line(self, now: float) -> int:
        """The first line that was not on the screen for a moment."""
        if self._window is None:
            return 0
        first, end, _ = self._window
        is_seen = self._pass(now) - self._since >= MOMENT and first <= self._seen
        return max(self._seen, end) if is_seen else self._seen

    def key(self, now: float, answer: str | None) -> str:
        """A key was pressed then, which means this answer if any. Returns why it is none; if it is one, it
        counts once `settled` says so."""
        was_quiet, self._last_key = now - self._last_key >= self._quiet, max(now, self._last_key)
        was_pending, self._answer = self._answer is not None, None
        if was_pending:
            return "several keys at once: nothing was answered"
        if answer is None:
            return ""
        if not self.is_whole(now):
            return "read all of it first: the rest is below" if self._has_more else "read it first"
        if not was_quiet:
            return "several keys at once: nothing was answered"
        self._answer, self._answered_at = answer, self._passed
        return ""

    def pasted(self, now: float) -> str:
        """Something was pasted."""
        return self.key(now, None) or "a paste answers nothing"

    @property
    def _has_more(self) -> bool:
        return self._window is not None and self._window[1] < self._window[2]

    @property
    def is_pending(self) -> bool:
        """Whether an answer waits until it is clear that no key follows."""
        return self._answer is not None

    def settled(self, now: float) -> str | None:
        """The answer, once no key has followed; it is returned once."""
        if self._answer is None or self._pass(now) - self._answered_at < SETTLED:
            return None
        answer, self._answer = self._answer, None
        return answer
