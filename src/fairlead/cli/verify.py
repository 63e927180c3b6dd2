"""`fairlead verify`: be the verifier of a session."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Argument, Command, Failure, Option, UsageError, parsed, seconds

COMMAND = Command(
    "verify",
    "Check every turn of a session and say so; what fails goes back to the agent by itself, until it holds\n"
    "or a person is called. The check is a command after --, one or more --check, a model as a --persona,\n"
    "or several of these as a panel. It goes on until the session ends or ^C; to keep it, put it into a\n"
    "session of its own: fairlead start check -- fairlead verify work -- pytest -q",
    takes=(Argument("session", "name or id of the session, ours or a real Pi's", completes="session"),),
    options=(
        Option("--check", help="a command to run; may be given several times", value="COMMAND", many=True),
        Option("--persona", help="let a model judge as this one; may be repeated", value="NAME", many=True),
        Option("--model", help="the model that judges, as provider/id", value="MODEL"),
        Option("--other-model", help="refuse to judge with the model that built"),
        Option("--quorum", help="how many of a panel must agree: all, majority or a number", value="WORD"),
        Option("--copy", help="run commands in a copy of the project that is thrown away"),
        Option("--timeout", help="seconds that one command may take", value="SECONDS", kind=seconds),
        Option("--steer", help="send corrections into the running turn of an agent session"),
        Option("--once", help="judge the last turn, or the one that runs, send nothing back, and end"),
        Option("--socket", help="the builder's socket, if it is not one of ours", value="PATH"),
        Option("--project", help="the directory that is checked", value="DIR", completes="directory"),
        Option("-q", "--quiet", help="print only the reports, one line each"),
    ),
    tail="COMMAND…",
    examples=(
        ("fairlead verify work -- pytest -q", "run the tests after every turn"),
        ("fairlead verify work --check 'ruff check' --check 'pytest -q' --copy", "one report of two"),
        (
            "fairlead verify work --persona reviewer --model openai/gpt-5",
            "a second agent checks",
        ),
        ("fairlead verify --once work -- make test && git push", "in a script"),
    ),
    codes={
        0: "the session ended; with --once: verified",
        1: "it could not be done, as where a real Pi has its verifier, or the daemon was stopped;\n"
        "with --once: the work failed",
        2: "wrong usage; with --once: could not verify, no turn yet, or the turn failed or was stopped",
    },
)


def main(arguments: Sequence[str]) -> int:
    import shlex

    options = parsed(COMMAND, arguments)
    checks = [*options.check, *([shlex.join(options.tail)] if options.tail else [])]
    if len(options.tail) == 1:
        checks[-1] = options.tail[0]
    if not checks and not options.persona:
        raise UsageError("missing a check: give a command after --, --check COMMAND or --persona NAME")
    if not all(map(str.strip, checks)):
        raise UsageError("--check needs a command, not an empty text")

    import asyncio

    from ..system.settings import Settings
    from ..verify.checks.command import TIME_LIMIT
    from .verifier import Wanted, found, watch

    settings = Settings()
    target = found(settings, options.session, socket=options.socket or "", project=options.project or "")
    wanted = Wanted(
        commands=tuple(checks),
        personas=tuple(options.persona),
        model=options.model or "",
        other_model=options.other_model,
        quorum=options.quorum or "all",
        in_copy=options.copy,
        time_limit=options.timeout or TIME_LIMIT,
    )
    try:
        return asyncio.run(
            watch(settings, target, wanted, once=options.once, steer=options.steer, quiet=options.quiet)
        )
    except ValueError as error:
        raise Failure(str(error)) from None
