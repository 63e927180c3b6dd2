"""`fairlead rpc`: rpc-edn on standard input and output, carried to the daemon and back.

Editors start a backend of their own and talk to its standard input; this one only carries lines, so that the
sessions outlive the editor. It adds to the handshake where it runs, and which session the editor had in focus
there before. When the daemon dies it finds the next one, shakes hands and subscribes as the client did, asks
for what was missed, repeats answers to dialogs, answers whatever else was pending with an error, and counts
events on where the last daemon stopped. A dialog that the client has is not asked again, unless because of
what it did. Standard output carries frames and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from typing import Any

from ..formats import edn
from ..formats.edn import EdnError, Keyword
from ..system.settings import Settings, key_names
from ..wire import rpc
from ..wire.lines import LineBuffer, LineTooLong
from ..wire.rpc import ErrorCode
from .focus import KeptFocus
from .launch import connected
from .reconnect import LOST, Reconnect

READ_SIZE = 65_536
MAX_FRAME = 256 * 1024 * 1024
"""How many bytes a frame of the daemon may have. A whole conversation in one answer may be long."""
MAX_ANSWER = 65_536
"""How many bytes an answer may have that is looked into; those that tell something here are short."""
MAX_CURSORS = 16
"""Of how many sessions, those heard of last, the next daemon is asked what was missed."""
MAX_DIALOGS = 1000
"""How many dialogs are remembered that the client was asked, so that it is not asked again."""
LAST_ANSWERS_WAIT = 10.0
"""Seconds that answers may take when nothing more will be asked."""

_MOVING = frozenset({"new_session", "switch_session", "open_session", "fork"})
"""Ops whose answer names the session that is in focus then."""
_SETTLING = ("resolve_dialog", "cancel_dialog")
"""Ops that answer a dialog, which waits through the death of a daemon: so does the answer."""
_PARAMS, _CWD, _PROJECT = (Keyword(name) for name in ("params", "cwd", "project"))
_OP, _ID, _DIALOG_ID, _ACTIVE = (Keyword(name) for name in ("op", "id", "dialog-id", "active-session-id"))
_KEY_NAMES, _VARIABLE = Keyword("key-names"), Keyword("variable")
_SESSION_ID, _CURSOR_KEY, _SUBSCRIBED = (Keyword(name) for name in ("session-id", "cursor", "subscribed"))


class Bridge:
    """Carries lines between a client on two descriptors and the daemon."""

    def __init__(self, settings: Settings, reading: int, writing: int, cwd: str) -> None:
        self._settings = settings
        self._reading, self._writing = reading, writing
        self._cwd = cwd
        self._requests = LineBuffer(rpc.MAX_LINE)
        self._frames = LineBuffer(MAX_FRAME)
        self._pending: dict[str, str] = {}
        self._settling: dict[str, tuple[bytes, Any]] = {}  # those that answer a dialog, whole, and which
        self._dialogs: dict[str, None] = {}  # that the client was asked and has not answered
        self._asks_many = False  # at once; else a dialog that comes while another is open is lost there
        self._handshake = b""  # for the next daemon
        self._is_greeted = False  # the handshake was answered well
        self._topics: list[str] = []  # what is subscribed to; none means all
        self._named: dict[str, str] = {}  # the sessions that unanswered subscribes name, by request
        self._silent: set[str] = set()  # ids of our own requests, whose answers are not for the client
        self._is_refused = False  # the daemon speaks another version, and ends the connection
        self._lent = 0  # how many keys the daemon was given
        self._focus = ""
        self._kept = KeptFocus(f"{settings.runtime_dir}/editors", cwd)
        self._cursors: dict[str, str] = {}  # by session, the one heard of last at the end
        self._seq = 0
        self._offset = 0  # what the next daemon's numbers are behind ours
        self._daemon = connected(settings)

    def run(self) -> int:
        """Carry until the client is done and everything is answered."""
        over_at: float | None = None
        while over_at is None or (self._pending and time.monotonic() < over_at):
            if self._is_refused:
                break
            reading: list[Any] = [self._daemon] if over_at else [self._daemon, self._reading]
            ready, _, _ = select.select(reading, [], [], 1.0 if over_at else None)
            if self._reading in ready:
                data = os.read(self._reading, READ_SIZE)
                if not data:
                    over_at = time.monotonic() + LAST_ANSWERS_WAIT
                for line in self._requests.feed(data) if data else self._requests.finish():
                    self._ask(line)
            if self._daemon in ready:
                self._hear()
        return 0

    # --- the client -----------------------------------------------------------------------------------------

    def _ask(self, line: bytes | LineTooLong) -> None:
        if isinstance(line, LineTooLong):  # the daemon would not take it either
            error = rpc.Error(ErrorCode.INVALID_FRAME, f"frame is longer than {line.limit} bytes")
            self._show(rpc.encode(error))
            return
        try:
            request = edn.loads(line, max_tokens=rpc.MAX_REQUEST_TOKENS)
        except EdnError:
            request = None
        if isinstance(request, dict) and isinstance(request.get(_ID), str):
            id, op = request[_ID], request.get(_OP)
            if op == "handshake":
                line = self._placed(request, line)
                if not self._is_greeted:
                    self._handshake = line
            if isinstance(op, str) and 0 < len(id) <= rpc.MAX_ID:  # else its error will have no id
                self._pending[id] = op
                given = request.get(_PARAMS)
                params = given if isinstance(given, dict) else {}
                if op in _SETTLING and self._is_greeted:
                    self._settling[id] = line + b"\n", params.get(_DIALOG_ID)
                named = params.get(_SESSION_ID)
                if op == "subscribe" and isinstance(named, str):
                    self._named[id] = named
        try:
            self._daemon.sendall(line + b"\n")
        except OSError:  # then what is pending, and maybe this, is answered with an error
            self._find_again()

    def _placed(self, request: dict[Any, Any], line: bytes) -> bytes:
        """A handshake that also says where the client is, which is the project that its connection is for,
        and which keys its environment has."""
        params = request.get(_PARAMS)
        if not isinstance(params, dict):
            return line
        self._asks_many = rpc.INCREMENTS in rpc.offered_features(params)
        names = self._key_names()
        here = {_CWD: self._cwd, _PROJECT: self._cwd}
        if kept := self._kept.read():
            here[_SESSION_ID] = kept
        keys = {_KEY_NAMES: names} if names else {}
        try:
            return edn.dumps({**request, _PARAMS: {**here, **params, **keys}}).encode()
        except EdnError:  # a number that can be read but not written, as 0xfff… of thousands of digits
            return line

    def _show(self, frame: bytes) -> None:
        view = memoryview(frame)
        while view:
            view = view[os.write(self._writing, view) :]

    # --- the daemon -----------------------------------------------------------------------------------------

    def _hear(self) -> None:
        try:
            data = self._daemon.recv(READ_SIZE)
        except OSError:
            data = b""
        if not data:
            self._find_again()
            return
        shown = []
        for line in self._frames.feed(data):
            if isinstance(line, LineTooLong):
                why = f"dropped a frame from the daemon: it had more than {line.limit} bytes"
                print(f"fairlead rpc: {why}", file=sys.stderr)
            elif (frame := self._received(line)) is not None:
                shown.append(frame + b"\n")
        self._show(b"".join(shown))

    def _received(self, line: bytes) -> bytes | None:
        """A frame as the client gets it, or nothing if it is not for the client."""
        frame = rpc.outline(line)
        if frame is None:
            return line
        if frame.topic == "key/wanted":
            self._lend(str(frame.data()[_VARIABLE]))
            return None
        if frame.topic:
            return self._counted(frame)
        self._is_refused = self._is_refused or frame.code == ErrorCode.UNSUPPORTED_VERSION
        if (id := frame.id) is None:
            return line
        named = self._named.pop(id, "")
        if not frame.code and len(line) <= MAX_ANSWER:
            self._note_answer(frame, named)
        if id in self._silent:
            self._silent.discard(id)
            return None
        self._pending.pop(id, None)
        _, dialog = self._settling.pop(id, (b"", None))
        if isinstance(dialog, str):
            self._dialogs.pop(dialog, None)
        return line

    def _key_names(self) -> list[str]:
        return [] if self._settings.host else key_names(self._settings)

    def _lend(self, variable: str) -> None:
        """The daemon lacks a key that our environment has."""
        if variable not in self._key_names():
            return
        self._lent += 1
        id = f"fairlead-key-{self._lent}"
        self._silent.add(id)
        params = rpc.fields(variable=variable, key=self._settings.environ[variable])
        request = rpc.fields(id=id, kind=Keyword("request"), op="lend_key", params=params)
        with contextlib.suppress(OSError):  # then the daemon has gone, and that is noticed where it is read
            self._daemon.sendall(edn.dumps(request).encode() + b"\n")

    def _note_answer(self, frame: rpc.Outline, named: str) -> None:
        """Remember what the client subscribed to, and which session is in focus."""
        if frame.op == "handshake":
            self._is_greeted = True
        if frame.op not in _MOVING and frame.op not in ("subscribe", "unsubscribe"):
            return
        data = frame.data()
        if _SUBSCRIBED in data:
            self._topics = list(data[_SUBSCRIBED])
        session = named or data.get(_SESSION_ID)
        if session:
            self._move(session)
            if isinstance(cursor := data.get(_CURSOR_KEY), str):
                self._note_cursor(session, cursor)

    def _counted(self, event: rpc.Outline) -> bytes | None:
        """An event with a number that goes on where the last daemon stopped, unless it is a dialog that the
        client has already and did not ask for again."""
        if event.topic == "ui/dialog-requested":
            dialog = event.data()[_DIALOG_ID]
            is_known = dialog in self._dialogs if self._asks_many else bool(self._dialogs)
            is_wanted = "subscribe" in self._pending.values() or event.id not in (None, *self._silent)
            if is_known and not is_wanted:
                self._offset -= 1
                return None
            self._dialogs[dialog] = None
            if len(self._dialogs) > MAX_DIALOGS:
                del self._dialogs[next(iter(self._dialogs))]
        elif event.topic == "context/updated" and (active := event.data()[_ACTIVE]):
            self._move(active)
        if event.seq is None:
            return event.line
        if (place := event.place()) is not None:
            self._note_cursor(*place)
        self._seq = event.seq + self._offset
        return event.numbered(self._seq) if self._offset else event.line

    def _note_cursor(self, session: str, cursor: str) -> None:
        self._cursors.pop(session, None)
        self._cursors[session] = cursor
        if len(self._cursors) > MAX_CURSORS:
            del self._cursors[next(iter(self._cursors))]

    def _move(self, session: str) -> None:
        """A session is in focus, unless it is only because we follow all of them again, one by one."""
        if not self._silent and session != self._focus:
            self._focus = session
            self._kept.write(session)

    def _find_again(self) -> None:
        """The daemon went away. What was asked of it may or may not have been done."""
        print(f"fairlead rpc: {LOST}", file=sys.stderr)
        self._daemon.close()
        lost = {id: op for id, op in self._pending.items() if id not in self._settling}
        self._pending = {id: self._pending[id] for id in self._settling}
        for id, op in lost.items():
            why = "the daemon stopped before it answered; the request may or may not have been carried out"
            self._show(rpc.encode(rpc.Error(ErrorCode.FAILED, why, id, op, retryable=True)))
        self._offset = self._seq
        self._frames = LineBuffer(MAX_FRAME)
        Reconnect().again(self._open)

    def _open(self) -> None:
        self._daemon = connected(self._settings)
        self._daemon.sendall(self._opening())

    def _opening(self) -> bytes:
        """What the next daemon is told: the handshake, and which sessions go on from where, the one in focus
        last. Without a session's id a subscribe would make a new session."""
        self._silent.clear()
        self._named.clear()
        if not self._handshake:
            return b""
        request = edn.loads(self._handshake)
        try:
            first = self._ours(request)
        except EdnError:  # it can't be written again
            self._silent.add(request[_ID])
            first = self._handshake + b"\n"
        focus = self._focus or next(reversed(self._cursors), "")
        sessions = [*(id for id in self._cursors if id != focus), *([focus] if focus else [])]
        subscribing = map(self._subscribing, sessions or ([""] if self._topics else []))
        return b"".join((first, *subscribing, *(line for line, _ in self._settling.values())))

    def _subscribing(self, session: str) -> bytes:
        given = {"topics": self._topics, "session_id": session, "since": self._cursors.get(session)}
        params = rpc.fields(**{name: value for name, value in given.items() if value})
        return self._ours(rpc.fields(kind=Keyword("request"), op="subscribe", params=params))

    def _ours(self, request: dict[Any, Any]) -> bytes:
        """A request with an id of our own, whose answer the client does not get."""
        id = f"fairlead-rpc-{len(self._silent)}"
        line = edn.dumps({**request, _ID: id}).encode() + b"\n"
        self._silent.add(id)
        return line


def carry(settings: Settings) -> int:
    """Be the bridge between our standard input and output and the daemon."""
    bridge = Bridge(settings, sys.stdin.fileno(), sys.stdout.fileno(), os.getcwd())
    try:
        return bridge.run()
    except BrokenPipeError:
        return 141
