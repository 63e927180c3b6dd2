"""A real `fairlead rpc` as an editor runs it, whose every frame is checked for form.

Ids, times and paths are not the same in each run, so frames are shown with names for them: sessions are S1,
S2, entries and dialogs #1, #2, actions A1, in the order in which they are seen.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairlead.formats import edn
from fairlead.formats.edn import Keyword, Symbol
from tests.hosting import WAIT, Hosting

REQUIRED = {
    "session/updated": "session-id phase is-streaming is-compacting pending-message-count retry-attempt"
    " interrupt-pending",
    "session/resumed": "session-id session-file message-count",
    "session/rehydrated": "messages tool-calls tool-order session-id",
    "context/updated": "active-session-id sessions",
    "assistant/delta": "text session-id",
    "assistant/thinking-delta": "text session-id",
    "assistant/message": "role content session-id",
    "tool/start": "tool-id tool-name session-id",
    "tool/executing": "tool-id tool-name session-id",
    "tool/delta": "tool-id session-id",
    "tool/update": "tool-id tool-name content result-text is-error session-id",
    "tool/result": "tool-id tool-name content result-text is-error session-id",
    "ui/dialog-requested": "dialog-id kind title session-id",
    "ui/frontend-action-requested": "request-id ui/action",
    "ui/widgets-updated": "widgets",
    "ui/widget-specs-updated": "",
    "ui/status-updated": "statuses",
    "ui/notification": "id message level",
    "footer/updated": "path-line stats-line session-id",
    "command-result": "type",
    "error": "error-code error-message",
}
"""psi's topics, and the keys that its clients rely on."""
ENVELOPES = {
    "response": ("id kind op ok", "data"),
    "error": ("kind error-code error-message", "id op retryable data"),
    "event": ("kind event data", "id seq ts"),
}
PATIENCE = 15.0
"""Seconds until a frame that does not come is missed."""
ANYTHING = Symbol("_")
"""Stands for any value in a frame that is wanted."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_PROMPT = re.compile(r"\b[0-9a-f]{32}\b")
_ENTRY = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?![0-9a-f])")
_CALL = re.compile(r"guide-[0-9a-f]{12}-[0-9]+")
_ACTION = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])")
_JOURNAL = re.compile(r"/\S*/sessions/--\S*--/[0-9TZ-]+_(\S+?)\.(jsonl|html)")
_SECONDS = re.compile(r"\b\d+ s\b")
_CLOCKS = re.compile(r"\b\d\d:\d\d / \d\d:\d\d\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def _words(text: str) -> set[Keyword]:
    return {Keyword(word) for word in text.split()}


KIND, EVENT, DATA, ID, OP, SEQ, TS = (
    Keyword(name) for name in ("kind", "event", "data", "id", "op", "seq", "ts")
)
SESSION_ID, CURSOR = Keyword("session-id"), Keyword("cursor")


class Silence(AssertionError):
    """Something that should have come did not."""


class Frontend:
    """`fairlead rpc` as an editor runs it. Every frame that it writes is checked for form."""

    def __init__(self, hosting: Hosting, directory: Path) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "rpc"],
            env=hosting.environment,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._unread = b""
        self._seq = 0
        self._pings = 0
        self.sessions: set[str] = set()
        """The ids of all sessions that were seen."""
        self.cursors: dict[str, str] = {}
        """Of each session, the first one that was seen."""

    def write(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def line(self) -> bytes:
        """The next line; nothing at the end."""
        assert self.process.stdout is not None
        while b"\n" not in self._unread:
            if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
                raise Silence(f"nothing came for {PATIENCE} seconds")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                return b""
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def next(self) -> dict[Any, Any]:
        """The next frame, without the number and the time of an event."""
        line = self.line()
        assert line, "the backend has ended"
        frame: dict[Any, Any] = edn.loads(line)
        _check_plain(frame)
        required, allowed = ENVELOPES[frame[KIND].name]
        assert _words(required) <= frame.keys() <= _words(f"{required} {allowed}"), frame
        if frame[KIND].name == "event":
            self._note_cursor(frame[EVENT], frame[DATA])
            missing = _words(REQUIRED.get(frame[EVENT], "")) - frame[DATA].keys()
            assert not missing, f"{frame[EVENT]} lacks {missing}"
            if frame[EVENT] == "footer/updated":  # it tells of the sessions of all rows
                assert frame[DATA].pop(Keyword("session-activity-buckets")) is not None
                frame[DATA].pop(Keyword("session-activity-line"))
            self._seq += 1
            assert frame.pop(SEQ) == self._seq
            assert _TIME.fullmatch(frame.pop(TS))
        self.sessions |= set(_UUID.findall(line.decode()))
        return frame

    def _note_cursor(self, topic: str, data: dict[Any, Any]) -> None:
        """An event of a session says how far that has come."""
        cursor = data.pop(CURSOR, None)
        is_of_journal = topic.startswith(("assistant/", "tool/")) and (
            topic != "assistant/message" or ID in data
        )
        assert cursor is not None or not is_of_journal, topic
        if cursor is not None:
            assert cursor.startswith(data[SESSION_ID][:8])
            self.cursors.setdefault(data[SESSION_ID], cursor)

    def exchange(self, text: str, count: int = 1, id: str | None = None) -> list[dict[Any, Any]]:
        """Send a line; gives so many frames and the answer, and what else comes before a ping's answer."""
        self.write(text)
        frames: list[dict[Any, Any]] = []
        try:
            while len(frames) < count or (id is not None and not any(_answers(each, id) for each in frames)):
                frames.append(self.next())
        except Silence:
            return frames
        self._pings += 1
        self.write(f'{{:id "ping-{self._pings}" :kind :request :op "ping"}}')
        while not _answers(frame := self.next(), f"ping-{self._pings}"):
            frames.append(frame)
        return frames

    def ask(self, op: str, params: str = "{}") -> dict[Any, Any]:
        """The answer to a request, whatever else comes."""
        self.write(f'{{:id "ask" :kind :request :op "{op}" :params {params}}}')
        while not _answers(frame := self.next(), "ask"):
            pass
        return frame

    def handshake(self) -> None:
        self.ask("handshake", '{:client-info {:name "table" :version "1" :protocol-version "1.0"}}')

    def close(self) -> int:
        """End the input, as an editor that quits does."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(WAIT)

    def end(self) -> None:
        """End the process, however it is."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _answers(frame: Mapping[Any, Any], id: str) -> bool:
    return frame[KIND].name != "event" and frame.get(ID) == id


