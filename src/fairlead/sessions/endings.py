"""How the last turn in a session's file ended.

In Pi's format messages have a stop reason; Claude Code marks errors and interruptions.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from ..system.opening import open_file
from ..wire.verifier import Outcome

MAX_TAIL = 256 * 1024
"""How many bytes at the end of a file are read,"""
MAX_READ = 256 * 1024 * 1024
"""and how many of a file of which the lines are counted."""
LAST_LINES = 50
"""Among how many of the last lines the ending is looked for."""
MAX_FAULT = 300
"""How many characters of an error are kept."""
_INTERRUPTED = "[Request interrupted by user"
"""What Claude Code writes when a person stops it."""


class SessionEnding(NamedTuple):
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


def ending_in(path: str, last_line: int | None = None, *, newest: int = LAST_LINES) -> SessionEnding:
    """How the last turn in a session's file ended, or the one that ends at a line; only so many of the
    `newest` lines are looked at.

    Without a line only the end of the file is read, however long it is.
    """
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if last_line is None:
                file.seek(max(0, size - MAX_TAIL))
                lines = file.read(MAX_TAIL).split(b"\n")
            elif size > MAX_READ:
                return SessionEnding(None)
            else:
                lines = list(deque(islice(file, last_line), maxlen=LAST_LINES))
    except OSError:
        return SessionEnding(None)
    looked_at = min(newest, LAST_LINES) + (last_line is None)  # what is after the last line feed is none
    return _last_of(reversed(lines[-looked_at:]))


def _last_of(lines: Iterable[bytes]) -> SessionEnding:
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
    return SessionEnding(None)


def _of_pi(message: dict[str, Any]) -> SessionEnding:
    if message.get("role") != "assistant":
        return SessionEnding("lost")
    match message.get("stopReason"):
        case "error":
            return SessionEnding("failed", str(message.get("errorMessage") or "")[:MAX_FAULT])
        case "aborted":
            return SessionEnding("aborted")
        case "length":
            return SessionEnding("failed", "the model's answer was cut off at its limit of tokens")
        case "toolUse":
            return SessionEnding("lost")
    return SessionEnding("done")


def _of_claude(entry: dict[str, Any], message: dict[str, Any]) -> SessionEnding:
    """It writes its transcript a little later than it calls its hooks, so only what is there counts."""
    text = text_of(message.get("content"))
    if entry.get("isApiErrorMessage"):
        return SessionEnding("failed", text[:MAX_FAULT])
    if entry["type"] == "user" and text.startswith(_INTERRUPTED):
        return SessionEnding("aborted")
    return SessionEnding("done")


def text_of(content: Any) -> str:
    """The text in a message's content."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(each.get("text", "")) for each in parts if isinstance(each, dict))
