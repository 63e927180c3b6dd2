"""The values of EDN that Python has no type for, and the error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import chain
from typing import Any

from ..faults import TextError
from ..frozen import Frozen
from ..names import Name
from ..nesting import Parts

MAX_DEPTH = 512
"""How deep collections may nest."""
MAX_KEY_DEPTH = 64
"""How deep a collection may nest that is a key or an element of a set; hashing and comparing recurse."""
MAX_DECIMAL_EXPONENT = 2**31 - 1
"""How large the exponent of a decimal may be, as in Java."""

CONSTANTS = {"nil": None, "true": True, "false": False}
CHARACTERS = {
    "newline": "\n",
    "space": " ",
    "tab": "\t",
    "backspace": "\b",
    "formfeed": "\f",
    "return": "\r",
}


class EdnError(TextError):
    """A text that is not EDN, or a value that EDN can't hold."""


_DOT = r"[^\n\r\x85\u2028\u2029]"  # what `.` matches in Java
_NAME = re.compile(rf":?([^0-9/]{_DOT}*/)?(/|[^0-9/][^/]*)")
_NO_NAME = re.compile(
    r'[\t-\r\x1c-\x20,"();\[\\\]^{}@`~\ud800-\udfff\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]'
)


def is_name(text: str) -> bool:
    """Whether Clojure's EDN reader takes a token for a symbol or a keyword."""
    match = _NAME.fullmatch(text)
    return (
        match is not None
        and not (match[1] or "").endswith(":/")
        and not text.endswith(":")
        and "::" not in text
        and _NO_NAME.search(text) is None
    )


def is_number(text: str) -> bool:
    """Whether a token starts as numbers start; it must then be one."""
    first = text[1:2] if text[0] in "+-" else text[0]
    return first.isdecimal() and first < "\U00010000"  # Java looks at half of a pair, which is no digit


def begins_tag(text: str) -> bool:
    """Whether a tag can begin in this way: Clojure fails at letters beyond Latin-1."""
    return text[:1].isalpha() and text[0] < "\u0100"


def is_of_java(value: Decimal) -> bool:
    """Whether a decimal that is finite has a scale and an exponent that Java can hold."""
    exponent = value.as_tuple().exponent
    return (
        isinstance(exponent, int)
        and exponent >= -MAX_DECIMAL_EXPONENT
        and abs(value.adjusted()) <= MAX_DECIMAL_EXPONENT
    )


class _Named(Name):
    """What a keyword and a symbol share: a name with an optional namespace before the slash."""

    __slots__ = ()

    @property
    def namespace(self) -> str | None:
        """`psi.graph` of `psi.graph/nodes`."""
        namespace, slash, _ = self.name.partition("/")
        return namespace if slash and namespace else None

    @property
    def local(self) -> str:
        """`nodes` of `psi.graph/nodes`."""
        return self.name[len(self.namespace) + 1 :] if self.namespace is not None else self.name


class Keyword(_Named):
    """An EDN keyword. It is made from its name without the colon: `Keyword("psi.graph/nodes")`."""

    __slots__ = ()

    @classmethod
    def _literal(cls, name: str) -> str:
        literal = ":" + name
        if not name or not is_name(literal):
            raise ValueError(f"not the name of an EDN keyword: {name!r}")
        return literal


class Symbol(_Named):
    """An EDN symbol: `Symbol("psi/fork")`."""

    __slots__ = ()

    @classmethod
    def _literal(cls, name: str) -> str:
        if not name or name[0] in ":#" or name in CONSTANTS or not is_name(name) or is_number(name):
            raise ValueError(f"not the name of an EDN symbol: {name!r}")
        return name


class Char(Frozen):
    r"""An EDN character, `\a`: one UTF-16 unit that is not half of a pair, as on the JVM."""

    __slots__ = fields = ("value",)
    value: str

    def __init__(self, value: str) -> None:
        if len(value) != 1 or not (value < "\ud800" or "\udfff" < value < "\U00010000"):
            raise ValueError(f"not a single character of the basic plane: {value!r}")
        self._fill(value)


class Tagged(Frozen):
    """A value with a tag that is neither #inst nor #uuid: `#psi/ref 1` is `Tagged(Symbol("psi/ref"), 1)`."""

    __slots__ = fields = ("tag", "value")
    tag: Symbol
    value: Any

    def __init__(self, tag: Symbol, value: Any) -> None:
        if not begins_tag(tag.name):
            raise ValueError(f"a tag must begin with a letter of Latin-1: {tag.name!r}")
        self._fill(tag, value)


class BigInt(int):
    """An integer that was, or is to be, written with the suffix N."""

    __slots__ = ()


class Vector(tuple[Any, ...]):
    """A vector where it must be hashable. Equal to a tuple of the same elements, as in Clojure."""

    __slots__ = ()


class FrozenMap(Mapping[Any, Any]):
    """A map where it must be hashable. Equal to a dict of the same entries."""

    __slots__ = ("_entries", "_hash")

    def __init__(self, entries: Mapping[Any, Any]) -> None:
        self._entries = dict(entries)
        self._hash = hash(frozenset(self._entries.items()))

    def __getitem__(self, key: Any) -> Any:
        return self._entries[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        # what we inherit would copy both
        return self._entries == other._entries if isinstance(other, FrozenMap) else super().__eq__(other)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[FrozenMap], tuple[dict[Any, Any]]]:
        return FrozenMap, (self._entries,)  # the hash is another one in another process

    def __repr__(self) -> str:
        return f"FrozenMap({self._entries!r})"


class Distinct:
    """A key that is equal to another one in Python but not in EDN. It is written as its value."""

    __slots__ = ("_exact", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._exact = exact(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Distinct) and self._exact == other._exact

    def __hash__(self) -> int:
        return hash(self._exact)

    def __repr__(self) -> str:
        return f"Distinct({self.value!r})"


def _entries(entries: Mapping[Any, Any]) -> Iterator[Any]:
    return chain(entries, entries.values())


PARTS: Parts = {
    list: iter,
    tuple: iter,
    Vector: iter,
    frozenset: iter,
    dict: _entries,
    FrozenMap: _entries,
    Tagged: lambda tagged: (tagged.value,),
    Distinct: lambda distinct: (distinct.value,),
}
"""The values that have others inside, as they are read."""


def exact(value: Any) -> Any:
    """A hashable stand-in that is equal for two frozen values just when they are equal in Clojure."""
    match value:
        case tuple():
            return ("sequence", *map(exact, value))
        case frozenset():
            return ("set", frozenset(map(exact, value)))
        case FrozenMap():
            return ("map", frozenset((exact(key), exact(item)) for key, item in value.items()))
        case Tagged():
            return ("tagged", value.tag, exact(value.value))
        case Distinct():
            return value._exact
        case int() if not isinstance(value, bool):
            return (int, value)
        case _:
            return (type(value), value)
