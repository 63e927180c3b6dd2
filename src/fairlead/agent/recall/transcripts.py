"""An index over all journals, so that sessions can be listed at once and their texts searched.

It only ever reads the journals, also while somebody writes them: what was appended since the last time is
read from where reading ended, a file that was replaced is read anew, and a line that is not whole yet is left
for later. The index can be deleted at any time; it is made again.

Listing needs little of a file: when time is short, a new file is only glanced at, and read later.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from ...formats.shown import name_fault
from ...system.database import Database, FullText, Stored, containing, matching, storable, words_of
from ...system.opening import open_file
from ..context import KEPT, LOST, ONE_SHOT, STOPPED
from ..journal import BAD_LINE, MAX_LINE, VERSION, JournalHeader, check_depth

MAX_FILES = 100_000
"""How many journals are looked at."""
MAX_FOLDERS_DEEP = 8
"""How deep in folders they may lie."""
MAX_TEXT = 16_000
"""How many characters of a message can be found,"""
MAX_RESULT_TEXT = 2_000
"""and how many of what a tool gave back."""
MAX_SHOWN = 200
"""How many characters of a message are shown in a list."""
MAX_LISTED = 10_000
"""How many rows one call gives at most."""
MAX_QUESTION = 1000
"""How many characters of a question are looked at."""
LISTED = 50
"""How many rows are given if nobody says how many."""
BLOCK = 1024 * 1024
"""How much of a file is read, and kept from other processes, at a time."""
GLANCE = 16 * 1024 * 1024
"""How much of a file is looked through in a glance,"""
GLANCE_AT_END = 64 * 1024
"""and how much at both ends is understood. A file that is not longer is read at once."""
ANCHOR = 256
"""How many bytes before the place where reading ended must be the same for a file to have grown only."""
NAMED_AT_ONCE = 500
"""For how many sessions their names are asked for in one query."""
FORGOTTEN_AT_ONCE = 500
"""How many entries of a file that is gone are removed, and kept from other processes, at a time."""
FAILING = ("error", "length")
"""How a model's last message ends if its turn failed."""
MAX_COST = 1e9
"""Dollars that an answer costs at the most; what says more is no amount."""
SNIPPET_WORDS = 16
SNIPPET_CHARACTERS = 120

_MIGRATIONS = (
    (
        """CREATE TABLE files (
            id INTEGER PRIMARY KEY,
            path TEXT NOT NULL UNIQUE,
            size INTEGER NOT NULL, mtime INTEGER NOT NULL, inode INTEGER NOT NULL,
            offset INTEGER NOT NULL, anchor BLOB NOT NULL, whole INTEGER NOT NULL,
            session_id TEXT NOT NULL, name TEXT, cwd TEXT NOT NULL, parent TEXT, created TEXT NOT NULL,
            first_message TEXT NOT NULL, last_text TEXT NOT NULL, message_count INTEGER NOT NULL
        )""",
        "CREATE INDEX files_by_mtime ON files (mtime)",
        """CREATE TABLE entries (
            id INTEGER PRIMARY KEY,
            file INTEGER NOT NULL,
            entry TEXT NOT NULL, role TEXT NOT NULL, timestamp TEXT NOT NULL, text TEXT NOT NULL
        )""",
        "CREATE INDEX entries_by_file ON entries (file)",
    ),
    ("ALTER TABLE files ADD COLUMN agent TEXT",),
    ("ALTER TABLE files ADD COLUMN is_failed INTEGER NOT NULL DEFAULT 0",),
    ("ALTER TABLE files ADD COLUMN last_prompt TEXT NOT NULL DEFAULT ''",),
    ("ALTER TABLE files ADD COLUMN is_one_shot INTEGER NOT NULL DEFAULT 0",),
    ("ALTER TABLE files ADD COLUMN fault TEXT NOT NULL DEFAULT ''",),
    ("ALTER TABLE files ADD COLUMN cost REAL",),  # of files that were read before nobody knows it
)
_INDEX = FullText("entries", ("text",))
_GONE = "gone:"
"""What the path of a file that is no more begins with; a real one begins with a slash."""
_HIDE = f"UPDATE files SET path = '{_GONE}' || id, session_id = '', whole = 0"


