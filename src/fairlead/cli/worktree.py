"""`fairlead worktree`: the worktrees that were made for sessions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

from .arguments import JSON, Argument, Command, Failure, Option, UsageError, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.connection import DaemonConnection

VERBS = ("ls", "diff", "merge", "rm")
COMMAND = Command(
    "worktree",
    "List, compare, merge and remove the git worktrees that `start --worktree` and `agent --worktree` made.\n"
    "`merge` merges the branch into the one that it came from. If there are conflicts, or changes in the\n"
    "same files where that is checked out, it names them, and nothing has changed.\n"
    "A worktree outlives its session. `rm` refuses while a session works there, and if files or commits\n"
    "would be lost: with --force these are kept under a ref of the repository, which it prints.",
    takes=(
        Argument("what", "ls, diff NAME, merge NAME, rm NAME", optional=True, completes=" ".join(VERBS)),
        Argument("name", "the session that it was made for", optional=True, completes="worktree"),
    ),
    options=(
        Option("-f", "--force", help="rm: also with work that is nowhere else, which is kept under a ref"),
        Option("--into", value="BRANCH", help="merge: into this branch"),
        Option("-m", "--message", value="TEXT", help="merge: first commit what is not committed"),
        Option("--dry-run", help="merge: only show what would be done"),
        Option("-y", "--yes", help="rm: don't ask; needed without a terminal"),
        Option("--stat", help="diff: only the files"),
        JSON,
    ),
    examples=(
        ("fairlead worktree", "list them"),
        ("fairlead worktree diff roses --stat", "what was changed in it"),
        ("fairlead worktree merge roses -m 'new roses'", "commit what was done, and merge it"),
        ("fairlead worktree rm roses", "remove it, if nothing is lost with it"),
    ),
)
SHORT = 7
"""How many digits of a commit are shown."""
HEAD = ("NAME", "SESSION", "BRANCH", "SINCE", "COMMITS", "CHANGED", "DIRECTORY")


@contextlib.contextmanager
def worktree_for(control: DaemonConnection, options: Any) -> Iterator[str]:
    """The directory for a session that is started in the `with`: where the options say, or in a worktree of
    its own, which goes again if the session can't be started."""
    from ..client.calls import place

    try:
        here = place(options.cwd or ".", control.settings.host)
    except FileNotFoundError:
        raise Failure("the working directory was deleted; use --cwd to give another") from None
    if options.worktree is None:
        yield here
        return
    from ..client.connection import RequestError

    given = {"branch": options.worktree or None, "revision": getattr(options, "from")}
    made = control.ask("worktree_add", name=options.name, project=here, **given)
    try:
        yield made["project"]
    except RequestError:
        if made["created"]:
            with contextlib.suppress(RequestError):
                control.ask("worktree_remove", name=made["worktree"]["name"])
        raise
    tell_of(made)


def tell_of(made: dict[str, Any]) -> None:
    """Say where a session's worktree is, and what somebody who works there should know."""
    from ..formats.columns import printable
    from ..ui.needs import from_home

    worktree = made["worktree"]
    where = f"{from_home(worktree['path'])}, branch {worktree['branch']}"
    said = f"worktree {where}" if made["created"] else f"in the worktree that is there already: {where}"
    for line in (said, *made["notes"]):
        print(printable(line), file=sys.stderr)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    what = options.what or "ls"
    if what not in VERBS:
        from .arguments import nearest

        raise UsageError(f"{what!r} is not one of {', '.join(VERBS)}{nearest(what, VERBS)}")
    if (what == "ls") != (options.name is None):
        raise UsageError(
            f"missing NAME: `fairlead worktree {what} NAME`" if what != "ls" else "ls takes no NAME"
        )
    if what == "diff":
        from .diff import main as diff

        flags = [f"--{each}" for each in ("stat", "json") if getattr(options, each)]
        return diff([*flags, "--", options.name])

    from ..client.connection import DaemonConnection

    with DaemonConnection() as control:
        does = {"ls": _list, "merge": _merge, "rm": _remove}[what]
        return does(control, options)


