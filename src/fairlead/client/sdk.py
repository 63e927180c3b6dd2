"""The SDK: terminal and agent sessions from a Python program.

    import fairlead

    with fairlead.connect() as host:
        work = host.start("work", ["bash"])
        work.send("make test", "Enter")
        work.wait_for("passed", timeout=600)
        print(work.screen())
        print(host.agent("garden").ask("read README.md"))

The daemon is started if need be. What can't be done is a `RequestError` that says why. If the daemon goes
away, calls that only look or wait go on with the next one; one that would have changed something is a
`ConnectionError`, as it may have been done or not, and the next call finds the next daemon.

A `Host` and what comes from it are for one thread. Another thread opens its own; that is cheap.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..settings import Settings
from . import agents, calls
from .agents import AgentEvent, AgentSession, Approve, Asking, Following, Opened, Turn, TurnFailed
from .calls import Ended, Format, RequestError
from .control import READ_SIZE, Control
from .events import Event, Subscription
from .launch import connected, session_socket, want_daemon
from .reconnect import Reconnect
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

ANSWER_WAIT = 5.0
"""Seconds until a session that does not let us in is an error."""


LET_IN_TRIES = 5
"""How often a session is asked to let us in: its socket or its daemon may go before it has answered."""


def let_in(view: View, settings: Settings) -> tuple[socket.socket, list[bytes]]:
    """A connection on which a session has let its client in, and what it has shown by then."""
    for _ in range(LET_IN_TRIES - 1):
        with contextlib.suppress(ConnectionResetError):
            return _asked_in(view, settings)
    return _asked_in(view, settings)


def _asked_in(view: View, settings: Settings) -> tuple[socket.socket, list[bytes]]:
    connection = session_socket(view.name, settings)
    if connection is None:
        raise calls.no_session(view.name)
    output: list[bytes] = []
    try:
        connection.settimeout(ANSWER_WAIT)
        with contextlib.suppress(BrokenPipeError):  # it refused us already; reading tells why
            connection.sendall(view.begin())
        while not view.is_open:
            data = connection.recv(READ_SIZE)
            if not data:
                raise ConnectionResetError(f"the daemon closed the connection to session {view.name!r}")
            output += view.receive(data)
    except BaseException:
        connection.close()
        raise
    return connection, output


class Attached(Attachment):
    """A client of a session: what it prints, and for a writer also what it is told. Made by `attach`.

    Iterating gives output as it comes, the screen first, until the program ends; then `exit_code` is there.
    When the daemon goes away, the next one is found and the screen comes afresh, unless `reconnect` is false.
    """

    def __init__(self, view: View, settings: Settings, *, reconnect: bool) -> None:
        super().__init__(view, reconnect=reconnect)
        self._settings = settings
        self._socket: socket.socket | None = self._opened()

    def __enter__(self) -> Attached:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def read(self, *, timeout: float | None = None) -> bytes:
        """The next output; nothing when the program has ended. Raises TimeoutError or ConnectionError."""
        while not self._output and self._view.exit_code is None:
            connection = self._connected()
            connection.settimeout(timeout)
            try:
                self._output += self._view.receive(connection.recv(READ_SIZE))
            except ConnectionError:
                self._drop()
                if not self._reconnect:
                    raise
                self._socket = Reconnect().again(self._opened)
        return self._output.popleft() if self._output else b""

    def write(self, data: bytes) -> None:
        """Type. It waits while the program takes no input. Raises ConnectionError if it may be lost;
        reading goes on then."""
        self._send(self._view.typed(data))

    def resize(self, cols: int, rows: int) -> None:
        """Ask for another size; `size` has it when the session has taken it up, which output tells."""
        try:
            self._send(self._view.resized(cols, rows))
        except ConnectionError:
            if self._closed or not self._reconnect:  # else it is asked for again on the next connection
                raise

    def close(self) -> None:
        """Leave the session; it goes on."""
        self._closed = True
        self._drop()

    def _send(self, frames: bytes) -> None:
        self._check_running()
        connection = self._connected()
        connection.settimeout(None)
        connection.sendall(frames)

    def _connected(self) -> socket.socket:
        self._check_open()
        if self._socket is None:  # it could not be found again in time; perhaps now
            self._socket = self._opened()
        return self._socket

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _opened(self) -> socket.socket:
        connection, output = let_in(self._view, self._settings)
        self._output += output
        return connection


class Events:
    """What happens, from the moment this was made. Raises ConnectionError if the daemon goes away."""

    def __init__(self, settings: Settings, topics: tuple[str, ...]) -> None:
        self._subscription = Subscription(topics)
        self._events: deque[Event] = deque()
        self._socket = connected(settings)
        try:
            self._socket.sendall(self._subscription.begin())
            while not self._subscription.ready:
                self._receive()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        while True:
            yield self.next()

    def next(self, *, timeout: float | None = None) -> Event:
        """The next event. Raises TimeoutError."""
        self._socket.settimeout(timeout)
        while not self._events:
            self._receive()
        return self._events.popleft()

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> None:
        reply, events = self._subscription.receive(self._socket.recv(READ_SIZE))
        self._events += events
        if reply:
            self._socket.sendall(reply)


class Terminal:
    """One terminal session."""

    def __init__(self, control: Control, name: str) -> None:
        self.name = name
        self._control = control

    def __repr__(self) -> str:
        return f"<Terminal {self.name}>"

    def send(self, text: str = "", *keys: str) -> None:
        """Type a text, then named keys: `send("ls", "Enter")`, `send("", "C-c")`."""
        self._control.call(calls.send(self.name, text, keys))

    def paste(self, text: str) -> None:
        """Give a text as a paste, bracketed if the program asked for that."""
        self._control.call(calls.paste(self.name, text))

    def screen(self, *, format: Format = "text", scrollback: bool = False) -> str:
        """What is on the screen, as text, or with colours as `ansi`, `html` or `svg`."""
        return self._control.call(calls.screen(self.name, format, scrollback))

    def cells(self) -> dict[str, Any]:
        """What is on the screen, with colours, cursor, modes and title."""
        return self._control.call(calls.cells(self.name))

    def search(self, text: str, *, regex: bool = False) -> list[dict[str, Any]]:
        """Where a text is, on the screen and in what has scrolled away: line, column and the line's text."""
        return self._control.call(calls.search(self.name, text, regex))

    def wait_for(self, text: str, *, regex: bool = False, timeout: float | None = None) -> str:
        """Wait until the screen shows a text; gives what matched. Raises TimeoutError or Ended."""
        return self._control.call(calls.wait_for(self.name, text, regex, timeout))

    def wait_quiet(self, seconds: float, *, timeout: float | None = None) -> None:
        """Wait until the program has printed nothing for so long. Raises TimeoutError or Ended."""
        self._control.call(calls.wait_quiet(self.name, seconds, timeout))

    def wait(self, *, timeout: float | None = None) -> int:
        """Wait until the program has ended; gives its exit code. Raises TimeoutError."""
        return self._control.call(calls.wait(self.name, timeout))

    def resize(self, cols: int, rows: int) -> None:
        """Give the terminal another size."""
        self._control.call(calls.resize(self.name, cols, rows))

    def stop(self) -> int:
        """End the program; gives its exit code."""
        return self._control.call(calls.stop(self.name))

    def attach(
        self, role: RoleName = "writer", *, cols: int = 0, rows: int = 0, reconnect: bool = True
    ) -> Attached:
        """Be a client of this session, at a size if one is given: `with work.attach() as view: …`."""
        view = View(self.name, role, cols, rows)
        return Attached(view, self._control.settings, reconnect=reconnect)

    def output(self, *, reconnect: bool = True) -> Iterator[bytes]:
        """What the program prints, as it comes: the screen first, then everything, until it ends. When the
        daemon goes away it goes on with the next one, the screen first again, unless told not to."""
        with self.attach("monitor", reconnect=reconnect) as view:
            yield from view


