"""Takes jobs from the queue and has them run here, at most as many at a time as this host has places.

A job is somebody's for as long as its lease, which is renewed while it runs: in the bucket, where its number
is the fence, and at the stream, which gives the job to another host after the lease. Both answers must come.
If they have not for two thirds of the lease, the turn is stopped here, so that it has ended before another
host may begin it. Times of leases are the server's clock alone; how long we were not confirmed is measured by
a clock that goes on while the machine sleeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

import msgspec
from nats.aio.msg import Msg

from . import limits
from .creds import Identity
from .job_store import JobRecord, JobStore, Outrun, QueueAway
from .jobs import JobBody, JobFault, JobState, Lane, check_job, opened, queued, subject
from .subjects import name_of

log = logging.getLogger("fairlead.fleet")

TERM = b"+TERM"
WORKING = b"+WPI"
LATE = 0.2
"""Seconds after a lease in which the server may have given a job to us too early, by its own clock."""


def now_awake() -> float:
    """Seconds that also pass while the machine sleeps, where the system tells them."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class RunResult(NamedTuple):
    """How a try ended. `is_gone`: who ran it went away in the middle, so that it is to be run again."""

    code: int
    is_gone: bool = False
    confidence: str = ""
    summary: str = ""
    report: str = ""
    note: str = ""


class Runner(Protocol):
    """What runs jobs on this host."""

    def lack(self, body: JobBody) -> str:
        """Why a job can't be run here; empty if it can."""

    async def run(self, body: JobBody) -> RunResult:
        """Run a job. Whoever cancels this finds the turn ended when it returns."""


class Terms(Protocol):
    """Whose jobs are run here."""

    def standing(self, jwt: str) -> Identity:
        """Who a credential is for, if it counts in our account. Raises an exception that says why not."""

    def refusal(self, who: str) -> str:
        """Why this host runs nothing for a member of the fleet; empty if it does."""


class _Held:
    """A job that runs here."""

    def __init__(self, body: JobBody, state: JobState, fence: int, message: Msg, until: float) -> None:
        self.body = body
        self.state = state
        self.fence = fence
        self.message = message
        self.until = until


