"""The ops of rpc-edn about verification: where a session's verifiers connect, and what they have said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ....sessions.directory import Directory
from ....system.settings import LOCAL
from ....verify.store import ReportStore
from ....wire.rpc import ErrorCode, fields
from ...verifier import VerifierDoor
from ..elsewhere import HOST_PARAM, FarHosts
from ..frames import plain
from ..handlers import Call, Data, OpError, op
from .sessions import meant

LISTED = 100
"""How many reports are given unless it is said."""


class VerifyOps:
    """Where the verifiers of a directory's sessions connect: at the sockets of `door`."""

    def __init__(
        self,
        door: VerifierDoor,
        directory: Directory,
        store: ReportStore,
        elsewhere: FarHosts | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        self._door = door
        self._directory = directory
        self._store = store

    def _path(self, session_id: str) -> str:
        try:
            return self._door.path(session_id)
        except ValueError as error:
            raise OpError(ErrorCode.FAILED, str(error)) from None

    @op
    async def verify_target(self, call: Call, name: str = "") -> Data:
        kind, found = (await meant(self._directory, call, name))[0]
        session = await kind.live(found.id)
        return fields(
            session_id=session.id,
            kind=session.kind,
            socket=self._path(session.id),
            project=session.project,
            file=session.file or None,
            model=session.model or None,
            line=max((turn.last_line for turn in session.turns), default=0),
            turns=len(session.turns),
        )

    @op
    async def verify_reports(
        self, session_id: str | None = None, limit: int = LISTED, hosts: bool = False
    ) -> Data:
        found = await self._store.thread.run(lambda: self._store.list(session_id=session_id, limit=limit))
        rows = [plain(each._asdict()) for each in found]
        if not hosts:
            return fields(reports=rows)
        there: Sequence[Any] = ()
        known: Sequence[Mapping[str, Any]] = ()
        if self._elsewhere is not None:
            await self._elsewhere.begun()
            there, known = await self._elsewhere.reports(limit), self._elsewhere.hosts()
        here = [{**row, HOST_PARAM: LOCAL} for row in rows]
        return fields(reports=[*here, *there], hosts=[fields(**each) for each in known])

    @op
    async def verify_report(self, report: int) -> Data:
        found = await self._store.thread.run(lambda: self._store.get(report))
        if found is None:
            raise OpError(ErrorCode.NOT_FOUND, f"no report {report}")
        return fields(report=plain(msgspec.to_builtins(found)) | fields(id=report))
