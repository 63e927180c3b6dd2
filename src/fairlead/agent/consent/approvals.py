"""The tool calls of a session that wait for somebody's consent, durably.

A question is in the journal before it is shown, and its answer before it counts, so both outlive the program.
The first answer holds. One that is meant to last also holds for the same call the next time.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterable

import msgspec

from ...formats.shown import one_line
from ...sessions.questions import CONSENT, AnswerOption, Question, bounded
from ..events import Approval, ApprovalSettled, ApprovalWanted, ConversationEvent
from ..journal import Custom, Journal
from ..messages import ToolCall
from ..tools import IN_JOURNAL, Touch

MAX_WHAT = 200
"""How many characters the one line has that says what a call will do."""
CHANGED = "what the call would do has changed since it was last asked about"
"""Why a question is asked again."""
WANTED, SETTLED = "fairlead/approval", "fairlead/approval-settled"
"""What entries of a journal with a question, and with an answer, are called."""


class Approvals:
    """Questions of one session and their answers."""

    def __init__(self, journal: Journal, tell: Callable[[ConversationEvent], None]) -> None:
        self.waiting: dict[str, Approval] = {}
        """Those without an answer, by id."""
        self.lasting: list[Approval] = []
        """Those whose consent is meant for every call of the same."""
        self._id = journal.header.id
        self._journal = journal
        self._tell = tell
        self._settled: dict[str, tuple[Approval, bool]] = {}  # by the id of the call
        self._answers: dict[str, asyncio.Future[bool]] = {}
        self._choices: dict[str, str] = {}  # of hosted agents, by the question's id and by its origin
        self._denied: dict[str, Approval] = {}  # of hosted agents, by the id of the call

    def load(self, body: Custom) -> None:
        """Take in what an entry of the journal says."""
        with contextlib.suppress(msgspec.ValidationError, KeyError, TypeError):
            if body.custom_type == WANTED:
                approval = msgspec.convert(body.data, Approval)
                if approval.session in ("", self._id):
                    self.waiting[approval.id] = approval
            elif body.custom_type == SETTLED:
                approval = self.waiting.pop(body.data["id"])
                if approval.origin:
                    self._choose(approval, str(body.data.get("choice", "")), bool(body.data["allowed"]))
                else:
                    self._settled[approval.call_id] = approval, bool(body.data["allowed"])
                is_ours = (
                    body.data.get("session") == self._id
                )  # and not of the session that it was forked from
                if is_ours and body.data.get("lasts") and body.data["allowed"] is True:
                    self.lasting.append(approval)

    def keep(self, call_ids: Iterable[str]) -> None:
        """Forget the questions of all other calls: they have their results."""
        kept = set(call_ids)
        self.waiting = {id: each for id, each in self.waiting.items() if each.call_id in kept}
        self._settled = {id: each for id, each in self._settled.items() if id in kept}

    def answer_to(self, call: ToolCall, touch: Touch) -> bool | None:
        """What was said to this very call before, by somebody whose daemon could not run it any more.

        It counts once, and only for the same tool, arguments and files as they were: ids of calls may repeat.
        """
        approval, allowed = self._settled.get(call.id, (None, False))
        if approval is None or not is_meant(approval, call, touch):
            return None
        del self._settled[call.id]
        return allowed

    def of_call(self, call_id: str) -> Approval | None:
        """The question about a call that waits, or whose answer was not heard yet."""
        waiting = (each for each in self.waiting.values() if each.call_id == call_id)
        return next(waiting, None) or self._settled.get(call_id, (None,))[0]

    def withdraw(self, call_id: str, by: str) -> None:
        """Deny what waits about a call, and forget what was said to it."""
        for id in [id for id, each in self.waiting.items() if each.call_id == call_id]:
            self.settle(id, False, by)
        self._settled.pop(call_id, None)

    def ask(self, call: ToolCall, touch: Touch, reason: str) -> asyncio.Future[bool]:
        """Ask, unless that was done already; the answer comes in the future."""
        waiting = self.of_call(call.id)
        if waiting is not None and not is_meant(waiting, call, touch):  # it leads elsewhere by now
            self.withdraw(call.id, "change")
            waiting, reason = None, CHANGED
        if waiting is None:
            waiting = Approval(
                secrets.token_hex(4),
                call.id,
                call.name,
                touch.summary,
                reason,
                touch.preview,
                call.arguments,
                _paths(touch),
                touch.command,
                time.time(),
                self._id,
                touch.seen,
            )
            self._write(waiting)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._answers[waiting.id] = answer
        self._tell(ApprovalWanted(self._id, waiting))
        return answer

    def _write(self, approval: Approval) -> None:
        self._journal.append(Custom(WANTED, msgspec.to_builtins(approval)))
        self.waiting[approval.id] = approval

    def ask_for(self, approval: Approval) -> Approval:
        """Ask what a hosted agent wants to know, unless that was done: the question that is asked."""
        known = (each for each in self.waiting.values() if each.origin == approval.origin)
        if (waiting := next(known, None)) is None:
            waiting = approval
            self._write(waiting)
        self._tell(ApprovalWanted(self._id, waiting))
        return waiting

    def _choose(self, approval: Approval, choice: str, allowed: bool) -> None:
        self._choices[approval.origin] = self._choices[approval.id] = choice
        if choice and not allowed:
            self._denied[approval.call_id] = approval

    def denial(self, call_id: str) -> str:
        """What is said of a call that a hosted agent was not allowed; empty if nobody denied it."""
        approval = self._denied.get(call_id)
        return "" if approval is None else denied(approval.tool, approval.summary)

    def choice_for(self, key: str) -> str | None:
        """What was chosen when a hosted agent asked, by the question's id or its origin; None if nothing
        was."""
        return self._choices.get(key)

    def settle(
        self, id: str, allowed: bool, by: str, *, lasts: bool = False, choice: str | None = None
    ) -> Approval:
        """Answer a question that waits. `choice` is the hosted agent's own id of the answer."""
        approval = self.waiting[id]
        said: dict[str, object] = {"id": id, "allowed": allowed, "by": by}
        if choice is not None:
            said["choice"] = choice
        if lasts:
            said |= {"lasts": True, "session": self._id}
        self._journal.append(Custom(SETTLED, said))
        del self.waiting[id]
        answer = self._answers.pop(id, None)
        if approval.origin:
            self._choose(approval, choice or "", allowed)
        elif answer is not None and not answer.done():
            answer.set_result(allowed)
        else:
            self._settled[approval.call_id] = approval, allowed
        self._tell(ApprovalSettled(self._id, approval, allowed, by))
        return approval


