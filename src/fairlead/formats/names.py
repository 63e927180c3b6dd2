"""Names that are values: the base of keywords and symbols in both formats.

Two names that are equal are the same object, so comparing and hashing them costs what it costs for any
object and never runs Python code. The table of names is weak: a peer that sends a million different
keywords leaves nothing behind once its message is gone.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

_making = Lock()


class Name:
    """An immutable, interned name. A subclass gives `check` (what may be a name) and `literal` (its text)."""

    __slots__ = ("__weakref__", "literal", "name")

    name: str
    literal: str
    """How the name is written in its format."""

    _known: ClassVar[WeakValueDictionary[str, Any]]

    def __init_subclass__(cls) -> None:
        cls._known = WeakValueDictionary()

    def __new__(cls, name: str) -> Self:
        known: Self | None = cls._known.get(name)
        if known is not None:
            return known
        literal = cls._literal(name)
        with _making:
            known = cls._known.get(name)
            if known is None:
                known = object.__new__(cls)
                object.__setattr__(known, "name", name)
                object.__setattr__(known, "literal", literal)
                cls._known[name] = known
            return known

    @classmethod
    def _literal(cls, name: str) -> str:
        """The text of `name` in the format. Raises ValueError for what can't be a name."""
        return name

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} can't be changed")

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"a {type(self).__name__} can't be changed")

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.name,)

    def __str__(self) -> str:
        return self.literal

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
