"""The confidence ladder in colours. `ls` uses it, so it is small."""

from __future__ import annotations

import os
import sys

LADDER = {"perfect": "32", "verified": "32", "partial": "33", "feedback": "33", "failed": "31"}
"""Each confidence, from the best to the worst, and its colour as terminals count them."""


def has_colours() -> bool:
    """Whether standard output is a terminal with colours, and they are wanted."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured_name(confidence: str, shown: str | None = None) -> str:
    """A confidence, or the text that stands for it, in its colour if this is a terminal."""
    shown = confidence if shown is None else shown
    colour = LADDER.get(confidence.lower())
    if colour is None or not has_colours():
        return shown
    return f"\x1b[{colour}m{shown}\x1b[m"


def coloured_check(cell: str, shown: str | None = None) -> str:
    """The same for a confidence with a mark behind it if a person is needed."""
    return coloured_name(cell.rstrip("!"), cell if shown is None else shown)
