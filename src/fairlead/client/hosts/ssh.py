"""The command lines with which ssh makes a link to a host, or runs a command there.

ssh is the user's own, with its configuration, agent, known hosts and jump hosts. What is added: a connection
that several links share, if the user has set up none; limits after which a dead line is noticed, if there are
none; no forwarding, as each link would forward again. Nothing that a host or a session is called can become
an option of ssh or a word of a shell: a destination comes after `--`, and what a far shell reads has only
characters that mean themselves in every shell.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence

from ...system.settings import SettingError, Settings, safe_dir
from ...wire.link import MARK, MISSING, OLD, PROTOCOL, quoted
from .table import KnownHost, check_destination, check_program

CONFIG_WAIT = 10.0
"""Seconds that `ssh -G` may take: it may run commands of the user's configuration."""
PERSIST = 300
"""Seconds for which a connection stays open that no link uses."""
ALIVE_INTERVAL, ALIVE_COUNT = 5, 3
"""A line is dead when nothing has come for so many times so many seconds."""
CONNECT_WAIT = 10
MAX_CONTROL_PATH = 84
"""How long the path of ssh's control socket may be: ssh adds 17 bytes while it makes one, and the path of a
socket has at most 103 on macOS."""

_configured: dict[tuple[str, ...], dict[str, str]] = {}
"""What `ssh -G` said, by the command: the user's configuration is read once."""


def program(settings: Settings) -> list[str]:
    """ssh, with the options that the user gives it always. Raises SettingError."""
    text = settings.text("hosts", "ssh")
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words:
        raise SettingError(f"[hosts] ssh must be a command, not {text!r}")
    return words


def _config(settings: Settings, destination: str) -> dict[str, str]:
    """ssh's configuration for a destination, as it tells it."""
    command = (*program(settings), "-G", "--", check_destination(destination))
    if command not in _configured:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=CONFIG_WAIT, check=False
            )
        except (OSError, subprocess.TimeoutExpired):  # connecting will say what is wrong
            return {}
        lines = done.stdout.decode(errors="replace").splitlines()
        _configured[command] = {name: value for name, _, value in (line.partition(" ") for line in lines)}
    return _configured[command]


def _control_path(settings: Settings, destination: str) -> str:
    """Where the shared connection to a destination has its socket; empty if no path is short enough."""
    told = "\0".join((*program(settings), destination)).encode()
    path = f"{settings.runtime_dir}/ssh-{hashlib.sha256(told).hexdigest()[:12]}"
    return path if len(os.fsencode(path)) <= MAX_CONTROL_PATH else ""


def _options(settings: Settings, destination: str, *, asks: bool) -> list[str]:
    """What is added to the user's own configuration."""
    known = _config(settings, destination)
    options = ["-o", "LogLevel=ERROR", "-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none"]
    if not asks:
        options += ["-o", "BatchMode=yes"]
    if known.get("connecttimeout", "none") in ("none", "0"):
        options += ["-o", f"ConnectTimeout={CONNECT_WAIT}"]
    if known.get("serveraliveinterval", "0") == "0":
        options += ["-o", f"ServerAliveInterval={ALIVE_INTERVAL}", "-o", f"ServerAliveCountMax={ALIVE_COUNT}"]
    if known.get("controlpath", "none") == "none" and (path := _control_path(settings, destination)):
        safe_dir(settings.runtime_dir)
        options += ["-o", "ControlMaster=auto", "-o", f"ControlPath={path}"]
        options += ["-o", f"ControlPersist={PERSIST}"]
    return options


def link(
    settings: Settings, host: KnownHost, words: Sequence[str], *, agent: str = "", asks: bool
) -> list[str]:
    """The command whose standard input and output are a link. `agent` is the agent session that asks."""
    if host.command:
        return _by_command(host, words, agent)
    command = [*program(settings), "-T", "-a", "-x", *_options(settings, host.destination, asks=asks)]
    return [*command, "--", check_destination(host.destination), far_command(host, words, agent=agent)]