def denied(tool: str, what: str) -> str:
    """What the journal says of a call that was not allowed. Verifiers look for it."""
    return f"denied: no consent to {tool}: {what}"


def question_of(approval: Approval, *, session: str, name: str, project: str, journal: str) -> Question:
    """A call that waits, as people are asked about it everywhere."""
    where = f"the line with {approval.call_id} in {journal} has all"
    options = tuple(AnswerOption(each.value, each.label) for each in approval.choices)
    return Question(
        id=approval.id,
        kind="permission" if approval.origin else "consent",
        options=options or CONSENT,
        session=session,
        session_name=name,
        project=project,
        title=approval.tool,
        what=one_line(approval.summary, MAX_WHAT),
        whole=bounded(approval.preview.replace(IN_JOURNAL, where, 1), where),
        reason=approval.reason,
        asked_at=approval.asked_at,
        about=approval.call_id,
    )


def _paths(touch: Touch) -> tuple[str, ...]:
    return tuple(map(str, touch.paths))


def is_meant(approval: Approval, call: ToolCall, touch: Touch) -> bool:
    """Whether a question is about this call, and what it would do now is what was shown."""
    meant = approval.tool, approval.arguments, approval.paths, approval.command, approval.seen
    return meant == (call.name, call.arguments, _paths(touch), touch.command, touch.seen)
