"""The ops of rpc-edn that reach the control room: health, approvals, and notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from ..control.health import Report
from ..control.loop import Judged
from ..control.signals import Priority, Signal
from ..formats.shown import middle
from ..sessions.inbox import AskerGone, Inbox, NoSuchOption, NotOpen, Unheard
from ..sessions.questions import Question
from ..wire.rpc import ErrorCode, Request, fields
from .rpc import Handler, OpError

LISTED_CHARACTERS = 1024 * 1024
"""How much of what will happen a list has, of all questions together."""
LEAST_CHARACTERS = 1000
"""How much each of them has at the least."""


class Room(Protocol):
    """The control room, as these ops need it."""

    def consider(self, signal: Signal) -> list[Judged]: ...


class Healths(Protocol):
    async def check(self) -> Report: ...


def control_ops(room: Room, health: Healths, inbox: Inbox) -> dict[str, Handler]:
    """Each op's function."""

    async def check(request: Request) -> Mapping[Any, Any]:
        report = await health.check()
        return fields(
            status=report.status,
            checked_at=report.checked_at,
            checks=[
                fields(name=check.name, status=check.status, detail=check.detail, fix=check.fix)
                for check in report.checks
            ],
        )

    async def approvals(request: Request) -> Mapping[Any, Any]:
        """All that waits, or one question. Of many only as much is in the list as has room there."""
        if (token := request.get("token")) is not None:
            try:
                return fields(approvals=[_row(inbox.find(token))])
            except NotOpen as error:
                raise OpError(ErrorCode.NOT_FOUND, str(error)) from None
        left, rows = LISTED_CHARACTERS, []
        for question in inbox.open():
            room = max(LEAST_CHARACTERS, left)
            rows.append(_row(question, middle(question.whole, room, question.see_all)))
            left -= len(question.whole)
        return fields(approvals=rows)

    async def approval_settle(request: Request) -> Mapping[Any, Any]:
        allowed, lasts = request.get("allowed"), request.get("always")
        option = "deny" if not allowed else "always" if lasts else "allow"
        try:
            question, _ = await inbox.answer(request.get("token"), option, "fairlead approvals")
        except NotOpen as error:
            raise OpError(ErrorCode.NOT_FOUND, str(error)) from None
        except NoSuchOption as error:
            raise OpError(ErrorCode.INVALID_PARAMS, str(error)) from None
        except (AskerGone, Unheard) as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None
        return fields(accepted=True, approval=_row(question))

    async def notify(request: Request) -> Mapping[Any, Any]:
        title = request.get("title") or ""
        signal = Signal(
            "notification", "rpc", request.get("text"), priority=Priority.PERSON, fields={"title": title}
        )
        judged = room.consider(signal)
        why = judged[0].reason if judged else "see the daemon's log"
        if judged and (outcome := judged[0].outcome_later) is not None:
            why = await asyncio.shield(outcome)  # it goes on if its client leaves
        if why:
            raise OpError(ErrorCode.FAILED, f"the notification is not sent: {why}")
        return fields(accepted=True)

    return {
        "health": check,
        "approvals": approvals,
        "approval_settle": approval_settle,
        "notify": notify,
    }


def _row(question: Question, whole: str | None = None) -> Mapping[Any, Any]:
    return fields(
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