class AgentEvents:
    """What happens in an agent session. Made by `prompt`, and then over with the turn, or by `events`.

    When the daemon goes away, it goes on with the next one, and what was missed comes first.
    """

    def __init__(self, settings: Settings, following: Following) -> None:
        self._settings = settings
        self._following = following
        self._events: deque[AgentEvent] = deque()
        self._socket: socket.socket | None = None
        self._closed = False
        try:
            self._open()
            while isinstance(following, Turn) and not following.accepted:
                self._receive(None)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> AgentEvents:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[AgentEvent]:
        try:
            while self._events or not self._following.is_over:
                yield self.next()
        finally:
            if isinstance(self._following, Turn):
                self.close()

    @property
    def cursor(self) -> str | None:
        """Where we are: `events(since=cursor)` goes on from here."""
        return self._following.cursor

    def next(self, *, timeout: float | None = None) -> AgentEvent:
        """The next event. Raises TimeoutError, ConnectionError if no daemon comes back, and EOFError when the
        turn is over."""
        while not self._events:
            if self._following.is_over:
                raise EOFError("the turn is over")
            if self._closed:
                raise ConnectionError("these events are closed")
            try:
                self._receive(timeout)
            except ConnectionError:
                self._drop()
                self._find_again()
        return self._events.popleft()

    def close(self) -> None:
        """Hear no more; the session goes on."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self, *, start: bool = True) -> None:
        first = self._following.begin()
        self._socket = connected(self._settings, start=start)
        self._socket.sendall(first)
        while not self._following.ready:
            self._receive(ANSWER_WAIT)

    def _find_again(self) -> None:
        """Wait for the next daemon, which may die as well. The nursery starts it, else we do."""
        reconnect = Reconnect()
        while self._socket is None:
            try:
                self._open(start=reconnect.may_start)
            except (ConnectionError, TimeoutError) as error:
                self._drop()
                time.sleep(reconnect.pause(error))

    def _receive(self, timeout: float | None) -> None:
        if self._socket is None:
            raise ConnectionError("the daemon is gone")
        self._socket.settimeout(timeout)
        reply, events, _ = self._following.receive(self._socket.recv(READ_SIZE))
        self._events += events
        if reply:
            self._socket.sendall(reply)


class Agent(AgentSession):
    """One agent session: a conversation with turns. Made by `Host.agent`."""

    def __init__(self, control: Control, opened: Opened, name: str) -> None:
        super().__init__(opened, name)
        self._control = control

    def prompt(self, text: str) -> AgentEvents:
        """Say something, and follow what happens until the turn is over: `for event in agent.prompt("…")`.
        Raises RequestError if the session is busy."""
        return AgentEvents(self._control.settings, Turn(self.id, text))

    def ask(self, text: str, *, approve: Approve = False, timeout: float | None = None) -> str:
        """Say something and wait for the answer. Calls that need consent get it as `approve` says: all, none,
        or what a function of the event gives. Raises TurnFailed or TimeoutError; the turn goes on then."""
        deadline = None if timeout is None else time.monotonic() + timeout
        asking = Asking(approve)
        with self.prompt(text) as turn, contextlib.suppress(EOFError):
            while True:
                event = turn.next(
                    timeout=None if deadline is None else max(0.001, deadline - time.monotonic())
                )
                if (decided := asking.heard(event)) is not None:
                    # another client may have been first; the next daemon will ask again
                    with contextlib.suppress(RequestError, ConnectionError):
                        self._control.call(agents.settled(self.id, event.data["dialog_id"], decided))
        return asking.answer()

    def events(self, *, since: str | None = None) -> AgentEvents:
        """How the session is, and what happens in it from now on, or since a cursor."""
        return AgentEvents(self._control.settings, Following(self.id, since))

    def steer(self, text: str) -> None:
        """Say something in the middle of a turn; begins one if there is none."""
        self._control.call(agents.told(self.id, "steer", message=text))

    def follow_up(self, text: str) -> None:
        """Say something when the turn is done; begins one if there is none."""
        self._control.call(agents.told(self.id, "follow_up", message=text))

    def interrupt(self) -> str:
        """End the turn after its current step; gives the steering text that will not be said."""
        return self._control.call(agents.interrupted(self.id))

    def abort(self) -> None:
        """End the turn at once."""
        self._control.call(agents.told(self.id, "abort"))

    def approve(self, dialog_id: str, *, always: bool = False) -> None:
        """Let a call run that waits for consent; with `always` the same is not asked again."""
        self._control.call(agents.settled(self.id, dialog_id, "always" if always else True))

    def deny(self, dialog_id: str) -> None:
        """Don't let it run."""
        self._control.call(agents.settled(self.id, dialog_id, False))

    def messages(self, *, last: int | None = None) -> list[dict[str, Any]]:
        """What was said, with roles and content: all of it, or the last ones."""
        count = 0 if last is None else self._control.call(agents.message_count(self.id))
        messages = agents.Messages(self.id, max(0, count - (last or 0)))
        while not messages.is_whole:
            self._control.call(messages.next())
        return messages.found

    def last_text(self) -> str:
        """The text of the last answer."""
        return self._control.call(agents.last_text(self.id))

    def state(self) -> dict[str, Any]:
        """How the session is: its phase, model, queues and more."""
        return self._control.call(agents.state(self.id))

    def set_model(self, provider: str, id: str) -> None:
        """Ask another model from now on."""
        self._control.call(agents.told(self.id, "set_model", provider=provider, model_id=id))

    def set_thinking(self, level: str) -> None:
        """How hard the model thinks, if it does: `off`, `minimal`, `low`, `medium`, `high`, `xhigh`."""
        self._control.call(agents.told(self.id, "set_thinking_level", level=level))

    def set_name(self, name: str) -> None:
        """Call it something else."""
        self._control.call(agents.told(self.id, "set_session_name", name=name))
        self.name = name

    def compact(self, instructions: str = "") -> str:
        """Sum up what lies far back; gives the summary."""
        return self._control.call(agents.compacted(self.id, instructions))

    def fork(self, entry_id: str) -> Agent:
        """A new session with all that was said before an entry; `messages` has their ids."""
        id = self._control.call(agents.forked(self.id, entry_id))
        return Agent(self._control, Opened(id, True), "")


