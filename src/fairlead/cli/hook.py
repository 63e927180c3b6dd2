"""`fairlead hook`: what agents in terminal sessions call when a turn begins or ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .arguments import Argument, Command, Option, UsageError, parsed

AGENTS = ("claude", "codex", "other")
MAX_INPUT = 4 * 1024 * 1024
"""How many bytes of a hook's JSON are read."""
DAEMON_WAIT = 2.0
"""Seconds that a daemon which was killed has to come back, while the agent waits,"""
VERDICT_DAEMON_WAIT = 15.0
"""and while it waits for a verdict."""
STOP_WAIT = 540.0
"""Seconds that the agent's stop waits for what verifiers say; below `STOP_TIMEOUT`."""
STOP_TIMEOUT = 600
"""Seconds after which the agent itself gives the hook up, as `--install` sets it,"""
START_TIMEOUT = 10
"""and when a turn begins."""
PARENT_LOOK = 0.5
"""Seconds between looks whether the agent has given the hook up while it waits."""
EVENTS = {"UserPromptSubmit": "start", "Stop": "stop", "StopFailure": "error", "agent-turn-complete": "stop"}
"""What the agents call the events that matter here."""

COMMAND = Command(
    "hook",
    "Report that an agent in a terminal session begins or ends a turn, so that the turn can be verified.\n"
    "Agents call this from their hooks, with the hook's JSON on standard input or, like Codex's `notify`,\n"
    "as the last argument. When a turn ends and the session has a verifier, it waits for the verdict; if\n"
    "the turn failed, it returns the correction so that the agent continues. Outside a Fairlead session it\n"
    "does nothing. Called by an agent, it always exits with 0, so a failure never blocks the agent.",
    takes=(
        Argument("agent", "the agent that calls the hook", choices=AGENTS, optional=True),
        Argument("json", "the hook's JSON, if not on standard input", optional=True),
    ),
    options=(
        Option(
            "--install",
            help="add the hooks to this agent's settings",
            value="AGENT",
            completes=" ".join(AGENTS),
        ),
        Option(
            "--uninstall",
            help="remove the hooks from this agent's settings",
            value="AGENT",
            completes=" ".join(AGENTS),
        ),
        Option("--print", help="with --install: only print what would be added"),
        Option("-v", "--verbose", help="print on stderr what was done, or why nothing was"),
    ),
    examples=(
        ("fairlead hook --install claude --print", "what to add to Claude Code's settings"),
        ("fairlead hook --install codex", "add it to Codex's configuration"),
        ("fairlead hook --uninstall claude", "remove it; other hooks stay"),
        ('echo \'{"hook_event_name": "Stop"}\' | fairlead hook other', "from an agent of your own"),
    ),
    codes={1: "the agent's settings can't be read or written (--install, --uninstall)"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if options.install or options.uninstall:
        from . import hook_settings

        if options.uninstall:
            return hook_settings.uninstall(options.uninstall)
        return hook_settings.install(options.install, only_print=options.print)
    if options.agent is None:
        raise UsageError("missing AGENT; usage: fairlead hook AGENT")
    try:
        why, correction = _tell(options.agent, options.json)
        if correction:
            _send_back(correction)
    except Exception as error:  # the agent must go on whatever is wrong here
        why = f"{type(error).__name__}: {error}"
    if options.verbose:
        print(f"fairlead hook: {why or 'reported'}", file=sys.stderr)
    return 0


def _send_back(correction: str) -> None:
    """Answer the agent's stop hook so that it goes on."""
    import json

    print(json.dumps({"decision": "block", "reason": correction}), flush=True)


def _tell(agent: str, given: str | None) -> tuple[str, str]:
    """Tell the daemon. Returns why nothing was told, if nothing was, and the correction that is due."""
    import json
    import os

    session = os.environ.get("FAIRLEAD_SESSION")
    if not session:
        return "not in a Fairlead session", ""
    text = given if given is not None else sys.stdin.read(MAX_INPUT)
    said = json.loads(text)
    if not isinstance(said, dict):
        return "the hook's JSON is not an object", ""
    name = said.get("hook_event_name") or said.get("type")
    event = EVENTS.get(str(name))
    if event is None:
        return f"{name} events are ignored; handled are {', '.join(EVENTS)}", ""
    if said.get("agent_id"):
        return "sub-agents' events are ignored", ""
    answer = _ask(
        is_waiting=name == "Stop",
        name=session,
        event=event,
        agent=agent,
        prompt=_prompt(said),
        path=_text(said, "transcript_path"),
        session_id=_text(said, "session_id") or _text(said, "thread-id"),
        owner=os.getpid(),
    )
    return ("" if answer["accepted"] else str(answer["reason"])), answer.get("correction") or ""


def _ask(*, is_waiting: bool, **turn: Any) -> dict[str, Any]:
    """Tell the daemon, or the next one if it is killed; wait for the verdict where that can be answered."""
    import time
    import uuid

    from ..client.connection import DaemonConnection

    began = time.monotonic()
    tries_until = began + DAEMON_WAIT
    if is_waiting:
        _end_with_parent()
        turn["request_id"] = uuid.uuid4().hex
    while True:
        try:
            with DaemonConnection(start=False) as control:
                if is_waiting:
                    turn["timeout"] = max(1.0, began + STOP_WAIT - time.monotonic())
                tries_until = time.monotonic() + (VERDICT_DAEMON_WAIT if is_waiting else DAEMON_WAIT)
                return control.ask("terminal_turn", **turn)
        except ConnectionError:
            if time.monotonic() > tries_until:
                raise
        time.sleep(0.1)


def _end_with_parent() -> None:
    """End when the agent has given up the shell that runs this: nobody reads the answer then."""
    import os
    import threading
    import time

    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_LOOK)
        os._exit(0)

    threading.Thread(target=look, daemon=True).start()


def _text(said: dict[str, Any], key: str) -> str | None:
    value = said.get(key)
    return value if isinstance(value, str) and value else None


def _prompt(said: dict[str, Any]) -> str | None:
    asked = said.get("input-messages")
    if isinstance(asked, list) and asked:
        return str(asked[-1])
    return _text(said, "prompt") or _text(said, "error")
