"""`fairlead timeline`: what happened in a session, turn by turn."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import JSON, Argument, Command, Failure, Option, count, parsed

COMMAND = Command(
    "timeline",
    "Print a session's turns: when they began and how long they took, their tools, the questions with how\n"
    "long they waited and who answered, what was sent back, verifiers' reports, tokens and cost. The hooks\n"
    "of an agent in a terminal have to report its turns.",
    takes=(Argument("name", "the session", completes="session"),),
    options=(
        Option("-n", "--turns", value="N", kind=count, help="how many turns, the last ones (20)"),
        Option("--plot", help="plot time and tokens by turn, and cost over time"),
        JSON,
    ),
    examples=(
        ("fairlead timeline garden", "the last 20 turns"),
        ("fairlead timeline garden -n 1", "the last one"),
        ("fairlead timeline garden --plot", "time, tokens and cost by turn"),
        ("fairlead timeline work --json | jq '.turns[].cost'", "for a script"),
    ),
    codes={0: "turns were found", 1: "no turns, or no such session"},
)
USUAL_WIDTH = 80
"""How wide plots are that don't go to a terminal."""


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    import time

    from ..client.connection import DaemonConnection, RequestError
    from .columns import terminal_width
    from .kinds import say_which

    with DaemonConnection() as control:
        try:
            found = control.ask("session_find", name=options.name)
        except RequestError as error:
            if error.code != "request/not-found":
                raise
            answer = control.ask("timeline", name=options.name, limit=options.turns)  # it may be gone
            session = answer["session"]
        else:
            say_which(options.name, found)
            session = found["session"]
            answer = control.ask("timeline", session_id=session["id"], limit=options.turns)
    if options.json:
        import json

        print(json.dumps(answer, indent=2))
        return 0 if answer["turns"] else 1
    if not answer["turns"] and not answer["aside"]:
        raise Failure(_none(session))
    from ..ui import timeline
    from .colours import look

    if options.plot:
        lines = timeline.plots(answer, time.time(), terminal_width() or USUAL_WIDTH, look())
    else:
        lines = timeline.timeline(answer, time.time(), terminal_width(), look())
    print("\n".join(lines))
    return 0 if answer["turns"] else 1


def _none(session: dict[str, object]) -> str:
    from ..formats.columns import printable

    name = printable(str(session["name"]))
    if session["kind"] == "terminal" and not session.get("agent"):
        return f"no turns of {name} are known: its program is no agent that Fairlead knows"
    if session["kind"] == "terminal":
        return f"{name} has reported no turns yet; `fairlead hook --install AGENT` has an agent report them"
    return f"{name} has had no turns yet"
