"""A line client of the Passepartout door: what a person types is said, what comes back is printed.

It does no more than the protocol's own clients do, over the daemon's unix socket or over TCP. When the daemon
restarts, the conversation goes on with the next one; what was said and not answered is not said again, as it
may have been done.
"""

from __future__ import annotations

import os
import re
import select
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from ..formats.columns import printable
from ..formats.sexp import Keyword
from ..system.settings import Settings
from ..wire import passepartout
from ..wire.faults import Broken
from ..wire.passepartout import (
    WRONG_TOKEN,
    Auth,
    ClientConnection,
    HealthCheck,
    HealthResponse,
    Hello,
    Invalid,
    Message,
    event,
    plist,
)
from .launch import NoDaemon, connected, reached
from .reconnect import RECONNECTED, Reconnect

READ_SIZE = 65_536
CONNECT_WAIT = 10.0
"""Seconds until a daemon that does not greet is none."""
ANSWER_WAIT = 10.0
"""Seconds without a word, while an answer is due, until the daemon is asked how it is."""
MAX_LINE = 1024 * 1024
"""How many characters one line may have."""
QUOTED = "    "
"""Stands before each line of what somebody is asked about."""
_FAILED = re.compile(r"\A:[A-Z-]+ failed: ")
"""What an answer begins with if an actuator could not do it: nothing for people."""
HUNG = "the daemon is hung: it does not answer; `fairlead daemon restart` replaces it"
UNANSWERED = 1
"""The exit code if an answer was lost because the daemon restarted."""


def connect(settings: Settings, port: int | None = None) -> socket.socket:
    """A connection to the door; without a port, to its unix socket, with a daemon started if need be."""
    if port is not None:
        try:
            return socket.create_connection(("127.0.0.1", port), CONNECT_WAIT)
        except OSError as error:
            raise NoDaemon(f"can't connect to port {port}: {error.strerror or error}") from None
    connected(settings).close()
    found = reached(settings.passepartout_path, CONNECT_WAIT)
    if found is None:
        raise NoDaemon("the daemon's Passepartout door is disabled: set [passepartout] enabled")
    return found


class Gone(ConnectionError):
    """The daemon has gone. Not so a `BrokenPipeError`, which may be that of our own output."""


class Talk:
    """A conversation over what `open` connects to. `show` gets the text of answers, `note` everything else
    that a person should see."""

    def __init__(
        self,
        open: Callable[[], socket.socket],
        show: Callable[[str], None],
        note: Callable[[str], None],
        *,
        session: str | None = None,
        source: str = "cli",
        token: str | None = None,
    ) -> None:
        self.version = ""
        self.unanswered = 0
        """How many answers have not ended yet."""
        self.refused = 0
        """How many things that were said were refused: there is no such session, or it can't be done."""
        self.lost = 0
        """How many answers never came because the daemon restarted."""
        self._open = open
        self._token = token
        self._socket = open()
        self._wire = ClientConnection()
        self._show = show
        self._note = note
        self._session = session
        self._source = source
        self._in_text = False
        self._fault = ""  # what could not be done last; all clients are told of it, too
        self._silent_healths = 0
        self._is_proven: bool | None = None  # what the daemon said to a token

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def reconnect(self) -> None:
        """Wait for the next daemon and go on with it. Raises ConnectionError if none comes in time."""
        self._end_line()
        self.lost += self.unanswered
        lost, self.unanswered = self.unanswered, 0
        Reconnect().again(self._begin)
        gone = f"; {lost} answer{'s were' if lost > 1 else ' was'} lost, ask again if needed" if lost else ""
        self._line(f"{RECONNECTED}{gone}")

    def _begin(self) -> None:
        self._socket.close()
        self._wire, self.version, self._is_proven = ClientConnection(), "", None
        self._silent_healths = 0
        self._socket = self._open()
        self.greet()

    def greet(self) -> None:
        """Wait for the daemon's greeting; prove who we are, if we have a token."""
        self._socket.settimeout(CONNECT_WAIT)  # also for what is sent later
        deadline = time.monotonic() + CONNECT_WAIT
        while not self.version:
            if time.monotonic() > deadline:
                raise ConnectionError("timed out waiting for the daemon's greeting")
            self.read()
        if self._token is not None:
            self._send(self._wire.send(Auth(self._token)))
            while self._is_proven is None:
                if time.monotonic() > deadline:
                    raise ConnectionError("timed out waiting for the daemon to check the token")
                self.read()
            if not self._is_proven:
                raise ConnectionError("the daemon rejected the token")
        self._silent_healths += 1  # we are shown what waits for consent once we have said something
        self._send(self._wire.send(HealthCheck()))

    def check(self) -> None:
        """Nothing has come for a while: ask how the daemon is. Raises ConnectionError if that was in vain."""
        if self._silent_healths:
            raise NoDaemon(HUNG)
        self._silent_healths += 1
        self._send(self._wire.send(HealthCheck()))

    def say(self, text: str) -> None:
        """Say something; the answer comes with `read`."""
        meta = plist(source=Keyword(self._source.upper()))
        if self._session is not None:
            meta += plist(session=self._session)
        said = plist(sensor=Keyword("USER-INPUT"), text=text.encode("utf-8", "replace").decode())
        self.unanswered += 1
        self._send(self._wire.send(event(said, meta=meta)))

    def cancel(self) -> None:
        """End the answer that is under way."""
        self._send(self._wire.send(event(plist(action=Keyword("CANCEL-STREAM")))))

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise NoDaemon(HUNG) from None
        except ConnectionError as error:
            raise Gone(str(error)) from None

    def read(self) -> None:
        """Take what has come. Raises Gone when the daemon has gone."""
        try:
            data = self._socket.recv(READ_SIZE)
        except TimeoutError:
            return
        except ConnectionError as error:
            raise Gone(str(error)) from None
        if not data:
            raise Gone("the daemon closed the connection")
        for item in self._wire.receive(data):
            self._took(item)

    def _took(self, item: Any) -> None:
        match item:
            case Hello():
                self.version = item.version or "?"
            case HealthResponse() if self._silent_healths:
                self._silent_healths -= 1
            case HealthResponse():
                self._line(f"{item.status.lower()}")
            case Invalid():
                self._line(f"what the daemon said can't be read: {item.reason}")
            case Broken():
                raise ConnectionError(item.reason)
            case Message():
                self._heard(item)

    def _heard(self, message: Message) -> None:
        text = message.get("payload", "text")
        text = text if isinstance(text, str) else ""
        match message.type:
            case passepartout.Type.REQUEST if _name(message.get("payload", "action")) == "MESSAGE":
                if text and _name(message.get("payload", "level")) == "ERROR":
                    self.refused += 1
                    self._fault = text
                    self._line(_FAILED.sub("", text))
                else:
                    self._piece(text)
            case passepartout.Type.RESPONSE if _name(message.get("payload", "action")) == "AUTH":
                self._is_proven = True
            case passepartout.Type.LOG if text == WRONG_TOKEN:
                self._is_proven = False
            case passepartout.Type.LOG:
                self._line(text)
                if _name(message.get("payload", "level")) == "ERROR":
                    self.refused += 1
                    self.unanswered = max(0, self.unanswered - 1)  # what was refused gets no other answer
            case passepartout.Type.EVENT:
                self._event(_name(message.get("payload", "sensor")), message, text)
            case _:
                pass

    def _piece(self, text: str) -> None:
        if text:
            self._in_text = not text.endswith("\n")
            self._show(printable(text, "\n\t"))
        else:
            self._end_line()
            self.unanswered = max(0, self.unanswered - 1)

    def _event(self, sensor: str, message: Message, text: str) -> None:
        is_asked_here = self.unanswered and not message.get("meta", "session")  # then the answer says it
        if sensor == "APPROVAL-REQUIRED" and not is_asked_here:
            token = message.get("payload", "token")
            title = message.get("payload", "title", default="")
            body = text.replace("\n", f"\n{QUOTED}")  # nothing of it may pass for a line of ours
            answers = message.get("payload", "answers", default="")  # of what an agent wants to know
            choices = answers or f"/approve {token} or /deny {token}"
            wanted = "answer" if answers else "consent"
            self._line(f"{title} waits for your {wanted}:\n{QUOTED}{body}\n{choices}")
        elif text == self._fault:
            self._fault = ""
        elif sensor in ("TOOL-ERROR", "LOOP-ERROR", "VERIFIER-ESCALATED", "SESSION-FAILED"):
            self._line(f"{sensor.lower()}: {text}")

    def _line(self, text: str) -> None:
        self._end_line()
        self._note(printable(text, "\n\t"))

    def _end_line(self) -> None:
        if self._in_text:
            self._in_text = False
            self._show("\n")


