"""Answering queries: attributes that are computed by registered functions from other attributes.

A resolver says which attributes it needs and which it gives. What can be computed from the attributes that
are there is found by going forward from them, each resolver once, so the cost is that of the registry however
resolvers depend on each other, and a circle of them is simply never reached. The result is remembered by the
set of attributes that it started from. Resolvers are quick and don't wait: a query is answered in one go.

    >>> registry = Registry()
    >>> registry.register(
    ...     Resolver("app/version", (), ("app/version",), lambda inputs, params: {"app/version": 7})
    ... )
    >>> query(registry, "[:app/version]")
    {Keyword('app/version'): 7}

Attributes have their names without the colon here. Answers are plain, whatever a resolver gave: nil,
booleans, numbers, strings, keywords, vectors and maps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import PurePath
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from ...formats.edn import Char, Distinct, Keyword, Symbol, Tagged, Vector
from .eql import Ask, Ident, InvalidQuery, QueryError, Selection, name_of, parse, parse_entity

__all__ = [
    "Inputs",
    "InvalidQuery",
    "Mutation",
    "Params",
    "Plain",
    "QueryError",
    "Registry",
    "Resolver",
    "TextKeys",
    "parse_entity",
    "plain",
    "query",
]

MAX_NODES = 100_000
"""How many attributes, and elements of their values, an answer may have."""
MAX_RUNS = 5_000
"""How many times resolvers may be run for one query,"""
MAX_SECONDS = 1.0
"""and until when: while a query is answered, nothing else is."""
MAX_VALUE_DEPTH = 64
"""How deep the value of an attribute may nest."""
MAX_ELSEWHERE = 32
"""How many resolvers with a thread of their own a query may need."""
MAX_PLANS = 512
"""How many sets of attributes to start from are remembered; when it is full we start anew."""
MAX_KNOWN_KEYS = 4096
"""How many keywords of maps are remembered."""

T = TypeVar("T")
Inputs = Mapping[str, Any]
Params = Mapping[str, Any]
_NO_PARAMS: Params = {}


class Thread(Protocol):
    """Somewhere else to run a function than on the event loop."""

    async def run(self, work: Callable[[], T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Resolver:
    """A function that gives attributes of an entity, from others of the same entity.

    It is called with its inputs and the parameters of the query, and returns its outputs by name; one that is
    left out is nil. It may raise QueryError to say in its own words what was wrong with a parameter.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    run: Callable[[Inputs, Params], Mapping[str, Any]]
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For an output that is a map or a vector of maps: the attributes that each of them has."""
    thread: Thread | None = None
    """Where it is run by `answer`, if it may take long. It must not touch what belongs to the event loop."""

    def __post_init__(self) -> None:
        _check(
            self.name, (*self.inputs, *self.outputs, *(name for row in self.rows.values() for name in row))
        )
        if not self.outputs or set(self.inputs) & set(self.outputs):
            raise ValueError(f"resolver {self.name} must give something, and nothing that it needs")
        if stray := set(self.rows) - set(self.outputs):
            raise ValueError(f"resolver {self.name} tells the rows of {min(stray)}, which it does not give")


@dataclass(frozen=True, slots=True)
class Mutation:
    """An operation that changes something. A query can't call it; it is listed, so that it can be found."""

    name: str
    params: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check(self.name, (*self.params, *self.outputs))


class Plain(NamedTuple):
    """A value that is plain already, from `plain`; it is given out as it is and must not be changed."""

    value: Any


class TextKeys(dict[str, Any]):
    """A map whose keys are text and stay so. In all other maps a key that is a string becomes a keyword."""


def _check(name: str, attributes: Iterable[str]) -> None:
    Symbol(name)
    for attribute in attributes:
        Keyword(attribute)


