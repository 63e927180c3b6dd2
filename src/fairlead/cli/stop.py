"""`fairlead stop`: end a session's program."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, parsed

COMMAND = Command(
    "stop",
    "End a session's program: SIGHUP as from a terminal that is closed, then SIGTERM, some seconds of\n"
    "grace, SIGKILL. Then the session is forgotten.",
    takes=(Argument("name", "which sessions", many=True, completes="session"),),
    options=(JSON,),
    examples=(
        ("fairlead stop work", "one session"),
        ("fairlead stop $(fairlead ls -q)", "all of them"),
    ),
    codes={1: "a session is not there or does not end; the others were stopped"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..client.control import Control, RequestError

    ended: list[dict[str, object]] = []
    with Control() as control:
        for name in options.name:
            try:
                code = control.ask("terminal_stop", name=name)["exit_code"]
            except RequestError as error:
                print(f"fairlead stop: {error}", file=sys.stderr)
                continue
            ended.append({"name": name, "exit_code": code})
            if not options.json:
                print(f"session {name} ended with {code}")
    if options.json:
        import json

        print(json.dumps(ended))
    return 0 if len(ended) == len(options.name) else 1
