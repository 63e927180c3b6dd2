"""`fairlead start`: a program that keeps running."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="fairlead start",
        usage="fairlead start [-d] [--cwd DIR] [--cols N] [--rows N] NAME [-- COMMAND…]",
        description="Start a program in a terminal of its own that outlives this one, and share it.",
        epilog="Without a command it is your shell. Example: fairlead start work -- claude",
    )
    parser.add_argument("name", help="what the session is called")
    parser.add_argument("-d", "--detach", action="store_true", help="start it and come back at once")
    parser.add_argument("--cwd", default=None, metavar="DIR", help="where it runs (here)")
    parser.add_argument("--cols", type=int, default=None, help="columns of its terminal (as this one has)")
    parser.add_argument("--rows", type=int, default=None, help="rows of its terminal (as this one has)")
    words = list(arguments)
    cut = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:cut])
    command = words[cut + 1 :] or [os.environ.get("SHELL") or "/bin/sh"]

    from ..client.control import Control

    attach = sys.stdin.isatty() and not options.detach
    size = os.get_terminal_size(sys.stdin.fileno()) if sys.stdin.isatty() else os.terminal_size((80, 24))
    with Control() as control:
        control.ask(
            "terminal_start",
            name=options.name,
            argv=command,
            cwd=os.path.abspath(options.cwd or "."),
            env=dict(os.environ),
            cols=options.cols or size.columns,
            rows=options.rows or size.lines,
        )
    if not attach:
        print(f"session {options.name} runs; `fairlead attach {options.name}` shares it", file=sys.stderr)
        return 0
    from ..client.attach import attach as share

    return share(options.name)
