"""Globs for paths: `*` and `?` within a name, `**` for any number of directories, `[a-z]`, `{one,other}`.

A glob is matched name by name, so that none takes longer than the product of its length and the path's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate

MAX_ALTERNATIVES = 64
"""How many globs the braces of one may stand for."""

_BRACES = re.compile(r"\{([^{}]*)\}")
_ESCAPED = re.compile(r"\\(.)")


def matcher(glob: str) -> Callable[[str], bool]:
    """A test for relative paths. Without a slash, a glob is about the last name. Raises ValueError.

    >>> is_test = matcher("tests/**/test_*.py")
    >>> is_test("tests/agent/test_tools.py"), is_test("src/test_it.py")
    (True, False)
    """
    tests = [_one(each) for each in _alternatives(glob)]
    return lambda path: any(test(path) for test in tests)


def escaped(text: str) -> str:
    """A glob that matches just this text."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", text)


def _alternatives(glob: str) -> list[str]:
    """The glob with its braces written out, the innermost first."""
    ready, waiting = [], [glob]
    while waiting:
        each = waiting.pop()
        braces = next(
            (found for found in _BRACES.finditer(each) if not _is_escaped(each, found.start())), None
        )
        if braces is None:
            ready.append(each)
        else:
            ends = each[: braces.start()], each[braces.end() :]
            waiting += [f"{ends[0]}{choice}{ends[1]}" for choice in braces[1].split(",")]
        if len(ready) + len(waiting) > MAX_ALTERNATIVES:
            raise ValueError(f"the braces of a glob stand for more than {MAX_ALTERNATIVES} globs")
    return ready


def _is_escaped(text: str, at: int) -> bool:
    return (at - len(text[:at].rstrip("\\"))) % 2 == 1


def _one(glob: str) -> Callable[[str], bool]:
    names = glob.removeprefix("./").strip("/").split("/")
    if "/" not in glob.removeprefix("./").rstrip("/"):
        names.insert(0, "**")
    # None stands for `**`
    steps = [None if name == "**" else _name(name) for name in names]
    return lambda path: _matches(steps, path.split("/"))


def _name(glob: str) -> re.Pattern[str]:
    """One name of a glob. What a backslash takes the meaning from becomes a set of one for `translate`."""
    plain = _ESCAPED.sub(lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], glob)
    return re.compile(translate(plain))


def _matches(steps: list[re.Pattern[str] | None], names: list[str]) -> bool:
    places = _onward({0}, steps)
    for name in names:
        reached = set()
        for place in places:
            if place < len(steps):
                step = steps[place]
                if step is None:
                    reached.add(place)
                elif step.match(name):
                    reached.add(place + 1)
        places = _onward(reached, steps)
        if not places:
            return False
    return len(steps) in places


def _onward(places: set[int], steps: list[re.Pattern[str] | None]) -> set[int]:
    """The places, and those behind a `**` that may stand for nothing."""
    found = set(places)
    for place in places:
        while place < len(steps) and steps[place] is None:
            place += 1
            found.add(place)
    return found
