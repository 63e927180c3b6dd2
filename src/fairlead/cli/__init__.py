"""The `fairlead` command. Each subcommand is a module of its own, imported when it is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence

COMMANDS = {
    "start": "start a program that keeps running",
    "attach": "share a session's terminal",
    "ls": "list the sessions",
    "stop": "end a session's program",
    "send": "type into a session",
    "screen": "show what is on a session's screen",
    "search": "find text in a session's screen and scrollback",
    "wait": "wait until a session shows a text, falls quiet or ends",
    "daemon": "run, stop or restart the daemon, or ask how it is",
}

USAGE = """\
usage: fairlead COMMAND [ARGUMENT…]

{commands}

`fairlead COMMAND --help` tells more. A first session:

    fairlead start work -- bash     start it and share its terminal; ,,,d leaves it running
    fairlead ls
    fairlead attach work
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(
            USAGE.format(commands="\n".join(f"    {name:<8} {what}" for name, what in COMMANDS.items())),
            end="",
        )
        return 0 if words else 2
    name, *rest = words
    if name in ("-V", "--version"):
        from .. import __version__

        print(f"fairlead {__version__}")
        return 0
    if name not in COMMANDS:
        print(f"fairlead: no command {name!r}; `fairlead --help` lists them", file=sys.stderr)
        return 2
    from importlib import import_module

    try:
        code: int = import_module(f".{name}", __name__).main(rest)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    except Exception as error:
        if type(error).__name__ not in ("RequestError", "NoDaemon", "SettingError", "ConnectionError"):
            raise
        print(f"fairlead {name}: {error}", file=sys.stderr)
        return 1
    return code
