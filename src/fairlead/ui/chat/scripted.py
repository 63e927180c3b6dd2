"""One prompt to an agent session for scripts: the answer on standard output, or every event as JSON.

Nobody is there to be asked, so calls that need consent are denied unless all are allowed; others may answer
faster, from another client.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from shutil import get_terminal_size

from ...client.calls import RequestError, answer_dialog
from ...client.connection import DaemonConnection
from ...client.following import Asking
from ...client.sdk import Agent, TurnFailed
from ...events import AgentEvent, ApprovalWanted, Other, Retrying, ToolResult, ToolRunning, Updated
from ...formats.shown import call_title, clean
from ...system.settings import Settings
from ..markdown import Markdown
from ..styled import Paint, marks_of, plain
from .view import marked, result

MAX_INPUT = 4 * 1024 * 1024
"""How many bytes of standard input go into a prompt."""
FAILED, UNANSWERED = 1, 3
"""Exit codes: the turn did not end well; a call needed consent and got none."""


class InputTooLong(Exception):
    """Standard input has more than goes into a prompt."""


def piped() -> str:
    """What was piped into us, or is in a file; nothing from a terminal or from nowhere."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:  # it is closed
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    data = sys.stdin.buffer.read(MAX_INPUT + 1)
    if len(data) > MAX_INPUT:
        raise InputTooLong(
            f"standard input has more than {MAX_INPUT} bytes; put it in a file and name that in the prompt"
        )
    return data.decode("utf-8", "replace").strip("\n")


def answer(agent: Agent, prompt: str, settings: Settings, *, yes: bool, as_json: bool, verbose: bool) -> int:
    """Say something, print the answer when the turn is over, and give the exit code."""
    asking = Asking(yes)
    was_denied = False
    unstartable = ""
    try:
        if as_json:
            _print_json({"type": "session", "id": agent.id, "name": agent.name, "created": agent.created})
        for event in agent.prompt(prompt):
            if as_json:
                if event.topic != "footer/updated":  # it is for those who draw one
                    _print_json(described(event))
            elif verbose:
                _tell(event)
            if said := _aside(event) if not as_json else "":
                print(f"fairlead agent: {clean(said)}", file=sys.stderr, flush=True)
            decided = asking.take(event)
            if isinstance(event, ToolResult) and (event.details.get("unstartable") or not event.is_error):
                unstartable = event.text if event.is_error else ""
            if isinstance(event, ApprovalWanted):
                _settle(agent, settings, event, allowed=decided is True)
                if not decided:
                    was_denied = True
                    summary = marked(event.summary).replace("\n", " ")
                    denied = f"denied: {summary}: nobody could be asked; use --yes"
                    print(f"fairlead agent: {denied}", file=sys.stderr)
    except KeyboardInterrupt:
        with contextlib.suppress(RequestError, ConnectionError):
            agent.abort()
        raise
    try:
        text = asking.answer()
    except TurnFailed as error:
        if asking.is_cut and not as_json:  # as much of it as there is
            _show(asking.text)
        print(f"fairlead agent: {clean(str(error))}", file=sys.stderr)
        return FAILED
    if not as_json:
        _show(text)
    if unstartable:  # whatever the model said of it, nothing was done
        print(f"fairlead agent: a command {clean(unstartable)}", file=sys.stderr)
        return FAILED
    return UNANSWERED if was_denied else 0


def _aside(event: AgentEvent) -> str:
    """What is said of a turn beside its answer, if the event does."""
    if isinstance(event, Retrying):
        return event.line
    is_notice = isinstance(event, Other) and event.topic == "ui/notification"
    return str(event.data.get("message")) if is_notice else ""


def _show(text: str) -> None:
    """Print an answer: for a terminal it is drawn, elsewhere it is as it is."""
    text = text.rstrip("\n")
    if not sys.stdout.isatty():
        print(text, flush=True)
        return
    paint = Paint(not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")
    drawer = Markdown(get_terminal_size().columns, marks_of(sys.stdout), is_plain=not paint.is_on)
    for row in drawer.feed(text) + drawer.end():
        print(paint(row))
    sys.stdout.flush()


def _settle(agent: Agent, settings: Settings, wanted: ApprovalWanted, *, allowed: bool) -> None:
    via = "--yes" if allowed else "nobody could be asked"
    # another client may have been first; the next daemon will ask again
    with contextlib.suppress(RequestError, ConnectionError), DaemonConnection(settings, via=via) as control:
        control.call(answer_dialog(agent.id, wanted.id, allowed))


def _tell(event: AgentEvent) -> None:
    """What tools do, for people who look."""
    match event:
        case ToolRunning(_, name, arguments):
            print(f"● {call_title(name, arguments)}", file=sys.stderr, flush=True)
        case ToolResult():
            for row in result(event, was_previewed=False).rows:
                print(f"  {plain(row)}", file=sys.stderr, flush=True)


def described(event: AgentEvent) -> dict[str, object]:
    """An event as JSON: `type` names it, as its class but with underscores, the rest are its fields."""
    if isinstance(event, Other):
        return {"type": "other", "topic": event.topic, "data": event.data}
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()
    fields = {name: getattr(event, name) for name in event.fields}
    if isinstance(event, Updated):
        fields = event.data
    return {"type": kind, **fields}


def _print_json(value: object) -> None:
    import json

    print(json.dumps(value), flush=True)
