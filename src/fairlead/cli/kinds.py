"""For commands that take any session: what to do when there is no terminal session of a name."""

from __future__ import annotations

import contextlib
import sys

from .arguments import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.connection import DaemonConnection, RequestError

NOT_FOUND = "request/not-found"


def other_kind(control: DaemonConnection, name: str, error: RequestError) -> dict[str, Any]:
    """The session of another kind that has this name. Raises the error that was got if there is none."""
    from ..client.connection import RequestError

    if error.code != NOT_FOUND:
        raise error
    try:
        answer = control.ask("session_find", name=name)
    except RequestError as why:
        raise (why if why.code == NOT_FOUND else error) from None
    say_which(name, answer)
    session: dict[str, Any] = answer["session"]
    return session


def note_seen(control: DaemonConnection, op: str = "session_seen", **which: Any) -> None:
    """Note that a person has seen a session or a question, if that was printed on a terminal."""
    from ..client.connection import RequestError

    if sys.stdout.isatty():
        with contextlib.suppress(RequestError):  # an agent, or an older daemon
            control.ask(op, **which)


def say_which(name: str, answer: dict[str, Any]) -> None:
    """Say on standard error which session an answer is about, if several have the name."""
    if others := answer.get("others"):
        id = answer["session"]["id"]
        meant = f"{len(others) + 1} sessions are called {name!r}; this is {id}, the last used"
        print(f"fairlead: {meant}", file=sys.stderr)


def with_screen(control: DaemonConnection, op: str, name: str, **params: Any) -> dict[str, Any]:
    """The answer of an op that only sessions with a screen have."""
    from ..client.connection import RequestError

    try:
        return control.ask(op, name=name, **params)
    except RequestError as error:
        session = other_kind(control, name, error)
        raise unsupported(session, "has no screen", "`fairlead logs {}` prints its messages") from None


def unsupported(session: dict[str, Any], why: str, instead: str) -> Failure:
    """Sessions of this one's kind can't do that: why, and what to use `instead`, with {} for its name."""
    from ..formats.columns import printable

    name = printable(session["name"])
    return Failure(
        f"not supported by {session['kind']} sessions: {name} {why}; {instead.replace('{}', name)}"
    )
