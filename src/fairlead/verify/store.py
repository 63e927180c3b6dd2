"""Reports on disk, and verifications that have begun, in a SQLite file that several processes may use.

A verification is written down before it runs and taken off in the transaction that adds its report. So after
a crash it is known which turns were not judged: `unfinished` gives them.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..system.database import Database, DatabaseFault, Row, Stored, storable
from ..system.processes import is_there, running
from .report import MAX_RAW, Confidence, Report, Status, not_verified

MAX_REPORTS = 100_000
"""How many reports are kept; older ones go."""
MAX_PENDING = 10_000
"""How many verifications may have begun and not ended."""
MAX_LISTED = 10_000
"""How many rows one call gives at most."""
LISTED = 100
"""How many it gives if nobody says how many."""
MAX_ESCALATIONS = 10_000
"""For how many sessions it is kept that a person is needed; older ones go."""
MAX_DETAILS = 64 * 1024
"""How many bytes may be kept about how to run a verification again."""

T = TypeVar("T")

_MIGRATIONS = (
    (
        """CREATE TABLE reports (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            time REAL NOT NULL,
            session_id TEXT NOT NULL,
            project TEXT NOT NULL,
            turn INTEGER NOT NULL,
            kind TEXT NOT NULL,
            verifier TEXT NOT NULL,
            model TEXT NOT NULL,
            status TEXT NOT NULL,
            confidence TEXT NOT NULL,
            summary TEXT NOT NULL,
            duration REAL NOT NULL,
            cost REAL NOT NULL,
            tree TEXT NOT NULL,
            whole BLOB NOT NULL
        )""",
        "CREATE INDEX reports_by_time ON reports (time)",
        "CREATE INDEX reports_by_session ON reports (session_id, time)",
        "CREATE INDEX reports_by_project ON reports (project, time)",
        """CREATE TABLE pending (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            begun REAL NOT NULL,
            session_id TEXT NOT NULL,
            project TEXT NOT NULL,
            turn INTEGER NOT NULL,
            verifier TEXT NOT NULL,
            owner TEXT NOT NULL,
            attempts INTEGER NOT NULL,
            details BLOB NOT NULL
        )""",
    ),
    (
        """CREATE TABLE escalations (
            session_id TEXT PRIMARY KEY,
            turn INTEGER NOT NULL,
            reason TEXT NOT NULL,
            time REAL NOT NULL
        )""",
    ),
    ("ALTER TABLE reports ADD COLUMN stale INTEGER NOT NULL DEFAULT 0",),
    (
        "ALTER TABLE reports ADD COLUMN began REAL NOT NULL DEFAULT 0",
        "ALTER TABLE escalations ADD COLUMN began REAL NOT NULL DEFAULT 0",
        "ALTER TABLE escalations ADD COLUMN settled INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX reports_by_turn ON reports (session_id, began, stale, turn)",
    ),
)
FORMER = -1.0
"""When a session began of which only that is known: another has its id now."""
_COLUMNS = (
    "id, time, session_id, project, turn, kind, verifier, model,"
    " status, confidence, summary, duration, cost, tree"
)
_LISTED = f"{_COLUMNS}, stale"
_LAST = """id IN (SELECT id FROM (
    SELECT id, row_number() OVER
        (PARTITION BY session_id ORDER BY began DESC, stale, turn DESC, id DESC) AS place
    FROM reports) WHERE place = 1)"""
"""Of the sessions of each id only the one that began last counts, and its last turn."""


class ListedReport(NamedTuple):
    """A report as it is listed."""

    id: int
    time: float
    session_id: str
    project: str
    turn: int
    kind: str
    verifier: str
    model: str
    status: Status
    confidence: Confidence
    summary: str
    duration: float
    cost: float
    tree: str
    stale: bool
    """Whether its session has had a later turn."""


class Pending(NamedTuple):
    """A verification that has begun and not ended."""

    id: int
    begun: float
    session_id: str
    project: str
    turn: int
    verifier: str
    owner: str
    details: Mapping[str, object]
    """What whoever began it noted about it."""

    @property
    def is_running(self) -> bool:
        """Whether the process that runs it is there."""
        return _is_there(self.owner)

    def not_verified(self, reason: str = "it was interrupted") -> Report:
        """The report for one that is not run again."""
        report = not_verified(
            reason, turn=self.turn, session_id=self.session_id, project=self.project, verifier=self.verifier
        )
        return msgspec.structs.replace(report, time=time.time())


class Escalation(NamedTuple):
    """A turn for which a person is needed, and why."""

    turn: int
    reason: str
    time: float
    began: float = 0.0
    """When its session began, if others may have the same id; else 0."""
    settled: bool = False
    """Whether a person has seen it, or it is right now."""


class Judgement(NamedTuple):
    """What was said of a session last."""

    turn: int
    confidence: Confidence
    summary: str
    verifier: str
    escalated: str = ""
    """Why a person is needed, if one is."""
    stale: bool = False
    """Whether the session went on after that, and nothing was said of it."""
    called: int = 0
    """The turn for which a person is needed, or was until one had seen it."""
    began: float = 0.0
    """When its session began, if others may have the same id; else 0."""
    at: float = 0.0
    """When it was said."""
    details: str = ""
    """What was found, as far as it is shown to who is called."""

    @classmethod
    def of(cls, row: ListedReport, began: float = 0.0) -> Judgement:
        """What a report says."""
        said = (row.turn, row.confidence, row.summary, row.verifier)
        return cls(*said, stale=row.stale, began=began, at=row.time)

    def is_of(self, began: float) -> bool:
        """Whether it is of the session that began then, and not of an earlier one with the same id."""
        return not began or (self.began == began if self.began else self.at >= began)

    @property
    def line(self) -> str:
        """In a few words, for status lines."""
        call = f", a person is needed: {self.escalated}" if self.escalated else ""
        later = "; what came after it is not verified" if self.stale else ""
        return f"turn {self.turn}: {self.confidence.word}{later}{call}"

    @property
    def check(self) -> str:
        """In a word, for lists: nothing is said of a turn that nobody checked."""
        return ("-" if self.stale else self.confidence.word) + "!" * bool(self.escalated)

    @property
    def shown(self) -> dict[str, Any]:
        return {
            "turn": self.turn,
            "confidence": self.confidence.value,
            "colour": Confidence.PARTIAL.colour if self.stale else self.confidence.colour,
            "summary": self.summary,
            "verifier": self.verifier,
            "escalated": self.escalated or None,
            "stale": self.stale,
        }


def with_call(judgement: Judgement | None, call: Escalation) -> Judgement:
    """What was said of a session, with why it needs a person."""
    if judgement is None or (judgement.began, judgement.turn) < (call.began, call.turn):
        judgement = Judgement(call.turn, Confidence.FAILED, call.reason, "", began=call.began, at=call.time)
    if judgement.began != call.began:
        return judgement  # of a later session
    return judgement._replace(escalated="" if call.settled else call.reason, called=call.turn)


class ReportStore(Stored):
    """The reports in a file, which is opened when it is first used.

    >>> store = ReportStore("/tmp/reports.db")
    >>> id = store.begin(session_id="s", project="/p", turn=1, verifier="pytest")
    >>> store.finish(id, report)  # doctest: +SKIP
    """

    def __init__(self, path: str) -> None:
        super().__init__(Database(path, _MIGRATIONS))
        self._owner = _owner()

    # --- verifications ------------------------------------------------------------------------------------

    def begin(
        self,
        *,
        session_id: str,
        project: str,
        turn: int,
        verifier: str,
        details: Mapping[str, object] | None = None,
    ) -> int:
        """Write down that a verification begins. Raises DatabaseFault."""
        encoded = msgspec.json.encode(details or {})
        if len(encoded) > MAX_DETAILS:
            raise DatabaseFault(f"details of {len(encoded)} bytes; at most {MAX_DETAILS} are kept")
        texts = [storable(each) for each in (session_id, project, verifier)]

        def work(connection: sqlite3.Connection) -> int:
            (count,) = connection.execute("SELECT count(*) FROM pending").fetchone()
            if count >= MAX_PENDING:
                raise DatabaseFault(
                    f"{count} verifications have begun and not ended; at most {MAX_PENDING} may"
                )
            added = connection.execute(
                "INSERT INTO pending (begun, session_id, project, turn, verifier, owner, attempts, details)"
                " VALUES (?, ?, ?, ?, ?, ?, 1, ?)",
                (time.time(), texts[0], texts[1], turn, texts[2], self._owner, encoded),
            )
            assert added.lastrowid is not None
            return added.lastrowid

        return self._database.write(work)

    def finish(self, id: int, report: Report, *, began: float = 0.0) -> int | None:
        """Take a verification off and add its report, both or neither. Gives the report's id.

        None if it was not there any more: another process has finished it, and its report stands.
        """

        def work(connection: sqlite3.Connection) -> int | None:
            gone = connection.execute("DELETE FROM pending WHERE id = ?", (id,))
            return _insert(connection, report, began) if gone.rowcount else None

        return self._database.write(work)

    def dismiss(self, id: int) -> None:
        """Take a verification off whose report is kept already."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM pending WHERE id = ?", (id,))

        self._database.write(work)

    def unfinished(self, *, everyones: bool = False) -> list[Pending]:
        """The verifications that nobody runs any more, the oldest first; else all of them."""
        rows = self._read(
            "SELECT id, begun, session_id, project, turn, verifier, owner, details"
            " FROM pending ORDER BY id LIMIT ?",
            (MAX_PENDING,),
        )
        found = [_pending(row) for row in rows]
        return found if everyones else [each for each in found if not each.is_running]

    # --- reports ------------------------------------------------------------------------------------------

    def add(self, report: Report, *, began: float = 0.0, stale: bool = False) -> int:
        """Keep a report whose verification was not written down, on a session that `began` then, which may
        have had a later turn. Gives its id."""
        return self._database.write(lambda connection: _insert(connection, report, began, stale))

    def get(self, id: int) -> Report | None:
        """A whole report."""
        rows = self._read("SELECT whole FROM reports WHERE id = ?", (id,)) if 0 < id < 2**63 else []
        return msgspec.json.decode(_bytes(rows[0][0]), type=Report) if rows else None

    def list(
        self,
        *,
        session_id: str | None = None,
        session_prefix: str | None = None,
        project: str | None = None,
        since: float | None = None,
        limit: int = LISTED,
    ) -> list[ListedReport]:
        """Reports, the newest first: of a session, of ids that begin so, of a project, from a time on."""
        where, values = _where(session_id, project, since, session_prefix)
        rows = self._read(
            f"SELECT {_LISTED} FROM reports {where} ORDER BY time DESC, id DESC LIMIT ?",
            (*values, max(0, min(limit, MAX_LISTED))),
        )
        return [_listed(row) for row in rows]

    def latest(
        self, session_ids: Iterable[str] | None = None, *, limit: int = MAX_LISTED
    ) -> dict[str, ListedReport]:
        """The report on the last turn of each session, or of these."""
        found = self._latest(session_ids, limit)
        return {id: row for id, (row, _) in found.items()}

    def _latest(
        self, session_ids: Iterable[str] | None, limit: int = MAX_LISTED
    ) -> dict[str, tuple[ListedReport, float]]:
        """The same, with when the session began."""
        wanted = None if session_ids is None else set(session_ids)
        rows = self._read(
            f"SELECT {_LISTED}, began FROM reports WHERE {_LAST} ORDER BY time DESC LIMIT ?",
            (max(0, min(limit, MAX_LISTED)),),
        )
        found = ((_listed(row[:-1]), _float(row[-1])) for row in rows)
        return {row.session_id: (row, at) for row, at in found if wanted is None or row.session_id in wanted}

    def judgements(self, session_ids: Iterable[str] | None = None) -> dict[str, Judgement]:
        """What was said last of each session, or of these, and whether it needs a person."""
        wanted = None if session_ids is None else set(session_ids)
        found = {id: Judgement.of(*each) for id, each in self._latest(wanted).items()}
        for id, call in self.escalations(settled=True).items():
            if (wanted is None or id in wanted) and not (call.settled and id not in found):
                found[id] = with_call(found.get(id), call)
        return found

    def outdate(self, session_id: str) -> None:
        """A session has had a later turn than those that were reported on. Raises DatabaseFault."""

        def work(connection: sqlite3.Connection) -> None:
            which = "WHERE session_id = ? AND NOT stale"
            connection.execute(f"UPDATE reports SET stale = 1 {which}", (storable(session_id),))

        self._database.write(work)

    # --- escalations --------------------------------------------------------------------------------------

    def escalate(self, session_id: str, turn: int, reason: str, *, began: float = 0.0) -> None:
        """Keep that a session needs a person. Raises DatabaseFault."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO escalations (session_id, turn, reason, time, began)"
                " VALUES (?, ?, ?, ?, ?)",
                (storable(session_id), turn, storable(reason), time.time(), began),
            )
            connection.execute(
                "DELETE FROM escalations WHERE session_id NOT IN"
                " (SELECT session_id FROM escalations ORDER BY time DESC LIMIT ?)",
                (MAX_ESCALATIONS,),
            )

        self._database.write(work)

    def settle(self, session_id: str) -> None:
        """A person has seen to it, or it is right now."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE escalations SET settled = 1 WHERE session_id = ?", (storable(session_id),)
            )

        self._database.write(work)

    def escalations(self, *, settled: bool = False) -> dict[str, Escalation]:
        """What needs a person, by session; also what did, if so."""
        statement = "SELECT session_id, turn, reason, time, began, settled FROM escalations LIMIT ?"
        found = {
            str(id): Escalation(int(_float(turn)), str(reason), _float(at), _float(began), bool(done))
            for id, turn, reason, at, began, done in self._read(statement, (MAX_ESCALATIONS,))
        }
        return {id: each for id, each in found.items() if settled or not each.settled}

    def _read(self, statement: str, values: tuple[object, ...]) -> Sequence[Row]:
        return self._database.read(statement, values)


