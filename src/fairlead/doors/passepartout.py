"""The Passepartout door: TCP on the loopback interface, and the same on a unix socket.

A client is greeted, and proven if its socket belongs to our user; else it needs the token. Health is answered
here, at once. Everything else that a proven client says is given to the control room, which answers when it
likes. Each frame is written in one piece by the event loop, the only writer, so frames never mix.

A little input is read as it comes. Much of it, or that of a client whose input has turned out to take long,
waits in a line of all such clients, of which a few milliseconds' worth is read between other things, a slice
of each in turn; meanwhile nothing more is taken from them. So nobody waits for another's large frames.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast

import msgspec

from .. import __version__
from ..control.signals import Client, Signal
from ..control.stimuli import CancelAnswer, hear
from ..formats.sexp import Keyword
from ..keeper.credentials import is_our_user
from ..system.settings import Settings
from ..wire.faults import Broken, LocalError
from ..wire.passepartout import (
    MAX_CHARACTERS,
    WRONG_TOKEN,
    Auth,
    Health,
    HealthCheck,
    HealthResponse,
    Hello,
    Invalid,
    Message,
    ServerConnection,
    frame,
    plist,
)
from ..wire.passepartout import (
    log as log_message,
)
from .listening import UnixServer
from .peer_proof import Behind, Programs, Token, agent_behind, behind, peer_uid

log = logging.getLogger("fairlead.passepartout")

HOST = "127.0.0.1"
MAX_UNPROVEN = 64
"""How many clients may be there that have not proved to be our user."""
PROOF_WAIT = 30.0
"""Seconds that a client has to prove it."""
FRAME_WAIT = 30.0
"""Seconds from the first character of a frame to its last."""
ENDED_WAIT = 60.0
"""Seconds after its last message that a client is kept which will say no more and is owed an answer. One that
is owed nothing goes at once: most that end their input have closed their socket."""
SHOW_WAIT, SHOW_EVERY = 2.0, 0.05
"""Seconds that a client's first answer may take before it is shown what waits for consent, and between looks
whether it has come: a client that reads one frame for each of its own must get its answer first."""
LINGER = 2.0
"""Seconds that the input of a client is still taken, and thrown away, after it was told why it must go."""
SWEEP_EVERY = 1.0
"""Seconds between looks at who has taken too long."""
MAX_WRONG_TOKENS = 3
WRITE_LIMIT = 8 * 1024 * 1024
"""How many bytes a client may leave unread before it is let go."""
READ_PAUSE = 256 * 1024
"""How many bytes of answers it may leave unread before nothing more is taken from it."""
MAX_HELD = 16 * 1024 * 1024
"""How many characters of unfinished frames are kept, of all clients together."""
LITTLE = 1024
"""How many bytes are read as they come."""
SLICE = 4096
"""How many bytes of a client in the line are read at once."""
LINE_SECONDS = 0.005
"""How long the line is read between other things."""
LONG = 0.001
"""Seconds of reading after which a client's input goes through the line from then on."""
MAX_REFUSALS = 16
"""How many reasons one message may be answered with."""

_NOTHING = memoryview(b"")


class Room(Protocol):
    """The control room, as the door needs it."""

    def hear(self, signal: Signal) -> str: ...

    def cancel(self, client: Client, session: str | None = None) -> int: ...

    def arrived(self, client: Client) -> None:
        """A client is known, and has said something: it is shown what waits for consent."""

    def owes(self, client: Client) -> bool:
        """True if a client has asked for something that it may still be told of."""

    def left(self, client: Client) -> None: ...


