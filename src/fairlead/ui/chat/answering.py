"""How the person of a chat answers what waits for them, and what is shown of that.

The questions themselves, and which answer belongs to which, are in `questions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...events import ApprovalWanted, PersonAsked
from ...formats.shown import clean, one_line
from ..styled import Row
from .line import InputLine
from .link import ChatLink
from .questions import ANSWERS, MAX_WHAT, OpenQuestions, answer_of, offer_of
from .talk import ConversationView
from .view import asked, ends, labelled, marked, wrapped

ANSWERING = ("resolve_dialog", "cancel_dialog")
"""Requests that answer a question."""


class Answering:
    """The questions of one session, and the answers that are sent. With `yes`, all is allowed."""

    def __init__(
        self,
        link: ChatLink,
        talk: ConversationView,
        line: InputLine,
        ask: Callable[..., None],
        *,
        yes: bool,
    ) -> None:
        self.questions = OpenQuestions()
        self._link = link
        self._talk = talk
        self._line = line
        self._ask = ask
        self._yes = yes
        self.is_whole = True
        """Whether all rows of the question, beside its keys, had room in the terminal."""

    def __bool__(self) -> bool:
        """True if a call waits for consent."""
        return bool(self.questions)

    def forget(self) -> None:
        """The chat turned to another session."""
        self.questions = OpenQuestions()

    # --- what is asked --------------------------------------------------------------------------------------

    def consent(self, wanted: ApprovalWanted) -> None:
        """A call needs consent."""
        if self._yes:
            self.answer(wanted.id, "allow")
            return
        self._talk.ask(wanted)
        self.questions.ask(wanted)
        self._answer_again(wanted.id)

    def ask_person(self, question: PersonAsked) -> None:
        """An agent wants to know something."""
        if self.questions.ask_person(question):
            self._talk.show(asked(question), "question")
        self._answer_again(question.id)

    def _answer_again(self, id: str) -> None:
        """Send the answer to a question that the daemon before did not take."""
        if id in self.questions.kept:
            self.answer(id, self.questions.kept.pop(id))

    def settled(self, id: str, allowed: bool, by: str) -> None:
        """Somebody answered."""
        was_open = self.questions.close(id)
        if isinstance(was_open, PersonAsked):
            closed = "✓ closed" if by == self._link.via else f"✓ closed, {_where(by)}"
            self._talk.show([(closed, "green")], "question")
            return
        whose = f", {_where(by)}" if was_open and by else ""
        if was_open and self._line.text.strip().lower() in ANSWERS:
            self._line.set("")  # it was meant for the question
        mark, style = ("✓ allowed", "green") if allowed else ("✗ denied", "red")
        self._talk.show([(mark + whose, style)], "question")

    def rows(self, columns: int) -> list[Row]:
        """The question that waits longest, what its answers do if their names don't say it, and the keys that
        answer it: what the question itself said of these may be far above."""
        wanted, count = self.questions.first, len(self.questions.wanted)
        more = f" ({count - 1} more pending)" if count > 1 else ""
        keys = f" {offer_of(wanted)}" if self.questions.takes_answer else ""
        what = ends(one_line(wanted.summary, MAX_WHAT), columns - 2)  # the rest may be far above
        does = [row for value, label in labelled(wanted) for row in wrapped(f"  {value}: {label}", columns)]
        shown = [(f"? {what}", "yellow"), *((row, "yellow") for row in does)]
        return [*shown, (f"allow {marked(wanted.tool)}?{keys}{more}", "yellow")]

    # --- what is answered -----------------------------------------------------------------------------------

    def enter(self, text: str, say: Callable[[str], Any]) -> bool:
        """Answer the question with what was entered, if it offers that; else say it to the agent. False if it
        is too early for either."""
        wanted = self.questions.first
        answer = answer_of(wanted, text)
        if not self.questions.takes_answer:
            return False
        if answer is not None and not self.is_whole and labelled(wanted):
            self._talk.note("the terminal is too low to show what each answer does; nothing was answered")
        elif answer is not None:
            self._line.set("")
            self.answer(wanted.id, None if answer == "deny" else answer)
        elif text.strip():
            say(self._line.take())
            self._talk.note(f"sent to the agent; the question is still open: {offer_of(wanted)}")
        else:
            self._line.set("")
            self._talk.note(f"answer with {offer_of(wanted)}")
        return True

    def answers(self, text: str) -> bool:
        """True if a text is an answer to the question that waits."""
        return bool(self.questions) and answer_of(self.questions.first, text) is not None

    def deny(self) -> None:
        """Answer the question with no."""
        self.answer(self.questions.first.id, None)

    def answer(self, id: str, answer: str | None) -> None:
        """Answer a question; None denies. While the daemon is away, the answer waits for it."""
        self.questions.answer(id, answer)
        if not self._link.is_ready:
            self._talk.note("the answer will be sent when the daemon is back")
        elif answer is None:
            self._ask("cancel_dialog", id, dialog_id=id)
        else:
            self._ask("resolve_dialog", id, dialog_id=id, result=answer)

    def reply(self, text: str) -> None:
        """Answer the oldest question of an agent; without a text, decline."""
        id = self.questions.unanswered_dialog()
        if id is None:
            self._ask("approvals")
        else:
            self.answer(id, text or None)


def _where(by: str) -> str:
    """Who answered a question, or where."""
    return "in another chat" if by == "chat" else f"by {clean(by)}"