class Transcript(NamedTuple):
    """A session, as a list shows it."""

    path: str
    id: str
    name: str | None
    cwd: str
    parent: str | None
    """The file that this one was forked from."""
    created: str
    modified: str
    first_message: str
    last_text: str
    message_count: int
    agent: str | None = None
    """The third-party agent that it is with, if it is."""
    is_failed: bool = False
    """Whether its last turn failed."""
    last_prompt: str = ""
    """What was said to it last, if that is known."""
    is_one_shot: bool = False
    """Whether a script opened it for one prompt."""
    fault: str = ""
    """Why its last turn failed, if it did and that is known."""
    cost: float | None = None
    """What its answers have cost in dollars, if that is known."""


class TranscriptMatch(NamedTuple):
    """A place in a session that has what was searched for."""

    transcript: Transcript
    entry_id: str
    role: str
    timestamp: str
    snippet: str


class Scan(NamedTuple):
    """What a look at the files came to."""

    files: int
    read: int
    """How many were read, in part or wholly."""
    left: int
    """How many can't be searched wholly yet, because time was up."""
    gone: int
    faults: tuple[str, ...]


# a class with a method `list` can't say list[…]
Listed = list[Transcript]
Places = list[TranscriptMatch]
Faults = list[str]


# --- lines ------------------------------------------------------------------------------------------------


class _Part(Struct):
    type: str = ""
    text: str = ""


class _Message(Struct):
    role: str = ""
    content: str | list[_Part] = ""
    stop_reason: str = field(default="", name="stopReason")
    error_message: str | None = field(default=None, name="errorMessage")
    usage: Any = None  # whatever it is, the message can be found

    @property
    def is_failure(self) -> bool:
        return self.stop_reason in FAILING and self.error_message != LOST

    @property
    def cost(self) -> float:
        cost = self.usage.get("cost") if isinstance(self.usage, dict) else None
        total = cost.get("total") if isinstance(cost, dict) else None
        if self.role != "assistant" or not isinstance(total, int | float) or not 0 < total < MAX_COST:
            return 0.0
        return float(total)


class _Line(Struct):
    """As much of an entry as is indexed: the rest is skipped without being decoded."""

    type: str = ""
    id: str = ""
    timestamp: str = ""
    message: _Message | None = None
    content: str | list[_Part] = ""
    summary: str = ""
    name: str = ""
    custom_type: str = field(default="", name="customType")


_decode_header = msgspec.json.Decoder(JournalHeader).decode
_decode_line = msgspec.json.Decoder(_Line).decode


class _Entry(NamedTuple):
    entry: str
    role: str
    timestamp: str
    text: str


