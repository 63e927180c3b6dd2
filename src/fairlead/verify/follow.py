"""A verifier's side of Pi's protocol: follows a session, has each turn checked, and says what came of it.

It works with our own builders and with real ones. When the connection breaks it looks for the socket again,
for a while, and tells the builder how far it has judged, so that a daemon which was killed costs no report: a
turn that ended meanwhile is told again, and a report that could not be sent is sent then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import msgspec

from ..wire import verifier as wire
from ..wire.faults import Broken
from ..wire.verifier import DeliverAs, Event, PromptAck
from .report import Confidence, Report, Section, Status, correction, lowered, to_wire

CONNECT_WAIT = 10.0
"""Seconds until a socket that is not there is an error,"""
RECONNECT_WAIT = 60.0
"""and until one that was there is given up."""
LOOK_AGAIN = 0.1
"""Seconds between looks for it."""
MAX_STOPS = 1000
"""How many turns may wait to be checked; the oldest is left out then."""
READ_SIZE = 65_536
LEFT = "session_shutdown"
"""The reason of a builder's bye that means it."""
OCCUPIED = "duplicate connection"
"""The reason of a real Pi's bye to a second verifier."""

ONLY_JUDGES = "this verifier does not send corrections"
TOO_LATE = "the next turn began before this one was checked"
"""Why a report is no more about the turn that it was asked for."""

Check = Callable[[Event], Awaitable[Report]]


class BuilderGone(Exception):
    """The session is not there, or not any more. Says why."""


class BuilderLeft(BuilderGone):
    """The session has ended."""


class Occupied(BuilderGone):
    """The session has a verifier and takes no other."""


class DeliveredReport(NamedTuple):
    """A turn that was checked."""

    stop: Event
    report: Report
    refusal: str
    """Why the builder did not take the correction, if it did not."""


_SAID = {"max loops exceeded": "the limit of corrections is reached"}
"""What Pi's words on the wire mean."""


