"""This host's work for the queue, as its settings say: a worker while there is capacity for one."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping

from ..system import own_place
from ..system.settings import SettingError, Settings
from . import limits
from .creds import Identity
from .job_runner import CommandRunner
from .job_store import JobStore
from .member import Member
from .worker import Worker

log = logging.getLogger("fairlead.fleet")


class WorkShift:
    """Takes jobs for as long as this host has places for them. It is also whom a worker asks whose jobs may
    run here."""

    def __init__(self, settings: Settings, member: Member, store: JobStore) -> None:
        self._settings = settings
        self._member = member
        self._store = store
        self._runner = CommandRunner(os.environ)

    # --- what the worker asks -----------------------------------------------------------------------------

    def standing(self, jwt: str) -> Identity:
        return self._member.verifier.standing(jwt)

    def refusal(self, who: str) -> str:
        try:
            taken = own_place.jobs_from(self._settings)
        except SettingError as error:
            return f"can't read whose jobs it runs: {error}"
        return "" if own_place.EVERYBODY in taken or who in taken else f"runs no jobs of {who}"

    def _others(self) -> Mapping[str, tuple[int, Collection[str]]]:
        return {
            row["name"]: (row["capacity"], row["labels"])
            for row in self._member.hosts.listed()
            if row["state"] == "here"
        }

    # --- working ------------------------------------------------------------------------------------------

    def _wanted(self) -> tuple[int, tuple[str, ...]]:
        if not self._member.is_machine or self._member.identity.read_only:
            return 0, ()
        try:
            return self._settings.count("fleet", "capacity"), own_place.labels(self._settings)
        except SettingError as error:
            log.warning("no jobs are taken: %s", error)
            return 0, ()

    async def run(self) -> None:
        """Work for good. When the settings change, what runs goes on before others are taken."""
        while True:
            wanted = self._wanted()
            worker = Worker(self._store, self, self._runner, *wanted, self._others)
            working = asyncio.ensure_future(worker.run())
            try:
                while self._wanted() == wanted and (not working.done() or not wanted[0]):
                    await asyncio.sleep(limits.SHIFT_LOOK)
                worker.finish()
                while worker.working:
                    await asyncio.sleep(limits.SHIFT_LOOK)
                if working.done() and not working.cancelled() and (error := working.exception()) is not None:
                    log.error("taking jobs failed", exc_info=error)
                    await asyncio.sleep(limits.AWAY_PAUSE)
            finally:
                working.cancel()
                await asyncio.wait([working])
