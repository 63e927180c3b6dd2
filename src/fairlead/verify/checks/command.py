"""Verifying by commands: a test run or a checker says whether a turn is right.

The commands run in the project, or in a copy that is thrown away, one after the other. Exit code 0 of all is
VERIFIED, and PERFECT if no gap is left (see `gaps`); another one is FEEDBACK with the useful part of what was
printed; and what could not be run, or did not end, leaves the turn unverified.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePath

import msgspec
from msgspec import Struct

from ...formats.shown import counted
from ...system.opening import open_file
from ...system.tree import Changes, Tree, TreeFault, Watch
from ..project.scratch import Scratch, ScratchFault
from ..report import FOCUS, CommandRun, Confidence, Report, Status, fenced, not_verified, render, sections_of
from .exits import script_of
from .output import OutputSummary, coverage, summaries, useful_part
from .problems import problem
from .process import Ran, Stage, run

TIME_LIMIT = 600.0
"""Seconds that one command may take."""
MAX_COMMANDS = 20
"""How many commands one verifier may have,"""
MAX_COMMAND = 10_000
"""and how many characters each."""
SUCCESS_LINES = 5
"""How many lines are shown of a command that did well."""
MAX_SEARCHED = 1024 * 1024
"""How many bytes of a file are searched for marks that keep coverage away."""
MAX_NAMED = 10
"""How many files a gap names."""

NOTHING_CHANGED = "the turn changed no file"
"""What is said of a turn after which the project is as it was before."""

_CODE = frozenset(
    {".c", ".cc", ".clj", ".cpp", ".cs", ".el", ".ex", ".exs", ".go", ".h", ".hpp", ".java", ".js", ".jsx"}
    | {".kt", ".lisp", ".mjs", ".php", ".py", ".rb", ".rs", ".swift", ".ts", ".tsx"}
)
_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|spec)/|(?:^|/)(?:test_|conftest\.)[^/]*$|[._](?:test|spec)\.\w+$"
)
_NOT_COVERED = re.compile(rb"pragma:\s*no\s*(?:cover|branch)|(?:istanbul|c8|v8)\s+ignore")
_SAYS_WHAT_RUNS = re.compile(
    r"(?:^|/)(?:GNUm|M|m)akefile$|\.mk$|(?:^|/)(?:package\.json|pyproject\.toml|pytest\.ini|\.?pytest\.toml|tox\.ini"
    r"|setup\.cfg|conftest\.py|sitecustomize\.py|noxfile\.py|\.coveragerc|mypy\.ini|\.?ruff\.toml|[Jj]ustfile"
    r"|Cargo\.toml|deno\.jsonc?|tsconfig[^/]*\.json|(?:jest|vitest|babel|eslint)\.config\.\w+|\.eslintrc[^/]*)$"
)
"""Files that say which tests run, and how."""


class Commands(Struct, frozen=True, kw_only=True):
    """A command verifier: what it runs, and how."""

    commands: tuple[str, ...]
    name: str = "command"
    in_copy: bool = False
    """Whether it runs in a copy of the project."""
    time_limit: float = TIME_LIMIT

    def __post_init__(self) -> None:
        if not self.commands or len(self.commands) > MAX_COMMANDS:
            raise ValueError(f"a command verifier has 1 to {MAX_COMMANDS} commands, not {len(self.commands)}")
        for command in self.commands:
            if not command.strip() or len(command) > MAX_COMMAND or "\0" in command:
                raise ValueError(
                    f"a command has 1 to {MAX_COMMAND} characters, no NUL, and is not blank: {command!r:.80}"
                )
        if not self.time_limit > 0:
            raise ValueError(f"time_limit must be more than 0 seconds, not {self.time_limit}")


class Done(Struct, frozen=True):
    """A command that was run, or could not be."""

    command: str
    ran: Ran | None
    problem: str = ""
    """Why it says nothing about the work, if so."""

    @property
    def is_good(self) -> bool:
        return not self.problem and self.ran is not None and self.ran.code == 0

    @property
    def summaries(self) -> list[OutputSummary]:
        return summaries(self.ran.text) if self.ran is not None else []


async def verify(
    verifier: Commands,
    project: Path,
    environment: Mapping[str, str],
    *,
    turn: int = 0,
    session_id: str = "",
    lines: tuple[int, int] | None = None,
    since: Tree | None = None,
    watch: Watch | None = None,
) -> Report:
    """Run the commands and report. The environment must be without secrets.

    `since` is the tree at the turn's start: the files that changed from there to now are those that a PERFECT
    must cover. A `watch` that was used before is much quicker than one of its own.

    >>> await verify(Commands(commands=("pytest -q",)), Path("."), environment)  # doctest: +SKIP
    """
    begun, now = time.monotonic(), time.time()
    with ExitStack() as stack:
        watch = watch or stack.enter_context(await asyncio.to_thread(Watch, project))
        before, changes, fault = await asyncio.to_thread(_look, watch, since)
        done = await _run_all(verifier, project, environment)
        after = before
        if not fault and not verifier.in_copy:
            after, fault = await asyncio.to_thread(_take, watch)
    found = gaps(done, changes.paths if since is not None else ())
    if since is None:
        found.append("what this turn changed is not known, as its beginning was not seen")
    elif before is not None and not changes:
        found.append(NOTHING_CHANGED)
    elif why := weakened(changes, verifier.commands):
        found.append(why)
    if before is not None and (unseen := watch.unseen(before)):
        found.append(f"other repositories within were not looked at: {_named(unseen)}")
    if skips := await asyncio.to_thread(_uncovered, watch.top, changes):
        found.append(f"changed code is marked as not to be covered: {_named(skips)}")
    if before is None or after is None:
        found.append(f"what was judged is not known: {fault}")
    elif before.hash != after.hash:
        found.append("files changed while the commands ran")
    doubt = spoilt(before, after)
    if doubt:
        doubt += "; --copy runs commands in a copy"
    return msgspec.structs.replace(
        report_of_run(done, found, turn=turn, name=verifier.name, doubt=doubt),
        session_id=session_id,
        project=str(project),
        lines=lines,
        tree=before.hash if before is not None else "",
        diff_stat=str(changes) if before is not None else "",
        duration=time.monotonic() - begun,
        time=now,
    )


def report_of_run(
    done: Sequence[Done], found: Sequence[str], *, turn: int = 0, name: str = "command", doubt: str = ""
) -> Report:
    """The report on commands that were run, with the gaps that are left.

    With a `doubt`, what passed says nothing about the turn.
    """
    problems = [each for each in done if each.problem]
    failed = [each for each in done if not each.problem and not each.is_good]
    names = ", ".join(f"`{each.command}`" for each in done)
    if failed:
        status, confidence = Status.FAILED, Confidence.FEEDBACK
        told = ", ".join(f"`{each.command}` {_ending(each)}" for each in failed)
        summary = f"{len(failed)} of {len(done)} command{'s' if len(done) > 1 else ''} failed: {told}"
    elif problems:
        reasons = "; ".join(f"`{each.command}`: {each.problem}" for each in problems)
        report = not_verified(reasons)
        status, confidence, summary = report.status, report.confidence, report.summary
    elif doubt:
        status, confidence, summary = Status.UNSURE, Confidence.PARTIAL, f"could not verify: {doubt}"
    else:
        status = Status.VERIFIED
        confidence = Confidence.VERIFIED if found else Confidence.PERFECT
        counts = "; ".join(str(each) for one in done for each in one.summaries)
        summary = f"{names} passed{f' ({counts})' if counts else ''}"
    sections = [(FOCUS, summary), *((f"`{_short(each.command)}`", _outcome_text(each)) for each in done)]
    if found and status is Status.VERIFIED:
        sections.append(("Why not PERFECT?", "\n".join(f"- {gap}" for gap in found)))
    report = Report(
        status=status,
        confidence=confidence,
        summary=" ".join(summary.split())[:500],
        sections=sections_of(sections),
        kind="command",
        verifier=name,
        turn=turn,
        commands=tuple(
            CommandRun(
                each.command, each.ran.code if each.ran else None, each.ran.seconds if each.ran else 0.0
            )
            for each in done
        ),
    )
    return msgspec.structs.replace(report, raw=render(report))


def gaps(done: Sequence[Done], changed: Sequence[str]) -> list[str]:
    """What keeps commands that all passed from being PERFECT.

    - No command printed a summary of tests that is understood, or one that has no test that passed.
    - A test was skipped, deselected, ignored or expected to fail.
    - A file with code that changed in this turn is not shown by a coverage table as run in full. Files of
      tests are not asked for.
    """
    found = []
    told = [each for one in done for each in one.summaries]
    if not told:
        found.append("no test summary was recognized in the output")
    if left := sum(one.ran.left_behind for one in done if one.ran is not None):
        found.append(f"{left} process{'es' * (left > 1)} went on when a command had ended")
    for each in told:
        if not each.passed:
            found.append(f"{each.runner} ran no test that passed")
        elif not each.is_clean:
            found.append(f"not all tests passed: {each}")
    wanted = [path for path in changed if PurePath(path).suffix in _CODE and not _TEST.search(path)]
    shown: dict[str, bool] = {}
    for one in done:
        shown |= coverage(one.ran.text) if one.ran is not None else {}
    missing = [
        path for path in wanted if not any(_is_same(path, name) and whole for name, whole in shown.items())
    ]
    if missing:
        why = (
            "the coverage report does not show that all of it was run"
            if shown
            else "no coverage was reported"
        )
        found.append(f"changed code may be untested ({why}): {_named(missing)}")
    return found


def _uncovered(top: Path, changes: Changes) -> list[str]:
    """Files that changed and tell coverage to leave parts of them out."""
    found = []
    for path in (*changes.added, *changes.modified):
        if PurePath(path).suffix in _CODE:
            with contextlib.suppress(OSError), open_file(top / path, within=top) as file:
                if _NOT_COVERED.search(file.read(MAX_SEARCHED)):
                    found.append(path)
    return found


def weakened(changes: Changes, commands: Sequence[str] = ()) -> str:
    """What a turn changed of that which judges it, if anything: also scripts that the commands name."""
    told = []
    words = {word for each in commands for word in re.split(r"[\s'\";&|()=]+", each)}
    words = {word for word in words if PurePath(word).suffix not in _CODE}  # these may be what is checked
    scripts = {os.path.normpath(each) for each in (*words, *(script_of(each)[1] for each in commands))}
    kinds = (("changed", changes.modified), ("added", changes.added), ("deleted", changes.deleted))
    for verb, paths in kinds:
        config = [path for path in paths if _SAYS_WHAT_RUNS.search(path) or path in scripts]
        tests = [path for path in paths if verb == "deleted" and path not in config and _TEST.search(path)]
        if names := config + tests:
            told.append(f"{verb} {_named(names)}")
    return f"this turn changed files that the check depends on: {'; '.join(told)}" if told else ""


def _named(paths: Sequence[str]) -> str:
    return ", ".join(paths[:MAX_NAMED]) + (", and more" if len(paths) > MAX_NAMED else "")


def spoilt(before: Tree | None, after: Tree | None) -> str:
    """Why commands that passed have judged something else than the turn left, if so. New files may be."""
    if before is None or after is None or before.hash == after.hash:
        return ""
    paths = sorted(path for path, it in before.files.items() if after.files.get(path) != it)
    if not paths:
        return ""
    return f"files were changed while they were judged ({_named(paths)})"


def _is_same(path: str, shown: str) -> bool:
    """Whether a table's name is this path: it may begin further down, or above the project."""
    return path == shown or path.endswith(f"/{shown}") or shown.endswith(f"/{path}")


