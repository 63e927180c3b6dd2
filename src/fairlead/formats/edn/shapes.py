"""Remembering shapes: a protocol says the same maps over and over, with other strings in them.

What is left of a text when its strings are taken out is its shape. A shape that comes a second time is read
once more with holes for the strings, and from then on a text of that shape is made by copying the result and
filling the holes, which costs a step for each collection and string instead of one for each token.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from .values import BigInt, Keyword, Symbol

MAX_SHAPES = 256
"""How many shapes are remembered; when it is full we start anew."""
MAX_SHAPE_LENGTH = 2048
"""How long a shape may be to be remembered."""
MAX_SHAPE_DEPTH = 16
"""How deep a shape may nest to be remembered: filling recurses."""

_SHARED = frozenset({Keyword, Symbol, int, BigInt, float, bool, type(None), Decimal, Fraction})


class Hole(str):
    """Stands for the string with this number while a shape is read."""

    __slots__ = ()


class Shape(NamedTuple):
    """A map or vector to copy, and which of its places are filled with which string or inner shape."""

    model: dict[Any, Any] | list[Any]
    holes: list[tuple[Any, int]]
    inner: list[tuple[Any, Shape]]

    def filled(self, strings: list[str]) -> Any:
        model, holes, inner = self
        value: Any = model.copy()
        for place, number in holes:
            value[place] = strings[number]
        for place, shape in inner:
            value[place] = shape.filled(strings)
        return value


def _shape(model: Any, depth: int = MAX_SHAPE_DEPTH) -> Shape | None:
    """The shape of what was read with holes, or None if there is more in it than maps, vectors and atoms."""
    shape = Shape(model, [], [])
    for place, part in model.items() if type(model) is dict else enumerate(model):
        kind = type(part)
        if type(place) not in _SHARED or depth == 0:
            return None
        if kind is Hole:
            shape.holes.append((place, int(part)))
        elif kind is dict or kind is list:
            inner = _shape(part, depth - 1)
            if inner is None:
                return None
            shape.inner.append((place, inner))
        elif kind not in _SHARED:
            return None
    return shape


class Shapes:
    """The shapes met so far. None stands for one met once, False for one that can't be filled."""

    def __init__(self) -> None:
        self._shapes: dict[Hashable, Shape | bool | None] = {}

    def find(self, key: Hashable) -> Shape | None:
        shape = self._shapes.get(key)
        return shape if type(shape) is Shape else None

    def met(self, key: Hashable, strings: int, read: Callable[[list[str]], list[Any]]) -> None:
        """Note that a shape was read; the second time `read` is called with holes for its strings."""
        if key not in self._shapes:
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            self._shapes[key] = None
        elif self._shapes.get(key, False) is None:  # another thread may just have started anew
            self._shapes[key] = _shape(read([Hole(number) for number in range(strings)])) or False
