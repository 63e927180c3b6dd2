"""For commands that take any session: what to do when there is no terminal session of a name."""

from __future__ import annotations

from .arguments import Failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.control import Control, RequestError

NOT_FOUND = "request/not-found"


def other_kind(control: Control, name: str, error: RequestError) -> dict[str, Any]:
    """The session of another kind that has this name. Raises the error that was got if there is none."""
    from ..client.control import RequestError

    if error.code != NOT_FOUND:
        raise error
    try:
        session: dict[str, Any] = control.ask("session_find", name=name)["session"]
    except RequestError as why:
        raise (why if why.code == NOT_FOUND else error) from None
    return session


def with_screen(control: Control, op: str, name: str, **params: Any) -> dict[str, Any]:
    """The answer of an op that only sessions with a screen have."""
    from ..client.control import RequestError

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
