"""A connection with a hosted agent that outlives the daemon: each line is handled once, and written once.

The keeper of the pipes has our last state and everything that the agent printed since. A line is handled to
its end, with all that is journaled because of it, before the state is confirmed that has it. Whatever we
write is in a state that was confirmed before. So after a crash the next daemon handles the rest of the lines
as we would have, finds in the journal what we wrote there already (`at`), and repeats with their old numbers
the lines of which it can't know whether the agent got them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from ..agent.secrets import Redactor
from ..keeper.protocol import MAX_BLOB
from ..wire import acp
from ..wire.acp.base import Wire
from .cleaned import CleanedConnection
from .pipe import AgentExit, Pipe, PipeError
from .state import VERSION, KeptState, Work, encode

log = logging.getLogger("fairlead")

CONFIRM_BYTES = 128 * 1024
"""After so many bytes the state is confirmed, if nothing else was a reason for that."""

MAX_STATE = 4 * 1024 * 1024
"""How many bytes the state of a session may have besides what the agent is told: what is not over."""
MAX_UNREAD, MAX_SHOWN = 5, 200
"""How many lines that are no messages are kept to be shown, and how many bytes of each."""
MAX_UNTOLD = 1000
"""How many lines may wait for the agent that its keeper has not accepted; one that wants more is ended."""
END_WAIT = 1.0
"""Seconds that an agent that has closed its input or output has to end, before it is ended."""


class Handler(Protocol):
    """Who makes sense of what the agent says. Nothing of this may take long or raise."""

    def handle(self, item: acp.Item) -> None:
        """The agent said something; `AgentLink.at` is where. What is sent goes out when this returns."""

    def keep(self, work: Work) -> None:
        """Put into the state what is not there yet."""

    def ended(self, end: AgentExit) -> None:
        """The agent has ended."""

    def failed(self, why: str) -> None:
        """The agent can't be talked to any more."""


