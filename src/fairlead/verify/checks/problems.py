"""Why the end of a command says nothing about the work: it was not run, was ended, or checked nothing.

Runners have exit codes and words of their own for that; those of pytest, unittest, jest, vitest, node, npm,
make, cargo, go and shells are known here, and `exits.py` knows commands that can't fail. In doubt it is
"could not verify": that is never green, and nothing is sent back for what is no fault of the builder.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from pathlib import Path

import msgspec

from ...system.opening import read_file
from ...system.repository import git_environment
from .exits import NOTHING, blind, script_of
from .output import OutputSummary, summaries
from .process import Ran

NOT_FOUND = 127
NOT_EXECUTABLE = 126
TIMED_OUT = 124
"""What timeout(1) exits with."""
MAX_SCRIPT = 64 * 1024
"""How many bytes a script has at most that is looked at."""
RECIPE_SECONDS = 10.0
"""How long make may take to say what it would run."""
LAST_LINES = 200
"""In how many of the last lines a reason is looked for."""
MAX_REASON = 200
"""How many characters of a line are given as one."""

_ENDED_BY = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM}
    | {signal.SIGXCPU, signal.SIGXFSZ, signal.SIGPIPE}
)
"""Signals that come from outside of a program. Others are of its own making: it crashed."""

_PYTEST = re.compile(r"\bpy\.?test\b")
_PYTEST_CODES = {
    3: "pytest had an internal error",
    4: "pytest was called wrongly",
    5: "it found no tests to run",
}
_TIMEOUT = re.compile(r"\btimeout\b")

_NOT_RUN = re.compile(
    r"^(?:"
    r"make(?:\[\d+\])?: \*\*\* (?:No rule to make target|No targets specified)"
    r"|make(?:\[\d+\])?: \*\*\* .*(?:Error 12[467]|Error 137|Error 143|Killed|Terminated)$"
    r"|npm (?:ERR!|error) (?:Missing script|code ENOENT|enoent)"
    r"|Error: no test specified$"
    r"|No tests? (?:files )?found, exiting with code"
    r"|\S*python[\d.]*: No module named (?:pytest|unittest|coverage|mypy|ruff|tox|nox|black|pylint|pyright)\b"
    r"|\S*python[\d.]*: can't open file "
    r"|ERROR: (?:usage: |file or directory not found: |not found: )"
    r"|error: (?:could not find `Cargo\.toml`|no such (?:sub)?command\b|Failed to spawn)"
    r"|go: (?:cannot find main module|go\.mod file not found|no such tool)"
    r"|Could not find '.*'$"
    r"|!+ (?:KeyboardInterrupt|_pytest\.outcomes\.Exit)"
    r"|(?:\S*/)?(?:ba|da|z|k)?sh: (?:line )?\d*:? ?.+: (?:command not found|not found)$"
    r")"
)
"""What a line begins with that says why something failed before it could check anything."""
_NOTHING_DONE = re.compile(r"^make(?:\[\d+\])?: (?:Nothing to be done for |'.*' is up to date\.)")
_NONE_FOUND = re.compile(
    r"^\s*(?:No tests? (?:files )?found, exiting with code 0|0 passing\b|0 examples, 0 failures|0 pass$"
    r"|No tests were found|No tests executed|No tests to run|No test is available|Tests run: 0, "
    r"|testing: warning: no tests to run|warning: No Python files found)"
)
"""What runners say that found nothing and are content,"""
_SOME_FOUND = re.compile(r"\bTests run: [1-9]|\b[1-9]\d* (?:passing|passed|examples?|pass)\b|^ok\s")
"""and what they say that found something, too."""
_MODULE = re.compile(r"-m\s+(pytest|unittest|coverage|mypy|ruff|pylint|flake8|tox|nox)\b")
_IGNORED = re.compile(r"^make(?:\[\d+\])?: .*\(ignored\)$")
_SHEBANG = re.compile(r"#![^\n]*\b(?:ba|da|z|k)?sh\b")


def problem(command: str, ran: Ran, place: Path) -> str:
    """Why an ending says nothing about the work, if so. `place` is where the command ran.

    It reads files and may ask make: use a thread.
    """
    code = ran.code
    if ran.ended:
        return ran.ended
    assert code is not None
    if code in (NOT_FOUND, NOT_EXECUTABLE):
        last = next((line for line in reversed(ran.text.splitlines()) if line.strip()), "")
        return f"it could not be started: {last.strip() or f'exit code {code}'}"
    number = -code if code < 0 else code - 128
    if number in _ENDED_BY:
        return f"it was killed with signal {number}"
    if code == TIMED_OUT and _TIMEOUT.search(command):
        return "it ran into its own time limit (exit code 124)"
    told = summaries(ran.text)
    if code == 0:
        return _nothing_checked(command, ran, told, place)
    if any(each.passed or each.failed for each in told):
        return ""
    if code in _PYTEST_CODES and _PYTEST.search(command):
        return f"{_PYTEST_CODES[code]} (exit code {code})"
    if told:
        return _none_ran(told)
    lines = ran.text.split("\n")[-LAST_LINES:]
    said = next((line for line in reversed(lines) if _NOT_RUN.match(line)), None)
    return f"it could not be run: {said.strip()[:MAX_REASON]}" if said is not None else ""


def _nothing_checked(command: str, ran: Ran, told: list[OutputSummary], place: Path) -> str:
    """Why exit code 0 does not mean that something was checked, if so."""
    if bad := next((each for each in told if each.failed), None):
        return f"it exited with 0, but tests failed ({bad})"
    if told and not any(each.passed for each in told):
        return _none_ran(told)
    if _PYTEST.search(command) and not told:  # it may have collected only, or been told to print its help
        return "pytest printed no summary with tests that passed; without -qq it does, if it runs any"
    lines = [line for line in ran.text.split("\n") if line.strip()]
    if lines and all(map(_NOTHING_DONE.match, lines)):
        return f"nothing was run: {lines[-1].strip()[:MAX_REASON]}"
    none = next((line for line in lines if _NONE_FOUND.search(line)), None)
    if none is not None and not any(map(_SOME_FOUND.search, lines)):
        return f"it found nothing to check: {none.strip()[:MAX_REASON]}"
    if own := next((name for name in _MODULE.findall(command) if _is_module(place, name)), ""):
        return f"the project has a module {own} of its own, which was run in place of the real one"
    if ignored := next((line for line in lines if _IGNORED.match(line)), None):
        return f"make ignored a failure: {ignored.strip()[:MAX_REASON]}"
    return blind(command) or _blind_script(*script_of(command), place)


def _is_module(place: Path, name: str) -> bool:
    return (place / f"{name}.py").is_file() or (place / name / "__main__.py").is_file()


def _none_ran(told: list[OutputSummary]) -> str:
    skipped = next((each for each in told if each.skipped), None)
    return f"no test was run ({skipped})" if skipped is not None else "it found no tests to run"


def _blind_script(kind: str, name: str, place: Path) -> str:
    """Why the script that a command runs does not say anything, if so."""
    if kind == "npm":
        text = _read(place / "package.json")
        try:
            script = (msgspec.json.decode(text).get("scripts") or {}).get(name) if text else None
        except (msgspec.DecodeError, AttributeError, RecursionError):
            return ""
        why = blind(script, pipefail=False) if isinstance(script, str) else ""
        return f"its script {name!r} of package.json: {why}" if why else ""
    if kind == "make":
        text = _recipe(name, place)
        if text is None:
            return ""
        each = [blind(line, pipefail=False) for line in text.splitlines() if line.strip()]
        why = next((one for one in each if one and one != NOTHING), "" if "" in each else NOTHING)
        return f"its recipe: {why}" if why else ""
    text = _read(place / name) if kind == "file" else None
    if text is None:
        return ""
    if not any(map(_is_code, text.splitlines())):
        return f"its script {name} is empty"
    is_shell = name.endswith(".sh") or _SHEBANG.match(text)
    why = blind(text, pipefail=False) if is_shell else ""
    return f"its script {name}: {why}" if why else ""


def _recipe(command: str, place: Path) -> str | None:
    """What make would run. It is asked only when it has run all that just now."""
    words = shlex.split(command)
    environment = {**git_environment(), "MAKEFLAGS": ""}
    try:
        done = subprocess.run(
            [words[0], "-n", "--no-print-directory", *words[1:]],
            check=False,
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RECIPE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout[:MAX_SCRIPT].decode("utf-8", "replace").replace("\\\n", " ")
    return text if done.returncode == 0 and text.strip() else None


def _read(path: Path) -> str | None:
    """A file of text that is not too long."""
    try:
        data = read_file(path, MAX_SCRIPT + 1)
    except OSError:
        return None
    return data.decode("utf-8", "replace") if len(data) <= MAX_SCRIPT else None


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(("#", "//"))
