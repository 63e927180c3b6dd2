"""`fairlead rm`: remove sessions that do nothing any more."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, Option, UsageError, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = Command(
    "rm",
    "Remove sessions that do nothing: programs that have ended are forgotten, and the journals of agent\n"
    "sessions are moved to the directory `trash` of the state directory (~/.local/state/fairlead/trash).\n"
    "Nothing is deleted: move a journal back to the directory `sessions` to have its session again.\n"
    "Refused while a program runs, a turn runs or a question is open. Asks before it removes.",
    takes=(Argument("name", "the sessions", many=True, completes="session"),),
    options=(Option("-y", "--yes", help="don't ask; needed without a terminal"), JSON),
    examples=(
        ("fairlead rm garden", "one session"),
        ("fairlead rm -y $(fairlead ls -q --kind agent)", "all agent sessions in the list that are idle"),
    ),
    codes={1: "a session does not exist or was not removed; the others were removed"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    asks = not options.yes
    if asks and not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("nobody can be asked without a terminal; use --yes")

    from ..client.connection import DaemonConnection, RequestError
    from .far import hinted
    from .kinds import say_which

    removed: list[dict[str, Any]] = []
    with DaemonConnection() as control:
        for name in options.name:
            try:
                answer = control.ask("session_find", name=name)
                say_which(name, answer)
                session = answer["session"]
                if asks and not _agreed(session):
                    continue
                answer = control.ask("session_remove", name=session["id"])
            except RequestError as error:
                print(hinted(f"fairlead rm: {error}"), file=sys.stderr)
                continue
            path = answer.get("path")
            removed.append({"name": session["name"], "kind": session["kind"], "path": path})
            if not options.json:
                print(f"removed {name}" + (f"; its journal is now {path}" if path else ""))
                if worktree := session.get("worktree"):
                    print(hinted(f"its worktree {worktree['path']} stays: `fairlead worktree rm {name}`"))
    if options.json:
        import json

        print(json.dumps(removed))
    return 0 if len(removed) == len(options.name) else 1


def _agreed(session: dict[str, Any]) -> bool:
    from ..formats.columns import printable
    from ..ui.needs import shown_name
    from .agreed import has_agreed

    about = f" ({printable(session['what'])})" if session["what"] else ""
    return has_agreed(f"remove {shown_name(session)}{about}?")
