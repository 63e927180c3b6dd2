"""What was remembered: short texts with tags, found again by their words, in a SQLite file.

Several processes may use the file at once. `/remember` writes here; the ops `remember` and `recall` and the
attributes `:psi.memory/*` read and write it for everybody else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from ...formats.edn import Keyword
from ...system.database import (
    Database,
    DatabaseFault,
    FullText,
    Stored,
    containing,
    matching,
    storable,
    words_of,
)
from ..journal import timestamp
from ..query.registry import Inputs, Params, QueryError, Resolver, TextKeys

MAX_TEXT = 16 * 1024
"""How many characters an entry may have."""
MAX_TAGS = 32
"""How many tags an entry may have,"""
MAX_TAG_LENGTH = 64
"""and how long each."""
MAX_ENTRIES = 50_000
"""How many entries are kept."""
MAX_QUESTION = 1000
"""How many characters of a question are looked at."""
MAX_FOUND = 1000
"""How many entries one call gives at most."""
RECENT = 20
"""How many entries are given if nobody says how many."""

T = TypeVar("T")

_MIGRATIONS = (
    (
        """CREATE TABLE entries (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            text TEXT NOT NULL,
            tags TEXT NOT NULL,
            kind TEXT NOT NULL,
            session_id TEXT,
            created TEXT NOT NULL
        )""",
        """CREATE TABLE tags (
            tag TEXT NOT NULL,
            entry INTEGER NOT NULL REFERENCES entries(id),
            PRIMARY KEY (tag, entry)
        ) WITHOUT ROWID""",
        "CREATE INDEX tags_by_entry ON tags (entry)",
    ),
)
_INDEX = FullText("entries", ("text", "tags"))
_COLUMNS = "entries.id, entries.text, entries.tags, entries.kind, entries.session_id, entries.created"


class MemoryFault(Exception):
    """Something that can't be remembered or recalled. Says why."""


class Remembered(NamedTuple):
    """An entry of the memory."""

    id: int
    text: str
    tags: tuple[str, ...]
    kind: str
    session_id: str | None
    created: str


class MemoryStats(NamedTuple):
    """What the memory holds, and how it is."""

    entries: int
    tags: Mapping[str, int]
    """How many entries have each tag."""
    kinds: Mapping[str, int]
    full_text: bool
    faults: tuple[str, ...]


