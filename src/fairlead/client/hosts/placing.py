"""Choosing a host: which of those that are here fits what is wanted best, and why. Does no I/O.

`any` takes every host, `label=gpu,big` those that have both labels, and another word is a host's name. A host
that is full does not fit. Of those that do, the one with the most room is taken: the smallest part of its
places in use, then the smallest load for each processor, then the shortest way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...system.own_place import check_label
from ...system.settings import LOCAL
from .table import check_name

ANY = "any"
LABEL = "label="
MAX_NAMED = 8
"""How many hosts that do not fit are named one by one."""


class NoPlace(Exception):
    """No host fits. Says what each lacks."""


class WantedPlace(NamedTuple):
    """What is wanted of a host."""

    labels: tuple[str, ...] = ()
    host: str = ""
    """Its name; empty if any will do that has the labels."""

    @classmethod
    def read(cls, text: str) -> WantedPlace:
        """What a person wants. Raises ValueError.

        >>> WantedPlace.read("label=gpu,big").labels
        ('gpu', 'big')
        >>> WantedPlace.read("workbox").host
        'workbox'
        """
        if text == ANY:
            return cls()
        if text.startswith(LABEL):
            words = text.removeprefix(LABEL).split(",")
            return cls(labels=tuple(dict.fromkeys(check_label(each.strip()) for each in words)))
        return cls(host=text if text == LOCAL else check_name(text))


class HostPlace(NamedTuple):
    """A host as it was known last."""

    name: str
    state: str = "here"
    why: str = ""
    labels: tuple[str, ...] = ()
    capacity: int = 0
    """How many turns it takes at a time; 0 if it has not said."""
    processors: int = 1
    load: float = 0.0
    working: int = 0
    latency: float = 0.0

    @classmethod
    def of_row(cls, name: str, row: Mapping[str, Any]) -> HostPlace:
        """A host as the daemon lists it."""
        return cls(
            name,
            row.get("state") or "here",
            row.get("why") or "",
            tuple(row.get("labels") or ()),
            row.get("capacity") or 0,
            max(1, row.get("processors") or 1),
            row.get("load") or 0.0,
            row.get("working") or 0,
            row.get("latency") or 0.0,
        )

    @property
    def rank(self) -> tuple[float, float, float, bool, str]:
        """The less, the better."""
        used = self.working / (self.capacity or self.processors)
        return used, round(self.load / self.processors, 1), self.latency, self.name != LOCAL, self.name

    @property
    def room(self) -> str:
        """What speaks for it, in words."""
        load = f"load {self.load:.1f} on {self.processors} processor{'s' * (self.processors != 1)}"
        if self.capacity:
            return f"{self.capacity - self.working} of {self.capacity} places free, {load}"
        working = "it is idle" if not self.working else f"{self.working} at work there"
        return f"{working}, {load}"

    def lack(self, wanted: WantedPlace) -> str:
        """What it lacks; empty if it fits."""
        if wanted.host and wanted.host != self.name:
            return "is another host"
        if self.state != "here":
            return f"is {self.state}{f' ({self.why})' if self.why else ''}"
        if missing := [each for each in wanted.labels if each not in self.labels]:
            return f"has no label {' and no label '.join(missing)}"
        if self.capacity and self.working >= self.capacity:
            return f"is full: {self.working} of {self.capacity} places are taken"
        return ""


def choose(places: Iterable[HostPlace], wanted: WantedPlace) -> HostPlace:
    """The host with the most room. Raises NoPlace."""
    known = list(places)
    lacks = {each.name: each.lack(wanted) for each in known}
    if fitting := [each for each in known if not lacks[each.name]]:
        return min(fitting, key=lambda each: each.rank)
    if wanted.host:
        lacks = {name: lack for name, lack in lacks.items() if name == wanted.host}
        if not lacks:
            raise NoPlace(f"no host {wanted.host!r}; `fairlead host ls` lists them")
    named = [f"{name} {lack}" for name, lack in list(lacks.items())[:MAX_NAMED]]
    more = len(lacks) - len(named)
    raise NoPlace(f"no host fits: {'; '.join(named)}{f'; and {more} more' if more else ''}")
