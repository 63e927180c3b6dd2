"""What became of the prompts of one session, as its journal and its queue tell it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime

import msgspec

from ..formats.shown import one_line
from ..sessions.session import MAX_RECEIPTS, MAX_WORDS, PastPrompt, Receipt
from .context import DROPPED, LOST, QUEUED
from .conversation import Conversation
from .journal import Custom, Entry, Said
from .messages import Assistant, User, text_of

MAX_SCANNED = 20_000
"""How many entries of a journal are looked through for a list, the newest."""


def receipt_of(session: Conversation, prompt: str) -> Receipt | None:
    """How far a session has got with a prompt, with what was answered; None if it has none of this id."""
    waiting = [each.prompt for each in session.prompts.waiting]
    written, _ = _noted(session, QUEUED, prompt) or (0.0, "")
    if prompt in waiting:
        return Receipt("queued", written, place=waiting.index(prompt) + 1)
    said = _entry_of(session, prompt)
    if (receipt := _answered(session, prompt, written, said)) is not None:
        if said is None or receipt.state != "ended":
            return receipt
        turn = next(each for each in session.turns if each.first_line <= said.line <= each.last_line)
        text = _last_said(session, turn.first_line, turn.last_line)
        return msgspec.structs.replace(receipt, text=text)
    if (dropped := _noted(session, DROPPED, prompt)) is not None:
        return _dropped(written, *dropped)
    return None


def past_prompts(session: Conversation) -> Sequence[PastPrompt]:
    """The last prompts of a session, in their order. Looks at each entry once."""
    asked: dict[str, tuple[float, str]] = {}
    said: dict[str, Entry] = {}
    written: dict[str, float] = {}
    dropped: dict[str, tuple[float, str]] = {}
    for entry in session.journal.entries[-MAX_SCANNED:]:
        at = moment(entry.timestamp)
        match entry.body:
            case Custom(custom_type=kind, data={"id": str(id), "session": session.id, "text": str(text)}):
                if kind == QUEUED:
                    asked[id], written[id] = (at, text), at
            case Custom(custom_type=kind, data={"id": str(id), **more}) if kind == DROPPED:
                dropped[id] = at, str(more.get("reason") or "")
            case Said(message=User(prompt=str(id)) as message):
                asked.setdefault(id, (at, text_of(message)))
                said[id] = entry
    waiting = [each.prompt for each in session.prompts.waiting]
    found: list[PastPrompt] = []
    for id in list(asked)[-MAX_RECEIPTS:]:
        receipt = _answered(session, id, written.get(id, 0.0), said.get(id))
        if id in waiting:
            receipt = Receipt("queued", written.get(id, 0.0), place=waiting.index(id) + 1)
        elif receipt is None and id in dropped:
            receipt = _dropped(written.get(id, 0.0), *dropped[id])
        if receipt is not None:
            at, text = asked[id]
            found.append(PastPrompt(id, at, one_line(text[: 4 * MAX_WORDS], MAX_WORDS), receipt))
    return found


def _answered(session: Conversation, prompt: str, written: float, said: Entry | None) -> Receipt | None:
    """The receipt of a prompt that was said, but for what was answered."""
    at = moment(said.timestamp) if said is not None else 0.0
    begun = Receipt("started", written or at, at, at)
    if session.prompts.is_running(prompt):
        return begun
    turns = session.turns
    line = said.line if said is not None else 0
    place = bisect_right(turns, line, key=lambda each: each.first_line) - 1
    if place < 0 or not turns[place].first_line <= line <= turns[place].last_line:
        return None
    turn = turns[place]
    if not session.is_idle and turn is turns[-1]:
        return begun
    outcome = "interrupted" if turn.outcome == "lost" else turn.outcome
    reason = LOST if turn.outcome == "lost" else turn.fault
    entries = session.journal.entries
    last = entries[bisect_right(entries, turn.last_line, key=lambda each: each.line) - 1]
    return Receipt("ended", written or at, at, at, moment(last.timestamp), 0, outcome, reason)


def _dropped(written: float, ended: float, reason: str) -> Receipt:
    return Receipt("ended", written, ended=ended, outcome="dropped", reason=reason)


def _entry_of(session: Conversation, prompt: str) -> Entry | None:
    """Where a prompt was said, which may have begun a turn or steered one; None if it was not."""
    for entry in reversed(session.journal.branch):
        match entry.body:
            case Said(message=User(prompt=id)) if id == prompt:
                return entry
    return None


def _noted(session: Conversation, kind: str, prompt: str) -> tuple[float, str] | None:
    """When the journal was told that a prompt is queued, or dropped, and why."""
    for entry in reversed(session.journal.entries):
        match entry.body:
            case Custom(custom_type=found, data={"id": id, **more}) if found == kind and id == prompt:
                return moment(entry.timestamp), str(more.get("reason") or "")
    return None


def _last_said(session: Conversation, first: int, last: int) -> str:
    """What the agent said last in some lines of the journal."""
    for entry in reversed(session.journal.entries):
        if entry.line < first:
            break
        said = entry.body.message if isinstance(entry.body, Said) else None
        if entry.line <= last and isinstance(said, Assistant) and (text := text_of(said)):
            return text
    return ""


def moment(stamp: str) -> float:
    """A journal's time, in seconds since 1970; 0 if it is none."""
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return 0.0
