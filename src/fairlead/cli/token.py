"""`fairlead token`: tokens by which programs use the console's HTTP API."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, Option, UsageError, parsed
from .spans import span

MONTH = 30 * 86_400.0

COMMAND = Command(
    "token",
    "Make a token for the HTTP API of the console, which must be running (`fairlead web`), list tokens,\n"
    "or remove one. A token is printed once; only its hash is kept. Scopes: `read` looks, `answer` also\n"
    "answers questions, `all` may do what you may in the console.",
    takes=(
        Argument(
            "what",
            "make one (the default), list them, or remove one",
            optional=True,
            choices=("new", "ls", "rm"),
        ),
        Argument("id", "for rm: the token's id or its name", optional=True),
    ),
    options=(
        Option(
            "--scope",
            value="read|answer|all",
            completes="read answer all",
            help="what it may (default: read)",
        ),
        Option("--for", value="TIME", kind=span, help="how long it is good, at most 30d (the default)"),
        Option("--name", value="NAME", help="what it is for, for the list"),
        JSON,
    ),
    examples=(
        ("fairlead token --scope read --for 7d --name grafana", "a token that may look, for a week"),
        ("fairlead token rm grafana", "end one, by its name or its id"),
    ),
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if (options.what == "rm") != (options.id is not None):
        raise UsageError("`token rm` takes the id or name of one token; the others take none")
    from ..system.settings import Settings
    from ..web.launch import asked

    settings = Settings()
    if options.what == "rm":
        asked(settings, "revoke", id=_found(asked(settings, "sessions")["sessions"], options.id))
        return 0
    if options.what == "ls":
        return _list(asked(settings, "sessions")["sessions"], as_json=options.json)
    made = asked(
        settings,
        "token",
        scope=options.scope or "read",
        name=options.name or "",
        seconds=getattr(options, "for") or MONTH,
    )
    if options.json:
        import json

        print(json.dumps(made))
    else:
        print(made["token"])
        if sys.stdout.isatty():
            print(f"this is shown once; `fairlead token rm {made['id']}` ends it", file=sys.stderr)
    return 0


def _found(rows: list[dict[str, str]], word: str) -> str:
    """The id of the token that has this id, or alone has this name. Raises Failure."""
    tokens = [row for row in rows if row["kind"] == "token"]
    found = [row["id"] for row in tokens if row["id"] == word] or [
        row["id"] for row in tokens if row["label"] == word
    ]
    if len(found) == 1:
        return found[0]
    from .arguments import Failure

    if found:
        raise Failure(f"{len(found)} tokens have the name {word!r}: use an id, one of {', '.join(found)}")
    raise Failure(f"no token has the id or name {word!r}")


def _list(rows: list[dict[str, object]], *, as_json: bool) -> int:
    import json
    import time

    tokens = [row for row in rows if row["kind"] == "token"]
    if as_json:
        print(json.dumps(tokens))
        return 0
    for row in tokens:
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["until"]))))
        print(f"{row['id']}  {row['role']:<8} until {until}  {row['label']}".rstrip())
    if not tokens:
        print("there are no tokens", file=sys.stderr)
    return 0
