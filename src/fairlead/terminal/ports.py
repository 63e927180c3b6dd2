"""What a terminal session needs of others and tells them: its keeper, its clients, its state, its events."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple, Protocol

from ..keeper.protocol import FrameKind


class KeeperPort(Protocol):
    """The way to a session's keeper."""

    def tell(self, kind: FrameKind, *parts: bytes) -> None: ...

    def type(self, data: bytes) -> int:
        """Give the program's terminal input at once; tells how many bytes it had room for."""

    @property
    def terminal(self) -> int:
        """The program's terminal, if there is a way to it but through the keeper; else -1."""

    def borrow(self) -> None:
        """Read the program's terminal without a detour from now on, if that can be; somebody types."""

    def give_back(self) -> None:
        """Let the keeper read it again, so that what it is told next is in order with what is printed."""


class Viewer(Protocol):
    """A client of a session. `write` takes whole keepty frames; it may be slow, then `behind` is true."""

    behind: bool

    def write(self, frame: bytes) -> None: ...

    def say(self, text: str) -> None:
        """Tell the person a sentence, if this client can show one."""

    def finish(self) -> None:
        """Nothing more will come: close when all is written."""

    def pause(self) -> None:
        """Take no more input from this client for now."""

    def resume(self) -> None: ...


class ProgramState(Enum):
    """How far a session has come."""

    WAITING = "waiting"
    """Its program is started when the first writer comes."""
    RUNNING = "running"
    ENDED = "ended"


class TerminalEvent(NamedTuple):
    """Something that others may want to know: a topic of rpc-edn and its data, by plain names."""

    topic: str
    data: dict[str, Any]