class PassepartoutDoor:
    """Both listeners and their clients."""

    def __init__(
        self,
        settings: Settings,
        room: Room,
        health: Callable[[], tuple[Health, bool]],
        programs: Programs = dict,
    ) -> None:
        self.room = room
        self.programs = programs
        self.health = health
        self.port = 0
        """Where it listens; 0 if it does not."""
        self.fault = ""
        """Why it does not listen on one of its sockets."""
        self.token = Token(settings.token_path)
        self.max_characters = min(settings.count("passepartout", "max_characters"), MAX_CHARACTERS)
        self.held = 0
        """How many characters of unfinished frames are kept."""
        self.max_tokens = settings.count("passepartout", "max_tokens")
        self._line: deque[_Client] = deque()
        self._settings = settings
        self._max = settings.count("passepartout", "max_connections")
        self._idle = settings.number("passepartout", "idle")
        self._servers: list[asyncio.Server] = []
        self.server = UnixServer(settings.passepartout_path, lambda: _Client(self))
        self._clients: set[_Client] = set()
        self._sweep: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Listen. A port that is taken is no reason not to serve the unix socket, nor the other way round."""
        loop = asyncio.get_running_loop()
        path = self._settings.passepartout_path
        try:
            await self.server.open()
        except OSError as error:  # its path is too long, for one
            self.fault = f"can't listen at {path}: {error.strerror or error}"
            log.warning("%s", self.fault)
        port = self._settings.count("passepartout", "port")
        try:
            server = await loop.create_server(lambda: _Client(self), HOST, port, backlog=512)
        except (OSError, OverflowError) as error:
            self.fault = f"can't listen on {HOST}:{port}: {getattr(error, 'strerror', None) or error}"
            log.warning("%s; clients still reach %s", self.fault, path)
        else:
            self._servers.append(server)
            self.port = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Take no more clients, and let go of those that are there."""
        if self._sweep is not None:
            self._sweep.cancel()
        for server in self._servers:
            server.close()
        self.server.close()
        for client in list(self._clients):
            client.close()

    def tell(self, message: Message) -> None:
        """Send something to all proven clients."""
        listening = [client for client in self._clients if client.is_proven]
        if not listening:
            return
        data = _framed(message)
        for client in listening:
            client.write(data)

    @property
    def clients(self) -> int:
        return len(self._clients)

    def arrived(self, client: _Client) -> str:
        """A client has come; gives why it can't stay, or nothing."""
        if self._full(client):
            for each in [each for each in self._clients if not each.is_open]:
                each.drop()  # they were told why, and linger
            if self._full(client):
                return f"{self._max} clients are already connected"
        if not client.is_proven and sum(not each.is_proven for each in self._clients) >= MAX_UNPROVEN:
            return f"{MAX_UNPROVEN} unauthenticated clients are already connected"
        self._clients.add(client)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_EVERY, self._sweep_out)
        return ""

    def _full(self, client: _Client) -> bool:
        """Whether its socket has as many clients as it may have; the other one has room of its own."""
        return sum(each.is_local == client.is_local for each in self._clients) >= self._max

    def left(self, client: _Client) -> None:
        self._clients.discard(client)
        self.room.left(client)

    def queue(self, client: _Client) -> None:
        """Read a client's input when its turn comes."""
        if not self._line:
            asyncio.get_running_loop().call_soon(self._read_line)
        self._line.append(client)

    def _read_line(self) -> None:
        until = time.monotonic() + LINE_SECONDS
        while self._line:
            client = self._line.popleft()
            if client.read_slice():
                self._line.append(client)
            if time.monotonic() > until:
                break
        if self._line:
            asyncio.get_running_loop().call_soon(self._read_line)

    def _sweep_out(self) -> None:
        now = time.monotonic()
        for client in list(self._clients):
            client.sweep(now, self._idle)
        self._sweep = None
        if self._clients:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_EVERY, self._sweep_out)


