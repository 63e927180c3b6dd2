"""Sessions of other hosts: how requests name them, and which ops are passed on to where they are.

A client that knows hosts says so in its handshake. For it `HOST:NAME` is a session there, if there is a host
of that name, and `local:NAME` one of this host; for all others a name is a name, whatever is in it. What
passes ops on is a room of its own (`hosts/`), which this door sees as `FarHosts`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ...formats.edn import Keyword
from ...system.settings import LOCAL
from ...wire.rpc import ErrorCode, EventData, Request
from ...wire.rpc_catalog import OPS
from .handlers import Clients, Data, OpError

NAMING_PARAMS = ("session-id", "name", "token", "other")
"""The parameters that may name something of another host."""
HOST_PARAM = Keyword("host")
"""The parameter by which an op that names nothing, such as `verify_reports`, is meant for another host."""
OWN_ENVIRONMENT = frozenset({"TERM", "LANG", "COLORTERM"})
"""What programs on another host get of a client's environment."""

_NEW_NAMES = frozenset({"set_session_name", "worktree_add", "host_check"})
"""Ops whose `name` is a new one, or no session's."""
OF_THE_CONNECTION = frozenset(
    (
        *("handshake", "ping", "cancel", "describe", "subscribe", "unsubscribe"),
        *("new_session", "open_session", "switch_session", "fork", "lend_key", "command"),
        *("frontend_action_result", "login_begin", "login_complete"),
    )
)
"""Ops about the connection itself, or whose outcome comes as events to the client that asked."""
OF_THE_MACHINE = frozenset(
    (
        *("verify_target", "terminal_turn", "terminal_permission", "ask_person", "agent_programs", "caller"),
        *("daemon_stop", "daemon_restart", "host_list", "host_check", "export_html", "agent_check"),
        *("terminal_record", "worktree_add", "worktree_list", "remember", "notify", "config", "health"),
        *("daemon_status", "agents", "recall", "terminal_list", "session_list", "list_sessions"),
        *("session_history", "host_row"),
    )
)
"""Ops that name files, processes or sockets of one machine, or that are asked of each by itself."""
PASSED_ON = frozenset(OPS) - OF_THE_CONNECTION - OF_THE_MACHINE


class FarHosts(Protocol):
    """The other hosts."""

    def knows(self, name: str) -> bool:
        """Whether there is a host of this name. Looks at nothing that could take long."""

    def ask(self, host: str, op: str, params: Mapping[Any, Any], *, via: str, agent: str) -> Awaitable[Any]:
        """The data of a far daemon's answer. Raises OpError."""

    def sessions(self, kind: str | None) -> Sequence[Any]:
        """The sessions of all hosts as they were known last."""

    def questions(self) -> Sequence[Any]:
        """The questions of all hosts, likewise."""

    async def reports(self, limit: int) -> Sequence[Any]:
        """The last reports of the hosts that are there and answer soon."""

    def hosts(self) -> Sequence[Mapping[str, Any]]:
        """The hosts, and how each is."""

    async def begun(self) -> None:
        """Wait a moment, once for each host, for one that has just begun to be connected to."""

    async def check(self, name: str | None) -> None:
        """See which hosts there are now, and try those that are away; wait for one that is named."""


class FarRequest(NamedTuple):
    """What is asked of another host."""

    host: str
    params: Mapping[Any, Any]


def far_request(request: Request, elsewhere: FarHosts) -> FarRequest | None:
    """What a request asks of another host, if it names one. Raises OpError if it can't be passed on."""
    found: dict[Any, str] = {}
    hosts: set[str] = set()
    if type(given := request.params.get(HOST_PARAM)) is str and given != LOCAL:
        if not elsewhere.knows(given):
            raise OpError(ErrorCode.NOT_FOUND, f"no host {given!r:.80}; `fairlead host ls` lists them")
        hosts.add(given)
    for name in NAMING_PARAMS if request.op not in _NEW_NAMES else NAMING_PARAMS[:1]:
        key = Keyword(name)
        if type(word := request.params.get(key)) is str and (split := _split(word, elsewhere)):
            hosts.add(split[0])
            found[key] = split[1]
    if not hosts:
        return None
    if len(hosts) > 1:
        raise OpError(
            ErrorCode.FAILED, f"{request.op} can't be about several hosts: {', '.join(sorted(hosts))}"
        )
    host = hosts.pop()
    if request.op not in PASSED_ON:
        how = f"connect to the host instead: `fairlead -H {host}`, or Settings(host={host!r})"
        raise OpError(ErrorCode.FAILED, f"{request.op} is not passed on to other hosts; {how}")
    params = {key: value for key, value in request.params.items() if key is not HOST_PARAM}
    return FarRequest(host, params | found)


def _split(word: str, elsewhere: FarHosts) -> tuple[str, str] | None:
    host, colon, rest = word.partition(":")
    return (host, rest) if colon and rest and host != LOCAL and elsewhere.knows(host) else None


def without_local(request: Request) -> Request:
    """The request with the names of sessions here as they are called here."""
    mark = f"{LOCAL}:"
    changed: dict[Any, Any] = {}
    for name in NAMING_PARAMS if request.op not in _NEW_NAMES else NAMING_PARAMS[:1]:
        word = request.params.get(Keyword(name))
        if type(word) is str and word.startswith(mark) and len(word) > len(mark):
            changed[Keyword(name)] = word[len(mark) :]
    return Request(request.id, request.op, {**request.params, **changed}) if changed else request


def own_place(id: str, elsewhere: FarHosts | None) -> str:
    """How a session of this host is named among those of all hosts."""
    host, colon, _ = id.partition(":")
    is_taken = colon and (host == LOCAL or (elsewhere is not None and elsewhere.knows(host)))
    return f"{LOCAL}:{id}" if is_taken else id


def tell(clients: Clients, topic: str, data: Data) -> None:
    """Send an event of other hosts to the clients that asked for those."""
    written = EventData(data)
    for client in clients():
        if client.hosts:
            client.event(topic, written)
