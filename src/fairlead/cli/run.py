"""`fairlead run`: one prompt with its checks and corrections, for scripts and CI."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import Argument, Command, Failure, Option, UsageError, count, parsed, seconds
from .placed import ON

COMMAND = Command(
    "run",
    "Send an agent one prompt and verify the result. Failures go back to the agent as corrections, at most\n"
    "[verifier] max_loops times. Prints the agent's messages on stderr and the final report on stdout. A\n"
    "turn that fails or is aborted is not verified.",
    takes=(Argument("prompt", "the prompt", many=True),),
    options=(
        Option("--verify", help="a command that verifies; may be repeated", value="COMMAND", many=True),
        Option(
            "--persona", help="verify with a model as this persona; may be repeated", value="NAME", many=True
        ),
        Option(
            "--with",
            help="use a third-party agent; `fairlead agents` lists them",
            value="AGENT",
            completes="agent",
        ),
        ON,
        Option("--mode", help="with --with: the agent's mode", value="MODE"),
        Option("--sandbox", help="with --with: let the agent write only in the directory"),
        Option("--model", help="the agent's model, as provider/id", value="MODEL", completes="model"),
        Option(
            "--verifier-model", help="the verifier's model, as provider/id", value="MODEL", completes="model"
        ),
        Option("--other-model", help="refuse to verify with the agent's own model"),
        Option("--quorum", help="how many of a panel must agree: all, majority or a number", value="WORD"),
        Option("--copy", help="run the commands in a temporary copy of the project"),
        Option("--timeout", help="time limit for each command", value="SECONDS", kind=seconds),
        Option(
            "--name", help="use the session of this name, created if needed", value="NAME", completes="chat"
        ),
        Option(
            "--queue",
            help="queue it for the hosts of the fleet, and print the job's id; see `fairlead queue`",
        ),
        Option(
            "--project",
            value="DIR",
            completes="directory",
            help="with --queue: the directory on the host that takes it (here, as it is called there)",
        ),
        Option("--tries", value="N", kind=count, help="with --queue: begin it at most so often (3)"),
        Option(
            "--worktree",
            value="BRANCH",
            bare="",
            help="with --name or --queue: in a git worktree of its own, on a branch called like it or BRANCH",
        ),
        Option(
            "--tied", help="end the turn when standard input is closed, or this process ends; for programs"
        ),
        Option("--yes", help="allow every tool call; otherwise calls that need consent are denied"),
        Option("--json", help="print the final report as JSON"),
        Option("-q", "--quiet", help="don't print the agent's messages"),
    ),
    examples=(
        ("fairlead run --yes --verify 'pytest -q' 'make the tests pass'", "in CI"),
        ("fairlead run --with claude --yes --verify 'pytest -q' 'fix the bug'", "with Claude Code"),
        (
            "fairlead run --queue --on label=gpu --yes --verify 'make test' 'mend the tests'",
            "on a host of the fleet that is free",
        ),
        ("fairlead run --verify 'make test' --persona reviewer 'add --version'", "tests and a reviewer"),
    ),
    codes={
        0: "verified",
        1: "failed after all corrections, or the turn failed, was aborted, or could not start",
        2: "usage error, or could not verify",
        3: "verified, but calls were denied because nobody could be asked",
        75: "with --tied: the daemon went away in the middle",
    },
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if not options.verify and not options.persona:
        raise UsageError("missing --verify COMMAND or --persona NAME")
    if not all(map(str.strip, options.verify)):
        raise UsageError("--verify needs a command; it is empty")

    if options.queue:
        from .queueing import queue

        return queue(options)
    if options.project is not None or options.tries is not None:
        raise UsageError("--project and --tries are for --queue")
    if options.worktree is not None and not options.name:
        raise UsageError("--worktree needs --name NAME, which the branch gets")

    import asyncio

    from ..system.settings import Settings
    from ..verify.checks.command import TIME_LIMIT
    from .running import RunJob, run
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
    job = RunJob(
        prompt=" ".join(options.prompt),
        name=options.name,
        model=options.model or "",
        allows_all=options.yes,
        as_json=options.json,
        is_quiet=options.quiet,
        agent=getattr(options, "with"),
        mode=options.mode,
        sandbox=options.sandbox or None,
        is_tied=options.tied,
        worktree=(options.worktree or options.name) if options.worktree is not None else "",
    )
    try:
        return asyncio.run(run(Settings(), job, wanted))
    except ValueError as error:
        raise Failure(str(error)) from None
