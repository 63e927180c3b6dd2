"""Lines of the log that others can cause: not more than a few a minute, and then how many there were."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

AT_ONCE = 20
PERIOD = 60.0


class Complaints:
    """Warnings about what came from elsewhere."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._since = clock()
        self._count = 0

    def warning(self, text: str, *values: object) -> None:
        """Log this, unless there was too much of it lately."""
        now = self._clock()
        if now - self._since >= PERIOD:
            if self._count > AT_ONCE:
                self._log.warning("%d more such lines were left out", self._count - AT_ONCE)
            self._since, self._count = now, 0
        self._count += 1
        if self._count <= AT_ONCE:
            self._log.warning(text, *values)
