"""Values that can't be changed, for modules that every command imports: `dataclasses` is slow to import."""

from __future__ import annotations


class Frozen:
    """A value of named fields. A subclass has slots, names them in the order of its `__init__` in `fields`,
    and fills them there, once, with `_fill`."""

    __slots__ = ()

    fields: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    """Those that its repr leaves out."""

    def _fill(self, *values: object) -> None:
        for name, value in zip(self.fields, values):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} can't be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} can't be changed")

    def _values(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.fields])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frozen) and type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._values()

    def __repr__(self) -> str:
        shown = [f"{name}={self._shown(name)}" for name in self.fields if name not in self.hidden]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _shown(self, name: str) -> str:
        return repr(getattr(self, name))
