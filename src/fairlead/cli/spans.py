"""Spans of time as people write them: `90`, `45s`, `10m`, `1h`, `30d`."""

from __future__ import annotations

from .arguments import UsageError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
LONGEST = 365 * 86_400.0


def span(word: str) -> float:
    """The seconds of a span. Raises UsageError."""
    digits = word.rstrip("smhd")
    unit = word[len(digits) :]
    if unit not in _UNITS or not digits.isdecimal() or not digits.isascii() or len(digits) > 9:
        raise UsageError(f"a span of time such as 10m, 1h or 30d, not {word!r}")
    seconds = int(digits) * _UNITS[unit]
    if not 0 < seconds <= LONGEST:
        raise UsageError(f"between 1s and 365d, not {word!r}")
    return seconds
