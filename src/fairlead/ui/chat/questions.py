"""What waits for the person of a chat: calls that need consent, what agents want to know, and the answers.

An answer belongs to its question. One that the daemon has not confirmed when it goes away, or that is given
meanwhile, is kept, and sent again if the next daemon asks the same question. Does no I/O.
"""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from typing import Any

from ...events import ApprovalWanted, PersonAsked
from ...formats.shown import clean, one_line
from ..styled import Row
from .view import marked

CONSENT_PAUSE = 0.4
"""Seconds that a question is shown before it can be answered: who is typing did not mean it."""
MAX_WHAT = 1000
"""How many characters of what will happen are looked at for the row beside the keys."""
ANSWERS = {"y": "allow", "yes": "allow", "a": "always", "n": "deny", "no": "deny"}
"""What else people enter for the usual answers to a question."""
_KEYS_OF = {"allow": "y yes", "always": "a always", "deny": "n no"}
"""How these are offered. Other answers are offered and entered by their names."""

PAUSE = 1.0
"""Seconds after which somebody who was to be woken was stopped, or the machine was."""


def has_paused(before: tuple[float, float], after: tuple[float, float], wait: float) -> bool:
    """Whether a wait took far longer than it was to, by our clock or by that of the day, which goes on while
    the machine sleeps."""
    return max(after[0] - before[0], abs(after[1] - before[1])) > wait + PAUSE


class OpenQuestions:
    """The questions of a session, the oldest first."""

    def __init__(self) -> None:
        self.wanted: dict[str, ApprovalWanted] = {}
        """Calls that wait for consent."""
        self.dialogs: dict[str, PersonAsked] = {}
        """What agents want to know."""
        self.given: dict[str, str | None] = {}
        """Answers that the daemon has not confirmed, by the ids of their questions; None denies."""
        self.kept: dict[str, str | None] = {}
        """Those of an earlier daemon, while the next one asks."""
        self._answered: dict[str, ApprovalWanted] = {}  # their questions
        self._earlier: dict[str, ApprovalWanted | PersonAsked] = {}  # what an earlier daemon asked
        self._shown_at = 0.0

    def __bool__(self) -> bool:
        """True if a call waits for consent."""
        return bool(self.wanted)

    @property
    def first(self) -> ApprovalWanted:
        return next(iter(self.wanted.values()))

    @property
    def takes_answer(self) -> bool:
        """Whether the question was there long enough to be answered; it may come while somebody types."""
        return time.monotonic() - self._shown_at >= CONSENT_PAUSE

    def hold(self) -> None:
        """Take no answer for a moment: the last key was meant for something else."""
        self._shown_at = time.monotonic()

    def ask(self, wanted: ApprovalWanted) -> None:
        if not self.wanted:
            self._shown_at = time.monotonic()
        self.wanted[wanted.id] = wanted

    def ask_person(self, asked: PersonAsked) -> bool:
        """False if it is on the screen already."""
        self.dialogs[asked.id] = asked
        return asked.id not in self._earlier

    def answer(self, id: str, answer: str | None) -> None:
        """The person has answered."""
        self.given[id] = answer
        if (wanted := self.wanted.pop(id, None)) is not None:
            self._answered[id] = wanted
            self._shown_at = time.monotonic()

    def confirm(self, id: str, *, is_open: bool) -> None:
        """The daemon has taken an answer, or refused it so that the question is still open."""
        self.given.pop(id, None)
        wanted = self._answered.pop(id, None)
        if wanted is not None and is_open:
            self.wanted = {id: wanted, **self.wanted}

    def close(self, id: str) -> ApprovalWanted | PersonAsked | None:
        """A question no longer waits; returns it if the person saw it open."""
        self.confirm(id, is_open=False)
        self._shown_at = time.monotonic()
        return self.wanted.pop(id, None) or self.dialogs.pop(id, None)

    def unanswered_dialog(self) -> str | None:
        """The oldest that an agent wants to know."""
        return next((id for id in self.dialogs if id not in self.given), None)

    # --- the next daemon ------------------------------------------------------------------------------------

    def begin_again(self) -> None:
        """Another daemon is there: it asks what still waits."""
        self._earlier = {**self.wanted, **self.dialogs}
        self.kept, self.given = self.given, {}
        self.wanted, self.dialogs, self._answered = {}, {}, {}

    def drop_kept(self, sent: Container[str]) -> list[str]:
        """It has asked all, and the answers that are left are void. Returns what to say of those that were
        never sent."""
        kept, self.kept = self.kept, {}
        return [
            f"your answer {clean(answer or 'no')!r} was not sent: the question is no longer open"
            for id, answer in kept.items()
            if id not in sent
        ]

    def is_meant_for_earlier(self, text: str) -> bool:
        """True if what is typed is an answer to a question that was asked by an earlier daemon, and what is
        asked now is another one."""
        earlier = next((each for each in self._earlier.values() if isinstance(each, ApprovalWanted)), None)
        is_same = self.wanted and earlier is not None and self.first.id == earlier.id
        return earlier is not None and not is_same and answer_of(earlier, text) is not None


def answer_of(wanted: ApprovalWanted, text: str) -> str | None:
    """The answer to a question that somebody means by a text, if it offers that."""
    word = text.strip().lower()
    answer = ANSWERS.get(word, word)
    return answer if answer in options_of(wanted) else None


def options_of(wanted: ApprovalWanted) -> list[str]:
    """The answers that a question offers."""
    return [each["value"] for each in wanted.data.get("options") or ()] or list(_KEYS_OF)


def offer_of(wanted: ApprovalWanted) -> str:
    """How these are offered to a person."""
    return f"{' · '.join(_KEYS_OF.get(each, marked(each)) for each in options_of(wanted))}, and Enter"


def pending_elsewhere(rows: Sequence[dict[str, Any]], project: str) -> list[Row]:
    """What agents outside of this session want to know, and how to answer: what `/answer` can't."""
    dialogs = [
        row for row in rows if row["kind"] == "dialog" and not row["lost"] and row["project"] == project
    ]
    if not dialogs:
        return [("no agent is asking anything", "dim")]
    shown = [("no agent is asking anything in this session; in this project, these questions wait:", "dim")]
    for row in dialogs:
        who = one_line(row["session_name"] or "an agent", MAX_WHAT)
        shown.append((f"  {row['token']}  {who}: {one_line(row['summary'], MAX_WHAT)}", ""))
    return [*shown, (f"answer with `fairlead approvals answer {dialogs[0]['token']} TEXT`", "dim")]
