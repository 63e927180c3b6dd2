"""`fairlead next`: attach to the session that needs a person most."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import Command, Failure, Option, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = Command(
    "next",
    "Attach to the session that has waited longest for an answer: to a program's terminal, or to an agent's\n"
    "chat with the question. If none waits, attach to one whose verifier calls for a person, or else to the\n"
    "one whose turn ended first of those that nobody has looked at. It is the first one that `ls` lists.",
    options=(
        Option("--print", help="only print its name"),
        Option("-a", "--all", help="also of the sessions of other hosts"),
    ),
    examples=(
        ("fairlead next", "answer the first one; detach with ctrl-\\ and repeat"),
        ('fairlead logs "$(fairlead next --print)"', "see what it says"),
    ),
    codes={1: "no session needs you"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    from ..client.connection import DaemonConnection

    with DaemonConnection() as control:
        answer = control.ask("session_list", brief=True, hosts=options.all or None)
    session = _first(answer["sessions"])
    if session is None:
        raise Failure(_nobody(answer, of_all=options.all))
    from ..system import settings
    from ..ui.needs import host_of, own_id

    host = host_of(session)
    if options.print:
        print(f"{host}:{session['name']}" if host else session["name"])
        return 0
    print(f"fairlead next: {_why(session)}", file=sys.stderr, flush=True)
    from .attach import main as attach

    if host:
        settings.chosen_host = host
    return attach([own_id(session)])


def _first(sessions: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The session that needs a person most, but for that in whose terminal we are."""
    import os

    from ..ui.needs import DONE, activity_of, by_need, host_of, is_done_with, is_inner, own_id, rank

    here = os.environ.get("FAIRLEAD_SESSION", "")
    others = [each for each in sessions if not here or host_of(each) or own_id(each) != here]
    found = [each for each in others if rank(each) <= DONE and not is_done_with(each) and not is_inner(each)]
    unseen = [each for each in found if not activity_of(each)["seen"]]  # so that one that stays is passed by
    return by_need(unseen or found)[0] if found else None


def _why(session: dict[str, Any]) -> str:
    import time

    from ..ui.needs import DONE, WAITS, activity_of, host_of, question_of, rank, shown_name, span

    host, needs, since = host_of(session), rank(session), activity_of(session)["since"]
    name = f"{host}:{shown_name(session)}" if host else shown_name(session)
    age = span(max(0.0, time.time() - since)) if since else ""
    if needs == WAITS:
        return f"{name} has waited {f'{age} ' if age else ''}for: {question_of(session)}"
    if needs == DONE:
        return (
            f"no session waits; {name} is done{f' since {age}' if age else ''}, and nobody has looked at it"
        )
    return f"{name} needs a person: {question_of(session)}"


def _nobody(answer: dict[str, Any], *, of_all: bool) -> str:
    far = sum(each["questions"] for each in answer.get("hosts") or () if each["state"] == "here")
    if (questions := answer["questions"] + far) == 0:
        return "no session needs you"
    pending = "1 approval is" if questions == 1 else f"{questions} approvals are"
    return f"no session needs you; {pending} pending: `fairlead approvals{' --all' if of_all else ''}`"
