"""Where things stand in a TOML file: the lines of its keys, for messages and for `fairlead config`.

Python's own reader tells no lines. The file is taken apart here statement by statement: each is as many lines
as that reader takes for a whole document. Only for a file that was read as a whole already.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

MAX_STATEMENT = 400
"""How many lines of one statement are tried one by one; what is longer counts as its first line."""

Path = tuple[str, ...]


def lines_of(text: str) -> dict[Path, int]:
    """The line of each key and table, by its path; a table of an array has its number, from 1 on, in it.

    >>> lines_of("[a]\\nb = 1\\n[[c]]\\nd = 2")
    {('a',): 1, ('a', 'b'): 2, ('c', '1'): 3, ('c', '1', 'd'): 4}
    """
    found: dict[Path, int] = {}
    table: Path = ()
    counts: dict[Path, int] = {}
    for number, statement, value in _statements(text.splitlines()):
        if statement.lstrip().startswith("["):
            table = _named(value, counts)
            found.setdefault(table, number)
        else:
            for path in _paths(value):
                found.setdefault((*table, *path), number)
    return found


def _statements(lines: list[str]) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    at = 0
    while at < len(lines):
        for end in range(at + 1, min(len(lines), at + MAX_STATEMENT) + 1):
            statement = "\n".join(lines[at:end])
            try:
                value = tomllib.loads(statement)
            except tomllib.TOMLDecodeError:
                continue
            if value:
                yield at + 1, statement, value
            at = end
            break
        else:
            at += 1


def _named(header: Mapping[str, Any], counts: dict[Path, int]) -> Path:
    """The table that a header begins."""
    path: Path = ()
    value: Any = header
    while isinstance(value, Mapping) and value:
        [(key, value)] = value.items()
        path = (*path, key)
        if isinstance(value, list):
            counts[path] = counts.get(path, 0) + 1
            return (*path, str(counts[path]))
        if path in counts and value:  # a table within the last one of an array
            path = (*path, str(counts[path]))
    return path


def _paths(value: Mapping[str, Any]) -> Iterator[Path]:
    for key, inner in value.items():
        yield (key,)
        if isinstance(inner, Mapping):
            for path in _paths(inner):
                yield (key, *path)
