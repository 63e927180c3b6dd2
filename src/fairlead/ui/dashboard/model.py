"""What the dashboard knows: the sessions, those that need a person first, their questions, and what happened.

No I/O and no Textual. `link` brings what the daemon says, `board` makes lines of it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...formats.shown import clean, one_line
from ..needs import (
    CALLED,
    ENDED,
    WAITS,
    WORKING,
    about,
    activity_of,
    below_agents,
    branch_cell,
    by_need,
    check_cell,
    cost_cell,
    from_home,
    host_of,
    is_done_with,
    is_inner,
    own_id,
    question_of,
    rank,
    shown_name,
    span,
    state_cell,
    state_word,
    subtitle_of,
)

MAX_LOG = 1000
"""How many things that happened are remembered: the last ones."""
MAX_CELL = 200
"""How many characters of a text are kept for a cell."""
MAX_FILTER = 100
"""How many characters one can filter by."""
_VOLATILE = frozenset({"idle", "cpu_percent", "cpu_seconds", "memory", "clients", "started_at"})
"""What changes all the time and is not shown."""

Row = dict[str, Any]


class ListEntry(NamedTuple):
    """A session, or a question that no listed session asks, as it is listed."""

    row: Row
    key: str
    name: str
    agent: str
    """What works in it: an agent, or its kind."""
    place: str
    """The directory, and the branch that is checked out there."""
    text: str
    """What it asks a person; else what it is about."""
    asks: bool
    check: str
    cost: str
    haystack: str
    """What a filter looks at."""

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def is_session(self) -> bool:
        return "token" not in self.row


class Happening(NamedTuple):
    """Something that happened, for the log."""

    at: float
    name: str
    what: str
    colour: str = ""
    id: str = ""
    """Of which session, if it was not listed when that happened: its name is not known yet."""


def entry_of(row: Row) -> ListEntry:
    """A session's row, as the daemon lists it, as one of the dashboard."""
    question = question_of(row)
    what = about(row)
    title = subtitle_of(row)
    subject = f"{what} — {title}" if title and what else what or title
    branch = branch_cell(row)
    host = host_of(row)
    directory = row["project"] if host else from_home(row["project"])
    place = directory + (f" {branch}" if branch not in ("-", "") else "")
    agent = row.get("agent") or row["kind"]
    name = f"{host}:{shown_name(row)}" if host else shown_name(row)
    text = _cell(question or subject)
    looked_at = " ".join(
        (name, row["name"], agent, row["kind"], place, text, _cell(subject), state_word(row))
    )
    return ListEntry(
        row,
        f"{row['kind']} {row['id']}",
        ("  " if is_inner(row) else "") + _cell(name),
        _cell(agent),
        _cell(place),
        text,
        bool(question),
        check_cell(row),
        cost_cell(row),
        looked_at.casefold(),
    )


def entry_of_question(question: Row) -> ListEntry:
    """A question that no listed session asks: the daemon's own, or one of a program."""
    name = question.get("session_name") or (own_id(question, "session_id") or "the daemon")[:MAX_CELL]
    name = f"{host}:{name}" if (host := host_of(question)) else name
    text, place = _cell(question["summary"]), from_home(question.get("project") or "")
    return ListEntry(
        {**question, "id": question["session_id"] or "", "asked_at": question["asked_at"] or 0.0},
        f"question {question['token']}",
        _cell(name),
        question["kind"],
        _cell(place),
        text,
        True,
        "-",
        "",
        " ".join((name, place, text, "waits")).casefold(),
    )


def _cell(text: str) -> str:
    return one_line(text[: 4 * MAX_CELL], MAX_CELL) if text else ""


