"""Waiting for descriptors: which can be read, which written. What is watched stays registered between
waits, as a key's way leads through two of them. macOS can't poll terminals, so there `select` does it.
Imports little."""

from __future__ import annotations

import select
import sys

READ, WRITE = select.POLLIN, select.POLLOUT


class Ready:
    """Watches descriptors; `watch` says for what, and again when that changes."""

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}
        self._poll = None if sys.platform == "darwin" else select.poll()

    def watch(self, descriptor: int, mask: int) -> None:
        """Wait for this of a descriptor; 0 is for nothing, not even for its end."""
        if self._masks.get(descriptor, 0) == mask:
            return
        if mask:
            self._masks[descriptor] = mask
            if self._poll is not None:
                self._poll.register(descriptor, mask)
        else:
            self.forget(descriptor)

    def forget(self, descriptor: int) -> None:
        """It is not watched any more. To be called before it is closed."""
        if self._masks.pop(descriptor, 0) and self._poll is not None:
            self._poll.unregister(descriptor)

    def wait(self, seconds: float | None) -> dict[int, int]:
        """What is ready of which descriptor; an end or an error is as if both were."""
        if self._poll is not None:
            found = self._poll.poll(None if seconds is None else max(0, int(seconds * 1000 + 0.999)))
            return {each: mask if mask & (READ | WRITE) else READ | WRITE for each, mask in found}
        reading = [each for each, mask in self._masks.items() if mask & READ]
        writing = [each for each, mask in self._masks.items() if mask & WRITE]
        readable, writable, _ = select.select(reading, writing, [], seconds)
        ready = dict.fromkeys(readable, READ)
        for each in writable:
            ready[each] = ready.get(each, 0) | WRITE
        return ready
