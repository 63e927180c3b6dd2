"""What the SDK asks of the daemon: each call as its op, its parameters, and what its answer means.

Both SDKs send these and give `result` the answer, so that a call means the same in both. Does no I/O.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from ..formats.edn import Keyword
from ..formats.frozen import Frozen
from ..formats.guess import meant

T = TypeVar("T")
Answer = dict[str, Any]
Format = Literal["text", "ansi", "html", "svg"]


def plain(value: Any) -> Any:
    """EDN as Python people write it: names as strings with underscores."""
    if isinstance(value, Mapping):
        return {
            key.name.replace("-", "_") if isinstance(key, Keyword) else key: plain(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value.name if isinstance(value, Keyword) else value


class RequestError(Exception):
    """The daemon refused a request. `code` is rpc-edn's; `data` is what it tells beside the message."""

    def __init__(self, code: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Ended(Exception):
    """A session's program ended before what was waited for. `code` is its exit code."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"session {name!r} ended with {code}")
        self.code = code


class Call(Frozen, Generic[T]):
    """One request. `result` makes of the answer's data what the caller gets, or raises."""

    __slots__ = fields = ("op", "given", "result", "looks")
    op: str
    given: Answer
    result: Callable[[Answer], T]
    looks: bool
    """It changes nothing, so it may be made again when the daemon went away in the middle of it."""

    def __init__(self, op: str, given: Answer, result: Callable[[Answer], T], looks: bool = False) -> None:
        self._fill(op, given, result, looks)

    @property
    def waits(self) -> bool:
        """The daemon is to be told when nobody waits for the answer any more."""
        return self.op == "terminal_wait"

    def params(self, elapsed: float) -> Answer:
        """The parameters, some seconds after the call began."""
        given = {name: value for name, value in self.given.items() if value is not None}
        if "timeout" in given:
            given["timeout"] = max(0.0, given["timeout"] - elapsed)
        return given


def _nothing(answer: Answer) -> None:
    pass


def start(
    name: str,
    command: Sequence[str],
    cwd: str,
    environment: Mapping[str, str] | None,
    cols: int,
    rows: int,
) -> Call[None]:
    given = {
        "name": name,
        "argv": list(command),
        "cwd": os.path.abspath(cwd),
        "env": dict(os.environ if environment is None else environment),
        "cols": cols,
        "rows": rows,
    }
    return Call("terminal_start", given, _nothing)


def terminals() -> Call[list[Answer]]:
    def result(answer: Answer) -> list[Answer]:
        rows: list[Answer] = answer["sessions"]
        return rows

    return Call("terminal_list", {}, result, looks=True)


def status() -> Call[Answer]:
    return Call("daemon_status", {}, dict, looks=True)


def find(name: str) -> Call[None]:
    def result(answer: Answer) -> None:
        names = [row["name"] for row in answer["sessions"]]
        if name not in names:
            raise no_session(name, names)

    return Call("terminal_list", {"brief": True}, result, looks=True)


def no_session(name: str, names: Sequence[str] = ()) -> RequestError:
    return RequestError("request/not-found", f"no session {name!r}{meant(name, names)}")


def send(name: str, text: str, keys: Sequence[str]) -> Call[None]:
    given = {"name": name, "text": text or None, "keys": list(keys) or None}
    return Call("terminal_send", given, _nothing)


def paste(name: str, text: str) -> Call[None]:
    return Call("terminal_send", {"name": name, "paste": text}, _nothing)


def screen(name: str, form: Format, scrollback: bool) -> Call[str]:
    def result(answer: Answer) -> str:
        shown: str = answer["screen"]
        return shown

    given = {"name": name, "format": form, "scrollback": scrollback}
    return Call("terminal_screen", given, result, looks=True)


def cells(name: str) -> Call[Answer]:
    def result(answer: Answer) -> Answer:
        shown: Answer = answer["screen"]
        return shown

    return Call("terminal_screen", {"name": name, "format": "cells"}, result, looks=True)


def search(name: str, text: str, regex: bool) -> Call[list[Answer]]:
    def result(answer: Answer) -> list[Answer]:
        matches: list[Answer] = answer["matches"]
        return matches

    given = {"name": name, "regex" if regex else "needle": text}
    return Call("terminal_search", given, result, looks=True)


def wait_for(name: str, text: str, regex: bool, timeout: float | None) -> Call[str]:
    def result(answer: Answer) -> str:
        _check(name, answer, f"{text!r} did not come", timeout)
        found: str = answer["match"]
        return found

    given = {"name": name, "regex" if regex else "text": text, "timeout": timeout}
    return Call("terminal_wait", given, result, looks=True)


def wait_quiet(name: str, seconds: float, timeout: float | None) -> Call[None]:
    def result(answer: Answer) -> None:
        _check(name, answer, f"{name!r} did not fall quiet", timeout)

    return Call("terminal_wait", {"name": name, "idle": seconds, "timeout": timeout}, result, looks=True)


def wait_any(
    name: str,
    *,
    text: str | None = None,
    regex: str | None = None,
    idle: float | None = None,
    exit: bool = False,
    timeout: float | None = None,
) -> Call[Answer]:
    """Wait for the first of these; the answer as it is."""
    given = {"name": name, "text": text, "regex": regex, "idle": idle, "exit": exit or None}
    return Call("terminal_wait", given | {"timeout": timeout}, dict, looks=True)


def settle(name: str, timeout: float | None) -> Call[Answer]:
    """Wait until a session of any kind does nothing any more; the answer as it is."""
    return Call("session_wait", {"name": name, "timeout": timeout}, dict, looks=True)


def wait(name: str, timeout: float | None) -> Call[int]:
    def result(answer: Answer) -> int:
        if answer["reason"] == "timeout":
            _check(name, answer, f"{name!r} did not end", timeout)
        code: int = answer["exit_code"]
        return code

    return Call("terminal_wait", {"name": name, "exit": True, "timeout": timeout}, result, looks=True)


def _check(name: str, answer: Answer, what: str, timeout: float | None) -> None:
    """Whether what was waited for has come."""
    if answer["reason"] == "timeout":
        raise TimeoutError(f"{what} within {'a day' if timeout is None else f'{timeout:g} s'}")
    if answer["reason"] == "exit":
        raise Ended(name, answer["exit_code"])


def resize(name: str, cols: int, rows: int) -> Call[None]:
    return Call("terminal_resize", {"name": name, "cols": cols, "rows": rows}, _nothing)


def stop(name: str) -> Call[int]:
    def result(answer: Answer) -> int:
        code: int = answer["exit_code"]
        return code

    return Call("terminal_stop", {"name": name}, result)
