"""`fairlead send`: type into a session."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, SESSION, Argument, Command, Option, UsageError, parsed

COMMAND = Command(
    "send",
    "Type into a session: a text, then named keys. A text is typed as it is, without Enter at its end. A\n"
    "text that begins with a dash comes after --. An agent is asked for the text, after its turn if it is\n"
    "at work.",
    takes=(SESSION, Argument("text", "what is typed; - takes it from standard input", optional=True)),
    options=(
        Option(
            "-k", "--key", value="KEY", many=True, help="Enter, Up, C-c, M-x, S-Tab, F5, …; may be repeated"
        ),
        Option("-p", "--paste", help="give the text as a paste, marked as one if the program asked for that"),
        JSON,
    ),
    examples=(
        ("fairlead send work 'make test' -k Enter", "type a command and run it"),
        ("fairlead send work -k C-c -k Up -k Enter", "interrupt, and do the last one again"),
        ("git diff | fairlead send -p agent -", "paste what another program prints"),
        ("fairlead send garden 'now the roses'", "ask an agent for something"),
    ),
    codes={1: "no such session, it has ended, or a key is unknown"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if options.text is None and not options.key:
        raise UsageError("missing TEXT or --key")
    if options.paste and options.text is None:
        raise UsageError("--paste needs a TEXT")
    text = sys.stdin.read() if options.text == "-" else options.text

    from ..client.control import Control, RequestError

    with Control() as control:
        how = "paste" if options.paste else "text"
        try:
            answer = control.ask("terminal_send", name=options.name, keys=options.key or None, **{how: text})
        except RequestError as error:
            from .kinds import other_kind, unsupported

            session = other_kind(control, options.name, error)
            if text is None or any(key != "Enter" for key in options.key):
                instead = "`fairlead send {} TEXT` asks it for something"
                raise unsupported(session, "takes no keys", instead) from None
            answer = control.ask("session_prompt", name=session["id"], text=text)
    if options.json:
        import json

        print(json.dumps(answer))
    return 0
