"""The ops of rpc-edn that reach the control room: health, approvals, and notifications."""

from __future__ import annotations

import asyncio

from ....control.health import Health
from ....control.loop import Control
from ....control.signals import Priority, Signal
from ....formats.shown import middle
from ....sessions.inbox import Inbox
from ....sessions.questions import Question
from ....wire.rpc import ErrorCode, fields
from ..handlers import Data, OpError, op

LISTED_CHARACTERS = 1024 * 1024
"""How much of what will happen a list has, of all questions together."""
LEAST_CHARACTERS = 1000
"""How much each of them has at the least."""


class ControlOps:
    """What the control room does for clients."""

    def __init__(self, room: Control, health: Health, inbox: Inbox) -> None:
        self._room = room
        self._health = health
        self._inbox = inbox

    @op
    async def health(self) -> Data:
        report = await self._health.check()
        return fields(
            status=report.status,
            checked_at=report.checked_at,
            checks=[
                fields(name=check.name, status=check.status, detail=check.detail, fix=check.fix)
                for check in report.checks
            ],
        )

    @op
    async def approvals(self, token: str | None = None) -> Data:
        """All that waits, or one question. Of many only as much is in the list as has room there."""
        if token is not None:
            return fields(approvals=[_row(self._inbox.find(token))])
        left, rows = LISTED_CHARACTERS, []
        for question in self._inbox.open():
            room = max(LEAST_CHARACTERS, left)
            rows.append(_row(question, middle(question.whole, room, question.see_all)))
            left -= len(question.whole)
        return fields(approvals=rows)

    @op
    async def approval_settle(
        self, token: str, allowed: bool, always: bool = False, option: str = "", text: str = ""
    ) -> Data:
        """Answer with yes or no, with another of the question's own options, or with a text."""
        option = option or ("deny" if not allowed else "always" if always else "allow")
        question, _ = await self._inbox.answer(token, option, "fairlead approvals", text)
        return fields(accepted=True, approval=_row(question))

    @op
    async def notify(self, text: str, title: str = "") -> Data:
        signal = Signal("notification", "rpc", text, priority=Priority.PERSON, fields={"title": title})
        judged = self._room.consider(signal)
        why = judged[0].reason if judged else "see the daemon's log"
        if judged and (outcome := judged[0].outcome_later) is not None:
            why = await asyncio.shield(outcome)  # it goes on if its client leaves
        if why:
            raise OpError(ErrorCode.FAILED, f"the notification was not sent: {why}")
        return fields(accepted=True)


def _row(question: Question, whole: str | None = None) -> Data:
    has_own = question.kind in ("permission", "dialog")
    labels = {"labels": [each.label for each in question.options]} if has_own else {}
    return fields(
        **labels,
        **({"takes_text": True} if question.takes_text else {}),
        token=question.id,
        kind=question.kind,
        session_id=question.session,
        session_name=question.session_name or None,
        project=question.project or None,
        title=question.title,
        summary=question.what,
        reason=question.reason,
        preview=question.whole if whole is None else whole,
        options=[each.value for each in question.options],
        asked_at=question.asked_at,
        lost=question.lost or None,
    )