def _insert(connection: sqlite3.Connection, report: Report, began: float = 0.0, stale: bool = False) -> int:
    report = msgspec.structs.replace(report, time=report.time or time.time(), raw=report.raw[:MAX_RAW])
    whole = msgspec.json.encode(msgspec.convert(_clean(msgspec.to_builtins(report)), Report))
    values = (
        report.time,
        storable(report.session_id),
        storable(report.project),
        report.turn,
        storable(report.kind),
        storable(report.verifier),
        storable(report.model),
        report.status.value,
        report.confidence.value,
        storable(report.summary),
        report.duration,
        report.cost,
        report.tree,
        stale,
        began,
        whole,
    )
    names = _LISTED.partition(", ")[2]
    added = connection.execute(
        f"INSERT INTO reports ({names}, began, whole) VALUES ({', '.join('?' * len(values))})", values
    )
    assert added.lastrowid is not None
    connection.execute("DELETE FROM reports WHERE id <= ?", (added.lastrowid - MAX_REPORTS,))
    return added.lastrowid


def _clean(value: object) -> object:
    """The value with texts that JSON and SQLite can hold."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {key: _clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return value


def _where(
    session_id: str | None, project: str | None, since: float | None, session_prefix: str | None = None
) -> tuple[str, tuple[object, ...]]:
    conditions: list[tuple[str, object]] = []
    if session_id is not None:
        conditions.append(("session_id = ?", storable(session_id)))
    if session_prefix is not None:
        conditions.append(("instr(session_id, ?) = 1", storable(session_prefix)))
    if project is not None:
        conditions.append(("project = ?", storable(project)))
    if since is not None:
        conditions.append(("time >= ?", since))
    if not conditions:
        return "", ()
    return f"WHERE {' AND '.join(each[0] for each in conditions)}", tuple(each[1] for each in conditions)


def _listed(row: Any) -> ListedReport:
    found = ListedReport(*row)
    status, confidence = Status(found.status), Confidence(found.confidence)
    return found._replace(status=status, confidence=confidence, stale=bool(found.stale))


def _pending(row: Any) -> Pending:
    found = Pending(*row)
    return found._replace(details=msgspec.json.decode(row[-1], type=dict[str, object]))


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def _float(value: object) -> float:
    assert isinstance(value, int | float)
    return value


# --- who runs a verification ------------------------------------------------------------------------------


def _owner() -> str:
    """This process, so that another with the same number is not taken for it."""
    return f"{os.getpid()} {_began(os.getpid())}"


def _is_there(owner: str) -> bool:
    number, _, began = owner.partition(" ")
    if not number.isdigit():
        return False
    return _began(int(number)) == began if began else is_there(int(number))


def _began(pid: int) -> str:
    """When a process began, so that no other is like it; empty where that can't be known, or it has ended."""
    program = running(pid)
    if program is None:
        return ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{program.began}@{file.read().strip()}"
    return program.began
