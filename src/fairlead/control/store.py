"""What control must not forget: actions that wait for consent, and notifications that wait to be sent.

Each step is written down before it is taken. An answer counts once, the first one. A notification is marked
as being sent before it is, so one whose sending a killed daemon did not see the end of is never sent again:
it was sent or it is lost, and the log says so.

What waits is kept in memory as well, so that it can be listed while the file is locked. All else is called on
the file's thread.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..sessions.questions import ALLOW, DENY, Question, bounded
from ..system.database import Database, Stored, storable
from .signals import Action, GateStep

MAX_OF_AGENTS = 20
"""How many actions that commands of agent sessions asked for may wait for consent."""
OF_AN_AGENT = "agent "
"""How the source of such an action begins; what follows is the agent session."""
MAX_WAITING = 1000
"""How many actions may wait for consent."""
MAX_QUEUED = 1000
"""How many notifications may wait to be sent."""
KEPT = 30 * 86_400.0
"""Seconds that what is over is kept."""

_MIGRATIONS = [
    [
        "CREATE TABLE approvals (token TEXT PRIMARY KEY, made REAL NOT NULL, state TEXT NOT NULL,"
        " action TEXT NOT NULL, reason TEXT NOT NULL, trace TEXT NOT NULL, source TEXT NOT NULL,"
        " settled REAL, by TEXT)",
        "CREATE INDEX approvals_state ON approvals (state, made)",
        "CREATE TABLE notices (id INTEGER PRIMARY KEY, made REAL NOT NULL, due REAL NOT NULL,"
        " state TEXT NOT NULL, tries INTEGER NOT NULL, target TEXT NOT NULL, title TEXT NOT NULL,"
        " body TEXT NOT NULL, error TEXT NOT NULL DEFAULT '')",
        "CREATE INDEX notices_state ON notices (state, due)",
    ],
    ["CREATE TABLE told (key TEXT PRIMARY KEY, made REAL NOT NULL, how TEXT NOT NULL)"],
]


class Full(Exception):
    """As much waits as may."""


class Asked(NamedTuple):
    """An action that waits, or waited, for consent."""

    token: str
    action: Action
    reason: str
    trace: tuple[GateStep, ...]
    source: str
    made: float = 0.0


class Notice(NamedTuple):
    """A notification for one receiver, which `target` stands for."""

    id: int
    target: str
    title: str
    body: str
    tries: int


class ControlStore(Stored):
    """The file. All methods may raise DatabaseFault."""

    def __init__(self, path: str) -> None:
        super().__init__(Database(path, _MIGRATIONS))
        self._waiting: dict[str, Asked] = {}  # as it is in the file, which only one daemon has

    def open(self) -> list[str]:
        """Take over what another daemon left; gives what it did not see the end of."""

        def work(connection: sqlite3.Connection) -> list[str]:
            old = time.time() - KEPT
            connection.execute("DELETE FROM approvals WHERE state != 'waiting' AND made < ?", (old,))
            connection.execute(
                "DELETE FROM notices WHERE state NOT IN ('queued', 'sending') AND made < ?", (old,)
            )
            connection.execute("DELETE FROM told WHERE made < ?", (old,))
            sending = connection.execute("SELECT id, title, body FROM notices WHERE state = 'sending'")
            lost = [
                f"notification {id} ({title or body[:40]!r}) was sent or is lost: the daemon ended meanwhile"
                for id, title, body in sending.fetchall()
            ]
            allowed = connection.execute("SELECT token FROM approvals WHERE state = 'allowed'")
            lost += [
                f"action {token} was approved and may have been done: the daemon ended meanwhile"
                for (token,) in allowed.fetchall()
            ]
            connection.execute("UPDATE notices SET state = 'lost' WHERE state = 'sending'")
            connection.execute("UPDATE approvals SET state = 'lost' WHERE state = 'allowed'")
            return lost

        lost = self._database.write(work)
        rows = self._database.read(
            "SELECT token, action, reason, trace, source, made FROM approvals"
            " WHERE state = 'waiting' ORDER BY made, rowid"
        )
        self._waiting = {each.token: each for each in map(_asked, rows)}
        return lost

    # --- approvals ----------------------------------------------------------------------------------------

    def ask(self, action: Action, reason: str, trace: Sequence[GateStep], source: str) -> Asked:
        """Write down that an action waits. Raises Full; agents leave room for what others ask."""
        of_agents = sum(each.source.startswith(OF_AN_AGENT) for each in list(self._waiting.values()))
        if source.startswith(OF_AN_AGENT) and of_agents >= MAX_OF_AGENTS:
            raise Full(f"{MAX_OF_AGENTS} actions that agents asked for are already waiting for consent")
        action = msgspec.structs.replace(action, text=storable(action.text), title=storable(action.title))
        asked = Asked(secrets.token_hex(4), action, storable(reason), tuple(trace), source, time.time())
        values = (
            asked.token,
            asked.made,
            msgspec.json.encode(action).decode(),
            asked.reason,
            msgspec.json.encode([step._replace(reason=storable(step.reason)) for step in trace]).decode(),
            source,
        )

        def work(connection: sqlite3.Connection) -> None:
            (count,) = connection.execute("SELECT count(*) FROM approvals WHERE state = 'waiting'").fetchone()
            if count >= MAX_WAITING:
                raise Full(f"{MAX_WAITING} actions are already waiting for consent")
            connection.execute(
                "INSERT INTO approvals (token, made, state, action, reason, trace, source)"
                " VALUES (?, ?, 'waiting', ?, ?, ?, ?)",
                values,
            )

        self._database.write(work)
        self._waiting[asked.token] = asked
        return asked

    def asked(self) -> list[Asked]:
        """The actions that wait, the oldest first. It looks at no file."""
        return list(self._waiting.values())

    def settle(self, token: str, allowed: bool, by: str) -> Asked | None:
        """Answer; gives the action if this answer is the first."""

        def work(connection: sqlite3.Connection) -> tuple[object, ...] | None:
            found: tuple[object, ...] | None = connection.execute(
                "SELECT token, action, reason, trace, source, made FROM approvals"
                " WHERE token = ? AND state = 'waiting'",
                (storable(token),),
            ).fetchone()
            if found is not None:
                connection.execute(
                    "UPDATE approvals SET state = ?, settled = ?, by = ? WHERE token = ?",
                    ("allowed" if allowed else "denied", time.time(), by, found[0]),
                )
            return found

        row = self._database.write(work)
        self._waiting.pop(token, None)
        return _asked(row) if row is not None else None

    def finished(self, token: str) -> None:
        """An action that was allowed has been done, or has failed."""
        self._database.write(
            lambda connection: connection.execute(
                "UPDATE approvals SET state = 'done' WHERE token = ? AND state = 'allowed'", (token,)
            )
        )

    # --- notifications ------------------------------------------------------------------------------------

    def queue(self, targets: Sequence[str], title: str, body: str) -> None:
        """Write down a notification for each of its receivers. Raises Full."""
        self._database.write(lambda connection: _queue(connection, targets, title, body))

    def tell(self, keys: Sequence[str], targets: Sequence[str], title: str, body: str) -> bool:
        """Write down that the first of `keys` is told, and a notification of it for each receiver, unless it
        was told or seen before: then nothing is done, which gives False. The other keys are what need not be
        told any more then."""

        def work(connection: sqlite3.Connection) -> bool:
            if not _note(connection, keys[:1], "told"):
                return False
            _note(connection, keys[1:], "told")
            with contextlib.suppress(Full):  # people are told in other places as well
                _queue(connection, targets, title, body)
            return True

        return self._database.write(work)

    def note_seen(self, keys: Sequence[str]) -> None:
        """A person has seen this: it need not be told."""
        self._database.write(lambda connection: _note(connection, keys, "seen"))

    def untold(self, keys: Sequence[str]) -> list[str]:
        """Which of these were neither told nor seen."""
        known = {
            str(key)
            for each in keys
            for (key,) in self._database.read("SELECT key FROM told WHERE key = ?", (storable(each),))
        }
        return [key for key in keys if storable(key) not in known]

    def begin(self) -> Notice | None:
        """The next notification that is due, which is being sent from now on."""

        def work(connection: sqlite3.Connection) -> Notice | None:
            row = connection.execute(
                "SELECT id, target, title, body, tries + 1 FROM notices"
                " WHERE state = 'queued' AND due <= ? ORDER BY due, id LIMIT 1",
                (time.time(),),
            ).fetchone()
            if row is None:
                return None
            connection.execute(
                "UPDATE notices SET state = 'sending', tries = tries + 1 WHERE id = ?", (row[0],)
            )
            return Notice(*row)

        return self._database.write(work)

    def next_due(self) -> float | None:
        """When the next notification is due."""
        ((due,),) = self._database.read("SELECT min(due) FROM notices WHERE state = 'queued'")
        return due if isinstance(due, float) else None

    def sent(self, notice: Notice) -> None:
        self._end(notice, "sent", "")

    def failed(self, notice: Notice, error: str) -> None:
        """It will not be tried again."""
        self._end(notice, "failed", error)

    def again(self, notice: Notice, error: str, due: float) -> None:
        """It was not sent, for sure, and will be tried again."""
        self._database.write(
            lambda connection: connection.execute(
                "UPDATE notices SET state = 'queued', due = ?, error = ? WHERE id = ?",
                (due, storable(error), notice.id),
            )
        )

    def _end(self, notice: Notice, state: str, error: str) -> None:
        self._database.write(
            lambda connection: connection.execute(
                "UPDATE notices SET state = ?, error = ? WHERE id = ?", (state, storable(error), notice.id)
            )
        )

    def counts(self) -> dict[str, int]:
        """How many notifications are in each state."""
        rows = self._database.read("SELECT state, count(*) FROM notices GROUP BY state")
        return {str(state): int(str(count)) for state, count in rows}

    def last_failure(self) -> str:
        """Why the last notification that is over was not sent; empty if it was."""
        rows = self._database.read(
            "SELECT error FROM notices WHERE state IN ('sent', 'failed') ORDER BY id DESC LIMIT 1"
        )
        return str(rows[0][0]) if rows else ""


def _queue(connection: sqlite3.Connection, targets: Sequence[str], title: str, body: str) -> None:
    (count,) = connection.execute("SELECT count(*) FROM notices WHERE state = 'queued'").fetchone()
    if count + len(targets) > MAX_QUEUED:
        raise Full(f"{count} notifications are already queued")
    now = time.time()
    connection.executemany(
        "INSERT INTO notices (made, due, state, tries, target, title, body)"
        " VALUES (?, ?, 'queued', 0, ?, ?, ?)",
        [(now, now, target, storable(title), storable(body)) for target in targets],
    )


def _note(connection: sqlite3.Connection, keys: Sequence[str], how: str) -> int:
    """Remember what became of something that people have to be told; gives how many are new."""
    now = time.time()
    made = connection.executemany(
        "INSERT OR IGNORE INTO told (key, made, how) VALUES (?, ?, ?)",
        [(storable(key), now, how) for key in keys],
    )
    return max(0, made.rowcount)


def _asked(row: Sequence[object]) -> Asked:
    token, action, reason, trace, source, made = map(str, row)
    return Asked(
        token,
        msgspec.json.decode(action, type=Action),
        reason,
        tuple(msgspec.json.decode(trace, type=list[GateStep])),
        source,
        float(made),
    )


def question_of(asked: Asked) -> Question:
    """An action of control's own as people are asked about it everywhere."""
    return Question(
        id=asked.token,
        kind="action",
        title=f"{asked.action.target.lower()} {asked.action.verb}".strip(),
        what=asked.action.summary,
        whole=bounded(asked.action.text, "control.db has all"),
        reason=asked.reason,
        options=(ALLOW, DENY),
        asked_at=asked.made,
    )
