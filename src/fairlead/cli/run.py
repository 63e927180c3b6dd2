"""`fairlead run`: one prompt with its checks and corrections, for scripts and CI."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Argument, Command, Failure, Option, UsageError, parsed, seconds

COMMAND = Command(
    "run",
    "Ask an agent for something and have it checked: what fails goes back to the agent, at most as often as\n"
    "[verifier] max_loops says. Prints what the agent says on stderr, and the report on stdout. A turn that\n"
    "fails or is stopped is not checked.",
    takes=(Argument("prompt", "what to do", many=True),),
    options=(
        Option("--verify", help="a command that checks; may be repeated", value="COMMAND", many=True),
        Option("--persona", help="let a model judge as this one; may be repeated", value="NAME", many=True),
        Option("--with", help="the agent of another maker that builds; see `fairlead agents`", value="AGENT"),
        Option("--mode", help="with --with: the mode that it builds in", value="MODE"),
        Option("--sandbox", help="with --with: it can write nowhere but in the directory"),
        Option("--model", help="the model that builds, as provider/id", value="MODEL"),
        Option("--verifier-model", help="the model that judges, as provider/id", value="MODEL"),
        Option("--other-model", help="refuse to judge with the model that built"),
        Option("--quorum", help="how many of a panel must agree: all, majority or a number", value="WORD"),
        Option("--copy", help="run the checks in a copy of the project that is thrown away"),
        Option("--timeout", help="seconds that one check may take", value="SECONDS", kind=seconds),
        Option("--name", help="go on with the session of this name, or begin it", value="NAME"),
        Option("--yes", help="allow every tool call; otherwise those that need consent are denied"),
        Option("--json", help="print the last report as JSON"),
        Option("-q", "--quiet", help="don't print what the agent says"),
    ),
    examples=(
        ("fairlead run --yes --verify 'pytest -q' 'make the tests pass'", "in CI"),
        ("fairlead run --with claude --yes --verify 'pytest -q' 'fix the bug'", "with Claude Code"),
        ("fairlead run --verify 'make test' --persona reviewer 'add --version'", "tests and a reviewer"),
    ),
    codes={
        0: "verified",
        1: "failed after all corrections, or the turn failed, was stopped, or could not begin",
        2: "wrong usage, or could not verify",
        3: "verified, but calls were denied, as nobody was there to ask",
    },
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if not options.verify and not options.persona:
        raise UsageError("missing a check: give --verify COMMAND or --persona NAME")
    if not all(map(str.strip, options.verify)):
        raise UsageError("--verify needs a command, not an empty text")

    import asyncio

    from ..system.settings import Settings
    from ..verify.checks.command import TIME_LIMIT
    from .running import Job, run
    from .verifier import Wanted

    wanted = Wanted(
        commands=tuple(options.verify),
        personas=tuple(options.persona),
        model=options.verifier_model or "",
        other_model=options.other_model,
        quorum=options.quorum or "all",
        in_copy=options.copy,
        time_limit=options.timeout or TIME_LIMIT,
    )
    job = Job(
        prompt=" ".join(options.prompt),
        name=options.name,
        model=options.model or "",
        allows_all=options.yes,
        as_json=options.json,
        is_quiet=options.quiet,
        agent=getattr(options, "with"),
        mode=options.mode,
        sandbox=options.sandbox or None,
    )
    try:
        return asyncio.run(run(Settings(), job, wanted))
    except ValueError as error:
        raise Failure(str(error)) from None
