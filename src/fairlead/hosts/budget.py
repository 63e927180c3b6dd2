"""How fast a host may speak: two leaky buckets, one of bytes and one of frames."""

from __future__ import annotations

from . import limits


class SaysTooMuch(ConnectionError):
    """A host says more than it may."""


class Budget:
    """What a link may bring. Does no I/O and has no clock: `now` is told."""

    def __init__(self, now: float) -> None:
        self._bytes: float = limits.BYTES_AT_ONCE
        self._frames: float = limits.FRAMES_AT_ONCE
        self._at = now
        self._over_since: float | None = None

    def spend(self, size: int, frames: int, now: float) -> float:
        """Take what was read. Return the seconds for which nothing more is to be read. Raises SaysTooMuch if
        it was too much for long."""
        passed, self._at = max(0.0, now - self._at), now
        self._bytes = min(limits.BYTES_AT_ONCE, self._bytes + passed * limits.BYTES_A_SECOND) - size
        self._frames = min(limits.FRAMES_AT_ONCE, self._frames + passed * limits.FRAMES_A_SECOND) - frames
        pause = max(0.0, -self._bytes / limits.BYTES_A_SECOND, -self._frames / limits.FRAMES_A_SECOND)
        if pause == 0.0:
            if self._bytes > limits.BYTES_AT_ONCE / 4 and self._frames > limits.FRAMES_AT_ONCE / 4:
                self._over_since = None
            return 0.0
        if self._over_since is None:
            self._over_since = now
        if now - self._over_since > limits.FLOOD_PATIENCE:
            a_second = f"{limits.BYTES_A_SECOND // 1024} KiB or {limits.FRAMES_A_SECOND} events a second"
            raise SaysTooMuch(f"it says too much, more than {a_second}")
        return min(pause, 1.0)