def _by_command(host: KnownHost, words: Sequence[str], agent: str) -> list[str]:
    """The command for a host that is not reached by ssh. Nothing can tell such a host that an agent asks, so
    agents may not ask there at all."""
    if agent:
        raise SettingError(f"{host.name} is reached by a command, and agents' commands may not run it")
    return [*shlex.split(host.command), "link", *map(quoted, words)]


def there(
    settings: Settings, host: KnownHost, words: Sequence[str], *, terminal: bool, agent: str = ""
) -> list[str]:
    """The command that runs `fairlead WORDS…` there, at a terminal if we are at one."""
    if host.command:
        return _by_command(host, ["run", *words], agent)
    options = _options(settings, host.destination, asks=True)
    command = [*program(settings), "-t" if terminal else "-T", *options]
    return [
        *command,
        "--",
        check_destination(host.destination),
        far_command(host, ["run", *words], agent=agent, terminal=terminal),
    ]


def script(settings: Settings, host: KnownHost, size: int, *, asks: bool) -> list[str]:
    """The command that runs a script there: the first bytes of its standard input."""
    command = [*program(settings), "-T", "-a", "-x", *_options(settings, host.destination, asks=asks)]
    return [
        *command,
        "--",
        check_destination(host.destination),
        f"exec sh -c 'eval \"$(dd bs=1 count={size} 2>/dev/null)\"'",
    ]


def far_command(host: KnownHost, words: Sequence[str], *, agent: str = "", terminal: bool = False) -> str:
    """What the shell there gets: one quoted word for sh, in which nothing of ours is left to be interpreted.

    Where a login gets its PATH from a file that only its interactive shells read, fairlead is looked for in
    the usual places. If there is none, or one that knows no links, that is said as a link's greeting, or in
    words if a person reads it at a terminal.
    """
    found = _path(host.program)
    said = f"echo; echo {MARK.decode()} {PROTOCOL}"
    old, missing = f'{said} {OLD} "$v"', f"{said} {MISSING}"
    if terminal:
        how = f"fairlead host install {host.name}"
        old, missing = f'echo "$v is too old: {how}" >&2', f'echo "no fairlead there: {how}" >&2'
    mark = f"FAIRLEAD_AGENT={quoted(agent)}; export FAIRLEAD_AGENT; " if agent else ""
    far = " ".join(["link", *map(quoted, words)])
    tell = f'v=$("$f" --version 2>/dev/null); {old}'
    if words[0] == "run":  # whose exit code may be any
        begin = f'if [ "$("$f" link check 2>/dev/null)" = {PROTOCOL} ]; then exec "$f" {far}; fi; '
        begin += f"{tell}; exit 126"
    else:
        begin = f'"$f" {far}; c=$?; if [ "$c" = 2 ]; then {tell}; fi; exit "$c"'
    return (
        "exec sh -c '"
        'PATH="$PATH:$HOME/.local/bin:$HOME/bin:/usr/local/bin:/opt/homebrew/bin"; export PATH; '
        f'{mark}f="{found}"; if command -v "$f" >/dev/null 2>&1; then :; else {missing}; exit 127; fi; '
        f"{begin}"
        "'"
    )


def _path(given: str) -> str:
    path = check_program(given) or "fairlead"
    return f"$HOME/{path[2:]}" if path.startswith("~/") else path


def end_shared(settings: Settings, host: KnownHost) -> None:
    """Close the shared connection to a host, if there is one of ours. Never raises, and waits little."""
    path = "" if host.command else _control_path(settings, host.destination)
    if path and os.path.exists(path):
        command = [*program(settings), "-O", "exit", "-o", f"ControlPath={path}", "--", host.destination]
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=CONFIG_WAIT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            pass


def ignoring_keys(command: Sequence[str]) -> list[str]:
    """The command, deaf to the keys that interrupt: ^C at our terminal is not for it."""
    names = " ".join(each.name[3:] for each in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP))
    return ["/bin/sh", "-c", f"trap '' {names}; exec \"$@\"", "sh", *command]
