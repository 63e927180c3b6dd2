"""`fairlead hook`: what agents in terminal sessions call when a turn begins or ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from .arguments import Argument, Command, Option, UsageError, parsed
from .given_text import given_text

AGENTS = ("claude", "codex", "gemini", "opencode", "other")
INSTALLABLE = AGENTS[:-1]
"""Those whose settings are known."""
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
"""and when nothing is waited for,"""
PERMISSION_TIMEOUT = 86_400
"""and when it asks for a permission: longer than `[hooks] permission_seconds`."""
WAITING = ("Stop", "AfterAgent")
"""The events at which an agent can be answered with a correction,"""
PASSING = ("tool", "tool-ended")
"""and those that don't matter enough to wait for a daemon."""
PARENT_LOOK = 0.5
"""Seconds between looks whether the agent has given the hook up while it waits."""
COMMAND = Command(
    "hook",
    "Report what an agent in a terminal session does: turns, tool calls, permissions it asks for.\n"
    "Agents call this from their hooks, with the hook's JSON on standard input or, like Codex's `notify`,\n"
    "as the last argument. A permission becomes a question that can be answered from anywhere, while the\n"
    "agent's own dialog stays open. When a turn ends and the session has a verifier, it waits for the\n"
    "verdict; if the turn failed, it returns the correction so that the agent continues. Outside a Fairlead\n"
    "session it does nothing. Called by an agent, it always exits with 0, so a failure never blocks it.",
    takes=(
        Argument("agent", "the agent that calls the hook", choices=AGENTS, optional=True),
        Argument("json", "the hook's JSON, if not on standard input", optional=True),
    ),
    options=(
        Option(
            "--install",
            help="add the hooks to this agent's settings",
            value="AGENT",
            completes=" ".join(INSTALLABLE),
        ),
        Option(
            "--uninstall",
            help="remove the hooks from this agent's settings",
            value="AGENT",
            completes=" ".join(INSTALLABLE),
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
    far="here: agents report to the daemon that runs them",
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
        why, answer = _tell(options.agent, options.json)
        if answer is not None:
            import json

            print(json.dumps(answer), flush=True)
    except Exception as error:  # the agent must go on whatever is wrong here
        why = f"{type(error).__name__}: {error}"
    if options.verbose:
        print(f"fairlead hook: {why or 'reported'}", file=sys.stderr)
    return 0


def _tell(agent: str, given: str | None) -> tuple[str, dict[str, Any] | None]:
    """Tell the daemon. Returns why nothing was told, if nothing was, and what the agent is answered."""
    import json
    import os
    import uuid

    session = os.environ.get("FAIRLEAD_SESSION")
    if not session:
        return "not in a Fairlead session", None
    said = json.loads(given_text("-", MAX_INPUT) if given is None else given)
    if not isinstance(said, dict):
        return "the hook's JSON is not an object", None
    from .hook_events import EVENTS, decision, hook_call, permission

    call = hook_call(agent, said)
    if not call.event:
        return f"{call.name} events are ignored; handled are {', '.join(EVENTS[agent])}", None
    if call.subagent and call.event in ("start", "stop", "error"):
        return "the turns of sub-agents are ignored", None
    if call.event == "permission":
        wanted = permission(agent, said, call)
        wanted |= {"session_id": call.conversation} if call.conversation else {}
        wanted |= {"request_id": uuid.uuid4().hex, "owner": os.getpid()}
        answer = _ask("terminal_permission", name=session, **wanted)
        option = answer.get("option")
        reply = decision(agent, said, option, answer.get("by") or "") if option else None
        return str(answer.get("reason") or ""), reply
    turn: dict[str, Any] = {"prompt": call.words, "path": call.path, "session_id": call.conversation}
    turn |= {"call_id": call.call, "subagent": call.subagent}
    turn = {name: value for name, value in turn.items() if value}
    if call.name in WAITING:
        turn["request_id"] = uuid.uuid4().hex
    answer = _ask("terminal_turn", name=session, event=call.event, agent=agent, owner=os.getpid(), **turn)
    correction = answer.get("correction")
    reply = {"decision": "block", "reason": correction} if correction else None
    return ("" if answer["accepted"] else str(answer["reason"])), reply


def _ask(op: str, **given: Any) -> dict[str, Any]:
    """Ask the daemon, or the next one if it is killed; where a person or a verdict is waited for, as the same
    request."""
    import time

    from ..client.connection import DaemonConnection
    from ..system.settings import Settings

    began = time.monotonic()
    is_waiting = "request_id" in given
    patience = VERDICT_DAEMON_WAIT if is_waiting else DAEMON_WAIT
    tries_until = began + (DAEMON_WAIT if given.get("event") not in PASSING else 0.0)
    if is_waiting:
        _end_with_parent()
    while True:
        is_asked = False
        try:
            with DaemonConnection(Settings(host=""), start=False) as control:
                is_asked = True
                if is_waiting and op == "terminal_turn":
                    given["timeout"] = max(1.0, began + STOP_WAIT - time.monotonic())
                return control.ask(op, **given)
        except ConnectionError:
            if is_asked:  # it went away meanwhile, which may be long after it was asked
                tries_until = time.monotonic() + patience
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
