"""One agent that talks over pipes, as the daemon has it: what it says, what it is told, and how it ends.

A keeper owns the agent and outlives the daemon (`keeper.pipes`). So that each line is handled once, whoever
listens puts what it has done with a line into a state, and confirms the two together:

    pipe.confirm(offset_after_the_line, state)

The next daemon begins with that state and gets everything after that offset. A line for the agent gets its
number from the state as well: said again after a crash, it is not written again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol, cast

from ..keeper.protocol import (
    ACCEPTED,
    ENDED,
    MAX_BLOB,
    MAX_WRITE,
    NUMBER,
    OFFSET,
    SEQUENCE,
    Decoder,
    FrameKind,
    Stdin,
    frame,
)
from ..system import processes
from ..system.fair import FairFeed, FairLine
from ..system.keepers import KEEPER_KILLED, START_WAIT, KeeperGone, Reached

log = logging.getLogger("fairlead")

PIECE = 16 * 1024
"""How many bytes a listener gets at once, so that it is never busy for long."""
MAX_QUEUED = 8 * 1024 * 1024
"""When so many bytes wait for an agent to read them, here and in its keeper, no more lines are taken."""
STDIN_GRACE = 2.0
"""Seconds that an agent has to end when its input is closed, before it is told with signals."""
GONE_WITHIN = 2.0
"""Seconds until processes that got SIGKILL are gone."""
MARK = "FAIRLEAD_PIPE"
"""The variable that an agent and all that it starts has, with a value of its own for each agent."""


class PipeError(Exception):
    """An agent that can't be started, reached or ended, or a line that it can't be told."""


class PipeClosed(PipeError):
    """The agent's input is closed."""


class PipeFull(PipeError):
    """The agent does not read, and too much waits for it."""


class AgentExit(NamedTuple):
    """How an agent ended."""

    code: int
    """The exit code; 128 + n after a signal n."""
    signal: int
    """The signal that ended it, or 0."""
    stderr: bytes
    """The last that it wrote to its standard error."""
    failure: str = ""
    """A sentence if it could not be started, or its keeper was killed."""


class PipeListener(Protocol):
    """Who an agent talks to. Everything is called by the event loop and must not take long or raise."""

    def received(self, offset: int, data: bytes) -> None:
        """What the agent printed at this offset: some bytes, which may be any part of its lines."""

    def output_closed(self) -> None:
        """The agent closed its output. It still runs, unless `ended` follows."""

    def accepted(self) -> None:
        """The keeper has some of what was written, up to `Pipe.last_sequence`."""

    def writable(self) -> None:
        """There is room again, after `write` said that there is not."""

    def input_lost(self) -> None:
        """The agent closed its input, or ended; what it had not read is lost."""

    def ended(self, end: AgentExit) -> None:
        """The agent has ended; all that it printed was received before."""


class PipeLink(asyncio.Protocol):
    """A connection to an agent's keeper. What was printed reaches the pipe in its turn (`fair`)."""

    def __init__(self, pipe: Pipe, line: FairLine, greeting: bytes, lost: Callable[[PipeLink], None]) -> None:
        self._pipe = pipe
        self._feed = FairFeed(line, self)
        self._greeting = greeting
        self._lost = lost
        self._decoder = Decoder()
        self._held: list[tuple[int, bytes]] | None = []  # what came before anybody listened
        self._transport: asyncio.Transport | None = None
        self.ready = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.data_received(self._greeting)

    def data_received(self, data: bytes) -> None:
        for kind, payload in self._decoder.feed(data):
            if kind not in (FrameKind.DATA, FrameKind.EXITED):
                self.heard(kind, payload)
            elif self._held is None:
                self._feed.put(kind, payload)
            else:
                self._held.append((kind, payload))
        if self._pipe.is_known and not self.ready.done():
            self.ready.set_result(None)
        if self._held:
            self.pause()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if not self.ready.done():
            self.ready.set_exception(KeeperGone())
            self.ready.exception()
            return
        self._feed.finish(lambda: self._lost(self))

    def begin(self) -> None:
        """Let the pipe have what was printed from now on."""
        held, self._held = self._held or (), None
        self.resume()
        for kind, payload in held:
            self._feed.put(kind, payload)

    def tell(self, kind: FrameKind, *parts: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame(kind, *parts))

    def close(self) -> None:
        self._feed.close()
        if self._transport is not None:
            self._transport.close()

    # --- what the feed asks for -----------------------------------------------------------------------------

    def heard(self, kind: int, payload: bytes) -> None:
        try:
            self._pipe.heard(kind, payload)
        except Exception as error:
            self.failed(error)

    def printed(self, offset: int, data: bytes, seconds: float) -> int:
        try:
            return self._pipe.printed(offset, data, seconds)
        except Exception as error:
            self.failed(error)
            return len(data)

    def served(self) -> None: ...

    def failed(self, error: Exception) -> None:
        """Leave the keeper alone with what was not confirmed: the next daemon may know what to do with it."""
        log.error("what %s says can't be handled", self._pipe.name, exc_info=error)
        self._pipe.unlink()

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


