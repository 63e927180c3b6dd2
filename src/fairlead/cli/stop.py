"""`fairlead stop`: end a session's program."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, parsed
from .far import hinted

COMMAND = Command(
    "stop",
    "Stop a session's program: SIGHUP, as when a terminal is closed, then SIGTERM, and SIGKILL after some\n"
    "seconds. The session is removed. For an agent session, abort the running turn, and\n"
    "end the process of a third-party agent; the session is kept.",
    takes=(Argument("name", "the sessions", many=True, completes="session"),),
    options=(JSON,),
    examples=(
        ("fairlead stop work", "one session"),
        ("fairlead stop $(fairlead ls -q --kind terminal)", "all programs"),
    ),
    codes={1: "a session does not exist or did not stop; the others were stopped"},
)

SHOWN, MAX_LISTED = 60, 10
"""How many characters are shown of a prompt that was dropped, and of how many."""


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..client.connection import DaemonConnection, RequestError
    from .kinds import say_which

    ended: list[dict[str, object]] = []
    with DaemonConnection() as control:
        for name in options.name:
            try:
                answer = control.ask("session_stop", name=name)
            except RequestError as error:
                print(hinted(f"fairlead stop: {error}"), file=sys.stderr)
                continue
            say_which(name, answer)
            if "exit_code" in answer:
                code = answer["exit_code"]
                ended.append({"name": name, "exit_code": code})
                said = f"session {name} ended with {code}"
            else:
                session, worked = answer["session"], answer["stopped"]
                dropped = answer.get("dropped") or []
                about = {"name": session["name"], "kind": session["kind"], "stopped": worked}
                about["agent_ended"] = has_ended = bool(answer.get("agent_ended"))
                ended.append(about | {"dropped": dropped})
                idle = f"{name} was idle; its agent was ended" if has_ended else f"{name} was already idle"
                said = f"stopped {name}'s turn" if worked else idle
                said += _dropped(dropped)
            if not options.json:
                print(said)
    if options.json:
        import json

        print(json.dumps(ended))
    return 0 if len(ended) == len(options.name) else 1


def _dropped(texts: list[str]) -> str:
    """The prompts that will not be said."""
    if not texts:
        return ""
    from ..formats.shown import one_line

    what = "1 queued prompt was" if len(texts) == 1 else f"{len(texts)} queued prompts were"
    shown = [one_line(text, SHOWN) for text in texts[:MAX_LISTED]]
    if len(texts) > MAX_LISTED:
        shown.append(f"and {len(texts) - MAX_LISTED} more")
    return f"; {what} dropped: {'; '.join(shown)}"
