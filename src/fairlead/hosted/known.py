"""The agents that can be hosted: those that are known, and what the configuration adds or changes."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..system.settings import AGENT_VARIABLES, SettingError, explained
from ..wire.acp import McpServer
from . import mcp

MAX_AGENTS = 100
"""How many agents a configuration may have."""


class KnownAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """How an agent is started, and how its sessions begin."""

    command: tuple[str, ...] = ()
    """The program that speaks ACP on its standard input and output, with its arguments."""
    env: Mapping[str, str] = {}
    """Variables for its process alone."""
    mode: str = ""
    model: str = ""
    sandbox: bool = False
    writable: tuple[str, ...] = ()
    """Where it may write besides its project when it is in a sandbox."""
    state: tuple[tuple[str, str, str], ...] = ()
    """Where it keeps its sessions and its log-in, and may write in a sandbox, too: the variable that says
    where, what that is without it, below one's home, and a name below that."""
    keys: tuple[str, ...] = ()
    """Variables with its keys, which a client may lend if the daemon does not have them."""
    mcp: tuple[McpServer, ...] = ()
    """MCP servers that it is told to use."""
    install: str = ""
    """The line that installs it."""
    about: str = ""

    def found(self, path: str | None = None) -> str | None:
        """Where its program is, looked for on this PATH."""
        return shutil.which(self.command[0], path=path) if self.command else None

    def state_places(self, environment: Mapping[str, str]) -> list[str]:
        """The directories of `state`, none of which is the home or around it."""
        home = os.path.abspath(environment.get("HOME") or os.path.expanduser("~"))
        found = [
            os.path.abspath(os.path.join(environment.get(variable) or os.path.join(home, below), name))
            for variable, below, name in self.state
        ]
        return [each for each in found if os.path.commonpath([each, home]) != each]


def _npm(package: str) -> str:
    return f"npm install -g {package}"


def _xdg(name: str) -> tuple[tuple[str, str, str], ...]:
    """Directories of this name where programs keep what is no configuration."""
    places = {"XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state", "XDG_CACHE_HOME": ".cache"}
    return tuple((variable, below, name) for variable, below in places.items())


KNOWN: Mapping[str, KnownAgent] = {
    "claude": KnownAgent(
        ("claude-agent-acp",),
        state=(("CLAUDE_CONFIG_DIR", ".claude", ""),),
        install=_npm("@agentclientprotocol/claude-agent-acp"),
        about="Claude Code",
    ),
    "codex": KnownAgent(
        ("codex-acp",),
        state=(("CODEX_HOME", ".codex", ""),),
        install=_npm("@agentclientprotocol/codex-acp"),
        about="Codex",
    ),
    "gemini": KnownAgent(
        ("gemini", "--acp"),
        state=(("GEMINI_CLI_HOME", "", ".gemini"),),
        install=_npm("@google/gemini-cli"),
        about="Gemini CLI",
    ),
    "opencode": KnownAgent(
        ("opencode", "acp"),
        state=(*_xdg("opencode"), ("XDG_CONFIG_HOME", ".config", "opencode")),
        install=_npm("opencode-ai"),
        about="OpenCode",
    ),
    "goose": KnownAgent(
        ("goose", "acp"),
        state=_xdg("goose"),
        install="curl -fsSL https://github.com/block/goose/releases/download/stable/download_cli.sh | bash",
        about="Goose",
    ),
    "pi": KnownAgent(("pi-acp",), install=_npm("pi-acp"), about="Pi, through an adapter"),
}


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table [agents.NAME]."""

    command: str | list[str] | None = None
    env: dict[str, str] = {}
    mode: str = ""
    model: str = ""
    sandbox: bool | list[str] | None = None
    keys: list[str] | None = None
    mcp: dict[str, object] = {}


def agents_in(config: Mapping[str, object]) -> dict[str, KnownAgent]:
    """All agents of a configuration, by name. Raises SettingError, which shows no value."""
    tables = config.get("agents", {})
    if not isinstance(tables, Mapping):
        raise SettingError("[agents] must be tables: [agents.NAME]")
    if len(tables) > MAX_AGENTS:
        raise SettingError(f"[agents] at most {MAX_AGENTS} agents, not {len(tables)}")
    shared = mcp.configured(config.get("mcp_servers", {}), "mcp_servers")
    found = {
        name: replace(agent, keys=AGENT_VARIABLES.get(name, ()), mcp=shared) for name, agent in KNOWN.items()
    }
    for name, given in tables.items():
        if not name.isprintable() or not name.strip() or "/" in name:
            raise SettingError(f"[agents.{name!r:.40}] is no name for an agent")
        try:
            table = msgspec.convert(given, _Table)
        except msgspec.ValidationError as error:
            raise SettingError(f"[agents.{name}]: {explained(error, _Table)}") from None
        found[name] = _changed(name, found.get(name, KnownAgent(mcp=shared)), table)
    return found


def _changed(name: str, known: KnownAgent, table: _Table) -> KnownAgent:
    command = known.command
    if table.command is not None:
        words = shlex.split(table.command) if isinstance(table.command, str) else table.command
        command = tuple(os.path.expanduser(word) if at == 0 else word for at, word in enumerate(words))
    if not command or not command[0]:
        raise SettingError(f"[agents.{name}]: command is missing")
    return KnownAgent(
        command,
        {**known.env, **table.env},
        table.mode or known.mode,
        table.model or known.model,
        known.sandbox if table.sandbox is None else bool(table.sandbox),
        tuple(map(os.path.expanduser, table.sandbox)) if isinstance(table.sandbox, list) else known.writable,
        known.state,
        known.keys if table.keys is None else tuple(table.keys),
        joined(known.mcp, mcp.configured(table.mcp, f"agents.{name}.mcp")),
        known.install if table.command is None else "",
        known.about,
    )


def joined(servers: tuple[McpServer, ...], more: tuple[McpServer, ...]) -> tuple[McpServer, ...]:
    """Servers, of which those that come later replace others of the same name."""
    return tuple({each.name: each for each in (*servers, *more)}.values())
