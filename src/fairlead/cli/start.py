"""`fairlead start`: a program that keeps running."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from .arguments import Argument, Command, Failure, Option, UsageError, count, parsed
from .far import hinted
from .placed import ON

COMMAND = Command(
    "start",
    "Start a program in a new terminal session, and attach to it. The session outlives this terminal.\n"
    "Without a command, start your shell. ctrl-\\ detaches. Without a terminal here, -d is implied.",
    takes=(Argument("name", "the session's name", of_host=True),),
    options=(
        Option("-d", "--detach", help="start it without attaching"),
        ON,
        Option("--cwd", value="DIR", help="the working directory (here)", completes="directory"),
        Option("--cols", value="N", kind=count, help="columns of its terminal (this terminal's, or 80)"),
        Option("--rows", value="N", kind=count, help="rows of its terminal (this terminal's, or 24)"),
        Option(
            "--record",
            value="FILE",
            bare="",
            help="record it, to this new file or to the default path",
            completes="file",
        ),
        Option(
            "--worktree",
            value="BRANCH",
            bare="",
            help="in a git worktree of its own, on a new branch called like the session or BRANCH",
        ),
        Option("--from", value="REV", help="with --worktree: begin at this commit (HEAD)"),
        Option("--json", help="print its name and process id as JSON; implies -d"),
    ),
    tail="COMMAND…",
    examples=(
        ("fairlead start roses --worktree -- claude", "an agent that can't disturb the others' files"),
        ("fairlead start work", "your shell, in a session named work"),
        ("fairlead start agent -- claude --continue", "a program; its command follows --"),
        ("fairlead start demo --record=demo.cast", "recorded; then: fairlead play demo.cast"),
        (
            "fairlead start tests -d --cwd ~/src -- make test",
            "in the background; then: fairlead wait tests --exit",
        ),
    ),
    codes={
        126: "the program can't be executed",
        127: "the program does not exist",
        "program's": "if you stayed attached until it ended",
    },
)


USUAL_SIZE = (80, 24)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    revision = getattr(options, "from")
    if revision is not None and options.worktree is None:
        raise UsageError("--from needs --worktree: it is where the worktree begins")

    from ..client import calls
    from ..client.connection import DaemonConnection, RequestError
    from ..system.settings import Settings
    from .worktree import worktree_for

    host = Settings().host
    if host and options.record and not options.record.startswith("/"):
        raise UsageError(f"--record={options.record}: give the absolute path of a file on {host}")
    shell = ["sh", "-c", 'exec "${SHELL:-/bin/sh}"'] if host else [os.environ.get("SHELL") or "/bin/sh"]

    here = sys.stdin.isatty() and sys.stdout.isatty()
    size = os.get_terminal_size(sys.stdin.fileno()) if here else os.terminal_size((0, 0))
    try:
        with DaemonConnection() as control, worktree_for(control, options) as cwd:
            answer = control.ask(
                "terminal_start",
                name=options.name,
                argv=options.tail or shell,
                cwd=cwd,
                **calls.given_environment(None, host),
                cols=options.cols or size.columns or USUAL_SIZE[0],  # some terminals don't know it
                rows=options.rows or size.lines or USUAL_SIZE[1],
                record=os.path.abspath(options.record) if options.record else options.record == "" or None,
            )
    except RequestError as error:
        if error.code == "request/session-not-idle" and "running" in str(error):
            raise Failure(
                f"{error}; attach to it with `fairlead attach {shlex.quote(options.name)}`"
            ) from None
        code = error.data.get("exit_code") if isinstance(error.data, dict) else None
        if code is None:
            raise
        print(hinted(f"fairlead start: {error}"), file=sys.stderr)
        return int(code)
    if options.json:
        import json

        print(json.dumps(answer))
    elif options.detach or not here:
        shown = f"{host}:{options.name}" if host else options.name
        attach_to = f"attach to it with `fairlead attach {shlex.quote(shown)}`"
        print(f"session {shown} started; {attach_to}", file=sys.stderr)
        if answer.get("recording"):
            print(f"recording to {answer['recording']}", file=sys.stderr)
    else:
        from ..ui.attach import attach

        return attach(options.name)
    return 0