def _look(watch: Watch, since: Tree | None) -> tuple[Tree | None, Changes, str]:
    """The project's tree, what changed in it, and why there is none if there is none."""
    tree, fault = _take(watch)
    try:
        return tree, watch.changes(since, tree) if tree is not None else Changes(), fault
    except TreeFault as error:
        return None, Changes(), str(error)


def _take(watch: Watch) -> tuple[Tree | None, str]:
    try:
        return watch.take(), ""
    except TreeFault as fault:
        return None, str(fault)


async def _run_all(verifier: Commands, project: Path, environment: Mapping[str, str]) -> list[Done]:
    if not verifier.in_copy:
        return [await _run(each, project, environment, verifier.time_limit) for each in verifier.commands]
    try:
        scratch = await asyncio.to_thread(Scratch, project)
    except ScratchFault as fault:
        return [Done(each, None, str(fault)) for each in verifier.commands]
    try:
        place = scratch.project
        return [await _run(each, place, environment, verifier.time_limit) for each in verifier.commands]
    finally:
        await asyncio.to_thread(scratch.close)


async def _run(command: str, place: Path, environment: Mapping[str, str], time_limit: float) -> Done:
    bash = shutil.which("bash", path=environment.get("PATH"))
    # without pipefail `pytest | tail` would be good whatever pytest says
    shell = (bash, "-o", "pipefail", "-c") if bash else ("/bin/sh", "-c")
    try:
        ran = await run([Stage((*shell, command), environment)], place, time_limit=time_limit)
    except OSError as error:
        return Done(command, None, f"it could not be started: {error.strerror or error}")
    return Done(command, ran, await asyncio.to_thread(problem, command, ran, place))


def _ending(done: Done) -> str:
    code = done.ran.code if done.ran is not None else None
    if code is not None and code < 0:
        return (
            f"was ended by {signal.Signals(-code).name}"
            if -code in set(signal.Signals)
            else f"signal {-code}"
        )
    return f"exited with {code}"


def _outcome_text(done: Done) -> str:
    """The section about a command."""
    if done.ran is None:
        return f"Not run: {done.problem}."
    parts = []
    if done.problem:
        parts.append(f"This check says nothing about the work: {done.problem}.")
    else:
        parts.append(f"It {_ending(done)} after {done.ran.seconds:.1f} s.")
    parts += [f"- {each}" for each in done.summaries]
    if done.ran.left_behind:
        left = counted(done.ran.left_behind, "process")
        parts.append(f"- {left} that it left behind {'was' if left.startswith('1 ') else 'were'} ended")
    text = (
        "\n".join(done.ran.text.split("\n")[-SUCCESS_LINES:]) if done.is_good else useful_part(done.ran.text)
    )
    if text.strip():
        parts += ["", fenced(text.strip("\n"))]
    return "\n".join(parts)


def _short(command: str) -> str:
    line = " ".join(command.split()).replace("`", "'")
    return line if len(line) <= 100 else line[:99] + "…"
