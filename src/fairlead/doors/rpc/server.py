"""The rpc-edn door: the control socket of the daemon.

A connection takes requests, runs each op as a task of its own, and sends events of the topics that its client
subscribed to. A few ops are about the connection itself and are done here; the others have their handlers in
the rooms.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO, cast

from ... import __version__
from ...formats.edn import Keyword
from ...formats.shown import one_line
from ...keeper.credentials import is_our_user
from ...sessions.directory import Directory, NoSession
from ...sessions.inbox import calling_agent
from ...system.settings import Settings
from ...wire import rpc
from ...wire.faults import Broken
from ...wire.lines import LineTooLong
from ...wire.rpc import ErrorCode, Request, fields
from ...wire.rpc_catalog import OPS, PARAMS, TOPICS, Op, arguments
from ..listening import UnixServer
from ..peer_proof import Programs, agent_behind
from .elsewhere import FarHosts, FarRequest, far_request, without_local
from .handlers import BY_CLIENT, MISSING, Call, Clients, Handler, OpError, as_op_error, run_handler
from .ops.agents import AgentOps

WRITE_LIMIT = 8 * 1024 * 1024
"""How many bytes a client may leave unread before it loses its connection."""
HANDSHAKE_WAIT = 30.0
"""Seconds that a client has to say what it is; one that says nothing must not hold a place for ever."""
MISSED_LIMIT = 64 * 1024 * 1024
"""The same while it is told what it missed."""
_OF_ALL = ("sessions/", "hosts/")
"""How topics begin that are of all sessions, or of other hosts."""
OWN = frozenset({"handshake", "ping", "cancel", "describe", "subscribe", "unsubscribe"})
"""Ops about the connection itself."""
FOR_ANY = "session_prompt, session_lines, session_wait and session_stop"
"""Ops that every kind has, to be used instead of one that a kind does not have."""
NAMING = frozenset({"set_session_name"})
"""Ops whose `name` is a new one."""
LONG_COMMAND = "/compact"
"""The slash command that may take as long."""
IN_ORDER_SECONDS = 0.25
"""How long the next request waits for the one before it."""
TURN_SECONDS = 0.01
"""How long a client's requests are done in one go before others have their turn."""

MAX_AGENT = 80
"""How many characters of what an agent calls itself are kept."""
UNNAMED = "a program"
"""Who answers a question over a connection that says nothing of itself."""
MAX_KEY_NAMES = 64
"""How many variables with keys a client may name."""
MAX_TYPED = 1000
"""How many prompts of a client are remembered, so that it is not told what it has shown."""
READ_SIZE = 65_536
QUICK_LINE = 16 * 1024
"""How many bytes a line may have that is read on the loop; a longer one is read in a thread."""
LAST_ANSWERS_WAIT = 10.0
"""Seconds that answers may take when nothing more will be asked."""


