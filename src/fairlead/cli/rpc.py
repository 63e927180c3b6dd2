"""`fairlead rpc`: the backend of an editor."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .arguments import Command, Failure, Option, parsed

COMMAND = Command(
    "rpc",
    "Speak rpc-edn on standard input and output: one EDN map per line. Editors start this as their backend.\n"
    "It relays the lines to the daemon, so sessions keep running when the editor exits. Diagnostics go to\n"
    "stderr.",
    options=(Option("--standalone", help="run everything in this process, without the daemon"),),
    examples=(
        ('(setq psi-emacs-command \'("fairlead" "rpc"))', "in Emacs, for psi's UI"),
        ("fairlead --rpc-edn", "the same, as psi spells it"),
        ("fairlead rpc --standalone", "sessions run in this process and end with it"),
    ),
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    check_place()
    if options.standalone:
        from ..daemon import standalone
        from ..system.settings import Settings

        return standalone.run(Settings())

    from ..client.bridge import carry
    from ..system.settings import Settings

    return carry(Settings())


def check_place() -> None:
    """Raises Failure where nothing could be asked or answered."""
    if sys.stdin is None or sys.stdout is None:
        raise Failure(f"standard {'input' if sys.stdin is None else 'output'} is closed")
    try:
        os.read(sys.stdin.fileno(), 0)
    except OSError as error:
        raise Failure(f"can't read standard input: {error.strerror}") from None
    try:
        os.write(sys.stdout.fileno(), b"")
    except OSError as error:
        raise Failure(f"can't write standard output: {error.strerror}") from None
    try:
        os.getcwd()
    except FileNotFoundError:
        raise Failure("the working directory was deleted") from None
