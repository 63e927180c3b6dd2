"""The values of every place and limit that a user can set.

A value comes from the environment, else from the configuration file, else from `setting_table`; a command's
flag is stronger than all. `key` of `[section]` in the file is FAIRLEAD_SECTION_KEY in the environment. The
three places have names of their own: FAIRLEAD_RUNTIME_DIR, FAIRLEAD_STATE_DIR, FAIRLEAD_CONFIG. It imports
little, because every command begins with it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from .setting_table import AGENT_KEYS, DEFAULTS, MCP_KEYS, MODEL_KEYS, PROVIDER_KEYS, SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

USUAL_KEYS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY",),
}
"""The variables that usually hold a provider's key."""
AGENT_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "claude": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    "codex": ("OPENAI_API_KEY", "CODEX_API_KEY"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "opencode": ("OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
    "goose": ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
    "pi": ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
}
"""The variables that usually hold the keys of third-party agents."""
LISTS = ("escape",)
"""Texts that the file may also have as a list."""
MAX_CONFIG = 128 * 1024
"""How many bytes the configuration file may have: the daemon reads it while it serves."""

_NAN = float("nan")
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


HOST_VARIABLE = "FAIRLEAD_HOST"
LOCAL = "local"
"""The name of this host, beside those of others."""
chosen_host: str | None = None
"""Set by a command that is given a host: which one settings are for that are given none. Stronger than
FAIRLEAD_HOST, and empty for this one."""
unread: Callable[[str], None] | None = None
"""Set by a command: gets the reason, once, if the file can't be read or has a mistake in what is used of it;
then defaults hold. If nobody sets it, that raises SettingError."""


class SettingError(Exception):
    """A setting that makes no sense, or a place that is not safe."""


class Settings:
    """The settings that hold in an environment."""

    def __init__(self, environ: Mapping[str, str] = os.environ, *, host: str | None = None) -> None:
        """`host` is the one whose daemon is meant, if it is not that of the command or FAIRLEAD_HOST."""
        self.environ = environ
        given = (chosen_host, environ.get(HOST_VARIABLE)) if host is None else (host,)
        named = next((each for each in given if each is not None), "")
        self.host = "" if named == LOCAL else named
        """The host whose daemon is meant; empty for this one. Places and values are always those of here."""
        self._file: Mapping[str, object] | None = None
        self._data = b""
        self._mark: tuple[int, ...] = ()
        self._is_strict = False  # whether mistakes are errors here, though a command could do without
        self._rooms: list[Callable[[Settings], Callable[[], None]]] = []
        self.fault = ""
        """Why the file, which was changed, can't be used; what it said before holds."""
        state = _home_dir(environ, "XDG_STATE_HOME", ".local/state")
        config = _home_dir(environ, "XDG_CONFIG_HOME", ".config")
        self.state_dir = environ.get("FAIRLEAD_STATE_DIR") or state
        self.config_path = environ.get("FAIRLEAD_CONFIG") or f"{config}/config.toml"
        self.runtime_dir = environ.get("FAIRLEAD_RUNTIME_DIR") or self._runtime_dir()

    def _runtime_dir(self) -> str:
        """Where the daemon is, or would be. Who is told nothing of it goes to the one that runs."""
        if runtime := self.environ.get("XDG_RUNTIME_DIR"):
            return f"{runtime}/fairlead"
        from .whereabouts import find_whereabouts

        if (found := find_whereabouts(self.state_dir)) is not None:
            if found[1]:
                self.environ = {**self.environ, "XDG_RUNTIME_DIR": found[1]}
            return found[0]
        return f"{(self.environ.get('TMPDIR') or '/tmp').rstrip('/')}/fairlead-{os.getuid()}"

    @property
    def keepers_dir(self) -> str:
        return f"{self.runtime_dir}/keepers"

    @property
    def pipes_dir(self) -> str:
        """The sockets of keepers of pipes, which daemons that know only PTYs must not find."""
        return f"{self.runtime_dir}/pipes"

    @property
    def spill_dir(self) -> str:
        """Where keepers of pipes have on disk what memory can't hold."""
        return f"{self.state_dir}/hosted"

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
    def good_path(self) -> str:
        """The last configuration that a daemon could use."""
        return f"{self.state_dir}/config.good.toml"

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
    def keepty_dir(self) -> str:
        """Our own directory for the sockets of terminal sessions, where all users share keepty's."""
        return f"{self.runtime_dir}/keepty"

    @property
    def verifier_dir(self) -> str:
        """Where builders of others have their sockets: Pi's own place, unless it is set."""
        return self._set_verifier_dir or self.text("verifier", "shared_dir")

    @property
    def verifier_dirs(self) -> tuple[str, ...]:
        """Where our sockets for verifiers are: our own directory and Pi's place, unless one is set."""
        return (
            (self._set_verifier_dir,)
            if self._set_verifier_dir
            else (
                f"{self.runtime_dir}/verifier",
                self.verifier_dir,
            )
        )

    @property
    def _set_verifier_dir(self) -> str:
        found = self.environ.get("FAIRLEAD_VERIFIER_DIR") or self.section("verifier").get("dir")
        return str(found) if found else ""

    @property
    def config(self) -> Mapping[str, object]:
        """The whole configuration file."""
        if self._file is None:
            try:
                self._load()
            except SettingError as error:
                self._do_without(error)
                self._file = {}
        assert self._file is not None
        return self._file

    def _do_without(self, error: SettingError) -> None:
        """Tell of a mistake in the file, if this is a command that can do with defaults; else raise it."""
        global unread
        if unread is None or self._is_strict:
            raise error
        tell, unread = unread, lambda why: None
        tell(str(error))

    def _load(self) -> None:
        self._mark = _mark(self.config_path)
        self._data = _read(self.config_path)
        self._file = _parsed(self._data, self.config_path)

    def keep(self) -> None:
        """Keep a copy of the file, which is good, for a daemon that starts when it is not any more."""
        try:
            with open(self.good_path, "rb") as file:
                if file.read(MAX_CONFIG + 1) == self._data:
                    return
        except OSError:
            pass
        fresh = f"{self.good_path}.{os.getpid()}"
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(self._data)
            os.replace(fresh, self.good_path)
        except OSError as error:
            raise SettingError(f"can't write {self.good_path}: {error.strerror}") from None

    def fall_back(self, error: SettingError) -> None:
        """Use the last good copy of the file, which has this mistake now. Raises it if there is no copy, or
        the mistake is in the environment."""
        if not os.path.exists(self.good_path):
            raise error
        self._mark = _mark(self.config_path)
        try:
            self._file = _parsed(_read(self.good_path), self.good_path)
            self._check()
        except SettingError:
            raise error from None
        self.fault = str(error)

    def joined(self, room: Callable[[Settings], Callable[[], None]]) -> None:
        """Let a room know when the file changes. It gets the new settings, raises SettingError if it can't
        work with them, and gives what is to be called when nobody else objects either."""
        self._rooms.append(room)

    def refresh(self) -> None:
        """Read the file again if it changed. One that makes no sense changes nothing; `fault` tells of it."""
        mark = _mark(self.config_path)
        if self._file is None or mark == self._mark:
            return
        self._mark = mark
        fresh = Settings(self.environ)
        try:
            fresh.check()
            takes = [room(fresh) for room in self._rooms]
        except SettingError as error:
            self.fault = str(error)
            return
        self.fault = ""
        self._file, self._data = fresh.config, fresh._data
        with suppress(SettingError):  # a full disk must not keep it from being used
            self.keep()
        for take in takes:
            take()

    def check(self) -> None:
        """Raise SettingError for the first value in the environment or the file that makes no sense, so that
        it is found when the daemon starts and not when the value is first used."""
        self._is_strict = True
        self._load()
        self._check()

    def _check(self) -> None:
        self._check_names()
        for section, keys in DEFAULTS.items():
            for key, default in keys.items():
                if not isinstance(default, str):
                    self.number(section, key)
                elif default in (*_YES, *_NO):
                    self.flag(section, key)
                elif not (key in LISTS and _is_texts(self.section(section).get(key))):
                    self.text(section, key)
        from .escape_keys import escapes_of

        try:
            escapes_of(self)
        except SettingError as error:
            raise self.located(error) from None

    def _check_names(self) -> None:
        """Raise SettingError for the first section or key of the file that there is none of."""
        for section, table in self.config.items():
            if section == "models" or (section in _NAMED and isinstance(table, Mapping)):
                tables = table.items() if isinstance(table, Mapping) else enumerate(_listed(table), 1)
                known = _NAMED.get(section, MODEL_KEYS)
                for name, inner in tables:
                    if isinstance(inner, Mapping):
                        self._check_keys((section, str(name)), inner, known)
                continue
            keys = known_keys(section)
            if not keys:
                raise self._unknown((section,), f"section [{section}]", SECTIONS)
            if isinstance(table, Mapping):
                self._check_keys((section,), table, keys)

    def _check_keys(self, path: tuple[str, ...], table: Mapping[str, object], known: Collection[str]) -> None:
        for key in table:
            if key not in known:
                name = "[[models]]" if path[0] == "models" else f"[{'.'.join(path)}]"
                raise self._unknown((*path, key), f"setting {key!r} in {name}", known)

    def _unknown(self, path: tuple[str, ...], what: str, known: Collection[str]) -> SettingError:
        hint = _meant(path[-1], known) or f"; known are {', '.join(known)}"
        return SettingError(f"{self.place_of(*path)}: unknown {what}{hint}")

    def place_of(self, *path: str) -> str:
        """The file and the line where something is set, for messages."""
        line = self.line_of(*path)
        return f"{self.config_path}, line {line}" if line else self.config_path

    def line_of(self, *path: str) -> int | None:
        """The line of the file that sets something, if it does."""
        from .config_file import lines_of

        try:
            with open(self.config_path, encoding="utf-8") as file:
                return lines_of(file.read(MAX_CONFIG)).get(path)
        except (OSError, ValueError):
            return None

    def located(self, error: Exception) -> SettingError:
        """The error with its line in the file, if it begins with a table in brackets, as others write it; or
        with the variable that sets it instead."""
        import re

        found = re.match(
            r"\[\[?([\w.-]+?)\]\]?(?: (\w+))?(?:, number (\d+))?(?:: (\w+) must be )?", str(error)
        )
        if found is None:
            return SettingError(f"{self.config_path}: {error}")
        if found[2] and self.environ.get(name := variable_of(found[1], found[2])) is not None:
            return SettingError(str(error).replace(f"[{found[1]}] {found[2]}", name, 1))
        table = tuple(found[1].split(".", 1))
        paths = [table, (*table, found[2])] if found[2] else [table]
        for deeper in found.groups()[2:]:
            paths += [(*paths[-1], deeper)] if deeper else []
        lines = [self.line_of(*path) for path in reversed(paths)]
        line = next((line for line in lines if line), None)
        place = f"{self.config_path}, line {line}" if line else self.config_path
        return SettingError(f"{place}: {error}")

    def number(self, section: str, key: str) -> float:
        """A setting that is a number."""
        found, where = self._value(section, key)
        try:
            number = _NAN if isinstance(found, bool) else float(found)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = _NAN
        if not 0 <= number < float("inf"):
            is_negative = number < 0 and number > -float("inf")
            why = f"must not be negative: {found}" if is_negative else f"must be a number, not {found!r}"
            number = float(self._usual(section, key, where, why))
        return number

    def count(self, section: str, key: str) -> int:
        """A setting that is a whole number."""
        return int(self.number(section, key))

    def text(self, section: str, key: str) -> str:
        """A setting that is a text."""
        found, where = self._value(section, key)
        if not isinstance(found, str) or not found.strip():
            return str(self._usual(section, key, where, f"must be a non-empty string, not {found!r}"))
        return found

    def flag(self, section: str, key: str) -> bool:
        """A setting that is true or false."""
        found, where = self._value(section, key)
        word = str(found).lower()
        if word not in (*_YES, *_NO):
            word = str(self._usual(section, key, where, f"must be true or false, not {found!r}"))
        return word in _YES

    def _usual(self, section: str, key: str, where: str, why: str) -> int | float | str:
        """The default in place of a value that makes no sense, where a command can do with it."""
        error = SettingError(f"{where} {why}")
        if not where.startswith("["):  # the environment is of whoever gave this command
            raise error
        self._do_without(self.located(error))
        return DEFAULTS[section][key]

    def _value(self, section: str, key: str) -> tuple[object, str]:
        """A setting's value, and where it comes from, for messages."""
        name = variable_of(section, key)
        if (value := self.environ.get(name)) is not None:
            return value, name
        found = self.section(section).get(key, DEFAULTS[section][key])
        return found, f"[{section}] {key}"

    def section(self, section: str) -> Mapping[str, object]:
        """A table of the configuration file; empty if it is not there."""
        found = self.config.get(section, {})
        if not isinstance(found, Mapping):
            self._do_without(SettingError(f"{self.place_of(section)}: [{section}] must be a table"))
            return {}
        return found


_NAMED = {"providers": PROVIDER_KEYS, "agents": AGENT_KEYS, "mcp_servers": MCP_KEYS}
"""Sections of tables that have names, and their keys."""
SECTIONS = (*SETTINGS, *_NAMED, "models")
"""The sections that the file may have."""


def known_keys(section: str) -> tuple[str, ...]:
    """The keys of a section, but for those of tables in it."""
    return tuple(SETTINGS.get(section, ()))


def variable_of(*path: str) -> str:
    """The environment variable of a setting.

    >>> variable_of("agent", "model")
    'FAIRLEAD_AGENT_MODEL'
    """
    return "_".join(["FAIRLEAD", *path]).upper().replace("-", "_").replace(".", "_")


def key_names(settings: Settings) -> list[str]:
    """The variables with keys of providers and of agents that an environment has: their names alone."""
    usual = (*USUAL_KEYS.values(), *AGENT_VARIABLES.values())
    names = {name for names in usual for name in names}
    try:
        tables = (*settings.section("providers").values(), *settings.section("agents").values())
    except SettingError:
        tables = ()
    for table in tables:
        if isinstance(table, Mapping):
            named = [table.get("key_env"), *_listed(table.get("keys"))]
            names |= {name for name in named if isinstance(name, str)}
    return sorted(name for name in names if settings.environ.get(name, "").strip())


def _meant(word: str, words: Collection[str]) -> str:
    """As `formats.guess.meant`, which is not for this room."""
    from difflib import get_close_matches

    near = get_close_matches(word, words, 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _mark(path: str) -> tuple[int, ...]:
    """What changes when a file is written, replaced or removed."""
    try:
        found = os.stat(path)
    except OSError:
        return (0,)
    return found.st_mtime_ns, found.st_ino, found.st_size


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
            raise ValueError(f"{where}, number {number}: {explained(error, kind)}") from None
    return tuple(found)


MAX_WORD = 80
"""How many characters of a wrong word are compared and shown."""
_TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "",
}


def explained(error: Exception, kind: type) -> str:
    """What is wrong with a table that should be a struct, in the words of who wrote it; no value but that of
    a choice is shown, as it may be a key."""
    import re
    from typing import get_args, get_type_hints

    found = re.fullmatch(r"(.*?)(?: - at `\$\.?(\w*)[^`]*`)?", str(error), re.DOTALL)
    assert found is not None
    fault, key = found[1], found[2] or ""
    if choice := re.fullmatch(r"Invalid enum value '(.*)'", fault, re.DOTALL):
        inner = [get_args(each) or (each,) for each in get_args(get_type_hints(kind).get(key))]
        choices = [str(each) for some in inner for each in some if isinstance(each, str)]
        hint = _meant(choice[1][:MAX_WORD], choices)
        return f"{key} must be one of {', '.join(choices)}, not {choice[1][:MAX_WORD]!r}{hint}"
    if types := re.fullmatch(r"Expected `(.*)`, got `(.*)`", fault):
        wanted = " or ".join(word for each in types[1].split(" | ") if (word := _TYPES.get(each, each)))
        return f"{key} must be {wanted}, not {_TYPES.get(types[2]) or types[2]}".lstrip()
    if field := re.fullmatch(r"Object (missing required|contains unknown) field `(.*)`", fault):
        return f"missing setting {field[2]}" if field[1][0] == "m" else f"unknown setting {field[2]}"
    return str(error)


def cache_dir(environ: Mapping[str, str]) -> str:
    """Where things are kept that can be made again."""
    return _home_dir(environ, "XDG_CACHE_HOME", ".cache")


def _home_dir(environ: Mapping[str, str], variable: str, default: str) -> str:
    base = environ.get(variable) or f"{environ.get('HOME') or os.path.expanduser('~')}/{default}"
    return f"{base}/fairlead"


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_CONFIG + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise SettingError(f"can't read {path}: {error.strerror}") from None
    if len(data) > MAX_CONFIG:
        raise SettingError(f"{path} is larger than {MAX_CONFIG} bytes")
    return data


def _parsed(data: bytes, path: str) -> Mapping[str, object]:
    if not data:
        return {}
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: {error}") from None


def _make_all(path: str) -> None:
    """Make a directory and those above it for our user alone; `os.makedirs` makes only the last one so."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path.rstrip("/"))
    if above and not os.path.isdir(above):
        _make_all(above)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:  # what it is, is looked at by who wants it
        pass


def safe_dir(path: str) -> str:
    """The directory, made if need be, that only our user can enter. Refuses a foreign one, or a link."""
    try:
        _make_all(path)
        found = os.lstat(path)
    except OSError as error:
        raise SettingError(f"can't create {path}: {error.strerror}") from None
    if why := _foreign(path, found):
        raise SettingError(why)
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)
    return path


def foreign(path: str) -> str:
    """Why a directory that any user may have made is not ours to use; empty if it is, or is not there."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"can't access {path}: {error.strerror}"
    return _foreign(path, found)


def _foreign(path: str, found: os.stat_result) -> str:
    if not stat.S_ISDIR(found.st_mode):
        return f"{path} is not a directory; a symbolic link is not accepted"
    if found.st_uid == os.getuid():
        return ""
    import pwd

    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        owner = str(found.st_uid)
    return f"{path} belongs to another user, {owner}"