def _check_plain(value: Any) -> None:
    """Only what the simplest reader of EDN knows."""
    assert type(value) in (type(None), bool, int, float, str, Keyword, list, edn.Vector, dict), repr(value)
    inner: Iterable[Any] = value if isinstance(value, list | edn.Vector) else ()
    if isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    for each in inner:
        _check_plain(each)


# --- what is not the same in each run -----------------------------------------------------------------------


class Names:
    """Names for what a row sees: sessions, entries, prompts, dialogs, actions, the project and the time."""

    def __init__(self, front: Frontend) -> None:
        self._front = front
        self._foreign = set(front.sessions)
        self._names: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._counts = dict.fromkeys("S#AGP", 0)

    def real(self, text: str) -> str:
        """A request, with the names replaced by what they stand for."""
        for real, name in (*self._names.items(), *self._files.items()):
            text = text.replace(f"<{name}>", real)
        for session, cursor in self._front.cursors.items():
            text = text.replace(f"<cursor of {self._names.get(session)}>", cursor)
        return text

    def shown(self, value: Any) -> Any:
        """A frame with names; sessions of other rows are left out of lists of all sessions."""
        if isinstance(value, dict):
            return {self.shown(key): self.shown(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.shown(each) for each in value if not self._is_foreign(each)]
        if isinstance(value, edn.Vector):
            return edn.Vector(self.shown(each) for each in value)
        return self._named(value) if isinstance(value, str) else value

    def _is_foreign(self, row: Any) -> bool:
        found = _UUID.search(edn.dumps(row)) if isinstance(row, dict) else None
        return found is not None and found[0] in self._foreign

    def _named(self, text: str) -> str:
        text = text.replace(str(self._front.directory), "/project")
        return self._named_id(_JOURNAL.sub(self._file, text))

    def _file(self, found: re.Match[str]) -> str:
        name = self._named_id(found[1])
        self._files[found[0]] = f"file of {name}"
        return f"/sessions/{name}.{found[2]}"

    def _named_id(self, text: str) -> str:
        text = _UUID.sub(lambda found: self._name("S", found[0]), text)
        text = _TIME.sub("now", text)
        text = _CLOCKS.sub("then / now", text)
        text = _SECONDS.sub("some s", text)
        text = _CALL.sub(lambda found: self._name("G", found[0]), text)
        text = _PROMPT.sub(lambda found: self._name("P", found[0]), text)
        text = _ACTION.sub(lambda found: self._name("A", found[0]), text)
        return _ENTRY.sub(lambda found: self._name("#", found[0]), text)

    def _name(self, kind: str, real: str) -> str:
        if real not in self._names:
            self._counts[kind] += 1
            self._names[real] = f"{kind}{self._counts[kind]}"
            if kind == "S":  # its first digits stand for it where people read
                self._names[real[:8]] = self._names[real]
        return self._names[real]


def strictly(value: Any) -> Any:
    """A value that equals another only if no number of one is a boolean, or of another kind, in the other."""
    if isinstance(value, dict):
        return {key: strictly(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [strictly(each) for each in value]
    return (type(value), value)


def filled(wanted: Any, got: Any) -> Any:
    """What is wanted, with what we got wherever anything will do."""
    if wanted is ANYTHING:
        return got
    if isinstance(wanted, dict) and isinstance(got, dict):
        return {key: filled(value, got.get(key)) for key, value in wanted.items()}
    if isinstance(wanted, list) and isinstance(got, list):
        rest = [None] * (len(wanted) - len(got))
        return [filled(*pair) for pair in zip(wanted, [*got, *rest])]
    return wanted
