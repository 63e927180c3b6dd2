"""What another host says of its sessions and questions, made sound: whoever shows it relies on its types.

A row that can't be understood is left out. What this version knows has the type that it has here; what it
does not know is kept if it is a plain value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..client.calls import plain
from ..formats import edn
from ..formats.edn import Keyword
from ..formats.shown import middle
from ..system.own_place import MAX_LABEL, MAX_LABELS
from . import limits

Row = dict[str, Any]

_KEY = re.compile(r"[a-z][a-z0-9_?-]{0,60}")
_MAX_KEYS = 64
LAST_MOMENT = 32_503_680_000.0
"""The year 3000: what is said to be later is no time."""
MAX_ID = 512
"""How many characters the id or name of a session or a question may have."""


class RowText(NamedTuple):
    """A session as it is written, without its last bracket, and for how long nothing had happened in it."""

    text: str
    idle: float | None


class FarEvidence(Struct, omit_defaults=True):
    source: str
    says: str
    at: float
    words: str = ""
    rule: str = ""
    version: str = ""


class FarActivity(Struct):
    state: Literal["working", "waits", "idle", "ended", "unknown"] = "unknown"
    since: float | None = None
    question: str = ""
    seen: bool = True
    evidence: FarEvidence | None = None


class FarVerdict(Struct):
    confidence: str = ""
    escalated: str | None = None
    stale: bool = False
    summary: str = ""
    turn: int | None = None
    status: str | UnsetType = UNSET


class FarWorktree(Struct):
    path: str = ""
    branch: str = ""
    base: str | UnsetType | None = UNSET
    ahead: int | UnsetType | None = UNSET
    changed: int | UnsetType | None = UNSET


class FarSession(Struct):
    """A row of `session_list`: the keys that somebody here relies on."""

    id: str
    kind: str
    name: str
    project: str
    state: str
    activity: FarActivity = msgspec.field(default_factory=FarActivity)
    branch: str | UnsetType | None = UNSET
    worktree: FarWorktree | UnsetType | None = UNSET
    what: str = ""
    started_at: float | None = None
    idle: float | None = None
    clients: int = 0
    exit_code: int | None = None
    waits_for: str = ""
    verdict: FarVerdict | UnsetType | None = UNSET
    can: list[str] = msgspec.field(default_factory=list)
    argv: list[str] | UnsetType | None = UNSET
    cols: int | UnsetType = UNSET
    rows: int | UnsetType = UNSET
    title: str | UnsetType | None = UNSET
    writer: str | UnsetType | None = UNSET
    prompt: str | UnsetType | None = UNSET
    fault: str | UnsetType | None = UNSET
    agent: str | UnsetType | None = UNSET
    tool_of: str | UnsetType | None = UNSET
    started_by: str | UnsetType | None = UNSET
    one_shot: bool | UnsetType | None = UNSET
    queued: int | UnsetType | None = UNSET
    unsaid: int | UnsetType | None = UNSET
    stray_pid: int | UnsetType | None = UNSET
    pid: int | UnsetType | None = UNSET
    recording_error: str | UnsetType | None = UNSET
    directory_gone: bool | UnsetType | None = UNSET
    cpu_percent: float | UnsetType | None = UNSET
    cpu_seconds: float | UnsetType | None = UNSET
    memory: int | UnsetType | None = UNSET
    cost: float | UnsetType | None = UNSET


class FarQuestion(Struct):
    """A row of `approvals`."""

    token: str
    kind: str
    title: str
    summary: str
    session_id: str | None = None
    session_name: str | None = None
    project: str | None = None
    reason: str = ""
    preview: str = ""
    options: list[str] = msgspec.field(default_factory=list)
    labels: list[str] | UnsetType = UNSET
    takes_text: bool | UnsetType = UNSET
    asked_at: float | None = None
    lost: str | None = None


class FarPlace(Struct):
    """What `host_row` answers."""

    labels: list[str] = msgspec.field(default_factory=list)
    capacity: int = 0
    processors: int = 1
    load: float = 0.0
    working: int = 0


class FarReport(Struct):
    """A row of `verify_reports`."""

    id: int
    time: float
    session_id: str
    turn: int
    confidence: str
    summary: str
    project: str = ""
    kind: str = ""
    verifier: str = ""
    model: str = ""
    status: str = ""
    duration: float = 0.0
    cost: float = 0.0
    tree: str = ""
    stale: bool = False


_SESSION_KEYS = frozenset(FarSession.__struct_fields__)


def session_row(said: Any) -> Row | None:
    """A session's row, sound, or None if it makes no sense. `said` is EDN or what was kept of a row."""
    given = plain(said)
    try:
        known = msgspec.convert(given, FarSession, strict=True)
    except (msgspec.ValidationError, RecursionError):
        return None
    if not known.id or len(known.id) > MAX_ID or len(known.name) > MAX_ID:
        return None
    known.started_at, known.activity.since = _moment(known.started_at), _moment(known.activity.since)
    known.idle = _moment(known.idle)
    row: Row = msgspec.to_builtins(known)
    for key, value in given.items():
        if len(row) >= _MAX_KEYS:
            break
        if key not in _SESSION_KEYS and type(key) is str and _KEY.fullmatch(key) and _is_plain(value):
            row[key] = value
    row.pop("host", None)
    row.pop("away", None)
    return row if len(str(row)) <= limits.MAX_ROW else _shortened(row)


