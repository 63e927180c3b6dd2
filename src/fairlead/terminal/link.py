"""The daemon's connection to one keeper: frames both ways, and the program's terminal itself. What comes
reaches the session in its turn (`fair`).

The keeper hands over its end of the PTY. A key is typed on it directly. While somebody types, the link also
borrows the right to read it, into memory that the keeper shares (`keeper.loan`), so that an echo does not
pass the keeper; it gives that back when the program prints a lot, when the memory is full, and before
anything that must be in order with what is printed. At each moment just one of the two reads.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import cast

from ..keeper.loan import MAX_READ, Loan
from ..keeper.protocol import BORROW, LENT, OFFSET, Decoder, FrameKind, frame
from ..system.fair import FairFeed, FairLine
from ..system.keepers import KeeperGone
from .session import TerminalSession

log = logging.getLogger("fairlead")

RECORD_DELAY = 0.25
"""Seconds until a recording has in its file what the program printed."""
MAX_BORROWED = 16 * 1024
"""A program that prints so much at once is read by its keeper again, beside us on another processor."""
SMALL_READ = 512
"""A read that gives less than this has emptied the terminal, most likely."""


class KeeperLink(asyncio.Protocol):
    """The connection to a keeper. `ready` is done when the session knows its state."""

    def __init__(
        self, line: FairLine, lost: Callable[[], None], greeting: bytes, handed: Sequence[int]
    ) -> None:
        self.session: TerminalSession
        self._feed = FairFeed(line, self)
        self.ready = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._lost = lost
        self._greeting = greeting
        self._terminal = handed[0] if handed else -1
        self._loan = Loan(handed[1]) if len(handed) > 1 else None
        self._number = 0  # of the last BORROW
        self._asked = False  # to borrow, and it was not given back yet
        self._lent_at = -1  # the offset where the loan began; -1 if there is none
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self._writing: asyncio.TimerHandle | None = None

    # --- the connection -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.data_received(self._greeting)

    def data_received(self, data: bytes) -> None:
        for kind, payload in self._decoder.feed(data):
            match kind:
                case FrameKind.LENT:
                    self._begin_loan(*LENT.unpack(payload))
                case FrameKind.ENDING:
                    self.give_back()
                case _:
                    self._feed.put(kind, payload)
        self.served()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._end_loan()
        if self._loan is not None:
            self._loan.close()
            self._loan = None
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1
        if not self.ready.done():
            self.ready.set_exception(KeeperGone())
            self.ready.exception()
        self._feed.finish(self._lost)

    def close(self) -> None:
        self._end_loan()
        self._feed.close()
        if self._transport is not None:
            self._transport.close()

    # --- what reaches the session in its turn ---------------------------------------------------------------

    def heard(self, kind: int, payload: bytes) -> None:
        self.session.heard(kind, payload)

    def printed(self, offset: int, data: bytes, seconds: float) -> int:
        return self.session.printed(offset, data, seconds)

    def served(self) -> None:
        if self._writing is None and self.session.unwritten:
            self._writing = self._loop.call_later(RECORD_DELAY, self._write_recording)
        if self.session.ready and not self.ready.done():
            self.ready.set_result(None)

    def failed(self, error: Exception) -> None:
        log.error("session %s can't be drawn", self.session.id, exc_info=error)
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _write_recording(self) -> None:
        self._writing = None
        self.session.write_recording()

    # --- the session's side -------------------------------------------------------------------------------

    def tell(self, kind: FrameKind, *parts: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame(kind, *parts))

    def type(self, data: bytes) -> int:
        try:
            return os.write(self._terminal, data) if self._terminal >= 0 else 0
        except OSError:  # it has no room, or is gone: the keeper will see which
            return 0

    @property
    def terminal(self) -> int:
        return self._terminal

    def borrow(self) -> None:
        if not self._asked and self._loan is not None and self._transport is not None:
            self._asked = True
            self._number += 1
            self.tell(FrameKind.BORROW, BORROW.pack(self._number))

    def give_back(self) -> None:
        if self._asked:
            self._end_loan()
            self.tell(FrameKind.RETURN)

    # --- the loan -----------------------------------------------------------------------------------------

    def _begin_loan(self, number: int, offset: int) -> None:
        if self._asked and number == self._number and self._loan is not None:  # else given back meanwhile
            self._lent_at = offset
            self._loan.count = 0
            self._loop.add_reader(self._terminal, self._terminal_readable)

    def _end_loan(self) -> None:
        self._asked = False
        if self._lent_at >= 0:
            self._lent_at = -1
            self._loop.remove_reader(self._terminal)

    def _terminal_readable(self) -> None:
        """Take what the program printed. Whatever is wrong with the terminal is for the keeper to see."""
        loan, begun = self._loan, self._lent_at
        if loan is None or begun < 0:
            return
        start = loan.count
        is_flood = False
        try:
            while loan.read(self._terminal) >= SMALL_READ and not is_flood:
                is_flood = loan.count - start >= MAX_BORROWED or loan.room < MAX_READ
        except BlockingIOError:
            pass
        except OSError:
            is_flood = True
        if loan.count > start:
            offset, printed = begun + start, loan.since(start)
            if self._feed.is_at_once:
                self.session.show_echo(offset, printed)
            self._feed.put(FrameKind.DATA, OFFSET.pack(offset) + printed)
            self.served()
        if is_flood or loan.room < MAX_READ or self._feed.is_behind:
            self.give_back()
