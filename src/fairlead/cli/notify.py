"""`fairlead notify`: send yourself a notification."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Argument, Command, Option, parsed
from .given_text import given_text

COMMAND = Command(
    "notify",
    "Send a notification to every address in [notify] urls of config.toml. The daemon queues it and sends\n"
    "it at most once.",
    takes=(Argument("text", "the text; - reads it from standard input"),),
    options=(Option("-t", "--title", value="TITLE", help="a title"),),
    examples=(
        ('make test; fairlead notify "tests ended with $?"', "after a long command"),
        ("fairlead notify --title build - < result.txt", "the contents of a file"),
    ),
    codes={1: "no address is configured, or the text contains a secret"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    from ..client.connection import DaemonConnection

    text = given_text(options.text)
    with DaemonConnection() as control:
        control.ask("notify", text=text, title=options.title)
    return 0
