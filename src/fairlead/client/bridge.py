"""`fairlead rpc`: rpc-edn on standard input and output, carried to the daemon and back.

Editors start a backend of their own and talk to its standard input; this one only carries lines, so that the
sessions outlive the editor. It adds to the handshake where it runs. When the daemon dies it finds the next
one, shakes hands and subscribes as the client did before, asks for what was missed, answers what was pending
with an error, and counts events on where the last daemon stopped. Standard output carries frames and nothing
else.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from typing import Any

from ..formats import edn
from ..formats.edn import EdnError, Keyword
from ..settings import Settings
from ..wire import rpc
from ..wire.lines import LineBuffer, TooLong
from ..wire.rpc import ErrorCode
from .launch import RECONNECT_WAIT, connected

READ_SIZE = 65_536
MAX_CURSORS = 16
"""Of how many sessions, those heard of last, the next daemon is asked what was missed."""
LAST_ANSWERS_WAIT = 10.0
"""Seconds that answers may take when nothing more will be asked."""

_ANSWER = re.compile(rb'\{:id "((?:[^"\\]|\\.)*)",? :kind :(?:response|error)')
_OTHER_ERROR = re.compile(rb'\{:kind :error,? :id "((?:[^"\\]|\\.)*)"')
_SEQ = re.compile(rb":seq (\d+)")
_ACTIVE = re.compile(rb':active-session-id "([^"\\]+)"')
_SESSION = re.compile(rb':session-id "([^"\\]+)"')
_CURSOR = re.compile(rb':cursor "([^"\\]+)"')
_REFUSED = f':error-code "{ErrorCode.UNSUPPORTED_VERSION.value}"'.encode()
_PARAMS, _CWD, _OP, _ID = (Keyword(name) for name in ("params", "cwd", "op", "id"))


class Bridge:
    """Carries lines between a client on two descriptors and the daemon."""

    def __init__(self, settings: Settings, reading: int, writing: int, cwd: str) -> None:
        self._settings = settings
        self._reading, self._writing = reading, writing
        self._cwd = cwd
        self._requests = LineBuffer(rpc.MAX_LINE)
        self._frames = LineBuffer(rpc.MAX_LINE)
        self._pending: dict[str, str] = {}
        self._opening: list[bytes] = []  # what the next daemon has to be told again
        self._silent: set[str] = set()  # ids of those, whose answers the client has had
        self._is_refused = False  # the daemon speaks another version, and ends the connection
        self._focus = ""
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
                for line in self._requests.feed(data):
                    self._ask(line)
            if self._daemon in ready:
                self._hear()
        return 0

    # --- the client -----------------------------------------------------------------------------------------

    def _ask(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):  # the daemon would not take it either
            error = rpc.Error(ErrorCode.INVALID_FRAME, f"frame is longer than {line.limit} bytes")
            self._show(rpc.encode(error))
            return
        try:
            request = edn.loads(line, max_tokens=rpc.MAX_TOKENS)
        except EdnError:
            request = None
        if isinstance(request, dict) and isinstance(request.get(_ID), str):
            id, op = request[_ID], request.get(_OP)
            if op == "handshake":
                line = self._placed(request)
                self._opening = [line]
            elif op in ("subscribe", "unsubscribe"):
                self._opening.append(line)
            if isinstance(op, str) and 0 < len(id) <= rpc.MAX_ID:  # else its error will have no id
                self._pending[id] = op
        try:
            self._daemon.sendall(line + b"\n")
        except OSError:  # then what is pending, and maybe this, is answered with an error
            self._find_again()

    def _placed(self, request: dict[Any, Any]) -> bytes:
        """A handshake that also says where the client is."""
        params = request.get(_PARAMS)
        if not isinstance(params, dict) or _CWD in params:
            return edn.dumps(request).encode()
        return edn.dumps({**request, _PARAMS: {**params, _CWD: self._cwd}}).encode()

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
            assert isinstance(line, bytes)
            if (frame := self._heard(line)) is not None:
                shown.append(frame + b"\n")
        self._show(b"".join(shown))

    def _heard(self, line: bytes) -> bytes | None:
        """A frame as the client gets it, or nothing if it has had it."""
        answer = _ANSWER.match(line) or _OTHER_ERROR.match(line)
        if answer is not None:
            id = edn.loads(b'"' + answer[1] + b'"')
            if id in self._silent:
                self._silent.discard(id)
                return None
            self._pending.pop(id, None)
            self._is_refused = _REFUSED in line
            return line
        self._note_place(line)
        if (seq := _SEQ.search(line)) is not None:
            self._seq = int(seq[1]) + self._offset
            if self._offset:
                return line[: seq.start(1)] + str(self._seq).encode() + line[seq.end(1) :]
        return line

    def _note_place(self, event: bytes) -> None:
        """Remember which session is in focus, and how far each was told."""
        if (active := _ACTIVE.search(event)) is not None:
            self._focus = active[1].decode()
        elif (cursor := _CURSOR.search(event)) and (session := _SESSION.search(event)):
            id = session[1].decode()
            self._cursors.pop(id, None)
            self._cursors[id] = cursor[1].decode()
            if len(self._cursors) > MAX_CURSORS:
                del self._cursors[next(iter(self._cursors))]

    def _find_again(self) -> None:
        """The daemon went away. What was asked of it may or may not have been done."""
        print("fairlead rpc: the daemon went away; looking for the next one", file=sys.stderr)
        self._daemon.close()
        lost = self._pending
        self._pending = {}
        for id, op in lost.items():
            why = "the daemon went away before it answered; it may or may not have done it"
            self._show(rpc.encode(rpc.Error(ErrorCode.FAILED, why, id, op, retryable=True)))
        self._offset = self._seq
        self._frames = LineBuffer(rpc.MAX_LINE)
        deadline = time.monotonic() + RECONNECT_WAIT
        while True:
            try:
                self._daemon = connected(self._settings)
                opening = [edn.loads(line) for line in self._opening]
                for number, request in enumerate(opening + self._following()):
                    self._daemon.sendall(self._again(request, number))
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise

    def _following(self) -> list[dict[Any, Any]]:
        """Requests that go on with the sessions that were told of, the one in focus last."""
        if not self._opening or not self._focus:
            return []
        others = [id for id in self._cursors if id != self._focus]
        return [
            rpc.fields(
                kind=Keyword("request"),
                op="subscribe",
                params=rpc.fields(session_id=id, since=self._cursors.get(id)),
            )
            for id in [*others, self._focus]
        ]

    def _again(self, request: dict[Any, Any], number: int) -> bytes:
        """A request that the next daemon gets, with an id of our own."""
        id = f"fairlead-rpc-{number}"
        self._silent.add(id)
        return edn.dumps({**request, _ID: id}).encode() + b"\n"


def carry(settings: Settings) -> int:
    """Be the bridge between our standard input and output and the daemon."""
    bridge = Bridge(settings, sys.stdin.fileno(), sys.stdout.fileno(), os.getcwd())
    try:
        return bridge.run()
    except BrokenPipeError:
        return 141
