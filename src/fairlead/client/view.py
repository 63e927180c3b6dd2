"""One client's view of a session, for the SDKs: output as it comes, the size, the exit code.

Over keepty's rules for a client, without I/O: the two SDKs pass it what they receive and send what it makes.
A view outlives its connection: `begin` starts it anew on another one.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from ..wire import keepty
from ..wire.faults import Broken
from .calls import Ended, RequestError

RoleName = Literal["writer", "watcher", "monitor"]
_ROLES = {role.name.lower(): role for role in keepty.Role}


class SharedView:
    """What a client sees of a session, and may say to it."""

    def __init__(self, name: str, role: RoleName, cols: int, rows: int) -> None:
        if role not in _ROLES:
            raise ValueError(f"unknown role {role!r}; expected one of {', '.join(_ROLES)}")
        self.name = name
        self.role: RoleName = role
        self.pid = 0
        """The program's process id; 0 before it is started."""
        self.cols, self.rows = cols, rows
        """The terminal's size, as the session reported it last."""
        self.exit_code: int | None = None
        self.error = ""
        """The last sentence of the session about something that went wrong."""
        self._asked = cols, rows  # 0 leaves the size as it is
        self._wire = keepty.ClientConnection()

    def __repr__(self) -> str:
        return f"<View {self.name} {self.role}, {self._wire.state.value}>"

    def begin(self) -> bytes:
        """What is to be sent first on a new connection."""
        self._wire = keepty.ClientConnection()
        return self._wire.send(keepty.Hello(_ROLES[self.role], *self._asked))

    @property
    def is_open(self) -> bool:
        """True if the session has let us in, or has ended already."""
        return self._wire.state in (keepty.State.OPEN, keepty.State.ENDED)

    def receive(self, data: bytes) -> list[bytes]:
        """The output in what came. Raises RequestError if we are not let in; ConnectionError at the end of
        the stream, or when it makes no sense, unless the program has ended."""
        if not data and self.exit_code is None:
            raise ConnectionError(f"the daemon closed the connection to session {self.name!r}")
        output = []
        for message in self._wire.receive(data):
            match message:
                case keepty.Output(data=printed):
                    output.append(printed)
                case keepty.HelloAck():
                    self.pid, self.cols, self.rows = message.pid, message.cols, message.rows
                case keepty.ResizeAck():
                    self.cols, self.rows = message.cols, message.rows
                case keepty.Exit(code=code):
                    self.exit_code = code
                case keepty.Error(text=text):
                    self.error = text
                    if not self.is_open:
                        raise RequestError("runtime/failed", text)
                case Broken(reason=reason) if not output:
                    raise ConnectionError(reason)
        return output

    def typed(self, data: bytes) -> bytes:
        """The frames of some input."""
        self._check("write")
        return b"".join(self._wire.send(frame) for frame in keepty.Input.split(data))

    def resized(self, cols: int, rows: int) -> bytes:
        """The frame that asks for a size. It is asked for again on the next connection."""
        self._check("resize")
        frame = self._wire.send(keepty.Resize(cols, rows))
        self._asked = cols, rows
        return frame

    def _check(self, what: str) -> None:
        if self.role != "writer":
            raise ValueError(f"a {self.role} can't {what}; attach as a writer")


class Attachment:
    """What both SDKs' `Attached` knows about itself."""

    def __init__(self, view: SharedView, *, reconnect: bool) -> None:
        self._view = view
        self._reconnects = reconnect
        self._output: deque[bytes] = deque()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Attached {self._view.name} as {self._view.role}>"

    @property
    def size(self) -> tuple[int, int]:
        """The terminal's columns and rows, as far as the output was read."""
        return self._view.cols, self._view.rows

    @property
    def pid(self) -> int:
        """The program's process id; 0 if it is not started yet."""
        return self._view.pid

    @property
    def exit_code(self) -> int | None:
        """The program's exit code, when all output was read."""
        return None if self._output else self._view.exit_code

    @property
    def error(self) -> str:
        """The session's last error message, such as why a program can't be executed."""
        return self._view.error

    def _check_running(self) -> None:
        if self._view.exit_code is not None:
            raise Ended(self._view.name, self._view.exit_code)

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionError(f"this client has detached from session {self._view.name!r}")
