"""How deep values nest, found without recursion. The readers count brackets as they go; this is for what
they can't count in that way: prefixes such as tags and quotes, and the keys of maps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Parts = Mapping[type, Callable[[Any], Iterable[Any]]]
"""The types of values that have others inside, and how to get at these."""


def nests_deeper(values: Iterable[Any], parts: Parts, limit: int) -> bool:
    """Whether more than `limit` collections lie in each other anywhere in the values."""
    level = [value for value in values if type(value) in parts]
    for _ in range(limit):
        if not level:
            return False
        level = [part for value in level for part in parts[type(value)](value) if type(part) in parts]
    return bool(level)
