"""`fairlead record`: what a session shows, in a file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .arguments import SESSION, Command, Option, parsed

COMMAND = Command(
    "record",
    "Record a session from now on, beginning with what its screen shows, until it ends. The file is an\n"
    "asciicast (version 3), which `fairlead play` and asciinema play. Its path is printed.",
    takes=(SESSION,),
    options=(
        Option(
            "-o",
            "--output",
            value="FILE",
            help="to this new file instead of the usual place",
            completes="file",
        ),
        Option("--stop", help="stop recording"),
    ),
    either=("output", "stop"),
    examples=(
        ("fairlead record work", "to ~/.local/state/fairlead/recordings/work-….cast"),
        ("fairlead record work -o bug.cast", "to this file, which must not be there yet"),
        ('fairlead play "$(fairlead record work --stop)"', "end the recording and look at it"),
    ),
    codes={1: "no such session, it is recorded already, or the file can't be made"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..client.control import Control
    from .kinds import with_screen

    path = os.path.abspath(options.output) if options.output is not None else None
    with Control() as control:
        print(
            with_screen(control, "terminal_record", options.name, path=path, stop=options.stop or None)[
                "path"
            ]
        )
    return 0