def _moment(seconds: float | None) -> float | None:
    """A time, or a span, that can be reckoned with and shown; None if it is none."""
    return seconds if seconds is not None and 0 <= seconds < LAST_MOMENT else None


def _shortened(row: Row) -> Row | None:
    """A row that is too long without what is longest in it."""
    slim = {
        key: f"{value[:200]}…" if isinstance(value, str) and len(value) > 200 and key != "project" else value
        for key, value in row.items()
    }
    for key in ("argv", "worktree"):
        if len(str(slim.get(key))) > 1000:
            slim.pop(key, None)
    return slim if len(str(slim)) <= limits.MAX_ROW else None


def _is_plain(value: Any) -> bool:
    return value is None or (type(value) in (bool, int, float)) or (type(value) is str and len(value) <= 1000)


def session_rows(said: Any) -> dict[str, Row]:
    """The rows of a list by their ids; at most as many as a host may have."""
    found: dict[str, Row] = {}
    for each in said[: limits.MAX_ROWS] if isinstance(said, list | tuple) else ():
        if (row := session_row(each)) is not None:
            found[row["id"]] = row
    return found


def question_rows(said: Any) -> dict[str, Row]:
    """The questions of a host by their tokens; of too much text, each has as much as there is room."""
    found: dict[str, Row] = {}
    left = limits.MAX_TEXTS
    for each in said[: limits.MAX_QUESTIONS] if isinstance(said, list | tuple) else ():
        row = question_row(each)
        if row is None:
            continue
        size = sum(len(str(value)) for key, value in row.items() if key != "preview")
        if size > limits.MAX_ROW:
            continue
        where = f"`fairlead approvals show {row['token']}` shows all"
        row["preview"] = middle(row["preview"], max(1000, left - size), where)
        left -= size + len(row["preview"])
        if left < 0:
            break
        found[row["token"]] = row
    return found


def question_row(said: Any) -> Row | None:
    try:
        known = msgspec.convert(plain(said), FarQuestion, strict=True)
    except (msgspec.ValidationError, RecursionError, AttributeError):
        return None
    if not known.token or len(known.token) > MAX_ID or len(known.session_id or "") > MAX_ID:
        return None
    known.asked_at = _moment(known.asked_at)
    row: Row = msgspec.to_builtins(known)
    return row


