"""Commands that may only read.

Where bubblewrap works, a command runs in it with bash: every file system is read-only, homes and other places
with secrets are empty (`places.py`), /tmp is its own, memory is limited, there is no network, and no socket
of another program to talk to. Elsewhere a command is taken apart and run without a shell, and only if it
consists of programs and options that are known to only read, and of paths in the project. What is refused is
said in the answer and kept in `refused`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ...system.bubblewrap import LIMITED, Bubblewrap, bubblewrap, sockets_of_all
from ...system.repository import BASE, NoRepository, Shadow, git_directories, kept_config
from ..project import places
from ..project.places import Sight, is_within
from ..report import CommandRun, Section
from .allowed import git_words, leaving_out, refusal
from .process import Ran, Stage, run
from .words import CheckCommand, NotPlain, directory_of, read

TIME_LIMIT = 120.0
"""Seconds that a command may take."""
MAX_OUTPUT = 64 * 1024
"""How many bytes of what it prints are given."""
MAX_REFUSED = 100
"""How many refused things are kept."""
MAX_SHOWN = 200
"""How many characters of a refused command are kept."""
MAX_SOCKETS = 1000
"""How many sockets of other programs can be covered."""
MAX_COMMANDS = 100
"""How many commands are kept for the report."""
MAX_STARTS = 3
"""How often a sandbox is started: a socket that was to be covered may be gone when it comes to that."""

_WRITE_REFUSED = "Read-only file system"
"""What programs say when a sandbox has kept them from writing."""

Enforcement = Literal["bubblewrap", "allow-list"]

FALLBACK = (
    "bubblewrap does not work here, so a persona's commands are run by an allow-list: interpreters, "
    "test runners, variables, redirections and every file outside of the project are refused"
)
"""What people are told where there is no sandbox."""


class SandboxOutcome(Struct, frozen=True):
    """What became of a command."""

    text: str
    """What it printed, or why it was refused."""
    code: int | None = None
    refused: str = ""
    """Why it was not run, or what it was kept from."""
    ended: str = ""
    """Why it was ended early, if so."""
    seconds: float = 0.0


class ReadOnly:
    """Runs commands that can't change the project, or anything else.

    >>> outcome = await ReadOnly(Path(".")).run("git log -1 && rm -rf src")  # doctest: +SKIP
    """

    def __init__(
        self,
        project: Path,
        environment: Mapping[str, str] | None = None,
        *,
        hidden: Sequence[Path] = (),
        shown: Sequence[Path] = (),
        is_secret: Callable[[Path], bool] = lambda path: False,
        enforcement: Enforcement | None = None,
        time_limit: float = TIME_LIMIT,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        """Of `environment` commands get only what `places.VARIABLES` names.

        `hidden` are more files and directories that a sandbox shows empty, `shown` files that it shows though
        they are in such a place; `is_secret` says which files of the project are hidden. `enforcement`
        chooses one of the two ways; if that is bubblewrap and it does not work, every command is refused.
        """
        self.project = Path(os.path.realpath(project))
        self.refused: list[str] = []
        self.commands: list[CommandRun] = []
        """What was asked for, with exit codes; without one it was refused, or ended early."""
        self.environment = places.bare(environment if environment is not None else os.environ)
        self._hidden = [os.path.realpath(each) for each in hidden]
        self._shown = [Path(os.path.realpath(each)) for each in shown if os.path.isfile(each)]
        self._is_secret = is_secret
        self._secrets: places.Secrets | None = None
        self._looking = asyncio.Lock()
        self._configs = ""
        self._wanted = enforcement
        self._time_limit = time_limit
        self._max_output = max_output

    async def enforcement(self) -> Enforcement:
        """How it is enforced that commands only read."""
        return self._wanted or ("bubblewrap" if await bubblewrap() is not None else "allow-list")

    def refuses(self, path: Path | str, what: str = "write") -> str:
        """Note that a tool wanted to change a file. Gives the sentence to answer."""
        why = "a verifier may only read; say in the report what should change"
        self._note(f"{what} {path}")
        return f"refused to {what} {path}: {why}"

    async def notes(self) -> tuple[Section, ...]:
        """What a report should say about how commands were run."""
        if await self.enforcement() == "bubblewrap":
            return ()
        return (Section("How were commands run?", f"Without a sandbox: {FALLBACK}."),)

    async def run(self, command: str, *, time_limit: float | None = None) -> SandboxOutcome:
        """Run a command line in the project, or say why not."""
        seconds = min(time_limit or self._time_limit, self._time_limit)
        if sum(map(len, await self.secrets())) > places.MAX_COVERED:
            outcome = self._refuse(command, f"more than {places.MAX_COVERED} files here may hold secrets")
        elif await self.enforcement() == "bubblewrap":
            outcome = await self._in_sandbox(command, seconds)
        else:
            outcome = await self._by_list(command, seconds)
        if len(self.commands) < MAX_COMMANDS:
            self.commands.append(CommandRun(_brief(command), outcome.code, outcome.seconds))
        return outcome

    async def secrets(self) -> places.Secrets:
        """What is hidden of the project. It is looked for once."""
        async with self._looking:
            if self._secrets is None:
                self._secrets = await asyncio.to_thread(self._look_for_secrets)
        return self._secrets

    def _look_for_secrets(self) -> places.Secrets:
        secrets = places.secrets_in(self.project, self._is_secret, self._hidden)
        self._configs = tempfile.mkdtemp(prefix="fairlead-git-")
        weakref.finalize(self, shutil.rmtree, self._configs, ignore_errors=True)
        for number, path in enumerate(secrets.of_git[: places.MAX_COVERED]):
            with contextlib.suppress(NoRepository):
                Path(self._configs, str(number)).write_text("")
                Path(self._configs, str(number)).write_text(kept_config(Path(path)))
        return secrets

    def _refuse(self, command: str, why: str) -> SandboxOutcome:
        self._note(command)
        text = f"refused: {why}. A verifier may only read; nothing was run."
        return SandboxOutcome(text, refused=why)

    def _note(self, what: str) -> None:
        if len(self.refused) < MAX_REFUSED:
            self.refused.append(_brief(what))

    # --- in a sandbox -------------------------------------------------------------------------------------

    async def _in_sandbox(self, command: str, seconds: float) -> SandboxOutcome:
        wrap = await bubblewrap()
        if wrap is None:
            return self._refuse(command, "bubblewrap does not work here")
        if "\0" in command:
            return self._refuse(command, "it has a NUL character in it")
        environment = {
            **self.environment,
            "TMPDIR": "/tmp",
            "GIT_OPTIONAL_LOCKS": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
        }
        shell = shutil.which("bash", path=self.environment.get("PATH")) or "/bin/sh"
        inside = ("--chdir", str(self.project), "--", *LIMITED, shell, "-c", command)
        for is_last in (*[False] * (MAX_STARTS - 1), True):
            sockets = sockets_of_all()
            if len(sockets) > MAX_SOCKETS:
                return self._refuse(command, f"there are more than {MAX_SOCKETS} sockets to cover")
            stage = Stage((*wrap.options, *self._places(wrap, sockets), *inside), environment)
            try:
                ran = await run([stage], self.project, time_limit=seconds, max_kept=self._max_output)
            except OSError as error:
                return self._refuse(command, f"the sandbox can't be started: {error.strerror or error}")
            if not ran.code or not ran.text.startswith("bwrap: "):
                break
            if is_last:
                return self._refuse(command, f"the sandbox can't be started: {_brief(ran.text)}")
        outcome = _outcome(ran)
        if _WRITE_REFUSED not in ran.text:
            return outcome
        self._note(command)
        why = "a verifier may only read, so the system refused to write"
        return msgspec.structs.replace(outcome, text=f"{outcome.text}\n[{why}.]", refused=why)

    def _places(self, wrap: Bubblewrap, sockets: Sequence[str]) -> list[str]:
        """Mounts: what is empty, the project where that covers it, and nothing where there was a socket."""
        project, secrets = str(self.project), self._secrets or places.Secrets()
        private = places.hidden_directories(self._hidden)
        arguments: list[str] = []
        for each in sorted(private, key=len):
            arguments += wrap.private(each)
        for each in places.homes():  # an empty one is there to write to
            if self._is_in(each, private) and each not in private:
                arguments += ["--dir", each]
        shown = [
            *(each for each in places.needed(self.environment.get("PATH", "")) if each != project),
            *_outside(self.project),
            project,
        ]
        for each in shown:
            if any(is_within(each, place) for place in private):
                arguments += ["--ro-bind", each, each]
        for path in sockets:
            is_seen = not any(is_within(path, place) for place in private)
            if is_seen or any(is_within(path, each) for each in shown):
                arguments += ["--ro-bind", os.devnull, path]
        covered = [
            *places.HIDDEN_FILES,
            *self._hidden,
            *(f"{project}/{name}" for name in secrets.names),
        ]
        for each in places.homes():
            if is_within(each, project):  # the project does not show what is hidden elsewhere
                covered += places.dotted(each) if each == project else [each]
        for each in dict.fromkeys(covered):
            is_seen = any(is_within(each, place) for place in shown)
            if os.path.isdir(each) and is_seen:
                arguments += wrap.private(each)
            elif os.path.isfile(each) and (
                is_seen or each in places.HIDDEN_FILES or not self._is_in(each, private)
            ):
                arguments += ["--ro-bind", os.devnull, os.path.realpath(each)]
        for number, each in enumerate(secrets.of_git):  # git needs what says how files are stored
            if any(is_within(each, place) for place in shown) or not self._is_in(each, private):
                arguments += ["--ro-bind", f"{self._configs}/{number}", os.path.realpath(each)]
        for file in self._shown:
            arguments += ["--ro-bind", str(file), str(file)]
        return arguments

    @staticmethod
    def _is_in(path: str, directories: Sequence[str]) -> bool:
        return any(is_within(path, each) for each in directories)

    # --- by a list ----------------------------------------------------------------------------------------

    async def _by_list(self, command: str, seconds: float) -> SandboxOutcome:
        """Judge all of a command line first, then run it."""
        sight = Sight(self.project, self._shown, (await self.secrets()).names)
        cwd = self.project
        try:
            pipelines = read(command)
            for pipeline in pipelines:
                for program in pipeline.programs:
                    self._judge(program, len(pipeline.programs) == 1, cwd, sight)
                    cwd = _after(program, cwd)
        except NotPlain as why:
            return self._refuse(command, f"{why} is not possible without a sandbox")
        except _Refused as why:
            return self._refuse(command, str(why))
        shadow: Shadow | None = None
        try:
            if any(p.words[0].text == "git" for each in pipelines for p in each.programs):
                shadow = await asyncio.to_thread(Shadow, self.project)
            listed = _Listed(self, shadow, sight, seconds, self._max_output)
            for pipeline in pipelines:
                if await listed.goes_on(pipeline.after):
                    await listed.run(pipeline.programs)
            return listed.outcome()
        except NoRepository as fault:
            return SandboxOutcome(f"git: {fault}", 128)
        except _Refused as why:
            return self._refuse(command, str(why))
        finally:
            if shadow is not None:
                shadow.close()

    def _judge(self, program: CheckCommand, is_alone: bool, cwd: Path, sight: Sight) -> None:
        """Raises if a program is not one of those that only read."""
        if program.words[0].glob:
            raise _Refused("the name of a program must be plain")
        if why := refusal([word.text for word in program.words], cwd, sight):
            raise _Refused(why)
        if program.words[0].text == "cd" and not is_alone:
            raise _Refused("cd within a pipe does nothing")


class _Refused(Exception):
    """Why something is not run."""


class _Listed:
    """A command line that is run program by program, without a shell."""

    def __init__(
        self, owner: ReadOnly, shadow: Shadow | None, sight: Sight, seconds: float, max_output: int
    ) -> None:
        self._cwd = self._project = owner.project
        self._sight = sight
        self._shadow = shadow
        self._left = seconds
        self._max_output = max_output
        self._texts: list[str] = []
        self._code = 0
        self._ended = ""
        self._seconds = 0.0
        self._path = _trusted_path(owner.environment.get("PATH") or os.defpath, owner.project)
        self._environment = {**_bare(), "PATH": self._path, "HOME": "/nonexistent"}

    async def goes_on(self, after: str) -> bool:
        is_wanted = {"&&": self._code == 0, "||": self._code != 0}.get(after, True)
        return is_wanted and not self._ended

    async def run(self, programs: Sequence[CheckCommand]) -> None:
        stages = []
        for program in programs:
            try:
                words = [name for word in program.words for name in word.expanded(self._cwd)]
            except NotPlain as why:
                raise _Refused(str(why)) from None
            if reason := refusal(words, self._cwd, self._sight):
                raise _Refused(reason)
            if words[0] == "cd":
                self._change_directory(words)
                return
            stages.append(self._stage(words, program))
        try:
            ran = await run(stages, self._cwd, time_limit=self._left, max_kept=self._max_output)
        except OSError as error:
            self._code = 126
            self._texts.append(f"can't run {stages[0].argv[0]}: {error.strerror or error}")
            return
        self._left -= ran.seconds
        self._seconds += ran.seconds
        self._texts.append(ran.text)
        self._ended = ran.ended
        self._code = ran.code if ran.code is not None else -1
        if self._left <= 0 and not self._ended:
            self._ended = "there was no time left for the rest"

    def _change_directory(self, words: list[str]) -> None:
        try:
            self._cwd = directory_of(self._cwd, words)
            self._code = 0
        except NotPlain as why:
            self._texts.append(str(why))
            self._code = 1

    def _stage(self, words: Sequence[str], program: CheckCommand) -> Stage:
        environment: Mapping[str, str] = self._environment
        arguments = tuple(words[1:])
        before: tuple[str, ...] = ()
        if words[0] == "git" and self._shadow is not None:
            environment = {**self._shadow.environment, "PATH": self._path}
            top = os.path.relpath(self._project, self._shadow.root)
            secrets = [os.path.normpath(os.path.join(top, each)) for each in self._sight.secrets]
            before, arguments = BASE[1:], git_words(words[1:], secrets)
        else:
            arguments = leaving_out(words, self._sight.secrets)
        found = shutil.which(words[0], path=self._path)
        if found is None:
            raise _Refused(f"{words[0]!r} is not installed outside of the project")
        argv = (*LIMITED, found, *before, *arguments)
        return Stage(argv, environment, not program.drops_errors, program.pipes_errors)

    def outcome(self) -> SandboxOutcome:
        text = "\n".join(text for text in self._texts if text)
        return _outcome(Ran(None if self._ended else self._code, text, self._seconds, self._ended))


def _outcome(ran: Ran) -> SandboxOutcome:
    notes = [ran.text.rstrip("\n")] if ran.text.strip() else ["[No output.]"]
    if ran.ended:
        notes.append(f"[The command was ended: {ran.ended}.]")
    elif ran.code:
        notes.append(f"[Exit code {ran.code}.]")
    return SandboxOutcome("\n".join(notes), ran.code, ended=ran.ended, seconds=ran.seconds)


def _bare() -> dict[str, str]:
    """The variables of programs on the list: what they print in depends on them."""
    names = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM")
    return {name: os.environ[name] for name in names if name in os.environ}


def _after(program: CheckCommand, cwd: Path) -> Path:
    """Where the programs after this one run."""
    words = [word.text for word in program.words]
    if words[0] != "cd":
        return cwd
    try:
        return directory_of(cwd, words)
    except NotPlain:
        return cwd


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


def _trusted_path(path: str, project: Path) -> str:
    """The directories for programs, without those that the project could have put programs into."""
    kept = []
    for each in path.split(os.pathsep):
        real = os.path.realpath(each)
        if each.startswith("/") and not is_within(real, str(project)) and not is_within(each, str(project)):
            kept.append(each)
    return os.pathsep.join(kept) or os.defpath


def _outside(project: Path) -> list[str]:
    """The git directory of a worktree, which is elsewhere."""
    try:
        found = git_directories(project) if (project / ".git").is_file() else None
    except (OSError, NoRepository):
        return []
    real = map(os.path.realpath, reversed(found or ()))
    return [each for each in dict.fromkeys(real) if os.path.isdir(each)]
