"""A project's git repository, looked at without trusting it.

A repository's configuration can make git run programs: filters, external diffs, file system monitors, hooks,
aliases, pagers. So git never sees it here. A `Shadow` is a git directory of our own, in a directory that is
removed afterwards: HEAD, refs and index are copies, objects are read from the real repository and written to
ours, and the configuration is ours but for a few keys that run nothing. The real one is not written to,
except by a `LiveRepository`, whose refs and objects are the real ones.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Self

from ..keeper import masks
from .opening import read_file

GIT_SECONDS = 30.0
"""How long one call of git may take."""
MAX_REFS = 10_000
"""How many loose refs are copied."""
MAX_POINTER = 4096
"""How many bytes are read of a file that says where a git directory is."""
MAX_INDEX = 512 * 1024 * 1024
"""How many bytes the index may have."""
MAX_SMALL_FILE = 64 * 1024 * 1024
"""The same for each other file that is copied."""
MAX_LISTED = 256 * 1024 * 1024
"""How many bytes git may print."""

MAX_ALTERNATES = 1024 * 1024
"""How many bytes a list of further object directories may have,"""
MAX_ALTERNATE_STEPS = 5
"""and how many such lists git follows one after the other."""
MAX_SEARCHED = 200_000
"""How many files and directories are looked at to find out what git waits for,"""
SEARCH_SECONDS = 5.0
"""and for how long."""
MAX_PIPES = 1000
"""How many pipes are remembered that git waited for."""

_KEPT_KEYS = frozenset(
    {"core.autocrlf", "core.eol", "core.filemode", "core.ignorecase", "core.precomposeunicode"}
    | {"core.symlinks", "core.repositoryformatversion", "extensions.objectformat"}
)
"""What is taken from the repository's configuration: keys about how files are stored."""
_CONFIG = """\
[core]
\tbare = false
\thooksPath = /dev/null
\tfsmonitor = false
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tpager = cat
\tlogAllRefUpdates = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[diff]
\tignoreSubmodules = all
[status]
\tsubmoduleSummary = false
[submodule]
\trecurse = false
[commit]
\tgpgSign = false
"""
_SHOWN = "* !diff\n"
"""What git is told about all files, after the repository's own attributes: none of them hides changes."""
BASE = ("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


class NoRepository(Exception):
    """The project is not in a git repository that can be read. Says why."""


_pipes: dict[Path, Path] = {}
"""What git waited for in a working tree: it is not begun again as long as that is there."""


class GitFault(Exception):
    """A call of git that did not work. Says which, and what it said; `code` is how it ended, if it did."""

    def __init__(self, message: str, code: int = -1) -> None:
        super().__init__(message)
        self.code = code


class GitTimeout(GitFault):
    """A call of git that took too long."""


def git_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables for git: none that make it run programs, write, or use a network."""
    kept = {name: environ[name] for name in ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ") if name in environ}
    return {
        **kept,
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
    }


class Shadow:
    """A project's repository as git may see it. Use it in a `with`; raises NoRepository if there is none.

    `at` is where the git directory is made: a temporary directory if nothing is said, else it must not exist
    and stays.
    """

    def __init__(self, project: Path, at: Path | None = None) -> None:
        self.project = project
        self.root, real, common = repository_of(project)
        """The working tree's topmost directory."""
        self._tops = (self.root, real, common)
        if (pipe := _pipes.get(self.root)) and _is_pipe(pipe):
            raise NoRepository(_waited_for(pipe))
        self.excludes = _users_excludes()
        """The file that says what the user ignores everywhere."""
        self._holder = tempfile.mkdtemp(prefix="fairlead-git-") if at is None else ""
        self.directory = Path(self._holder, "git") if at is None else at
        try:
            self._make(real, common)
        except OSError as error:
            self.close()
            raise NoRepository(f"can't read the repository of {project}: {error}") from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._holder:
            shutil.rmtree(self._holder, ignore_errors=True)

    def borrow(self, other: Shadow) -> None:
        """Also see the objects that were written in another shadow, as long as that is open."""
        with open(self.directory / "objects/info/alternates", "a") as alternates:
            for name in ("objects", "fresh"):
                alternates.write(f"{_quoted(str(other.directory / name))}\n")

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which git uses this directory for the project."""
        return {**git_environment(), "GIT_DIR": str(self.directory), "GIT_WORK_TREE": str(self.root)}

    @property
    def writing(self) -> dict[str, str]:
        """More variables for commands that write objects.

        They do not see the real ones: git would set the times of those that are there already.
        """
        return {"GIT_OBJECT_DIRECTORY": str(self.directory / "fresh")}

    def run(
        self,
        *arguments: str,
        deadline: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        input: bytes | None = None,
        limit: int | None = None,
        seconds: float | None = None,
        codes: Collection[int] = (0,),
    ) -> bytes:
        """What git prints, or the first `limit` bytes of it. Raises GitFault, also when it takes too long."""
        seconds = GIT_SECONDS if seconds is None else seconds
        seconds = seconds if deadline is None else min(seconds, deadline - time.monotonic())
        if seconds <= 0:
            raise GitFault(f"there was no time left for git {arguments[0]}")
        environment = {**self.environment, **(env or {})}
        try:
            return _call([*BASE, *arguments], cwd or self.root, environment, seconds, input, limit, codes)
        except GitTimeout:
            if (pipe := _pipe_in(self._tops)) is None:
                raise
            if len(_pipes) >= MAX_PIPES:
                _pipes.clear()
            _pipes[self.root] = pipe
            raise GitFault(_waited_for(pipe)) from None

    def _make(self, real: Path, common: Path) -> None:
        self.directory.mkdir(mode=0o700)
        for name in ("objects/info", "fresh", "refs", "info"):
            (self.directory / name).mkdir(parents=True)
        objects = os.path.realpath(common / "objects")
        _check_alternates(Path(objects))
        if "\n" in objects:
            raise NoRepository(f"a path with a line break can't be used: {objects!r}")
        places = (objects, str(self.directory / "fresh"))
        alternates = "".join(f"{_quoted(each)}\n" for each in places)
        (self.directory / "objects/info/alternates").write_text(alternates)
        self._configure(common)
        _copy(real / "HEAD", self.directory / "HEAD")
        for name in ("packed-refs", "shallow", "info/exclude", "info/attributes"):
            _copy(common / name, self.directory / name)
        with open(self.directory / "info/attributes", "a") as attributes:
            attributes.write(f"\n{_SHOWN}")
        _copy(real / "index", self.directory / "index", MAX_INDEX)
        for shared in sorted(real.glob("sharedindex.*"))[:8]:
            _copy(shared, self.directory / shared.name, MAX_INDEX)
        _copy_refs(common / "refs", self.directory / "refs")
        if real != common:
            _copy_refs(real / "refs", self.directory / "refs")

    def _configure(self, common: Path) -> None:
        kept = kept_config(common / "config")
        (self.directory / "config").write_text(_CONFIG + _excluding(self.excludes) + kept)


class LiveRepository(Shadow):
    """A project's repository, to change its refs and add objects: those are the real ones, the configuration
    is ours, and there are no hooks. The index is a copy unless a variable says otherwise."""

    @property
    def writing(self) -> dict[str, str]:
        return {}

    def _make(self, real: Path, common: Path) -> None:
        self.directory.mkdir(mode=0o700)
        (self.directory / "info").mkdir()
        self._configure(common)
        _check_alternates(common / "objects")
        with contextlib.suppress(FileExistsError):
            (common / "logs").mkdir()  # git makes no directories through a link
        for name in ("objects", "refs", "packed-refs", "logs"):
            (self.directory / name).symlink_to(os.path.realpath(common / name))
        _copy(real / "HEAD", self.directory / "HEAD")
        _copy(real / "index", self.directory / "index", MAX_INDEX)
        for name in ("shallow", "info/exclude", "info/attributes"):
            _copy(common / name, self.directory / name)


def repository_of(project: Path) -> tuple[Path, Path, Path]:
    """The top of the working tree, its git directory, and the one that it shares with other worktrees.

    Raises NoRepository.
    """
    start = Path(os.path.realpath(project))
    if not start.is_dir():  # a repository above it is another one
        raise NoRepository(f"the directory {project} is gone")
    for top in (start, *start.parents):
        found = git_directories(top)
        if found is None:
            continue
        real, common = found
        if not (real / "HEAD").is_file() or not (common / "objects").is_dir():
            raise NoRepository(f"{real} is no git directory: it has no HEAD or no objects")
        if (common / "reftable").exists():
            raise NoRepository(f"{common} keeps its refs in a reftable, which is not understood")
        return top, real, common
    if (start / "HEAD").is_file() and (start / "objects").is_dir():
        raise NoRepository(f"{project} is a bare repository: it has no files of its own")
    raise NoRepository(f"{project} is not in a git repository")


def git_directories(top: Path) -> tuple[Path, Path] | None:
    """The git directory of a working tree, and the one that it shares with others. Raises NoRepository."""
    found = top / ".git"
    if found.is_dir():
        real = found
    elif found.is_file():
        text = os.fsdecode(read_file(found, MAX_POINTER))
        if not text.startswith("gitdir:"):
            raise NoRepository(f"{found} should begin with 'gitdir:'")
        real = top / text.removeprefix("gitdir:").strip()
    else:
        return None
    with contextlib.suppress(OSError):
        return real, real / os.fsdecode(read_file(real / "commondir", MAX_POINTER)).strip()
    return real, real


def identity_of(common: Path) -> dict[str, str]:
    """The variables that say who commits: as the repository's configuration or the user's own has it. Empty
    if neither does."""
    variables: dict[str, str] = {}
    for key in ("user.name", "user.email"):
        value = ""
        with contextlib.suppress(GitFault):
            arguments = ["git", "config", "--file", str(common / "config"), "--no-includes", "--get", key]
            value = (
                _call(arguments, Path("/"), git_environment(), GIT_SECONDS).decode("utf-8", "replace").strip()
            )
        if not (value := value or _users_own(key)):
            return {}
        word = key.rpartition(".")[2].upper()
        variables |= {f"GIT_AUTHOR_{word}": value, f"GIT_COMMITTER_{word}": value}
    return variables


def _users_own(key: str, *options: str) -> str:
    """A value of the user's own configuration; empty if it has none."""
    environment = {**git_environment(), "HOME": os.path.expanduser("~")}
    del environment["GIT_CONFIG_GLOBAL"]
    environment |= {name: os.environ[name] for name in ("XDG_CONFIG_HOME",) if name in os.environ}
    with contextlib.suppress(GitFault):
        arguments = ["git", "config", "--global", *options, "--get", key]
        return _call(arguments, Path("/"), environment, GIT_SECONDS).decode("utf-8", "replace").strip()
    return ""


def _users_excludes() -> str:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return _users_own("core.excludesFile", "--type=path") or f"{base}/git/ignore"


def _excluding(path: str) -> str:
    """The line about the files that the user ignores everywhere."""
    plain = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'[core]\n\texcludesFile = "{plain}"\n' if "\n" not in plain else ""


def kept_config(path: Path) -> str:
    """The lines of a configuration that only say how files are stored. No includes are followed.

    Raises NoRepository.
    """
    if not path.is_file():
        return ""
    if path.stat().st_size > MAX_SMALL_FILE:
        raise NoRepository(f"{path} has more than {MAX_SMALL_FILE} bytes")
    arguments = ["git", "config", "--file", os.path.abspath(path), "--no-includes", "--null", "--list"]
    try:  # not in there: git would look for a repository around it
        listed = _call(arguments, Path("/"), git_environment(), GIT_SECONDS)
    except GitFault as fault:
        raise NoRepository(str(fault)) from None
    lines = []
    for item in listed.decode("utf-8", "replace").split("\0"):
        key, _, value = item.partition("\n")
        if key in _KEPT_KEYS and value.replace("-", "").isalnum():
            section, _, name = key.partition(".")
            lines.append(f"[{section}]\n\t{name} = {value}\n")
    return "".join(lines)


def _copy(source: Path, target: Path, limit: int = MAX_SMALL_FILE) -> None:
    """Copy a plain file, if it is there. A link is followed, as git does.

    The time of an index matters: git looks again at files that are not older than it.
    """
    for _ in range(2):  # git may be replacing it
        if not source.is_file():
            return
        if source.stat().st_size > limit:
            raise NoRepository(f"{source} has more than {limit} bytes")
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(source, target)
            return


def _copy_refs(source: Path, target: Path) -> None:
    count = 0
    for directory, _, names in os.walk(source):
        into = target / os.path.relpath(directory, source)
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            count += 1
            if count > MAX_REFS:
                return
            with contextlib.suppress(FileNotFoundError):
                _copy(Path(directory, name), into / name)


def _check_alternates(objects: Path, steps: int = MAX_ALTERNATE_STEPS) -> None:
    """Raises OSError or NoRepository if what says where more objects are is no plain file: git would read a
    device without end, and wait for a pipe."""
    path = objects / "info/alternates"
    if not os.path.lexists(path):
        return
    listed = read_file(path, MAX_ALTERNATES + 1)
    if len(listed) > MAX_ALTERNATES:
        raise NoRepository(f"{path} has more than {MAX_ALTERNATES} bytes")
    for line in set(listed.split(b"\n")) if steps else ():
        if line and not line.startswith(b"#"):
            _check_alternates(objects / os.fsdecode(line.strip(b'"')), steps - 1)


def _is_pipe(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(path.lstat().st_mode)
    return False


def _waited_for(pipe: Path) -> str:
    return f"{pipe} is a named pipe, and git would wait for it: remove it"


def _pipe_in(tops: Sequence[Path]) -> Path | None:
    """A named pipe that git may have waited for."""
    deadline, left = time.monotonic() + SEARCH_SECONDS, MAX_SEARCHED
    for number, top in enumerate(tops):
        for above, _, names in os.walk(top):
            is_gits = number > 0 or ".git" in above.split(os.sep)
            for name in names:
                if (is_gits or name.startswith(".git")) and _is_pipe(Path(above, name)):
                    return Path(above, name)
            left -= len(names) + 1
            if left < 0 or time.monotonic() > deadline:
                break
    return None


def _quoted(path: str) -> str:
    """A path for `alternates`: one that begins with a quote or a hash must be quoted."""
    if not path.startswith(('"', "#")):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _call(
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    seconds: float,
    input: bytes | None = None,
    limit: int | None = None,
    codes: Collection[int] = (0,),
) -> bytes:
    named = (
        f"git {next((each for each in arguments[1:] if not each.startswith('-') and '=' not in each), '')}"
    )
    try:
        code, told, complained = _ended(arguments, cwd, env, seconds, input or b"", limit)
    except subprocess.TimeoutExpired:
        raise GitTimeout(f"{named} took longer than {seconds:.1f} seconds") from None
    except OSError as error:
        raise GitFault(f"can't run git: {error.strerror}") from None
    if code not in codes:
        said = complained.decode("utf-8", "replace").strip() or f"exit code {code}"
        raise GitFault(f"{named}: {said[:500]}", code)
    if len(told) > MAX_LISTED:
        raise GitFault(f"{named} printed more than {MAX_LISTED} bytes")
    return told


def _ended(
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    seconds: float,
    input: bytes,
    limit: int | None,
) -> tuple[int, bytes, bytes]:
    """Run git to its end, or until it has printed `limit` bytes, which is no failure."""
    if limit is None:
        done = subprocess.run(
            arguments,
            check=False,
            cwd=cwd,
            env=env,
            input=input,
            capture_output=True,
            timeout=seconds,
            umask=masks.users_mask(),
        )
        return done.returncode, done.stdout, done.stderr
    with tempfile.TemporaryFile() as complaints:
        with subprocess.Popen(
            arguments, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints
        ) as running:
            timer = threading.Timer(seconds, running.kill)
            timer.start()
            try:
                assert running.stdout is not None
                told = running.stdout.read(limit)
                if len(told) == limit:
                    running.kill()
                    running.wait()
                    return 0, told, b""
                code = running.wait()
            finally:
                is_late = not timer.is_alive()
                timer.cancel()
        if is_late:
            raise subprocess.TimeoutExpired(list(arguments), seconds)
        complaints.seek(0)
        return code, told, complaints.read()
