"""`fairlead wait`: until a session shows a text, falls quiet or ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

TIMED_OUT = 124  # as timeout(1) has it


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="fairlead wait",
        description="Wait until a session shows a text, its program falls quiet, or it ends.",
        epilog="exits with 0 when that happened, 124 when the time was over, 1 when the program ended first; "
        "with --exit alone, with the program's own code",
    )
    parser.add_argument("name", help="which session")
    parser.add_argument("--text", help="until this is on the screen")
    parser.add_argument("--regex", help="until this regular expression matches on the screen")
    parser.add_argument("--idle", type=float, metavar="SECONDS", help="until nothing was printed for so long")
    parser.add_argument("--exit", action="store_true", help="until the program has ended")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="but not longer than this")
    options = parser.parse_args(arguments)
    if options.text is None and options.regex is None and options.idle is None and not options.exit:
        parser.error("one of --text, --regex, --idle and --exit is wanted")

    from ..client.control import Control

    with Control() as control:
        answer = control.ask(
            "terminal_wait",
            name=options.name,
            text=options.text,
            regex=options.regex,
            idle=options.idle,
            exit=options.exit or None,
            timeout=options.timeout,
        )
    if answer["reason"] == "timeout":
        print(f"fairlead wait: nothing within {options.timeout:g} s", file=sys.stderr)
        return TIMED_OUT
    if answer["reason"] == "exit":
        code: int = answer["exit_code"]
        only = options.exit and options.text is None and options.regex is None and options.idle is None
        return code if only else 0 if options.exit else 1
    return 0