class Worker:
    """The queue's hand on one host, for one connection to the server."""

    def __init__(
        self,
        store: JobStore,
        terms: Terms,
        runner: Runner,
        capacity: int,
        labels: Collection[str],
        hosts: Callable[[], Mapping[str, tuple[int, Collection[str]]]],
        clock: Callable[[], float] = now_awake,
    ) -> None:
        """`hosts` gives the others that are there, with their capacity and labels."""
        self._store = store
        self._terms = terms
        self._runner = runner
        self._free = min(capacity, limits.MAX_CAPACITY)
        self._lanes = [
            Lane("any"),
            Lane("host", store.creds.identity.name),
            *(Lane("label", each) for each in labels),
        ]
        self._hosts = hosts
        self._clock = clock
        self._room = asyncio.Event()
        self._is_finishing = False
        self._held: dict[str, _Held] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._name = name_of(store.word)

    @property
    def working(self) -> int:
        return len(self._running)

    def finish(self) -> None:
        """Take no more jobs; what runs goes on."""
        self._is_finishing = True
        self._room.clear()

    async def run(self) -> None:
        """Work until cancelled. What runs then is stopped and given back."""
        if not self._free:
            return
        self._room.set()
        taking = [asyncio.ensure_future(self._take_from(lane)) for lane in self._lanes]
        try:
            await asyncio.gather(*taking)
        finally:
            for each in taking:
                each.cancel()
            running = list(self._running)
            for each in running:
                each.cancel()
            await asyncio.gather(*taking, *running, return_exceptions=True)

    # --- taking -------------------------------------------------------------------------------------------

    async def _take_from(self, lane: Lane) -> None:
        lease: float | None = None
        while True:
            await self._room.wait()
            try:
                if lease is None:
                    lease = await self._store.lease(lane)
                message = await self._store.take(lane, limits.TAKE_SECONDS) if lease is not None else None
                if message is not None:
                    await self._begin(message, lane, lease or limits.JOB_LEASE)
                elif lease is None:
                    await asyncio.sleep(limits.AWAY_PAUSE)
            except QueueAway as error:
                log.debug("%s", error)
                lease = None
                await asyncio.sleep(limits.AWAY_PAUSE)

    async def _begin(self, message: Msg, lane: Lane, lease: float) -> None:
        if not self._room.is_set():  # another lane was faster
            await self._store.give_back(message)
            return
        self._use(1)
        try:
            held = await self._claimed(message, lane, lease)
        except BaseException:
            self._use(-1)
            raise
        if held is None:
            self._use(-1)
            return
        task = asyncio.ensure_future(self._hold(held, lease))
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _use(self, places: int) -> None:
        self._free -= places
        (self._room.set if self._free > 0 and not self._is_finishing else self._room.clear)()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._use(-1)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a job could not be run", exc_info=error)

    async def _claimed(self, message: Msg, lane: Lane, lease: float) -> _Held | None:
        """A job that is ours from now on, or None. Raises QueueAway."""
        try:
            envelope, body = opened(message.data)
            identity = self._terms.standing(envelope.jwt)
            check_job(envelope, identity)
            asker = name_of(identity.word)
            if message.subject != subject(identity.word, lane, body.id) or Lane.read(body.lane) != lane:
                raise JobFault("it lies where it does not belong")
            if not -3600 < time.time() - body.at < limits.JOB_KEPT + 86_400:
                raise JobFault("it is too old, or of the future")
        except (
            Exception
        ) as error:  # whatever was put there, it is not run, and nobody else is bothered with it
            log.warning("a job on %.200s is refused: %s", message.subject, error)
            await self._store.ack(message, TERM)
            return None
        found = await self._store.newest(body.id)
        began = self._clock()
        state = found.state if found is not None else None
        if (running := self._held.get(body.id)) is not None and running.state.round == body.round:
            running.message = message  # it runs here, and the server has lost patience
            return None
        if state is not None and (state.round > body.round or (state.round == body.round and state.is_over)):
            await self._store.ack(message)
            return None
        if state is None or state.round < body.round:
            state = queued(body, asker, body.at)
        fence = found.fence if found is not None else 0
        if state.state == "running" and found is not None and (left := await self._left(found)) > 0:
            await self._store.give_back(message, left + LATE)
            return None
        if state.tried >= body.tries:
            note = f"begun {state.tried} times, and each time who ran it went away; the last was {state.host}"
            failed = msgspec.structs.replace(state, state="failed", note=note)
            await self._settle(message, body.id, failed, fence)
            return None
        if lack := self._terms.refusal(asker) or self._runner.lack(body):
            await self._pass(message, body, state, fence, lack)
            return None
        mine = msgspec.structs.replace(
            state,
            state="running",
            tried=state.tried + 1,
            run=secrets.token_hex(8),
            host=self._name,
            lease=lease,
            since=time.time(),
            note="",
        )
        try:
            fence = await self._store.write(body.id, mine, fence)
        except Outrun:
            await self._store.give_back(message, LATE)
            return None
        return _Held(body, mine, fence, message, began + lease * limits.STOP_SHARE)

    async def _left(self, found: JobRecord) -> float:
        """For how long somebody else's lease still holds, by the server's clock. Raises QueueAway."""
        return found.state.lease - (await self._store.server_time() - found.at)

    async def _settle(self, message: Msg, id: str, state: JobState, fence: int) -> None:
        """Write how a job ended, once, and take it out of the queue."""
        with contextlib.suppress(Outrun):
            await self._store.write(id, msgspec.structs.replace(state, since=time.time()), fence)
            await self._store.ack(message)

    async def _pass(self, message: Msg, body: JobBody, state: JobState, fence: int, why: str) -> None:
        """Leave a job to another host; if there is none that has not passed it on as well, it has failed."""
        passed = {**state.passed, self._name: why[:200]}
        passed = dict(list(passed.items())[-limits.MAX_CAPACITY :])
        lane = Lane.read(body.lane)
        others = {
            name
            for name, (capacity, labels) in self._hosts().items()
            if capacity > 0
            and (lane.kind == "any" or (lane.kind == "label" and lane.word in labels) or lane.word == name)
        }
        now = msgspec.structs.replace(state, state="queued", passed=passed, since=time.time())
        if others <= set(passed):
            note = "no host can run it: " + "; ".join(f"{host} {lack}" for host, lack in passed.items())
            now = msgspec.structs.replace(now, state="failed", note=note[: limits.MAX_JOB_NOTE])
            await self._settle(message, body.id, now, fence)
            return
        if self._name not in state.passed:
            with contextlib.suppress(Outrun):
                await self._store.write(body.id, now, fence)
        delay = limits.PASS_FIRST * 2 ** min(10, len(passed) - 1)
        await self._store.give_back(message, min(limits.PASS_MOST, delay))

    # --- holding ------------------------------------------------------------------------------------------

    async def _hold(self, held: _Held, lease: float) -> None:
        """Run a job, renew its lease meanwhile, and write down what came of it."""
        id = held.body.id
        self._held[id] = held
        running = asyncio.ensure_future(self._timed(held.body))
        renewing = asyncio.ensure_future(self._renew(held, lease))
        log.info("job %s of %s begins, try %d", id, held.state.asker, held.state.tried)
        try:
            await asyncio.wait({running, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                why = renewing.result()
                log.warning("job %s is stopped: %s", id, why)
                await _stopped(running)
                return
            result = running.result()
            await self._finish(held, result)
        except asyncio.CancelledError:
            await _stopped(running)
            await self._let_go(held, "its host ends")
            raise
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            if not running.done():
                await _stopped(running)
            if self._held.get(id) is held:
                del self._held[id]

    async def _timed(self, body: JobBody) -> RunResult:
        try:
            async with asyncio.timeout(body.seconds):
                return await self._runner.run(body)
        except TimeoutError:
            return RunResult(1, note=f"not done within {body.seconds:g} s")
        except OSError as error:
            return RunResult(1, note=f"it can't be run: {error}")

    async def _renew(self, held: _Held, lease: float) -> str:
        """Keep a job ours. Returns why it is not any more."""
        while True:
            await asyncio.sleep(lease / limits.RENEWALS)
            began = self._clock()
            try:
                async with asyncio.timeout(max(0.1, min(lease / limits.RENEWALS, held.until - began))):
                    await self._write(held, held.state)
                    await self._store.ack(held.message, WORKING)
                held.until = began + lease * limits.STOP_SHARE
            except Outrun:
                return "somebody else has it, or has cancelled it"
            except (TimeoutError, QueueAway) as error:
                if self._clock() >= held.until:
                    return f"its lease can't be renewed: {error or 'the server does not answer'}"

    async def _write(self, held: _Held, state: JobState) -> None:
        """Write a state of a job that is ours. Raises Outrun if it is not any more, or QueueAway."""
        try:
            held.fence = await self._store.write(held.body.id, state, held.fence)
        except Outrun:
            found = await self._store.newest(held.body.id)
            if found is None or found.state.run != held.state.run or found.state.is_over:
                raise
            # what we wrote before has come there, though its answer has not come here
            held.fence = await self._store.write(held.body.id, state, found.fence)

    async def _finish(self, held: _Held, result: RunResult) -> None:
        """Write the result: the first one that has the right fence counts."""
        if result.is_gone:
            log.warning("job %s is given back: %s", held.body.id, result.note or "its daemon went away")
            await self._let_go(held, result.note or "its daemon went away in the middle")
            return
        state = msgspec.structs.replace(
            held.state,
            state="done" if result.code in (0, 3) else "failed",
            code=result.code,
            confidence=result.confidence,
            summary=result.summary[: limits.MAX_JOB_NOTE],
            report=result.report if len(result.report) <= limits.MAX_JOB_REPORT else "",
            note=result.note[: limits.MAX_JOB_NOTE],
            seconds=round(time.time() - held.state.since, 1),
            since=time.time(),
            lease=0.0,
        )
        while True:
            try:
                await self._write(held, state)
                await self._store.ack(held.message)
                return
            except Outrun:
                log.warning("the result of job %s came too late", held.body.id)
                return
            except QueueAway:
                # nothing runs any more: to wait does no harm, and if another host has begun it we are told
                if self._clock() >= held.until + limits.JOB_KEPT:
                    return
                await asyncio.sleep(limits.AWAY_PAUSE)

    async def _let_go(self, held: _Held, why: str) -> None:
        """Give a job back that does not run any more. Never raises."""
        state = msgspec.structs.replace(held.state, state="queued", note=why, lease=0.0, since=time.time())
        with contextlib.suppress(Outrun, QueueAway):
            await self._write(held, state)
            await self._store.give_back(held.message)


async def _stopped(task: asyncio.Task[RunResult]) -> None:
    """End a run, and wait until it has ended, however often we are told to end."""
    task.cancel()
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])
