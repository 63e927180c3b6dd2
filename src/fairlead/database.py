"""A SQLite file that several processes use at once: how it is opened, migrated, repaired and searched.

It is opened when it is first needed. A file that SQLite can't read is set aside, never deleted, and a new one
begun; one that only holds what can be computed again is removed instead. Where SQLite has no full-text search
(FTS5) the same questions are answered more slowly, and the index is made up when it can be.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

BUSY_SECONDS = 5.0
"""How long a statement waits for another process to end its own."""
OPEN_SECONDS = 10.0
"""How long to wait for another process that opens, migrates or repairs the file."""
OPEN_PAUSE = 0.01
"""How often to look whether it has."""
MAX_FAULTS = 100
"""How many faults are told."""
MAX_WORDS = 32
"""How many words of a question are looked for,"""
MAX_WORD_LENGTH = 64
"""and how much of each."""
MIN_BEGINNING = 3
"""How long a word must be to stand for all that begin with it: shorter ones would begin half of the words."""

T = TypeVar("T")
Row = tuple[object, ...]
Migrations = Sequence[Sequence[str]]
"""For each version of a schema the statements that lead to it from the one before."""


class DatabaseFault(Exception):
    """A file that can't be used. Says which, and why."""


class FullText(NamedTuple):
    """A full-text index over some columns of a table with an integer key `id`."""

    table: str
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.table}_text"

    @property
    def make(self) -> str:
        columns = ", ".join(self.columns)
        options = f"content='{self.table}', content_rowid='id', tokenize='unicode61 remove_diacritics 2'"
        return f"CREATE VIRTUAL TABLE {self.name} USING fts5({columns}, {options})"

    @property
    def add(self) -> str:
        """Index a row: its id, then its columns."""
        marks = ", ".join("?" * (len(self.columns) + 1))
        return f"INSERT INTO {self.name}(rowid, {', '.join(self.columns)}) VALUES ({marks})"

    def drop(self, condition: str) -> str:
        """Forget rows, before they are deleted."""
        columns = ", ".join(self.columns)
        return (
            f"INSERT INTO {self.name}({self.name}, rowid, {columns})"
            f" SELECT 'delete', id, {columns} FROM {self.table} WHERE {condition}"
        )


