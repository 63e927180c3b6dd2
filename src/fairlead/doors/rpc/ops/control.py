"""The ops of rpc-edn that reach the control room: health and notifications."""

from __future__ import annotations

import asyncio

from ....control.health import HealthChecks
from ....control.loop import Control
from ....control.signals import Priority, Signal
from ....wire.rpc import ErrorCode, fields
from ..handlers import Data, OpError, op


class ControlOps:
    """What the control room does for clients."""

    def __init__(self, room: Control, health: HealthChecks) -> None:
        self._room = room
        self._health = health

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
    async def notify(self, text: str, title: str = "") -> Data:
        signal = Signal("notification", "rpc", text, priority=Priority.PERSON, fields={"title": title})
        judged = self._room.consider(signal)
        why = judged[0].reason if judged else "see the daemon's log"
        if judged and (outcome := judged[0].outcome_later) is not None:
            why = await asyncio.shield(outcome)  # it goes on if its client leaves
        if why:
            raise OpError(ErrorCode.FAILED, f"the notification was not sent: {why}")
        return fields(accepted=True)
