"""`fairlead send`: type into a session."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="fairlead send",
        description="Type into a session: a text, then named keys.",
        epilog="example: fairlead send work 'make test' -k Enter",
    )
    parser.add_argument("name", help="which session")
    parser.add_argument("text", nargs="?", help="what is typed; - takes it from standard input")
    parser.add_argument(
        "-k", "--key", action="append", default=[], help="Enter, Up, C-c, M-x, F5, …; may be repeated"
    )
    parser.add_argument(
        "-p", "--paste", action="store_true", help="give the text as a paste, if the program knows that"
    )
    options = parser.parse_args(arguments)
    if options.text is None and not options.key:
        parser.error("a text or a key is wanted")
    text = sys.stdin.read() if options.text == "-" else options.text

    from ..client.control import Control

    with Control() as control:
        how = "paste" if options.paste else "text"
        control.ask("terminal_send", name=options.name, keys=options.key or None, **{how: text})
    return 0
