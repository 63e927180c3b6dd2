"""`fairlead record`: what a session shows, in a file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .arguments import SESSION, Command, Option, parsed

COMMAND = Command(
    "record",
    "Record a session from now until it ends, starting with the contents of its screen. The file is an\n"
    "asciicast (version 3), which `fairlead play` and asciinema play. Prints the path of the file.",
    takes=(SESSION,),
    options=(
        Option(
            "-o",
            "--output",
            value="FILE",
            help="record to this new file instead of the default path",
            completes="file",
        ),
        Option("--stop", help="stop recording"),
    ),
    either=("output", "stop"),
    examples=(
        ("fairlead record work", "to ~/.local/state/fairlead/recordings/work-….cast"),
        ("fairlead record work -o bug.cast", "to this file, which must not exist yet"),
        ('fairlead play "$(fairlead record work --stop)"', "stop the recording and play it"),
    ),
    codes={1: "no such session, it is already being recorded, or the file can't be created"},
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..client.connection import DaemonConnection
    from .kinds import with_screen

    path = os.path.abspath(options.output) if options.output is not None else None
    with DaemonConnection() as control:
        print(
            with_screen(control, "terminal_record", options.name, path=path, stop=options.stop or None)[
                "path"
            ]
        )
    return 0
