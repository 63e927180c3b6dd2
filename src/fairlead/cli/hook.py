"""`fairlead hook`: what agents in terminal sessions call when a turn begins or ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .arguments import Argument, Command, Failure, Option, UsageError, parsed

AGENTS = ("claude", "codex", "other")
MAX_INPUT = 4 * 1024 * 1024
"""How many bytes of a hook's JSON are read."""
DAEMON_WAIT = 2.0
"""Seconds that a daemon which was killed has to come back, while the agent waits."""
EVENTS = {"UserPromptSubmit": "start", "Stop": "stop", "StopFailure": "error", "agent-turn-complete": "stop"}
"""What the agents call the events that matter here."""

COMMAND = Command(
    "hook",
    "Tell that an agent in a terminal session begins or ends a turn, so that it can be verified. Agents\n"
    "call this from their hooks, with the hook's JSON on standard input, or as the last word, as Codex's\n"
    "`notify` does. Outside of a Fairlead session it does nothing. It never fails the agent.",
    takes=(
        Argument("agent", "whose hook it is", choices=AGENTS, optional=True),
        Argument("json", "the hook's JSON, if not on standard input", optional=True),
    ),
    options=(
        Option("--install", help="add the hooks to this agent's settings", value="AGENT"),
        Option("--print", help="with --install: only print what would be added"),
        Option("-v", "--verbose", help="say on stderr what was done, or why nothing was"),
    ),
    examples=(
        ("fairlead hook --install claude --print", "what to add to Claude Code's settings"),
        ("fairlead hook --install codex", "add it to Codex's configuration"),
        ('echo \'{"hook_event_name": "Stop"}\' | fairlead hook other', "from an agent of your own"),
    ),
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if options.install:
        return _install(options.install, only_print=options.print)
    if options.agent is None:
        raise UsageError("AGENT is missing; usage: fairlead hook AGENT")
    try:
        why = _tell(options.agent, options.json)
    except Exception as error:  # the agent must go on whatever is wrong here
        why = f"{type(error).__name__}: {error}"
    if options.verbose:
        print(f"fairlead hook: {why or 'told'}", file=sys.stderr)
    return 0


def _tell(agent: str, given: str | None) -> str:
    """Tell the daemon; gives why nothing was told, if nothing was."""
    import json
    import os

    session = os.environ.get("FAIRLEAD_SESSION")
    if not session:
        return "not in a Fairlead session"
    text = given if given is not None else sys.stdin.read(MAX_INPUT)
    said = json.loads(text)
    if not isinstance(said, dict):
        return "the hook's JSON is not an object"
    name = said.get("hook_event_name") or said.get("type")
    event = EVENTS.get(str(name))
    if event is None:
        return f"{name} is no event that matters; these do: {', '.join(EVENTS)}"

    _ask(
        name=session,
        event=event,
        agent=agent,
        prompt=_prompt(said),
        path=_text(said, "transcript_path"),
    )
    return ""


def _ask(**turn: str | None) -> None:
    """Tell the daemon, or the next one if it was killed just now."""
    import time

    from ..client.control import Control

    deadline = time.monotonic() + DAEMON_WAIT
    while True:
        try:
            with Control(start=False) as control:
                control.ask("terminal_turn", **turn)
            return
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _text(said: dict[str, Any], key: str) -> str | None:
    value = said.get(key)
    return value if isinstance(value, str) and value else None


def _prompt(said: dict[str, Any]) -> str | None:
    asked = said.get("input-messages")
    if isinstance(asked, list) and asked:
        return str(asked[-1])
    return _text(said, "prompt") or _text(said, "error")


# --- installing -------------------------------------------------------------------------------------------


def _install(agent: str, *, only_print: bool) -> int:
    import os

    match agent:
        case "claude":
            place = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
            path, shown, merged = f"{place}/settings.json", _claude_snippet(), _with_claude
        case "codex":
            place = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
            path, shown, merged = f"{place}/config.toml", _codex_snippet(), _with_codex
        case _:
            raise UsageError(f"--install knows claude and codex, not {agent!r}")
    path = os.path.realpath(path)  # the file may be a link into a repository of settings
    if only_print:
        print(f"# {path}\n{shown}" if agent == "codex" else shown, end="")
        return 0
    try:
        before = open(path, encoding="utf-8").read() if os.path.exists(path) else ""  # noqa: SIM115
        after = merged(before)
        if after == before:
            print(f"{path} has them already")
            return 0
        os.makedirs(place, mode=0o700, exist_ok=True)
        if before:
            _write(f"{path}.before-fairlead", before)
        _write(path, after)
    except (OSError, ValueError) as error:
        raise Failure(f"{path} can't be changed: {error}") from None
    print(f"added to {path}" + (f"; the file as it was is {path}.before-fairlead" if before else ""))
    return 0


def _write(path: str, text: str) -> None:
    """Write a file as a whole, or not at all."""
    import os

    partial = f"{path}.new"
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        if os.path.exists(path):
            os.fchmod(file.fileno(), os.stat(path).st_mode & 0o777)
    os.replace(partial, path)


def _claude_hooks() -> dict[str, Any]:
    hook = {"type": "command", "command": "fairlead hook claude", "timeout": 10}
    return {event: [{"hooks": [hook]}] for event in ("UserPromptSubmit", "Stop")}


def _claude_snippet() -> str:
    import json

    return json.dumps({"hooks": _claude_hooks()}, indent=2) + "\n"


def _with_claude(settings: str) -> str:
    import json

    found = json.loads(settings) if settings.strip() else {}
    if not isinstance(found, dict) or not isinstance(found.get("hooks", {}), dict):
        raise ValueError("it is not an object with an object of hooks")
    hooks = found.setdefault("hooks", {})
    changed = False
    for event, added in _claude_hooks().items():
        if not isinstance(hooks.get(event, []), list):
            raise ValueError(f"its hooks of {event} are not a list")
        if "fairlead hook" not in json.dumps(hooks.get(event, [])):
            hooks[event] = [*hooks.get(event, []), *added]
            changed = True
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n" if changed else settings


def _codex_snippet() -> str:
    blocks = [
        f'[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = "command"\ncommand = "fairlead hook codex"\n'
        for event in ("UserPromptSubmit", "Stop")
    ]
    return "\n".join(blocks)


def _with_codex(settings: str) -> str:
    if "fairlead hook" in settings:
        return settings
    import tomllib

    after = f"{settings.rstrip()}\n\n{_codex_snippet()}".lstrip()
    tomllib.loads(after)  # never write what can't be read again
    return after
