"""The confidence ladder and the states of sessions in colours. `ls` uses it, so it is small."""

from __future__ import annotations

import os
import sys

from ..ui.needs import STATE_LOOKS, check_look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ui.plot import Look


def has_colours() -> bool:
    """Whether standard output is a terminal with colours, and they are wanted."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def look() -> Look:
    """What standard output can show of plots."""
    from ..ui.plot import Look
    from .output import has_ascii

    is_dumb = os.environ.get("TERM") == "dumb"
    return Look(ascii=is_dumb or has_ascii(), colour=has_colours())


def coloured_name(word: str, shown: str | None = None) -> str:
    """A word of the ladder, or the text that stands for it, in its colour if this is a terminal."""
    shown = word if shown is None else shown
    look = check_look(word)
    return f"\x1b[{look}m{shown}\x1b[m" if look and has_colours() else shown


def coloured_check(cell: str, shown: str | None = None) -> str:
    """The same for a confidence with a mark behind it if a person is needed."""
    return coloured_name(cell.rstrip("!"), cell if shown is None else shown)


def coloured_state(cell: str, shown: str) -> str:
    """What a session does, in its colour; the spaces after it have none."""
    look = STATE_LOOKS.get(cell.partition(" ")[0].partition("+")[0])
    if cell.startswith("exit ") and cell != "exit 0":
        look = "31"
    return f"\x1b[{look}m{cell}\x1b[m{shown[len(cell) :]}" if look and has_colours() else shown
