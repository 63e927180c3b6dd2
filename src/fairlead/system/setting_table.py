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
        "max_sessions": Setting(1000, "maximum number of terminal sessions"),
        "max_connections": Setting(256, "maximum number of clients of one terminal session"),
        "keep_ended": Setting(600.0, "seconds for which an ended session is kept"),
        "keep_waiting": Setting(86_400.0, "seconds for which a session waits for its first writer"),
        "stop_grace": Setting(5.0, "seconds between SIGTERM and SIGKILL"),
        "client_backlog": Setting(
            4 * 1024 * 1024, "bytes that a slow client may lag behind before it gets a redraw instead"
        ),
    },
    "attach": {
        "escape": Setting(
            "ctrl-\\ or ,,,d", 'the keys that detach, joined by " or "; in the file also a list'
        ),
        "hint": Setting("true", "whether attaching shows the session's name and the keys that detach"),
        "screen": Setting(
            "alternate", "`alternate`, or `main`: the session's lines go to your terminal's own scrollback"
        ),
        "clipboard": Setting(
            "false", f"whether programs may set the clipboard of all attached terminals{_STAYS}"
        ),
        "notifications": Setting(
            "false", f"whether programs may show desktop notifications on all attached terminals{_STAYS}"
        ),
    },
    "daemon": {
        "restart_pause": Setting(
            0.5, "seconds to wait before restarting a daemon that died soon after its start", at_start=True
        ),
        "hang_seconds": Setting(
            30.0, "seconds after which an unresponsive daemon is replaced; 0 means never", at_start=True
        ),
        "answer_seconds": Setting(
            10.0, "seconds without an answer after which a client reports the daemon as hung"
        ),
        "log_bytes": Setting(
            4 * 1024 * 1024, "the size at which the daemon's log is rotated; 0 means never", at_start=True
        ),
        "log_count": Setting(3, "how many older logs are kept", at_start=True),
    },
    "hosts": {
        "ssh": Setting("ssh", "the ssh command with which other hosts are reached, with options if need be"),
    },
    "fleet": {
        "labels": Setting(
            "",
            "words for which `--on label=WORD` chooses this host: a list, or a text with commas between them",
            is_left=True,
        ),
        "capacity": Setting(
            0,
            "how many turns this host takes at a time; with 0 it runs no queued jobs, and is not full either",
        ),
        "follow": Setting(
            "true",
            "whether the daemon follows the other hosts of the fleet, for lists of all; a host that only "
            "works need not",
        ),
        "jobs_from": Setting(
            "*",
            "machines, and users as `@NAME`, whose queued jobs this host runs: a list, or a text with commas "
            "between them; `*` is everybody whose credential may change things",
            is_left=True,
        ),
    },
    "rpc": {
        "max_connections": Setting(256, "maximum number of rpc-edn clients: editors, commands, programs")
    },
    "verifier": {
        "max_loops": Setting(3, "how often a turn is sent back before a person is needed", at_start=True),
        "shared_dir": Setting(
            "/tmp/pi-verifier",
            "where Pi's programs look for sockets; used only if it belongs to you",
            at_start=True,
        ),
        "begin_seconds": Setting(
            30.0, "seconds within which an agent in a terminal must react to a correction", at_start=True
        ),
        "dir": Setting(
            "",
            "the directory for verifiers' sockets; if empty, `shared_dir` and one in the runtime directory",
            at_start=True,
            is_left=True,
        ),
    },
    "hooks": {
        "permission_seconds": Setting(
            43_200.0,
            "seconds that an agent's hook waits for the answer to a permission; then only the agent's own "
            "dialog counts",
        ),
    },
    "passepartout": {
        "enabled": Setting("true", "whether Passepartout's clients can connect", at_start=True),
        "port": Setting(9105, "TCP port on 127.0.0.1; 0 takes any free one", at_start=True),
        "max_connections": Setting(
            600, "maximum number of clients of each socket, TCP and unix", at_start=True
        ),
        "max_characters": Setting(
            256 * 1024,
            "maximum number of characters in a frame; the protocol allows up to 0xFFFFFF",
            at_start=True,
        ),
        "max_tokens": Setting(
            2000,
            "maximum number of atoms and brackets in a frame; a text is one atom, however long",
            at_start=True,
        ),
        "idle": Setting(86_400.0, "seconds after which a silent client is disconnected", at_start=True),
    },
    "control": {
        "heartbeat": Setting(60.0, "seconds between heartbeats; 0 means never", at_start=True),
        "session": Setting("control", "the agent session for clients that name none", at_start=True),
        "rules": _table("what to do when something happens"),
        "protected": _table("files that no command of control may name", at_start=True),
        "hosts": _table("hosts that commands of control may reach without asking", at_start=True),
    },
    "agent": {
        "model": Setting("offline/guide", "the model of a new session, as `provider/id`", is_left=True),
        "cassette": Setting("", "the file that the model `offline/replay` plays", is_left=True),
        "cassette_timing": Setting(
            False, "whether a cassette is played at its recorded speed instead of at once", is_left=True
        ),
        "record": Setting("", "the file to which each complete answer of a model is appended", is_left=True),
        "yes": Setting(
            False, "whether everything is allowed that no rule denies", variable=False, is_left=True
        ),
        "rules": _table("which tool calls are allowed, asked about or denied"),
    },
    "undo": {
        "enabled": Setting(
            "true", "whether the files are noted before and after each turn in a git repository, for `undo`"
        ),
    },
    "worktrees": {
        "directory": Setting(
            "beside",
            "`beside`: the worktrees of sessions are in `REPOSITORY.worktrees` beside the repository; or the "
            "directory for those of all repositories",
        ),
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
            "seconds after which an idle third-party agent is stopped, if it can resume its "
            "session; 0 means never",
        ),
    },
    "notify": {
        "urls": _table("where notifications go, as Apprise URLs"),
        "after_seconds": Setting(
            20.0, "seconds after which a question that nobody has seen is told to people; 0 means never"
        ),
        "quiet_hours": Setting(
            "never", 'when nobody is told, as `"22:00-07:00"`; at the end, what still waits is'
        ),
        "terminals": Setting("true", "whether people are told at attached terminals, with a bell"),
        "desktop": Setting("true", "whether they are told on the desktop, by `notify-send` or `osascript`"),
        "push_service": Setting(
            "none",
            "a web push service of your own, as `HOST:PORT`: it may be in a private network, others must be "
            "public and at port 443",
        ),
        "done": Setting("false", "whether they are also told when a turn has ended and nobody has looked"),
    },
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
    "base_url": "its address; for kind `openai` with `/v1`, or the server's own path",
    "key_env": "the environment variable that holds the key",
    "key_file": "a file with the key and nothing else",
    "key": "the key itself; `key_env` and `key_file` are safer",
}
"""What a table [providers.NAME] may have, and what it means."""
MODEL_KEYS: Mapping[str, str] = {
    "provider": "the name of its provider; required",
    "id": "its id at the provider; required",
    "name": "its display name",
    "reasoning": "whether it thinks before it answers",
    "window": "the size of its context window, in tokens",
    "max_output": "maximum number of tokens in an answer; by default the server's own limit",
    "prices": "dollars per million tokens: `input`, `output`, `cache_read`, `cache_write`",
}
"""What a table [[models]] may have, and what it means."""
AGENT_KEYS: Mapping[str, str] = {
    "command": "the program that speaks ACP on its standard input and output, with its arguments: a text, "
    "or a list of words",
    "env": "a table of environment variables for its process; their values are never shown",
    "mode": "the mode in which its sessions start, as the agent calls it",
    "model": "the model that it uses, as the agent calls it",
    "sandbox": "`true`: it can write only in the session's directory; a list of directories: there too",
    "keys": "a list of variables with its keys: if the daemon lacks them, a client that has them lends them",
    "mcp": "tables of MCP servers for this agent only, as in `[mcp_servers.NAME]`",
}
"""What a table [agents.NAME] may have, and what it means."""
MCP_KEYS: Mapping[str, str] = {
    "command": "the program that speaks MCP on its standard input and output: a text, or a list of words",
    "args": "a list of further arguments",
    "env": "a table of environment variables for it",
    "url": "its URL, if it has no command",
    "type": "for one with a `url`: `http` (the default) or `sse`",
    "headers": "a table of HTTP headers",
}
"""What a table [mcp_servers.NAME] may have, a server that every hosted agent is told of."""
