"""Comparing what was read more strictly than `==` does: 1 is not 1.0 nor true, a list is not a tuple, -0.0 is
not 0.0, 1.50M is not 1.5M, and NaN is NaN."""

from collections.abc import Hashable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from fairlead.formats import edn, sexp


def exactly(value: Any, ordered: bool = True) -> Hashable:
    """A stand-in that is equal for two values just when they are the same, types and all.

    Maps have an order unless `ordered` is False. A Distinct is what it holds: which one of two keys is in it
    depends on their order.
    """

    def each(values: Any) -> tuple[Hashable, ...]:
        return tuple(exactly(inner, ordered) for inner in values)

    kind = type(value)
    match value:
        case edn.Distinct():
            return exactly(value.value, ordered)
        case list() | tuple():
            return kind, each(value)
        case set() | frozenset():
            return kind, frozenset(each(value))
        case dict() | edn.FrozenMap():
            entries = each(value.items())
            return kind, entries if ordered and kind is dict else frozenset(entries)
        case edn.Tagged():
            return kind, value.tag, exactly(value.value, ordered)
        case sexp.Dotted():
            return kind, each(value.items), exactly(value.tail, ordered)
        case float() | Decimal():
            return kind, str(value)
        case datetime():
            return kind, value.astimezone(UTC).isoformat()
        case _:
            return kind, value