class RpcDoor:
    """The server on the control socket."""

    def __init__(
        self,
        settings: Settings,
        handlers: Mapping[str, Handler],
        agents: AgentOps,
        clients: Clients,
        programs: Programs = dict,
        directory: Directory | None = None,
        session_programs: Programs = dict,
        elsewhere: FarHosts | None = None,
    ) -> None:
        """`programs` are the processes that are known to be an agent's, `session_programs` those of any
        session."""
        self.programs = programs
        self.session_programs = session_programs
        self._clients = clients
        self._directory = directory
        self.elsewhere = elsewhere
        self.agents = agents
        self.handlers = {**handlers, **agents.ops}
        self.ops = {name: op for name, op in OPS.items() if name in OWN or name in self.handlers}
        self._settings = settings
        self.reading = ThreadPoolExecutor(1, "rpc-edn")
        self.server: UnixServer | None = None

    async def open(self) -> None:
        """Listen. The caller holds the daemon's lock, so what is at the path is dead."""
        self.server = UnixServer(self._settings.rpc_path, lambda: _Connection(self))
        await self.server.open()

    async def serve(self, reading: BinaryIO, writing: BinaryIO) -> None:
        """Be the backend of one client, on two pipes or files, until it is through and answered."""
        loop = asyncio.get_running_loop()
        connection = _Connection(self)
        connection.cwd = connection.project = os.getcwd()
        connection.begin(await _writer_to(writing))
        asked: asyncio.Queue[bytes] = asyncio.Queue(1)

        def read() -> None:  # in a thread, as files can't be waited for
            while True:
                data = os.read(reading.fileno(), READ_SIZE)
                asyncio.run_coroutine_threadsafe(asked.put(data), loop).result()
                if not data:
                    return

        threading.Thread(target=read, daemon=True).start()
        while (data := await asked.get()) and not connection.is_closing:
            connection.data_received(data)
            await connection.read_up()
        connection.finish()
        await connection.answered(LAST_ANSWERS_WAIT)
        connection.connection_lost(None)

    def close(self) -> None:
        """Take no more clients, and let go of those that are there."""
        if self.server is not None:
            self.server.close()
        for client in self._clients():
            client.close()

    async def explained(
        self, failure: OpError, error: Exception, call: Call, given: Mapping[str, Any]
    ) -> OpError:
        """Say so if an op found no session because it is of another kind than those that the op takes."""
        wanted = MISSING.get(type(error))
        name = call.session_id or given.get("name")
        if failure.code != ErrorCode.NOT_FOUND or not wanted or not name or self._directory is None:
            return failure
        try:
            kind, found = await self._directory.find(name)
        except NoSession:
            return failure
        if kind.name == wanted:
            return failure
        why = f"{found.name!r} is none of the {wanted} sessions that {call.op} takes"
        instead = f"{FOR_ANY} take sessions of any kind"
        return OpError(failure.code, f"not supported by {kind.name} sessions: {why}; {instead}")

    async def check_own(self, call: Call, given: Mapping[str, Any], agent: str) -> None:
        """Raises OpError if an agent's command decides over a session that is neither its own nor one that
        it made, or NoSession."""
        name = call.session_id or (given.get("name") if call.op not in NAMING else None)
        if name is None or self._directory is None:
            id, by = self.agents.session(call).id, None
        else:
            found = (await self._directory.find_all(name))[0][1]
            id, by = found.id, found.more.get("started_by")
        if agent not in (id, by, self.agents.made.by(id)):
            why = f"{call.op}: an agent's command may do that only in its own session and those it opened"
            raise OpError(ErrorCode.FAILED, f"{why}, and a command of an agent session ({agent:.80}) asks")

    def seen(self, session: str) -> None:
        """A person is shown a session."""
        if self._directory is not None:
            self._directory.states.seen(session)

    def refresh(self) -> None:
        """Whatever is asked now is for the configuration as it is now."""
        self._settings.refresh()

    def config_fault(self) -> str:
        """Why the configuration as it is now can't be used, or nothing."""
        self.refresh()
        return self._settings.fault

    def arrived(self, connection: _Connection) -> bool:
        if len(self._clients) >= self._settings.count("rpc", "max_connections"):
            return False
        self._clients.add(connection)
        return True

    def left(self, connection: _Connection) -> None:
        self._clients.discard(connection)


async def _writer_to(file: BinaryIO) -> asyncio.WriteTransport:
    """What writes to a pipe as it is read, or to a file at once."""
    try:
        transport, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, file)
    except ValueError:  # neither a pipe nor a terminal
        return _FileTransport(file.fileno())
    return transport


