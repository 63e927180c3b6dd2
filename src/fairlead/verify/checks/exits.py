"""Command lines whose exit code says nothing: no part of them can fail, or a failure does not reach the end.

They are read as far as is needed for that: words, pipes, lists, redirections, and the text that a shell is
given. What is more (loops, conditions, groups) is not judged. Scripts of `make` and of package.json, and
shell scripts, are judged by what they run.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

MAX_TEXT = 64 * 1024
"""How many characters of a command or script are judged,"""
MAX_DEPTH = 5
"""and how deep one may be within another."""
MAX_PROGRAMS = 500
"""How many programs one may run; with more it is not judged."""
MAX_SHOWN = 60
"""How many characters of a command are named."""

NOTHING = "it checks nothing, because no part of it can fail"

_SIGNS = re.compile(r"&&|\|\||\|&|&>>?|[<>]&|>>|<<<?|[|;&()<>\n]")
_GROUPS = frozenset(
    {"(", ")", "{", "}", "if", "for", "while", "until", "case", "select", "function", "[[", "<<"}
)
_NEVER_FAIL = frozenset({"true", ":", "echo", "printf", "sleep", "date", "pwd", "set", "export", "wait"})
_FILTERS = frozenset({"cat", "tee", "tail", "head", "sort", "uniq", "wc", "tr", "sed", "awk", "cut", "less"})
"""What does not fail at the end of a pipe."""
_LOOKS = frozenset(f"-{each}" for each in ("ef", "nt", "ot", *"bcdefghkprstuvwxGLNOS"))
"""What `test` looks up; with anything else it only compares its words."""
_FIXED = re.compile(r"\s*\(\([^$`\w]*(?:\d[^$`\w]*)*\)\)\s*")
"""Arithmetic with numbers alone."""
_SHELLS = re.compile(r"(?:ba|da|z|k)?sh")
_WRAPPERS = frozenset({"env", "command", "exec", "time", "timeout", "nice", "nohup", "stdbuf", "sudo"})
_INTERPRETERS = re.compile(r"(?:python[\d.]*|node|ruby|perl)")
_NO_CODE = frozenset({"", "pass", "0", "1", "true", ";", "exit(0)", "exit()", "process.exit(0)"})
_CHECKERS = re.compile(
    r"py\.?test|tox|nox|jest|vitest|mocha|mypy|pyright|ruff|flake8|pylint|eslint|tsc|ctest|rspec|phpunit"
)
_DRIVERS = re.compile(
    r"g?make|npm|npx|yarn|pnpm|bun|cargo|go|mvn|gradlew?|rake|dotnet|bazel|python[\d.]*|just|uv"
)
_CHECKS = re.compile(r"(?:\w+[:-])?(?:unit)?(?:tests?|check|lint|vet|clippy|verify)(?:[:-]\w+)?")
_FORGIVING = frozenset({"--exit-zero", "--if-present", "--ignore-errors"})
_ONLY_TELLS = frozenset({"--version", "--help", "--dry-run", "--just-print"})
_MAKE = re.compile("g?make")
_MAKE_FLAGS = re.compile("(?:GNU)?MAKEFLAGS=(.*)", re.DOTALL)
_MAKE_LONG = {
    "touch": "t",
    "question": "q",
    "just-print": "n",
    "dry-run": "n",
    "recon": "n",
    "ignore-errors": "i",
}
_MAKE_VALUED = re.compile("[CEIOWfjlo]")


class _Program(NamedTuple):
    words: tuple[str, ...]
    is_after_pipe: bool = False

    @property
    def name(self) -> str:
        return os.path.basename(self.words[0]) if self.words else ""

    @property
    def shown(self) -> str:
        text = " ".join(self.words)
        return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


class _Group(Exception):
    """Shell that is not judged."""


@lru_cache(maxsize=64)  # a text within others is looked at several times
def blind(text: str, *, pipefail: bool = True, depth: int = 0) -> str:
    """Why exit code 0 of a command line says nothing, if so.

    >>> blind("pytest; true"), blind("pytest -q | tail"), blind("echo ok")[:19]
    ('it hides the exit code of `pytest`', '', 'it checks nothing, ')
    """
    if len(text) > MAX_TEXT or depth > MAX_DEPTH:
        return ""
    if whole := re.fullmatch(r"\s*[({]([^(){}]*)[)}]\s*", text):
        return blind(whole[1], pipefail=pipefail, depth=depth + 1)
    if whole := re.fullmatch(r"\s*\[\[\s([^\n;&|<>()]*)\s\]\]\s*", text):
        return blind(f"test {whole[1]}", depth=depth + 1)
    if _FIXED.fullmatch(text):
        return NOTHING
    try:
        seen, hidden = _sorted(list(_lists(text)), pipefail)
    except (_Group, ValueError):  # ValueError: a quote that does not end
        return ""
    for each in (*seen, *hidden):
        if (why := _within(each, depth)) and why != NOTHING:
            return why
    if all(_never_fails(each, depth) for each in seen):
        lost = [each for each in hidden if not _never_fails(each, depth)]
        return _hides(lost[-1]) if lost else NOTHING
    return next((_hides(each) for each in hidden if _is_check(each)), "")


def script_of(command: str) -> tuple[str, str]:
    """What kind of script a command line that runs just one runs, and its name: `file`, `make` or `npm`."""
    try:
        ((pipelines, _),) = _lists(command)
        ((_, (program,)),) = pipelines
    except (_Group, ValueError):
        return "", ""
    words, name = program.words, program.name
    if _MAKE.fullmatch(name):
        return "make", shlex.join(words)
    if name in ("npm", "yarn", "pnpm", "bun"):
        named = [word for word in words[1:] if not word.startswith("-") and word not in ("run", "run-script")]
        return "npm", {"t": "test"}.get(named[0], named[0]) if named else ""
    if _SHELLS.fullmatch(name) or _INTERPRETERS.fullmatch(name):
        named = [word for word in words[1:] if not word.startswith("-")]
        is_file = "-m" not in words and not any(re.fullmatch(r"-\w*[ce]", word) for word in words)
        return ("file", named[0]) if named and is_file else ("", "")
    return ("file", words[0]) if words and "/" in words[0] else ("", "")


def _hides(program: _Program) -> str:
    return f"it hides the exit code of `{program.shown}`"


class _List(NamedTuple):
    """Pipelines joined by && and ||, each with the sign before it."""

    pipelines: list[tuple[str, list[_Program]]]
    end: str


def _lists(text: str) -> Iterator[_List]:
    pipelines: list[tuple[str, list[_Program]]] = []
    programs: list[_Program] = []
    words: list[str] = []
    flags: list[str] = []
    before, is_target, count = "", False, 0
    for token, is_sign in (*_tokens(text), ("\n", True)):
        if token in _GROUPS and (is_sign or not words):
            raise _Group
        if not is_sign:
            if not is_target:
                words.append(token)
            is_target = False
        elif token[0] in "<>" or token.startswith("&>"):
            if words and re.fullmatch(r"\d", words[-1]):
                words.pop()
            is_target = True
        else:
            if words:
                programs.append(_Program(_bare(words, flags), bool(programs)))
                words = []
                count += 1
                if count > MAX_PROGRAMS:
                    raise _Group
            if token.startswith("|") and token != "||":
                continue
            if programs:
                pipelines.append((before, programs))
                programs = []
            if token in ("&&", "||"):
                before = token
            elif pipelines:
                yield _List(pipelines, token)
                pipelines, before = [], ""


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Words, and signs of the shell."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    is_comment = False
    for token in lexer:
        is_sign = bool(token) and all(each in ";&|()<>\n" for each in token)
        if is_comment and not (is_sign and "\n" in token):
            continue
        is_comment = token.startswith("#")
        if is_comment:
            continue
        if is_sign:
            yield from ((sign, True) for sign in _SIGNS.findall(token))
        else:
            yield token, False


def _bare(words: Sequence[str], flags: list[str]) -> tuple[str, ...]:
    """The words without assignments, and without programs that only run another.

    The flags that are set for `make` are words of it, and of those that come later.
    """
    left = list(words)
    flags += filter(_MAKE_FLAGS.match, words)
    while left:
        name = os.path.basename(left[0])
        if re.match(r"[A-Za-z_]\w*\+?=", left[0]):
            del left[0]
        elif name in _WRAPPERS and len(left) > 1:
            del left[0]
            while left and re.match(r"-|[\d.]+[smhd]?$", left[0]):
                del left[0]
        else:
            break
    return (*left, *flags) if left and _MAKE.fullmatch(os.path.basename(left[0])) else tuple(left)


def _make_letters(words: Sequence[str]) -> str:
    """The short options among the words of `make`, with those that are written long or as MAKEFLAGS."""
    letters = ""
    for word in words:
        if found := _MAKE_FLAGS.match(word):
            given = str(found[1]).split()
            letters += _make_letters([*(f"-{each.removeprefix('-')}" for each in given[:1]), *given[1:]])
        elif word.startswith("--") and word != "--":
            letters += "".join(short for name, short in _MAKE_LONG.items() if name.startswith(word[2:]))
        elif word.startswith("-"):
            letters += _MAKE_VALUED.split(word, maxsplit=1)[0]
    return letters


def _sorted(lists: list[_List], pipefail: bool) -> tuple[list[_Program], list[_Program]]:
    """The programs whose failure is that of the whole, and the others."""
    seen: list[_Program] = []
    hidden: list[_Program] = []
    is_strict = False
    for number, each in enumerate(lists):
        is_last = number == len(lists) - 1
        for at, (_, programs) in enumerate(each.pipelines):
            first = programs[0]
            if first.name == "set":
                given = " ".join(first.words[1:])
                is_strict = is_strict or bool(re.search(r"(?:^|\s)-\w*e|-o errexit", given))
                is_strict = is_strict and "+e" not in given
                pipefail = (pipefail or "o pipefail" in given) and "+o pipefail" not in given
            if first.name == "trap" and "exit" in " ".join(first.words[1:]):
                return [], [program for one in lists for _, all_of in one.pipelines for program in all_of]
            then = next((later for sign, later in each.pipelines[at + 1 :] if sign == "||"), None)
            reaches = (is_last or is_strict) and each.end != "&" and (then is None or _always_fails(then[0]))
            for place, program in enumerate(programs):
                is_seen = reaches and (pipefail or place == len(programs) - 1) and first.name != "!"
                (seen if is_seen else hidden).append(program)
            if first.name == "exit" and at == 0 and first.words[1:2] not in ((), ("$?",)):
                if not is_last:
                    seen.append(first)
                return seen, hidden
    return seen, hidden


def _always_fails(program: _Program) -> bool:
    return program.name == "false" or (
        program.name in ("exit", "return") and program.words[1:2] not in ((), ("0",))
    )


def _never_fails(program: _Program, depth: int) -> bool:
    words, name = program.words, program.name
    if not words or name in _NEVER_FAIL or (program.is_after_pipe and name in _FILTERS):
        return True
    if name in ("exit", "return"):
        return words[1:2] == ("0",)
    if name == "!" and len(words) > 1:
        return _is_fixed(words[1:])
    if _is_fixed(words):
        return True
    if _within(program, depth) == NOTHING or not _ONLY_TELLS.isdisjoint(words[1:]):
        return True
    if _INTERPRETERS.fullmatch(name):
        return words[1:2] in (("-c",), ("-e",)) and (words[2:3] or ("",))[0].strip() in _NO_CODE
    return bool(_MAKE.fullmatch(name)) and not set("ntq").isdisjoint(_make_letters(words))


def _is_fixed(words: Sequence[str]) -> bool:
    """Whether it is a test of words that are the same each time."""
    if os.path.basename(words[0]) not in ("test", "[", "expr") or words[0] == words[-1]:
        return False
    return not any(word in _LOOKS or re.search(r"[$`*?~]", word) for word in words[1:])


def _within(program: _Program, depth: int) -> str:
    """The judgement on the text that a shell is given."""
    words, name = program.words, program.name
    if name == "eval":
        return blind(" ".join(words[1:]), depth=depth + 1)
    if name == "!" and len(words) > 1 and _is_check(_Program(words[1:])):
        return f"it turns the exit code of `{' '.join(words[1:])[:MAX_SHOWN]}` round"
    forgives = next((each for each in words if each in _FORGIVING or each.startswith("--if-")), "")
    if _MAKE.fullmatch(name) and "i" in _make_letters(words):
        forgives = forgives or "-i"
    if forgives and (_is_check(program) or _DRIVERS.fullmatch(name)):
        return f"{forgives} hides the exit code of `{program.shown}`"
    if not _SHELLS.fullmatch(name):
        return ""
    at = next((i for i, word in enumerate(words) if re.fullmatch(r"-\w*c", word)), None)
    if at is None:
        return NOTHING if len(words) == 1 and not program.is_after_pipe else ""
    given = words[at + 1] if at + 1 < len(words) else ""
    return blind(given, pipefail="pipefail" in words[:at], depth=depth + 1)


def _is_check(program: _Program) -> bool:
    rest = program.words[1:]
    if _DRIVERS.fullmatch(program.name):
        return any(_CHECKS.fullmatch(word) or _CHECKERS.fullmatch(word) for word in rest)
    return bool(_CHECKERS.fullmatch(program.name))
