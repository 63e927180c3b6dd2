"""`fairlead diff`: what a session changed in its directory, or how two sessions' results differ."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from .arguments import JSON, Argument, Command, Option, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = Command(
    "diff",
    "Print what a session changed since it began in its worktree: commits, what is not committed, and new\n"
    "files together. Without a worktree of its own, it is what is not committed in its directory. With a\n"
    "second session, print how that one's files differ from those of the first.",
    takes=(
        Argument("name", "the session", completes="session"),
        Argument("other", "another session", optional=True, completes="session"),
    ),
    options=(
        Option("--stat", help="only the files, with how many lines came and went"),
        JSON,
    ),
    examples=(
        ("fairlead diff garden", "what garden has changed"),
        ("fairlead diff garden --stat", "only which files"),
        ("fairlead diff roses hedge --stat", "what two agents made of one task, file by file"),
        ("fairlead diff garden | git apply", "take it over, in another copy of the repository"),
    ),
    codes={0: "done, whether there are differences or not"},
)
SHORT = 7
"""How many digits of a commit are shown."""


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..client.connection import DaemonConnection

    brief = True if options.stat else None
    with DaemonConnection() as control:
        answer = control.ask("session_diff", name=options.name, other=options.other, brief=brief)
        both: list[dict[str, Any]] = []
        if options.other and options.stat:
            both = [
                control.ask("session_diff", name=each, brief=True) for each in (options.name, options.other)
            ]
    if options.json:
        import json

        print(json.dumps(answer, indent=2))
        return 0
    if both:
        shown = list(_compared(options.name, options.other, answer, both))
    elif options.stat:
        shown = list(_stat(answer))
    else:
        shown = list(_patch(answer["patch"]))
    for line in shown:
        print(line)
    if answer.get("cut"):
        from shlex import quote

        from .far import hinted

        how = f"`fairlead diff {quote(options.name)} --stat` lists all files"
        _say(hinted(f"the diff is longer than what is shown; {how}"))
    if left_out := answer["left_out"]:
        _say(f"not compared, too large or repositories of their own: {', '.join(left_out)}")
    if not answer["total"]:
        what = "no differences" if options.other else f"{options.name} has changed nothing"
        _say(f"{what} besides" if left_out else what)
    return 0


def _say(what: str) -> None:
    from ..formats.columns import printable

    print(printable(what), file=sys.stderr)


def _patch(patch: str) -> Iterator[str]:
    """The lines of a patch. A terminal gets them with numbers, and nothing that does more than being shown;
    elsewhere they are as they are, so that they can be applied."""
    from .columns import terminal_width

    if (width := terminal_width()) is None:
        yield from patch.splitlines() if not patch.endswith("\n") else patch[:-1].split("\n")
    elif patch:
        from ..ui.diff import drawn
        from ..ui.styled import Paint
        from .colours import has_colours

        yield from map(Paint(has_colours()), drawn(patch, width))


def _stat(answer: dict[str, Any]) -> Iterator[str]:
    from .columns import table_lines

    if answer["files"]:
        rows = [
            ("FILE", "LINES", "CHANGE"),
            *((_name(each), _lines(each), each["status"]) for each in answer["files"]),
        ]
        yield from table_lines(rows, flexible="FILE", drops=("CHANGE",))
    if (more := answer["total"] - len(answer["files"])) > 0:
        yield f"and {more} more file{'s' if more > 1 else ''}"
    if answer["total"]:
        yield _sum(answer)


def _sum(answer: dict[str, Any]) -> str:
    """What changed in all, in one line."""
    from ..formats.columns import printable
    from ..formats.shown import counted

    parts = [
        f"{counted(answer['total'], 'file')} changed, +{answer['insertions']} -{answer['deletions']} lines"
    ]
    if ahead := answer.get("ahead"):
        parts.append(counted(ahead, "commit"))
    if base := answer.get("base"):
        parts.append(f"since {base[:SHORT]}")
    if branch := answer.get("branch"):
        parts.append(f"on branch {printable(branch)}")
    return ", ".join(parts)


def _compared(one: str, other: str, answer: dict[str, Any], both: list[dict[str, Any]]) -> Iterator[str]:
    """What two sessions changed, file by file."""
    from .columns import table_lines

    first, second = ({each["path"]: each for each in told["files"]} for told in both)
    differing = {name for each in answer["files"] for name in (each["path"], each.get("old_path")) if name}
    rows = [("FILE", one, other, "RESULT")]
    for path in sorted(first.keys() | second.keys() | differing):
        mine, theirs = first.get(path), second.get(path)
        rows.append(
            (path, _lines(mine), _lines(theirs), "differs" if path in differing else "same"),
        )
    if len(rows) > 1:
        yield from table_lines(rows, flexible="FILE")
    for name, told in zip((one, other), both):
        yield f"{name}: {_sum(told)}"


def _name(file: dict[str, Any]) -> str:
    old = file.get("old_path")
    return f"{old} => {file['path']}" if old else str(file["path"])


def _lines(file: dict[str, Any] | None) -> str:
    if file is None:
        return "-"
    if file.get("binary"):
        return "binary"
    return f"+{file.get('insertions', 0)} -{file.get('deletions', 0)}"
