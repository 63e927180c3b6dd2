"""A stand-in for ripgrep where that is not installed, run as a program of its own.

It knows the few options that our tools give to ripgrep and prints what ripgrep would: names of files, or JSON
records of matches. `.gitignore`, `.ignore` and `.git/info/exclude` are followed, links are not. It is slow
and simple; whoever runs it sets the time limit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...formats.patterns import Pattern, PatternMatch, compiled
from ...system.opening import read_file
from .globs import matcher

MAX_LINE = 1024 * 1024
"""How many bytes of a line are searched; what is longer counts as more than one line."""
MAX_IGNORE_FILE = 1024 * 1024
_BINARY_HEAD = 8 * 1024
_IGNORE_FILES = (".gitignore", ".ignore")


class _Ignored(NamedTuple):
    """One line of an ignore file, for what lies below `base`."""

    base: str
    is_wanted: Callable[[str], bool]
    is_exception: bool
    is_for_directories: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; gives what ripgrep would exit with."""
    options = _options().parse_args(arguments)
    try:
        hidden = [matcher(glob.removeprefix("!")) for glob in options.glob]
        pattern = _pattern(options)
    except ValueError as error:
        print(f"regex parse error: {error}", file=sys.stderr)
        return 2
    found = False
    try:
        for path in _files(options.path or ["."], hidden):
            found |= _print_name(path) if options.files else _search(path, pattern, options.context)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0 if found else 1


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ripgrep", allow_abbrev=False)
    for flag in ("files", "null", "json", "ignore-case", "fixed-strings"):
        parser.add_argument(f"--{flag}", action="store_true")
    for always in ("hidden", "no-require-git", "no-ignore-global", "no-messages"):
        parser.add_argument(f"--{always}", action="store_true", help="always so here")
    parser.add_argument("--sort", choices=["path"])
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("--glob", action="append", default=[])
    parser.add_argument("--regexp", default="")
    parser.add_argument("path", nargs="*")
    return parser


def _pattern(options: argparse.Namespace) -> Pattern:
    return compiled(options.regexp, literal=options.fixed_strings, ignore_case=options.ignore_case)


def _files(tops: Sequence[str], hidden: list[Callable[[str], bool]]) -> Iterator[str]:
    for top in tops:
        if os.path.isdir(top) and not os.path.islink(top):
            yield from _below(top, _inherited(os.path.abspath(top)), hidden)
        else:
            yield top


def _below(top: str, rules: list[_Ignored], hidden: list[Callable[[str], bool]]) -> Iterator[str]:
    """The files below a directory, in order. What hides a directory hides all that is in it."""
    here = os.path.abspath(top)
    rules = rules + [rule for name in _IGNORE_FILES for rule in _read(os.path.join(here, name), here)]
    try:
        with os.scandir(top) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        path = os.path.join(here, entry.name)
        is_directory = entry.is_dir(follow_symlinks=False)
        if any(is_hidden(entry.name) for is_hidden in hidden) or _is_ignored(path, is_directory, rules):
            continue
        if is_directory:
            yield from _below(os.path.join(top, entry.name), rules, hidden)
        elif entry.is_file(follow_symlinks=False):
            yield os.path.join(top, entry.name)


def _inherited(directory: str) -> list[_Ignored]:
    """The rules of the directories above, up to the root of the repository."""
    above: list[str] = []
    here = directory
    while not os.path.exists(os.path.join(here, ".git")):
        parent = os.path.dirname(here)
        if parent == here:
            return []  # in no repository
        here = parent
        above.append(here)
    rules = list(_read(os.path.join(here, ".git", "info", "exclude"), here))
    for each in reversed(above):
        for name in _IGNORE_FILES:
            rules += _read(os.path.join(each, name), each)
    return rules


def _read(path: str, base: str) -> Iterator[_Ignored]:
    try:
        lines = os.fsdecode(read_file(path, MAX_IGNORE_FILE)).splitlines()
    except OSError:
        return
    for line in lines:
        bare = line.rstrip()
        line = line[: len(bare) + 1] if bare.endswith("\\") else bare  # a blank that is quoted stays
        if not line or line.startswith("#"):
            continue
        is_exception = line.startswith("!")
        glob = line[1:] if is_exception else line
        # a backslash before a brace: git knows no braces
        glob = re.sub(r"(?<!\\)([{}])", r"\\\1", glob)
        is_for_directories = glob.endswith("/")
        if glob.strip("/"):
            yield _Ignored(base, matcher(glob.rstrip("/")), is_exception, is_for_directories)


def _is_ignored(path: str, is_directory: bool, rules: list[_Ignored]) -> bool:
    """The last rule that fits decides."""
    for rule in reversed(rules):
        if is_directory or not rule.is_for_directories:
            below = path[len(rule.base) :].lstrip("/")
            if rule.is_wanted(below):
                return not rule.is_exception
    return False


def _print_name(path: str) -> bool:
    sys.stdout.buffer.write(os.fsencode(path) + b"\0")
    return True


def _search(path: str, pattern: Pattern, context: int) -> bool:
    """Print a file's matches and the lines around them."""
    before: deque[tuple[int, str]] = deque(maxlen=context)
    after = 0
    found = False
    try:
        with open(path, "rb") as file:
            if b"\0" in file.read(_BINARY_HEAD):
                return False
            file.seek(0)
            number = 0
            while line := file.readline(MAX_LINE):
                number += 1
                text = line.decode("utf-8", "replace")
                if match := pattern.search(text.rstrip("\r\n")):
                    for each in before:
                        _report("context", path, *each)
                    before.clear()
                    _report("match", path, number, text, match)
                    found, after = True, context
                elif after:
                    _report("context", path, number, text)
                    after -= 1
                else:
                    before.append((number, text))
    except BrokenPipeError:
        raise
    except OSError:
        return found
    return found


def _report(kind: str, path: str, number: int, text: str, match: PatternMatch | None = None) -> None:
    name = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    data: dict[str, object] = {"path": {"text": name}, "lines": {"text": text}, "line_number": number}
    if match is not None:
        data["submatches"] = [{"start": len(text[: match.start()].encode("utf-8", "replace"))}]
    sys.stdout.write(json.dumps({"type": kind, "data": data}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
