"""The SDK for asyncio: the same names and the same meaning as in `sdk`.

    async with fairlead.aio.connect() as host:
        work = await host.start("work", ["bash"])
        await work.send("make test", "Enter")
        await work.wait_for("passed", timeout=600)
        print(await (await host.agent("garden")).ask("read README.md"))

Any number of tasks may use one host at once; requests are not held up by those that wait. A call that is
cancelled leaves the connection as it was, and the daemon stops waiting for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from .. import __version__
from ..settings import Settings
from ..wire import rpc
from ..wire.faults import Broken
from . import agents, calls
from .agents import AgentEvent, AgentSession, Approve, Asking, Following, Opened, Turn, TurnFailed
from .calls import Call, Ended, Format, RequestError, plain
from .control import READ_SIZE
from .events import Event, Subscription
from .launch import connected, want_daemon
from .reconnect import Reconnect, repeating
from .sdk import ANSWER_WAIT, let_in
from .view import Attachment, RoleName, View

__all__ = [
    "Agent",
    "AgentEvents",
    "Attached",
    "Ended",
    "Events",
    "Host",
    "RequestError",
    "Terminal",
    "TurnFailed",
    "connect",
]

REQUESTS_A_LINK = rpc.MAX_PENDING // 2
"""How many requests are on their way on one connection; as many more may be needed to cancel them."""
MAX_LINKS = 8
"""How many connections a host has at the most. The next is opened when the others are full; when all are, a
call waits for its turn."""

T = TypeVar("T")


class _Closing(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Closing)


class Opening(Generic[C]):
    """Something that has yet to be opened: `async with` opens and closes it, `await` only opens it."""

    def __init__(self, open: Callable[[], Coroutine[Any, Any, C]]) -> None:
        self._open = open
        self._opened: C | None = None

    def __await__(self) -> Generator[Any, None, C]:
        return self._open().__await__()

    async def __aenter__(self) -> C:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *error: object) -> None:
        if self._opened is not None:
            await self._opened.close()


Found = tuple[socket.socket, list[bytes]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _found(find: Callable[[], Found]) -> tuple[Streams, list[bytes]]:
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


async def _daemon(settings: Settings, *, start: bool = True) -> Streams:
    streams, _ = await _found(lambda: (connected(settings, start=start), []))
    return streams


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:  # it was broken before
        pass


class _Link:
    """One connection to the daemon with many requests on their way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._wire = rpc.ClientConnection()
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    @classmethod
    async def open(cls, settings: Settings) -> _Link:
        link = cls(*await _daemon(settings))
        try:
            await link._sent("req-1", link._wire.handshake("fairlead", __version__, [rpc.INCREMENTS]))
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
        await _close(self._writer)


