"""Which recordings there are, which of them are kept back, and what one says: output and labels by time."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairlead.formats import asciicast

from .agents import AGENTS

SIZES = ((80, 24), (120, 40))
SEEDS = (1, 2)
SPLIT = "kept back 1"
"""Chooses which recordings are kept back, before anybody has seen them."""


class Label(NamedTuple):
    """From when until when a state held, in seconds, and what happened."""

    start: float
    end: float
    state: str
    what: str


class Recording(NamedTuple):
    """One scene of one agent, at a size, with texts chosen by a seed."""

    agent: str
    scene: str
    size: tuple[int, int]
    seed: int

    @property
    def name(self) -> str:
        return f"{self.agent}-{self.scene}-{self.size[0]}x{self.size[1]}-{self.seed}"

    @property
    def path(self) -> Path:
        return place() / f"{self.name}.cast"

    @property
    def is_kept_back(self) -> bool:
        """True for half of the recordings of each scene, which rules must not be written with."""
        return self.name in _kept_back(self.agent, self.scene)


def place() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "fairlead-peers", "recordings")


def all_recordings() -> list[Recording]:
    """All recordings that there should be."""
    return [
        Recording(agent.name, scene, size, seed)
        for agent in AGENTS.values()
        for scene in agent.scenes
        for size, seed in itertools.product(SIZES, SEEDS)
    ]


def _kept_back(agent: str, scene: str) -> set[str]:
    names = [Recording(agent, scene, size, seed).name for size, seed in itertools.product(SIZES, SEEDS)]
    names.sort(key=lambda name: hashlib.sha256(f"{SPLIT} {name}".encode()).digest())
    return set(names[: len(names) // 2])


def read(path: Path) -> tuple[asciicast.CastHeader, list[asciicast.CastEvent], list[Label]]:
    """A recording: its header, its events with times from the beginning, and its labels."""
    first, *lines = path.read_bytes().splitlines()
    header = asciicast.read_header(first)
    events = list(_timed(lines))
    labels: list[Label] = []
    begun: tuple[float, str, str] | None = None
    for event in events:
        if event.code != asciicast.MARKER or not event.data.startswith("state "):
            continue
        if begun is not None:
            labels.append(Label(begun[0], event.time, begun[1], begun[2]))
            begun = None
        _, state, *what = event.data.split(" ", 2)
        if state != "-":
            begun = event.time, state, "".join(what)
    return header, events, labels


def _timed(lines: list[bytes]) -> Iterator[asciicast.CastEvent]:
    now = 0.0
    for line in lines:
        event = asciicast.read_event(line)
        if event is not None:
            now += event.time
            yield event._replace(time=now)
