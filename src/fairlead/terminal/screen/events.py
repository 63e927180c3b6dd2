"""What a program says besides what it shows: answers it wants, bells, titles, notifications.

An `Outbox` collects what the emulator hears while it is fed. All of it is bounded in number and size: of
events the oldest are dropped, of answers the newest, for a program that asks without reading is not helped
by more.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections import deque
from dataclasses import dataclass
from platform import node
from urllib.parse import unquote_to_bytes

from .emulator import Signals

MAX_EVENTS = 256
"""How many events are kept until they are taken."""
MAX_EVENT_TEXT = 4096
"""How many characters a title, a path or a part of a notification may have; the rest is cut off."""
MAX_CLIPBOARD = 256 * 1024
"""How many bytes a program may put into the clipboard; more is ignored."""
MAX_EVENT_BYTES = 1024 * 1024
"""How many bytes the contents of clipboard events may have together."""
MAX_REPLIES = 64 * 1024
"""How many bytes of answers are kept until they are taken."""
MAX_PARTIAL_NOTIFICATIONS = 16
"""How many notifications that come in parts are kept until they are whole."""


@dataclass(frozen=True, slots=True)
class Bell:
    """The program rang the bell."""


@dataclass(frozen=True, slots=True)
class Title:
    """The program named its window."""

    text: str


@dataclass(frozen=True, slots=True)
class Cwd:
    """The program says which directory it is in (OSC 7). Empty if that is on another machine."""

    path: str


@dataclass(frozen=True, slots=True)
class Notification:
    """The program wants the user's attention (OSC 9, 777, 99)."""

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The program says how far it is (OSC 9;4).

    `state` is `remove`, `set`, `error`, `indeterminate` or `pause`; `percent` is None where none was given.
    """

    state: str
    percent: int | None


@dataclass(frozen=True, slots=True)
class Clipboard:
    """The program put something into a clipboard: `clipboard`, `selection` or `primary`."""

    selection: str
    data: bytes


Event = Bell | Title | Cwd | Notification | Progress | Clipboard

_PROGRESS = ("remove", "set", "error", "indeterminate", "pause")
_SELECTIONS = ("clipboard", "selection", "primary")


def decoded(text: bytes) -> str:
    """A program's text for people: what is no UTF-8 is replaced, and it is not too long."""
    return text[: 4 * MAX_EVENT_TEXT].decode("utf-8", "replace")[:MAX_EVENT_TEXT]


def local_path(pwd: bytes) -> str:
    """The path in what a program said of its directory: a file URL or a plain path."""
    if not pwd.startswith((b"file://", b"kitty-shell-cwd://")):
        return decoded(pwd)
    scheme, _, rest = pwd.partition(b"://")
    host, slash, path = rest.partition(b"/")
    here = node().lower()
    if host.lower() not in (b"", b"localhost", here.encode(), here.partition(".")[0].encode()):
        return ""
    return decoded(slash + (unquote_to_bytes(path) if scheme == b"file" else path))