class _Client(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "__weakref__",
        "_active",
        "_asking",
        "_begun",
        "_behind",
        "_came",
        "_door",
        "_ended",
        "_held",
        "_input",
        "_is_full",
        "_is_shown",
        "_is_slow",
        "_later",
        "_lingers",
        "_transport",
        "_wire",
        "_wrong",
        "is_local",
        "is_open",
    )

    def __init__(self, door: PassepartoutDoor) -> None:
        self.is_open = False
        self.is_local = False
        self._door = door
        self._transport: asyncio.Transport
        self._wire: ServerConnection
        self._came = self._active = time.monotonic()
        self._begun = 0.0  # when the frame began of which a part has come
        self._is_slow = False
        self._is_shown = False  # whether it was shown what waits for consent, or will be
        self._is_full = False  # whether it has left much unread
        self._input = _NOTHING  # what has come and waits in the line
        self._ended = False
        self._wrong = 0
        self._held = 0
        self._lingers = 0.0  # since when nothing is said any more
        self._behind: Behind | None = None  # whose it is, once it has said something that matters
        self._asking: asyncio.Task[None] | None = None  # finds that out
        self._later: list[Any] = []  # what has come meanwhile

    @property
    def is_proven(self) -> bool:
        return self._wire.proven and self.is_open

    def agent(self) -> str:
        return agent_behind(self._transport.get_extra_info("socket"), self._door.programs)

    # --- asyncio's side -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        connection = transport.get_extra_info("socket")
        is_local = self.is_local = connection.family == socket.AF_UNIX
        if is_local and not is_our_user(connection):
            self._wire = ServerConnection()
            transport.abort()
            return
        self._wire = ServerConnection(
            proven=is_local or peer_uid(connection) == os.getuid(),
            is_token=self._door.token.is_right,
            max_characters=self._door.max_characters,
            max_tokens=self._door.max_tokens,
        )
        self.is_open = True
        transport.set_write_buffer_limits(high=READ_PAUSE)
        transport.write(self._wire.send(Hello(__version__)))
        if refused := self._door.arrived(self):
            self.send(log_message(refused))
            self.close()

    def data_received(self, data: bytes) -> None:
        if self._lingers:
            return
        self._active = time.monotonic()
        if len(data) <= LITTLE and self._held <= LITTLE and not self._is_slow:
            self._read(data)
            return
        self._input = memoryview(data)
        self._transport.pause_reading()
        self._door.queue(self)

    def read_slice(self) -> bool:
        """Read some of what waits; tells whether there is more."""
        if not self.is_open:
            self._input = _NOTHING
            return False
        data, self._input = bytes(self._input[:SLICE]), self._input[SLICE:]
        self._read(data)
        if not self.is_open:
            self._input = _NOTHING
        elif not self._input:
            if self._ended:
                self._finish()
            else:
                self._read_on()
        return bool(self._input)

    def _read_on(self) -> None:
        """Take more of its input, unless something is in the way."""
        is_held = self._input or self._is_full or self._asking is not None or self._ended
        if not is_held and not self._transport.is_closing():
            self._transport.resume_reading()

    def _read(self, data: bytes) -> None:
        began = time.monotonic()
        self._took(self._wire.receive(data))
        self._is_slow = self._is_slow or time.monotonic() - began > LONG

    def eof_received(self) -> bool:
        """The client sends no more, but may wait for answers; `sweep` lets it go when it has them."""
        self._ended = True
        if not self._input and not self._lingers:
            self._finish()
        return not self._lingers

    def _finish(self) -> None:
        if self._asking is not None:  # then it is done after that
            return
        if broken := self._wire.end():
            self._end(broken.reason)
        elif not self._wire.proven or not self._door.room.owes(self):
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._wire.close()
        self._door.held -= self._held
        self._held = 0
        self._door.left(self)

    def pause_writing(self) -> None:
        self._is_full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_full = False
        self._read_on()

    # --- what it says -------------------------------------------------------------------------------------

    async def _ask_whose(self) -> None:
        """Find out whose it is, and go on with what it has said."""
        connection = self._transport.get_extra_info("socket")
        found = await asyncio.to_thread(behind, connection, self._door.programs)
        self._asking = None
        if not self.is_open:
            return
        if found.is_confined:
            why = f"a program in an agent's sandbox can't use this ({found.agent:.80})"
            log.warning("%s", why)
            self._end(why)
            return
        self._behind = found
        later, self._later = self._later, []
        self._took(later)
        if self.is_open and self._ended and not self._input:
            self._finish()
        else:
            self._read_on()

    def _took(self, items: Sequence[Any]) -> None:
        if self._asking is not None:
            self._later.extend(items)
            return
        for number, item in enumerate(items):
            match item:
                case Message() if self._behind is None:
                    self._later = list(items[number:])
                    self._transport.pause_reading()
                    self._asking = asyncio.get_running_loop().create_task(self._ask_whose())
                    return
                case HealthCheck():
                    self.write(_health(*self._door.health()))
                case Message():
                    self._received(item)
                case Invalid():
                    self.write(item.reply)
                    if item.reason == WRONG_TOKEN:
                        self._wrong += 1
                        if self._wrong >= MAX_WRONG_TOKENS:
                            self._end(f"{self._wrong} wrong tokens")
                            return
                case Auth():
                    done = plist(action=Keyword("AUTH"), status=Keyword("OK"))
                    self.send(Message(plist(type=Keyword("RESPONSE"), payload=done)))
                case Broken():
                    self.write(item.reply)
                    self._linger()
                    return
        if items and self.is_proven and not self._is_shown:
            self._is_shown = True
            self._show(time.monotonic() + SHOW_WAIT)
        held = self._wire.pending
        self._door.held += held - self._held
        self._held = held
        if not held:
            self._begun = 0.0
        elif not self._begun or items:
            self._begun = self._active
        if held > SLICE and self._door.held > MAX_HELD:
            self._end(f"clients' incomplete frames already hold more than {MAX_HELD} characters")

    def _received(self, message: Message) -> None:
        what, refused = hear(message, self)
        if refused:  # an error says that no answer will come
            level = "error" if what is None else "warning"
            self.send(log_message("; ".join(refused[:MAX_REFUSALS]), level))
        if isinstance(what, CancelAnswer):
            if not self._door.room.cancel(self, what.session):
                self.send(log_message("no answer to cancel", "info"))
            return
        if what is not None and self._behind is not None and self._behind.agent:
            what = msgspec.structs.replace(what, agent=self._behind.agent)
        if what is not None and (why := self._door.room.hear(what)):
            self.send(log_message(f"not taken: {why}"))

    # --- what it is told ----------------------------------------------------------------------------------

    def _show(self, latest: float) -> None:
        """Show it what waits for consent, after the answer to what it has said."""
        if self.is_open and time.monotonic() < latest and self._door.room.owes(self):
            asyncio.get_running_loop().call_later(SHOW_EVERY, self._show, latest)
        elif self.is_open:
            self._door.room.arrived(self)

    def send(self, message: Message) -> None:
        self._active = time.monotonic()
        self.write(_framed(message))

    def write(self, data: bytes) -> None:
        """Send a frame, unless the client has stopped reading: then it is let go."""
        if not self.is_open or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > WRITE_LIMIT:
            log.warning("disconnected a client that does not read")
            self.is_open = False
            self._transport.abort()
            return
        self._transport.write(data)

    def _end(self, reason: str) -> None:
        """Say why, and close."""
        self.send(log_message(reason))
        self._linger()

    def _linger(self) -> None:
        """Say no more, and take what is still coming: it is lost what was said last if that is refused."""
        self.is_open = False
        self._wire.close()
        self._input = _NOTHING
        self._lingers = time.monotonic()
        if self._ended or self._transport.is_closing():
            self._transport.close()
            return
        self._transport.write_eof()
        self._transport.resume_reading()

    def close(self) -> None:
        self.is_open = False
        self._wire.close()
        self._transport.close()

    def drop(self) -> None:
        """Close at once."""
        self._transport.abort()
        self._door.left(self)

    def sweep(self, now: float, idle: float) -> None:
        """Let go of a client that takes too long."""
        if self._lingers and now - self._lingers > LINGER:
            self._transport.abort()
        if not self.is_open or self._input:
            return
        if not self._wire.proven and now - self._came > PROOF_WAIT:
            self._end(f"not authenticated within {PROOF_WAIT:g} s")
        elif self._begun and now - self._begun > FRAME_WAIT:
            self._end(f"a frame was not complete within {FRAME_WAIT:g} s")
        elif self._ended and (now - self._active > ENDED_WAIT or not self._door.room.owes(self)):
            self.close()
        elif idle and now - self._active > idle:
            self._end(f"idle for {idle:g} s")


@lru_cache
def _health(status: Health, checked: bool) -> bytes:
    return frame(HealthResponse(status, checked).plist)


def _framed(message: Message) -> bytes:
    """A message as it is sent; what can't be sent is said instead."""
    try:
        return frame(message.plist)
    except LocalError as error:
        return frame(log_message(f"an answer could not be sent: {error}").plist)
