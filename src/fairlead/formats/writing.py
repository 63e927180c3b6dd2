"""Writing nested values as text: one engine for both formats, driven by each one's table of types.

It keeps a stack of iterators over what is left to write instead of calling itself, so no nesting can reach
Python's recursion limit, and it joins the pieces once at the end, so the cost is linear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple


class Brackets(NamedTuple):
    """How a collection is written: its items with blanks between them, and what stands around them."""

    opener: str
    closer: str
    empty: str
    items: Callable[[Any], Iterable[Any]] = iter


class Verbatim(str):
    """A piece of syntax among the items of a collection, such as a tag or a dot."""

    __slots__ = ()


class Dialect(NamedTuple):
    """How each type is written: as a text, as a map with its entries, or as a collection with its items."""

    format: str
    error: type[ValueError]
    scalars: Mapping[type, Callable[[Any], str]]
    maps: frozenset[type]
    collections: Mapping[type, Brackets]

    def nearest(self, kind: type) -> type:
        """The closest base of a type that can be written."""
        for base in kind.__mro__:
            if base in self.scalars or base in self.maps or base in self.collections:
                return base
        raise self.error(f"can't write a {kind.__qualname__} as {self.format}")


def write(value: Any, dialect: Dialect, max_depth: int) -> str:
    """The text of a value.

    While a map is written `entries` has the rest of it, otherwise `items` the rest of a collection. Both
    loops write what they can and leave at the first item that must be opened.
    """
    scalar = dialect.scalars.get
    out: list[str] = []
    stack: list[tuple[Iterator[tuple[Any, Any]] | None, Iterator[Any], str, str]] = []
    entries: Iterator[tuple[Any, Any]] | None = None
    items: Iterator[Any] = iter((value,))
    before = closer = ""
    while True:
        if entries is not None:
            for key, item in entries:
                out.append(before)
                before = ", "
                if (written := scalar(type(key))) is not None:
                    out.append(written(key))
                else:  # a collection that is a key is hashable, so it can't be deep
                    out.append(write(key, dialect, max_depth - len(stack)))
                out.append(" ")
                if (written := scalar(type(item))) is None:
                    break
                out.append(written(item))
            else:
                out.append(closer)
                entries, items, before, closer = stack.pop()
                continue
        else:
            for item in items:
                out.append(before)
                before = " "
                if (written := scalar(type(item))) is None:
                    break
                out.append(written(item))
            else:
                out.append(closer)
                if not stack:
                    return "".join(out)
                entries, items, before, closer = stack.pop()
                continue
        kind = type(item)
        is_map = kind in dialect.maps
        brackets = dialect.collections.get(kind)
        if not is_map and brackets is None:
            kind = dialect.nearest(kind)
            if (written := scalar(kind)) is not None:
                out.append(written(item))
                continue
            is_map = kind in dialect.maps
            brackets = dialect.collections.get(kind)
        if len(stack) >= max_depth:
            raise dialect.error(f"the value nests deeper than {max_depth}, or holds itself")
        if is_map:
            if not item:
                out.append("{}")
                continue
            stack.append((entries, items, before, closer))
            entries, before, closer = iter(item.items()), "{", "}"
        elif brackets is not None:
            if not item:
                out.append(brackets.empty)
                continue
            stack.append((entries, items, before, closer))
            before, closer, _, items_of = brackets
            entries, items = None, iter(items_of(item))


def digits(value: int, error: type[ValueError]) -> str:
    """An integer's decimal digits, also of a subclass that prints itself in another way."""
    try:
        return int.__repr__(value)
    except ValueError:  # Python refuses to convert very long ones
        raise error(f"an integer of {value.bit_length()} bits is too long to write") from None
