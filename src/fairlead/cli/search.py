"""`fairlead search`: find text in a session's screen and scrollback."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="fairlead search",
        description="Find text in a session's screen and scrollback. Exits with 1 if there is none.",
    )
    parser.add_argument("name", help="which session")
    parser.add_argument("text", help="what to look for")
    parser.add_argument("-e", "--regex", action="store_true", help="the text is a regular expression")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(arguments)

    from ..client.control import Control

    how = "regex" if options.regex else "needle"
    with Control() as control:
        matches = control.ask("terminal_search", name=options.name, **{how: options.text})["matches"]
    if options.json:
        import json

        print(json.dumps(matches, indent=2))
    else:
        for match in matches:
            print(f"{match['line']}:{match['column']}: {match['text'].rstrip()}")
    return 0 if matches else 1
