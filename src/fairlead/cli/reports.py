"""`fairlead reports`: what verifiers have said."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..formats.columns import padded, width_of
from ..formats.ladder import LADDER
from .arguments import JSON, Argument, Command, Failure, Option, UsageError, count, parsed

if TYPE_CHECKING:
    from ..agent.recall.transcripts import Transcripts
    from ..system.settings import Settings
    from ..ui.plot import Look
    from ..verify.store import ListedReport, ReportStore

SHOWN = 30
"""How many reports are shown unless more are asked for."""
PLOTTED = 1000
"""How many a picture has."""
PLOT_WIDTH = 80
"""How wide a plot is that does not go to a terminal."""
MAX_PROJECTS, MAX_SESSIONS = 5, 12
"""How many projects are plotted if none is asked for, and how many sessions of each have a line."""
DROPS = ("VERIFIER", "WHEN", "TURN", "SESSION")
"""Which columns a narrow terminal does without, the least important one first."""
MAX_SUMMARY, MAX_VERIFIER, MAX_SESSION = 70, 24, 24
"""How many columns of a terminal they take at most."""
SHOWN_ID = 8
"""How many characters are shown of the id of a session without a name; `fairlead reports` takes them,"""
MIN_PREFIX = 4
"""and as few as these."""
UUID_LENGTH = 36
"""How long the id of an agent session is."""

COMMAND = Command(
    "reports",
    "List verifiers' reports, newest first: all of them, or those of one session or project. Needs no\n"
    "daemon.",
    takes=(
        Argument(
            "of",
            "a session's name, a prefix of its id, or a project directory",
            optional=True,
            completes="session",
        ),
    ),
    options=(
        Option("-n", "--limit", value="COUNT", kind=count, help=f"how many to show ({SHOWN})"),
        Option("-a", "--all", help="also those of other hosts that are there; needs the daemon"),
        Option("--show", value="ID", kind=count, help="print one report in full"),
        Option(
            "--plot",
            value="FILE",
            bare="-",
            help="plot confidence and cost over time, here or as an SVG file",
        ),
        JSON,
    ),
    examples=(
        ("fairlead reports", "the latest reports"),
        ("fairlead reports . --plot", "plot this project's reports, and each of its sessions"),
        ("fairlead reports . --plot=confidence.svg", "the same as a picture"),
        ("fairlead reports --show 12", "one report in full"),
        ("fairlead reports --all", "those of all hosts; `fairlead -H HOST reports --show 12` shows one"),
    ),
    codes={0: "reports were found", 1: "no reports, or no such session, project or report"},
    far="there",
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)

    from ..system.settings import Settings
    from ..verify.store import ReportStore

    if options.all:
        if options.of or options.show or options.plot:
            raise UsageError("--all lists reports, without a session, --show or --plot")
        return _of_all_hosts(options.limit or SHOWN, as_json=options.json)
    settings = Settings()
    if not os.path.exists(settings.reports_path):
        raise Failure("no reports yet")
    with ReportStore(settings.reports_path) as store:
        if options.show:
            return _whole(store, options.show, settings, as_json=options.json)
        limit = options.limit or (PLOTTED if options.plot else SHOWN)
        rows = _reports_of(store, options.of, limit, settings)
    if options.json:
        import json

        named = _named([row.session_id for row in rows], settings)
        print(
            json.dumps(
                [{**row._asdict(), "session_name": named.get(row.session_id)} for row in rows], indent=2
            )
        )
    elif not rows:
        raise Failure(_none(options.of))
    elif options.plot:
        _plot(rows, options.of, options.plot, settings)
    else:
        _table(rows, _names(rows, settings))
    return 0 if rows else 1


def _of_all_hosts(limit: int, *, as_json: bool) -> int:
    """List the last reports of all hosts. Those of a host that is away are not known here."""
    import sys
    import time

    from ..client.connection import DaemonConnection
    from ..formats.columns import cut, printable
    from ..formats.ladder import word_for
    from ..ui.needs import host_line, host_of, own_id
    from . import columns
    from .colours import coloured_name

    with DaemonConnection() as control:
        answer = control.ask("verify_reports", limit=limit, hosts=True)
        names = {row["id"]: row["name"] for row in control.ask("session_list", hosts=True)["sessions"]}
    rows = sorted(answer["reports"], key=lambda row: row["time"], reverse=True)[:limit]
    for row in rows:
        row["session_name"] = names.get(row["session_id"])
    if as_json:
        import json

        print(json.dumps(rows, indent=2))
    elif rows:
        table = [("HOST", "ID", "WHEN", "SESSION", "TURN", "CONFIDENCE", "VERIFIER", "SUMMARY")]
        for row in rows:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["time"]))
            called = row["session_name"] or own_id(row, "session_id")[:SHOWN_ID]
            who, summary = row["verifier"] or "unnamed", row["summary"]
            if columns.terminal_width() is not None:
                who, summary = cut(who, MAX_VERIFIER), cut(summary, MAX_SUMMARY)
                called = cut(called, MAX_SESSION)
            word = word_for(row["confidence"]).upper()
            host = host_of(row) or "-"
            table.append((host, str(row["id"]), when, called, str(row["turn"]), word, who, summary))
        cleaned = [tuple(map(printable, line)) for line in table]
        columns.table(cleaned, drops=DROPS, paint={"CONFIDENCE": coloured_name})
    for host in answer.get("hosts") or ():
        if line := host_line(host):
            print(line, file=sys.stderr)
    if not rows:
        raise Failure("no reports yet")
    return 0


SCAN_SECONDS = 0.1
"""How long journals are looked through before the index is asked; all of them if it does not know a name."""


def _reports_of(store: ReportStore, of: str | None, limit: int, settings: Settings) -> list[ListedReport]:
    if of is None:
        return store.list(limit=limit)
    if os.path.isdir(of) and _is_place(of):
        places = {os.path.realpath(of), os.path.abspath(of)}  # a session may know it by either
        rows = [row for place in places for row in store.list(project=place, limit=limit)]
        return sorted(rows, key=lambda row: (row.time, row.id), reverse=True)[:limit]
    return (
        store.list(session_id=of, limit=limit)
        or store.list(session_id=_id_of(of, settings) or of, limit=limit)
        or (store.list(session_prefix=of, limit=limit) if len(of) >= MIN_PREFIX else [])
    )


def _is_place(of: str) -> bool:
    """Whether a directory is meant, and no session."""
    return "/" in of or of in (".", "..")


def _none(of: str | None) -> str:
    """Why nothing is found."""
    if of is None:
        return "no reports yet"
    if _is_place(of):
        return f"no reports for the project {of}" if os.path.isdir(of) else f"no such directory: {of}"
    if len(of) < MIN_PREFIX:
        least = f"a prefix of an id needs at least {MIN_PREFIX} characters"
        return f"no reports for a session named {of!r}; {least}"
    return f"no reports for a session with the name or id prefix {of!r}"


def _transcripts(settings: Settings) -> Transcripts:
    from ..agent.recall.transcripts import Transcripts

    return Transcripts(f"{settings.state_dir}/transcripts.db", settings.sessions_dir)


def _id_of(name: str, settings: Settings) -> str | None:
    """The id of the agent session with a name."""
    with _transcripts(settings) as transcripts:
        latest = transcripts.named(name, SCAN_SECONDS)
    return latest.id if latest is not None else None


def _named(ids: Sequence[str], settings: Settings) -> dict[str, str]:
    """The names of those of some sessions that have one besides their ids."""
    from ..system.database import DatabaseFault

    with contextlib.suppress(DatabaseFault), _transcripts(settings) as transcripts:
        transcripts.scan(SCAN_SECONDS)
        return transcripts.names(sorted(set(ids)))
    return {}


def _names(rows: Sequence[ListedReport], settings: Settings) -> dict[str, str]:
    """What the sessions of some reports are called, by their ids. The name of a terminal is its id."""
    ids = {row.session_id for row in rows}
    known = _named(list(ids), settings)
    return {id: known.get(id) or (id[:SHOWN_ID] if len(id) == UUID_LENGTH else id) for id in ids}


def _whole(store: ReportStore, id: int, settings: Settings, *, as_json: bool) -> int:
    import msgspec

    from ..formats.columns import printable
    from ..verify.report import facts, render
    from .verifier import coloured, printable_lines

    report = store.get(id)
    if report is None:
        raise Failure(f"no report {id}")
    if as_json:
        print(msgspec.json.encode(report).decode())
        return 0
    print(f"{coloured(report.confidence)}  {printable(report.summary)}\n")
    called = _named([report.session_id], settings).get(report.session_id)
    for name, value in facts(report):
        if name == "session" and called:
            value = f"{called} ({value})"
        print(f"{name + ':':<12}{printable(value)}")
    print(f"\n{printable_lines(report.raw or render(report))}")
    return 0


def _plot(rows: list[ListedReport], of: str | None, path: str, settings: Settings) -> None:
    if path == "-":
        print("\n".join(_plotted(rows, of, _names(rows, settings))))
        return
    from ..verify.plot import Point, svg

    points = [Point(row.time, row.confidence, f"turn {row.turn}: {row.summary}") for row in reversed(rows)]
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(svg(points))
    except OSError as error:
        raise Failure(f"can't write {path}: {error.strerror}") from None
    print(path)


def _plotted(rows: list[ListedReport], of: str | None, called: dict[str, str]) -> list[str]:
    """Confidence over time, and what verification has cost, for what was asked for: a session, a project with
    a line for each of its sessions, or each project."""
    from ..ui.plot import strip
    from .colours import look
    from .columns import terminal_width

    width, shows = terminal_width() or PLOT_WIDTH, look()
    if of is None:
        projects: dict[str, list[ListedReport]] = {}
        for row in rows:
            projects.setdefault(row.project, []).append(row)
        groups = [(project or "no project", each) for project, each in list(projects.items())[:MAX_PROJECTS]]
        left_out = len(projects) - len(groups)
    else:
        name = os.path.abspath(of) if _is_place(of) else of
        groups, left_out = [(name, rows)], 0
    lines: list[str] = []
    for name, group in groups:
        lines += ["", *_ladder(name, group, width, shows)] if lines else _ladder(name, group, width, shows)
        sessions: dict[str, list[ListedReport]] = {}
        for row in group:
            sessions.setdefault(row.session_id, []).append(row)
        if len(sessions) > 1:
            names = {id: called[id] for id in list(sessions)[:MAX_SESSIONS]}
            gutter = min(width // 3, max(map(width_of, names.values())))
            for id, name in names.items():
                oldest_first = sessions[id][::-1]
                levels = [row.confidence.rank / (len(LADDER) - 1) for row in oldest_first]
                colours = [LADDER[row.confidence.word] for row in oldest_first]
                drawn = strip(levels, width - gutter - 1, colours=colours, look=shows)
                lines.append(f"{padded(shows.fit(name, gutter), gutter)} {drawn}")
            if len(sessions) > MAX_SESSIONS:
                lines.append(shows.fit(f"({len(sessions) - MAX_SESSIONS} more sessions)", width))
    if left_out:
        lines += ["", shows.fit(f"({left_out} more; `fairlead reports DIR --plot` plots one)", width)]
    return lines


def _ladder(name: str, rows: list[ListedReport], width: int, shows: Look) -> list[str]:
    """The plots of some reports, the newest first."""
    from ..ui.reports import PlottedReport, plots

    found = (PlottedReport(row.time, row.confidence.value, row.cost) for row in rows)
    return plots(name, found, width, shows)


def _table(rows: list[ListedReport], called: dict[str, str]) -> None:
    import time

    from ..formats.columns import cut, printable
    from . import columns
    from .colours import coloured_name

    head = ("ID", "WHEN", "SESSION", "TURN", "CONFIDENCE", "VERIFIER", "SUMMARY")
    table = [head]
    is_cut = columns.terminal_width() is not None
    for row in rows:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.time))
        name = row.confidence.word.upper()
        who, summary = row.verifier or "unnamed", row.summary
        if is_cut:
            who, summary = cut(who, MAX_VERIFIER), cut(summary, MAX_SUMMARY)
        session = called[row.session_id]
        if is_cut:
            session = cut(session, MAX_SESSION)
        table.append((str(row.id), when, session, str(row.turn), name, who, summary))
    cleaned = [tuple(map(printable, line)) for line in table]
    columns.table(cleaned, drops=DROPS, paint={"CONFIDENCE": coloured_name})
