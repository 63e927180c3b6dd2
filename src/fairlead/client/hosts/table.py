"""The hosts that were added here, in a file that only Fairlead writes.

A host has a name, and ssh's name for it. Those of the fleet are not in the table: the fleet knows them. It
imports little, as a command that is given a word with a colon asks whether a host is meant.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ...system.settings import LOCAL, SettingError, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_HOSTS = 500
"""How many hosts the table may have."""
MAX_TABLE = 1024 * 1024
MAX_NAME = 64
MAX_DESTINATION = 255
MAX_COMMAND = 1000
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-")
_PROGRAM = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+@~")


class KnownHost(NamedTuple):
    """A host that is reached by ssh."""

    name: str
    destination: str
    """As ssh takes it: an address, user@address, ssh://… or a name of ssh's own configuration."""
    program: str = ""
    """The path of `fairlead` there, if it is not where it is looked for."""
    added: float = 0.0
    """When it was added, in seconds since 1970."""
    command: str = ""
    """Instead of ssh: what runs `fairlead` there, as in `docker exec -i box fairlead`."""

    @property
    def shown(self) -> str:
        """How it is reached, for people."""
        return self.command or self.destination


def check_name(name: str) -> str:
    """The name of a host. Raises ValueError."""
    if not name or len(name) > MAX_NAME or set(name) - _NAME or name[0] in "._-":
        raise ValueError(
            f"a host's name has up to {MAX_NAME} lower-case letters, digits, dots, dashes and underscores, "
            f"and begins with a letter or digit, not {name[: MAX_NAME + 1]!r}"
        )
    if name == LOCAL:
        raise ValueError(f"{LOCAL!r} is this host")
    return name


def check_destination(destination: str) -> str:
    """What ssh may be given as a destination. Raises ValueError."""
    is_word = destination.isprintable() and not set(destination) & set(" '\"\\`$;&|<>()")
    if not destination or len(destination) > MAX_DESTINATION or destination[0] == "-" or not is_word:
        raise ValueError(
            f"{destination[: MAX_DESTINATION + 1]!r} is nothing that ssh can connect to: give an address, "
            "user@address, or a name of your ~/.ssh/config"
        )
    return destination


def check_command(command: str) -> str:
    """A command that runs fairlead somewhere, in a shell's words. Raises ValueError."""
    import shlex

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{command[:MAX_COMMAND]!r} can't be read: {error}") from None
    if not words or len(command) > MAX_COMMAND or not command.isprintable() or not command.isascii():
        raise ValueError(
            f"a command that runs fairlead has up to {MAX_COMMAND} printable ASCII characters, "
            f"as `docker exec -i box fairlead`, not {command[:MAX_COMMAND]!r}"
        )
    return command


def check_program(program: str) -> str:
    """The path of a program on another host. Raises ValueError."""
    if len(program) > MAX_DESTINATION or set(program) - _PROGRAM or program[:1] in ("-", "@", "+"):
        raise ValueError(
            f"the path of fairlead on another host may have letters, digits and ._-/+@~, not {program!r}"
        )
    return program


def path_of(settings: Settings) -> str:
    return f"{settings.state_dir}/hosts.toml"


def hosts(settings: Settings) -> dict[str, KnownHost]:
    """All hosts of the table, by name, in the order in which they were added. Raises SettingError."""
    path = path_of(settings)
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_TABLE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingError(f"can't read {path}: {error.strerror}") from None
    if len(data) > MAX_TABLE:
        raise SettingError(f"{path} is larger than {MAX_TABLE} bytes")
    import tomllib

    try:
        rows = tomllib.loads(data.decode()).get("hosts", {})
        if not isinstance(rows, dict) or len(rows) > MAX_HOSTS:
            raise ValueError(f"[hosts] must be a table of at most {MAX_HOSTS} hosts")
        return {name: _host(name, row) for name, row in rows.items()}
    except ValueError as error:
        raise SettingError(f"{path}: {error}") from None


def _host(name: str, row: Mapping[str, object]) -> KnownHost:
    destination, program, command, added = (row.get(key, usual) for key, usual in _USUAL)
    if not isinstance(destination, str) or not isinstance(program, str) or not isinstance(command, str):
        raise ValueError(f"[hosts.{name}] needs a destination")
    when = float(added) if isinstance(added, int | float) else 0.0
    return checked(KnownHost(name, destination, program, when, command))


_USUAL = (("destination", ""), ("program", ""), ("command", ""), ("added", 0.0))


def checked(host: KnownHost) -> KnownHost:
    """The host, if all of it makes sense. Raises ValueError."""
    check_name(host.name)
    if host.command:
        check_command(host.command)
    else:
        check_destination(host.destination), check_program(host.program)
    return host


def add(settings: Settings, host: KnownHost) -> None:
    """Write a host down, or write it anew. Raises SettingError or ValueError."""
    checked(host)
    found = hosts(settings)
    if len(found) >= MAX_HOSTS and host.name not in found:
        raise ValueError(f"there are {MAX_HOSTS} hosts already, and no more are possible")
    _write(settings, {**found, host.name: host})


def remove(settings: Settings, name: str) -> KnownHost | None:
    """Take a host out of the table; return it if it was there. Raises SettingError."""
    found = hosts(settings)
    gone = found.pop(name, None)
    if gone is not None:
        _write(settings, found)
    return gone


def _write(settings: Settings, rows: dict[str, KnownHost]) -> None:
    from ...system.files import replace_file
    from ...system.settings import safe_dir

    lines = ["# Written by `fairlead host`."]
    for host in rows.values():
        lines += ["", f'[hosts."{host.name}"]']
        if host.command:
            lines.append(f"command = {_quoted(host.command)}")
        else:
            lines.append(f'destination = "{host.destination}"')
        lines += [f'program = "{host.program}"'] if host.program else []
        lines += [f"added = {host.added:.0f}"]
    path = path_of(settings)
    safe_dir(os.path.dirname(path))
    try:
        replace_file(path, ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise SettingError(f"can't write {path}: {error.strerror}") from None


def _quoted(text: str) -> str:
    """Printable ASCII as a string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def split(word: str, names: Mapping[str, object]) -> tuple[str, str] | None:
    """The host and the session in HOST:SESSION, if there is a host of that name.

    >>> split("workbox:a:b c", {"workbox": ()})
    ('workbox', 'a:b c')
    >>> split("a:b", {"workbox": ()}) is None
    True
    """
    host, colon, session = word.partition(":")
    if not colon or (host != LOCAL and host not in names):
        return None
    return host, session
