"""`fairlead agents`: third-party agents that can be hosted, how to install them, and trying one."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import JSON, Command, Option, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = Command(
    "agents",
    "List the third-party agents that `fairlead agent --with AGENT` can use: where the program of each\n"
    "is, or the command that installs it. [agents.NAME] in the configuration adds or changes one.",
    options=(
        Option("--check", value="AGENT", help="check that this agent starts, speaks ACP and is logged in"),
        JSON,
    ),
    examples=(
        ("fairlead agents", "which agents there are, and how to install the others"),
        ("fairlead agents --check claude", "whether it starts, speaks ACP and is logged in"),
        ("fairlead agent --with claude", "chat with one of them"),
    ),
    codes={1: "with --check: the agent can't be used"},
    far="there",
)
_ABILITIES = {
    "resume": "resumes sessions",
    "load": "loads sessions",
    "image": "takes images",
    "mcp-http": "uses MCP servers over http",
    "mcp-sse": "uses MCP servers over sse",
}


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    import json
    import os

    from ..client.connection import DaemonConnection
    from ..formats.columns import printable
    from .columns import paragraphs

    with DaemonConnection() as control:
        if options.check:
            found = control.ask("agent_check", agent=options.check, cwd=os.getcwd())
            lines, code = _checked(options.check, found), 0 if found["ok"] else 1
        else:
            found, code = control.ask("agents")["agents"], 0
            lines = _listed(found)
    if options.json:
        print(json.dumps(found, indent=2))
        return code
    for line in lines:
        print(paragraphs(printable(line)))
    return code


def _listed(rows: list[dict[str, Any]]) -> list[str]:
    widest = max(len(row["name"]) for row in rows)
    lines = []
    for row in rows:
        how = row["path"] or (
            f"not found; to install it: {row['install']}" if row["install"] else "not found"
        )
        notes = [row["mode"] and f"mode {row['mode']}", row["model"] and f"model {row['model']}"]
        notes.append("in a sandbox" if row["sandbox"] else None)
        notes.append(f"MCP servers {', '.join(row['mcp_servers'])}" if row["mcp_servers"] else None)
        more = ", ".join(note for note in notes if note)
        lines.append(f"{row['name']:<{widest}}  {how}{f'  ({more})' if more else ''}")
    return lines


def _checked(name: str, found: dict[str, Any]) -> list[str]:
    """What came of trying an agent."""
    about = " ".join(word for word in (found["title"], found["version"]) if word)
    lines = [found["fault"] if found["fault"] else f"{name} works" + (f": {about}" if about else "")]
    lines += [_ABILITIES.get(each, each) for each in found["can"]]
    for key in ("modes", "models", "logins"):
        if found[key]:
            lines.append(f"{key}: {', '.join(found[key])}")
    return [*lines, *found["notices"]]
