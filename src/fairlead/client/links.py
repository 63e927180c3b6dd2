"""The connections of the SDK for asyncio: many requests on each, made by any number of tasks."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

from .. import __version__
from ..system.settings import Settings
from ..wire import rpc
from ..wire.faults import Broken
from .calls import Call, RequestError, plain
from .connection import READ_SIZE, named_via
from .launch import connected
from .reconnect import repeating

REQUESTS_A_LINK = rpc.MAX_PENDING // 2
"""How many requests are on their way on one connection; as many more may be needed to cancel them."""
MAX_LINKS = 8
"""How many connections a host has at the most. The next is opened when the others are full; when all are, a
call waits for its turn."""

T = TypeVar("T")
Found = tuple[socket.socket, list[bytes]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def find_link(find: Callable[[], Found]) -> tuple[Streams, list[bytes]]:
    """A connection that is found in a thread, as a daemon may have to be started for it, and what came."""
    finding = asyncio.get_running_loop().run_in_executor(None, find)
    try:
        connection, output = await asyncio.shield(finding)
    except asyncio.CancelledError:
        finding.add_done_callback(_close_found)
        raise
    return await asyncio.open_unix_connection(sock=connection), output


def _close_found(finding: asyncio.Future[Found]) -> None:
    if not finding.cancelled() and finding.exception() is None:
        finding.result()[0].close()


async def daemon(settings: Settings, *, start: bool = True) -> Streams:
    streams, _ = await find_link(lambda: (connected(settings, start=start), []))
    return streams


async def close_writer(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:  # it was broken before
        pass


class DaemonLink:
    """One connection to the daemon with many requests on their way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._wire = rpc.ClientConnection()
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    @classmethod
    async def open(
        cls, settings: Settings, agent: str = "", via: str = "", *, hosts: bool = False
    ) -> DaemonLink:
        link = cls(*await daemon(settings))
        try:
            features = (*rpc.OUR_FEATURES, rpc.HOSTS) if hosts else rpc.OUR_FEATURES
            via = named_via(via, settings)
            hello = link._wire.handshake("fairlead", __version__, features, agent=agent, via=via)
            await link._sent("req-1", hello)
        except BaseException:
            await link.close()
            raise
        return link

    @property
    def is_open(self) -> bool:
        return self._wire.state is rpc.State.READY

    @property
    def has_room(self) -> bool:
        return len(self._wire.pending) < REQUESTS_A_LINK

    async def ask(self, op: str, params: dict[str, Any], *, waits: bool) -> dict[str, Any]:
        """The data of an op's response, with plain names. Raises RequestError or ConnectionError."""
        id, line = self._wire.request(op, rpc.fields(**params))
        try:
            answer: dict[str, Any] = plain(await self._sent(id, line))
        except asyncio.CancelledError:
            if waits and self.is_open and id in self._wire.pending:
                self._writer.write(self._wire.request("cancel", rpc.fields(request_id=id))[1])
            raise
        return answer

    async def _sent(self, id: str, line: bytes) -> Any:
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(line)
            return await answer
        finally:
            self._answers.pop(id, None)

    async def _listen(self) -> None:
        error: Exception = ConnectionError("the daemon closed the connection")
        try:
            while data := await self._reader.read(READ_SIZE):
                for item in self._wire.receive(data):
                    if isinstance(item, Broken):
                        raise ConnectionError(item.reason)
                    if not isinstance(item, rpc.Event):
                        self._answered(item)
        except OSError as broken:
            error = ConnectionError(str(broken))
        finally:
            self._wire.close()
            self._writer.close()
            for answer in list(self._answers.values()):
                if not answer.done():
                    answer.set_exception(error)

    def _answered(self, item: rpc.Response | rpc.Error) -> None:
        if isinstance(item, rpc.Response):
            answer = self._answers.get(item.id)
            if answer is not None and not answer.done():
                answer.set_result(item.data)
            return
        for id, answer in list(self._answers.items()):
            if item.id in (id, None) and not answer.done():
                answer.set_exception(RequestError(item.code, item.message, plain(item.data)))

    async def close(self) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        await close_writer(self._writer)


class Links:
    """The connections of a host; calls are made on any of them."""

    def __init__(self, settings: Settings, agent: str = "", via: str = "", *, hosts: bool = False) -> None:
        """`agent` is the agent for which calls are made, if no person makes them; `via` is what a person
        answers questions with; with `hosts`, HOST:NAME is a session of another host."""
        self.settings = settings
        self.agent = agent
        self.via = via
        self.hosts = hosts
        self._links: list[DaemonLink] = []
        self._turn = asyncio.Semaphore(MAX_LINKS * REQUESTS_A_LINK)
        self._opening = asyncio.Lock()
        self._closed = False

    async def call(self, call: Call[T]) -> T:
        """Make a call. One that only looks or waits is made again if the daemon goes away."""
        began = time.monotonic()
        reconnect = repeating(call)
        while True:
            try:
                async with self._turn:
                    link = await self.free()
                    reconnect.reached()
                    params = call.params(time.monotonic() - began)
                    return call.result(await link.ask(call.op, params, waits=call.waits))
            except ConnectionError as error:
                pause = reconnect.pause(error)
                if self._closed:
                    raise
                await asyncio.sleep(pause)

    async def free(self) -> DaemonLink:
        """A connection with room for a request."""
        while True:
            async with self._opening:
                if self._closed:
                    raise ConnectionError("this connection is closed")
                for link in [each for each in self._links if not each.is_open]:
                    self._links.remove(link)
                    await link.close()
                for link in self._links:
                    if link.has_room:
                        return link
                if len(self._links) < MAX_LINKS:
                    link = await DaemonLink.open(self.settings, self.agent, self.via, hosts=self.hosts)
                    self._links.append(link)
                    return link
            await asyncio.sleep(0.01)  # all are full of requests that are being cancelled

    async def close(self) -> None:
        self._closed = True
        async with self._opening:
            while self._links:
                await self._links.pop().close()
