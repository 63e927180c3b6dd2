"""`fairlead screen`: what is on a session's screen."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import SESSION, Command, Failure, Option, UsageError, parsed

FORMS = ("ansi", "json", "html", "svg", "png")

COMMAND = Command(
    "screen",
    "Print the contents of a session's screen, as text or in another format, without affecting the session.",
    takes=(SESSION,),
    options=(
        Option("--ansi", help="text with colours, as escape sequences"),
        Option("--json", help="cells with their colours, the cursor, the modes and the title"),
        Option("--html", help="HTML"),
        Option("--svg", help="an SVG image"),
        Option("--png", help="a PNG image; needs the extra 'picture'"),
        Option("-s", "--scrollback", help="include the scrollback; for text and --ansi"),
        Option(
            "-o", "--output", value="FILE", help="write to a file; - is standard output", completes="file"
        ),
    ),
    either=FORMS,
    examples=(
        ("fairlead screen work", "as text"),
        ("fairlead screen work -s --ansi | less -R", "screen and scrollback, in colour"),
        ("fairlead screen agent --png -o agent.png", "as an image"),
        ("fairlead screen work --json | jq .cursor", "the cursor's position"),
    ),
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    form = next((form for form in FORMS if getattr(options, form)), "text")
    if options.scrollback and form not in ("text", "ansi"):
        raise UsageError(f"--scrollback can't be combined with --{form}, only with text or --ansi")
    to_file = options.output not in (None, "-")
    if form == "png" and not to_file and sys.stdout.isatty():
        raise UsageError("can't print a PNG to a terminal; write it to a file with -o FILE")

    from ..client.connection import DaemonConnection
    from .kinds import note_seen, with_screen

    with DaemonConnection() as control:
        answer = with_screen(
            control,
            "terminal_screen",
            options.name,
            format="cells" if form == "json" else form,
            scrollback=options.scrollback,
        )
        if not to_file:
            note_seen(control, name=options.name)
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
