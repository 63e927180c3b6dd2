"""`fairlead notify`: send yourself a notification."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import Argument, Command, Option, parsed

COMMAND = Command(
    "notify",
    "Send a notification to all addresses in [notify] urls of config.toml. The daemon queues it, and sends\n"
    "it once.",
    takes=(Argument("text", "what to say; - takes it from standard input"),),
    options=(Option("-t", "--title", value="TITLE", help="a title"),),
    examples=(
        ('make test; fairlead notify "tests ended with $?"', "when something long is over"),
        ("fairlead notify --title build - < result.txt", "the text of a file"),
    ),
    codes={1: "there is nobody to notify, or the text has a secret in it"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    from ..client.control import Control

    text = sys.stdin.read() if options.text == "-" else options.text
    with Control() as control:
        control.ask("notify", text=text, title=options.title)
    return 0
