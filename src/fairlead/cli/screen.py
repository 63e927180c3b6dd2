"""`fairlead screen`: what is on a session's screen."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import SESSION, Command, Failure, Option, UsageError, parsed

FORMS = ("ansi", "json", "html", "svg", "png")

COMMAND = Command(
    "screen",
    "Show what is on a session's screen, without touching it: as text, or in another form.",
    takes=(SESSION,),
    options=(
        Option("--ansi", help="with its colours, as escape sequences"),
        Option("--json", help="cells with their colours, the cursor, the modes and the title"),
        Option("--html", help="as HTML"),
        Option("--svg", help="as a scalable picture"),
        Option("--png", help="as a picture; needs the extra 'picture'"),
        Option("-s", "--scrollback", help="with the scrollback, as text or with --ansi"),
        Option("-o", "--output", value="FILE", help="into a file; - is standard output", completes="file"),
    ),
    either=FORMS,
    examples=(
        ("fairlead screen work", "as text"),
        ("fairlead screen work -s --ansi | less -R", "all there is, in colour"),
        ("fairlead screen agent --png -o agent.png", "a picture"),
        ("fairlead screen work --json | jq .cursor", "for a program"),
    ),
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    form = next((form for form in FORMS if getattr(options, form)), "text")
    if options.scrollback and form not in ("text", "ansi"):
        raise UsageError(f"--scrollback goes with text and --ansi, not with --{form}")
    to_file = options.output not in (None, "-")
    if form == "png" and not to_file and sys.stdout.isatty():
        raise UsageError("a terminal can't show a PNG; -o FILE writes it to a file")

    from ..client.control import Control
    from .kinds import with_screen

    with Control() as control:
        answer = with_screen(
            control,
            "terminal_screen",
            options.name,
            format="cells" if form == "json" else form,
            scrollback=options.scrollback,
        )
    made = _made(form, answer["screen"])
    if not to_file:
        sys.stdout.flush()
        sys.stdout.buffer.write(made)
        return 0
    try:
        with open(options.output, "wb") as file:
            file.write(made)
    except OSError as error:
        raise Failure(f"can't write {options.output}: {error.strerror}") from None
    return 0


def _made(form: str, screen: object) -> bytes:
    if form == "json":
        import json

        return f"{json.dumps(screen)}\n".encode()
    assert isinstance(screen, str)
    if form == "png":
        from base64 import b64decode

        return b64decode(screen)
    return (screen.rstrip("\n") + "\n").encode("utf-8", "replace")
