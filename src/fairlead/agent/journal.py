"""A session's journal: a file in Pi's format 3, one JSON object a line, that is only ever appended to.

The first line is the header; every other line is an entry with an id, its parent's id and a time, so that the
entries form a tree and the conversation is a path in it. An entry is written with one call and counts only
when all of it is in the file; after a crash a torn last line is cut off and kept beside the journal. Lines
that make no sense, and kinds of entries that we don't know, stay as they are and are told.

This module knows the form of a file, and nothing of what a conversation is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from ..system.opening import UNFOLLOWED, open_file, open_regular
from .messages import Image, Message, Text

VERSION = 3
MAX_LINE = 64 * 1024 * 1024
"""How long a line may be; a longer one is kept but not read."""
MAX_FAULTS = 100
"""How many faults of a file are told in detail."""
MAX_DEPTH = 100
"""How deep the values of a line may nest; what is deeper is kept but not read."""


class JournalError(Exception):
    """A journal that can't be read or written. Says which file and why."""


# --- what an entry says -----------------------------------------------------------------------------------


class Said(Struct, frozen=True, tag_field="type", tag="message"):
    """A message of the conversation."""

    message: Message
    at: int | msgspec.UnsetType = msgspec.UNSET
    """Where in the output of a hosted agent's program it was complete, so that it is written once."""


class ModelChange(Struct, frozen=True, tag_field="type", tag="model_change", rename="camel"):
    provider: str
    model_id: str


class ThinkingLevelChange(Struct, frozen=True, tag_field="type", tag="thinking_level_change", rename="camel"):
    thinking_level: str


class Compaction(Struct, frozen=True, tag_field="type", tag="compaction", rename="camel"):
    """What came before an entry was summed up."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int = 0


class BranchSummary(Struct, frozen=True, tag_field="type", tag="branch_summary", rename="camel"):
    from_id: str
    summary: str


class Custom(Struct, frozen=True, tag_field="type", tag="custom", rename="camel"):
    """Something that only its writer understands. It is not part of the conversation."""

    custom_type: str
    data: Any = None


class CustomMessage(Struct, frozen=True, tag_field="type", tag="custom_message", rename="camel"):
    """Something that a program put into the conversation."""

    custom_type: str
    content: str | tuple[Text | Image, ...]
    display: bool = True
    details: Any = None


class Label(Struct, frozen=True, tag_field="type", tag="label", rename="camel"):
    target_id: str
    label: str | None = None


class SessionInfoEntry(Struct, frozen=True, tag_field="type", tag="session_info"):
    name: str


class UnknownBody(Struct, frozen=True):
    """A line that we keep and don't understand."""

    fault: str


Body = (
    Said
    | ModelChange
    | ThinkingLevelChange
    | Compaction
    | BranchSummary
    | Custom
    | CustomMessage
    | Label
    | SessionInfoEntry
)


class Entry(NamedTuple):
    """One line after the header."""

    id: str
    parent_id: str | None
    timestamp: str
    body: Body | UnknownBody
    line: int
    """Its number in the file, from 1; the header is the first."""


class JournalHeader(Struct, frozen=True, tag_field="type", tag="session", rename="camel", omit_defaults=True):
    """The first line of a journal."""

    id: str
    timestamp: str
    cwd: str
    version: int = 1
    parent_session: str | None = None
    """The file that this one was forked from."""
    agent: str | None = None
    """The third-party agent that does the work, if it is not our own."""


class _Head(Struct, rename="camel"):
    id: str = ""
    parent_id: str | None = None
    timestamp: str = ""


