"""`fairlead wait`: until a session shows a text, falls quiet or ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import SESSION, Command, Option, UsageError, parsed, refused, seconds
from .far import hinted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.connection import DaemonConnection, RequestError
    from .arguments import Options

TIMED_OUT = 124  # as timeout(1) has it
NOT_WAITED = 125  # as timeout(1) has it, too
"""It could not be waited for, where 1 would look like the program's own exit code."""

NOT_DONE = 1
MAX_SHOWN = 200
"""How many characters of a question are shown."""
_ENDED = {"failed": "failed", "aborted": "was aborted", "interrupted": "was interrupted"}

COMMAND = Command(
    "wait",
    "Wait until a session shows a text, goes quiet, or ends; with several conditions, until the first of\n"
    "them holds. A text counts if it is on the screen, or was printed since the wait began, even if it has\n"
    "scrolled off since. For an agent session, --idle 0 or --exit wait until its turn ends and nothing is\n"
    "queued; --exit returns 1 unless its last turn is done, and --json has its outcome: done, failed,\n"
    "aborted or interrupted.",
    takes=(SESSION,),
    options=(
        Option("--text", value="TEXT", help="until this text is on the screen or printed"),
        Option("--regex", value="REGEX", help="until this regular expression matches there"),
        Option("--scrollback", help="also look at what had scrolled off the screen before"),
        Option("--idle", value="SECONDS", kind=seconds, help="until nothing has been printed for this long"),
        Option("--exit", help="until the program has ended"),
        Option("--timeout", value="SECONDS", kind=seconds, help="give up after this long"),
        Option("--json", help="print the result as JSON; the exit code is the same"),
    ),
    examples=(
        ("fairlead wait work --text passed --timeout 600", "for at most ten minutes"),
        (
            "fairlead wait agent --regex '^> $' --idle 5",
            "until a prompt appears, or it is quiet for 5 s",
        ),
        ("fairlead wait tests --exit && echo good", "--exit alone returns the program's exit code"),
    ),
    codes={
        0: "a condition holds",
        1: "the program ended first, or there is no such session; with --exit, an agent's turn is not done",
        2: "usage error, or an invalid regular expression",
        124: "timed out; stderr says so, and what the session asks, if it asks something",
        125: "with --exit alone: no such session, or no daemon",
        "program's": "with --exit alone",
    },
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    looks = options.text is not None or options.regex is not None or options.idle is not None
    if not looks and not options.exit:
        raise UsageError("missing a condition: --text, --regex, --idle or --exit")

    from ..client.calls import RequestError

    try:
        answer = _answer(options)
    except (ConnectionError, RequestError) as error:
        if isinstance(error, RequestError):
            refused(error)
        if looks:
            raise
        print(hinted(f"fairlead wait: {error}"), file=sys.stderr)
        return NOT_WAITED
    is_consent = answer.pop("is_consent", False)
    if options.json:
        import json

        print(json.dumps(answer))
    if answer["reason"] == "timeout":
        if not options.json:
            from ..formats.shown import one_line

            asks = f"; it asks: {one_line(answer['waits_for'], MAX_SHOWN)}" if answer.get("waits_for") else ""
            if is_consent:
                asks = "; it waits for your consent: `fairlead approvals`"
            if missed := answer.get("missed"):
                asks = f"; {missed} characters were printed faster than they could be searched"
            print(hinted(f"fairlead wait: timed out after {options.timeout:g} s{asks}"), file=sys.stderr)
        return TIMED_OUT
    if answer["reason"] == "exit":
        code: int = answer["exit_code"]
        if not options.exit and not options.json:
            ended = f"session {options.name!r} ended with {code} first"
            print(f"fairlead wait: {ended}", file=sys.stderr)
        return 0 if options.exit and looks else code if options.exit else 1
    if options.exit and answer.get("outcome", "done") != "done":
        if not options.json:
            print(
                f"fairlead wait: the last turn of {options.name} {_ENDED[answer['outcome']]}", file=sys.stderr
            )
        return NOT_DONE
    return 0


def _answer(options: Options) -> dict[str, Any]:
    """What happened. It asks again when the daemon has restarted, or has waited for as long as it does."""
    import time

    from ..client.calls import Call, RequestError, waiting
    from ..client.connection import DaemonConnection

    began = time.monotonic()
    left = options.timeout
    other = ""
    given = waiting(options.name, text=options.text, regex=options.regex, idle=options.idle)
    given |= {"exit": options.exit or None, "scrollback": options.scrollback or None}
    with DaemonConnection() as control:
        while True:
            try:
                op = "session_wait" if other else "terminal_wait"
                answer: dict[str, Any] = control.call(Call(op, given | {"timeout": left}, dict))
            except RequestError as error:
                if other:
                    raise
                other = _other(control, options, error)
                given = {"session_id": other}
                continue
            if options.timeout is not None:
                left = max(0.0, began + options.timeout - time.monotonic())
            if answer["reason"] != "timeout":
                return answer
            if left == 0.0:
                return answer | _question(control, given)


def _question(control: DaemonConnection, given: dict[str, Any]) -> dict[str, Any]:
    """What the session that was waited for asks, if it asks something."""
    from ..client.connection import RequestError
    from ..ui.needs import WAITS, question_of, rank

    which = {key: given[key] for key in ("session_id", "name") if key in given}
    try:
        found = control.ask("session_find", **which)["session"]
    except RequestError:  # it has ended since
        return {}
    if found["waits_for"]:
        return {"waits_for": found["waits_for"], "is_consent": True}
    return {"waits_for": question_of(found)} if rank(found) == WAITS else {}


def _other(control: DaemonConnection, options: Options, error: RequestError) -> str:
    """The id of the session that is waited for, which is no terminal."""
    from .kinds import other_kind, unsupported

    session = other_kind(control, options.name, error)
    if options.text is not None or options.regex is not None:
        instead = "`fairlead wait {} --idle 0` waits until its turn is over"
        raise unsupported(session, "has no screen", instead)
    id: str = session["id"]
    return id
