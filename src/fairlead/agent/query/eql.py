"""The form of a query: EQL, a vector of what is wanted, is read into a selection that can be answered.

| in a query                     | what it asks for                                                     |
|--------------------------------|----------------------------------------------------------------------|
| `:a`                           | the attribute                                                        |
| `{:a [:b]}`                    | `:b` of the map, or of each map, that `:a` is                        |
| `{:a {:x [:b] :y [:c]}}`       | a union: the branch whose key the map has                            |
| `(:a {:limit 5})`              | the attribute, with parameters; also `{(:a {…}) […]}`, `({:a […]} {…})` |
| `[:id "x"]`, `{[:id "x"] [:b]}` | the entity with this identity, and what is wanted of it             |
| `*`                            | all there is                                                         |

It knows nothing of resolvers. A text that was read before is not read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ...formats import edn
from ...formats.edn import EdnError, Keyword, Symbol, Vector

MAX_QUERY_LENGTH = 64 * 1024
"""How many characters a query, or an entity, may have."""
MAX_QUERY_DEPTH = 32
"""How deep joins may nest."""
MAX_QUERY_PARTS = 2000
"""How many attributes, joins and idents a query may name."""
MAX_KNOWN_QUERIES = 256
"""How many queries are remembered in the form that was read,"""
MAX_KNOWN_LENGTH = 4096
"""and how long a text may be to be remembered."""
MAX_SHOWN = 80
"""How much of a bad part an error shows."""


class QueryError(Exception):
    """A query that can't be answered. The message names the attribute or resolver, and holds no data."""


class InvalidQuery(QueryError):
    """A query that is none: its form is wrong."""


class Selection(NamedTuple):
    """What is wanted of one entity."""

    parts: tuple[Ask | Ident, ...]
    everything: bool = False
    """Whether there is a `*` among the parts."""


class Ask(NamedTuple):
    """An attribute, its parameters, and what is wanted of the maps in it."""

    name: str
    key: Keyword
    params: Mapping[str, Any]
    call: str
    """The parameters as text, so that the same call is known again."""
    below: Selection | Mapping[str, Selection] | None
    """A mapping is a union: branches by the attribute that a map must have."""


class Ident(NamedTuple):
    """An entity of its own, by one attribute and its value."""

    name: str
    value: Any
    key: Vector
    below: Selection | None


_NONE: Mapping[str, Any] = {}
_EVERYTHING = Symbol("*")
_IDENTITIES = frozenset({str, int, bool, type(None), Keyword})


def parse(query: str | list[Any]) -> Selection:
    """Read a query, given as text or as the vector that the text holds. Raises InvalidQuery."""
    if not isinstance(query, str):
        return _parse(query)
    return _parse_text(query) if len(query) <= MAX_KNOWN_LENGTH else _parse_text.__wrapped__(query)


def parse_entity(text: str) -> dict[str, Any]:
    """The attributes that a query starts from, of a text that holds an EDN map with keywords."""
    value = _load(text, "entity")
    if type(value) is not dict:
        raise InvalidQuery("entity must be an EDN map")
    return _named(value, "entity")


def name_of(key: object) -> str | None:
    """The name of an attribute that stands as a key: a keyword, or its name."""
    return key.name if isinstance(key, Keyword) else key if isinstance(key, str) else None


@lru_cache(maxsize=MAX_KNOWN_QUERIES)
def _parse_text(text: str) -> Selection:
    return _parse(_load(text, "query"))


def _load(text: str, what: str) -> Any:
    if len(text) > MAX_QUERY_LENGTH:
        raise InvalidQuery(f"{what} has {len(text)} characters; at most {MAX_QUERY_LENGTH} are allowed")
    try:
        return edn.loads(text)
    except EdnError:
        raise InvalidQuery(f"{what} must be valid EDN") from None


def _parse(query: object) -> Selection:
    if type(query) is not list:
        raise InvalidQuery("query must be an EDN vector")
    return _Parser().selection(query, 1)


