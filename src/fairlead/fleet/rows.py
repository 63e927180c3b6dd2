"""Rows of hosts: ours, kept current in the bucket, and those of the others as they were seen last."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from . import limits
from .signing import ROW, SignatureFault, Verifier
from .subjects import NameFault, check_name, name_of

MAX_TEXT = 200


class SessionRow(Struct, omit_defaults=True):
    """What others see of a session without asking."""

    id: str
    name: str
    kind: str
    state: str = ""
    agent: str = ""


class HostRow(Struct, omit_defaults=True):
    """What a host says of itself."""

    name: str
    version: str
    at: float
    """Its clock, when it said so."""
    began: float = 0.0
    daemon: str = "here"
    sessions: list[SessionRow] = field(default_factory=list)
    session_count: int = 0
    questions: int = 0
    feed: int = 0
    """The number of events that it has had for the stream,"""
    sent: int = 0
    """and of those that the stream has."""
    labels: list[str] = field(default_factory=list)
    capacity: int = 0
    processors: int = 0
    load: float = 0.0
    working: int = 0
    gone: bool = False
    """It has left."""
    place: str = ""
    """Which machine this is, whatever its credential says,"""
    hostname: str = ""
    """and what it calls itself."""


class HostSeen:
    """A host as it was seen last."""

    def __init__(self, row: HostRow, heard: float, skew: float | None, number: float = 0.0) -> None:
        self.row = row
        self.number = number
        self.heard = heard
        self.skew = skew
        """How far its clock was ahead of ours, with the way of the message in it."""
        self.is_silent = False
        """The server has said since that nobody answers there."""

    def is_here(self, now: float) -> bool:
        return not self.row.gone and not self.is_silent and now - self.heard < limits.ROW_SECONDS


class Hosts:
    """The other hosts of the account."""

    def __init__(self, own: str, verifier: Verifier) -> None:
        self._own = own
        self._verifier = verifier
        self.known: dict[str, HostSeen] = {}
        self.refused = 0
        """Rows that made no sense, or were too many."""
        self._budgets: dict[str, tuple[float, float]] = {}  # rows that a host may send now, and since when

    def take(self, subject: str, data: bytes, sealed: object, *, live: bool) -> None:
        """A row came: now, or out of the bucket."""
        words = subject.split(".")
        word = words[1] if live else words[-1]
        name = name_of(word)
        if name == self._own:
            return
        try:
            check_name(name)
            if len(data) > limits.MAX_ROW:
                raise ValueError("too big")
            number = float(self._verifier.opened(ROW, sealed, data, word).number)
            before = self.known.get(name)
            if before is not None and not number > before.number:
                raise ValueError("a repetition, or older than what is known")
            # who floods spends their own: what another has had put on this subject was not counted
            if live and not self._may_send(name):
                return
            row = msgspec.json.decode(data, type=HostRow)
        except (NameFault, SignatureFault, ValueError, msgspec.MsgspecError):
            self.refused += 1
            return
        if row.name != name:  # the server says who it is
            self.refused += 1
            return
        if name not in self.known and len(self.known) >= limits.MAX_HOSTS:
            return
        skew = row.at - time.time() if live else (before.skew if before is not None else None)
        self.known[name] = HostSeen(row, time.monotonic(), skew, number)

    def fell_silent(self, name: str) -> None:
        """Nobody answers for a host: it is away until its next row."""
        if (known := self.known.get(name)) is not None:
            known.is_silent = True

    def _may_send(self, name: str) -> bool:
        """True unless a host sends more rows than anybody has to; they are not even read then."""
        now = time.monotonic()
        left, since = self._budgets.get(name, (float(limits.ROWS_AT_ONCE), now))
        left = min(limits.ROWS_AT_ONCE, left + (now - since) * limits.ROWS_A_SECOND)
        if len(self._budgets) >= limits.MAX_HOSTS and name not in self._budgets:
            self._budgets.clear()
        self._budgets[name] = max(0.0, left - 1), now
        self.refused += left < 1
        return left >= 1

    def forget_old(self) -> None:
        now = time.monotonic()
        for name in [name for name, each in self.known.items() if now - each.heard > limits.AWAY_KEPT]:
            del self.known[name]

    def listed(self) -> list[dict[str, Any]]:
        """All of them, for who asks."""
        now = time.monotonic()
        return [
            {
                "name": name,
                "state": "here" if each.is_here(now) else "away",
                "version": each.row.version,
                "daemon": each.row.daemon,
                "sessions": each.row.session_count,
                "questions": each.row.questions,
                "lag": max(0, each.row.feed - each.row.sent),
                "skew": None if each.skew is None else round(each.skew, 3),
                "seen": round(now - each.heard, 1),
                "labels": each.row.labels,
                "capacity": each.row.capacity,
                "processors": each.row.processors,
                "load": each.row.load,
                "working": each.row.working,
                "rows": msgspec.to_builtins(each.row.sessions),
            }
            for name, each in sorted(self.known.items())
        ]


def session_row(row: Mapping[str, Any]) -> SessionRow:
    """What others see of a session, of its row in `session_list`."""
    activity = row.get("activity")
    state = activity.get("state") if isinstance(activity, Mapping) else None
    return SessionRow(
        str(row.get("id") or "")[:MAX_TEXT],
        str(row.get("name") or "")[:MAX_TEXT],
        str(row.get("kind") or "")[:MAX_TEXT],
        str(state or row.get("state") or "")[:MAX_TEXT],
        str(row.get("agent") or "")[:MAX_TEXT],
    )


def encoded_row(row: HostRow) -> bytes:
    """A row with as many sessions as have room."""
    data = msgspec.json.encode(row)
    while len(data) > limits.MAX_ROW - limits.SEAL_ROOM and row.sessions:
        row.sessions = row.sessions[: len(row.sessions) // 2]
        data = msgspec.json.encode(row)
    return data