class _Links:
    """The connections of a host; calls are made on any of them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._links: list[_Link] = []
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
                    answer = await link.ask(call.op, params, waits=call.waits)
                break
            except ConnectionError as error:
                pause = reconnect.pause(error)
                if self._closed:
                    raise
                await asyncio.sleep(pause)
        return call.result(answer)

    async def free(self) -> _Link:
        """A connection with room for a request."""
        while True:
            async with self._opening:
                if self._closed:
                    raise ConnectionError("the host is closed")
                for link in [each for each in self._links if not each.is_open]:
                    self._links.remove(link)
                    await link.close()
                for link in self._links:
                    if link.has_room:
                        return link
                if len(self._links) < MAX_LINKS:
                    link = await _Link.open(self.settings)
                    self._links.append(link)
                    return link
            await asyncio.sleep(0.01)  # all are full of requests that are being cancelled

    async def close(self) -> None:
        self._closed = True
        async with self._opening:
            while self._links:
                await self._links.pop().close()


class Attached(Attachment):
    """A client of a session: what it prints, and for a writer also what it is told. Made by `attach`.

    `async for` gives output as it comes, the screen first, until the program ends; then `exit_code` is there.
    When the daemon goes away, the next one is found and the screen comes afresh, unless `reconnect` is false.
    """

    def __init__(self, view: View, settings: Settings, *, reconnect: bool) -> None:
        super().__init__(view, reconnect=reconnect)
        self._settings = settings
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def read(self, *, timeout: float | None = None) -> bytes:
        """The next output; nothing when the program has ended. Raises TimeoutError or ConnectionError."""
        async with asyncio.timeout(timeout):
            while not self._output and self._view.exit_code is None:
                await self._connected()
                try:
                    self._output += self._view.receive(await self._reader.read(READ_SIZE))
                except ConnectionError:
                    await self._drop()
                    if not self._reconnect:
                        raise
                    await self._find_again()
        return self._output.popleft() if self._output else b""

    async def write(self, data: bytes) -> None:
        """Type. It waits while the program takes no input. Raises ConnectionError if it may be lost;
        reading goes on then."""
        await self._send(self._view.typed(data))

    async def resize(self, cols: int, rows: int) -> None:
        """Ask for another size; `size` has it when the session has taken it up, which output tells."""
        try:
            await self._send(self._view.resized(cols, rows))
        except ConnectionError:
            if self._closed or not self._reconnect:  # else it is asked for again on the next connection
                raise

    async def close(self) -> None:
        """Leave the session; it goes on."""
        self._closed = True
        await self._drop()

    async def _send(self, frames: bytes) -> None:
        self._check_running()
        writer = await self._connected()
        writer.write(frames)
        await writer.drain()

    async def _connected(self) -> asyncio.StreamWriter:
        self._check_open()
        if self._writer is None:  # it could not be found again in time, or was not waited for; perhaps now
            await self.open()
        assert self._writer is not None
        return self._writer

    async def _drop(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await _close(writer)

    async def _find_again(self) -> None:
        """Wait for the next daemon, which may die as well."""
        reconnect = Reconnect()
        while self._writer is None:
            try:
                await self.open()
            except (ConnectionError, TimeoutError) as error:
                await asyncio.sleep(reconnect.pause(error))

    async def open(self) -> Attached:
        """Get a connection on which we have been let in."""
        (self._reader, self._writer), output = await _found(lambda: let_in(self._view, self._settings))
        self._output += output
        return self


class Events:
    """What happens, from the moment this was opened. Raises ConnectionError if the daemon goes away."""

    def __init__(self, subscription: Subscription, settings: Settings) -> None:
        self._subscription = subscription
        self._settings = settings
        self._events: deque[Event] = deque()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            yield await self.next()

    async def next(self, *, timeout: float | None = None) -> Event:
        """The next event. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while not self._events:
                await self._receive()
        return self._events.popleft()

    async def close(self) -> None:
        await _close(self._writer)

    async def open(self) -> Events:
        self._reader, self._writer = await _daemon(self._settings)
        try:
            self._writer.write(self._subscription.begin())
            while not self._subscription.ready:
                await self._receive()
        except BaseException:
            await self.close()
            raise
        return self

    async def _receive(self) -> None:
        reply, events = self._subscription.receive(await self._reader.read(READ_SIZE))
        self._events += events
        if reply:
            self._writer.write(reply)