class Database:
    """One file. Its methods may be called from any thread; they wait for each other."""

    def __init__(
        self,
        path: str,
        migrations: Migrations,
        index: FullText | None = None,
        *,
        derived: bool = False,
        full_text: bool = True,
    ) -> None:
        self.path = path
        self.index = index
        self.faults: list[str] = []
        """What was wrong with the file."""
        self.full_text = full_text
        """Whether there is full-text search, once the file is open."""
        self._migrations = migrations
        self._derived = derived
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._inode = -1

    def __repr__(self) -> str:
        return f"<Database {self.path}, {'closed' if self._connection is None else 'open'}>"

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                connection, self._connection = self._connection, None
                connection.close()

    def read(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """The rows that a statement selects."""
        return self.run(lambda connection: connection.execute(statement, values).fetchall())

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work in one transaction. It is called again if the file had to be begun anew."""

        def transaction(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a file that is corrupt may refuse even this
                    connection.execute("ROLLBACK")
                raise
            return result

        return self.run(transaction)

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work that reads. Raises DatabaseFault."""
        with self._lock:
            try:
                try:
                    return work(self._opened())
                except sqlite3.DatabaseError as error:
                    if not _is_corrupt(error):
                        raise
                    self._replace(error)
                    return work(self._opened())
            except sqlite3.Error as error:
                raise DatabaseFault(f"can't use {self.path}: {error}") from None

    def searches(self) -> bool:
        """Whether there is full-text search."""
        return self.run(lambda connection: self.full_text)

    # --- opening ------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                if os.stat(self.path).st_ino == self._inode:
                    return self._connection
            self.close()  # another process set the file aside, or somebody deleted it
        try:
            os.makedirs(os.path.dirname(self.path) or ".", mode=0o700, exist_ok=True)
            with self._alone():
                try:
                    return self._open()
                except sqlite3.DatabaseError as error:
                    if not _is_corrupt(error):
                        raise
                    self._set_aside(str(error))
                    return self._open()
        except OSError as error:
            raise DatabaseFault(f"can't open {self.path}: {error.strerror}") from None

    def _open(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._inode = os.stat(self.path).st_ino
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            self._migrate(connection)
            self._prepare_index(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        known = len(self._migrations)
        if version == known:
            return
        if version > known and not self._derived:
            raise DatabaseFault(
                f"{self.path} has version {version} of its schema, from a newer fairlead;"
                f" this one knows {known}"
            )
        if version > known:
            raise sqlite3.DatabaseError(_NEWER)
        connection.execute("BEGIN IMMEDIATE")
        for statements in self._migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {known}")
        connection.execute("COMMIT")

    def _prepare_index(self, connection: sqlite3.Connection) -> None:
        """Make the index, and fill it if rows were added by somebody who had none."""
        if self.index is None:
            self.full_text = False
            return
        stale_mark = f"{self.index.name}_stale"
        there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if self.full_text:
            found = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone()
            self.full_text = found is not None
        if self.full_text and (self.index.name not in there or stale_mark in there):
            connection.execute("BEGIN IMMEDIATE")
            if self.index.name not in there:
                connection.execute(self.index.make)
            connection.execute(f"INSERT INTO {self.index.name}({self.index.name}) VALUES ('rebuild')")
            connection.execute(f"DROP TABLE IF EXISTS {stale_mark}")
            connection.execute("COMMIT")
        elif not self.full_text and stale_mark not in there:
            connection.execute(f"CREATE TABLE {stale_mark} (since TEXT)")

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from opening and repairing the file meanwhile."""
        descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + OPEN_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise DatabaseFault(
                            f"another process has been opening {self.path} for too long"
                        ) from None
                    time.sleep(OPEN_PAUSE)
            yield
        finally:
            os.close(descriptor)

    # --- repairing ----------------------------------------------------------------------------------------

    def _replace(self, error: sqlite3.DatabaseError) -> None:
        """Take a file out of the way that turned out to be corrupt, unless another process did it already."""
        inode = self._inode
        self.close()
        with self._alone(), contextlib.suppress(FileNotFoundError):
            if os.stat(self.path).st_ino == inode:
                self._set_aside(str(error))

    def _set_aside(self, why: str) -> None:
        kept = _unused(f"{self.path}.corrupt")
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                if self._derived or suffix == "-shm":
                    os.unlink(self.path + suffix)
                else:
                    os.rename(self.path + suffix, kept + suffix)
        fate = "was removed, to be made again" if self._derived else f"was set aside as {kept}"
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(f"{self.path} can't be read ({why}); it {fate}")


_NEWER = "made by a newer version"


def _is_corrupt(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return error.args == (_NEWER,)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _unused(path: str) -> str:
    """A path that is free: this one with a number."""
    number = 1
    while os.path.lexists(f"{path}-{number}"):
        number += 1
    return f"{path}-{number}"


# --- searching --------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W_]+")


def storable(text: str) -> str:
    """The text as SQLite can hold it: halves of surrogate pairs and NULs are replaced."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def words_of(text: str) -> list[str]:
    """The words that a text is searched for by."""
    found = (match[0][:MAX_WORD_LENGTH] for match in _WORD.finditer(storable(text)))
    return list(dict.fromkeys(word for word, _ in zip(found, range(MAX_WORDS))))


def matching(words: Sequence[str], *, every: bool) -> str:
    """An FTS5 expression: beginnings of words, all of them or any. Quoted, so nothing is taken for syntax."""
    terms = [f'"{word}"*' if len(word) >= MIN_BEGINNING else f'"{word}"' for word in words]
    return (" AND " if every else " OR ").join(terms)


def containing(text: str) -> str:
    r"""A pattern for `LIKE ? ESCAPE '\'`: the text anywhere."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", storable(text)) + "%"
