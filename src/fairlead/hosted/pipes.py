"""All agents of a daemon that talk over pipes: starting them, and finding them again after a restart.

A keeper whose connection is lost is looked for again, and only when nobody listens at its socket is its agent
given up. A start is whole or leaves nothing: the keeper is made first, and starts the agent when it is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..system.fair import FairLine
from ..system.keepers import (
    FIND_PAUSE,
    FIND_REST,
    FIND_TRIES,
    START_WAIT,
    KeeperGone,
    NurseryError,
    NurseryLink,
    Tasks,
    discard,
    reach,
    sockets_in,
)
from ..system.settings import SettingError, Settings, safe_dir
from ..system.sockets import is_served
from .pipe import MARK, Pipe, PipeError, PipeLink

log = logging.getLogger("fairlead")

STRAY_GRACE = 1.0
"""Seconds that an agent has to end by itself whose keeper was killed."""


class Pipes:
    """The agents of this daemon that talk over pipes."""

    def __init__(self, settings: Settings, nursery: NurseryLink) -> None:
        self._settings = settings
        self._nursery = nursery
        self._line = FairLine()
        self._paths: dict[Pipe, str] = {}  # where their keepers listen
        self._found_at: dict[Pipe, float] = {}
        self._tasks = Tasks()
        self._closing = False

    def __iter__(self) -> Iterator[Pipe]:
        return iter(list(self._paths))

    async def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        note: Mapping[str, Any] | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> Pipe:
        """Start an agent. Raises PipeError if it can't be.

        `note` is what the next daemon should know of it from the beginning; `limits` are those of the
        keeper's `PipeSpec`. If who asks is cancelled, the agent is started all the same.
        """
        if not os.path.isdir(cwd):
            raise PipeError(f"no such directory: {cwd}")
        mark = secrets.token_hex(8)
        spec: dict[str, Any] = {
            "id": name,
            "command": list(command),
            "cwd": cwd,
            "environment": {**environment, MARK: mark},
            "deferred": True,  # until its keeper is ours
            "note": dict(note or {}),
        }
        return await asyncio.shield(self._tasks.begin(self._start({**spec, **(limits or {})}, mark)))

    async def _start(self, spec: dict[str, Any], mark: str) -> Pipe:
        path = f"{self._settings.pipes_dir}/{mark}.sock"
        keeper = 0
        try:
            safe_dir(self._settings.pipes_dir)
            spec["directory"] = safe_dir(self._settings.spill_dir)
            keeper = (await self._nursery.ask({"pipe": spec, "socket": path}))["pid"]
            pipe = await self._join(path)
            pipe.start()
            async with asyncio.timeout(START_WAIT):
                await pipe.begun.wait()
            if pipe.failure:
                raise PipeError(pipe.failure)
            return pipe
        except BaseException as error:
            self._drop(path)
            discard(keeper, path)
            if isinstance(error, TimeoutError):
                raise PipeError(f"{spec['id']} did not start within {START_WAIT:g} s") from None
            if isinstance(error, OSError):
                raise PipeError(f"{spec['id']} can't be started: {error.strerror or error}") from None
            if isinstance(error, (NurseryError, KeeperGone, SettingError)):
                raise PipeError(str(error)) from None
            raise

    async def found(self) -> list[Pipe]:
        """Take over the keepers that are there. Whatever their agents say waits until somebody listens."""
        paths = sockets_in(self._settings.pipes_dir)
        pipes = await asyncio.gather(*(self._adopt(path) for path in paths))
        return [pipe for pipe in pipes if pipe is not None]

    async def _adopt(self, path: str) -> Pipe | None:
        """Take over a keeper; the socket of one that isn't there any more is removed."""
        try:
            pipe = await self._join(path)
        except (OSError, KeeperGone) as error:
            self._drop(path)
            if is_served(path):  # it lives, and may let the next daemon in
                log.error("the keeper at %s can't be taken over: %s", path, error or "it does not answer")
                return None
            with contextlib.suppress(OSError):
                os.unlink(path)
            return None
        if pipe.is_deferred:  # the daemon died that was about to start it
            self.forget(pipe)
            return None
        return pipe

    async def _join(self, path: str) -> Pipe:
        pipe = Pipe(os.path.basename(path).removesuffix(".sock"))
        self._paths[pipe] = path
        await pipe.join(await reach(path), self._line, lambda link: self._lost(pipe, link))
        return pipe

    def forget(self, pipe: Pipe) -> None:
        """Let the keeper of an agent that has ended go."""
        self._paths.pop(pipe, None)
        self._found_at.pop(pipe, None)
        pipe.dismiss()

    def close(self) -> None:
        """Leave the agents to their keepers, and to the next daemon."""
        self._closing = True
        self._tasks.cancel()
        for pipe in self._paths:
            pipe.unlink()

    def _drop(self, path: str) -> None:
        for pipe in [each for each, place in self._paths.items() if place == path]:
            del self._paths[pipe]
            pipe.unlink()

    # --- keepers that are lost ------------------------------------------------------------------------------

    def _lost(self, pipe: Pipe, link: PipeLink) -> None:
        """A connection to a keeper is gone. If that was not our wish, we look for the keeper."""
        if self._closing or not pipe.is_linked_by(link) or pipe.end is not None:
            return
        pipe.unlink()
        if pipe in self._paths:
            _ = self._tasks.begin(self._find_again(pipe))

    async def _find_again(self, pipe: Pipe) -> None:
        """Connect to a keeper that was lost. Its agent is given up only when nobody listens there."""
        path = self._paths[pipe]
        if time.monotonic() - self._found_at.get(pipe, -FIND_REST) < FIND_REST:
            await asyncio.sleep(FIND_REST)
        for _ in range(FIND_TRIES):
            try:
                reached = await reach(path)
                self._found_at[pipe] = time.monotonic()
                await pipe.join(reached, self._line, lambda link: self._lost(pipe, link))
                log.warning("the keeper of %s had closed its connection; it is connected again", pipe.name)
                return
            except (FileNotFoundError, ConnectionRefusedError):
                break
            except (OSError, KeeperGone):
                await asyncio.sleep(FIND_PAUSE)
        self._paths.pop(pipe, None)
        if is_served(path):
            log.error("the keeper of %s lets us in no more; another daemon may have it", pipe.name)
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        strays = await pipe.end_strays(STRAY_GRACE)
        sentence = f"the keeper of {pipe.name} was killed; {strays} of its processes were ended"
        log.error("%s", sentence)
        pipe.lose(sentence)
