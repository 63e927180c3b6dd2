"""`fairlead link`: the far end of a link to this host's daemon, started by ssh. Not for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .arguments import Argument, Command, parsed

COMMAND = Command(
    "link",
    "The far end of a link from another host, on standard input and output. Fairlead there starts it by\n"
    "ssh. Words are percent-encoded.",
    takes=(
        Argument(
            "what",
            "to the daemon, to a session, or a command to run",
            choices=("control", "terminal", "run", "check"),
        ),
        Argument("words", "the session, or the command's words", optional=True, many=True),
    ),
    far="here",
)


def main(arguments: Sequence[str]) -> int:
    from ..client.hosts import far
    from ..system.settings import Settings
    from ..wire.link import PROTOCOL, unquoted

    # what is asked for is all words; those of a command may look like options of ours
    options = parsed(COMMAND, [*arguments[:1], "--", *arguments[1:]])
    words = [unquoted(each) for each in options.words]
    if options.what == "check":
        print(PROTOCOL)
        return 0
    settings = Settings(host="")
    for name in [name for name in os.environ if name.startswith("SSH_")]:
        del os.environ[name]  # a daemon that is started outlives the connection
    if options.what == "run":
        return far.run(words)
    reading, writing = sys.stdin.fileno(), sys.stdout.fileno()
    if options.what == "terminal":
        return far.terminal(words[0] if words else "", settings, reading, writing)
    return far.control(settings, reading, writing)
