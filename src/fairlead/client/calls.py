"""What the SDK asks of the daemon: a call as its op, its parameters, and what its answer means. Those with
rules of their own are here, the others in `aio`. Does no I/O."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from ..formats.edn import Keyword
from ..system.settings import HOST_VARIABLE
from ..wire.rpc_catalog import OPS

T = TypeVar("T")
Answer = dict[str, Any]
Format = Literal["text", "ansi", "html", "svg"]


_ATOMS = frozenset({str, int, float, bool, type(None)})


@functools.lru_cache(maxsize=1024)
def _underscored(name: str) -> str:
    return name.replace("-", "_")


def plain(value: Any) -> Any:
    """EDN as Python people write it: names as strings with underscores."""
    if type(value) in _ATOMS:  # as most values of a long list are
        return value
    if isinstance(value, Mapping):
        return {
            _underscored(key.name) if isinstance(key, Keyword) else key: plain(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value.name if isinstance(value, Keyword) else value


class RequestError(Exception):
    """The daemon refused a request. `code` is rpc-edn's; `data` is what comes with the message."""

    def __init__(self, code: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Ended(Exception):
    """A session's program ended before what was waited for. `code` is its exit code."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"session {name!r} ended with {code}")
        self.code = code


class Call(NamedTuple, Generic[T]):
    """One request. `result` makes of the answer's data what the caller gets, or raises."""

    op: str
    given: Answer
    result: Callable[[Answer], T]

    @property
    def waits(self) -> bool:
        """True if the daemon is to be told when the caller stops waiting."""
        return OPS[self.op].cancellable

    @property
    def is_repeatable(self) -> bool:
        """True if it may be made again when the daemon went away meanwhile."""
        return OPS[self.op].repeatable or "prompt_id" in self.given

    def params(self, elapsed: float) -> Answer:
        """Return the parameters, some seconds after the call began."""
        given = {name: value for name, value in self.given.items() if value is not None}
        if "timeout" in given:
            given["timeout"] = max(0.0, given["timeout"] - elapsed)
        return given


def nothing(answer: Answer) -> None:
    """The result of a call whose answer says only that it was done."""


# --- terminals --------------------------------------------------------------------------------------------


def start(
    name: str,
    command: Sequence[str],
    cwd: str,
    environment: Mapping[str, str] | None,
    cols: int,
    rows: int,
    host: str = "",
) -> Call[None]:
    if isinstance(command, str):
        raise TypeError(f"command must be a list of words, such as {command.split()!r}, not a string")
    given = {
        "name": name,
        "argv": list(command),
        "cwd": place(cwd, host),
        "cols": cols,
        "rows": rows,
        **given_environment(environment, host),
    }
    return Call("terminal_start", given, nothing)


def place(cwd: str, host: str) -> str:
    """A directory as the daemon gets it: of this host, or of another one, where it is in the home directory.

    >>> place("src/x", "workbox"), place(".", "workbox"), place("/tmp", "workbox")
    ('~/src/x', '~', '/tmp')
    """
    if not host:
        return os.path.abspath(cwd)
    if cwd.startswith(("/", "~")):
        return cwd
    return "~" if cwd in ("", ".") else f"~/{cwd}"


TERMINAL_VARIABLES = ("TERM", "COLORTERM", "LANG")
"""What another host is told of our environment; the rest is that of its own daemon."""


def given_environment(environment: Mapping[str, str] | None, host: str) -> Answer:
    """What a program's environment is asked to be. Nothing of ours goes to another host unasked."""
    if not host:
        found = os.environ if environment is None else environment
        return {"env": {name: value for name, value in found.items() if name != HOST_VARIABLE}}
    if environment is None:
        environment = {name: os.environ[name] for name in TERMINAL_VARIABLES if os.environ.get(name)}
    return {"env": dict(environment), "inherit": True}


def _find(name: str, ability: str) -> Call[str]:
    """The id of the session of a name, an id or the beginning of one, if it can do this."""

    def result(answer: Answer) -> str:
        row = answer["session"]
        if ability not in row["can"]:
            kind = f"{'an' if row['kind'][0] in 'aeiou' else 'a'} {row['kind']} session"
            use = {"chat": "agent", "screen": "terminal"}
            instead = next((use[each] for each in row["can"] if each in use), "session")
            raise RequestError("request/not-found", f"{name!r} is {kind}; use host.{instead}({name!r})")
        return str(row["id"])

    return Call("session_find", {"name": name}, result)


def find_terminal(name: str) -> Call[str]:
    return _find(name, "screen")


def find_agent(id: str) -> Call[str]:
    return _find(id, "chat")


def no_session(name: str) -> RequestError:
    return RequestError("request/not-found", f"no session {name!r}")


def wait_for(name: str, what: str, key: str, timeout: float | None, **given: Any) -> Call[Any]:
    """Wait for one thing; returns what the answer has for a key."""

    def result(answer: Answer) -> Any:
        if answer["reason"] == "timeout":
            raise TimeoutError(f"{what} within {'a day' if timeout is None else f'{timeout:g} s'}")
        if answer["reason"] == "exit" and "exit" not in given:
            raise Ended(name, answer["exit_code"])
        return answer.get(key)

    return Call("terminal_wait", waiting(name, **given) | {"timeout": timeout}, result)


def waiting(name: str, **given: Any) -> Answer:
    """The parameters of a wait. One for a text has an id, so that the next daemon knows where it began."""
    is_for_text = given.get("text") is not None or given.get("regex") is not None
    return {"name": name, **given} | ({"request_id": secrets.token_hex(8)} if is_for_text else {})


# --- agents -----------------------------------------------------------------------------------------------


class OpenedAgent(NamedTuple):
    """A session that was found or made. `cursor` is where its events are by now, if that is known."""

    id: str
    created: bool
    cursor: str | None = None


def open_session(
    name: str | None, cwd: str, continue_last: bool, *, host: str = "", **more: Any
) -> Call[OpenedAgent]:
    def result(answer: Answer) -> OpenedAgent:
        return OpenedAgent(answer["session_id"], answer["created"], answer["cursor"])

    if name and continue_last:
        raise ValueError("name and continue_last can't be combined: a name already selects the session")
    given = {"name": name or None, "continue": continue_last or None, "cwd": place(cwd, host)}
    return Call("open_session", given | more, result)


def answer_dialog(id: str, dialog_id: str, answer: bool | str) -> Call[None]:
    """The answer to an approval: yes, no, or `always`."""
    given = {"session_id": id, "dialog_id": dialog_id}
    if not answer:
        return Call("cancel_dialog", given, nothing)
    return Call("resolve_dialog", given | {"result": answer if answer == "always" else True}, nothing)


class Messages:
    """Messages of a session from one on, in as many answers as they take: the last ones come first."""

    def __init__(self, id: str, first: int = 0) -> None:
        self._id = id
        self._first = first
        self._begins: int | None = None
        self.found: list[Answer] = []

    @property
    def is_whole(self) -> bool:
        return self._begins is not None and self._begins <= self._first

    def next(self) -> Call[None]:
        """What to ask until all are found."""
        limit = None if self._begins is None else self._begins - self._first
        given = {"session_id": self._id, "from": self._first or None, "limit": limit}
        return Call("get_messages", given, self._take)

    def _take(self, answer: Answer) -> None:
        self.found[:0] = answer["messages"]
        self._begins = answer.get("first", self._first)
