"""`fairlead top`, or `fairlead` alone: the dashboard; without a terminal, the list and what to type next."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .arguments import Command, parsed

COMMAND = Command(
    "top",
    "Show all sessions on one screen, those that need you first, with a live preview of the one that is\n"
    "selected. Enter attaches to it and comes back, y shows what it asks to be answered, p prompts it, n\n"
    "starts a session, ? shows all keys. `fairlead` alone does the same. Without a terminal, or with\n"
    "TERM=dumb, it prints the list and what to type next; `fairlead ls --watch` prints each change.",
    examples=(
        ("fairlead", "all sessions on one screen"),
        ("fairlead ls --watch", "the same for screen readers and logs: a line for each change"),
    ),
)
HINTS = (
    "`fairlead attach NAME` attaches, `fairlead approvals` lists what waits for you, "
    "`fairlead start NAME -- COMMAND` starts a program, `fairlead agent NAME` an agent; "
    "`fairlead --help` lists all commands"
)


def main(arguments: Sequence[str]) -> int:
    parsed(COMMAND, arguments)
    if not _can_draw():
        return _list()
    from ..system.settings import Settings
    from ..ui.dashboard.opening import run
    from .colours import look

    try:
        return run(Settings(), look())
    except ModuleNotFoundError as error:
        print(f"fairlead top: the dashboard needs {error.name}, which can't be loaded", file=sys.stderr)
        return _list()


def _can_draw() -> bool:
    """Whether there is a terminal whose cursor can be moved. Textual draws on standard error."""
    has_terminal = all(each is not None and each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr))
    return has_terminal and os.environ.get("TERM", "") not in ("", "dumb")


def _list() -> int:
    from .columns import paragraphs
    from .ls import main as ls

    code = ls([])
    print(paragraphs(HINTS, ""), file=sys.stderr)
    return code
