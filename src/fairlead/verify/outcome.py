"""How a turn ended, before anything of it is checked: only one that ended by itself can be verified.

Our builders say it in their stop events. Of others it is read from the session's file: Pi's, whose messages
have a stop reason, or Claude Code's, which marks errors and interruptions. A turn that failed or was stopped
is not checked at all; one that was lost with its program is, but it can't become green.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from ..formats.shown import one_line
from ..sessions.endings import MAX_FAULT, MAX_READ, SessionEnding, ending_in, text_of
from ..system.opening import open_file
from ..wire.verifier import Event, Outcome
from .report import (
    FOCUS,
    MAX_SUMMARY,
    Confidence,
    Report,
    Section,
    Status,
    lowered,
    not_verified,
    sections_of,
)

NOTHING_DONE = "the builder said nothing and called no tool"
"""What is said of a turn in which nothing was done."""
DENIED = "What was denied?"
"""The section with the calls to which nobody consented,"""
MAX_DENIED = 20
"""and how many it names."""
_DENIED = "denied: no consent to "
"""How the result of such a call begins."""
_CALLS = frozenset({"toolCall", "tool_use"})


def ending_of(stop: Event, file: str) -> SessionEnding:
    """How the turn of a stop event ended. It may read the session's file: call it in a thread."""
    if stop.outcome is not None:
        return SessionEnding(stop.outcome, (stop.detail or "")[:MAX_FAULT])
    return ending_in(file, stop.session_file_end_line) if file else SessionEnding(None)


def not_checked(ending: SessionEnding, **facts: Any) -> Report:
    """The report on a turn that failed or was stopped, which is not checked."""
    if ending.outcome == "failed":
        return not_verified(ending.sentence, **facts)
    summary = f"not checked: {ending.sentence}"
    sections = sections_of([(FOCUS, summary)])
    return Report(
        status=Status.UNSURE, confidence=Confidence.PARTIAL, summary=summary, sections=sections, **facts
    )


def judged_by_outcome(report: Report, outcome: Outcome | None, why: str = "") -> Report:
    """A report with what its turn's ending allows: green is only what ended by itself."""
    if outcome == "done":
        return report
    if outcome is None:
        return lowered(report, Confidence.VERIFIED, "how the turn ended is not known")
    return lowered(report, Confidence.PARTIAL, SessionEnding(outcome, why).sentence, is_unsure=True)


class Deeds(NamedTuple):
    """What the builder did in a turn, as far as that is known."""

    is_nothing: bool = False
    """Whether it neither said anything nor called a tool."""
    denied: tuple[str, ...] = ()
    """The calls to which nobody consented."""


def deeds_of(path: str, stop: Event) -> Deeds:
    """What the builder did in the turn of a stop event. It reads the session's file: use a thread."""
    first, last = stop.session_file_start_line, stop.session_file_end_line
    if not path or first is None or last is None:
        return Deeds()
    answers: list[bool] = []
    denied: list[str] = []
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_READ:
                return Deeds()
            for line in islice(file, max(0, first - 1), last):
                _look(line, answers, denied)
    except OSError:
        return Deeds()
    return Deeds(bool(answers) and not any(answers), tuple(denied))


def _look(line: bytes, answers: list[bool], denied: list[str]) -> None:
    """Note whether a line is a message of the builder with text or calls in it, or tells of a denied call."""
    try:
        message = msgspec.json.decode(line)["message"]
        role, content = message["role"], message["content"]
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError):
        return
    text = text_of(content)
    if role == "assistant":
        blocks = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
        answers.append(bool(text.strip()) or any(each.get("type") in _CALLS for each in blocks))
    elif role == "toolResult" and message.get("isError") is True and text.startswith(_DENIED):
        denied.append(one_line(text.removeprefix(_DENIED), MAX_FAULT))


def judged_by_deeds(report: Report, deeds: Deeds) -> Report:
    """A report with what the builder did not do; then it is at most VERIFIED."""
    if deeds.is_nothing:
        report = _noted(report, NOTHING_DONE, "What did the builder do?", f"Nothing: {NOTHING_DONE}.")
    if deeds.denied:
        count = len(deeds.denied)
        why = f"{count} call{'s were' if count > 1 else ' was'} denied"
        named = [f"- {each}" for each in deeds.denied[:MAX_DENIED]]
        named += [f"- and {count - MAX_DENIED} more"] if count > MAX_DENIED else []
        report = _noted(report, why, DENIED, "\n".join(named))
    return report


def _noted(report: Report, why: str, title: str, text: str) -> Report:
    capped = lowered(report, Confidence.VERIFIED, why)
    summary = f"{capped.summary[: MAX_SUMMARY - len(why) - 2]}; {why}"
    sections = (*capped.sections, Section(title, text))
    return msgspec.structs.replace(capped, summary=summary, sections=sections, raw="")