class AgentLink:
    """What is said between an agent and us. Listens to its pipe from `begin` on."""

    def __init__(self, pipe: Pipe, handler: Handler, kept: KeptState | None, secrets: Redactor) -> None:
        self.pipe = pipe
        saved, originals = (kept.connection, kept.originals) if kept else (None, {})
        self.connection = CleanedConnection(saved, originals, secrets)
        self.work = kept.work if kept else Work()
        self.at = pipe.offset
        """The offset after the line that is handled, or was last."""
        self.size = 0
        """How many bytes of the line have come, or about so many."""
        self.unread: list[bytes] = []
        """The first lines that came before the agent had answered `initialize`, and that are no messages."""
        self._handler = handler
        self._done = pipe.offset
        self._sequence = kept.sequence if kept else 0
        self._unsent = kept.unsent if kept else []
        self._drops = bool(kept and kept.is_skipping)  # the rest of a line that the last daemon gave up
        self._is_skipping = self._drops
        self._is_handling = False
        self._waiting: list[bytes] = []  # to be confirmed and written with the next state
        self._is_unheard = False  # a line was not taken, so none after it can be written
        self._kept_size = 0  # of the last state: a large one is not confirmed more often than that much came
        self._released = False
        self._is_broken = False  # it is being ended, and nothing that it says is handled any more

    def begin(self) -> None:
        """Say again what the agent may not have got, and listen to it."""
        for number, line in self._unsent:
            self._write(number, line)
        self.pipe.listen(self)

    def release(self) -> None:
        """Leave the agent to its keeper, with all that was not confirmed."""
        self._released = True

    # --- sending ------------------------------------------------------------------------------------------

    def send(self, line: bytes) -> None:
        """Tell the agent something, once. What led to it must be durable, or follow from what it said.

        Answers to the line that is handled wait until the keeper has accepted what was written before:
        each state has all lines that are not accepted, so one state for each of many would be too much.
        """
        if self._is_broken:
            return
        self._waiting.append(line)
        if len(self._waiting) + len(self._unsent) > MAX_UNTOLD:
            self._break(f"it does not read: more than {MAX_UNTOLD} lines wait for it")
        elif not self._is_handling:
            self.confirm()

    def accepted(self) -> None:
        self._unsent = [each for each in self._unsent if each[0] > self.pipe.last_sequence]
        if self._waiting and not self._unsent and not self._is_handling:
            self.confirm()

    def request(self, params: Wire) -> None:
        """Ask the agent for something. Raises LocalError if the protocol does not allow it now."""
        _, line = self.connection.request(params)
        self.send(line)

    def is_open(self, *methods: str) -> bool:
        """Whether the agent has yet to answer a request of one of these methods."""
        return any(each.method in methods for each in self.connection.ours.values())

    def _write(self, number: int, line: bytes) -> None:
        if self._released or self._is_unheard or self.pipe.end is not None:
            return
        try:
            self.pipe.write(number, line)
        except PipeError as error:
            self._is_unheard = True
            self._handler.failed(str(error))

    def confirm(self) -> None:
        """Have the keeper keep the state as it is now, and write what waits for that."""
        if self._released or self._is_broken:
            return
        new = list(enumerate(self._waiting, self._sequence + 1))
        self._waiting.clear()
        self._sequence += len(new)
        self._unsent = [each for each in self._unsent if each[0] > self.pipe.last_sequence] + new
        self._handler.keep(self.work)
        saved = self.connection.save()
        kept = KeptState(
            VERSION,
            saved,
            self._sequence,
            self._unsent,
            self._is_skipping,
            self.work,
            self.connection.originals,
        )
        blob = encode(kept)
        self._kept_size = len(blob)
        said = sum(len(line) for _, line in self._unsent)
        if len(blob) - said > MAX_STATE or len(blob) > MAX_BLOB:
            limit = MAX_BLOB if said > MAX_STATE else MAX_STATE
            self._break(f"what it does can't be kept: that takes {len(blob)} bytes, and {limit} may be")
            return
        self.pipe.confirm(self._done, blob)
        for number, line in new:
            self._write(number, line)

    def _break(self, why: str) -> None:
        """What the agent said so far can't be handled to its end."""
        if not self._is_broken:
            self._is_broken = True
            self._handler.failed(why)

    # --- receiving ----------------------------------------------------------------------------------------

    def received(self, offset: int, data: bytes) -> None:
        if self._released or self._is_broken:
            return
        start = 0
        while (newline := data.find(b"\n", start)) >= 0:
            piece, start = data[start : newline + 1], newline + 1
            self._is_skipping = False
            self._handle(piece, offset + start, offset + start)
            if self._released or self._is_broken:
                return
        if rest := data[start:]:
            # a line that is too long is judged before its end; the place of that must not depend on pieces
            self._handle(rest, self._done + 1, self._done)
            if self._is_skipping:
                self._done = offset + len(data)
        if self._done - self.pipe.offset >= max(CONFIRM_BYTES, self._kept_size):
            self.confirm()

    def _handle(self, piece: bytes, at: int, done: int) -> None:
        if self._drops:
            self._drops = done == self._done
            self._done = done
            return
        items = self.connection.receive(piece)
        if items and done == self._done:
            self._is_skipping = True
        if self.connection.agent is None and len(self.unread) < MAX_UNREAD:
            self.unread += [piece[:MAX_SHOWN]] * any(isinstance(item, acp.CallRefused) for item in items)
        self.at = at
        self.size = len(piece)
        self._is_handling = True
        try:
            for item in items:
                self._handler.handle(item)
        except Exception as error:  # our own fault: the session goes on without this agent
            log.exception("what %s says can't be handled", self.pipe.name)
            self._break(f"what it says can't be handled: {type(error).__name__}: {error}")
            return
        finally:
            self._is_handling = False
        self._done = done
        self.accepted()

    def output_closed(self) -> None:
        self._fail_later("it closed its output")

    def writable(self) -> None: ...

    def input_lost(self) -> None:
        self._fail_later("it closed its input")

    def _fail_later(self, why: str) -> None:
        """Nothing more can be said, unless the agent is just about to end, which says more."""
        asyncio.get_running_loop().call_later(END_WAIT, self._fail, why)

    def _fail(self, why: str) -> None:
        if not self._released and self.pipe.end is None:
            self._handler.failed(why)

    def ended(self, end: AgentExit) -> None:
        if not self._released:
            self.at = self._done + 1  # a place after the last line, the same for whoever sees the end
            self._handler.ended(end)
