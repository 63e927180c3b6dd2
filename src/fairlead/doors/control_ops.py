"""The ops of rpc-edn that reach the control room: health, approvals, and notifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..control.health import Report
from ..control.loop import Judged
from ..control.protocols import Waiting
from ..control.signals import Priority, Signal
from ..wire.rpc import ErrorCode, Request, fields
from .rpc import Handler, OpError


class Room(Protocol):
    """The control room, as these ops need it."""

    def consider(self, signal: Signal) -> list[Judged]: ...

    def waiting(self) -> Sequence[Waiting]: ...

    def settle(self, token: str, allowed: bool, by: str) -> bool: ...


class Healths(Protocol):
    @property
    def report(self) -> Report: ...

    async def check(self) -> Report: ...


def control_ops(room: Room, health: Healths) -> dict[str, Handler]:
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
        return fields(approvals=[_row(each) for each in room.waiting()])

    async def approval_settle(request: Request) -> Mapping[Any, Any]:
        token, allowed = request.get("token"), request.get("allowed")
        if not room.settle(token, allowed, "rpc-edn"):
            message = f"no approval {token!r} waits: it was answered already, or never asked"
            raise OpError(ErrorCode.NOT_FOUND, message)
        return fields(accepted=True)

    async def notify(request: Request) -> Mapping[Any, Any]:
        title = request.get("title") or ""
        signal = Signal(
            "notification", "rpc", request.get("text"), priority=Priority.PERSON, fields={"title": title}
        )
        judged = room.consider(signal)
        if not judged or judged[0].reason:
            why = judged[0].reason if judged else "see the daemon's log"
            raise OpError(ErrorCode.FAILED, f"the notification is not sent: {why}")
        return fields(accepted=True)

    return {
        "health": check,
        "approvals": approvals,
        "approval_settle": approval_settle,
        "notify": notify,
    }


def _row(waiting: Waiting) -> Mapping[Any, Any]:
    return fields(
        token=waiting.token,
        session_id=waiting.session,
        title=waiting.title,
        summary=waiting.summary,
        reason=waiting.reason,
        preview=waiting.preview,
    )