class _FileTransport(asyncio.WriteTransport):
    """Writes to a file, which takes everything at once."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._is_closing = False

    def write(self, data: Any) -> None:
        view = memoryview(data)
        while view and not self._is_closing:
            view = view[os.write(self._descriptor, view) :]

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True


def _description(ops: Mapping[str, Op]) -> Mapping[Any, Any]:
    """The schema of what is served: each op's parameters, what those must be, and each topic's data."""
    return fields(
        ops={
            name: fields(required=list(op.required), optional=list(op.optional)) for name, op in ops.items()
        },
        params={name: kind.wanted for name, kind in PARAMS.items()},
        topics={name: list(required) for name, required in TOPICS.items()},
        error_codes=[code.value for code in ErrorCode],
    )


class _Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, door: RpcDoor) -> None:
        self._door = door
        self._wire = rpc.ServerConnection(door.ops, TOPICS)
        self._tasks: dict[str, tuple[Call, asyncio.Task[None]]] = {}
        self._transport: asyncio.WriteTransport
        self._lines: deque[bytes | LineTooLong] = deque()  # what was not looked at yet
        self._lane: asyncio.Task[None] | None = None  # does what they ask for
        self._is_paused = False
        self._is_over = False  # nothing more will be asked
        self._is_replaying = False
        self.focus: str | None = None
        self.cwd: str | None = None
        self.key_names: frozenset[str] = frozenset()
        self.project: str | None = None
        self.increments = False
        self.receipts = False
        self.is_shown = True
        self.agent = ""
        self.via = UNNAMED
        self.hosts = False
        self._names_hosts = False  # what it calls HOST:NAME is of another host
        self.reminded: set[str] = set()
        self.typed: deque[str] = deque(maxlen=MAX_TYPED)
        self.asked: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.begin(cast(asyncio.Transport, transport))  # uvloop's is one in all but name
        asyncio.get_running_loop().call_later(HANDSHAKE_WAIT, self._ask_to_go)
        if not is_our_user(self._transport.get_extra_info("socket")):
            self._transport.abort()

    def _ask_to_go(self) -> None:
        if self._wire.state is rpc.State.NOT_READY and not self._transport.is_closing():
            why = f"no handshake within {HANDSHAKE_WAIT:g} s"
            self._transport.write(rpc.encode(rpc.Error(ErrorCode.FAILED, why)))
            self._transport.close()

    def begin(self, transport: asyncio.WriteTransport) -> None:
        """Answer there from now on."""
        self._transport = transport
        if not self._door.arrived(self):
            error = rpc.Error(ErrorCode.MAX_PENDING_EXCEEDED, "the daemon has reached its limit of clients")
            transport.write(rpc.encode(error))
            transport.close()

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    async def answered(self, seconds: float) -> None:
        """Wait until all that was asked is answered, and the answers are written; or for so long."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._lane is not None or self._tasks or self._transport.get_write_buffer_size():
            if self.is_closing or asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.005)

    async def read_up(self) -> None:
        """Wait until all lines that came were looked at."""
        if self._lane is not None:
            await asyncio.wait([self._lane])

    def data_received(self, data: bytes) -> None:
        """Take up lines. Each is looked at when those before it are done, so a client that asks faster than
        we answer waits, in its own buffer."""
        self._take_up(self._wire.feed(data))

    def finish(self) -> None:
        """Nothing more will come: the last line counts also without its end."""
        self._take_up(self._wire.finish())

    def _take_up(self, lines: list[bytes | LineTooLong]) -> None:
        self._lines.extend(lines)
        if self._lane is not None:
            if not self._is_paused and hasattr(self._transport, "pause_reading"):
                self._is_paused = True
                self._transport.pause_reading()
        elif self._lines:
            self._lane = asyncio.get_running_loop().create_task(self._work())

    def eof_received(self) -> bool:
        """The client has asked for all it wants; what it asked for last is still answered."""
        self.finish()
        self._is_over = True
        return self._lane is not None

    async def _work(self) -> None:
        """Do what the lines ask for, in their order."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        try:
            while self._lines and not self.is_closing:
                await self._look_at(self._lines.popleft())
                if self._lines and loop.time() - since > TURN_SECONDS:
                    await asyncio.sleep(0)
                    since = loop.time()
        finally:
            self._lane = None
            if self._is_over:
                self._transport.close()
            elif self._is_paused and not self.is_closing:
                self._is_paused = False
                cast(asyncio.Transport, self._transport).resume_reading()

    async def _look_at(self, line: bytes | LineTooLong) -> None:
        if isinstance(line, bytes) and len(line) > QUICK_LINE:
            loop = asyncio.get_running_loop()
            frame = await loop.run_in_executor(self._door.reading, rpc.loaded, line)
        else:
            frame = rpc.loaded(line)
        item = self._wire.judge(frame)
        if isinstance(item, Request):
            await self._serve(item)
        elif isinstance(item, Broken):
            self._lines.clear()
            self._transport.write(item.reply)
            self._transport.close()
        else:
            self._transport.write(rpc.encode(item))

    def connection_lost(self, error: Exception | None) -> None:
        self._wire.close()
        self._door.left(self)
        self._lines.clear()
        if self._lane is not None:
            self._lane.cancel()
        for _, task in list(self._tasks.values()):
            task.cancel()

    def close(self) -> None:
        self._transport.close()

    def event(self, topic: str, data: Mapping[Any, Any], *, id: str | None = None) -> None:
        """Send an event. A client that has stopped reading is let go: it may come back with its cursor."""
        if self._transport.get_write_buffer_size() > (MISSED_LIMIT if self._is_replaying else WRITE_LIMIT):
            self._transport.abort()
        elif self._wire.state is rpc.State.READY and self._wire.wants(topic):
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self._transport.write(self._wire.event(topic, data, id=id, ts=now))

    def wants(self, topic: str) -> bool:
        return self._wire.wants(topic)

    def want_key(self, variable: str) -> None:
        # It said that it would lend it, so it need not have subscribed; without a number, as no other client
        # of the same bridge is told.
        self._transport.write(rpc.encode(rpc.Event("key/wanted", fields(variable=variable))))

    # --- ops ----------------------------------------------------------------------------------------------

    async def _serve(self, request: Request) -> None:
        if self._names_hosts and self._door.elsewhere is not None:
            try:
                far = far_request(request, self._door.elsewhere)
            except OpError as error:
                self._transport.write(self._wire.fail(request.id, error.code, str(error)))
                return
            if far is not None:
                call = Call(self, request.id, request.op)
                beside = OPS[request.op].beside
                await asyncio.wait(
                    [self._begin(call, {}, far=far)], timeout=0 if beside else IN_ORDER_SECONDS
                )
                return
            request = without_local(request)
        given = arguments(OPS[request.op], request.params)
        call = Call(self, request.id, request.op, request.get("session-id"))
        match request.op:
            case "handshake":
                self._respond(call, await self._greet(request, given))
            case "ping":
                self._respond(call, fields(pong=True, protocol_version=rpc.PROTOCOL_VERSION))
            case "describe":
                self._respond(call, _description(self._door.ops))
            case "cancel":
                self._respond(call, fields(accepted=self._cancel(given["request_id"])))
            case "unsubscribe":
                self._respond(call, fields(subscribed=self._wire.unsubscribe(given.get("topics", ()))))
            case _ if _may_take_long(call, given) or self._asks_for_key(call):
                known = asyncio.Event()
                _ = self._begin(call, given, known)
                # so that it has begun, and found its session, before the next line ends it or moves the focus
                with suppress(TimeoutError):
                    async with asyncio.timeout(IN_ORDER_SECONDS):
                        await known.wait()
                await asyncio.sleep(0)
            case _:  # one that waits for something that is locked does not hold up the next
                await asyncio.wait([self._begin(call, given)], timeout=IN_ORDER_SECONDS)

    def _begin(
        self,
        call: Call,
        given: dict[str, Any],
        known: asyncio.Event | None = None,
        far: FarRequest | None = None,
    ) -> asyncio.Task[None]:
        """Begin an op, here or on another host. `known` is set when it is known who asks for it."""
        doing = self._run(call, given, known or asyncio.Event()) if far is None else self._pass_on(call, far)
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks[call.id] = call, task
        task.add_done_callback(lambda _: self._tasks.pop(call.id, None))
        return task

    def _asks_for_key(self, call: Call) -> bool:
        """Whether the client will be asked for a key first, which its next line then brings."""
        return OPS[call.op].needs_key and self._door.agents.asks_for_key(call)

    async def _greet(self, request: Request, given: dict[str, Any]) -> Mapping[Any, Any]:
        self.cwd = given.get("cwd") or self.cwd
        self.project = given.get("project") or self.project
        self.agent = one_line(given.get("agent", ""), MAX_AGENT)
        features = rpc.offered_features(request.params)
        self.increments, self.receipts = rpc.INCREMENTS in features, rpc.RECEIPTS in features
        self._names_hosts = rpc.HOSTS in features
        self.key_names = frozenset(sorted(given.get("key_names", ()))[:MAX_KEY_NAMES])
        await self._door.agents.arrived(self, given.get("session_id"))
        more = self._door.agents.greeting(self)
        info = given.get("client_info", {})
        is_ours = info.get(Keyword("name")) == "fairlead"
        via = info.get(Keyword("via" if is_ours else "name"))
        self.via = (one_line(via, MAX_AGENT) if isinstance(via, str) else "") or UNNAMED
        self.is_shown = not is_ours or info.get(Keyword("shown")) is True
        if is_ours:  # others know nothing of our version
            fault = self._door.config_fault()
            more = {**more, "server_version": __version__}
            more |= {"config_fault": fault} if fault else {}
        return rpc.server_info(**more)

    def _cancel(self, id: str) -> bool:
        """End a request. True if it will end for that."""
        call, task = self._tasks.get(id, (None, None))
        if call is None or task is None:
            return False
        if OPS[call.op].cancellable:
            return task.cancel(BY_CLIENT)
        return self._door.agents.cancelled(call)

    async def _subscribe(self, call: Call, given: dict[str, Any]) -> Mapping[Any, Any]:
        """The response comes after how things are. Who only follows what happens to all sessions looks at
        none of them."""
        before = self._wire.subscribed
        topics = given.get("topics", ())
        subscribed = self._wire.subscribe(topics)
        self.hosts = self.hosts or given.get("hosts", False)
        is_named = call.session_id or self.focus or given.get("since")
        if topics and not is_named and all(topic.startswith(_OF_ALL) for topic in topics):
            return fields(subscribed=subscribed)
        self._is_replaying = True
        try:
            more = self._door.agents.subscribed(call, topics, given.get("since"))
        except Exception:
            self._wire.subscribed = before
            raise
        finally:
            self._is_replaying = False
        if (
            self.focus is not None
            and self.is_shown
            and not self.agent
            and not await self._behind(self._door.programs)
        ):
            self._door.seen(self.focus)
        return fields(subscribed=subscribed, **more)

    async def _behind(self, programs: Programs) -> str:
        connection = self._transport.get_extra_info("socket")
        return await asyncio.to_thread(agent_behind, connection, programs)

    async def session_behind(self) -> str:
        return await self._behind(self._door.session_programs)

    async def _run(self, call: Call, given: dict[str, Any], known: asyncio.Event) -> None:
        try:
            self._door.refresh()
            if not OPS[call.op].reads:
                calling_agent.set(await self._behind(self._door.programs) or self.agent)
            known.set()
            await self._door.agents.prepare(call, given)
            if OPS[call.op].own and (agent := calling_agent.get()):
                await self._door.check_own(call, given, agent)
            if call.op == "subscribe":
                answer = await self._subscribe(call, given)
            else:
                answer = await run_handler(self._door.handlers[call.op], call, given)
            self._respond(call, answer)
        except asyncio.CancelledError:
            if self._wire.state is rpc.State.READY:
                message = f"{call.op} was cancelled"
                self._transport.write(self._wire.fail(call.id, ErrorCode.FAILED, message))
            raise
        except Exception as error:
            failure = await self._door.explained(as_op_error(call.op, error), error, call, given)
            self._transport.write(self._wire.fail(call.id, failure.code, str(failure), failure.data))
        self._door.agents.dialogs.done(call)

    async def _pass_on(self, call: Call, far: FarRequest) -> None:
        """Have an op done on another host, by the rules of there, for who asks here."""
        elsewhere = self._door.elsewhere
        assert elsewhere is not None
        try:
            agent = "" if OPS[call.op].reads else await self._behind(self._door.programs) or self.agent
            self._respond(call, await elsewhere.ask(far.host, call.op, far.params, via=self.via, agent=agent))
        except asyncio.CancelledError:
            if self._wire.state is rpc.State.READY:
                message = f"{call.op} was cancelled"
                self._transport.write(self._wire.fail(call.id, ErrorCode.FAILED, message))
            raise
        except Exception as error:
            failure = as_op_error(call.op, error)
            self._transport.write(self._wire.fail(call.id, failure.code, str(failure), failure.data))

    def _respond(self, call: Call, data: Mapping[Any, Any]) -> None:
        self._transport.write(self._wire.respond(call.id, data))


def _may_take_long(call: Call, given: dict[str, Any]) -> bool:
    if call.op == "command":
        return str(given["text"]).split(None, 1)[:1] == [LONG_COMMAND]
    return OPS[call.op].beside