def report_rows(said: Any, limit: int) -> list[Row]:
    """Reports, at most so many, without those that make no sense."""
    found: list[Row] = []
    for each in said[:limit] if isinstance(said, list | tuple) else ():
        try:
            known = msgspec.convert(plain(each), FarReport, strict=True)
        except (msgspec.ValidationError, RecursionError, AttributeError):
            continue
        row: Row = msgspec.to_builtins(known)
        if len(str(row)) <= limits.MAX_ROW and _moment(known.time) is not None:
            found.append(row)
    return found


def place_row(said: Any) -> Row:
    """What a host says of itself, sound; empty if it makes no sense."""
    try:
        known = msgspec.convert(plain(said), FarPlace, strict=True)
    except (msgspec.ValidationError, RecursionError, AttributeError):
        return {}
    if len(known.labels) > MAX_LABELS or any(len(each) > MAX_LABEL for each in known.labels):
        return {}
    row: Row = msgspec.to_builtins(known)
    return row


def clock_of(said: Any) -> float | None:
    """What time it is on a host, as `host_row` says."""
    now = said.get(Keyword("now")) if isinstance(said, Mapping) else None
    return _moment(now) if isinstance(now, int | float) and not isinstance(now, bool) else None


def on_our_clock(row: Row, skew: float) -> Row:
    """A sound row of a host whose clock is so many seconds behind ours: since when it does what it does."""
    activity = row["activity"]
    if not skew or activity["since"] is None:
        return row
    return {**row, "activity": {**activity, "since": activity["since"] + skew}}


def fields_of(row: Mapping[str, Any]) -> dict[Any, Any]:
    """A sound row as EDN."""
    return {Keyword(key.replace("_", "-")): _field(value) for key, value in row.items()}


def _field(value: Any) -> Any:
    if isinstance(value, Mapping):
        return fields_of(value)
    return [_field(each) for each in value] if isinstance(value, list) else value


def text_of(row: Mapping[str, Any]) -> str:
    """The same as it is written."""
    return edn.dumps(fields_of(row), dialect=edn.PLAIN)


def session_text(host: str, row: Row) -> RowText:
    """A session as it is written among those of all hosts, but for what changes all the time."""
    named = {**row, "id": f"{host}:{row['id']}", "host": host}
    for key in ("tool_of", "started_by"):
        if named.get(key):
            named[key] = f"{host}:{named[key]}"
    idle = named.pop("idle", None)
    return RowText(text_of(named)[:-1], idle)


def session_texts(host: str, found: Mapping[str, Row]) -> dict[str, RowText]:
    """All of them. Of many that takes long: call it in a thread."""
    return {id: session_text(host, row) for id, row in found.items()}


def question_texts(host: str, found: Mapping[str, Row]) -> list[str]:
    """Questions, the same way, without their last bracket."""
    texts = []
    for row in found.values():
        named = {**row, "token": f"{host}:{row['token']}", "host": host}
        if row["session_id"]:
            named["session_id"] = f"{host}:{row['session_id']}"
        texts.append(text_of(named)[:-1])
    return texts


# --- events -----------------------------------------------------------------------------------------------

_TEXTS = frozenset(
    ("kind", "project", "state", "question", "prompt-id", "outcome", "reason", "what", "confidence")
) | {"summary", "token"}
_NUMBERS = frozenset(("turn", "exit-code", "since"))


def event_data(said: Mapping[Any, Any], required: Iterable[str]) -> dict[Any, Any] | None:
    """The data of an event with what is known of it, or None if that is not enough."""
    id = said.get(Keyword("session-id"))
    found: dict[Any, Any] = {}
    if type(id) is str and 0 < len(id) <= MAX_ID:
        found[Keyword("session-id")] = id
    for name in _TEXTS:
        if type(value := said.get(Keyword(name))) is str:
            found[Keyword(name)] = value[: limits.MAX_EVENT_TEXT]
    for name in _NUMBERS:
        value = said.get(Keyword(name))
        if type(value) in (int, float) or (value is None and Keyword(name) in said):
            found[Keyword(name)] = value
    if type(seen := said.get(Keyword("seen"))) is bool:
        found[Keyword("seen")] = seen
    return found if all(Keyword(name) in found for name in required) else None