def _list(control: DaemonConnection, options: Any) -> int:
    worktrees = control.ask("worktree_list")["worktrees"]
    if options.json:
        import json

        print(json.dumps(worktrees, indent=2))
        return 0
    if not worktrees:
        print("no worktrees; `fairlead start NAME --worktree` makes one", file=sys.stderr)
        return 0
    from ..ui.needs import from_home
    from .columns import table_lines

    rows = [
        (
            each["name"],
            ", ".join(f"{one['name']} {one['state']}" for one in each["sessions"]) or "-",
            each["branch"],
            each["base"][:SHORT],
            str(each.get("ahead", "-")),
            str(each.get("changed", "-")),
            from_home(each["path"]),
        )
        for each in worktrees
    ]
    for line in table_lines([HEAD, *rows], drops=("SINCE", "SESSION", "COMMITS", "CHANGED")):
        print(line)
    return 0


def _merge(control: DaemonConnection, options: Any) -> int:
    from ..formats.shown import counted

    given: dict[str, Any] = {"into": options.into, "message": options.message}
    if options.dry_run:
        return _preview(control.ask("worktree_merge_preview", name=options.name, **given), options)
    answer = control.ask("worktree_merge", name=options.name, **given)
    if options.json:
        import json

        print(json.dumps(answer))
        return 0
    branch, into = answer["worktree"]["branch"], answer["into"]
    if answer["merged"]:
        done = f"{counted(answer['files'], 'file')} changed, {into} is now {answer['commit'][:SHORT]}"
        print(f"merged {branch} into {into}: {done}")
    else:
        print(f"nothing to merge: {into} has all of {branch}")
    return 0


def _preview(would: dict[str, Any], options: Any) -> int:
    """Show what a merge would do."""
    if options.json:
        import json

        print(json.dumps(would))
        return 0
    from ..formats.columns import printable
    from ..formats.shown import counted

    for each in would["commits"]:
        print(f"{each['id'][:SHORT]} {printable(each['subject'])}")
    if (more := would["ahead"] - len(would["commits"])) > 0:
        print(f"and {counted(more, 'commit')} more")
    if would["uncommitted"]:
        print(f"not committed yet: {printable(', '.join(would['uncommitted']))}")
    for each in would["files"]:
        print(f"{each['status']:<10} {printable(each['path'])}")
    if (more := would["total"] - len(would["files"])) > 0:
        print(f"and {counted(more, 'file')} more")
    print(f"{counted(would['total'], 'file')} of {printable(would['into'])} would change")
    if refusal := would.get("refusal"):
        print(f"it would be refused: {printable(refusal)}", file=sys.stderr)
    return 0


def _remove(control: DaemonConnection, options: Any) -> int:
    lost = control.ask("worktree_losses", name=options.name)
    path = lost["worktree"]["path"]
    asks = not options.yes and (options.force or not lost["losses"])
    if asks:
        if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("nobody can be asked without a terminal; use --yes")
        if not _agreed(lost):
            return 1
    digest = lost.get("digest") if asks else None
    answer = control.ask("worktree_remove", name=options.name, force=options.force or None, digest=digest)
    if options.json:
        import json

        print(json.dumps(answer))
        return 0
    print(f"removed {path}")
    if kept := answer.get("kept"):
        from shlex import join

        print(f"its work is kept: `{join(['git', '-C', answer['worktree']['origin'], 'log', kept])}`")
    return 0


def _agreed(lost: dict[str, Any]) -> bool:
    from ..formats.columns import printable
    from ..formats.shown import counted
    from .agreed import has_agreed

    has = [lost["losses"]] if lost["losses"] else []
    if ignored := lost["ignored"]:
        has.append(f"{counted(ignored, 'ignored file')}, which will be gone")
    about = f" It has {', and '.join(has)}." if has else ""
    return has_agreed(printable(f"remove {lost['worktree']['path']}?{about}"))
