"""What a verifier's commands can see of this machine: the project and what is needed to run it, no secrets.

A sandbox hides the places listed here and shows again what `NEEDED_IN_HOME` names; without a sandbox `Sight`
judges each path that a command names. Variables that commands get are listed here, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ...system.opening import read_file
from ...system.repository import GitFault, NoRepository, Shadow, repository_of
from ...system.tree import LEFT_OUT

MAX_WALKED = 50_000
"""How many files of a project are looked at for secrets, and of homes for other names of its files,"""
MAX_COVERED = 500
"""and how many of them are covered; with more no command is run."""
MAX_COMPARED = 1024 * 1024
"""How many bytes a file has at most that is compared with what git has."""
SHA1_DIGITS = 40
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
GIT_SECRETS = frozenset({"config", "config.worktree", "credentials"})
"""Files of a git directory that may have passwords in them."""
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


class Secrets(NamedTuple):
    """What is hidden of a project."""

    names: tuple[str, ...] = ()
    """Files, by their paths from the project,"""
    of_git: tuple[str, ...] = ()
    """and files of its git directories that have addresses with passwords in them, whole paths."""


def secrets_in(project: Path, is_secret: Callable[[Path], bool], hidden: Iterable[str] = ()) -> Secrets:
    """The files of a project that may hold secrets. It reads: use a thread.

    A file that is in git just as it is here is none. Another name (a hard link) for a hidden file of a home,
    or of `hidden`, is one.
    """
    named, linked, repositories = [], dict[tuple[int, int], list[str]](), list[str]()
    count = 0
    for directory, below, names in os.walk(project):
        if ".git" in below:
            repositories.append(f"{directory}/.git")
        below[:] = sorted(set(below) - LEFT_OUT)
        for name in names[: MAX_WALKED - count]:
            path = os.path.join(directory, name)
            with contextlib.suppress(OSError):
                found = os.lstat(path)
                if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
                    linked.setdefault((found.st_dev, found.st_ino), []).append(path)
            if is_secret(Path(path)):
                named.append(os.path.relpath(path, project))
        count += len(names)
        if count >= MAX_WALKED:
            break
    same = [os.path.relpath(path, project) for path in _other_names(linked, hidden)]
    repositories += _git_directories(project)
    configured = [each for place in dict.fromkeys(repositories) for each in _configured(place)]
    return Secrets(tuple(dict.fromkeys((*_not_in_git(project, named), *same))), tuple(configured))


def _not_in_git(project: Path, names: list[str]) -> list[str]:
    """Those of the files that git does not have as they are."""
    if not names:
        return []
    try:
        with Shadow(project) as shadow:
            listed = shadow.run("ls-files", "-z", "--stage").decode("utf-8", "surrogateescape").split("\0")
            top = os.path.relpath(project, shadow.root)
    except (NoRepository, GitFault):
        return names
    kept = {os.path.relpath(path, top): facts.split(" ") for facts, _, path in _parted(listed)}
    return [name for name in names if name not in kept or not _is_blob(project / name, kept[name][1])]


def _parted(listed: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    return (each.partition("\t") for each in listed if each)


def _is_blob(path: Path, hash: str) -> bool:
    """Whether a file is the object that git has."""
    try:
        if path.is_symlink() or path.stat().st_size > MAX_COMPARED:
            return False
        data = read_file(path, MAX_COMPARED)
    except OSError:
        return False
    digest = hashlib.sha1 if len(hash) == SHA1_DIGITS else hashlib.sha256
    return digest(b"blob %d\0%s" % (len(data), data)).hexdigest() == hash


def _other_names(linked: Mapping[tuple[int, int], list[str]], hidden: Iterable[str]) -> Iterator[str]:
    """Those of the files, by device and inode, that have another name in a hidden place."""
    if not linked:
        return
    inodes = {inode for _, inode in linked}
    shown = [os.path.join(home, name) for home in homes() for name in (*NEEDED_IN_HOME, ".cache")]
    waiting = [*hidden, *(each for home in homes() for each in dotted(home) if each not in shown)]
    count = 0
    while waiting and count < MAX_WALKED:
        place = waiting.pop()
        try:
            entries = list(os.scandir(place)) if os.path.isdir(place) else []
            found = os.lstat(place)
        except OSError:
            continue
        yield from linked.get((found.st_dev, found.st_ino), ())
        for entry in entries:
            if entry.path not in shown and (entry.is_dir(follow_symlinks=False) or entry.inode() in inodes):
                waiting.append(entry.path)
        count += len(entries) + 1


def _git_directories(project: Path) -> list[str]:
    """The git directory of the repository that a project is in, and the one that it shares with others."""
    try:
        return [os.path.realpath(each) for each in repository_of(project)[1:]]
    except (NoRepository, OSError):
        return []


def _configured(place: str) -> Iterator[str]:
    """The files of a git directory in which addresses with passwords are kept."""
    for directory, below, names in islice(os.walk(place), MAX_WALKED):
        if directory == place or "objects" in below:  # a git directory, perhaps that of a submodule
            below[:] = [each for each in below if each in ("modules", "worktrees")]
        yield from (f"{directory}/{name}" for name in names if name in GIT_SECRETS)


class Sight:
    """Which paths a command may name where no sandbox hides the others."""

    def __init__(self, project: Path, shown: Sequence[Path] = (), secrets: Sequence[str] = ()) -> None:
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
            if ".git" in real.split("/"):
                return f"{place} is of git itself, which may keep passwords there"
            if not self._is_seen(real):
                return f"{place} is outside of the project"
        return ""

    def _is_seen(self, real: str) -> bool:
        inside = max((len(root) for root in self._shown if is_within(real, root)), default=0)
        hidden = max((len(place) for place in self._hidden if is_within(real, place)), default=0)
        if inside or hidden:
            return inside > hidden  # the nearer of two that are in each other counts
        return any(is_within(real, root) for root in READABLE)
