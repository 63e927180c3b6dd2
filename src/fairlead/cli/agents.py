"""`fairlead agents`: the agents of other makers that can be hosted, and how to install them."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import JSON, Command, parsed

COMMAND = Command(
    "agents",
    "List the agents of other makers that `fairlead agent --with AGENT` talks with: where the program of\n"
    "each is, or the line that installs it. [agents.NAME] in the configuration adds one, or changes one.",
    options=(JSON,),
    examples=(
        ("fairlead agents", "which agents there are, and how to install the others"),
        ("fairlead agent --with claude", "chat with one of them"),
    ),
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..client.control import Control
    from ..formats.columns import printable

    with Control() as control:
        rows = control.ask("agents")["agents"]
    if options.json:
        import json

        print(json.dumps(rows, indent=2))
        return 0
    widest = max(len(row["name"]) for row in rows)
    for row in rows:
        how = row["path"] or (
            f"not found; to install it: {row['install']}" if row["install"] else "not found"
        )
        notes = [row["mode"] and f"mode {row['mode']}", row["model"] and f"model {row['model']}"]
        notes.append("in a sandbox" if row["sandbox"] else None)
        more = ", ".join(note for note in notes if note)
        print(printable(f"{row['name']:<{widest}}  {how}{f'  ({more})' if more else ''}"))
    return 0
