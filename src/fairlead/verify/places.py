"""What a verifier's commands can see of this machine: the project and what is needed to run it, no secrets.

A sandbox hides the places listed here and shows again what `NEEDED_IN_HOME` names; without a sandbox `Sight`
judges each path that a command names. Variables that commands get are listed here, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from .repository import GitFault, NoRepository, Shadow
from .tree import walk

MAX_WALKED = 50_000
"""How many files of a project are looked at for secrets,"""
MAX_COVERED = 200
"""and how many of them are covered; with more no command is run."""
MAX_OPTION = 300
"""How many characters a short option with its value may have."""

VARIABLES = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "USER", "LOGNAME", "PYTHONPATH"}
    | {"VIRTUAL_ENV", "NODE_PATH", "JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME"}
    | {"PYENV_ROOT", "NVM_DIR", "PYTHONDONTWRITEBYTECODE", "PAGER", "GIT_PAGER", "GIT_TERMINAL_PROMPT"}
)
"""The variables that a verifier's commands get, if they are set."""

SCRATCH = ("/tmp", "/var/tmp", "/run")
"""Directories that are empty in a sandbox, and its own."""
HIDDEN = (
    *("/home", "/root", "/Users", "/mnt", "/media"),
    *("/var/mail", "/var/spool", "/var/backups"),
    *("/etc/ssl/private", "/etc/ssh", "/etc/sudoers.d", "/etc/wireguard", "/etc/NetworkManager"),
)
"""Directories that may have secrets in them: homes of all users, and what only root should read."""
HIDDEN_FILES = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/krb5.keytab",
)
"""The same for files."""
NEEDED_IN_HOME = (
    *(".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/pipx", ".pyenv"),
    *("miniconda3", "anaconda3", "miniforge3", ".local/share/mise", ".asdf"),
    *(
        ".nvm/versions",
        ".volta/bin",
        ".volta/tools",
        ".npm-global",
        ".local/share/pnpm",
        ".bun/bin",
        ".deno/bin",
    ),
    *(".cargo/bin", ".cargo/registry", ".cargo/git", ".rustup", "go/bin", "go/pkg"),
    *(".sdkman/candidates", ".m2/repository", ".gradle/caches", ".gradle/wrapper"),
    *(".rbenv", ".gem/ruby", ".opam", ".ghcup", ".stack/programs"),
)
"""What is shown of a home all the same, as programs and libraries are there; never what holds credentials."""
READABLE = ("/usr", "/opt")
"""Where a command without a sandbox may read besides the project."""


def is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def bare(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that commands get."""
    return {name: value for name, value in environment.items() if name in VARIABLES}


def homes() -> list[str]:
    """Where our user's own files are, with links followed."""
    names = (
        "HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
        "XDG_RUNTIME_DIR",
    )
    given = [os.environ.get(name, "") for name in names]
    try:
        import pwd

        given.append(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        pass
    return list(dict.fromkeys(os.path.realpath(each) for each in given if each.startswith("/")))


def hidden_directories(more: Iterable[str] = ()) -> list[str]:
    """The directories that a sandbox shows empty, those that are in others left out. Never `/` itself."""
    wanted = dict.fromkeys((*SCRATCH, *HIDDEN, *homes(), *more))
    real = [each for each in wanted if os.path.realpath(each) == each and os.path.isdir(each) and each != "/"]
    return [each for each in real if not any(is_within(each, other) and each != other for other in real)]


def needed(path: str) -> list[str]:
    """What programs need of hidden homes: the named directories, and those of PATH and their venvs."""
    found = [os.path.join(home, name) for home in homes() for name in NEEDED_IN_HOME]
    for each in path.split(os.pathsep):
        if each.startswith("/"):
            real = os.path.realpath(each)
            above = os.path.dirname(real)
            found.append(above if os.path.isfile(f"{above}/pyvenv.cfg") else real)
    own = homes()
    return [
        each
        for each in dict.fromkeys(found)
        if os.path.realpath(each) == each
        and os.path.isdir(each)
        and not any(is_within(home, each) for home in own)  # it would show the home itself
    ]


def dotted(home: str) -> list[str]:
    """The hidden files of a home, for a project that is the home itself."""
    try:
        names = sorted(os.listdir(home))
    except OSError:
        return []
    return [f"{home}/{name}" for name in names if name.startswith(".") and name != ".git"]


def secrets_in(project: Path, is_secret: Callable[[Path], bool]) -> list[str]:
    """The files of a project that may hold secrets. What git keeps anyway is none. It reads: use a thread."""
    found = []
    for number, (name, _) in enumerate(walk(project)):
        if number >= MAX_WALKED:
            break
        if is_secret(project / name):
            found.append(name)
    if not found:
        return []
    tracked: set[str] = set()
    try:
        shadow = Shadow(project)
    except NoRepository:
        return found
    try:
        top = os.path.relpath(project, shadow.root)
        listed = shadow.run("ls-files", "-z", "--full-name").decode("utf-8", "surrogateescape").split("\0")
        tracked = {os.path.relpath(name, top) for name in listed if name}
    except GitFault:
        pass
    finally:
        shadow.close()
    return [name for name in found if name not in tracked]


class Sight:
    """Which paths a command may name where no sandbox hides the others."""

    def __init__(self, project: Path, shown: Sequence[Path] = (), secrets: Collection[str] = ()) -> None:
        """`secrets` are files of the project, by their paths from it."""
        self.secrets = tuple(secrets)
        self._covered = {os.path.realpath(project / each) for each in secrets}
        self._shown = (str(project), *map(str, shown))
        own = homes()
        self._hidden = dotted(str(project)) if str(project) in own else own

    def refusal(self, word: str, cwd: Path) -> str:
        """Why a word is refused: it, or the value in an option, leads to what must not be seen."""
        if word.startswith("-") and not word.startswith("--"):
            if len(word) > MAX_OPTION:
                return f"the option {word[:20]}… is too long"
            places = [word[at:] for at in range(2, len(word))]  # -f/etc/passwd, -rf../x
        elif word.startswith("--"):
            places = [word.partition("=")[2]]
        else:
            places = [word, word.removeprefix("@")]
        return next((why for each in places if each and (why := self._why(each, cwd))), "")

    def _why(self, place: str, cwd: Path) -> str:
        for path in {place, os.path.expanduser(place)}:
            try:
                real = os.path.realpath(cwd / path)
                if not os.path.lexists(cwd / path):
                    continue
            except (OSError, ValueError):
                continue
            if real == os.devnull:
                continue
            if real in self._covered:
                return f"{place} may hold secrets"
            if not self._is_seen(real):
                return f"{place} is outside of the project"
        return ""

    def _is_seen(self, real: str) -> bool:
        inside = max((len(root) for root in self._shown if is_within(real, root)), default=0)
        hidden = max((len(place) for place in self._hidden if is_within(real, place)), default=0)
        if inside or hidden:
            return inside > hidden  # the nearer of two that are in each other counts
        return any(is_within(real, root) for root in READABLE)
