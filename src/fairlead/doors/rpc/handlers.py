"""The functions that do rpc-edn's ops: `@op` ties each to its entry in the table, by its name.

A handler gets the op's parameters as arguments with the types that the table says; one whose first parameter
is `call` also gets who asks, and leaves it to `call` which session is meant. A name, a parameter or a type
that does not agree with the table is an error when the module is imported. Errors of rooms are not caught in
handlers: `FAULTS` says what they are in the protocol's terms.
"""

from __future__ import annotations

import errno
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from ...sessions.inbox import AskerGone, NoSuchOption, NotOpen, Unheard
from ...system.database import DatabaseFault
from ...wire.rpc import ErrorCode, EventData, fields
from ...wire.rpc_catalog import OPS, PARAMS, argument

Data = Mapping[Any, Any]
Handler = Callable[..., Awaitable[Data]]
F = TypeVar("F", bound=Handler)


class OpError(Exception):
    """An op that can't be done, in the protocol's terms."""

    def __init__(self, code: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


FAULTS: dict[type[Exception], ErrorCode | Callable[[Any], OpError]] = {
    DatabaseFault: ErrorCode.FAILED,
    NotOpen: ErrorCode.NOT_FOUND,
    NoSuchOption: ErrorCode.INVALID_PARAMS,
    AskerGone: ErrorCode.FAILED,
    Unheard: ErrorCode.FAILED,
}
"""What errors of rooms are in the protocol's terms, with their messages. Each room adds its own."""
MISSING: dict[type[Exception], str] = {}
"""Errors that say that there is no such session, of rooms that know only those of one kind: which it is."""


def as_op_error(op: str, error: Exception) -> OpError:
    """An error that a handler raised, in the protocol's terms."""
    if isinstance(error, OpError):
        return error
    known = next((FAULTS[kind] for kind in type(error).__mro__ if kind in FAULTS), None)
    if known is not None:
        return OpError(known, str(error)) if isinstance(known, ErrorCode) else known(error)
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        why = "the daemon has reached its limit of open files; `fairlead doctor` says what to do"
        return OpError(ErrorCode.FAILED, why)
    return OpError(ErrorCode.FAILED, f"{op} failed: {type(error).__name__}: {error}")


def invalid(name: str, why: object) -> OpError:
    """A parameter can't be used."""
    return OpError(ErrorCode.INVALID_PARAMS, f"invalid request parameter :{name}: {why}")


def outside_sandbox(what: str) -> OpError:
    """An agent in a sandbox wants something to be done for it where it can't do it."""
    return OpError(
        ErrorCode.FAILED, f"the agent that asks runs in a sandbox, and {what} would run outside of it"
    )


BY_CLIENT = "cancelled by its client"
"""The message with which an op is cancelled by who asked for it, and not because that one is gone."""


class Caller(Protocol):
    """A client, as the ops of agent sessions see it."""

    focus: str | None
    """The session that its requests mean if they name none."""
    cwd: str | None
    """Where it runs, if it said so."""
    key_names: frozenset[str]
    """The variables whose values it would lend."""
    project: str | None = None
    """The directory that the connection belongs to; None: all."""
    increments: bool = False
    """Whether it wants an answer in pieces, each message and each call as the model makes them. Others, as
    psi's UI, get the answer so far, and one message at the end of a turn."""
    receipts: bool = False
    """Whether it is told the ids of its prompts."""
    is_shown: bool = True
    """Whether a person looks at the session in its focus. A script of ours shows nothing."""
    agent: str = ""
    """The agent that it says it works for, and no person."""
    via: str = ""
    """What its person answers questions with: one of our clients, or the name that another gave itself."""
    hosts: bool = False
    """Whether it is told what happens in sessions of other hosts."""
    reminded: set[str]
    """The sessions of which it was told what an earlier daemon has never said."""
    typed: deque[str]
    """The ids of the prompts that it sent last, which it has shown by itself."""
    asked: str | None = None
    """What its person is being asked, if it can ask one thing at a time: a dialog, or the request that lets
    them choose."""

    async def session_behind(self) -> str:
        """The session in which its process runs, as far as that can be seen; else nothing."""

    def want_key(self, variable: str) -> None:
        """Ask this client for the value of one of them; `lend_key` brings it."""

    def event(self, topic: str, data: Data, *, id: str | None = None) -> None:
        """Send an event to this client alone, if it wants the topic."""

    def wants(self, topic: str) -> bool: ...

    def close(self) -> None: ...


class Clients:
    """All clients of a door, for those who tell them what happens."""

    def __init__(self) -> None:
        self._all: set[Caller] = set()

    def __call__(self) -> list[Caller]:
        return list(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, client: Caller) -> None:
        self._all.add(client)

    def discard(self, client: Caller) -> None:
        self._all.discard(client)

    def look_at(self, session: str) -> bool:
        """True if a person looks at a session with any of them."""
        return any(client.focus == session and client.is_shown for client in self._all)

    def want(self, topic: str) -> bool:
        """True if any of them wants events of this topic."""
        return any(client.wants(topic) for client in self._all)

    def event(self, topic: str, data: Mapping[Any, Any]) -> None:
        """Send an event to all clients that want it; it is encoded once."""
        data = EventData(data)
        for client in self._all:
            client.event(topic, data)


class Call(NamedTuple):
    """A request of a client."""

    caller: Caller
    id: str
    op: str
    session_id: str | None = None
    """The session that it names."""


def accepted(call: Call, prompt: str, **more: Any) -> Data:
    """The answer to a prompt of this id."""
    return fields(accepted=True, **more, **({"prompt_id": prompt} if call.caller.receipts else {}))


class _Handled(NamedTuple):
    function: Handler
    takes_call: bool
    names: frozenset[str]


HANDLED: dict[str, _Handled] = {}
"""The handler of each op, of the modules that are imported."""


def op(function: F) -> F:
    """Make a method the handler of the op that has its name."""
    name = function.__name__
    entry = OPS[name]
    _, *found = inspect.signature(function).parameters.values()  # without self
    takes_call = bool(found) and found[0].name == "call"
    given = {each.name: each for each in found[takes_call:]}
    for each in (*entry.required, *entry.optional):
        parameter = given.get(argument(each))
        if parameter is None and each == "session-id" and takes_call:
            continue
        wanted = PARAMS[each].type
        types = [wanted] if each in entry.required else [wanted, f"{wanted} | None"]
        has_default = parameter is not None and parameter.default is not parameter.empty
        if parameter is None or parameter.annotation not in types or has_default == (each in entry.required):
            raise TypeError(f"the handler of {name} must take {argument(each)}: {' or '.join(types)}")
    if more := given.keys() - {argument(each) for each in (*entry.required, *entry.optional)}:
        raise TypeError(f"the handler of {name} takes what the op does not: {', '.join(sorted(more))}")
    if HANDLED.setdefault(name, handled := _Handled(function, takes_call, frozenset(given))) is not handled:
        raise TypeError(f"{name} has two handlers")
    return function


def handlers_of(*rooms: object) -> dict[str, Handler]:
    """The ops that are methods of these objects."""
    return {
        name: getattr(room, name)
        for room in rooms
        for name, handled in HANDLED.items()
        if vars(type(room)).get(name) is handled.function
    }


def run_handler(handler: Handler, call: Call, given: Mapping[str, Any]) -> Awaitable[Data]:
    """Call an op's handler with the arguments that a request has for it."""
    _, takes_call, names = HANDLED[call.op]
    wanted = {name: value for name, value in given.items() if name in names}
    return handler(call, **wanted) if takes_call else handler(**wanted)
