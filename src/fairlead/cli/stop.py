"""`fairlead stop`: end a session's program."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, parsed

COMMAND = Command(
    "stop",
    "Stop a session's program: SIGHUP, as when a terminal is closed, then SIGTERM, and SIGKILL after some\n"
    "seconds. The session is removed. For an agent session, abort the running turn; the session is kept.",
    takes=(Argument("name", "the sessions", many=True, completes="session"),),
    options=(JSON,),
    examples=(
        ("fairlead stop work", "one session"),
        ("fairlead stop $(fairlead ls -q --kind terminal)", "all programs"),
    ),
    codes={1: "a session does not exist or did not stop; the others were stopped"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..client.control import Control, RequestError

    ended: list[dict[str, object]] = []
    with Control() as control:
        for name in options.name:
            try:
                answer = control.ask("session_stop", name=name)
            except RequestError as error:
                print(f"fairlead stop: {error}", file=sys.stderr)
                continue
            if "exit_code" in answer:
                code = answer["exit_code"]
                ended.append({"name": name, "exit_code": code})
                said = f"session {name} ended with {code}"
            else:
                session, worked = answer["session"], answer["stopped"]
                ended.append({"name": session["name"], "kind": session["kind"], "stopped": worked})
                said = f"the turn of {name} is ended" if worked else f"{name} does nothing now"
            if not options.json:
                print(said)
    if options.json:
        import json

        print(json.dumps(ended))
    return 0 if len(ended) == len(options.name) else 1