class Terminal:
    """One terminal session."""

    def __init__(self, links: _Links, name: str) -> None:
        self.name = name
        self._links = links

    def __repr__(self) -> str:
        return f"<Terminal {self.name}>"

    async def send(self, text: str = "", *keys: str) -> None:
        """Type a text, then named keys: `send("ls", "Enter")`, `send("", "C-c")`."""
        await self._links.call(calls.send(self.name, text, keys))

    async def paste(self, text: str) -> None:
        """Give a text as a paste, bracketed if the program asked for that."""
        await self._links.call(calls.paste(self.name, text))

    async def screen(self, *, format: Format = "text", scrollback: bool = False) -> str:
        """What is on the screen, as text, or with colours as `ansi`, `html` or `svg`."""
        return await self._links.call(calls.screen(self.name, format, scrollback))

    async def cells(self) -> dict[str, Any]:
        """What is on the screen, with colours, cursor, modes and title."""
        return await self._links.call(calls.cells(self.name))

    async def search(self, text: str, *, regex: bool = False) -> list[dict[str, Any]]:
        """Where a text is, on the screen and in what has scrolled away: line, column and the line's text."""
        return await self._links.call(calls.search(self.name, text, regex))

    async def wait_for(self, text: str, *, regex: bool = False, timeout: float | None = None) -> str:
        """Wait until the screen shows a text; gives what matched. Raises TimeoutError or Ended."""
        return await self._links.call(calls.wait_for(self.name, text, regex, timeout))

    async def wait_quiet(self, seconds: float, *, timeout: float | None = None) -> None:
        """Wait until the program has printed nothing for so long. Raises TimeoutError or Ended."""
        await self._links.call(calls.wait_quiet(self.name, seconds, timeout))

    async def wait(self, *, timeout: float | None = None) -> int:
        """Wait until the program has ended; gives its exit code. Raises TimeoutError."""
        return await self._links.call(calls.wait(self.name, timeout))

    async def resize(self, cols: int, rows: int) -> None:
        """Give the terminal another size."""
        await self._links.call(calls.resize(self.name, cols, rows))

    async def stop(self) -> int:
        """End the program; gives its exit code."""
        return await self._links.call(calls.stop(self.name))

    def attach(
        self, role: RoleName = "writer", *, cols: int = 0, rows: int = 0, reconnect: bool = True
    ) -> Opening[Attached]:
        """Be a client of this session, at a size if one is given: `async with work.attach() as view: …`."""
        view = View(self.name, role, cols, rows)
        return Opening(Attached(view, self._links.settings, reconnect=reconnect).open)

    async def output(self, *, reconnect: bool = True) -> AsyncIterator[bytes]:
        """What the program prints, as it comes: the screen first, then everything, until it ends. When the
        daemon goes away it goes on with the next one, the screen first again, unless told not to."""
        async with self.attach("monitor", reconnect=reconnect) as view:
            while data := await view.read():
                yield data