class Host:
    """A connection to the daemon."""

    def __init__(self, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        want_daemon(settings)
        self._control = Control(settings)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; sessions go on."""
        self._control.close()

    def start(
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
        self._control.call(calls.start(name, command, cwd, environment, cols, rows))
        return Terminal(self._control, name)

    def terminal(self, name: str) -> Terminal:
        """A session that is there."""
        self._control.call(calls.find(name))
        return Terminal(self._control, name)

    def terminals(self) -> list[dict[str, Any]]:
        """All sessions, as `fairlead ls --json` shows them."""
        return self._control.call(calls.terminals())

    def status(self) -> dict[str, Any]:
        """How the daemon is: its version, process id and more, as `fairlead daemon status --json` tells."""
        return self._control.call(calls.status())

    def attach(
        self,
        terminal: str | Terminal,
        role: RoleName = "writer",
        *,
        cols: int = 0,
        rows: int = 0,
        reconnect: bool = True,
    ) -> Attached:
        """Be a client of a session, as `Terminal.attach`."""
        if isinstance(terminal, str):
            terminal = Terminal(self._control, terminal)
        return terminal.attach(role, cols=cols, rows=rows, reconnect=reconnect)

    def agent(
        self, name: str | None = None, *, id: str | None = None, cwd: str = ".", continue_last: bool = False
    ) -> Agent:
        """The agent session of a name, made if there is none; without a name a new one, or with
        `continue_last` the last one of the directory. With an id, the session that has it."""
        opened = Opened(id, False) if id else self._control.call(agents.opening(name, cwd, continue_last))
        if not name and not opened.created:
            name = self._control.call(agents.state(opened.id)).get("session_name")
        return Agent(self._control, opened, name or "")

    def models(self) -> list[dict[str, Any]]:
        """The models that an agent session may use."""
        return self._control.call(agents.models())

    def events(self, *topics: str) -> Events:
        """What happens from now on, to all sessions: `with host.events("terminal/exited") as events: …`.
        All topics if none is named."""
        return Events(self._control.settings, topics)


def connect(settings: Settings | None = None) -> Host:
    """Connect to the daemon, which is started if need be."""
    return Host(settings)
