"""`fairlead stop`: end a session's program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="fairlead stop",
        description="End a session's program: SIGTERM, some seconds of grace, SIGKILL.",
    )
    parser.add_argument("name", nargs="+", help="which sessions")
    options = parser.parse_args(arguments)

    from ..client.control import Control

    with Control() as control:
        for name in options.name:
            code = control.ask("terminal_stop", name=name)["exit_code"]
            print(f"session {name} ended with {code}")
    return 0