class Registry:
    """The resolvers and mutations there are. `seeds` are attributes that every query is to start from."""

    def __init__(self, seeds: tuple[str, ...] = ()) -> None:
        self.seeds = seeds
        self.resolvers: dict[str, Resolver] = {}
        self.mutations: dict[str, Mutation] = {}
        self.rows: dict[str, tuple[str, ...]] = {}
        self.version = 0
        """Grows with each registration."""
        self._givers: dict[str, list[Resolver]] = {}
        self._takers: dict[str, list[Resolver]] = {}
        self._plans: dict[frozenset[str], _Plan] = {}

    def register(self, *operations: Resolver | Mutation) -> None:
        """Add operations. Their names must be new."""
        for operation in operations:
            if operation.name in self.resolvers or operation.name in self.mutations:
                raise ValueError(f"{operation.name} is registered already")
            if isinstance(operation, Mutation):
                self.mutations[operation.name] = operation
            else:
                self._add(operation)
        self.version += 1
        self._plans.clear()

    def _add(self, resolver: Resolver) -> None:
        self.resolvers[resolver.name] = resolver
        for name in dict.fromkeys(resolver.outputs):
            self._givers.setdefault(name, []).append(resolver)
        for name in dict.fromkeys(resolver.inputs):
            self._takers.setdefault(name, []).append(resolver)
        for name, row in resolver.rows.items():
            self.rows[name] = tuple(dict.fromkeys((*self.rows.get(name, ()), *row)))

    def reachable(self, start: Iterable[str]) -> list[str]:
        """The attributes that can be had when these are there, these first."""
        plan = self.plan(frozenset(start))
        return [*sorted(plan.start), *plan.source]

    def knows(self, name: str) -> bool:
        """Whether any operation speaks of the attribute."""
        return name in self._givers or name in self._takers or any(name in row for row in self.rows.values())

    def plan(self, start: frozenset[str]) -> _Plan:
        """How attributes can be computed from these."""
        plan = self._plans.get(start)
        if plan is None:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            plan = self._plans[start] = self._make_plan(start)
        return plan

    def _make_plan(self, start: frozenset[str]) -> _Plan:
        plan = _Plan(start)
        lacking: dict[str, int] = {}
        ready: list[Resolver] = []
        for resolver in self.resolvers.values():
            lacking[resolver.name] = len(set(resolver.inputs) - start)
            if not lacking[resolver.name]:
                ready.append(resolver)
        for rank, resolver in enumerate(ready):  # it grows as we go
            plan.rank[resolver.name] = rank
            from_start = not plan.from_start.isdisjoint(resolver.inputs)
            for name in resolver.outputs:
                if name in start or name in plan.source:
                    continue
                plan.source[name] = resolver
                if from_start:
                    plan.from_start.add(name)
                for taker in self._takers.get(name, ()):
                    lacking[taker.name] -= 1
                    if not lacking[taker.name]:
                        ready.append(taker)
        return plan

    def why_not(self, name: str, plan: _Plan) -> str:
        """Why an attribute can't be had."""
        if name not in self._givers:
            return f"can't find :{name} here" if self.knows(name) else f"unknown attribute :{name}"
        chain = [name]
        while chain[-1] in self._givers and chain[-1] not in chain[:-1]:
            resolver = self._givers[chain[-1]][0]
            chain.append(next(need for need in resolver.inputs if not plan.reaches(need)))
        why = f"can't compute :{name}: it needs " + ", which needs ".join(f":{need}" for need in chain[1:])
        return f"{why}, in a circle" if chain[-1] in chain[:-1] else f"{why}, which is not given"


