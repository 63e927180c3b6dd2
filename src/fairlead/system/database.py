"""A SQLite file that several processes use at once: how it is opened, migrated, repaired and searched.

It is opened when it is first needed. A file that SQLite can't read is set aside, never deleted, and a new one
begun; one that only holds what can be computed again is removed instead, or made in memory where no file can
be. Where SQLite has no full-text search (FTS5) the same questions are answered more slowly, and the index is
rebuilt when possible.

Another process may lock the file for seconds, and a statement may take that long by itself. So each file has
a thread of its own, and whoever has an event loop awaits `Database.thread.run` and calls nothing else here.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import sqlite3
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Self, TypeVar

BUSY_SECONDS = 5.0
"""How long a statement waits for another process to end its own."""
OPEN_SECONDS = 10.0
"""How long to wait for another process that opens, migrates or repairs the file."""
OPEN_PAUSE = 0.01
"""How often to look whether it has."""
MAX_WORKS = 1000
"""How many works may wait for the thread of a file."""
CLOSE_SECONDS = 2.0
"""How long closing waits for the works that were asked for before: others may lock the file for longer."""
MAX_PAGES_IN_MEMORY = 65_536
"""How many pages, of 4 KiB each, what can be computed again may have where no file can be."""
MAX_FAULTS = 100
"""How many faults are told."""
MAX_WORDS = 32
"""How many words of a question are looked for,"""
MAX_WORD_LENGTH = 64
"""and how much of each."""
MIN_BEGINNING = 3
"""How long a word must be to stand for all that begin with it: shorter ones would begin half of the words."""

log = logging.getLogger("fairlead")

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


class DatabaseThread:
    """A thread that does works one after the other, in the order in which they were asked for.

    It begins with the first work. It never keeps the process from ending.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._works: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._is_idle = True
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Do some work on the thread; return or raise what it does. Raises DatabaseFault if too much waits.

        A caller that is cancelled leaves work that has begun to its end; what has not begun is not done.
        """
        import asyncio  # not for command lines, which have no loop and must start quickly

        return await asyncio.wrap_future(self.submit(work))

    def soon(self, work: Callable[[], object]) -> None:
        """Do some work that nobody waits for; what goes wrong is logged. For what may be lost in a crash."""
        try:
            self.submit(work).add_done_callback(_log_fault)
        except DatabaseFault as fault:
            log.warning("%s", fault)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Put some work last in the line. Raises DatabaseFault if too much waits."""
        future: Future[T] = Future()
        with self._changed:
            if self._is_closed:
                raise DatabaseFault(f"{self._path} is closed")
            if len(self._works) >= MAX_WORKS:
                raise DatabaseFault(
                    f"{MAX_WORKS} operations are already queued for {self._path}; is it locked?"
                )
            self._works.append((future, work))
            if self._thread is None:
                name = f"fairlead {os.path.basename(self._path)}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return future

    async def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Take no more work, and wait so long for what was asked for; true if all of it was done."""
        import asyncio

        return await asyncio.to_thread(self._drained, seconds)

    def _drained(self, seconds: float) -> bool:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: self._is_idle and not self._works, seconds)
        if not done:
            log.warning("%s is locked or busy; %d operations were not done", self._path, len(self._works))
        return done

    def _work(self) -> None:
        while True:
            with self._changed:
                self._is_idle = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._works or self._is_closed)
                if not self._works:
                    return
                future, work = self._works.popleft()
                self._is_idle = False
            _do(future, work)
            del future, work  # nothing is kept while the thread waits


def _do(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # it belongs to whoever waits for it
        future.set_exception(error)
    else:
        future.set_result(result)


def _log_fault(future: Future[Any]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("%s", error)


class Database:
    """One file. Its methods may be called from any thread; they wait for each other, and for other processes.

    So none of them is called where an event loop runs; see `thread`.
    """

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
        self.thread = DatabaseThread(path)
        """Where whoever has an event loop lets work be done: `await database.thread.run(work)`."""
        self.is_in_memory = False
        """True while there is no file, because none can be there; only for what can be computed again."""
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

    async def aclose(self) -> None:
        """Close it after the works that were asked for, or leave it to the end of the process."""
        with contextlib.suppress(DatabaseFault):
            self.thread.submit(self.close)
        await self.thread.close()

    def check(self) -> list[str]:
        """What is or was wrong with the file; nothing if it can be written to."""
        try:
            self.write(lambda connection: None)
        except DatabaseFault as fault:
            return [*self.faults, str(fault)]
        return list(self.faults)

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
                    if _is_corrupt(error):
                        self._replace(error)
                    elif self._derived and not self.is_in_memory and _is_useless(error):
                        self._do_without_file(str(error))
                    else:
                        raise
                    return work(self._opened())
            except sqlite3.Error as error:
                raise DatabaseFault(f"can't use {self.path}: {error}") from None

    def searches(self) -> bool:
        """Whether there is full-text search."""
        return self.run(lambda connection: self.full_text)

    # --- opening ------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None:
            if self.is_in_memory:
                return self._connection
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
            if self._derived:
                return self._do_without_file(error.strerror or str(error))
            raise DatabaseFault(f"can't open {self.path}: {error.strerror}") from None

    def _open(self) -> sqlite3.Connection:
        for suffix in ("-wal", "-shm"):
            if os.path.lexists(self.path + suffix):
                os.close(self._usable(self.path + suffix))
        descriptor = self._usable(self.path)
        self._inode = os.fstat(descriptor).st_ino
        os.close(descriptor)
        return self._connect(self.path)

    def _connect(self, path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
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

    def _usable(self, path: str) -> int:
        """A descriptor of a file that can be read and written. What keeps it from that is put right."""
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode):  # a directory, a pipe
                self._set_aside("it is not a file", path, (path,))
            elif found.st_uid == os.geteuid() and found.st_mode & 0o600 != 0o600:
                os.chmod(path, 0o600)
                self._fault(f"{path} had mode {stat.S_IMODE(found.st_mode):04o}; it was changed to 0600")
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _do_without_file(self, why: str) -> sqlite3.Connection:
        """Begin anew without a file of ours: SQLite has a nameless one, which it removes itself."""
        self.close()
        self._fault(f"{self.path} can't be used ({why}); it is rebuilt in memory each time")
        self.is_in_memory = True
        connection = self._connect("")
        connection.execute(f"PRAGMA max_page_count = {MAX_PAGES_IN_MEMORY}")
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        known = len(self._migrations)
        if version == known:
            return
        if version > known and not self._derived:
            raise DatabaseFault(
                f"{self.path} has schema version {version}, from a newer Fairlead;"
                f" this one supports version {known}"
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
        descriptor = self._usable(f"{self.path}.lock")
        try:
            deadline = time.monotonic() + OPEN_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise DatabaseFault(f"timed out: another process is opening {self.path}") from None
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

    def _set_aside(self, why: str, path: str = "", paths: Sequence[str] = ()) -> None:
        path = path or self.path
        kept = _unused(f"{path}.corrupt")
        is_kept = not self._derived or bool(paths)
        for each in paths or [f"{path}{suffix}" for suffix in ("", "-wal", "-shm")]:
            with contextlib.suppress(FileNotFoundError):
                if is_kept and not each.endswith("-shm"):
                    os.rename(each, kept + each.removeprefix(path))
                else:
                    os.unlink(each)
        fate = f"was moved to {kept}" if is_kept else "was removed and will be rebuilt"
        self._fault(f"{path} can't be read ({why}); it {fate}")

    def _fault(self, fault: str) -> None:
        if len(self.faults) < MAX_FAULTS and fault not in self.faults:
            self.faults.append(fault)
            log.warning("%s", fault)


_NEWER = "made by a newer version"


def _is_corrupt(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return error.args == (_NEWER,)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _is_useless(error: sqlite3.DatabaseError) -> bool:
    """True if the file, or the disk that it is on, can't be used, whoever waits."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    )


def _unused(path: str) -> str:
    """A path that is free: this one with a number."""
    number = 1
    while os.path.lexists(f"{path}-{number}"):
        number += 1
    return f"{path}-{number}"


class Stored:
    """What a store in one file has from that: a thread, its faults, and its end."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._database.path}>"

    @property
    def faults(self) -> list[str]:
        """What was wrong with the file: a damaged one is set aside, and a new one begun."""
        return self._database.faults

    @property
    def thread(self) -> DatabaseThread:
        """Where whoever has an event loop lets the methods be called: they may wait for seconds."""
        return self._database.thread

    def check(self) -> list[str]:
        """What is or was wrong with the file."""
        return self._database.check()

    async def aclose(self) -> None:
        """Close it after what was asked of its thread."""
        await self._database.aclose()

    def close(self) -> None:
        self._database.close()


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
