"""How fast somebody may go on: a rate for what comes over WebSockets, of a connection and of all connections
of its visitor together. What is over it waits, so that the others have their turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class MessagePace:
    """Counts what is done, and knows how long the next has to wait. A count may be more than is left: what
    comes after it waits for that."""

    def __init__(
        self,
        rate: float,
        burst: float,
        within: MessagePace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`rate` a second, and `burst` at once after a pause. What is spent here is also spent in the pace
        that this one is `within`."""
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left = burst
        self._at = clock()
        self._calm_at = self._at
        self.within = within

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= self._burst / 2:
            self._calm_at = now

    def spend(self, count: float = 1) -> None:
        self._refill()
        self._left -= count
        if self.within is not None:
            self.within.spend(count)

    @property
    def wait(self) -> float:
        """Seconds until the next may be done."""
        self._refill()
        own = max(0.0, -self._left / self._rate)
        return own if self.within is None else max(own, self.within.wait)

    @property
    def driven(self) -> float:
        """For how many seconds this one, not that which it is in, has been used up without a pause."""
        self._refill()
        return self._at - self._calm_at
