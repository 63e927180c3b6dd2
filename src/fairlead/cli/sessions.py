"""`fairlead sessions`: agent sessions on disk, and what was said in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..ui.needs import SHORT_ID, from_home
from . import columns
from .arguments import JSON, Argument, Command, Option, count, parsed
from .colours import coloured_check
from .ls import needed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..agent.recall.transcripts import Transcript, TranscriptMatch, Transcripts
    from ..verify.store import Judgement

WIDTH = 200
"""How many characters of why a person is needed are shown."""
ROLES = {"toolResult": "tool", "bashExecution": "shell"}
"""What people call those who say something in a journal."""
SHOWN = 20
"""How many sessions or places are shown unless more are asked for."""

DROPS = ("DIRECTORY", "MESSAGES", "CHECK", "LAST USED", "ID")
"""Which columns a narrow terminal does without, the least important one first."""

COMMAND = Command(
    "sessions",
    "List agent sessions, most recently used first: last use, number of messages, name or first prompt,\n"
    "directory and id. With a text, search the messages of all sessions. Needs no daemon.",
    takes=(Argument("text", "the text to search for", optional=True, many=True),),
    options=(
        Option("--here", help="only sessions in this directory"),
        Option("-n", "--limit", value="COUNT", kind=count, help=f"how many to show ({SHOWN})"),
        JSON,
    ),
    examples=(
        ("fairlead sessions", "the most recent sessions"),
        ("fairlead sessions --here", "those of this project"),
        ("fairlead sessions flaky test", "search all messages"),
    ),
    codes={1: "no sessions or no matches"},
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..agent.recall.transcripts import Transcripts
    from ..system.settings import Settings, safe_dir

    settings = Settings()
    safe_dir(settings.state_dir)
    transcripts = Transcripts(f"{settings.state_dir}/transcripts.db", settings.sessions_dir)
    limit = options.limit or SHOWN
    cwd = os.getcwd() if options.here else None
    try:
        for fault in transcripts.scan().faults:
            print(f"fairlead sessions: {fault}", file=sys.stderr)
        if options.text:
            return _search(transcripts, " ".join(options.text), limit, cwd, as_json=options.json)
        return _list(transcripts.list(cwd, limit), settings.sessions_dir, as_json=options.json)
    finally:
        transcripts.close()


def _list(rows: list[Transcript], directory: str, *, as_json: bool) -> int:
    from ..agent.store import waiting_in

    waiting = waiting_in(directory)
    verdicts = _verdicts([row.id for row in rows])
    if as_json:
        import json

        shown = [
            {**row._asdict(), "waits": row.id in waiting, "verdict": verdict and verdict.shown}
            for row, verdict in zip(rows, verdicts)
        ]
        print(json.dumps(shown, indent=2))
    elif not rows:
        print("no agent sessions yet", file=sys.stderr)
    else:
        table = [("LAST USED", "MESSAGES", "WHAT", "DIRECTORY", "ID")]
        table += [
            (
                _moment(row.modified),
                str(row.message_count),
                _title(row, waiting),
                from_home(row.cwd),
                _id(row),
            )
            for row in rows
        ]
        checks = ["CHECK", *(verdict.check if verdict else "-" for verdict in verdicts)]
        if any(verdicts):
            rows_ = [(*row[:2], check, *row[2:]) for row, check in zip(table, checks)]
            columns.table(rows_, drops=DROPS, flexible="WHAT", paint={"CHECK": coloured_check})
        else:
            columns.table(table, drops=DROPS, flexible="WHAT")
        called = [(row, each.escalated) for row, each in zip(rows, verdicts) if each and each.escalated]
        needed([(_line(row.name or row.id[:SHORT_ID]), _line(why, WIDTH)) for row, why in called])
    return 0 if rows else 1


def _verdicts(ids: list[str]) -> list[Judgement | None]:
    """What verifiers said of sessions last, if anything."""
    from ..system.settings import Settings

    path = Settings().reports_path
    if not os.path.exists(path):
        return [None] * len(ids)
    from ..system.database import DatabaseFault
    from ..verify.store import ReportStore

    said: dict[str, Judgement] = {}
    try:
        with ReportStore(path) as store:
            said = store.judgements(ids)
    except DatabaseFault as error:
        print(f"fairlead sessions: {error}", file=sys.stderr)
    return [said.get(id) for id in ids]


def _search(transcripts: Transcripts, text: str, limit: int, cwd: str | None, *, as_json: bool) -> int:
    found: list[TranscriptMatch] = transcripts.search(text, limit, cwd=cwd)
    if as_json:
        import json

        places = [{**each._asdict(), "transcript": each.transcript._asdict()} for each in found]
        print(json.dumps(places, indent=2))
    elif not found:
        print(f"no matches for {text!r}", file=sys.stderr)
    else:
        rows = [
            (
                _moment(each.timestamp),
                ROLES.get(each.role, each.role),
                _line(each.snippet),
                _id(each.transcript),
            )
            for each in sorted(found, key=lambda each: each.timestamp, reverse=True)
        ]
        columns.table(
            [("WHEN", "WHO", "WHAT", "SESSION"), *rows], drops=("WHEN", "WHO", "SESSION"), flexible="WHAT"
        )
    return 0 if found else 1


def _id(row: Transcript) -> str:
    """A session's id, or as much of it as people need on a terminal."""
    return row.id if columns.terminal_width() is None else row.id[:SHORT_ID]


def _title(row: Transcript, waiting: Collection[str]) -> str:
    """What a session is called, after a mark if it waits for consent."""
    waits = "[waits for consent] " if row.id in waiting else ""
    return waits + _line(row.name or row.first_message or "(no messages)")


def _line(text: str, width: int = 60) -> str:
    """A text from a transcript in one line, which must not control this terminal."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(plain.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _moment(stamp: str) -> str:
    return stamp[:16].replace("T", " ")
