"""`fairlead agent`: talk with an agent session, in a terminal or from a script."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .arguments import Argument, Command, Failure, Option, UsageError, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.sdk import Agent, Host

COMMAND = Command(
    "agent",
    "Talk with an agent session, which goes on when you leave. Without a NAME it is a new one. A word with\n"
    "spaces in it is a PROMPT, and no NAME. What is piped in belongs to the prompt. Without a terminal, or\n"
    "with --print or --json, one prompt is answered; calls that need consent are then denied without --yes.",
    takes=(
        Argument("name", "the session of this name, made if there is none", optional=True),
        Argument("prompt", "what to say first", optional=True, many=True),
    ),
    options=(
        Option("-c", "--continue", help="go on with the last session of the directory"),
        Option("-C", "--cwd", value="DIR", completes="directory", help="where the agent works (here)"),
        Option("--model", value="PROVIDER/ID", help="ask this model from now on"),
        Option(
            "--thinking", value="LEVEL", help="how hard it thinks: off, minimal, low, medium, high, xhigh"
        ),
        Option("-y", "--yes", help="allow every call that needs consent"),
        Option("-p", "--print", help="print only the answer"),
        Option("-v", "--verbose", help="with --print: what tools do, on stderr"),
        Option("--json", help="every event as JSON, one a line"),
        Option("--list-models", help="which models there are"),
    ),
    either=("print", "json"),
    examples=(
        ("fairlead agent", "a new session here"),
        ("fairlead agent garden", "the one that is called garden"),
        ('fairlead agent -c "and now the tests"', "go on, and say this first"),
        ("git diff | fairlead agent -p 'review this'", "in a script"),
    ),
    codes={1: "the turn failed, or was ended by somebody", 3: "a call needed consent, and was denied"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    name, prompt = _said(options.name, options.prompt)
    goes_on = getattr(options, "continue")
    if name and goes_on:
        raise UsageError(f"--continue takes no name; a prompt has spaces in it, and {name!r} has none")
    if options.model is not None and not all(options.model.partition("/")[::2]):
        raise UsageError(f"--model wants PROVIDER/ID, not {options.model!r}")
    if sys.stdout is None:
        raise Failure("standard output is closed; the answer would be lost")
    try:
        cwd = os.path.abspath(options.cwd or ".")
    except FileNotFoundError:
        raise Failure("the working directory was deleted; --cwd names another") from None
    if not os.path.isdir(cwd):
        raise Failure(f"{cwd} is no directory")

    from ..client.chat_print import TooLong, answer, piped
    from ..client.sdk import connect
    from ..settings import Settings

    settings = Settings()
    if options.list_models:
        with connect(settings) as host:
            return _list_models(host, as_json=options.json)
    is_seen = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    talks = is_seen and not options.print and not options.json
    if not talks:
        try:
            prompt = "\n\n".join(part for part in (prompt, piped()) if part)
        except TooLong as error:
            raise Failure(str(error)) from None
        if not prompt:
            raise UsageError("a PROMPT is wanted, or something on standard input")
    with connect(settings) as host:
        agent = host.agent(name, cwd=cwd, continue_last=goes_on)
        _prepare(agent, options.model, options.thinking)
        if talks:
            from ..client.chat import chat

            return chat(host, agent, settings, prompt=prompt, yes=options.yes)
        return answer(agent, prompt, yes=options.yes, as_json=options.json, verbose=options.verbose)


def _said(name: str | None, prompt: list[str]) -> tuple[str | None, str]:
    """The name and the prompt of what was given."""
    if name is not None and (not name or any(char.isspace() for char in name)):
        return None, " ".join((name, *prompt)).strip()
    return name, " ".join(prompt)


def _prepare(agent: Agent, model: str | None, thinking: str | None) -> None:
    if model is not None:
        provider, _, id = model.partition("/")
        agent.set_model(provider, id)
    if thinking is not None:
        agent.set_thinking(thinking)


def _list_models(host: Host, *, as_json: bool) -> int:
    models: list[dict[str, Any]] = host.models()
    if as_json:
        import json

        print(json.dumps(models, indent=2))
        return 0
    rows = [
        (f"{each['provider']}/{each['id']}", _thousands(each["context_window"]), each["name"])
        for each in models
    ]
    widest = max(len(row[0]) for row in rows)
    for id, window, title in rows:
        print(f"{id:<{widest}}  {window:>6}  {title}")
    return 0


def _thousands(tokens: int) -> str:
    return f"{tokens / 1e6:.3g}M" if tokens >= 1_000_000 else f"{tokens // 1000}k"
