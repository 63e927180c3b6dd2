"""Which of several things that say what a program does is believed. Pure: no clock, no I/O.

The order is that of `SOURCES`, but hooks and what a program prints are each wrong at times: an agent that a
person stops calls no hook, and one whose dialog is open may still call itself idle in its title. So a known
screen that says something else closes them, after they had time to be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...sessions.state import SOURCES, DoesNow, Evidence, Source

CLOSES: Mapping[DoesNow, Mapping[DoesNow, float]] = {
    "waits": {"working": 1.0, "idle": 1.0},
    "working": {"waits": 0.3, "idle": 1.5, "unknown": 1.5},
    "idle": {"waits": 0.3, "working": 1.0},
}
"""What is said, what a screen shows instead, and for how many seconds it must show that after it was said."""

ANSWERED = "a permission was answered"
"""What is said when one was. Its dialog is still on the screen then,"""
ANSWERED_WAIT = 3.0
"""for so many seconds at the most, unless the agent does not take the answer."""


class Weighed(NamedTuple):
    """Something that says what a program does, and what came of it."""

    evidence: Evidence
    question: str
    """What the program waits for, if it does."""
    fate: str
    """`counts`, or why it does not."""


class Claim(NamedTuple):
    """What a source says."""

    evidence: Evidence
    question: str = ""
    since: float = 0.0
    """Of a screen or a process: since when it shows that."""


def weigh(claims: Mapping[Source, Claim], now: float) -> Sequence[Weighed]:
    """All that is said, the strongest source first; at most one of them counts."""
    found = []
    winner: Source | None = None
    for source in SOURCES:
        if (claim := claims.get(source)) is None:
            continue
        if winner is not None:
            fate = f"{winner} is stronger"
        elif (closer := _closer(source, claims)) is not None and _closes(claim, closer, now):
            fate = f"the {closer.evidence.source} shows something else: {closer.evidence.says}"
        else:
            winner, fate = source, "counts"
        question = claim.question
        if fate == "counts" and closer is not None and claim.evidence.says == closer.evidence.says == "waits":
            question = question or closer.question
        found.append(Weighed(claim.evidence, question, fate))
    return found


def _closer(source: Source, claims: Mapping[Source, Claim]) -> Claim | None:
    """What can close what a hook says, or a program tells its terminal: its screen; where that is not known,
    its process closes what it tells, for anything may print that."""
    if source not in ("hook", "osc"):
        return None
    process = claims.get("process") if source == "osc" else None
    return claims.get("screen") or (process if process and process.evidence.says != "working" else None)


def _closes(claim: Claim, closer: Claim, now: float) -> bool:
    """Whether something has shown for long enough that a claim does not hold any more."""
    seconds = _seconds(claim, closer)
    return seconds is not None and now - max(claim.evidence.at, closer.since) >= seconds


def _seconds(claim: Claim, closer: Claim) -> float | None:
    """For how many seconds something must be shown to close a claim; None if it does not."""
    said, shown = claim.evidence, closer.evidence
    if said.words == ANSWERED and shown.says == "waits" and closer.since <= said.at:
        return ANSWERED_WAIT  # it is the dialog that was answered
    return CLOSES.get(said.says, {}).get(shown.says)


def next_look(claims: Mapping[Source, Claim], now: float) -> float | None:
    """In how many seconds a screen that does not change may close what is believed now."""
    left = []
    for source, claim in claims.items():
        closer = _closer(source, claims)
        if closer is None or _closes(claim, closer, now):
            continue
        if (seconds := _seconds(claim, closer)) is not None:
            left.append(max(claim.evidence.at, closer.since) + seconds - now)
    return min(left, default=None)
