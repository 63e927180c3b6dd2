"""A connection to the daemon of another host: requests and answers, and events as they come.

What is long is read in a thread, what is too fast is left unread, and what makes no sense ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from .. import __version__
from ..client.calls import RequestError, plain
from ..formats.edn import Keyword
from ..wire import rpc
from ..wire.faults import Broken
from . import limits
from .budget import Budget, SaysTooMuch

Item = rpc.Response | rpc.Error | rpc.Event | Broken


class FarAnswer(NamedTuple):
    """The data of an answer, and whether it is so long that it is written in a thread, too."""

    data: Any
    is_long: bool


class FarConnection:
    """One connection. `on_event` gets each event, `on_end` is called once when it is over."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pool: ThreadPoolExecutor,
        on_event: Callable[[str, Mapping[Any, Any]], None] | None = None,
    ) -> None:
        self.version = ""
        """That of the daemon there."""
        self.fault: Exception | None = None
        """Why it is over, once it is."""
        self._reader = reader
        self._writer = writer
        self._pool = pool
        self._on_event = on_event
        self._wire = rpc.ClientConnection(max_line=limits.MAX_LINE)
        self._answers: dict[str, asyncio.Future[FarAnswer]] = {}
        self._unended = 0  # how many bytes of a line are there that has not ended
        self.over = asyncio.Event()
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    @classmethod
    async def open(
        cls,
        stream: socket.socket,
        pool: ThreadPoolExecutor,
        *,
        via: str,
        agent: str = "",
        on_event: Callable[[str, Mapping[Any, Any]], None] | None = None,
    ) -> FarConnection:
        """Shake hands on a stream, which is closed if that fails. Raises RequestError, ConnectionError or
        TimeoutError."""
        stream.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=stream, limit=2 * limits.READ_SIZE)
        connection = cls(reader, writer, pool, on_event)
        try:
            hello = connection._wire.handshake(
                "fairlead", __version__, rpc.OUR_FEATURES, via=via, agent=agent
            )
            async with asyncio.timeout(limits.ANSWER_WAIT):
                greeting = await connection._sent("req-1", hello)
            info = plain(greeting.data).get("server_info") or {}
            connection.version = str(info.get("server_version") or "")[:80]
        except (AttributeError, TypeError):
            await connection.close()
            raise ConnectionError("it greets in a way that is not understood") from None
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        return not self.over.is_set()

    @property
    def is_idle(self) -> bool:
        return not self._answers

    async def ask(
        self, op: str, params: Mapping[Any, Any] | None = None, *, wait: float = limits.ANSWER_WAIT
    ) -> FarAnswer:
        """The answer to an op. Raises RequestError, ConnectionError, or TimeoutError after so long. Who stops
        waiting ends an op that waits, too."""
        if not self.is_open:
            raise ConnectionError(str(self.fault or "the connection is over"))
        if len(self._wire.pending) >= rpc.MAX_PENDING - 1:
            raise ConnectionError("too many requests are under way there")
        id, line = self._wire.request(op, params or {})
        try:
            async with asyncio.timeout(wait):
                answer = await self._sent(id, line)
        except (asyncio.CancelledError, TimeoutError):
            if self.is_open and id in self._wire.pending:
                cancel = self._wire.request("cancel", rpc.fields(request_id=id))[1]
                self._writer.write(cancel)
            raise
        return answer

    async def _sent(self, id: str, line: bytes) -> FarAnswer:
        answer: asyncio.Future[FarAnswer] = asyncio.get_running_loop().create_future()
        self._answers[id] = answer
        try:
            self._writer.write(line)
            await self._writer.drain()
            return await answer
        finally:
            self._answers.pop(id, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # it is known, also if who asked has gone

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        budget = Budget(loop.time())
        self.fault = ConnectionError("its daemon closed the connection")
        try:
            while data := await self._reader.read(limits.READ_SIZE):
                items, is_long = await self._read(data)
                for item in items:
                    self._take(item, is_long)
                if pause := budget.spend(len(data), len(items), loop.time()):
                    await asyncio.sleep(pause)
        except SaysTooMuch as error:
            self.fault = error
        except OSError as error:
            self.fault = ConnectionError(str(error) or type(error).__name__)
        except asyncio.CancelledError:
            self.fault = ConnectionError("the link was closed")
            raise
        finally:
            self._wire.close()
            self._writer.close()
            for answer in list(self._answers.values()):
                if not answer.done():
                    answer.set_exception(self.fault)
            self.over.set()

    async def _read(self, data: bytes) -> tuple[list[Item], bool]:
        """The frames that are whole with this data, and whether one of them is long."""
        size = self._unended + len(data)
        end = data.rfind(b"\n")
        self._unended = size if end < 0 else len(data) - end - 1
        if size <= limits.QUICK or end < 0:
            return self._wire.receive(data), False
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._wire.receive, data), True

    def _take(self, item: Item, is_long: bool) -> None:
        match item:
            case Broken(reason=reason):
                if "a line of more than" in reason:
                    raise SaysTooMuch(f"it says too much: {reason}")
                raise ConnectionError(reason[:400])
            case rpc.Event(topic=topic, data=data):
                if self._on_event is not None:
                    self._on_event(topic, data)
            case rpc.Response(id=id, data=data):
                answer = self._answers.get(id)
                if answer is not None and not answer.done():
                    answer.set_result(FarAnswer(data, is_long))
            case rpc.Error(id=id):
                about = plain(item.data) if _is_map(item.data) else None
                for known, answer in list(self._answers.items()):
                    if id in (known, None) and not answer.done():
                        answer.set_exception(RequestError(item.code[:100], item.message[:4000], about))

    async def close(self) -> None:
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([self._listening])
        self._writer.close()


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, Keyword | str) for key in value)