class _Parser:
    """Counts the parts of one query while they are read."""

    def __init__(self) -> None:
        self._parts = 0

    def selection(self, items: list[Any], depth: int) -> Selection:
        if depth > MAX_QUERY_DEPTH:
            raise InvalidQuery(f"query nests deeper than {MAX_QUERY_DEPTH} joins")
        parts: list[Ask | Ident] = []
        everything = False
        for item in items:
            if item is _EVERYTHING:
                everything = True
            elif type(item) is dict:
                if not item:
                    raise _bad(item)
                parts += [self._part(key, below, depth) for key, below in item.items()]
            else:
                parts.append(self._part(item, None, depth))
            if self._parts > MAX_QUERY_PARTS:
                raise InvalidQuery(f"query has more than {MAX_QUERY_PARTS} parts")
        return Selection(tuple(parts), everything)

    def _part(self, subject: object, below: object, depth: int) -> Ask | Ident:
        self._parts += 1
        params: Mapping[str, Any] = _NONE
        if type(subject) is tuple:
            subject, params = _call(subject)
            if type(subject) is dict and len(subject) == 1:
                ((subject, below),) = subject.items()
        if isinstance(subject, Keyword):
            call = _text_of(params) if params else ""
            return Ask(subject.name, subject, params, call, self._below(below, depth))
        if type(subject) in (list, Vector) and not params:
            return self._ident(subject, below, depth)
        raise _bad(subject)

    def _ident(self, subject: Any, below: object, depth: int) -> Ident:
        if len(subject) != 2 or not isinstance(subject[0], Keyword) or type(subject[1]) not in _IDENTITIES:
            raise InvalidQuery(
                f"{_value_text(subject)} is no ident; expected a keyword and a string or integer"
            )
        selection = self._below(below, depth)
        if isinstance(selection, dict):
            raise InvalidQuery(f"{_value_text(subject)} is one entity; a union makes no sense there")
        return Ident(subject[0].name, subject[1], Vector(subject), selection)

    def _below(self, below: object, depth: int) -> Selection | dict[str, Selection] | None:
        if below is None:
            return None
        if type(below) is list:
            return self.selection(below, depth + 1)
        if type(below) is dict and below:
            branches = {}
            for key, items in below.items():
                self._parts += 1
                if not isinstance(key, Keyword) or type(items) is not list:
                    raise InvalidQuery("a union must have a keyword and a vector for each branch")
                branches[key.name] = self.selection(items, depth + 1)
            return branches
        raise InvalidQuery(f"a join must have a vector of what is wanted, not {_value_text(below)}")


def _call(call: tuple[Any, ...]) -> tuple[object, Mapping[str, Any]]:
    """What is called and its parameters."""
    if call and isinstance(call[0], Symbol):
        raise InvalidQuery(f"a query can't call {_value_text(call[0])}: it only reads")
    if len(call) == 1:
        return call[0], _NONE
    if len(call) != 2 or not isinstance(call[1], Mapping):
        raise InvalidQuery(f"{_value_text(call)} is no call; expected an attribute and a map of parameters")
    return call[0], _named(call[1], "parameters")


def _named(values: Mapping[Any, Any], what: str) -> dict[str, Any]:
    named = {}
    for key, value in values.items():
        name = name_of(key)
        if name is None:
            raise InvalidQuery(f"{what} must have keywords as keys, not {_value_text(key)}")
        named[name] = value
    return named


def _text_of(params: Mapping[str, Any]) -> str:
    try:
        return edn.dumps(dict(sorted(params.items())))
    except EdnError as error:
        raise InvalidQuery(f"parameters must be EDN: {error}") from None


def _bad(item: object) -> InvalidQuery:
    wanted = "a keyword, a join, an ident, a call with parameters or *"
    return InvalidQuery(f"{_value_text(item)} is no part of a query; expected {wanted}")


def _value_text(value: object) -> str:
    try:
        text = edn.dumps(value)
    except EdnError:
        text = f"a {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"