class Pipe:
    """An agent with a keeper. Made by `Pipes`; what it prints is kept until somebody listens."""

    def __init__(self, mark: str) -> None:
        self.name = ""
        self.pid = 0
        self.keeper_pid = 0
        self.note: Mapping[str, Any] = {}
        """What was noted of it when it was started."""
        self.blob: bytes | None = None
        """The last state that was confirmed, by us or by a daemon before us."""
        self.offset = 0
        """What lies before this offset is in that state."""
        self.last_sequence = 0
        """The number of the last line for the agent that its keeper has accepted."""
        self.stdin = Stdin.OPEN
        self.end: AgentExit | None = None
        self.failure = ""
        self.is_known = False
        """True once the keeper has told the state and the last blob."""
        self.is_deferred = False
        self.begun = asyncio.Event()
        """Set when the agent was started, or could not be."""
        self._mark = mark
        self._link: PipeLink | None = None
        self._listener: PipeListener | None = None
        self._received = 0
        self._unsent: deque[bytes] = deque()
        self._unaccepted: deque[bytes] = deque()  # sent, and not answered yet
        self._queued = 0  # the bytes of both
        self._in_flight = 0
        self._waiting = 0  # bytes that the keeper has and the agent has not read
        self._max_waiting = 0
        self._is_full = self._is_blocked = False
        self._wants_close = False
        self._stderr = b""
        self._asked: list[asyncio.Future[bytes]] = []
        self._over = asyncio.Event()

    def __repr__(self) -> str:
        state = "ended" if self.end else "linked" if self._link else "unlinked"
        return f"<Pipe {self.name!r} {state}, {self.offset} of {self._received} bytes confirmed>"

    # --- for who listens ------------------------------------------------------------------------------------

    def listen(self, listener: PipeListener) -> None:
        """From now on this listener gets everything, beginning at `offset`."""
        assert self._listener is None, "somebody listens already"
        self._listener = listener
        if self._link is not None:
            self._link.begin()

    def confirm(self, offset: int, blob: bytes) -> None:
        """Say that what lies before an offset is in this state; the keeper keeps the state in place of it."""
        if not self.offset <= offset <= self._received:
            raise ValueError(f"offset {offset}; expected {self.offset} to {self._received}")
        if len(blob) > MAX_BLOB:
            raise ValueError(f"a state of {len(blob)} bytes; expected at most {MAX_BLOB}")
        self.offset, self.blob = offset, blob
        self._tell(FrameKind.CONFIRM, OFFSET.pack(offset), blob)

    def write(self, sequence: int, line: bytes) -> bool:
        """Tell the agent a line. Numbers begin with 1 and have no gaps; one that was used is ignored.

        False says that it reads slowly: `writable` is called when there is room again. Raises PipeClosed, or
        PipeFull if that was not heeded.
        """
        following = self.last_sequence + len(self._unaccepted) + len(self._unsent) + 1
        if sequence < following:
            return not self._is_blocked
        if self.stdin is not Stdin.OPEN or self._wants_close:  # then lines are dropped that were taken
            raise PipeClosed(f"the input of {self.name} is closed")
        if sequence > following:
            raise ValueError(f"line {sequence} for {self.name}; expected {following}")
        if len(line) > MAX_WRITE:
            raise ValueError(f"a line of {len(line)} bytes; expected at most {MAX_WRITE}")
        if self.queued >= MAX_QUEUED:
            raise PipeFull(f"{self.name} does not read: {self.queued} bytes wait for it")
        self._unsent.append(line)
        self._queued += len(line)
        self._flush()
        self._is_blocked |= self.queued >= self._max_waiting
        return not self._is_blocked

    @property
    def queued(self) -> int:
        """How many bytes the agent has not read yet, as far as is known."""
        return self._queued + self._waiting

    def close_stdin(self) -> None:
        """Close the agent's input when all was written; most agents end then."""
        self._wants_close = True
        self._flush()

    def signal(self, number: int) -> None:
        """Send a signal to the agent and its process group."""
        self._tell(FrameKind.SIGNAL, NUMBER.pack(number))

    async def stderr_tail(self) -> bytes:
        """The last that the agent wrote to its standard error."""
        if self.end is None and self._link is not None:
            asked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._asked.append(asked)
            self._tell(FrameKind.ASK_STDERR)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_WAIT):
                    return await asked
        return self._stderr

    async def stop(self, grace: float) -> AgentExit:
        """End the agent and all that it started: close its input, then SIGTERM, and after `grace` seconds
        SIGKILL. Raises PipeError if it does not end. Somebody must listen."""

        def terminate() -> None:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)

        steps: list[tuple[Callable[[], None], float]] = [
            (self.close_stdin, min(STDIN_GRACE, grace)),
            (terminate, grace),
            (lambda: self.signal(signal.SIGKILL), START_WAIT),
        ]
        started = await asyncio.to_thread(processes.below, self.pid) if self.end is None else set()
        for tell, wait in steps:
            if self.end is None:
                tell()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._over.wait()
                break
        if self.end is None:
            raise PipeError(f"{self.name} does not end")
        await self.end_strays(grace, started)
        return self.end

    async def groups(self) -> set[int]:
        """The process groups of the agent and of all that it started."""

        def look() -> set[int]:
            pids = processes.members((self.pid,), mark=(MARK, self._mark))
            pids |= {each.pid for each in processes.below(self.pid)}
            return {found.group for pid in pids if (found := processes.process(pid)) is not None}

        return await asyncio.to_thread(look)

    async def end_strays(self, grace: float, started: Collection[processes.Program] = ()) -> int:
        """End what the agent has left behind, what is known to be `started` by it too; returns how many
        processes that were."""

        def find() -> set[int]:
            known = {each.pid for each in started if _still_runs(each)}
            return known | processes.members((), mark=(MARK, self._mark))

        strays, _ = await processes.end_all(find, grace, GONE_WITHIN)
        return strays

    # --- for `Pipes` ----------------------------------------------------------------------------------------

    async def join(self, reached: Reached, line: FairLine, lost: Callable[[PipeLink], None]) -> None:
        """Talk over a connection to the keeper from now on. Raises KeeperGone, TimeoutError or OSError."""
        link = PipeLink(self, line, reached.greeting, lost)
        self.is_known = False
        self._link = link
        try:
            async with asyncio.timeout(START_WAIT):
                await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=reached.connection)
                await link.ready
        except BaseException:
            self.unlink()
            raise
        if self._listener is not None:
            link.begin()

    def is_linked_by(self, link: PipeLink) -> bool:
        return self._link is link

    def unlink(self) -> None:
        """Have no connection to the keeper any more."""
        if self._link is not None:
            link, self._link = self._link, None
            link.close()
        self._answer_asked()

    def start(self) -> None:
        """Tell the keeper to start the agent."""
        self._tell(FrameKind.START)

    def dismiss(self) -> None:
        """The keeper may go: the agent has ended, or was never started."""
        self._tell(FrameKind.DISMISS)
        self.unlink()

    def lose(self, why: str) -> None:
        """The keeper was killed: nothing more is known of the agent."""
        self.failure = why
        self._finish(KEEPER_KILLED, 0)

    # --- what the keeper says -------------------------------------------------------------------------------

    def heard(self, kind: int, payload: bytes) -> None:
        """Anything but what was printed."""
        match kind:
            case FrameKind.STATE:
                self._take_state(json.loads(payload))
            case FrameKind.CONFIRMED if self._listener is None:
                (self.offset,) = OFFSET.unpack_from(payload)
                self.blob = payload[OFFSET.size :]
                self._received = max(self._received, self.offset)
                self.is_known = True
            case FrameKind.STARTED:
                (self.pid,) = NUMBER.unpack(payload)
                self.begun.set()
            case FrameKind.FAILED:
                self.failure = payload.decode("utf-8", "replace")
                self.begun.set()
            case FrameKind.ACCEPTED:
                sequence, waiting, stdin = ACCEPTED.unpack(payload)
                self._take_answer(sequence, waiting, Stdin(stdin))
            case FrameKind.STDERR:
                self._stderr = payload
                self._answer_asked()
            case FrameKind.EXITED:
                self._finish(*ENDED.unpack(payload))

    def printed(self, offset: int, data: bytes, seconds: float) -> int:
        """Give the listener what was printed, for so long; returns how many bytes were taken."""
        assert self._listener is not None
        if not data:
            self._listener.output_closed()
            return 0
        taken = max(0, min(len(data), self._received - offset))  # what an earlier connection has brought
        deadline = time.perf_counter() + seconds
        while taken < len(data):
            end = data.find(b"\n", taken, taken + PIECE) + 1  # a line may take long: each is timed
            piece = data[taken : end or taken + PIECE]
            start = offset + taken
            taken += len(piece)
            self._received = offset + taken
            self._listener.received(start, piece)
            if time.perf_counter() >= deadline:
                break
        return taken

    def _take_state(self, state: Mapping[str, Any]) -> None:
        """Begin with a keeper, or go on with it over another connection."""
        self.name = state["id"]
        self.pid = state["pid"]
        self.keeper_pid = state["keeper"]
        self.note = state["note"]
        self.is_deferred = state["deferred"]
        self._max_waiting = state["input_queue"]
        if self._listener is None:
            self.offset = self._received = state["offset"]
            self.is_known = not state["has_blob"]
        else:
            self.is_known = True
            if self.blob is not None:  # it may have been lost with the connection
                self._tell(FrameKind.CONFIRM, OFFSET.pack(self.offset), self.blob)
        self._send_again()
        self._take_answer(state["accepted"], state["waiting"], Stdin(state["stdin"]))

    def _take_answer(self, sequence: int, waiting: int, stdin: Stdin) -> None:
        while self.last_sequence < sequence:
            self.last_sequence += 1
            if self._unaccepted:
                line = self._unaccepted.popleft()
                self._in_flight -= len(line)
            elif self._unsent:
                line = self._unsent.popleft()
            else:
                continue
            self._queued -= len(line)
        self._waiting = waiting
        self._is_full = stdin is Stdin.FULL
        if self._is_full:
            self._send_again()
        elif stdin is not self.stdin:
            self.stdin = stdin
            self._drop_lines()
            if stdin is Stdin.GONE and self._listener is not None:
                self._listener.input_lost()
        self._flush()
        if self._listener is not None:
            self._listener.accepted()
        if self._is_blocked and self.queued < self._max_waiting // 2:
            self._is_blocked = False
            if self._listener is not None:
                self._listener.writable()

    def _send_again(self) -> None:
        """What was sent and not accepted has to be sent again."""
        self._unsent.extendleft(reversed(self._unaccepted))
        self._unaccepted.clear()
        self._in_flight = 0

    def _drop_lines(self) -> None:
        self._unsent.clear()
        self._unaccepted.clear()
        self._queued = self._in_flight = 0

    def _flush(self) -> None:
        """Send the keeper as much as it has room for."""
        if self._link is None or not self.is_known:
            return
        while self._unsent and not self._is_full and self._in_flight + self._waiting < self._max_waiting:
            line = self._unsent.popleft()
            self._unaccepted.append(line)
            self._in_flight += len(line)
            sequence = self.last_sequence + len(self._unaccepted)
            self._tell(FrameKind.WRITE, SEQUENCE.pack(sequence), line)
        if self._wants_close and not self._queued and self.stdin is Stdin.OPEN:
            self._tell(FrameKind.CLOSE_STDIN)

    def _finish(self, code: int, number: int) -> None:
        self.end = AgentExit(code, number, self._stderr, self.failure)
        self._answer_asked()
        self._over.set()
        if self._listener is not None:
            self._listener.ended(self.end)

    def _answer_asked(self) -> None:
        for asked in self._asked:
            if not asked.done():
                asked.set_result(self._stderr)
        self._asked.clear()

    def _tell(self, kind: FrameKind, *parts: bytes) -> None:
        if self._link is not None:
            self._link.tell(kind, *parts)


def _still_runs(program: processes.Program) -> bool:
    """Whether a process is what it was, though it may run another program by now."""
    now = processes.running(program.pid)
    return now is not None and now.began == program.began
