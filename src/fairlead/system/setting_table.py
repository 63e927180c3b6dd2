"""Every setting, once: its default, what it means, and when a change takes effect.

`settings` reads the values, `setting_rows` lists them, and tools/make_configuration.py makes the page about
them. It imports next to nothing, because every command begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping

_STAYS = "; running sessions keep the old value until the daemon restarts"


class Setting:
    """One setting.

    `at_start`: the daemon reads it only when it starts. `variable`: an environment variable sets it, too.
    `is_left`: the room that uses it also checks it.
    """

    __slots__ = ("at_start", "default", "is_left", "means", "variable")

    def __init__(
        self,
        default: int | float | str | bool | tuple[()],
        means: str,
        *,
        at_start: bool = False,
        variable: bool = True,
        is_left: bool = False,
    ) -> None:
        self.default = default
        self.means = means
        self.at_start = at_start
        self.variable = variable
        self.is_left = is_left


def _table(means: str, *, at_start: bool = False) -> Setting:
    """A list in the file, which no variable sets."""
    return Setting((), means, at_start=at_start, variable=False, is_left=True)


PLACES: Mapping[str, Setting] = {
    "runtime_dir": Setting(
        "$XDG_RUNTIME_DIR/fairlead, else $TMPDIR/fairlead-UID",
        "the directory for sockets and the daemon's lock",
        at_start=True,
    ),
    "state_dir": Setting(
        "$XDG_STATE_HOME/fairlead, else ~/.local/state/fairlead",
        "the directory for journals, reports, recordings, databases and logs",
        at_start=True,
    ),
    "config": Setting(
        "$XDG_CONFIG_HOME/fairlead/config.toml, else ~/.config/fairlead/config.toml",
        "the configuration file; your prompts, skills and verifiers are in its directory",
        at_start=True,
    ),
}
"""Where things are. FAIRLEAD_RUNTIME_DIR, FAIRLEAD_STATE_DIR and FAIRLEAD_CONFIG set them; the file can't."""
SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    "terminal": {
        "scrollback_lines": Setting(10_000, f"lines of scrollback of a session{_STAYS}"),
        "scrollback_bytes": Setting(4 * 1024 * 1024, f"bytes of scrollback of a session{_STAYS}"),
        "max_sessions": Setting(1000, "terminal sessions at a time"),
        "max_connections": Setting(256, "clients of one terminal session"),
        "keep_ended": Setting(600.0, "seconds for which an ended session can still be looked at"),
        "keep_waiting": Setting(86_400.0, "seconds that a session waits for its first writer"),
        "stop_grace": Setting(5.0, "seconds between SIGTERM and SIGKILL"),
        "client_backlog": Setting(
            4 * 1024 * 1024, "bytes that a slow client may be behind before it gets a fresh redraw instead"
        ),
    },
    "attach": {
        "escape": Setting(
            "ctrl-\\ or ,,,d", 'the keys that leave a session, joined by " or "; in the file also a list'
        ),
        "hint": Setting("true", "whether attaching shows the session's name and the keys that leave it"),
        "screen": Setting(
            "alternate", "`alternate`, or `main`: the session's lines go to your terminal's own scrollback"
        ),
        "clipboard": Setting(
            "false", f"whether programs may set the clipboard of everybody attached{_STAYS}"
        ),
        "notifications": Setting(
            "false", f"whether programs may show desktop notifications to everybody attached{_STAYS}"
        ),
    },
    "daemon": {
        "restart_pause": Setting(
            0.5, "seconds until a daemon that died soon after its start is restarted", at_start=True
        ),
        "hang_seconds": Setting(
            30.0, "seconds without a sign of life after which a daemon is replaced; 0 is never", at_start=True
        ),
        "answer_seconds": Setting(
            10.0, "seconds without an answer after which a client calls the daemon hung"
        ),
        "log_bytes": Setting(
            4 * 1024 * 1024, "the size at which the daemon's log is rotated; 0 is never", at_start=True
        ),
        "log_count": Setting(3, "how many older logs of the daemon are kept", at_start=True),
    },
    "rpc": {"max_connections": Setting(256, "clients of the rpc-edn door: editors, commands, programs")},
    "verifier": {
        "max_loops": Setting(3, "how often a turn is sent back before a person is called", at_start=True),
        "shared_dir": Setting(
            "/tmp/pi-verifier",
            "where Pi's programs look for sockets; used only if it belongs to you",
            at_start=True,
        ),
        "begin_seconds": Setting(
            30.0, "seconds in which an agent in a terminal must begin with a correction", at_start=True
        ),
        "dir": Setting(
            "",
            "the directory for verifiers' sockets; if empty, `shared_dir` and one in the runtime directory",
            at_start=True,
            is_left=True,
        ),
    },
    "passepartout": {
        "enabled": Setting("true", "whether the Passepartout door is open", at_start=True),
        "port": Setting(9105, "its TCP port on 127.0.0.1; 0 takes any that is free", at_start=True),
        "max_connections": Setting(
            600, "clients of each of its sockets, the TCP and the unix one", at_start=True
        ),
        "max_characters": Setting(
            256 * 1024, "characters of one frame; the protocol allows up to 0xFFFFFF", at_start=True
        ),
        "max_tokens": Setting(
            2000, "atoms and brackets of one frame; a text is one atom, however long", at_start=True
        ),
        "idle": Setting(86_400.0, "seconds after which a silent client is disconnected", at_start=True),
    },
    "control": {
        "heartbeat": Setting(60.0, "seconds between heartbeats; 0 is never", at_start=True),
        "session": Setting(
            "control", "the agent session that answers a client that names none", at_start=True
        ),
        "rules": _table("what to do when something happens"),
        "protected": _table("files that no command of control may name", at_start=True),
        "hosts": _table("hosts that commands of control may reach without a question", at_start=True),
    },
    "agent": {
        "model": Setting("offline/guide", "the model of a new session, as `provider/id`", is_left=True),
        "cassette": Setting("", "the file that the model `offline/replay` plays", is_left=True),
        "cassette_timing": Setting(
            False, "whether a cassette is played as fast as it was recorded, not at once", is_left=True
        ),
        "record": Setting("", "the file to which each whole answer of a model is appended", is_left=True),
        "yes": Setting(
            False, "whether everything is allowed that no rule denies", variable=False, is_left=True
        ),
        "rules": _table("which calls of tools are allowed, asked about or denied"),
    },
    "mcp": {
        "reach": Setting(
            "project",
            "which sessions agents reach through `fairlead mcp`: `project`, those of their own directory and "
            "below it, or `all`",
            variable=False,
            is_left=True,
        )
    },
    "hosted": {
        "idle_seconds": Setting(
            1800.0,
            "seconds after which another maker's agent that has nothing to do is ended, if it can resume its "
            "session; 0 is never",
        ),
    },
    "notify": {"urls": _table("where notifications go, as addresses of Apprise")},
}
"""Every setting of the file, by section and key."""
DEFAULTS: Mapping[str, Mapping[str, int | float | str]] = {
    section: {
        key: setting.default
        for key, setting in settings.items()
        if not (setting.is_left or isinstance(setting.default, tuple))
    }
    for section, settings in SETTINGS.items()
}
"""The defaults of those settings that `Settings` itself checks."""
AT_START = frozenset(
    f"{section}.{key}"
    for section, settings in SETTINGS.items()
    for key, setting in settings.items()
    if setting.at_start
)
"""Settings that the daemon reads only when it starts. Others take effect as soon as the file is written."""
PROVIDER_KEYS: Mapping[str, str] = {
    "kind": "`openai` (any server that speaks chat completions), `anthropic` or `google`",
    "base_url": "its address; for kind `openai` with `/v1`, or what the server has instead",
    "key_env": "the environment variable that holds the key",
    "key_file": "a file with the key and nothing else",
    "key": "the key itself; `key_env` and `key_file` are safer",
}
"""What a table [providers.NAME] may have, and what it means."""
MODEL_KEYS: Mapping[str, str] = {
    "provider": "the name of its provider; required",
    "id": "its name there; required",
    "name": "its name for people",
    "reasoning": "whether it thinks before it answers",
    "window": "how many tokens it can read",
    "max_output": "how many tokens an answer may have; without it, the server's own limit",
    "prices": "dollars for a million tokens: `input`, `output`, `cache_read`, `cache_write`",
}
"""What a table [[models]] may have, and what it means."""
AGENT_KEYS: Mapping[str, str] = {
    "command": "the program that speaks ACP on its standard input and output, with its arguments: a text, "
    "or a list of words",
    "env": "a table of variables for its process alone; their values are shown nowhere",
    "mode": "the mode in which its sessions begin, in the agent's own words",
    "model": "the model that it asks, in the agent's own words",
    "sandbox": "`true`: it can write only in the session's directory; a list of directories: there, too",
    "keys": "a list of variables with its keys: a client that has them lends them if the daemon has not",
    "mcp": "tables of MCP servers for this agent alone, as in `[mcp_servers.NAME]`",
}
"""What a table [agents.NAME] may have, and what it means."""
MCP_KEYS: Mapping[str, str] = {
    "command": "the program that speaks MCP on its standard input and output: a text, or a list of words",
    "args": "a list of more words",
    "env": "a table of variables for it",
    "url": "its address, if it has no command",
    "type": "`http` or `sse`, for one with an address; without it, `http`",
    "headers": "a table of headers for it",
}
"""What a table [mcp_servers.NAME] may have, a server that every hosted agent is told of."""
