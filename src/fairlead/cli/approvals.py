"""`fairlead approvals`: what waits for your consent, and your answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, UsageError, parsed
from .colours import printable

COMMAND = Command(
    "approvals",
    "List what waits for your consent, of agent sessions and of the daemon itself; or answer. The first\n"
    "answer holds, from wherever it comes.",
    takes=(
        Argument("answer", "answer instead of listing", optional=True, choices=("allow", "deny")),
        Argument("token", "which one", optional=True),
    ),
    options=(JSON,),
    examples=(
        ("fairlead approvals", "what waits?"),
        ("fairlead approvals allow 1f3c5a77", "let it be done"),
    ),
    codes={1: "nothing of this token waits"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if (options.answer is None) != (options.token is None):
        raise UsageError("allow and deny want a token; `fairlead approvals` lists them")
    from ..client.control import Control
    from .columns import paragraphs

    with Control() as control:
        if options.answer is not None:
            answer = control.ask("approval_settle", token=options.token, allowed=options.answer == "allow")
        else:
            answer = control.ask("approvals")
    if options.json:
        import json

        print(json.dumps(answer if options.answer else answer["approvals"], indent=2))
    elif options.answer is None:
        for row in answer["approvals"]:
            who = row["session_id"] or "daemon"
            line = f"{row['token']}  {row['title']}: {row['summary']} ({row['reason']}; {who})"
            print(paragraphs(printable(line)))
        if not answer["approvals"]:
            print("nothing waits for your consent", file=sys.stderr)
    return 0
