"""Writing nested values as text: one engine for both formats, driven by each one's table of types.

It keeps a stack of iterators over what is left to write instead of calling itself, so no nesting can reach
Python's recursion limit, and it joins the pieces once at the end, so the cost is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any, NamedTuple

Parts = Iterable[tuple[str, Any]]
"""The values inside of a collection, each with the text that goes before it."""


class Dialect(NamedTuple):
    """How values are written: those without parts as a text, the others as their parts and an ending."""

    format: str
    scalars: Mapping[type, Callable[[Any], str]]
    collections: Mapping[type, Callable[[Any], tuple[Parts, str]]]
    error: type[ValueError]

    def nearest(self, kind: type) -> type:
        """The closest base of a type that can be written."""
        for base in kind.__mro__:
            if base in self.scalars or base in self.collections:
                return base
        raise self.error(f"can't write a {kind.__qualname__} as {self.format}")


def sequence(opener: str, closer: str) -> Callable[[Any], tuple[Parts, str]]:
    """How to write a collection whose items stand between brackets, with blanks between them."""
    return lambda items: (
        (zip(chain((opener,), repeat(" ")), items), closer) if items else ((), opener + closer)
    )


def write(value: Any, dialect: Dialect, max_depth: int) -> str:
    """The text of a value."""
    scalar, collection = dialect.scalars.get, dialect.collections.get
    out: list[str] = []
    stack: list[tuple[Iterator[tuple[str, Any]], str]] = []
    parts: Iterator[tuple[str, Any]] = iter((("", value),))
    ending = ""
    while True:
        for before, item in parts:
            out.append(before)
            kind = type(item)
            written, opened = scalar(kind), None
            if written is None and (opened := collection(kind)) is None:
                kind = dialect.nearest(kind)
                written, opened = scalar(kind), collection(kind)
            if written is not None:
                out.append(written(item))
            elif opened is not None:
                if len(stack) >= max_depth:
                    raise dialect.error(f"the value nests deeper than {max_depth}, or holds itself")
                stack.append((parts, ending))
                inner, ending = opened(item)
                parts = iter(inner)
                break
        else:
            out.append(ending)
            if not stack:
                return "".join(out)
            parts, ending = stack.pop()


def digits(value: int, error: type[ValueError]) -> str:
    """An integer's decimal digits, also of a subclass that prints itself in another way."""
    try:
        return int.__repr__(value)
    except ValueError:  # Python refuses to convert very long ones
        raise error(f"an integer of {value.bit_length()} bits is too long to write") from None