class DashboardModel:
    """All that is known, and what of it is shown."""

    def __init__(self) -> None:
        self.entries: list[ListEntry] = []
        """All, those that need a person first."""
        self.shown: list[ListEntry] = []
        """Those that the filter leaves."""
        self.filter = ""
        self.is_known = False
        """False until the daemon has listed them."""
        self.fault = ""
        """Why what is shown may be old."""
        self.hosts: Sequence[Row] = ()
        """The other hosts."""
        self.log: deque[Happening] = deque(maxlen=MAX_LOG)
        self._has_unnamed = False
        self.shows_inner = False
        """Whether commands that agents' tools run are listed, too."""
        self._inner: dict[str, Row] = {}
        self._last: tuple[Sequence[Row], Sequence[Row]] = (), ()
        self._rows: dict[tuple[str, str], Row] = {}
        self._entries: dict[tuple[str, str], ListEntry] = {}
        self._questions: dict[str, Row] = {}
        self._asked: dict[str | None, list[Row]] = {}

    # --- what the daemon says -------------------------------------------------------------------------------

    def listed(
        self, rows: Sequence[Row], questions: Sequence[Row], hosts: Sequence[Row] | None = None
    ) -> None:
        """The daemon has listed the sessions, all that waits for a person, and the other hosts."""
        self._last = rows, questions
        self.hosts = self.hosts if hosts is None else hosts
        known, self._rows, self._entries, self._inner = self._rows, {}, {}, {}
        old = {entry.key: entry for entry in self.entries}
        for row in rows:
            if is_done_with(row):
                continue
            if is_inner(row):
                self._inner[row["id"]] = row
                if not self.shows_inner:
                    continue
            place = (row["kind"], row["id"])
            before = known.get(place)
            self._rows[place] = row
            entry = old.get(f"{row['kind']} {row['id']}") if before and _is_same(before, row) else None
            self._entries[place] = entry_of(row) if entry is None else entry._replace(row=row)
        self._ask(questions)
        self.is_known = True
        self.sort()
        self._name_log()

    def toggle_inner(self) -> None:
        """List the commands of agents' tools, too, or not any more."""
        self.shows_inner = not self.shows_inner
        if self.is_known:
            self.listed(*self._last)

    def asked(self, questions: Sequence[Row]) -> None:
        """The daemon has listed all that waits for a person."""
        self._ask(questions)
        self.sort()

    def _ask(self, questions: Sequence[Row]) -> None:
        self._questions = {each["token"]: each for each in questions}
        self._asked = {}
        for each in questions:
            self._asked.setdefault(each["session_id"], []).append(each)

    def state(self, id: str, activity: Mapping[str, Any]) -> bool:
        """A session does something else now; `sort` follows. False if it is not listed yet."""
        if (row := self._inner.get(id)) is not None and not self.shows_inner:
            now = {**row, "activity": {**activity_of(row), **activity}}
            self._inner[id] = now
            return is_inner(now)
        found = False
        for place, row in self._rows.items():
            if place[1] == id:
                found = True
                now = {**activity_of(row), **activity}
                self._rows[place] = {**row, "activity": now}
                self._entries[place] = entry_of(self._rows[place])
        return found

    def note(self, at: float, id: str, what: str, colour: str = "") -> None:
        """Something happened, for the log."""
        name = next((each.name for each in self.entries if each.is_session and each.id == id), "")
        unnamed = "" if name else id
        self.log.append(Happening(at, name or id[:8], clean(what).replace("\n", " "), colour, unnamed))
        self._has_unnamed = self._has_unnamed or bool(unnamed)

    def _name_log(self) -> None:
        """Name those that were not listed yet when something happened there."""
        if not self._has_unnamed:
            return
        names = {each.id: each.name for each in self.entries if each.is_session}
        named = (each._replace(name=names[each.id], id="") if each.id in names else each for each in self.log)
        self.log = deque(named, maxlen=MAX_LOG)
        self._has_unnamed = any(each.id for each in self.log)

    # --- what is asked of it --------------------------------------------------------------------------------

    def runs(self, entry: ListEntry) -> list[str]:
        """The commands that an agent's tools run now."""
        return [_cell(about(each)) for each in self._inner.values() if each["tool_of"] == entry.id]

    @property
    def hidden(self) -> int:
        """How many commands of agents' tools are not listed."""
        return 0 if self.shows_inner else len(self._inner)

    def questions_of(self, entry: ListEntry) -> list[Row]:
        """What an entry waits for, the oldest first."""
        if not entry.is_session:
            found = self._questions.get(entry.row["token"])
            return [found] if found else []
        return list(self._asked.get(entry.id, ()))

    def question(self, token: str) -> Row | None:
        """A question, while it is open."""
        return self._questions.get(token)

    def find(self, key: str) -> int | None:
        """At which place of what is shown an entry is."""
        return next((at for at, each in enumerate(self.shown) if each.key == key), None)

    def look_for(self, text: str) -> None:
        """Show only what contains all these words."""
        self.filter = text[:MAX_FILTER]
        self._choose()

    @property
    def away(self) -> list[str]:
        """The hosts whose sessions can't be used now."""
        return [_cell(each["name"]) for each in self.hosts if each["state"] in ("away", "refused")]

    @property
    def counts(self) -> dict[str, int]:
        """How many sessions there are, wait, need a look, and work."""
        ranks = [rank(each.row) for each in self.entries if each.is_session]
        waiting = sum(1 for each in self.entries if not each.is_session)
        return {
            "all": len(ranks),
            "wait": ranks.count(WAITS) + ranks.count(CALLED) + waiting,
            "work": ranks.count(WORKING),
            "ended": ranks.count(ENDED),
        }

    def sort(self) -> None:
        """Put those that need a person first."""
        rows = below_agents(by_need(list(self._rows.values())))
        sessions = [self._entries[row["kind"], row["id"]] for row in rows]
        self.entries = [*map(entry_of_question, self._strays()), *sessions]
        self._choose()

    def _strays(self) -> Iterator[Row]:
        ids = {id for _, id in self._rows}
        for each in self._questions.values():
            if each["session_id"] not in ids:
                yield each

    def _choose(self) -> None:
        words = self.filter.casefold().split()
        self.shown = [each for each in self.entries if all(word in each.haystack for word in words)]


def _is_same(before: Row, row: Row) -> bool:
    """Whether nothing has changed of what is shown."""
    return all(
        before.get(name) == row.get(name) for name in before.keys() | row.keys() if name not in _VOLATILE
    )


def word_of(entry: ListEntry) -> str:
    """What an entry does, in a word."""
    if not entry.is_session:
        return "lost" if entry.row.get("lost") else "waits"
    return state_word(entry.row)


def state_of(entry: ListEntry) -> str:
    """The same with how long it has done that, and how many prompts wait."""
    if entry.is_session:
        return state_cell(entry.row)
    return f"{word_of(entry)} {span(max(0.0, time.time() - entry.row['asked_at']))}"