class _Summary:
    """What a list shows of a file, as its lines come by."""

    __slots__ = (
        *("cost", "count", "fault", "first", "header", "is_failed", "is_one_shot", "last", "name"),
        "prompt",
    )

    def __init__(self) -> None:
        self.header: JournalHeader | None = None
        self.name: str | None = None
        self.first = ""
        self.last = ""
        self.prompt = ""
        self.count = 0
        self.is_failed = False
        self.fault = ""
        self.is_one_shot = False
        self.cost: float | None = 0.0

    def begin(self, line: bytes) -> None:
        """Take the first line of a file; if it is no header of ours, the file is no session."""
        try:
            check_depth(line)
            header = _decode_header(line)
        except BAD_LINE:
            return
        self.header = header if header.version == VERSION else None

    def take(self, line: bytes) -> _Entry | None:
        """Take any other line, and give what can be found in it."""
        try:
            check_depth(line)
            found = _decode_line(line)
        except BAD_LINE:
            return None
        kind = found.type
        if kind == "message" and found.message is not None:
            self.count += 1
            role, text = found.message.role, _text_of(found.message.content)
            self.is_failed = found.message.is_failure
            if self.cost is not None:
                self.cost += found.message.cost
            self.fault = (found.message.error_message or "")[:MAX_SHOWN] if self.is_failed else ""
            if role == "toolResult":
                text = text[:MAX_RESULT_TEXT]
            elif text:
                self.last = text[:MAX_SHOWN]
                if role == "user":
                    self.prompt = self.last
                    self.first = self.first or self.last
        elif kind == "session_info":
            self.name = found.name or None
            return None
        else:
            self.is_failed = self.is_failed and found.custom_type != STOPPED
            if found.custom_type in (ONE_SHOT, KEPT) and self.header is not None:
                self.is_one_shot = found.custom_type == ONE_SHOT and self.header.parent_session is None
            role, text = kind, found.summary or _text_of(found.content)
        return (
            _Entry(found.id, role, found.timestamp, storable(text[:MAX_TEXT])) if text and found.id else None
        )


def _text_of(content: str | list[_Part]) -> str:
    if isinstance(content, str):
        return content
    return "".join([part.text for part in content if part.type == "text"])


def _glance(path: str, limit: int) -> _Summary:
    """A file's summary from its first and last lines, and from what can be seen in so many bytes of it."""
    summary = _Summary()
    with open_file(path) as file:
        data = tail = file.read(limit)
        if os.fstat(file.fileno()).st_size > limit:
            file.seek(-GLANCE_AT_END, os.SEEK_END)
            tail = file.read(GLANCE_AT_END)
    end = data.find(b"\n") + 1
    summary.begin(data[:end])
    if summary.header is None:
        return summary
    for line in data[end : end + GLANCE_AT_END].split(b"\n"):
        if summary.first:
            break
        summary.take(line)
    first, summary.last, summary.count = summary.first, "", 0
    summary.cost = None
    summary.prompt = ""
    is_failed = False
    for line in reversed(tail[-GLANCE_AT_END:].split(b"\n")[:-1]):
        if summary.last:
            break
        summary.take(line)
        is_failed = is_failed or (summary.count == 1 and summary.is_failed)  # by the last message alone
    summary.first, summary.is_failed = first, is_failed
    # a quote within a string is escaped, so these are found nowhere else
    name = data.rfind(b'"type":"session_info"')
    if name >= 0:
        begin = data.rfind(b"\n", 0, name) + 1
        summary.take(data[begin : data.find(b"\n", begin)])
    summary.count = data.count(b'"type":"message"')
    return summary


# --- files ------------------------------------------------------------------------------------------------


class _State(NamedTuple):
    """A file on the disk."""

    path: str
    size: int
    mtime: int
    inode: int


class _Known(NamedTuple):
    """A file as the index has it."""

    size: int
    mtime: int
    inode: int
    offset: int
    whole: bool

    def is_as(self, state: _State) -> bool:
        return (self.size, self.mtime, self.inode) == state[1:]


def _journals(folder: str) -> Iterator[_State]:
    folders = [(folder, 1)]
    found = 0
    while folders:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False):
                        stat = entry.stat(follow_symlinks=False)
                        yield _State(entry.path, stat.st_size, stat.st_mtime_ns, stat.st_ino)
                        found += 1
                        if found >= MAX_FILES:
                            return
                    elif depth < MAX_FOLDERS_DEEP and entry.is_dir(follow_symlinks=False):
                        folders.append((entry.path, depth + 1))
        except OSError:  # gone, or not ours to read
            continue


