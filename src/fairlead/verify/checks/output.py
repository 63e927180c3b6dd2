"""What a test run or a checker printed: its summary, its coverage, and the part that helps to fix something.

It is about text only. The printed summaries of pytest, unittest, jest, vitest, node, cargo and go are
understood, and the failures of those and of compilers, type checkers, linters, make and tracebacks are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

MAX_USEFUL = 6000
"""How many characters the useful part of an output has at most."""
MAX_BLOCK_LINES = 60
"""How many lines of one failure are given."""
HEAD_LINES = 15
"""How many lines at the beginning are given of an output that is not understood,"""
TAIL_LINES = 40
"""and how many at the end."""
MAX_LINE = 400
"""How many characters of a line are given."""
MAX_LINES_READ = 50_000
"""How many lines are looked at, the last ones."""


class OutputSummary(Struct, frozen=True):
    """What a test runner says about a run."""

    runner: str
    passed: int
    failed: int = 0
    skipped: int = 0
    """Skipped, deselected, ignored, to do, filtered out, or expected to fail: all that did not pass."""

    @property
    def is_clean(self) -> bool:
        """Whether something passed and nothing else happened."""
        return self.passed > 0 and not self.failed and not self.skipped

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        skipped = f", {self.skipped} skipped or expected to fail" if self.skipped else ""
        return f"{self.runner}: {self.passed} passed{failed}{skipped}"


# --- summaries --------------------------------------------------------------------------------------------

_COUNT = re.compile(r"(\d+) ([a-z]+)")
_PYTEST = re.compile(
    r"^(?:=+ )?((?:\d+ [a-z]+, )*\d+ (?:passed|failed|skipped|deselected|xfailed|xpassed|errors?|warnings?"
    r"|rerun|subtests [a-z]+)\b.*?) in \d[\d.:]*s?\b",
)
_PYTEST_NONE = re.compile(r"^(?:=+ )?no tests ran(?: in|\b)")
_UNITTEST = re.compile(r"^Ran (\d+) tests? in ")
_UNITTEST_END = re.compile(r"^(OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$")
_JEST = re.compile(r"^\s*Tests:?\s+(\d+ (?:passed|failed|skipped|todo|total)\b.*)$")
_CARGO = re.compile(
    r"^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; \d+ measured; (\d+) filtered"
)
_GO_OK = re.compile(r"^ok\s+\S+\s+(?:\(cached\)|\d[\d.]*m?s)(.*)$")
_GO_FAIL = re.compile(r"^FAIL\s+\S+(?:\s+\d[\d.]*m?s|\s+\[.*\])$")
_GO_NONE = re.compile(r"^\?\s+\S+\s+\[no test files\]$")
_GO_SKIP = re.compile(r"^\s*--- SKIP: ")
_NODE = re.compile(r"^[#ℹ] (pass|fail|cancelled|skipped|todo) (\d+)$")

_GOOD = frozenset({"passed"})
_BAD = frozenset({"failed", "error", "errors"})
_NEUTRAL = frozenset({"warning", "warnings", "total", "subtests"})


def summaries(text: str) -> list[OutputSummary]:
    """What test runners say in an output, one for each run."""
    found: list[OutputSummary] = []
    ran = -1
    go: list[int] = [0, 0, 0]
    has_go = False
    node: dict[str, int] = {}
    for line in _read(text):
        if match := _PYTEST.match(line):
            found.append(_counted("pytest", match[1]))
        elif _PYTEST_NONE.match(line):
            found.append(OutputSummary("pytest", 0))
        elif match := _UNITTEST.match(line):
            ran = int(match[1])
        elif ran >= 0 and (match := _UNITTEST_END.match(line)):
            found.append(_unittest(ran, match[2] or ""))
            ran = -1
        elif match := _JEST.match(line):
            found.append(_counted("jest", match[1]))
        elif match := _CARGO.match(line):
            passed, failed, ignored, filtered = map(int, match.groups())
            found.append(OutputSummary("cargo", passed, failed, ignored + filtered))
        elif match := _GO_OK.match(line):
            go[2 if "no tests to run" in match[1] else 0] += 1
        elif _GO_FAIL.match(line):
            go[1] += 1
        elif _GO_NONE.match(line):
            has_go = True
        elif _GO_SKIP.match(line):
            go[2] += 1
        elif match := _NODE.match(line):
            node[match[1]] = node.get(match[1], 0) + int(match[2])
    if has_go or go[0] or go[1] or go[2]:
        found.append(OutputSummary("go", *go))
    if "pass" in node:
        failed = node.get("fail", 0) + node.get("cancelled", 0)
        found.append(
            OutputSummary("node", node["pass"], failed, node.get("skipped", 0) + node.get("todo", 0))
        )
    return _without_empty_cargo(found)


def _without_empty_cargo(found: list[OutputSummary]) -> list[OutputSummary]:
    """Cargo tells of each program with tests, also of those that have none."""
    has_some = any(each.runner == "cargo" and each.passed + each.failed for each in found)
    return [each for each in found if not (has_some and each == OutputSummary("cargo", 0))]


def _counted(runner: str, text: str) -> OutputSummary:
    passed = failed = other = 0
    for number, word in _COUNT.findall(text):
        if word in _GOOD:
            passed += int(number)
        elif word in _BAD:
            failed += int(number)
        elif word not in _NEUTRAL:
            other += int(number)
    return OutputSummary(runner, passed, failed, other)


def _unittest(ran: int, details: str) -> OutputSummary:
    counts = {name.strip(): int(number) for name, number in re.findall(r"([a-z ]+)=(\d+)", details)}
    failed = counts.pop("failures", 0) + counts.pop("errors", 0)
    other = sum(counts.values())
    return OutputSummary("unittest", max(0, ran - failed - other), failed, other)


# --- coverage ---------------------------------------------------------------------------------------------

_COVERAGE_PY = re.compile(r"^(\S+\.\w+)\s+\d+\s+(\d+)(?:\s+\d+\s+(\d+))?\s+\d+(?:\.\d+)?%")
_ISTANBUL = re.compile(r"^\s*(\S+\.\w+)\s*\|\s*([\d.]+)\s*\|\s*([\d.]+)\s*\|\s*[\d.]+\s*\|\s*([\d.]+)\s*\|")


def coverage(text: str) -> dict[str, bool]:
    """For each file of a printed coverage table (coverage.py, istanbul) whether all of it was run."""
    covered: dict[str, bool] = {}
    for line in _read(text):
        if match := _COVERAGE_PY.match(line):
            covered[match[1]] = match[2] == "0" and match[3] in (None, "0")
        elif match := _ISTANBUL.match(line):
            covered[match[1]] = all(float(each) == 100 for each in match.groups()[1:])
    return covered


# --- the useful part --------------------------------------------------------------------------------------


class _Rule(Struct, frozen=True):
    """Where something useful begins and ends. The line at the end belongs to it if `with_end`."""

    begin: re.Pattern[str]
    end: re.Pattern[str] | None = None
    with_end: bool = False
    weight: int = 1
    """What is kept first if there is too much: the highest."""
    limit: int = MAX_BLOCK_LINES


def _rule(begin: str, end: str | None = None, **more: int | bool) -> _Rule:
    return _Rule(re.compile(begin), re.compile(end) if end is not None else None, **more)  # type: ignore[arg-type]


_RULES = (
    # pytest
    _rule(r"^=+ short test summary info =+$", r"^=+ .* =+$", with_end=True, weight=3),
    _rule(r"^_{3,} .+ _{3,}$", r"^(?:_{3,} .+ _{3,}|=+ .* =+)$", weight=2),
    _rule(r"^(?:=+ )?\d+ (?:failed|error|passed).* in \d", weight=3, limit=1),
    _rule(r"^(?:FAILED|ERROR) \S+(?:::| - )", weight=3, limit=1),
    # unittest
    _rule(r"^(?:FAIL|ERROR): .+ \(.+\)", r"^(?:=|-){70}$", weight=1, limit=3),
    _rule(r"^FAILED \((?:failures|errors)=", weight=3, limit=1),
    # tracebacks
    _rule(r"^\s*Traceback \(most recent call last\):", r"^[^\s].*|^$", with_end=True, weight=2),
    # cargo and rustc
    _rule(r"^error(?:\[E\d+\])?: ", r"^$", weight=2),
    _rule(r"^---- .+ stdout ----$", r"^$", weight=2),
    _rule(r"^thread '.+' (?:\(\d+\) )?panicked at ", r"^(?:note: .*)?$", weight=2),
    _rule(r"^test .+ \.\.\. FAILED$", weight=1, limit=1),
    _rule(r"^test result: FAILED", weight=3, limit=1),
    # go
    _rule(r"^\s*--- FAIL: ", r"^(?:\s*--- (?:PASS|SKIP|FAIL)|=== |PASS|FAIL|ok\s)", weight=2),
    _rule(r"^panic: ", r"^(?:FAIL|exit status)", weight=2, limit=30),
    _rule(r"^FAIL\s+\S+", weight=3, limit=1),
    # jest, vitest, node
    _rule(r"^\s*● .+", r"^\s*(?:● .+|Test Suites:.*|Tests:.*)$", weight=2),
    _rule(r"^not ok \d+", r"^\s*\.\.\.$|^ok \d+", weight=2),
    _rule(r"^\s*Tests:?\s+\d+ failed", weight=3, limit=1),
    # compilers, type checkers and linters, one line each
    _rule(
        r"^\S[^:\n]*:\d+(?::\d+)?:? (?:fatal )?(?:error|warning|E|F|W|[A-Z]{1,5}\d{2,5})\b", weight=2, limit=1
    ),
    _rule(r"^\S[^:(\n]*\.\w+:\d+(?::\d+)?: ", weight=1, limit=1),
    _rule(r"^\S+\(\d+,\d+\): (?:error|warning) ", weight=2, limit=1),
    _rule(r"^\S+:\d+:\d+ - (?:error|warning) ", r"^$", weight=2),
    _rule(r"^[A-Z]{1,5}\d{3,5} .+", r"^$", weight=2, limit=15),
    _rule(r"^(?:/|\w:\\|\./)\S+$", r"^\s*$", weight=1, limit=30),
    _rule(r"^\s+\d+:\d+\s+(?:error|warning)\s", weight=2, limit=1),
    _rule(r"^Found \d+ errors?\b", weight=3, limit=1),
    _rule(r"^✖ \d+ problems?", weight=3, limit=1),
    # make, and what shells and programs say
    _rule(r"^make(?:\[\d+\])?: \*\*\* ", weight=3, limit=1),
    _rule(r"^\S+: line \d+: .+", weight=1, limit=1),
    _rule(r"^(?:fatal|FATAL|Fatal|error|Error|ERROR)\b[: ]", weight=1, limit=1),
    _rule(r"^\w*(?:Error|Exception)\b.*: ", weight=2, limit=1),
)


def useful_part(output: str, limit: int = MAX_USEFUL) -> str:
    """The part of an output that helps to fix what is wrong; its beginning and end if nothing is found.

    >>> useful_part("compiling\\nlinking\\na.c:3:1: error: expected ';'\\n" + "noise\\n" * 90)
    "[2 lines left out]\\na.c:3:1: error: expected ';'\\n[90 lines left out]"
    """
    lines = [line[:MAX_LINE] for line in _collapsed(_read(output))]
    if sum(len(line) + 1 for line in lines) <= limit // 3:
        is_short = len(lines) <= HEAD_LINES + TAIL_LINES
        if is_short:
            return "\n".join(lines)
    weights = _weighed(lines)
    if not any(weights):
        weights = [int(n < HEAD_LINES or n >= len(lines) - TAIL_LINES) for n in range(len(lines))]
    return _chosen(lines, weights, limit)


def _weighed(lines: Sequence[str]) -> list[int]:
    """How useful each line is; 0 for those that are not."""
    weights = [0] * len(lines)
    for rule in _RULES:
        at = 0
        while at < len(lines):
            if not rule.begin.match(lines[at]):
                at += 1
                continue
            end = at + 1
            while rule.end is not None and end < len(lines):
                if rule.end.match(lines[end]):
                    end += rule.with_end
                    break
                end += 1
            stop = min(end, at + rule.limit) if rule.end is not None else at + 1
            for number in range(at, min(stop, len(lines))):
                weights[number] = max(weights[number], rule.weight)
            at = max(at + 1, end)
    return weights


def _chosen(lines: Sequence[str], weights: Sequence[int], limit: int) -> str:
    """The lines of the highest weights that there is room for, in their order, and how many are left out."""
    room = limit - 200
    taken: set[int] = set()
    for weight in sorted(set(weights) - {0}, reverse=True):
        numbers = [number for number, each in enumerate(weights) if each == weight]
        size = sum(len(lines[number]) + 1 for number in numbers)
        if size > room:  # from both ends: the first failure and the last word matter most
            numbers = _from_both_ends(lines, numbers, room)
            size = sum(len(lines[number]) + 1 for number in numbers)
        taken.update(numbers)
        room -= size + 30 * (len(numbers) // 5)
        if room <= 0:
            break
    shown: list[str] = []
    last = -1
    for number in [*sorted(taken), len(lines)]:
        gap = number - last - 1
        if gap and any(line.strip() for line in lines[last + 1 : number]):
            shown.append(f"[{gap} line{'s' if gap > 1 else ''} left out]")
        if number < len(lines):
            shown.append(lines[number])
        last = number
    text = "\n".join(shown)
    return text if len(text) <= limit else f"{text[: limit - 20]}\n[cut here]"


def _from_both_ends(lines: Sequence[str], numbers: Sequence[int], room: int) -> list[int]:
    first: list[int] = []
    last: list[int] = []
    begin, end, is_first = 0, len(numbers) - 1, True
    front = room * 2 // 3
    while begin <= end:
        number = numbers[begin] if is_first else numbers[end]
        size = len(lines[number]) + 1
        if is_first and size > front:
            is_first = False
            continue
        if size > room:
            break
        room -= size
        if is_first:
            front -= size
            first.append(number)
            begin += 1
        else:
            last.append(number)
            end -= 1
    return [*first, *reversed(last)]


_NOISE = re.compile(
    r"^\s*(?:[.sxEFX]{10,}\s*\[\s*\d+%\]"  # pytest's dots
    r"|\S+ (?:[.sxX]+|PASSED.*)\s*\[\s*\d+%\]"
    r"|(?:Compiling|Downloading|Downloaded|Checking|Fetching|Collecting|Installing|Requirement already) .*"
    r"|test .+ \.\.\. ok|=== RUN .*|--- PASS: .*|[✓✔] .*)$"
)


def _collapsed(lines: Iterable[str]) -> list[str]:
    """Lines without progress, and lines that repeat once only."""
    kept: list[str] = []
    repeated = 0
    for line in lines:
        line = line.rstrip()
        if _NOISE.match(line):
            continue
        if kept and line and line == kept[-1]:
            repeated += 1
            if repeated >= 3:
                continue
        else:
            repeated = 0
        kept.append(line)
    return kept


def _read(text: str) -> list[str]:
    return text.split("\n")[-MAX_LINES_READ:]
