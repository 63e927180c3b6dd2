"""`fairlead search`: find text in a session's screen and scrollback."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import JSON, SESSION, Argument, Command, Option, count, parsed

COMMAND = Command(
    "search",
    "Find text in a session's screen and scrollback. It prints row:column: line for each match; row 0 is\n"
    "the oldest. Lines are searched as they were printed, however they wrap.",
    takes=(SESSION, Argument("text", "what to look for")),
    options=(
        Option("-e", "--regex", help="the text is a regular expression, in RE2's syntax"),
        Option("-n", "--limit", value="N", kind=count, help="at most this many matches (1000)"),
        JSON,
    ),
    examples=(
        ("fairlead search work Traceback", "where is it?"),
        ("fairlead search -e work '^E +\\w+Error'", "a regular expression"),
        ("fairlead search tests FAILED --json", "for a program"),
    ),
    codes={0: "found", 1: "not found, or no such session"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..client.control import Control

    how = "regex" if options.regex else "needle"
    given = {how: options.text, "limit": options.limit}
    with Control() as control:
        matches = control.ask("terminal_search", name=options.name, **given)["matches"]
    if options.json:
        import json

        print(json.dumps(matches, indent=2))
    else:
        for match in matches:
            print(f"{match['line']}:{match['column']}: {match['text'].rstrip()}")
    return 0 if matches else 1
