"""Every place and limit that a user can set, with its one default.

A value comes from the environment, else from the configuration file, else from `DEFAULTS`; a command's flag
is stronger than all. `key` of `[section]` in the file is FAIRLEAD_SECTION_KEY in the environment. The three
places have names of their own: FAIRLEAD_RUNTIME_DIR, FAIRLEAD_STATE_DIR, FAIRLEAD_CONFIG. It imports little,
because every command begins with it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

DEFAULTS: Mapping[str, Mapping[str, int | float | str]] = {
    "terminal": {
        "scrollback_lines": 10_000,
        "scrollback_bytes": 4 * 1024 * 1024,
        "max_sessions": 1000,
        "max_connections": 256,  # clients of one session
        "keep_ended": 600.0,  # seconds that an ended session can still be looked at
        "keep_waiting": 86_400.0,  # seconds that a session waits for its first writer
        "stop_grace": 5.0,  # seconds between SIGTERM and SIGKILL
        "client_backlog": 4 * 1024 * 1024,  # bytes that a slow client may be behind before it is resynced
    },
    "attach": {
        "escape": "ctrl-\\ or ,,,d",  # the keys that leave a session; see client/escape.py
        "hint": "true",  # whether attaching tells the name and the way out
        "screen": "alternate",  # or "main": the session's lines go to the terminal's own scrollback
        "clipboard": "false",  # whether programs may set the clipboard of those attached
        "notifications": "false",  # whether they may show notifications on their desktops
    },
    "daemon": {
        "restart_pause": 0.5,  # seconds until one that died soon is started again
        "hang_seconds": 30.0,  # seconds without a sign of life after which it is replaced; 0 is never
        "answer_seconds": 10.0,  # seconds until a client takes one that does not answer for hung
        "log_bytes": 4 * 1024 * 1024,  # how long the log may get before it is rotated; 0 is without end
        "log_count": 3,  # how many older logs are kept
    },
    "rpc": {"max_connections": 256},
    "verifier": {"max_loops": 3},  # how often a turn is sent back before a person is called
    "passepartout": {
        "enabled": "true",
        "port": 9105,  # 0 takes any that is free
        "max_connections": 600,
        "max_characters": 256 * 1024,  # of one frame; the protocol itself can't say more than 0xFFFFFF
        "max_tokens": 2000,  # atoms and brackets of one frame; what a text says is one atom
        "idle": 86_400.0,  # seconds after which a client that says nothing is let go
    },
    "control": {
        "heartbeat": 60.0,  # seconds between heartbeats; 0 is none
        "session": "control",  # the agent session that is talked to if a client names none
    },
}


_NAN = float("nan")
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class SettingError(Exception):
    """A setting that makes no sense, or a place that is not safe."""


class Settings:
    """The settings that hold in an environment."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.environ = environ
        self._file: Mapping[str, object] | None = None
        self.runtime_dir = environ.get("FAIRLEAD_RUNTIME_DIR") or _runtime_dir(environ)
        state = _home_dir(environ, "XDG_STATE_HOME", ".local/state")
        config = _home_dir(environ, "XDG_CONFIG_HOME", ".config")
        self.state_dir = environ.get("FAIRLEAD_STATE_DIR") or state
        self.config_path = environ.get("FAIRLEAD_CONFIG") or f"{config}/config.toml"

    @property
    def keepers_dir(self) -> str:
        return f"{self.runtime_dir}/keepers"

    @property
    def nursery_path(self) -> str:
        return f"{self.runtime_dir}/nursery.sock"

    @property
    def rpc_path(self) -> str:
        return f"{self.runtime_dir}/rpc.sock"

    @property
    def ended_path(self) -> str:
        """Where our own clients find sessions whose program has ended; keepty's find only running ones."""
        return f"{self.runtime_dir}/ended.sock"

    @property
    def passepartout_path(self) -> str:
        return f"{self.runtime_dir}/passepartout.sock"

    @property
    def token_path(self) -> str:
        """The token that proves our user to the Passepartout door where sockets don't tell."""
        return f"{self.state_dir}/passepartout.token"

    @property
    def recordings_dir(self) -> str:
        return f"{self.state_dir}/recordings"

    @property
    def lock_path(self) -> str:
        return f"{self.runtime_dir}/daemon.lock"

    @property
    def log_path(self) -> str:
        return f"{self.state_dir}/daemon.log"

    @property
    def sessions_dir(self) -> str:
        """The journals of agent sessions."""
        return f"{self.state_dir}/sessions"

    @property
    def reports_path(self) -> str:
        """What verifiers have said."""
        return f"{self.state_dir}/reports.db"

    @property
    def verifier_dir(self) -> str:
        """Where the sockets for verifiers are: Pi's own place, unless it is set."""
        found = self.environ.get("FAIRLEAD_VERIFIER_DIR") or self.section("verifier").get("dir")
        return str(found) if found else "/tmp/pi-verifier"

    @property
    def config(self) -> Mapping[str, object]:
        """The whole configuration file."""
        if self._file is None:
            self._file = _read(self.config_path)
        return self._file

    def check(self) -> None:
        """Raise SettingError for the first value in the environment or the file that makes no sense, so that
        it is found when the daemon starts and not when the value is first used."""
        for section, keys in DEFAULTS.items():
            for key, default in keys.items():
                if not isinstance(default, str):
                    self.number(section, key)
                elif default in (*_YES, *_NO):
                    self.flag(section, key)
                else:
                    self.text(section, key)

    def number(self, section: str, key: str) -> float:
        """A setting that is a number."""
        found, where = self._value(section, key)
        try:
            number = _NAN if isinstance(found, bool) else float(found)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = _NAN
        if not abs(number) < float("inf"):
            raise SettingError(f"{where} must be a number, not {found!r}")
        if number < 0:
            raise SettingError(f"{where} must not be negative: {found}")
        return number

    def count(self, section: str, key: str) -> int:
        """A setting that is a whole number."""
        return int(self.number(section, key))

    def text(self, section: str, key: str) -> str:
        """A setting that is a text."""
        found, where = self._value(section, key)
        if not isinstance(found, str) or not found.strip():
            raise SettingError(f"{where} must be a text, not {found!r}")
        return found

    def flag(self, section: str, key: str) -> bool:
        """A setting that is true or false."""
        found, where = self._value(section, key)
        word = str(found).lower()
        if word not in (*_YES, *_NO):
            raise SettingError(f"{where} must be true or false, not {found!r}")
        return word in _YES

    def _value(self, section: str, key: str) -> tuple[object, str]:
        """A setting's value, and where it comes from, for messages."""
        name = f"FAIRLEAD_{section}_{key}".upper()
        if (value := self.environ.get(name)) is not None:
            return value, name
        found = self.section(section).get(key, DEFAULTS[section][key])
        return found, f"{self.config_path}: [{section}] {key}"

    def section(self, section: str) -> Mapping[str, object]:
        """A table of the configuration file; empty if it is not there."""
        found = self.config.get(section, {})
        if not isinstance(found, Mapping):
            raise SettingError(f"{self.config_path}: [{section}] must be a table")
        return found


