"""`fairlead attach`: attach to a session's terminal."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import SESSION, Command, Option, parsed

COMMAND = Command(
    "attach",
    "Attach to a session's terminal. What you type goes to its program; ctrl-\\ leaves it running, and so\n"
    "do the keys , , , d one by one. ctrl-\\ pressed twice goes to the program. It reconnects when the\n"
    "daemon restarts. It needs a terminal; scripts use screen, logs and send. [attach] in the configuration\n"
    "sets the keys (escape), the hint and the screen.",
    takes=(SESSION,),
    options=(Option("-w", "--watch", help="only look: q or ^C leaves, r draws again, arrows move a part"),),
    examples=(
        ("fairlead attach work", "press ctrl-\\ to leave"),
        ("FAIRLEAD_ATTACH_ESCAPE='ctrl-a d' fairlead attach work", "leave as in screen"),
        ("fairlead attach -w agent", "look over its shoulder; nothing you type reaches it"),
    ),
    codes={0: "you left it", "program's": "it ended"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    from ..ui.attach import attach

    return attach(options.name, watch=options.watch)