class Outbox(Signals):
    """Collects what the emulator hears, until it is taken."""

    __slots__ = ("_clipboards", "_events", "_replies", "moved", "renamed")

    def __init__(self) -> None:
        super().__init__()
        self._events: deque[Event] = deque()
        self._clipboards = 0  # bytes
        self._replies = bytearray()
        self.renamed = False
        """The title has changed, perhaps."""
        self.moved = False
        """The directory has changed, perhaps."""

    def add(self, event: Event) -> None:
        """Keep an event; a bell right after a bell is the same one."""
        events = self._events
        if isinstance(event, Bell) and events and isinstance(events[-1], Bell):
            return
        events.append(event)
        if isinstance(event, Clipboard):
            self._clipboards += len(event.data)
        while len(events) > MAX_EVENTS or self._clipboards > MAX_EVENT_BYTES:
            oldest = events.popleft()
            if isinstance(oldest, Clipboard):
                self._clipboards -= len(oldest.data)

    def take_events(self) -> list[Event]:
        if not self._events:
            return []
        events = list(self._events)
        self._events.clear()
        self._clipboards = 0
        return events

    def take_replies(self) -> bytes:
        if not self._replies:
            return b""
        replies = bytes(self._replies)
        self._replies.clear()
        return replies

    def reply(self, data: bytes) -> None:
        if len(self._replies) + len(data) <= MAX_REPLIES:
            self._replies += data

    def bell(self) -> None:
        self.add(Bell())

    def title(self) -> None:
        self.renamed = True

    def pwd(self) -> None:
        self.moved = True

    def notify(self, title: bytes, body: bytes) -> None:
        self.add(Notification(decoded(title), decoded(body)))

    def progress(self, state: int, percent: int) -> None:
        if 0 <= state < len(_PROGRESS):
            self.add(Progress(_PROGRESS[state], percent if percent >= 0 else None))

    def clipboard(self, selection: int, data: bytes) -> None:
        if 0 <= selection < len(_SELECTIONS) and len(data) <= MAX_CLIPBOARD:
            self.add(Clipboard(_SELECTIONS[selection], data))


class KittyNotifications:
    """Finds kitty's desktop notifications (OSC 99) in what a program prints.

    The emulator knows the sequence and tells nobody. ESC begins a sequence wherever it stands, so the
    introducer can be searched for without following the rest.
    """

    INTRODUCER = b"\x1b]99;"
    _WHOLE = re.compile(rb"\x1b\]99;([^;\x07\x1b\x18\x1a]*);([^\x07\x1b\x18\x1a]*)[\x07\x1b]")
    _MAX_TAIL = 4 * MAX_EVENT_TEXT

    def __init__(self) -> None:
        self._tail = b""
        self._partial: dict[bytes, tuple[bytes, bytes]] = {}

    def find(self, data: bytes) -> list[Notification]:
        """What has become whole with this data."""
        if not self._tail and (b"]" not in data or self.INTRODUCER not in data):  # the first is quick to see
            self._tail = self._begun(data)
            return []
        data = self._tail + data
        found = []
        end = 0
        for match in self._WHOLE.finditer(data):
            # An ESC that ends one notification may begin the next.
            end = match.end() - 1 if data[match.end() - 1] == 0x1B else match.end()
            note = self._note(match[1], match[2])
            if note is not None:
                found.append(note)
        start = data.rfind(self.INTRODUCER, end)
        self._tail = data[start:] if start >= 0 else self._begun(data)
        if start >= 0 and (
            len(self._tail) > self._MAX_TAIL or re.search(rb"[\x07\x18\x1a\x1b]", self._tail[1:])
        ):
            self._tail = b""
        return found

    def _begun(self, data: bytes) -> bytes:
        """The part of the introducer that the data ends with."""
        for size in range(len(self.INTRODUCER) - 1, 0, -1):
            if data.endswith(self.INTRODUCER[:size]):
                return self.INTRODUCER[:size]
        return b""

    def _note(self, metadata: bytes, payload: bytes) -> Notification | None:
        fields = dict(field.partition(b"=")[::2] for field in metadata.split(b":"))
        if fields.get(b"e") == b"1":
            try:
                payload = b64decode(payload)
            except ValueError:
                return None
        part = fields.get(b"p", b"title")
        if part not in (b"title", b"body"):  # icons, buttons, questions
            return None
        name = fields.get(b"i", b"")
        title, body = self._partial.pop(name, (b"", b""))
        if part == b"title":
            title += payload
        else:
            body += payload
        title, body = title[: 4 * MAX_EVENT_TEXT], body[: 4 * MAX_EVENT_TEXT]
        if fields.get(b"d") == b"0":
            while len(self._partial) >= MAX_PARTIAL_NOTIFICATIONS:
                self._partial.pop(next(iter(self._partial)))
            self._partial[name] = title, body
            return None
        return Notification(decoded(title), decoded(body))
