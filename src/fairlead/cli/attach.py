"""`fairlead attach`: share a session's terminal."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import SESSION, Command, Option, parsed

COMMAND = Command(
    "attach",
    "Share a session's terminal. What you type goes to its program; ,,,d leaves it running. When the daemon\n"
    "restarts, it goes on by itself.",
    takes=(SESSION,),
    options=(Option("-w", "--watch", help="only look: q or ^C leaves, r draws the screen again"),),
    examples=(
        ("fairlead attach work", "type , , , d to leave"),
        ("fairlead attach -w agent", "look over its shoulder; nothing you type reaches it"),
    ),
    codes={0: "you left it", "program's": "it ended"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    from ..client.attach import attach

    return attach(options.name, watch=options.watch)
