"""`fairlead prompt`: prompt an agent of any kind, and see what comes of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, SESSION, Argument, Command, Option, UsageError, parsed, seconds
from .given_text import given_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TIMED_OUT = 124  # as timeout(1) has it
LONGEST = 24 * 3600.0
"""Seconds that the daemon waits for a prompt."""
GRACE = 10.0
"""Seconds that the daemon has, after a prompt's time, to say what came of it."""

COMMAND = Command(
    "prompt",
    "Prompt an agent: our own, a third-party one, or one in a terminal. Returns when the agent has taken\n"
    "the prompt, or when it is queued because the agent works. In a terminal it is pasted and submitted\n"
    "only if the agent shows its empty input; a dialog, a menu or a draft there is an error that says what\n"
    "is in the way, and with --wait or --timeout it waits until the way is free. A shell takes a command at\n"
    "its prompt. The prompt is said once, even if the daemon is killed meanwhile.",
    takes=(SESSION, Argument("text", "the prompt; - reads it from standard input")),
    options=(
        Option("-w", "--wait", help="until the turn has ended; prints the agent's answer, where it is known"),
        Option("--timeout", value="SECONDS", kind=seconds, help="give up after this long"),
        JSON,
    ),
    examples=(
        ("fairlead prompt work 'now the tests'", "returns when the agent has taken it"),
        ("git diff | fairlead prompt work - --wait", "wait until the turn has ended"),
        ("fairlead prompt work next --timeout 60 --json", "the receipt: how far it got, and when"),
    ),
    codes={
        0: "accepted or queued; with --wait, the turn is done",
        1: "refused or dropped, with the reason; or with --wait, the turn failed or was aborted",
        124: "timed out; the agent may still get to it",
    },
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    text = given_text(options.text)
    if not text.strip():
        raise UsageError("missing TEXT: the prompt is empty")

    import secrets
    import time

    from ..client.calls import Call
    from ..client.connection import DaemonConnection

    began = time.monotonic()
    patience = options.timeout if options.timeout is not None else LONGEST if options.wait else None
    asked = {"name": options.name, "text": text, "prompt_id": secrets.token_hex(16), "timeout": patience}
    with DaemonConnection() as control:
        answer: dict[str, Any] = control.call(Call("session_prompt", asked, dict))
        given = {"session_id": answer["session"]["id"], "prompt_id": answer["prompt_id"]}
        is_queued = bool(answer.get("queued")) and patience is None
        given |= {"stage": "ended" if options.wait else "accepted"}
        left = LONGEST if options.timeout is None else max(0.0, began + options.timeout - time.monotonic())
        limit = 0.0 if is_queued else left if options.wait else left + GRACE
        receipt: dict[str, Any] = control.call(Call("prompt_receipt", given | {"timeout": limit}, dict))
    if options.json:
        import json

        about = {"name": answer["session"]["name"], "prompt_id": answer["prompt_id"]}
        print(json.dumps(about | receipt))
    elif options.wait and receipt.get("text"):
        print(receipt["text"])
    code = _code(receipt, options.wait, is_queued)
    if not options.json:
        print(_said(answer["session"]["name"], receipt, code), file=sys.stderr)
    return code


def _code(receipt: dict[str, Any], is_wait: bool, is_queued: bool) -> int:
    if receipt["state"] == "ended":
        is_good = receipt["outcome"] == "done" or (not is_wait and "accepted" in receipt)
        return 0 if is_good else 1
    if is_wait:
        return TIMED_OUT
    return 0 if is_queued or "accepted" in receipt else TIMED_OUT


def _said(name: str, receipt: dict[str, Any], code: int) -> str:
    """What a person is told of a receipt, in a line."""
    from ..formats.columns import printable
    from ..formats.shown import counted

    state: str = receipt["state"]
    if state == "ended" and (code or "accepted" not in receipt):
        outcome = receipt["outcome"]
        said = "not delivered" if outcome == "dropped" else outcome
        reason = f": {printable(receipt['reason'])}" if receipt.get("reason") else ""
        return f"fairlead prompt: {printable(name)}: {said}{reason}"
    if state == "queued":
        place = receipt.get("place", 1)
        before = f" ({counted(place - 1, 'prompt')} before it)" if place > 1 else ""
        said = f"queued: {printable(name)} is busy{before}"
    elif state == "ended":
        said = f"{receipt['outcome']} after {receipt['ended'] - receipt['accepted']:.1f} s"
    else:
        said = state
    return f"fairlead prompt: timed out; {said}" if code == TIMED_OUT else said
