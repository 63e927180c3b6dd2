"""`fairlead acp`: an agent for editors that speak the Agent Client Protocol."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Command, Failure, Option, parsed

COMMAND = Command(
    "acp",
    "Speak the Agent Client Protocol on standard input and output. Editors such as Zed, Toad, Emacs and\n"
    "Neovim start this as an agent. Its sessions are the daemon's: they keep running when the editor exits,\n"
    "and an editor can load any agent session. Diagnostics go to stderr.",
    options=(
        Option("--session", value="NAME", help="use this session for every new one"),
        Option(
            "--with",
            value="AGENT",
            help="use a third-party agent for new sessions; `fairlead agents` lists them",
        ),
    ),
    examples=(
        ('acpx --agent "fairlead acp" exec "hello"', "one prompt, with the client acpx"),
        ("fairlead acp --with claude", "Claude Code, in sessions that survive the editor"),
        ("fairlead acp --session garden", "talk to the session that `fairlead agent garden` opens"),
    ),
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from .rpc import check_place

    check_place()
    agent = getattr(options, "with")
    if agent and options.session:
        raise Failure("--session and --with can't be combined: a session keeps its agent")

    from ..client.acp.agent import serve
    from ..system.settings import Settings

    return serve(Settings(), session=options.session or "", agent=agent or "")
