"""`fairlead search`: find text in a session's screen and scrollback."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import JSON, SESSION, Argument, Command, Option, UsageError, count, parsed, refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .arguments import Options

USUAL_LIMIT = 1000
"""How many matches are shown unless it is said."""

COMMAND = Command(
    "search",
    "Search a session's screen and scrollback. Prints line:column: text for each match, with\n"
    "lines numbered as in `fairlead logs`. A wrapped line is searched as one line. For an agent session,\n"
    "search its messages.",
    takes=(SESSION, Argument("text", "the text to search for")),
    options=(
        Option("-e", "--regex", help="the text is a regular expression (RE2 syntax)"),
        Option("-n", "--limit", value="N", kind=count, help="at most this many matches (1000)"),
        JSON,
    ),
    examples=(
        ("fairlead search work Traceback", "plain text"),
        ("fairlead search -e work '^E +\\w+Error'", "a regular expression"),
        ("fairlead search tests FAILED --json", "for scripts"),
    ),
    codes={
        0: "found",
        1: "not found, or no such session",
        2: "usage error, or an invalid regular expression",
    },
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..client.connection import DaemonConnection, RequestError

    how = "regex" if options.regex else "needle"
    given = {how: options.text, "limit": options.limit}
    with DaemonConnection() as control:
        try:
            matches = control.ask("terminal_search", name=options.name, **given)["matches"]
        except RequestError as error:
            refused(error)
            from .kinds import other_kind

            session = other_kind(control, options.name, error)
            answer = control.ask("session_lines", session_id=session["id"])
            matches = _matches(answer["first"], answer["lines"], options)
    if options.json:
        import json

        print(json.dumps(matches, indent=2))
    else:
        for match in matches:
            print(f"{match['line']}:{match['column']}: {match['text'].rstrip()}")
    return 0 if matches else 1


def _matches(first: int, lines: list[str], options: Options) -> list[dict[str, Any]]:
    """The places in some lines that have the text."""
    from ..formats.patterns import PatternError, compiled

    try:
        pattern = compiled(options.text, literal=not options.regex)
    except PatternError as error:
        raise UsageError(str(error)) from None
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, first):
        if (match := pattern.search(line)) and len(found) < (options.limit or USUAL_LIMIT):
            found.append({"line": number, "column": match.start(), "text": line})
    return found