BAD_LINE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding a line may raise: it is no JSON of ours, no UTF-8, or nests too deep."""
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def check_depth(line: bytes) -> None:
    """Raise RecursionError for a line that nests deeper than what handles it could follow.

    The innermost pairs of brackets are taken away as often as they may nest. Each time is a pass over the
    bytes in C, so that millions of brackets take no longer than reading them does.
    """
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return
    plain = line.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in line else line
    brackets = b"".join(plain.split(b'"')[::2]).translate(_SQUARE, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return
        if _TOO_DEEP in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    if brackets:
        raise RecursionError(f"it nests deeper than {MAX_DEPTH}, or its brackets don't match")


_TOO_DEEP = b"[" * (MAX_DEPTH + 1)


_decode_header = msgspec.json.Decoder(JournalHeader).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_body = msgspec.json.Decoder(Body).decode


def timestamp() -> str:
    """The time as an entry has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- the file ---------------------------------------------------------------------------------------------


class Journal:
    """An open journal. `leaf` is the entry that the next one follows."""

    def __init__(self, path: str, header: JournalHeader) -> None:
        self.path = path
        self.header = header
        self.entries: list[Entry] = []
        self.faults: list[str] = []
        """What was wrong with the file when it was opened."""
        self.leaf: str | None = None
        self._by_id: dict[str, Entry] = {}
        self._lines = 1
        self._descriptor = -1
        self._branch: list[Entry] = []
        self._branch_leaf: str | None = None
        self._appending = False  # not while a file is read: nobody looks at the branch then

    def __repr__(self) -> str:
        return f"<Journal {self.path}, {len(self.entries)} entries>"

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @classmethod
    def create(
        cls, path: str, *, id: str, cwd: str, parent_session: str | None = None, agent: str | None = None
    ) -> Journal:
        """A new file, which must not be there yet."""
        header = JournalHeader(id, timestamp(), cwd, VERSION, parent_session, agent)
        journal = cls(path, header)
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            journal._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise JournalError(f"can't create {path}: {error.strerror}") from None
        journal._lock()
        journal._write(msgspec.json.encode(_header_line(header)) + b"\n")
        return journal

    @classmethod
    def open(cls, path: str, *, writable: bool = True) -> Journal:
        """A file that is there. A torn last line is cut off if it is `writable`, else passed over."""
        try:
            descriptor = open_regular(path, os.O_RDWR | os.O_APPEND if writable else os.O_RDONLY)
        except OSError as error:
            raise JournalError(f"can't open {path}: {error.strerror}") from None
        try:
            with open(descriptor, "rb", closefd=False) as file:
                first = file.readline(MAX_LINE)
                journal = cls(path, _read_header(path, first))
                journal._descriptor = descriptor
                if writable:
                    journal._lock()
                good = len(first)
                for line in _lines(file):
                    if not line.endswith(b"\n") and not journal._completes(line, writable=writable):
                        journal._cut_off(good, line, writable=writable)
                        break
                    journal._read(line)
                    good += len(line)
        except BaseException:
            os.close(descriptor)
            raise
        if not writable:
            journal.close()
        return journal

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    # --- reading ------------------------------------------------------------------------------------------

    def __getitem__(self, id: str) -> Entry:
        return self._by_id[id]

    def __contains__(self, id: str) -> bool:
        return id in self._by_id

    @property
    def lines(self) -> int:
        """How many lines the file has."""
        return self._lines

    def path_to(self, id: str | None) -> list[Entry]:
        """The entries from the root to this one."""
        path: list[Entry] = []
        seen: set[str] = set()
        while id is not None and id in self._by_id and id not in seen:
            seen.add(id)
            entry = self._by_id[id]
            path.append(entry)
            id = entry.parent_id
        path.reverse()
        return path

    @property
    def branch(self) -> list[Entry]:
        """The conversation: the entries from the root to the leaf. It is never changed, but replaced."""
        if self._branch_leaf != self.leaf:
            self._branch, self._branch_leaf = self.path_to(self.leaf), self.leaf
        return self._branch

    def _read(self, line: bytes) -> None:
        self._lines += 1
        if not line.strip():
            return
        try:
            check_depth(line)
            head = _decode_head(line)
        except BAD_LINE as error:
            self._fault(f"line {self._lines}: {error}")
            return
        body: Body | UnknownBody
        try:
            body = _decode_body(line)
        except BAD_LINE as error:
            body = UnknownBody(str(error))
            self._fault(f"line {self._lines}: {error}")
        if not head.id:
            self._fault(f"line {self._lines}: an entry without an id")
            return
        self._add(Entry(head.id, head.parent_id, head.timestamp, body, self._lines))

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._by_id[entry.id] = entry
        self.leaf = entry.id
        if self._appending and entry.parent_id == self._branch_leaf:
            self._branch, self._branch_leaf = [*self._branch, entry], entry.id

    def _fault(self, fault: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(fault)

    def _completes(self, line: bytes, *, writable: bool) -> bool:
        """Whether a last line without its newline is whole all the same; then it gets one."""
        try:
            check_depth(line)
            whole = bool(_decode_head(line).id)
        except BAD_LINE:
            return False
        if whole and writable:
            self._write(b"\n")
        return whole

    def _cut_off(self, size: int, torn: bytes, *, writable: bool) -> None:
        """Remove a line that was not written whole, and keep it elsewhere."""
        if not writable:
            self._fault(f"a torn line of {len(torn)} bytes at the end, passed over")
            return
        kept = f"{self.path}.torn"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | UNFOLLOWED
            with open(os.open(kept, flags, 0o600), "ab") as file:
                file.write(torn + b"\n")
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise JournalError(f"can't repair {self.path}: {error.strerror}") from None
        self._fault(f"a torn line of {len(torn)} bytes was cut off and kept in {kept}")

    # --- writing ------------------------------------------------------------------------------------------

    def append(self, body: Body) -> Entry:
        """Write an entry after the leaf. It is in the file when this returns. Raises JournalError."""
        id = secrets.token_hex(4)
        while id in self._by_id:
            id = secrets.token_hex(4)
        entry = Entry(id, self.leaf, timestamp(), body, self._lines + 1)
        values = msgspec.to_builtins(body)
        line = {
            "type": values.pop("type"),
            "id": id,
            "parentId": entry.parent_id,
            "timestamp": entry.timestamp,
        }
        self._write(msgspec.json.encode(line | values) + b"\n")
        self._lines += 1
        self._appending = True
        self._add(entry)
        return entry

    def fork(self, path: str, *, id: str, upto: str) -> Journal:
        """A new journal with the path up to an entry, which is in it too. Lines are copied as they are."""
        if upto not in self._by_id:
            raise JournalError(f"the conversation has no entry {upto!r}")
        wanted = [entry.line for entry in self.path_to(upto)]
        fork = Journal.create(path, id=id, cwd=self.header.cwd, parent_session=self.path)
        lines = set(wanted)
        with open_file(self.path) as file:
            for number, line in enumerate(_lines(file), 1):
                if number in lines:
                    fork._write(line if line.endswith(b"\n") else line + b"\n")
                    fork._read(line)
                    if number == wanted[-1]:
                        break
        return fork

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JournalError(f"another program writes to {self.path}") from None

    def _write(self, data: bytes) -> None:
        """All of it or nothing."""
        if self._descriptor < 0:
            raise JournalError(f"{self.path} is closed")
        size = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, data)
            while written < len(data):  # a disk that is nearly full takes a part
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise JournalError(f"can't write to {self.path}: {error.strerror}") from None


def _header_line(header: JournalHeader) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(header)
    first = {name: values.pop(name) for name in ("type", "version", "id", "timestamp", "cwd")}
    return first | values


def _read_header(path: str, line: bytes) -> JournalHeader:
    try:
        check_depth(line)
        header = _decode_header(line)
    except BAD_LINE as error:
        raise JournalError(f"{path} is not a session file: {error}") from None
    if header.version != VERSION:
        raise JournalError(f"{path} has version {header.version}; this reads version {VERSION}")
    return header


def directory_of(path: str) -> str | None:
    """The directory that a journal is of, or None if it is none that can be read."""
    try:
        with open_file(path) as file:
            return _read_header(path, file.readline(MAX_LINE)).cwd
    except (OSError, JournalError):
        return None


def _lines(file: Any) -> Iterator[bytes]:
    return iter(file.readline, b"")