class _Plan:
    """What can be computed from some attributes, and by which resolver each."""

    def __init__(self, start: frozenset[str]) -> None:
        self.start = start
        self.source: dict[str, Resolver] = {}
        self.rank: dict[str, int] = {}
        """The order in which resolvers can be run."""
        self.from_start: set[str] = set(start)
        """What depends on the attributes at the start, and not on the registry alone."""
        self._steps: dict[str, tuple[Resolver, ...]] = {}

    def reaches(self, name: str) -> bool:
        return name in self.start or name in self.source

    def steps(self, name: str) -> tuple[Resolver, ...]:
        """The resolvers to run, in order, to get an attribute that can be reached."""
        steps = self._steps.get(name)
        if steps is None:
            needed: dict[str, Resolver] = {}
            wanted = [name]
            while wanted:
                resolver = self.source.get(wanted.pop())
                if resolver is not None and resolver.name not in needed:
                    needed[resolver.name] = resolver
                    wanted += resolver.inputs
            steps = tuple(sorted(needed.values(), key=lambda resolver: self.rank[resolver.name]))
            self._steps[name] = steps
        return steps


def query(
    registry: Registry, wanted: str | list[Any], entity: Mapping[Any, Any] | None = None
) -> dict[Any, Any]:
    """Answer a query, given as EDN text or as its vector, starting from the attributes of an entity.

    Raises InvalidQuery if it is no query, and QueryError if it can't be answered.
    """
    selection = parse(wanted)
    return _Answering(registry).select(selection, _Entity(entity or {}), outermost=True)


async def answer(
    registry: Registry, wanted: str | list[Any], entity: Mapping[Any, Any] | None = None
) -> dict[Any, Any]:
    """The same on an event loop: resolvers that have a thread are run there, and the loop does not wait.

    The query is begun again each time that one of them has run, with what it gave; so all else in the answer
    is of one moment.
    """
    selection = parse(wanted)
    given: dict[_Run, Mapping[str, Any] | QueryError] = {}
    while True:
        try:
            return _Answering(registry, given).select(selection, _Entity(entity or {}), outermost=True)
        except _Elsewhere as elsewhere:
            if len(given) >= MAX_ELSEWHERE:
                raise QueryError(
                    f"query needs more than {MAX_ELSEWHERE} looks into databases; ask for less"
                ) from None
            run, thread, work = elsewhere.run, elsewhere.thread, elsewhere.work
        try:
            given[run] = await thread.run(work)
        except QueryError as error:
            given[run] = error
        except Exception as error:  # its text may hold anything, also a key
            given[run] = QueryError(f"resolver {run[0]} failed: {type(error).__name__}")


_Run = tuple[str, str, str]
"""A resolver, its inputs and its parameters."""


class _Elsewhere(Exception):
    """What must be run elsewhere before a query can be answered."""

    def __init__(self, run: _Run, thread: Thread, work: Callable[[], Mapping[str, Any]]) -> None:
        super().__init__(run)
        self.run, self.thread, self.work = run, thread, work


def plain(value: Any, name: str) -> Plain:
    """Make the value of an attribute plain once and for all, where it will be asked for many times."""
    return Plain(_Answering(Registry())._plain(value, name))


class _Entity:
    """The attributes of one entity, as far as they are known by now."""

    __slots__ = ("calls", "data", "plan", "ran")

    def __init__(self, given: Mapping[Any, Any], row: tuple[str, ...] = ()) -> None:
        self.data: dict[str, Any] = dict.fromkeys(row)
        for key, value in given.items():
            name = name_of(key)
            if name is not None:
                self.data[name] = value
        self.plan: _Plan | None = None
        self.ran: set[str] = set()
        self.calls: dict[tuple[str, str], Mapping[str, Any]] = {}


