"""`fairlead mcp`: the MCP server for agents."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .arguments import Command, Failure, Option, parsed
from .rpc import check_place

COMMAND = Command(
    "mcp",
    "Speak the Model Context Protocol on standard input and output. Agents start this as an MCP server: it\n"
    "lists, starts, reads and prompts sessions, notifies you, and asks you questions. Agents reach the\n"
    "sessions of their own directory and below it; `reach` in [mcp] changes that.",
    options=(
        Option(
            "--project",
            value="DIR",
            help="the project directory, if it is not the current one",
            completes="directory",
        ),
    ),
    examples=(
        ("claude mcp add fairlead -- fairlead mcp", "for Claude Code"),
        ("codex mcp add fairlead -- fairlead mcp", "for Codex"),
        ("fairlead approvals", "answer their questions"),
    ),
    far="there",
)
PRIVATE = ("FAIRLEAD_AGENT_", "FAIRLEAD_CONTROL_", "FAIRLEAD_MCP_")
"""How variables begin that set what agents may do: a daemon that an agent has started does not get them."""


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    check_place()
    project = os.path.abspath(options.project or ".")
    if not os.path.isdir(project):
        raise Failure(f"--project: {project} is no directory")
    for name in [name for name in os.environ if name.startswith(PRIVATE)]:
        del os.environ[name]

    from ..client.mcp.opening import serve
    from ..system.settings import Settings

    return serve(Settings(), project)
