"""`fairlead rpc`: the backend of an editor."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Command, Option, parsed

COMMAND = Command(
    "rpc",
    "Speak rpc-edn on standard input and output: one EDN map a line. Editors start this as their backend.\n"
    "It carries lines to the daemon, so sessions go on when the editor ends. Diagnostics go to stderr.",
    options=(Option("--standalone", help="do all of it in this process, without the daemon"),),
    examples=(
        ('(setq psi-emacs-command \'("fairlead" "rpc"))', "in Emacs, for psi's UI"),
        ("fairlead --rpc-edn", "the same, as psi spells it"),
        ("fairlead rpc --standalone", "agent sessions that last as long as this process"),
    ),
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if options.standalone:
        from .. import standalone
        from ..settings import Settings

        return standalone.run(Settings())

    from ..client.bridge import carry
    from ..settings import Settings

    return carry(Settings())
