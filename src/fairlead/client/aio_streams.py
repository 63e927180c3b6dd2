"""The streams of the SDK for asyncio, as in `streams`."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections import deque
from collections.abc import AsyncIterator, Generator
from typing import Any, Generic, Self, TypeVar

from ..events import AgentEvent, Event
from ..system.settings import Settings
from .calls import RequestError, answer_dialog
from .connection import READ_SIZE
from .following import Asking, FollowedTurn, Subscription
from .links import Links, close_writer, daemon, find_link
from .reconnect import Reconnect
from .streams import ANSWER_WAIT, let_in
from .view import Attachment, SharedView

E = TypeVar("E", bound=Event)


class Connection:
    """Something with a connection to the daemon, to be opened: `async with` opens and closes it, `await` only
    opens it."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter | None = None
    _closed = False
    _reconnects = False

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _open(self) -> None:
        await self._reach()

    async def close(self) -> None:
        """End the connection; sessions go on."""
        self._closed = True
        await self._drop()

    async def _drop(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await close_writer(writer)

    async def _reach(self, *, start: bool = True) -> None:
        """Get a connection on which all can go on."""
        raise NotImplementedError

    async def _find_again(self, lost: ConnectionError) -> None:
        """Wait for the next daemon, which may die as well. The nursery starts it, else we do."""
        await self._drop()
        if not self._reconnects:
            raise lost
        reconnect = Reconnect()
        while self._writer is None:
            try:
                await self._reach(start=reconnect.may_start)
            except (ConnectionError, TimeoutError) as error:
                await self._drop()
                await asyncio.sleep(reconnect.pause(error))


class Attached(Attachment, Connection):
    """A client of a session, which reads its output and, as a writer, sends input. Made by `attach`.

    `async for` yields output as it comes, the screen first, until the program ends, with `exit_code`.
    When the daemon restarts, the whole screen comes again and the rest after it, unless `reconnect` is false.
    """

    def __init__(self, view: SharedView, settings: Settings, *, reconnect: bool) -> None:
        super().__init__(view, reconnect=reconnect)
        self._settings = settings

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def read(self, *, timeout: float | None = None) -> bytes:
        """Return the next output, empty after the program's end. Raises TimeoutError or ConnectionError."""
        async with asyncio.timeout(timeout):
            while not self._output and self._view.exit_code is None:
                await self._connected()
                try:
                    self._output += self._view.receive(await self._reader.read(READ_SIZE))
                except ConnectionError as lost:
                    await self._find_again(lost)
        return self._output.popleft() if self._output else b""

    async def write(self, data: bytes) -> None:
        """Type. It waits while the program takes no input. Raises ConnectionError if it may be lost;
        reading still works then."""
        await self._send(self._view.typed(data))

    async def resize(self, cols: int, rows: int) -> None:
        """Ask for another size; `size` has it once the session has changed, as far as the output was read."""
        try:
            await self._send(self._view.resized(cols, rows))
        except ConnectionError:
            if self._closed or not self._reconnects:  # else it is asked for again on the next connection
                raise

    async def _send(self, frames: bytes) -> None:
        self._check_running()
        writer = await self._connected()
        writer.write(frames)
        await writer.drain()

    async def _connected(self) -> asyncio.StreamWriter:
        self._check_open()
        if self._writer is None:  # it could not be found again in time, or was not waited for; perhaps now
            await self._reach()
        assert self._writer is not None
        return self._writer

    async def _reach(self, *, start: bool = True) -> None:
        (self._reader, self._writer), output = await find_link(lambda: let_in(self._view, self._settings))
        self._output += output


class EventStream(Connection, Generic[E]):
    """The events of a subscription."""

    def __init__(self, source: Subscription[E], settings: Settings) -> None:
        source.lends_keys = not settings.host
        self._source = source
        self._settings = settings
        self._events: deque[E] = deque()

    async def __aiter__(self) -> AsyncIterator[E]:
        opens = self._writer is None and not (self._source.ready or self._closed)
        if opens:  # `async for event in agent.prompt(…)`
            await self._open()
        try:
            while self._events or not self._source.is_over:
                yield await self.next()
        finally:
            if opens or isinstance(self._source, FollowedTurn):
                await self.close()

    async def next(self, *, timeout: float | None = None) -> E:
        """Return the next event. Raises TimeoutError, ConnectionError if the daemon is gone for good, and
        EOFError when the turn is over."""
        async with asyncio.timeout(timeout):
            while not self._events:
                if self._source.is_over:
                    raise EOFError("the turn has ended")
                if self._closed:
                    raise ConnectionError("this event stream is closed")
                try:
                    await self._receive()
                except ConnectionError as lost:
                    await self._find_again(lost)
        return self._events.popleft()

    async def _open(self) -> None:
        """Get a connection that misses no event, and on which a turn has begun."""
        try:
            await self._reach()
            while not self._source.accepted:
                await self._receive()
        except BaseException:
            await self.close()
            raise

    async def _reach(self, *, start: bool = True) -> None:
        first = self._source.begin()
        self._reader, self._writer = await daemon(self._settings, start=start)
        self._writer.write(first)
        async with asyncio.timeout(ANSWER_WAIT):
            while not self._source.ready:
                await self._receive()

    async def _receive(self) -> None:
        if self._writer is None:  # a wait for the next daemon was given up
            raise ConnectionError("the daemon is not running")
        reply, events, _ = self._source.receive(await self._reader.read(READ_SIZE))
        self._events += events
        if reply:
            self._writer.write(reply)


class Events(EventStream[Event]):
    """What happens, from the moment this was opened. Raises ConnectionError if the daemon goes away."""


class AgentEvents(EventStream[AgentEvent]):
    """What happens in an agent session. Made by `prompt`, and then over with the turn, or by `events`.

    When the daemon restarts, they continue, and what was missed comes first.
    """

    _reconnects = True

    @property
    def cursor(self) -> str | None:
        """Where we are: `events(since=cursor)` continues from here."""
        return self._source.cursor


async def answer(links: Links, turn: FollowedTurn, asking: Asking, timeout: float | None) -> str:
    """The answer of a turn, with consent as it was decided beforehand, or as a coroutine decides."""
    async with asyncio.timeout(timeout), AgentEvents(turn, links.settings) as events:
        async for event in events:
            decided = asking.take(event)
            if inspect.isawaitable(decided):
                decided = await decided
            if decided is not None:
                # another client may have been first; the next daemon will ask again
                with contextlib.suppress(RequestError, ConnectionError):
                    await links.call(answer_dialog(turn.session_id, event.data["dialog_id"], decided))
    return asking.answer()
