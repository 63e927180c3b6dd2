"""`fairlead verify`: be the verifier of a session."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Argument, Command, Failure, Option, UsageError, parsed, seconds

COMMAND = Command(
    "verify",
    "Verify every turn of a session and report the result. Failures are sent back to the agent\n"
    "automatically, until the turn is verified or a person is needed. The check is a command after --, one\n"
    "or more --check, a model with --persona, or several of these as a panel. It runs until the session\n"
    "ends or ^C; to keep it running, start it in a session: fairlead start check -- fairlead verify work --\n"
    "pytest -q",
    takes=(Argument("session", "a session's name or id, Fairlead's or Pi's", completes="session"),),
    options=(
        Option("--check", help="a command to run; may be repeated", value="COMMAND", many=True),
        Option(
            "--persona", help="verify with a model as this persona; may be repeated", value="NAME", many=True
        ),
        Option("--model", help="the verifier's model, as provider/id", value="MODEL", completes="model"),
        Option("--other-model", help="refuse to verify with the agent's own model"),
        Option("--quorum", help="how many of a panel must agree: all, majority or a number", value="WORD"),
        Option("--copy", help="run the commands in a temporary copy of the project"),
        Option("--timeout", help="time limit for each command", value="SECONDS", kind=seconds),
        Option("--steer", help="send corrections into the running turn of an agent session"),
        Option("--once", help="verify the last or running turn, send nothing back, and exit"),
        Option("--socket", help="the session's verifier socket, if it is not Fairlead's", value="PATH"),
        Option("--project", help="the project directory to verify", value="DIR", completes="directory"),
        Option("-q", "--quiet", help="print only the reports, one line each"),
    ),
    tail="COMMAND…",
    examples=(
        ("fairlead verify work -- pytest -q", "run the tests after every turn"),
        ("fairlead verify work --check 'ruff check' --check 'pytest -q' --copy", "two commands, one report"),
        (
            "fairlead verify work --persona reviewer --model openai/gpt-5",
            "a second model reviews",
        ),
        ("fairlead verify --once work -- make test && git push", "in a script"),
    ),
    codes={
        0: "the session ended; with --once: verified",
        1: "can't verify this session (for example, its Pi already has a verifier), or the daemon was\n"
        "stopped; with --once: verification failed",
        2: "usage error; with --once: could not verify, no turn yet, or the turn failed or was aborted",
    },
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    import shlex

    options = parsed(COMMAND, arguments)
    checks = [*options.check, *([shlex.join(options.tail)] if options.tail else [])]
    if len(options.tail) == 1:
        checks[-1] = options.tail[0]
    if not checks and not options.persona:
        raise UsageError("missing a check: a command after --, --check COMMAND or --persona NAME")
    if not all(map(str.strip, checks)):
        raise UsageError("--check needs a command; it is empty")

    import asyncio

    from ..system.settings import Settings
    from ..verify.checks.command import TIME_LIMIT
    from .verifier import Wanted, find_target, watch

    settings = Settings()
    target = find_target(
        settings, options.session, socket=options.socket or "", project=options.project or ""
    )
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
        how = {"once": options.once, "steer": options.steer, "quiet": options.quiet}
        return asyncio.run(watch(settings, target, wanted, options.session, **how))
    except ValueError as error:
        raise Failure(str(error)) from None
