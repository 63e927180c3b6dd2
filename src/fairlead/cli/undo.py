"""`fairlead undo`: put files back as they were before an agent's last turns."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .arguments import JSON, SESSION, Command, Failure, Option, UsageError, count, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.connection import DaemonConnection

COMMAND = Command(
    "undo",
    "Put files back as they were before the last turn of a session that changed any. It shows what it will\n"
    "do, and asks. Files that somebody changed since, and what another session changed meanwhile, are only\n"
    "overwritten with --force; --redo brings everything back. Commits and what git ignores stay. A turn or\n"
    "a file that was not recorded is named, with the reason.",
    takes=(SESSION,),
    options=(
        Option("-n", "--turns", value="N", kind=count, help="undo so many turns that changed files (1)"),
        Option("--dry-run", help="only show what would be done"),
        Option("--redo", help="take back the last undo"),
        Option("-f", "--force", help="also overwrite what was changed since"),
        Option("-y", "--yes", help="don't ask; needed without a terminal"),
        JSON,
    ),
    examples=(
        ("fairlead undo garden --dry-run", "what would be put back"),
        ("fairlead undo garden", "show it, ask, and do it"),
        ("fairlead undo garden -n 3 -y", "the last three turns that changed files"),
        ("fairlead undo garden --redo", "after all, keep what it did"),
    ),
)
SLOW = 0.5
"""Seconds after which it is said what takes so long."""
MAX_SHOWN = 40
"""How many files are shown to whoever agreed before; who is asked, or only looks, sees all."""
_SIGNS = {"restore": "~", "remove": "-", "create": "+"}


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    asks = not options.yes and not options.dry_run
    if asks and not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("nobody can be asked without a terminal; use --yes or --dry-run")

    from ..client.connection import DaemonConnection
    from ..formats.columns import printable
    from ..formats.shown import counted

    given: dict[str, Any] = {"name": options.name, "turns": options.turns, "redo": options.redo}
    with DaemonConnection() as control:
        with _patience("finding out what would be put back"):
            told = control.ask("session_undo", **given, dry_run=True)
        if not options.json:
            for line in _lines(told, MAX_SHOWN if options.yes else None):
                print(line)
        if not options.force and (refusal := told.get("refusal")):
            if asks:
                raise Failure(refusal)
            if options.dry_run and not options.json:
                print(f"it would be refused: {printable(refusal)}", file=sys.stderr)
        if asks and not _agreed(told):
            return 1
        if not options.dry_run:
            with _patience(f"putting back {counted(len(told['files']), 'file')}"):
                told = _done(control, given, options.force, told.get("digest") if asks else None)
    if options.json:
        import json

        print(json.dumps(told))
    elif not options.dry_run:
        from shlex import quote

        from .far import hinted

        back = f"; `fairlead undo {quote(options.name)} --redo` takes it back" if not options.redo else ""
        print(hinted(f"done{back}"))
    return 0


@contextmanager
def _patience(what: str) -> Iterator[None]:
    """Tell a person what takes so long, if it does: hundreds of files are compared or written."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from threading import Timer

    timer = Timer(SLOW, lambda: print(f"fairlead undo: {what}…", file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _done(
    control: DaemonConnection, given: dict[str, Any], force: bool, digest: str | None
) -> dict[str, Any]:
    """Let it be done, if it is still what was shown. If the daemon dies meanwhile, say who knows what became
    of it."""
    from shlex import quote

    try:
        return control.ask("session_undo", **given, force=force, digest=digest)
    except ConnectionError as error:
        words = "--dry-run" if given["redo"] else "--redo --dry-run"
        how = f"`fairlead undo {quote(given['name'] or '')} {words}` says what became of it"
        begun = "if it was begun, the next daemon finishes it, or takes it back"
        raise Failure(f"{error}; {begun}; {how}") from None


def _lines(told: dict[str, Any], limit: int | None) -> list[str]:
    from ..formats.columns import printable

    lines = []
    for each in told["files"][:limit]:
        since = "  changed since" if each.get("changed_since") else ""
        lines.append(f"{_SIGNS[each['action']]} {printable(each['path'])}{since}")
    if limit is not None and (more := len(told["files"]) - limit) > 0:
        lines.append(f"and {more} more")
    if told["left"]:
        lines.append(f"ignored by git before, and left: {printable(', '.join(told['left']))}")
    if told["unrecorded"]:
        lines.append(f"changed, not recorded, and left: {printable(', '.join(told['unrecorded']))}")
    lines += [f"note: {printable(each)}" for each in told["notes"]]
    if told["others"]:
        lines.append(f"worked there meanwhile: {printable(', '.join(told['others']))}")
    return lines


def _agreed(told: dict[str, Any]) -> bool:
    from ..formats.shown import counted
    from .agreed import has_agreed

    turns, files = counted(len(told["turns"]), "turn"), counted(len(told["files"]), "file")
    return has_agreed(f"put back {files} in {told['top']}, of {turns}?")