class Transcripts(Stored):
    """The index in a file, over all journals below a directory.

    >>> transcripts = Transcripts("/tmp/transcripts.db", "/tmp/sessions")
    >>> transcripts.scan(seconds=0.1)
    >>> transcripts.list(limit=10)
    >>> transcripts.search("flaky test")
    """

    def __init__(self, path: str, sessions_dir: str, *, full_text: bool = True) -> None:
        self.sessions_dir = sessions_dir
        super().__init__(Database(path, _MIGRATIONS, _INDEX, derived=True, full_text=full_text))

    # --- scanning -----------------------------------------------------------------------------------------

    def scan(self, seconds: float | None = None) -> Scan:
        """Take in what changed, the newest files first. After this many seconds the rest is left for later.

        Every file can be listed then; those that are left can't be searched wholly. Raises DatabaseFault.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        states = list(_journals(self.sessions_dir))
        known = self._known()
        changed = [state for state in states if not self._is_read(state, known.get(state.path))]
        changed.sort(key=lambda state: state.mtime, reverse=True)
        gone = known.keys() - {state.path for state in states}
        if gone:
            self._hide(gone)
        faults: Faults = []
        if deadline is not None:
            self._glance_at(changed, known, faults, deadline)
        read = left = 0
        for state in changed:
            if deadline is not None and time.monotonic() >= deadline:
                left += 1
                continue
            read += 1
            try:
                left += not self._read(state, deadline)
            except OSError as error:
                faults.append(f"can't read {state.path}: {error.strerror}")
        self._forget(deadline)
        return Scan(len(states), read, left, sum(not each.startswith(_GONE) for each in gone), tuple(faults))

    @staticmethod
    def _is_read(state: _State, known: _Known | None) -> bool:
        return known is not None and known.whole and known.is_as(state)

    def _known(self) -> dict[str, _Known]:
        rows = self._database.read("SELECT path, size, mtime, inode, offset, whole FROM files")
        return {str(path): _Known(*values) for path, *values in rows}  # type: ignore[arg-type]

    def _hide(self, paths: Iterable[str]) -> None:
        """Let nobody find files any more that are gone. That is quick; `_forget` removes what was in them."""

        def work(connection: sqlite3.Connection) -> None:
            for path in paths:
                if not path.startswith(_GONE):
                    connection.execute(_HIDE + " WHERE path = ?", (path,))

        self._database.write(work)

    def _forget(self, deadline: float | None) -> None:
        """Remove some of what was in files that are gone, and at least a little."""

        def work(connection: sqlite3.Connection) -> bool:
            row = connection.execute(
                "SELECT id FROM files WHERE path GLOB ? LIMIT 1", (f"{_GONE}*",)
            ).fetchone()
            if row is None:
                return False
            some = f"id IN (SELECT id FROM entries WHERE file = ? LIMIT {FORGOTTEN_AT_ONCE})"
            if self._database.full_text:
                connection.execute(_INDEX.drop(some), row)
            if not connection.execute(f"DELETE FROM entries WHERE {some}", row).rowcount:
                connection.execute("DELETE FROM files WHERE id = ?", row)
            return True

        while self._database.write(work):
            if deadline is not None and time.monotonic() >= deadline:
                break

    def _glance_at(
        self, changed: Sequence[_State], known: Mapping[str, _Known], faults: Faults, deadline: float
    ) -> None:
        """Make rows for files that were never read, so that they are listed before they are."""
        rows = []
        for state in changed:
            before = known.get(state.path)
            if state.size <= GLANCE_AT_END or (before and (before.offset or before.is_as(state))):
                continue
            try:
                limit = GLANCE if time.monotonic() < deadline else GLANCE_AT_END
                rows.append((state, _glance(state.path, limit)))
            except OSError as error:
                faults.append(f"can't read {state.path}: {error.strerror}")

        def work(connection: sqlite3.Connection) -> None:
            for state, summary in rows:
                _write_row(connection, state, summary, 0, b"", whole=False, glanced=True)

        if rows:
            self._database.write(work)

    def _read(self, state: _State, deadline: float | None) -> bool:
        """Take in the rest of a file. Says whether that was all of it."""
        with open_file(state.path) as file:
            while self._database.write(lambda connection: self._read_block(connection, state, file)):
                if deadline is not None and time.monotonic() >= deadline:
                    return False
        return True

    def _read_block(self, connection: sqlite3.Connection, state: _State, file: Any) -> bool:
        """Take in some more lines. Says whether there may be more.

        It is one transaction that begins with what the index has now, so that two processes don't take in the
        same lines.
        """
        stat = os.fstat(file.fileno())
        state = state._replace(size=stat.st_size, mtime=stat.st_mtime_ns, inode=stat.st_ino)
        offset, summary = self._resume(connection, state, file)
        file.seek(offset)
        data, size = _lines_of(file)
        if not size or (offset and summary.header is None):
            _write_row(connection, state, summary, offset, _anchor(file, offset), whole=True)
            return False
        begin = 0
        if offset == 0:
            begin = data.find(b"\n") + 1
            summary.begin(data[:begin])
        entries = []
        if summary.header is not None:
            entries = [entry for line in data[begin:].split(b"\n") if (entry := summary.take(line))]
        offset += size
        whole = offset >= state.size or summary.header is None
        id = _write_row(connection, state, summary, offset, _anchor(file, offset), whole=whole)
        self._add_entries(connection, id, entries)
        return not whole

    def _resume(self, connection: sqlite3.Connection, state: _State, file: Any) -> tuple[int, _Summary]:
        """Where to go on reading a file, and its summary up to there."""
        summary = _Summary()
        row = connection.execute(
            "SELECT id, offset, anchor, session_id, created, cwd, parent, agent,"
            " name, first_message, last_text, message_count, is_failed, last_prompt, is_one_shot, fault, cost"
            " FROM files WHERE path = ?",
            (state.path,),
        ).fetchone()
        if row is None:
            return 0, summary
        id, offset, anchor, session_id, created, cwd, parent, agent, *shown = row
        if offset and _anchor(file, offset) != anchor:
            connection.execute(_HIDE + " WHERE id = ?", (id,))  # it was replaced by another
            offset = 0
        if offset:
            if session_id:
                summary.header = JournalHeader(session_id, created, cwd, VERSION, parent, agent)
            summary.name, summary.first, summary.last, summary.count = shown[:4]
            is_failed, summary.prompt, is_one_shot, summary.fault, summary.cost = shown[4:]
            summary.is_failed, summary.is_one_shot = bool(is_failed), bool(is_one_shot)
        return offset, summary

    def _add_entries(self, connection: sqlite3.Connection, file: int, entries: Sequence[_Entry]) -> None:
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM entries").fetchone()
        rows = [(last + number, file, *entry) for number, entry in enumerate(entries, 1)]
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", rows)
        if self._database.full_text:
            connection.executemany(_INDEX.add, [(row[0], row[-1]) for row in rows])

    # --- asking -------------------------------------------------------------------------------------------

    def list(self, cwd: str | None = None, limit: int = LISTED, offset: int = 0) -> Listed:
        """The sessions, or those of a directory, the one that was used last first."""
        where, values = ("AND cwd = ?", (storable(cwd),)) if cwd is not None else ("", ())
        rows = self._database.read(
            f"SELECT {_SHOWN} FROM files WHERE session_id != '' {where}"
            " ORDER BY mtime DESC, path LIMIT ? OFFSET ?",
            (*values, _bounded(limit), max(0, min(offset, MAX_FILES))),
        )
        return [_transcript(row) for row in rows]

    def latest(self, *, name: str | None = None, cwd: str | None = None) -> Transcript | None:
        """The session that was used last, of those with a name or of a directory."""
        where = "".join(f" AND {column} = ?" for column, value in (("name", name), ("cwd", cwd)) if value)
        values = tuple(storable(value) for value in (name, cwd) if value)
        rows = self._database.read(
            f"SELECT {_SHOWN} FROM files WHERE session_id != '' {where} ORDER BY mtime DESC, path LIMIT 1",
            values,
        )
        return _transcript(rows[0]) if rows else None

    def named(self, name: str | None, seconds: float, *, cwd: str | None = None) -> Transcript | None:
        """The same, after a look of some seconds at what changed; at all of it if none is found."""
        left = self.scan(seconds).left
        found = self.latest(name=name, cwd=cwd)
        if found is None and left:
            self.scan()
            found = self.latest(name=name, cwd=cwd)
        return found

    def names(self, ids: Sequence[str]) -> dict[str, str]:
        """The names of the sessions with these ids that have one, as far as they have been read."""
        found: dict[str, str] = {}
        for at in range(0, len(ids), NAMED_AT_ONCE):
            some = [storable(id) for id in ids[at : at + NAMED_AT_ONCE]]
            rows = self._database.read(
                f"SELECT session_id, name FROM files WHERE session_id IN ({', '.join('?' * len(some))})"
                " AND name IS NOT NULL ORDER BY mtime",
                some,
            )
            found |= {str(id): str(name) for id, name in rows if not name_fault(str(name))}
        return found

    def meant(self, word: str, seconds: float) -> Listed:
        """The sessions of an id or a name, and those whose id begins so, after such a look: the one of this
        id first, then those of this name, each the last used first."""
        left = self.scan(seconds).left
        found = self._meant(storable(word))
        if not found and left:
            self.scan()
            found = self._meant(storable(word))
        return found

    def _meant(self, word: str) -> Listed:
        rows = self._database.read(
            f"SELECT {_SHOWN} FROM files WHERE session_id != ''"
            " AND (name = ?1 OR substr(session_id, 1, length(?1)) = ?1)"
            " ORDER BY session_id = ?1 DESC, name IS ?1 DESC, mtime DESC, path LIMIT ?2",
            (word, LISTED),
        )
        return [_transcript(row) for row in rows]

    def search(
        self, text: str, limit: int = LISTED, *, cwd: str | None = None, marks: tuple[str, str] = ("", "")
    ) -> Places:
        """The places that have every word of a text, the best first. `marks` go around the words found."""
        text = storable(text[:MAX_QUESTION]).strip()
        if not text:
            return []
        where, values = ("AND files.cwd = ?", (storable(cwd),)) if cwd is not None else ("", ())
        words = words_of(text)
        searches = self._database.searches()
        if words and searches:
            found = self._database.read(
                f"SELECT {_SHOWN}, entries.entry, entries.role, entries.timestamp,"
                f" snippet({_INDEX.name}, 0, ?, ?, '…', {SNIPPET_WORDS})"
                f" FROM {_INDEX.name} JOIN entries ON entries.id = {_INDEX.name}.rowid"
                " JOIN files ON files.id = entries.file"
                f" WHERE {_INDEX.name} MATCH ? AND files.session_id != '' {where}"
                f" ORDER BY {_INDEX.name}.rank LIMIT ?",
                (*marks, matching(words, every=True), *values, _bounded(limit)),
            )
            if found:
                return [_match(row, str(row[-1])) for row in found]
        # in the middle of words, which the index does not know; or each word, without an index
        words = [text] if searches else words or [text]
        likes = r" AND entries.text LIKE ? ESCAPE '\'" * len(words)
        rows = self._database.read(
            f"SELECT {_SHOWN}, entries.entry, entries.role, entries.timestamp, entries.text"
            " FROM entries JOIN files ON files.id = entries.file"
            f" WHERE files.session_id != '' {likes} {where}"
            " ORDER BY files.mtime DESC, entries.id DESC LIMIT ?",
            (*(containing(word) for word in words), *values, _bounded(limit)),
        )
        return [_match(row, _snippet(str(row[-1]), words[0], marks)) for row in rows]


_SHOWN = (
    "files.path, files.session_id, files.name, files.cwd, files.parent, files.created, files.mtime,"
    " files.first_message, files.last_text, files.message_count, files.agent, files.is_failed,"
    " files.last_prompt, files.is_one_shot, files.fault, files.cost"
)
_SHOWN_COLUMNS = 16


def _bounded(limit: int) -> int:
    return max(0, min(limit, MAX_LISTED))


def _transcript(row: Any) -> Transcript:
    path, id, name, cwd, parent, created, mtime, *more = row[:_SHOWN_COLUMNS]
    moment = datetime.fromtimestamp(mtime / 1e9, UTC).isoformat(timespec="milliseconds")
    if name is not None and name_fault(name):
        name = None
    return Transcript(path, id, name, cwd, parent, created, moment.replace("+00:00", "Z"), *more)


def _match(row: Any, snippet: str) -> TranscriptMatch:
    entry, role, moment = row[_SHOWN_COLUMNS : _SHOWN_COLUMNS + 3]
    return TranscriptMatch(_transcript(row), entry, role, moment, snippet)


def _snippet(text: str, word: str, marks: tuple[str, str]) -> str:
    at = max(0, text.lower().find(word.lower()))
    begin, end = max(0, at - SNIPPET_CHARACTERS // 2), at + len(word) + SNIPPET_CHARACTERS // 2
    shown = f"{text[begin:at]}{marks[0]}{text[at : at + len(word)]}{marks[1]}{text[at + len(word) : end]}"
    return f"{'…' if begin else ''}{shown}{'…' if end < len(text) else ''}"


def _write_row(
    connection: sqlite3.Connection,
    state: _State,
    summary: _Summary,
    offset: int,
    anchor: bytes,
    *,
    whole: bool,
    glanced: bool = False,
) -> int:
    """Make or change the row of a file. A glance changes nothing once reading has begun."""
    header = summary.header or JournalHeader("", "", "")
    values = {
        "path": state.path,
        "size": state.size,
        "mtime": state.mtime,
        "inode": state.inode,
        "offset": offset,
        "anchor": anchor,
        "whole": whole,
        "session_id": storable(header.id),
        "name": None if summary.name is None else storable(summary.name),
        "cwd": storable(header.cwd),
        "parent": None if header.parent_session is None else storable(header.parent_session),
        "created": storable(header.timestamp),
        "agent": None if header.agent is None else storable(header.agent),
        "first_message": storable(summary.first),
        "last_text": storable(summary.last),
        "message_count": summary.count,
        "is_failed": summary.is_failed,
        "last_prompt": storable(summary.prompt),
        "is_one_shot": summary.is_one_shot,
        "fault": storable(summary.fault),
        "cost": summary.cost,
    }
    changes = ", ".join(f"{name} = excluded.{name}" for name in values if name != "path")
    connection.execute(
        f"INSERT INTO files ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
        f" ON CONFLICT (path) DO UPDATE SET {changes} {'WHERE files.offset = 0' if glanced else ''}",
        tuple(values.values()),
    )
    (id,) = connection.execute("SELECT id FROM files WHERE path = ?", (state.path,)).fetchone()
    return int(id)


def _anchor(file: Any, offset: int) -> bytes:
    begin = max(0, offset - ANCHOR)
    file.seek(begin)
    return bytes(file.read(offset - begin))


def _lines_of(file: Any) -> tuple[bytes, int]:
    """Some whole lines from here on, and how many bytes they take: none if there is only a part of a line.

    A line that is longer than a journal may have is passed over.
    """
    blocks: list[bytes] = []
    size = 0
    while block := file.read(BLOCK):
        end = (
            block.find(b"\n") if size else block.rfind(b"\n")
        ) + 1  # the rest of a long line, or all there is
        if end:
            size += end
            return (b"".join(blocks) + block[:end] if size <= MAX_LINE else b""), size
        size += len(block)
        if size <= MAX_LINE:
            blocks.append(block)
    return b"", 0