def _name(value: Any) -> str:
    return value.name.upper() if isinstance(value, Keyword) else ""


def converse(talk: Talk, typed: TextIO, wait: float, answer_wait: float = ANSWER_WAIT) -> int:
    """Say each line of `typed`, and print answers until all have ended; gives an exit code.

    At the end of the input the last answers may take `wait` seconds. When the daemon restarts, it goes on; if
    it says nothing for `answer_wait` seconds it is asked how it is, and has as long to answer.
    """
    lines = _Lines(typed.fileno())
    deadline = float("inf")
    while not lines.ended or talk.unanswered:
        wanted: list[Talk | _Lines] = [talk] if lines.ended else [talk, lines]
        left = max(0.0, deadline - time.monotonic())
        pause = min(left, answer_wait) if talk.unanswered else left
        ready = select.select(wanted, [], [], None if pause == float("inf") else pause)[0]
        if not ready and time.monotonic() < deadline:
            talk.check()
            continue
        if not ready:
            print("fairlead talk: timed out waiting for an answer", file=sys.stderr)
            return 124
        if talk in ready:
            try:
                talk.read()
            except Gone:
                talk.reconnect()
        if lines in ready:
            for line in lines.read():
                if line.strip():
                    _say(talk, line)
            if lines.ended:
                deadline = time.monotonic() + wait
    return UNANSWERED if talk.lost or talk.refused else 0


def _say(talk: Talk, line: str) -> None:
    """Say a line; if there is no daemon to say it to, to the next one."""
    try:
        talk.say(line)
    except Gone:  # nothing of it can have been understood: a frame is taken whole or not at all
        talk.unanswered -= 1
        talk.reconnect()
        talk.say(line)


class _Lines:
    """Lines from a descriptor as they come."""

    def __init__(self, descriptor: int) -> None:
        self.ended = False
        self._descriptor = descriptor
        self._rest = b""

    def fileno(self) -> int:
        return self._descriptor

    def read(self) -> list[str]:
        data = os.read(self._descriptor, READ_SIZE)
        self._rest += data
        if len(self._rest) > MAX_LINE:
            raise ConnectionError(f"a line has more than {MAX_LINE} bytes")
        *lines, self._rest = self._rest.split(b"\n")
        if not data:
            self.ended = True
            lines.append(self._rest)
        return [line.decode("utf-8", "replace") for line in lines]
