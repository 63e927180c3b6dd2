"""`fairlead screen`: what is on a session's screen."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="fairlead screen", description="Show what is on a session's screen, without touching it."
    )
    parser.add_argument("name", help="which session")
    form = parser.add_mutually_exclusive_group()
    for name, what in (
        ("ansi", "with its colours, as escape sequences"),
        ("json", "as cells with their colours, the cursor, the modes and the title"),
        ("html", "as HTML"),
        ("svg", "as a picture"),
    ):
        form.add_argument(f"--{name}", action="store_const", const=name, dest="form", help=what)
    parser.add_argument("--scrollback", action="store_true", help="with what has scrolled away (as text)")
    parser.set_defaults(form="text")
    options = parser.parse_args(arguments)

    from ..client.control import Control

    with Control() as control:
        form_name = "cells" if options.form == "json" else options.form
        answer = control.ask(
            "terminal_screen", name=options.name, format=form_name, scrollback=options.scrollback
        )
    if options.form == "json":
        import json

        print(json.dumps(answer["screen"]))
    else:
        sys.stdout.write(answer["screen"].rstrip("\n") + "\n")
    return 0
