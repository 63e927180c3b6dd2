"""How a turn ended, before anything of it is checked: only one that ended by itself can be verified.

Our builders say it in their stop events. Of others it is read from the session's file: Pi's, whose messages
have a stop reason, or Claude Code's, which marks errors and interruptions. A turn that failed or was stopped
is not checked at all; one that was lost with its program is, but it can't become green.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from ..formats.shown import one_line
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

MAX_TAIL = 256 * 1024
"""How many bytes at the end of a transcript are looked at,"""
MAX_READ = 256 * 1024 * 1024
"""and how many of a file of which the lines are counted."""
LAST_LINES = 50
"""Among how many of the last lines the ending is looked for."""
MAX_FAULT = 300
"""How many characters of an error are given."""

NOTHING_DONE = "the builder said nothing and called no tool"
"""What is said of a turn in which nothing was done."""
DENIED = "What was denied?"
"""The section with the calls to which nobody consented,"""
MAX_DENIED = 20
"""and how many it names."""
_DENIED = "denied: no consent to "
"""How the result of such a call begins."""
_CALLS = frozenset({"toolCall", "tool_use"})
_INTERRUPTED = "[Request interrupted by user"
"""What Claude Code writes down when a person stops it."""


class Ending(NamedTuple):
    """How a turn ended; nothing is known without an outcome."""

    outcome: Outcome | None
    why: str = ""

    @property
    def sentence(self) -> str:
        match self.outcome:
            case "failed":
                return f"the turn failed: {self.why or 'the builder gives no reason'}"
            case "lost":
                return "the turn did not end: the program that ran it exited"
            case "aborted" | "interrupted":
                return "the turn was aborted"
        return ""


def ending_of(stop: Event, file: str) -> Ending:
    """How the turn of a stop event ended. It may read the session's file: call it in a thread."""
    if stop.outcome is not None:
        return Ending(stop.outcome, (stop.detail or "")[:MAX_FAULT])
    return ending_in(file, stop.session_file_end_line) if file else Ending(None)


def not_checked(ending: Ending, **facts: Any) -> Report:
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
    return lowered(report, Confidence.PARTIAL, Ending(outcome, why).sentence, is_unsure=True)


# --- session files ----------------------------------------------------------------------------------------


def ending_in(path: str, last_line: int | None = None) -> Ending:
    """How the last turn in a session's file ended, or the one that ends at a line.

    Without a line only the end of the file is read, however long it is.
    """
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if last_line is None:
                file.seek(max(0, size - MAX_TAIL))
                lines = file.read(MAX_TAIL).split(b"\n")
            elif size > MAX_READ:
                return Ending(None)
            else:
                lines = list(deque(islice(file, last_line), maxlen=LAST_LINES))
    except OSError:
        return Ending(None)
    return _last_of(reversed(lines[-LAST_LINES:]))


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
    text = _text(content)
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


def _last_of(lines: Iterable[bytes]) -> Ending:
    for line in lines:
        try:
            entry = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if not isinstance(entry, dict) or not isinstance(message := entry.get("message"), dict):
            continue
        if entry.get("type") == "message":
            return _of_pi(message)
        if entry.get("type") in ("assistant", "user"):
            return _of_claude(entry, message)
    return Ending(None)


def _of_pi(message: dict[str, Any]) -> Ending:
    if message.get("role") != "assistant":
        return Ending("lost")
    match message.get("stopReason"):
        case "error":
            return Ending("failed", str(message.get("errorMessage") or "")[:MAX_FAULT])
        case "aborted":
            return Ending("aborted")
        case "length":
            return Ending("failed", "the model's answer was cut off at its limit of tokens")
        case "toolUse":
            return Ending("lost")
    return Ending("done")


def _of_claude(entry: dict[str, Any], message: dict[str, Any]) -> Ending:
    """It writes its transcript a little later than it calls its hooks, so only what is there counts."""
    text = _text(message.get("content"))
    if entry.get("isApiErrorMessage"):
        return Ending("failed", text[:MAX_FAULT])
    if entry["type"] == "user" and text.startswith(_INTERRUPTED):
        return Ending("aborted")
    return Ending("done")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(each.get("text", "")) for each in parts if isinstance(each, dict))