def tables_from(value: object, kind: type[T], where: str, limit: int) -> tuple[T, ...]:
    """A list of tables of the configuration as structs. Raises ValueError that says which one is wrong."""
    import msgspec

    if not isinstance(value, list):
        raise ValueError(f"{where} must be a list of tables")
    if len(value) > limit:
        raise ValueError(f"{where}: at most {limit} rules, not {len(value)}")
    found = []
    for number, each in enumerate(value, 1):
        try:
            found.append(msgspec.convert(each, kind))
        except (msgspec.ValidationError, ValueError) as error:
            raise ValueError(f"{where}, number {number}: {error}") from None
    return tuple(found)


def cache_dir(environ: Mapping[str, str]) -> str:
    """Where things are kept that can be made again."""
    return _home_dir(environ, "XDG_CACHE_HOME", ".cache")


def _runtime_dir(environ: Mapping[str, str]) -> str:
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return f"{runtime}/fairlead"
    return f"{(environ.get('TMPDIR') or '/tmp').rstrip('/')}/fairlead-{os.getuid()}"


def _home_dir(environ: Mapping[str, str], variable: str, default: str) -> str:
    base = environ.get(variable) or f"{environ.get('HOME') or os.path.expanduser('~')}/{default}"
    return f"{base}/fairlead"


def _read(path: str) -> Mapping[str, object]:
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingError(f"can't read {path}: {error.strerror}") from None
    import tomllib

    with file:
        try:
            return tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingError(f"{path}: {error}") from None


def safe_dir(path: str) -> str:
    """The directory, made if need be, that only our user can enter. Refuses a foreign one, or a link."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
    except OSError as error:
        raise SettingError(f"can't make {path}: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise SettingError(f"{path} is not a directory; a link there is not safe")
    if found.st_uid != os.getuid():
        raise SettingError(f"{path} belongs to another user")
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)
    return path