class TurnFollower:
    """Checks the turns of one session. `check` judges a turn by its stop event; `began` hears of starts.

    With `latest`, of the turns that the builder tells of at once only the last is judged; if it `tells_all`
    when we come, and tells of none, there is none. Without `sends_back` what failed is only said. While the
    socket of a builder that was there is not, `missed` is called in a thread, which may raise Gone; it is
    looked for as long as `patience` says. `began` does not hear of turns that began before we came.
    """

    def __init__(
        self,
        path: str,
        session_id: str,
        check: Check,
        *,
        since: int | None = None,
        deliver_as: DeliverAs | None = None,
        latest: bool = False,
        tells_all: bool = False,
        sends_back: bool = True,
        began: Callable[[Event | None], Awaitable[None]] | None = None,
        told: Callable[[str], None] = lambda line: None,
        missed: Callable[[], None] | None = None,
        patience: float | None = None,
    ) -> None:
        self._path = path
        self._session_id = session_id
        self._check = check
        self._since = since
        self._latest = latest
        self._tells_all = tells_all
        self._sends_back = sends_back
        self._deliver_as: DeliverAs | None = deliver_as
        self._began = began
        self._beginning: asyncio.Task[None] | None = None
        self._told = told
        self._missed = missed
        self._patience = RECONNECT_WAIT if patience is None else patience
        self._turn: int | None = None  # the last one that we saw begin
        self._newest = 0  # the last one of which we heard
        self._ended: dict[int | None, int | None] = {}  # turns that ended, with their last lines
        self._stops: asyncio.Queue[Event | BuilderGone] = asyncio.Queue()
        self._acks: dict[str, asyncio.Future[PromptAck]] = {}
        self._heard: asyncio.Future[None] | None = None
        self._link: _Link | None = None
        self._gone: BuilderGone | None = None
        self._ready = asyncio.Event()
        self.is_settled = asyncio.Event()
        """The builder has told all that it had to tell when we came."""

    async def judgements(self) -> AsyncIterator[DeliveredReport]:
        """Each turn as it is judged. Raises Gone when the session goes away."""
        keeping = asyncio.create_task(self._keep_connected())
        try:
            if self._latest:
                await self.is_settled.wait()
                while self._stops.qsize() > 1:
                    self._stops.get_nowait()
                if self._tells_all and not self._newest and self._stops.empty():
                    raise BuilderGone(f"{self._session_id} has had no turn yet")
            while True:
                stop = await self._stops.get()
                if isinstance(stop, BuilderGone):
                    raise stop
                if self._beginning is not None:
                    await self._beginning
                report = await self._check(stop)
                if self._newest > (stop.turn_index or 0):
                    report = lowered(report, Confidence.PARTIAL, TOO_LATE, is_unsure=True)
                refusal = await self._sent_back(stop, report) if report.status is Status.FAILED else ""
                if refusal:
                    note = Section("Sent back?", f"No: {refusal.rstrip('.')}.")
                    report = msgspec.structs.replace(report, sections=(*report.sections, note), raw="")
                await self._deliver(to_wire(report))
                self._since = max(self._since or 0, stop.session_file_end_line or 0)
                yield DeliveredReport(stop, report, refusal)
        finally:
            if self._link is not None:  # while the connection is still there
                await self._link.leave("done")
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError, BuilderGone):
                await keeping

    # --- talking --------------------------------------------------------------------------------------------

    async def _sent_back(self, stop: Event, report: Report) -> str:
        """Send the turn back; gives why that was refused, if it was.

        If the builder goes away meanwhile it is sent again, unless the next one tells that the turn went on.
        """
        if not self._sends_back:
            return ONLY_JUDGES
        if self._newest > (stop.turn_index or 0):
            return TOO_LATE
        prompt = wire.Prompt(
            session_id=self._session_id,
            message=correction(report),
            deliver_as=self._deliver_as,
            correlation_id=uuid.uuid4().hex,
        )
        while True:
            answer: asyncio.Future[PromptAck] = asyncio.get_running_loop().create_future()
            self._acks[prompt.correlation_id] = answer
            try:
                await self._send(prompt)
                async with asyncio.timeout(wire.ACK_DEADLINE):
                    ack = await answer
                return "" if ack.ok else _SAID.get(ack.error or "", ack.error) or "refused"
            except TimeoutError:
                return f"the builder did not answer within {wire.ACK_DEADLINE:g} seconds"
            except ConnectionError:
                await self._ready.wait()
                await self.is_settled.wait()
                if self._ended[stop.turn_index] != stop.session_file_end_line:
                    return ""
            finally:
                del self._acks[prompt.correlation_id]

    async def _deliver(self, report: wire.Report) -> None:
        """Send a report, again if the builder goes away before it can have read it."""
        while True:
            await self._send(report)
            heard = self._heard = asyncio.get_running_loop().create_future()
            with contextlib.suppress(ConnectionError, TimeoutError):
                await self._send(wire.Ping(nonce=_REPORTED))
                async with asyncio.timeout(wire.PING_INTERVAL):
                    await heard
                return
            if not heard.done():  # it is slow, or answers no pings
                return

    async def _send(self, envelope: wire.Envelope) -> None:
        """Send as soon as there is a connection. Raises Gone if there will be none."""
        while True:
            await self._ready.wait()
            if self._gone is not None:
                raise self._gone
            assert self._link is not None
            try:
                await self._link.send(envelope)
                return
            except ConnectionError:
                self._ready.clear()

    # --- the connection -------------------------------------------------------------------------------------

    async def _keep_connected(self) -> None:
        wait = CONNECT_WAIT
        while True:
            try:
                self._link = await self._connected(wait)
                self._ready.set()
                await self._hear(self._link)
            except BuilderGone as gone:
                self._link, self._gone = None, gone
                self._ready.set()
                self.is_settled.set()
                self._stops.put_nowait(gone)
                return
            self._ready.clear()
            self.is_settled.clear()
            for answer in (*self._acks.values(), self._heard):
                if answer is not None and not answer.done():
                    answer.set_exception(ConnectionError("the builder went away"))
            self._told("lost the session; reconnecting")
            wait = self._patience

    @staticmethod
    async def _look(
        began: Callable[[Event | None], Awaitable[None]], start: Event, before: asyncio.Task[None] | None
    ) -> None:
        """Let the checker see how things are when a turn begins."""
        if before is not None:
            await before
        await began(start)

    async def _connected(self, wait: float) -> _Link:
        """A connection on which hello was said."""
        deadline = asyncio.get_running_loop().time() + wait
        appeared = os.path.exists(self._path)
        while True:
            with contextlib.suppress(OSError):
                if not appeared and os.path.exists(self._path):
                    await asyncio.sleep(wire.LAUNCH_PAUSE)  # a builder that is being launched forgets a hello
                link = _Link(self._session_id, *await asyncio.open_unix_connection(self._path))
                await link.send(link.wire.hello(os.getpid(), self._since))
                await link.send(wire.Ping(nonce=_SETTLED))
                return link
            if asyncio.get_running_loop().time() > deadline:
                raise BuilderGone(f"nothing is listening on {self._path}")
            if self._missed is not None:
                await asyncio.to_thread(self._missed)
            await asyncio.sleep(LOOK_AGAIN)

    async def _hear(self, link: _Link) -> None:
        """Take in what the builder says, until the connection is over. Raises Gone if it says so."""
        pinging = asyncio.create_task(link.keep_alive())
        try:
            while data := await link.read():
                for item in link.wire.receive(data):
                    if (answer := link.wire.answer(item)) is not None:
                        await link.send(answer)
                    self._take(item, link)
                    if isinstance(item, Broken):
                        return
        except ConnectionError:
            pass
        finally:
            pinging.cancel()
            link.close()

    def _starts(self, start: Event) -> None:
        if self._since is None:  # so that after a reconnection we hear how this turn ended
            self._since = max(0, (start.session_file_start_line or 1) - 1)
        if self._latest and not self.is_settled.is_set():
            while not self._stops.empty():  # those before are not the last
                self._stops.get_nowait()
        self._newest = max(self._newest, start.turn_index or 0)
        is_now = self.is_settled.is_set()  # what is told when we come has begun before
        if self._began is not None and is_now and start.turn_index != self._turn:
            self._turn = start.turn_index
            looking = self._look(self._began, start, self._beginning)
            self._beginning = asyncio.ensure_future(looking)

    def _ends(self, stop: Event) -> None:
        last_line = stop.session_file_end_line
        if not self.is_settled.is_set() and self._ended.get(stop.turn_index, -1) == last_line:
            return  # it is told again because we came again; we have it
        self._ended[stop.turn_index] = last_line
        self._newest = max(self._newest, stop.turn_index or 0)
        if self._since is None:
            self._since = max(0, (stop.session_file_start_line or 1) - 1)
        if self._stops.qsize() >= MAX_STOPS:
            self._stops.get_nowait()
        self._stops.put_nowait(stop)

    def _take(self, item: object, link: _Link) -> None:
        match item:
            case Event(name="start"):
                self._starts(item)
            case Event(name="stop"):
                self._ends(item)
            case Event(name="error", detail=detail):
                self._told(f"the builder had an error: {detail}")
            case PromptAck(correlation_id=id) if id in self._acks and not self._acks[id].done():
                self._acks[id].set_result(item)
            case wire.Pong(nonce=nonce):
                if nonce == _SETTLED:
                    self.is_settled.set()
                elif nonce == _REPORTED and self._heard is not None and not self._heard.done():
                    self._heard.set_result(None)
                link.liveness.heard(item)
            case wire.Bye(reason=reason) if reason == LEFT:
                raise BuilderLeft(f"the builder left: {reason}")
            case wire.Bye(reason=reason) if reason == OCCUPIED:
                raise Occupied(
                    f"Pi allows one verifier for each session, and {self._session_id} has one; "
                    "end that one, then run this again"
                )
            case Broken(reason=reason):
                self._told(f"the builder sent an invalid message: {reason}")


_SETTLED, _REPORTED = "settled", "reported"


class _Link:
    """One connection to a builder."""

    def __init__(self, session_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.wire = wire.VerifierConnection(session_id)
        self.liveness = wire.Liveness(asyncio.get_running_loop().time())
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(READ_SIZE)

    async def send(self, envelope: wire.Envelope) -> None:
        """Raises ConnectionError."""
        if self.wire.state is not wire.State.OPEN:
            raise ConnectionError("the connection is over")
        self._writer.write(self.wire.send(envelope))
        await self._writer.drain()

    async def keep_alive(self) -> None:
        """Ping, and end the connection when nobody answers."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(max(0.0, self.liveness.next - loop.time()))
            ping = self.liveness.due(loop.time())
            if ping is None:
                self.close()
                return
            with contextlib.suppress(ConnectionError):
                await self.send(ping)

    async def leave(self, reason: str) -> None:
        with contextlib.suppress(ConnectionError):
            await self.send(wire.Bye(reason=reason))
        self.close()

    def close(self) -> None:
        self.wire.close()
        self._writer.close()
