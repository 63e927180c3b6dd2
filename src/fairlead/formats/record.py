"""Values that only have fields. Apart from `frozen`, as attaching does without `typing`."""

from __future__ import annotations

from typing import Any, ClassVar, dataclass_transform

from .frozen import Frozen


@dataclass_transform(frozen_default=True)
class _Fields(type):
    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _Fields:
        if "__slots__" not in namespace:
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {each: namespace.pop(each) for each in fields if each in namespace}
            namespace |= {"__slots__": fields, "fields": fields, "__match_args__": fields}
            namespace["defaults"] = defaults
        return super().__new__(cls, name, bases, namespace)


class Record(Frozen, metaclass=_Fields):
    """A value that checks nothing: a subclass only annotates its fields, and gives some of them defaults."""

    __slots__ = ()

    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, *values: object, **named: object) -> None:
        given = {**self.defaults, **dict(zip(self.fields, values)), **named}
        is_twice = any(name in named for name in self.fields[: len(values)])
        if is_twice or len(values) > len(self.fields) or given.keys() != set(self.fields):
            raise TypeError(f"a {type(self).__name__} has {', '.join(self.fields) or 'no fields'}")
        self._fill(*(given[name] for name in self.fields))
