"""What happens to sessions, as small values, and the connection on which a client hears of it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import __version__
from ..wire import rpc
from ..wire.faults import Broken
from ..wire.rpc_catalog import TOPICS
from .calls import RequestError, plain


@dataclass(frozen=True, slots=True)
class Started:
    """A session's program was started."""

    name: str
    pid: int


@dataclass(frozen=True, slots=True)
class Exited:
    """A session's program has ended."""

    name: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Title:
    """A program named its window."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Bell:
    """A program rang the bell."""

    name: str


@dataclass(frozen=True, slots=True)
class Notification:
    """A program wants somebody's attention."""

    name: str
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Progress:
    """A program says how far it is: `remove`, `set`, `error`, `indeterminate` or `pause`."""

    name: str
    state: str
    percent: int | None


@dataclass(frozen=True, slots=True)
class Happened:
    """Anything else, as rpc-edn has it, with plain names."""

    topic: str
    data: dict[str, Any]


Event = Started | Exited | Title | Bell | Notification | Progress | Happened


def event_of(frame: rpc.Event) -> Event:
    """The value of an event's frame."""
    data: dict[str, Any] = plain(frame.data)
    match frame.topic:
        case "terminal/started":
            return Started(data["name"], data["pid"])
        case "terminal/exited":
            return Exited(data["name"], data["exit_code"])
        case "terminal/title":
            return Title(data["name"], data["title"])
        case "terminal/bell":
            return Bell(data["name"])
        case "terminal/notification":
            return Notification(data["name"], data.get("title") or "", data["body"])
        case "terminal/progress":
            return Progress(data["name"], data["state"], data.get("percent"))
    return Happened(frame.topic, data)


class Subscription:
    """A connection that is there for its events. Send `begin`, then what each `receive` gives to send."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        if unknown := set(topics) - TOPICS.keys():
            raise ValueError(f"no topic {min(unknown)!r}; there are {', '.join(sorted(TOPICS))}")
        self.ready = False
        """Whether no event is missed from now on."""
        self._topics = topics or tuple(TOPICS)
        self._wire = rpc.ClientConnection()

    def begin(self) -> bytes:
        return self._wire.handshake("fairlead", __version__, [rpc.INCREMENTS])

    def receive(self, data: bytes) -> tuple[bytes, list[Event]]:
        """What is to be sent, and what happened. Raises RequestError, or ConnectionError at the end."""
        if not data:
            raise ConnectionError("the daemon closed the connection; events may have been missed")
        reply = b""
        events: list[Event] = []
        for item in self._wire.receive(data):
            match item:
                case rpc.Response(op="handshake") if self._topics:
                    reply = self._wire.request("subscribe", rpc.fields(topics=list(self._topics)))[1]
                case rpc.Response():
                    self.ready = True
                case rpc.Event() if self.ready:
                    events.append(event_of(item))
                case rpc.Error(code=code, message=message):
                    raise RequestError(code, message)
                case Broken(reason=reason):
                    raise ConnectionError(reason)
        return reply, events