class Memory(Stored):
    """The memory in a file, which is opened when it is first used.

    >>> memory = Memory("/tmp/memory.db")
    >>> memory.remember("deploys go through the green cluster", tags=["deploy"])
    >>> memory.recall("how do we deploy")
    """

    def __init__(self, path: str, *, full_text: bool = True) -> None:
        super().__init__(Database(path, _MIGRATIONS, _INDEX, full_text=full_text))

    # --- writing ------------------------------------------------------------------------------------------

    def remember(
        self, text: str, tags: Iterable[str] = (), session_id: str | None = None, kind: str = "note"
    ) -> Remembered:
        """Keep a text. Raises MemoryFault."""
        text = storable(text).strip()
        if not text:
            raise MemoryFault("nothing to remember: the text is blank")
        if len(text) > MAX_TEXT:
            raise MemoryFault(f"a text of {len(text)} characters; at most {MAX_TEXT} can be remembered")
        kept_tags, kept_kind = _checked_tags(tags), _checked_tag(kind, "kind")
        session_id = None if session_id is None else storable(session_id)[:MAX_QUESTION]
        values = (text, "\n".join(kept_tags), kept_kind, session_id, timestamp())

        def work(connection: sqlite3.Connection) -> int:
            (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
            if count >= MAX_ENTRIES:
                raise MemoryFault(f"the memory is full: it has {count} entries; forget some")
            added = connection.execute(
                "INSERT INTO entries (text, tags, kind, session_id, created) VALUES (?, ?, ?, ?, ?)", values
            )
            id = added.lastrowid
            assert id is not None
            connection.executemany("INSERT INTO tags VALUES (?, ?)", [(tag, id) for tag in kept_tags])
            if self._database.full_text:
                connection.execute(_INDEX.add, (id, *values[:2]))
            return id

        id = _as_tool_error(lambda: self._database.write(work))
        return Remembered(id, text, kept_tags, kept_kind, session_id, values[-1] or "")

    def forget(self, id: int) -> bool:
        """Delete an entry. Says whether there was one."""

        def work(connection: sqlite3.Connection) -> bool:
            if self._database.full_text:
                connection.execute(_INDEX.drop("id = ?"), (id,))
            connection.execute("DELETE FROM tags WHERE entry = ?", (id,))
            return connection.execute("DELETE FROM entries WHERE id = ?", (id,)).rowcount > 0

        if not 0 < id < 2**63:
            return False
        return _as_tool_error(lambda: self._database.write(work))

    # --- reading ------------------------------------------------------------------------------------------

    def recall(self, question: str, tags: Iterable[str] = (), limit: int = RECENT) -> list[Remembered]:
        """The entries that have words of a question, the best first. With tags: only those with them all.

        A blank question stands for every entry, the newest first.
        """
        question = storable(question[:MAX_QUESTION]).strip()
        wanted = _checked_tags(tags)
        if not question:
            return self._select("", "", (), wanted, limit)
        words = words_of(question)
        searches = _as_tool_error(self._database.searches)
        if words and searches:
            found = self._select(
                f"JOIN {_INDEX.name} ON {_INDEX.name}.rowid = entries.id",
                f"{_INDEX.name} MATCH ?",
                (matching(words, every=False),),
                wanted,
                limit,
                order=f"bm25({_INDEX.name}), entries.id DESC",
            )
            if found:
                return found
        # in the middle of words, which the index does not know; or each word, without an index
        patterns = [containing(part) for part in ([question] if searches else words or [question])]
        hits = " + ".join([r"((entries.text || ' ' || entries.tags) LIKE ? ESCAPE '\')"] * len(patterns))
        return self._select(
            "",
            f"({hits}) > 0",
            tuple(patterns),
            wanted,
            limit,
            f"{hits} DESC, entries.id DESC",
            tuple(patterns),
        )

    def recent(self, limit: int = RECENT, offset: int = 0) -> list[Remembered]:
        """The newest entries, the newest first."""
        return self._select("", "", (), (), limit, offset=offset)

    def by_tag(self, tag: str, limit: int = RECENT) -> list[Remembered]:
        """The entries with a tag, the newest first."""
        return self._select("", "", (), (_checked_tag(tag, "tag"),), limit)

    def count(self) -> int:
        ((count,),) = _as_tool_error(lambda: self._database.read("SELECT count(*) FROM entries"))
        return int(str(count))

    def stats(self) -> MemoryStats:
        """How many entries there are, by tag and by kind."""

        def work(connection: sqlite3.Connection) -> MemoryStats:
            tags = connection.execute("SELECT tag, count(*) FROM tags GROUP BY tag ORDER BY 2 DESC, 1")
            kinds = connection.execute("SELECT kind, count(*) FROM entries GROUP BY kind ORDER BY 2 DESC, 1")
            by_kind = dict(kinds.fetchall())
            return MemoryStats(
                sum(by_kind.values()),
                dict(tags.fetchmany(MAX_FOUND)),
                by_kind,
                self._database.full_text,
                tuple(self.faults),
            )

        return _as_tool_error(lambda: self._database.run(work))

    def _select(
        self,
        join: str,
        condition: str,
        values: tuple[object, ...],
        tags: tuple[str, ...],
        limit: int,
        order: str = "entries.id DESC",
        order_values: tuple[object, ...] = (),
        offset: int = 0,
    ) -> list[Remembered]:
        conditions = [condition] if condition else []
        if tags:
            marks = ", ".join("?" * len(tags))
            conditions.append(
                f"entries.id IN (SELECT entry FROM tags WHERE tag IN ({marks})"
                f" GROUP BY entry HAVING count(*) = {len(tags)})"
            )
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        statement = f"SELECT {_COLUMNS} FROM entries {join} {where} ORDER BY {order} LIMIT ? OFFSET ?"
        bounds = (max(0, min(limit, MAX_FOUND)), max(0, min(offset, MAX_ENTRIES)))
        rows = _as_tool_error(
            lambda: self._database.read(statement, (*values, *tags, *order_values, *bounds))
        )
        return [_remembered(*row) for row in rows]


def _remembered(id: Any, text: Any, tags: Any, kind: Any, session_id: Any, created: Any) -> Remembered:
    return Remembered(id, text, tuple(tags.split("\n")) if tags else (), kind, session_id, created)


def _as_tool_error(work: Callable[[], T]) -> T:
    try:
        return work()
    except DatabaseFault as fault:
        raise MemoryFault(str(fault)) from None


def _checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    checked = tuple(dict.fromkeys(_checked_tag(tag, "tag") for tag in tags))
    if len(checked) > MAX_TAGS:
        raise MemoryFault(f"{len(checked)} tags; at most {MAX_TAGS} are allowed")
    return checked


def _checked_tag(tag: str, what: str) -> str:
    tag = storable(tag).strip().lower()
    if not tag or len(tag) > MAX_TAG_LENGTH or len(tag.split()) != 1 or not tag.isprintable():
        raise MemoryFault(f"a {what} must be one word of at most {MAX_TAG_LENGTH} characters")
    return tag


# --- attributes -------------------------------------------------------------------------------------------

_ROW = tuple(
    f"psi.memory.entry/{name}" for name in ("id", "text", "tags", "kind", "session-id", "created-at")
)


def memory_resolvers(memory: Memory) -> tuple[Resolver, ...]:
    """`:psi.memory/*`. Entries take `:limit` and `:offset`, searching also `:text` and `:tags`."""

    def resolver(
        name: str,
        outputs: tuple[str, ...],
        run: Callable[[Inputs, Params], Mapping[str, Any]],
        *,
        rows: bool = True,
    ) -> Resolver:
        def told(inputs: Inputs, params: Params) -> Mapping[str, Any]:
            try:
                return run(inputs, params)
            except MemoryFault as fault:
                raise QueryError(str(fault)) from None

        names = tuple(f"psi.memory/{output}" for output in outputs)
        given_rows = {names[0]: _ROW} if rows and len(names) == 1 else {}
        return Resolver(f"psi.memory/{name}", (), names, told, given_rows, memory.thread)

    def entries(inputs: Inputs, params: Params) -> Mapping[str, Any]:
        found = memory.recent(_number(params, "limit", MAX_FOUND), _number(params, "offset", 0))
        return {"psi.memory/entries": _rows(found)}

    def recent(inputs: Inputs, params: Params) -> Mapping[str, Any]:
        return {"psi.memory/recent-entries": _rows(memory.recent(_number(params, "limit", RECENT)))}

    def search(inputs: Inputs, params: Params) -> Mapping[str, Any]:
        text, tags = params.get("text", ""), _tags_of(params)
        if not isinstance(text, str):
            raise QueryError(":psi.memory/search-results takes :text, which must be a string")
        found = memory.recall(text, tags, _number(params, "limit", RECENT)) if text.strip() or tags else []
        return {"psi.memory/search-results": _rows(found)}

    def by_tag(inputs: Inputs, params: Params) -> Mapping[str, Any]:
        limit = _number(params, "limit", RECENT)
        tags = _tags_of(params) or list(memory.stats().tags)[:MAX_TAGS]
        return {"psi.memory/by-tag": TextKeys((tag, _rows(memory.by_tag(tag, limit))) for tag in tags)}

    def status(inputs: Inputs, params: Params) -> Mapping[str, Any]:
        try:
            return {"psi.memory/status": Keyword("ready"), "psi.memory/entry-count": memory.count()}
        except MemoryFault:
            return {"psi.memory/status": Keyword("unavailable"), "psi.memory/entry-count": None}

    def stats(inputs: Inputs, params: Params) -> Mapping[str, Any]:
        stats = memory.stats()
        values = {
            "entry-count": stats.entries,
            "by-tag": TextKeys(stats.tags),
            "by-kind": TextKeys(stats.kinds),
            "full-text": stats.full_text,
            "faults": stats.faults,
        }
        return {"psi.memory/index-stats": values}

    return (
        resolver("status", ("status", "entry-count"), status),
        resolver("entries", ("entries",), entries),
        resolver("recent-entries", ("recent-entries",), recent),
        resolver("search", ("search-results",), search),
        resolver("by-tag", ("by-tag",), by_tag, rows=False),
        resolver("index-stats", ("index-stats",), stats, rows=False),
    )


def _rows(entries: list[Remembered]) -> list[dict[str, Any]]:
    return [dict(zip(_ROW, entry)) for entry in entries]


def _number(params: Params, name: str, default: int) -> int:
    value = params.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise QueryError(f"parameter :{name} must be an integer of at least 0")
    return value


def _tags_of(params: Params) -> list[str]:
    """`:tag "x"` or `:tags ["x" :y]`."""
    tags = params.get("tags", [params["tag"]] if "tag" in params else [])
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str | Keyword) for tag in tags):
        raise QueryError("parameter :tags must be a vector of strings or keywords")
    return [tag.name if isinstance(tag, Keyword) else tag for tag in tags]