class _Answering:
    """One query on its way: counts what it costs."""

    def __init__(
        self, registry: Registry, given: Mapping[_Run, Mapping[str, Any] | QueryError] | None = None
    ) -> None:
        self._registry = registry
        self._given = given
        """What was run elsewhere already; None if all is run here."""
        self._nodes = 0
        self._runs = 0
        self._deadline = time.monotonic() + MAX_SECONDS

    # --- selecting ----------------------------------------------------------------------------------------

    def select(self, selection: Selection, entity: _Entity, *, outermost: bool = False) -> dict[Any, Any]:
        parts = selection.parts
        self._count(1 + len(parts))
        answer: dict[Any, Any] = {}
        if selection.everything:
            asked = {part.name for part in parts if isinstance(part, Ask)}
            for name in self._everything(entity, outermost=outermost):
                if name not in asked:
                    answer[_keyword(name)] = self._plain(self._value(name, entity), name)
        for part in parts:
            if isinstance(part, Ident):
                answer[part.key] = self._identified(part)
                continue
            value = self._called(part, entity) if part.call else self._value(part.name, entity)
            if part.below is None:
                answer[part.key] = self._plain(value, part.name)
            else:
                answer[part.key] = self._joined(value, part, part.below)
        return answer

    def _everything(self, entity: _Entity, *, outermost: bool) -> list[str]:
        """What `*` stands for: all that can be had, or in a join all that comes from the entity's own."""
        plan = self._plan(entity)
        names = [*entity.data, *(name for name in plan.source if outermost or name in plan.from_start)]
        return list(dict.fromkeys(names))

    def _identified(self, ident: Ident) -> dict[Any, Any]:
        if not self._registry.knows(ident.name):
            raise QueryError(f"unknown attribute :{ident.name}")
        if ident.below is None:
            return {ident.key[0]: ident.value}
        return self.select(ident.below, _Entity({ident.name: ident.value}))

    def _joined(self, value: Any, part: Ask, below: Selection | Mapping[str, Selection]) -> Any:
        if value is None:
            return None
        if isinstance(value, Plain):
            value = value.value
        row = self._registry.rows.get(part.name, ())
        if isinstance(value, Mapping):
            return self._row(value, row, below)
        if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
            raise QueryError(f"can't join :{part.name}: it holds no maps")
        if not value and row and isinstance(below, Selection):
            self._check_row(row, below)
        return [self._row(item, row, below) for item in value]

    def _row(
        self, given: Mapping[Any, Any], row: tuple[str, ...], below: Selection | Mapping[str, Selection]
    ) -> dict[Any, Any]:
        entity = _Entity(given, row)
        if isinstance(below, Selection):
            return self.select(below, entity)
        for name, selection in below.items():
            if entity.data.get(name) is not None:
                return self.select(selection, entity)
        return {}

    def _check_row(self, row: tuple[str, ...], below: Selection) -> None:
        """Without rows nothing would be asked for, so a wrong name would go unnoticed."""
        plan = self._registry.plan(frozenset(row))
        for part in below.parts:
            if isinstance(part, Ask) and not plan.reaches(part.name):
                raise QueryError(self._registry.why_not(part.name, plan))

    # --- computing ----------------------------------------------------------------------------------------

    def _plan(self, entity: _Entity) -> _Plan:
        if entity.plan is None:  # the data is as it was given until a plan is made
            entity.plan = self._registry.plan(frozenset(entity.data))
        return entity.plan

    def _value(self, name: str, entity: _Entity) -> Any:
        data = entity.data
        if name not in data:
            for resolver in self._steps(name, entity):
                if resolver.name not in entity.ran:
                    entity.ran.add(resolver.name)
                    given = self._run(resolver, entity, _NO_PARAMS)
                    for output in resolver.outputs:
                        if output not in data:
                            data[output] = given.get(output)
        return data[name]

    def _called(self, part: Ask, entity: _Entity) -> Any:
        """An attribute with parameters. They are for the resolver that gives it, not for what that needs."""
        plan = self._plan(entity)
        if part.name in plan.start:
            return entity.data[part.name]
        if part.name not in plan.source:
            raise QueryError(self._registry.why_not(part.name, plan))
        resolver = plan.source[part.name]
        call = (resolver.name, part.call)
        if call not in entity.calls:
            for need in resolver.inputs:
                self._value(need, entity)
            entity.calls[call] = self._run(resolver, entity, part.params)
        return entity.calls[call].get(part.name)

    def _steps(self, name: str, entity: _Entity) -> tuple[Resolver, ...]:
        plan = self._plan(entity)
        if name not in plan.source:
            raise QueryError(self._registry.why_not(name, plan))
        return plan.steps(name)

    def _run(self, resolver: Resolver, entity: _Entity, params: Params) -> Mapping[str, Any]:
        self._runs += 1
        if self._runs > MAX_RUNS:
            raise QueryError(f"query needs more than {MAX_RUNS} runs of resolvers")
        if time.monotonic() > self._deadline:
            raise QueryError(f"query takes longer than {MAX_SECONDS:g} seconds; ask for less")
        inputs = {name: entity.data[name] for name in resolver.inputs}
        if self._given is not None and resolver.thread is not None:
            run = (resolver.name, repr(inputs), repr(params))
            if run not in self._given:
                raise _Elsewhere(run, resolver.thread, lambda: resolver.run(inputs, params))
            found = self._given[run]
            if isinstance(found, QueryError):
                raise QueryError(str(found))
            return found
        try:
            given = resolver.run(inputs, params)
        except QueryError:
            raise
        except Exception as error:  # its text may hold anything, also a key
            raise QueryError(f"resolver {resolver.name} failed: {type(error).__name__}") from None
        if not isinstance(given, Mapping):
            raise QueryError(f"resolver {resolver.name} gave a {type(given).__name__} instead of a map")
        return given

    # --- plain values -------------------------------------------------------------------------------------

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise QueryError(f"the answer has more than {MAX_NODES} parts; ask for less, or with a limit")

    def _plain(self, value: Any, name: str, depth: int = 0) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is Plain:
            return value.value
        if kind in _AS_PLAIN:
            return _AS_PLAIN[kind](value)
        if depth > MAX_VALUE_DEPTH:
            raise QueryError(f":{name} nests deeper than {MAX_VALUE_DEPTH}")
        if isinstance(value, Mapping):
            self._count(len(value))
            key_of = _text_key if isinstance(value, TextKeys) else _key
            return {
                key_of(key, name): item if type(item) in _PLAIN else self._plain(item, name, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            self._count(len(value))
            return [item if type(item) in _PLAIN else self._plain(item, name, depth + 1) for item in value]
        if isinstance(value, AbstractSet):
            self._count(len(value))
            return sorted((self._plain(item, name, depth + 1) for item in value), key=repr)
        if isinstance(value, Tagged | Distinct):
            return self._plain(value.value, name, depth + 1)
        for base, as_plain in _BY_BASE:
            if isinstance(value, base):
                return as_plain(value)
        raise QueryError(f":{name} holds a {kind.__name__}, which has no plain form")


def _finite(value: float | Decimal | Fraction) -> float | None:
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _moment(value: datetime) -> str:
    if value.utcoffset() is None:
        return value.isoformat()
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


_PLAIN = frozenset({str, int, bool, type(None), Keyword})
_AS_PLAIN: Mapping[type, Callable[[Any], Any]] = {
    float: _finite,
    Decimal: _finite,
    Fraction: _finite,
    Symbol: lambda value: value.name,
    Char: lambda value: value.value,
    datetime: _moment,
    UUID: str,
}
_BY_BASE: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),  # an enumeration, for one
    (int, int.__int__),
    (float, _finite),
    (datetime, _moment),
    (date, date.isoformat),
    (PurePath, str),
)


@lru_cache(maxsize=MAX_KNOWN_KEYS)
def _keyword(name: str) -> Keyword | str:
    try:
        return Keyword(name)
    except ValueError:
        return name


def _key(key: Any, name: str) -> Any:
    kind = type(key)
    if kind is str:
        return _keyword(key)
    if kind in _PLAIN:
        return key
    if isinstance(key, str):
        return _keyword(str.__str__(key))
    if isinstance(key, Vector) and all(type(item) in _PLAIN for item in key):
        return key
    raise QueryError(f":{name} holds a map with a {kind.__name__} as a key, which has no plain form")


def _text_key(key: str, name: str) -> str:
    return str.__str__(key)
