"""What a session does, how that is known, and whether a person has seen the end of it.

Kinds whose agents speak a protocol say it themselves; of programs in terminals it is found out by hooks, what
they print, their screen and their processes (`terminal/state/`). A claim without evidence is none: where
nothing says what a session does, that is `unknown`, and never `idle`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..system.files import replace_file
from ..system.opening import read_file
from ..wire.jsonrpc import json_bytes
from . import feed
from .questions import Question

log = logging.getLogger("fairlead")

MAX_KNOWN = 2000
"""Of how many sessions it is remembered what they did; then the oldest are forgotten."""
MAX_FILE = 4 * 1024 * 1024
"""How many bytes that may have on the disk."""
FORMER_FOR = 30.0
"""Seconds in which a session that a daemon finds may come back to what it did for the last one: until it is
reached again it looks idle."""
SAVE_AFTER = 1.0
"""Seconds until what changed is written down."""
MAX_WORDS = 200
"""How many characters of a question or of the words of evidence are kept."""

DoesNow = Literal["working", "waits", "idle", "ended", "unknown"]
Source = Literal["protocol", "hook", "osc", "screen", "process"]
"""The strongest first."""
SOURCES: tuple[Source, ...] = ("protocol", "hook", "osc", "screen", "process")
_BY_PROTOCOL: dict[str, DoesNow] = {
    "working": "working",
    "asks": "waits",
    "idle": "idle",
    "failed": "idle",
    "ended": "ended",
}
"""What the words of lists say."""


class Evidence(Struct, frozen=True, omit_defaults=True):
    """Something that says what a session does."""

    source: Source
    says: DoesNow
    at: float
    """When it was heard or seen, in seconds since 1970."""
    words: str = ""
    """What it rests on."""
    rule: str = ""
    version: str = ""
    """The rule that was applied, and its file's version."""


class Activity(Struct, frozen=True, omit_defaults=True):
    """What a session does."""

    state: DoesNow = "unknown"
    since: float = 0.0
    """Since when, in seconds since 1970; 0 if that is not known."""
    question: str = ""
    """What it waits for, in one line."""
    is_seen: bool = True
    """False if nobody has looked at it since its turn ended, or since it waits."""
    evidence: Evidence | None = None

    @property
    def row(self) -> dict[str, Any]:
        """All of it as plain data."""
        row: dict[str, Any] = {"state": self.state, "since": self.since or None, "question": self.question}
        row["seen"] = self.is_seen
        row["evidence"] = msgspec.to_builtins(self.evidence) if self.evidence is not None else None
        return row


UNKNOWN = Activity()


class StateChanged(feed.FeedEvent, frozen=True):
    """A session does something else, or waits for something else."""

    activity: Activity


class States:
    """What all sessions do. `path` is where it is kept for the next daemon, if it is; `is_watched` says
    whether somebody looks at a session now."""

    def __init__(self, feed: feed.Feed, path: str, is_watched: Callable[[str], bool]) -> None:
        self._feed = feed
        self._path = path
        self._is_watched = is_watched
        self._known: dict[str, Activity] = {}
        self._former: dict[str, Activity] = {}
        """What sessions did for the last daemon,"""
        self._loaded_at = 0.0
        """which was known at this time, by the monotonic clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._saving: asyncio.Future[None] | None = None
        self.on_seen: list[Callable[[str], None]] = []
        """Called with a session that a person looks at."""

    def load(self) -> None:
        """Know what the last daemon knew."""
        try:
            self._known = msgspec.json.decode(read_file(self._path, MAX_FILE), type=dict[str, Activity])
        except (OSError, msgspec.DecodeError):
            self._known = {}
        self._former, self._loaded_at = dict(self._known), time.monotonic()

    def close(self) -> None:
        """Write down what is known."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            _write(self._path, json_bytes(self._known))

    def of(self, id: str) -> Activity | None:
        """What a session does, if anything is known of it."""
        return self._known.get(id)

    def all(self) -> list[tuple[str, Activity]]:
        """What all sessions do of which anything is known."""
        return list(self._known.items())

    def look_again(self) -> None:
        """Notice it if somebody has looked since at what had ended unseen."""
        for id, known in self.all():
            if not known.is_seen and self._is_watched(id):
                self.seen(id)

    def found(self, id: str, state: DoesNow, evidence: Evidence | None, question: str = "") -> Activity:
        """A session does this now. Nothing is told if that was known."""
        before = self._known.pop(id, UNKNOWN)
        question = question[:MAX_WORDS]
        since = before.since if before.state == state and before.since else time.time()
        if before.state != state and evidence is not None:
            since = min(since, evidence.at)
            former = self._former.get(id)
            if former is not None and time.monotonic() - self._loaded_at > FORMER_FOR:
                self._former.clear()
            elif former is not None and (former.state, former.question) == (state, question) and former.since:
                since = min(since, former.since)
        if (state, question) == (before.state, before.question):
            is_seen = before.is_seen
        else:
            is_done = state == "idle" and before.state in ("working", "waits")
            is_seen = not is_done and state != "waits"
        now = Activity(state, since, question, is_seen or self._is_watched(id), evidence)
        self._known[id] = now
        if len(self._known) > MAX_KNOWN:
            self._known.pop(next(iter(self._known)))
        if (now.state, now.question, now.is_seen) != (before.state, before.question, before.is_seen):
            self._save_later()
            self._feed.post(StateChanged(id, now))
        return now

    def seen(self, id: str) -> None:
        """A person looks at a session."""
        for tell in self.on_seen:
            tell(id)
        known = self._known.get(id)
        if known is not None and not known.is_seen:
            self._known[id] = known = msgspec.structs.replace(known, is_seen=True)
            self._save_later()
            self._feed.post(StateChanged(id, known))

    def forget(self, id: str) -> None:
        """There is no such session any more."""
        if self._known.pop(id, None) is not None:
            self._save_later()

    def _save_later(self) -> None:
        if self._timer is None and self._path:
            self._timer = asyncio.get_running_loop().call_later(SAVE_AFTER, self._save)

    def _save(self) -> None:
        self._timer = None
        data = json_bytes(self._known)
        self._saving = asyncio.get_running_loop().run_in_executor(None, _write, self._path, data)


def by_protocol(state: str, question: Question | None, at: float) -> tuple[DoesNow, Evidence | None, str]:
    """What a session does by its state in the words of lists and by what it asks a person: that, the
    evidence, and what it waits for."""
    if question is not None and question.is_consent and not question.lost:
        evidence = Evidence("protocol", "waits", question.asked_at, question.what[:MAX_WORDS])
        return "waits", evidence, question.what
    says = _BY_PROTOCOL.get(state, "unknown")
    return says, Evidence("protocol", says, at, state) if says != "unknown" else None, ""


def _write(path: str, data: bytes) -> None:
    try:
        replace_file(path, data)
    except OSError as error:
        log.warning("what sessions do can't be kept: %s", error)