class AgentEvents:
    """What happens in an agent session. Made by `prompt`, and then over with the turn, or by `events`.

    When the daemon goes away, it goes on with the next one, and what was missed comes first.
    """

    def __init__(self, following: Following, settings: Settings) -> None:
        self._following = following
        self._settings = settings
        self._events: deque[AgentEvent] = deque()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[AgentEvent]:
        while self._events or not self._following.is_over:
            yield await self.next()

    @property
    def cursor(self) -> str | None:
        """Where we are: `events(since=cursor)` goes on from here."""
        return self._following.cursor

    async def next(self, *, timeout: float | None = None) -> AgentEvent:
        """The next event. Raises TimeoutError, ConnectionError if no daemon comes back, and EOFError when the
        turn is over."""
        async with asyncio.timeout(timeout):
            while not self._events:
                if self._following.is_over:
                    raise EOFError("the turn is over")
                if self._closed:
                    raise ConnectionError("these events are closed")
                try:
                    await self._receive()
                except ConnectionError:
                    await self._drop()
                    await self._find_again()
        return self._events.popleft()

    async def close(self) -> None:
        """Hear no more; the session goes on."""
        self._closed = True
        await self._drop()

    async def open(self) -> AgentEvents:
        """Get a connection on which all is heard, and on which a turn has begun."""
        try:
            await self._open()
            while isinstance(self._following, Turn) and not self._following.accepted:
                await self._receive()
        except BaseException:
            await self.close()
            raise
        return self

    async def _open(self, *, start: bool = True) -> None:
        first = self._following.begin()
        self._reader, self._writer = await _daemon(self._settings, start=start)
        self._writer.write(first)
        async with asyncio.timeout(ANSWER_WAIT):
            while not self._following.ready:
                await self._receive()

    async def _drop(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await _close(writer)

    async def _find_again(self) -> None:
        """Wait for the next daemon, which may die as well. The nursery starts it, else we do."""
        reconnect = Reconnect()
        while self._writer is None:
            try:
                await self._open(start=reconnect.may_start)
            except (ConnectionError, TimeoutError) as error:
                await self._drop()
                await asyncio.sleep(reconnect.pause(error))

    async def _receive(self) -> None:
        if self._writer is None:  # a wait for the next daemon was given up
            raise ConnectionError("the daemon is gone")
        reply, events, _ = self._following.receive(await self._reader.read(READ_SIZE))
        self._events += events
        if reply:
            self._writer.write(reply)


class Prompting(Opening[AgentEvents]):
    """A turn that has yet to begin: `async for` begins it and gives its events."""

    async def __aiter__(self) -> AsyncIterator[AgentEvent]:
        async with self as turn:
            async for event in turn:
                yield event


class Agent(AgentSession):
    """One agent session: a conversation with turns. Made by `Host.agent`."""

    def __init__(self, links: _Links, opened: Opened, name: str) -> None:
        super().__init__(opened, name)
        self._links = links

    def prompt(self, text: str) -> Prompting:
        """Say something, and follow what happens until the turn is over:
        `async for event in agent.prompt("…")`. Raises RequestError if the session is busy."""
        return Prompting(AgentEvents(Turn(self.id, text), self._links.settings).open)

    async def ask(self, text: str, *, approve: Approve = False, timeout: float | None = None) -> str:
        """Say something and wait for the answer. Calls that need consent get it as `approve` says: all, none,
        or what a function of the event gives, which may be a coroutine's. Raises TurnFailed or TimeoutError;
        the turn goes on then."""
        asking = Asking(approve)
        async with asyncio.timeout(timeout):
            async for event in self.prompt(text):
                decided = asking.heard(event)
                if inspect.isawaitable(decided):
                    decided = await decided
                if decided is not None:
                    # another client may have been first; the next daemon will ask again
                    with contextlib.suppress(RequestError, ConnectionError):
                        await self._links.call(agents.settled(self.id, event.data["dialog_id"], decided))
        return asking.answer()

    def events(self, *, since: str | None = None) -> Opening[AgentEvents]:
        """How the session is, and what happens in it from now on, or since a cursor."""
        return Opening(AgentEvents(Following(self.id, since), self._links.settings).open)

    async def steer(self, text: str) -> None:
        """Say something in the middle of a turn; begins one if there is none."""
        await self._links.call(agents.told(self.id, "steer", message=text))

    async def follow_up(self, text: str) -> None:
        """Say something when the turn is done; begins one if there is none."""
        await self._links.call(agents.told(self.id, "follow_up", message=text))

    async def interrupt(self) -> str:
        """End the turn after its current step; gives the steering text that will not be said."""
        return await self._links.call(agents.interrupted(self.id))

    async def abort(self) -> None:
        """End the turn at once."""
        await self._links.call(agents.told(self.id, "abort"))

    async def approve(self, dialog_id: str, *, always: bool = False) -> None:
        """Let a call run that waits for consent; with `always` the same is not asked again."""
        await self._links.call(agents.settled(self.id, dialog_id, "always" if always else True))

    async def deny(self, dialog_id: str) -> None:
        """Don't let it run."""
        await self._links.call(agents.settled(self.id, dialog_id, False))

    async def messages(self, *, last: int | None = None) -> list[dict[str, Any]]:
        """What was said, with roles and content: all of it, or the last ones."""
        count = 0 if last is None else await self._links.call(agents.message_count(self.id))
        messages = agents.Messages(self.id, max(0, count - (last or 0)))
        while not messages.is_whole:
            await self._links.call(messages.next())
        return messages.found

    async def last_text(self) -> str:
        """The text of the last answer."""
        return await self._links.call(agents.last_text(self.id))

    async def state(self) -> dict[str, Any]:
        """How the session is: its phase, model, queues and more."""
        return await self._links.call(agents.state(self.id))

    async def set_model(self, provider: str, id: str) -> None:
        """Ask another model from now on."""
        await self._links.call(agents.told(self.id, "set_model", provider=provider, model_id=id))

    async def set_thinking(self, level: str) -> None:
        """How hard the model thinks, if it does: `off`, `minimal`, `low`, `medium`, `high`, `xhigh`."""
        await self._links.call(agents.told(self.id, "set_thinking_level", level=level))

    async def set_name(self, name: str) -> None:
        """Call it something else."""
        await self._links.call(agents.told(self.id, "set_session_name", name=name))
        self.name = name

    async def compact(self, instructions: str = "") -> str:
        """Sum up what lies far back; gives the summary."""
        return await self._links.call(agents.compacted(self.id, instructions))

    async def fork(self, entry_id: str) -> Agent:
        """A new session with all that was said before an entry; `messages` has their ids."""
        id = await self._links.call(agents.forked(self.id, entry_id))
        return Agent(self._links, Opened(id, True), "")


class Host:
    """A connection to the daemon."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._links = _Links(settings or Settings())
        want_daemon(self._links.settings)

    async def open(self) -> Host:
        await self._links.free()
        return self

    async def close(self) -> None:
        """End the connection; sessions go on."""
        await self._links.close()

    async def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        cwd: str = ".",
        environment: Mapping[str, str] | None = None,
        cols: int = 80,
        rows: int = 24,
    ) -> Terminal:
        """Start a program that keeps running."""
        await self._links.call(calls.start(name, command, cwd, environment, cols, rows))
        return Terminal(self._links, name)

    async def terminal(self, name: str) -> Terminal:
        """A session that is there."""
        await self._links.call(calls.find(name))
        return Terminal(self._links, name)

    async def terminals(self) -> list[dict[str, Any]]:
        """All sessions, as `fairlead ls --json` shows them."""
        return await self._links.call(calls.terminals())

    async def status(self) -> dict[str, Any]:
        """How the daemon is: its version, process id and more, as `fairlead daemon status --json` tells."""
        return await self._links.call(calls.status())

    def attach(
        self,
        terminal: str | Terminal,
        role: RoleName = "writer",
        *,
        cols: int = 0,
        rows: int = 0,
        reconnect: bool = True,
    ) -> Opening[Attached]:
        """Be a client of a session, as `Terminal.attach`."""
        if isinstance(terminal, str):
            terminal = Terminal(self._links, terminal)
        return terminal.attach(role, cols=cols, rows=rows, reconnect=reconnect)

    async def agent(
        self, name: str | None = None, *, id: str | None = None, cwd: str = ".", continue_last: bool = False
    ) -> Agent:
        """The agent session of a name, made if there is none; without a name a new one, or with
        `continue_last` the last one of the directory. With an id, the session that has it."""
        opened = Opened(id, False) if id else await self._links.call(agents.opening(name, cwd, continue_last))
        if not name and not opened.created:
            name = (await self._links.call(agents.state(opened.id))).get("session_name")
        return Agent(self._links, opened, name or "")

    async def models(self) -> list[dict[str, Any]]:
        """The models that an agent session may use."""
        return await self._links.call(agents.models())

    def events(self, *topics: str) -> Opening[Events]:
        """What happens from now on, to all sessions: `async with host.events("terminal/exited") as events`.
        All topics if none is named."""
        return Opening(Events(Subscription(topics), self._links.settings).open)


def connect(settings: Settings | None = None) -> Opening[Host]:
    """Connect to the daemon, which is started if need be: `async with fairlead.aio.connect() as host: …`, or
    `host = await fairlead.aio.connect()` and later `await host.close()`."""
    return Opening(Host(settings).open)
