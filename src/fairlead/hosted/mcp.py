"""MCP servers that are passed on to hosted agents: those of the configuration, and those that clients give.

Any part of a server may be a secret: its environment, its headers, its address, its arguments. So journals
have the names alone. What clients give is kept in the runtime directory, which outlives a daemon and not the
machine; after that the client has to give it again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from msgspec import Struct

from ..agent.secrets import is_secret_name
from ..system.settings import SettingError, explained, safe_dir
from ..wire.acp import AgentCapabilities, McpServer, NamedValue

MAX_SERVERS = 50
"""How many servers a session may have from a client, and how many a configuration."""
MAX_GIVEN = 256 * 1024
"""How many bytes of JSON the servers that a client gives may have."""
_SERVERS = msgspec.json.Decoder(tuple[McpServer, ...])


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table [mcp_servers.NAME] or [agents.NAME.mcp.NAME]."""

    command: str | list[str] | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    url: str | None = None
    type: str | None = None
    headers: dict[str, str] = {}


def configured(tables: object, where: str) -> tuple[McpServer, ...]:
    """The servers of a configuration's tables. Raises SettingError, which shows no value."""
    if not isinstance(tables, Mapping) or not all(isinstance(each, Mapping) for each in tables.values()):
        raise SettingError(f"[{where}] must be tables: [{where}.NAME]")
    if len(tables) > MAX_SERVERS:
        raise SettingError(f"[{where}] at most {MAX_SERVERS} servers, not {len(tables)}")
    return tuple(_server(str(name), table, f"{where}.{name}") for name, table in tables.items())


def _server(name: str, given: object, where: str) -> McpServer:
    try:
        table = msgspec.convert(given, _Table)
    except msgspec.ValidationError as error:
        raise SettingError(f"[{where}]: {explained(error, _Table)}") from None
    if (table.command is None) is (table.url is None):
        raise SettingError(f"[{where}]: either command or url must be there")
    if table.command is None:
        return McpServer(name=name, type=table.type or "http", url=table.url, headers=_values(table.headers))
    words = shlex.split(table.command) if isinstance(table.command, str) else table.command
    if not words:
        raise SettingError(f"[{where}]: command is empty")
    return McpServer(
        name=name,
        command=os.path.expanduser(words[0]),
        args=(*words[1:], *table.args),
        env=_values(table.env),
    )


def _values(table: Mapping[str, str]) -> tuple[NamedValue, ...]:
    return tuple(NamedValue(name=name, value=value) for name, value in table.items())


def given(rows: Sequence[Any]) -> tuple[McpServer, ...]:
    """The servers that a client gives, as in `session/new`; environments and headers may be maps as well.
    Raises ValueError, which shows no value."""
    servers = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise ValueError("each MCP server must be a map")
        made = dict(row)
        for key in ("env", "headers"):
            if isinstance(table := made.get(key), Mapping):
                made[key] = [{"name": name, "value": value} for name, value in table.items()]
        servers.append(made)
    try:
        found = msgspec.convert(servers, tuple[McpServer, ...])
    except msgspec.ValidationError as error:
        raise ValueError(f"the MCP servers can't be read: {explained(error, McpServer)}") from None
    if len(found) > MAX_SERVERS or len({each.name for each in found}) < len(found):
        raise ValueError(f"at most {MAX_SERVERS} MCP servers, each with a name of its own")
    if len(msgspec.json.encode(found)) > MAX_GIVEN:
        raise ValueError(f"the MCP servers have more than {MAX_GIVEN} bytes")
    return tuple(server if server.type in ("http", "sse") else _of_command(server) for server in found)


def _of_command(server: McpServer) -> McpServer:
    """One on stdio, with all that the protocol wants of it."""
    return McpServer(name=server.name, command=server.command, args=server.args or (), env=server.env or ())


def secrets_of(servers: Iterable[McpServer]) -> set[str]:
    """The values that are likely to be secrets: headers and all variables, values of options that are named
    so, and user, password and values in addresses. Each also as it is without what is around it, as
    "Bearer"."""
    found: set[str] = set()
    for server in servers:
        for each in (*(server.env or ()), *(server.headers or ())):
            found |= {each.value, each.value.rpartition(" ")[2]}
        for value in (server.url or "", *(server.args or ()), *(each.value for each in server.env or ())):
            found |= _in_address(value)
        found |= _in_options(server.args or ())
    return found


def _in_options(words: Sequence[str]) -> set[str]:
    """Values of options such as `--api-key=VALUE` or `--token VALUE`, and of `NAME=VALUE`."""
    found = set()
    for word, after in zip(words, (*words[1:], "")):
        name, equals, value = word.partition("=")
        if not equals and name.startswith("-") and not after.startswith("-"):
            value = after
        if is_secret_name(name.lstrip("-").replace("-", "_")):
            found |= {value, value.rpartition(" ")[2]}
        name, colon, value = word.partition(":")  # as in `--header "Authorization: Bearer VALUE"`
        if colon and " " not in name and value.startswith(" "):
            found |= {value, value.rpartition(" ")[2]}
    return found


def _in_address(value: str) -> set[str]:
    if "://" not in value:
        return set()
    try:
        parts = urlsplit(value)
        inside = [parts.username or "", parts.password or "", *(each for _, each in parse_qsl(parts.query))]
    except ValueError:
        return {value}
    # raw and decoded, as both are printed
    pieces = [each.partition("=")[2] for each in parts.query.split("&")]
    return {*inside, *map(unquote, inside), *pieces}


def usable(servers: Iterable[McpServer], can: AgentCapabilities) -> tuple[tuple[McpServer, ...], list[str]]:
    """Those servers that an agent can use, and sentences about the others."""
    found: list[McpServer] = []
    faults: list[str] = []
    for server in servers:
        kind = server.type if server.type in ("http", "sse") else "stdio"
        if kind == "stdio" or getattr(can.mcp_capabilities, kind):
            found.append(server)
        else:
            faults.append(f"can't use the MCP server {server.name}: it takes none over {kind}")
    return tuple(found), faults


class GivenServers:
    """What clients gave, in files that only the user can read, one a session."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def keep(self, session: str, servers: tuple[McpServer, ...]) -> None:
        """Raises OSError or SettingError."""
        path = f"{safe_dir(self._directory)}/{session}"
        if not servers:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return
        unfinished = f"{path}.{secrets.token_hex(4)}"
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode(servers))
        os.replace(unfinished, path)

    def of(self, session: str) -> tuple[McpServer, ...]:
        """What was given for a session, as far as it is known."""
        try:
            with open(f"{self._directory}/{session}", "rb") as file:
                return _SERVERS.decode(file.read(MAX_GIVEN))
        except (OSError, msgspec.DecodeError):
            return ()
