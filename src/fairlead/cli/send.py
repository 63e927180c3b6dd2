"""`fairlead send`: type into a session."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, SESSION, Argument, Command, Option, UsageError, parsed
from .given_text import given_text

COMMAND = Command(
    "send",
    "Type into a session: a text, then named keys. The text is typed as is, without Enter at the end. Put a\n"
    "text that starts with a dash after --. For an agent session, the text is a prompt; if a turn is\n"
    "running, it is queued until the turn ends.",
    takes=(SESSION, Argument("text", "the text to type; - reads it from standard input", optional=True)),
    options=(
        Option(
            "-k", "--key", value="KEY", many=True, help="Enter, Up, C-c, M-x, S-Tab, F5, …; may be repeated"
        ),
        Option("-p", "--paste", help="paste the text, bracketed if the program enabled bracketed paste"),
        JSON,
    ),
    examples=(
        ("fairlead send work 'make test' -k Enter", "type a command and run it"),
        ("fairlead send work -k C-c -k Up -k Enter", "interrupt, then repeat the last command"),
        ("git diff | fairlead send -p agent -", "paste the output of a command"),
        ("fairlead send garden 'now the roses'", "prompt an agent"),
    ),
    codes={1: "no such session, it has ended, or an unknown key"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if options.text is None and not options.key:
        raise UsageError("missing TEXT or --key")
    if options.paste and options.text is None:
        raise UsageError("--paste needs a TEXT")
    text = given_text(options.text) if options.text is not None else None

    from ..client.connection import DaemonConnection, RequestError

    with DaemonConnection() as control:
        how = "paste" if options.paste else "text"
        try:
            answer = control.ask("terminal_send", name=options.name, keys=options.key or None, **{how: text})
        except RequestError as error:
            from ..formats.shown import counted
            from .kinds import other_kind, unsupported

            session = other_kind(control, options.name, error)
            if text is None or any(key != "Enter" for key in options.key):
                instead = "`fairlead send {} TEXT` asks it for something"
                raise unsupported(session, "takes no keys", instead) from None
            if not text.strip():
                raise UsageError("missing TEXT: an agent can't be sent an empty prompt") from None
            answer = control.ask("session_prompt", session_id=session["id"], text=text)
            if place := answer.get("queued"):
                before = f" ({counted(place - 1, 'prompt')} before it)" if place > 1 else ""
                print(f"queued: {session['name']} is busy{before}", file=sys.stderr)
    if options.json:
        import json

        print(json.dumps(answer))
    return 0
