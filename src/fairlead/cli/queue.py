"""`fairlead queue`: the jobs that were queued for the hosts of the fleet, and what came of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, Failure, Option, UsageError, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERBS = ("ls", "show", "cancel", "wait", "retry")
COMMAND = Command(
    "queue",
    "Jobs that `fairlead run --queue` has queued for the hosts of the fleet. `ls` lists them with their\n"
    "verdicts, `show` has a job's prompt, checks and report, `cancel` ends it wherever it runs, `wait`\n"
    "waits until jobs have ended (all, without an ID) and prints each one then, `retry` queues again what\n"
    "is over.",
    takes=(
        Argument("what", ", ".join(VERBS), choices=VERBS),
        Argument("ids", "the jobs", many=True, optional=True),
    ),
    options=(Option("-q", "--quiet", help="print only the ids"), JSON),
    examples=(
        ("fairlead queue ls", "all jobs, in one table"),
        ("fairlead queue wait && fairlead queue ls --json", "when all have ended"),
        ("fairlead queue cancel 4f0c9d2a71be", "also if it runs already"),
    ),
    codes={1: "failed; of `wait`: a job has failed or was cancelled"},
    far="here: the queue is that of the fleet, which every host asks",
)
HEAD = ("JOB", "STATE", "VERDICT", "ON", "HOST", "TRIES", "TIME", "ASKED BY", "WHAT")
DROPS = ("ASKED BY", "ON", "TRIES", "TIME")


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if options.what in ("show", "cancel", "retry") and not options.ids:
        raise UsageError(f"missing ID: `fairlead queue {options.what} ID`; `fairlead queue ls` lists them")
    from ..client.hosts.queueing import NoQueue, asked
    from ..system.settings import Settings

    settings = Settings(host="")
    try:
        answers = asked(settings, {"do": options.what, "ids": options.ids}, waits=options.what == "wait")
        if options.what == "ls":
            rows: list[dict[str, Any]] = next(answers)["jobs"]
            return _list(rows, options)
        code = 0
        for row in answers:
            _show(row, options)
            code = code or (options.what == "wait" and row["state"] != "done")
        return int(code)
    except (NoQueue, StopIteration) as error:
        raise Failure(str(error) or "the fleet's process closed the connection") from None


def _list(rows: list[dict[str, Any]], options: Any) -> int:
    if options.json:
        import json

        print(json.dumps(rows))
        return 0
    if options.quiet:
        for row in rows:
            print(row["id"])
        return 0
    if not rows:
        print("no jobs; `fairlead run --queue` queues one", file=sys.stderr)
        return 0
    from .columns import table

    table([HEAD, *(_cells(row) for row in rows)], drops=DROPS, flexible="WHAT")
    return 0


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    import time

    from ..formats.columns import printable
    from ..ui.needs import span

    spent = row["seconds"]
    if row["state"] == "running":
        spent = max(0.0, time.time() - row["since"])
    cells = (
        row["id"],
        row["state"],
        (row["verdict"] or "-").upper(),
        row["on"] or "any",
        row["host"] or "-",
        str(row["tries"]),
        "-" if spent is None else span(spent),
        row["asker"],
        row["title"],
    )
    return tuple(map(printable, cells))


def _show(row: dict[str, Any], options: Any) -> None:
    if options.json:
        import json

        print(json.dumps(row), flush=True)
        return
    if options.quiet:
        print(row["id"], flush=True)
        return
    from ..formats.columns import printable

    verdict = f" {row['verdict'].upper()}" if row["verdict"] else ""
    where = f" on {row['host']}" if row["host"] else ""
    told = row["summary"] or row["note"] or row.get("lacks")
    lines = [f"{row['id']}  {row['state']}{verdict}{where}{f': {told}' if told else ''}"]
    if options.what == "show":
        lines += [f"asked by {row['asker']}, for {row['on'] or 'any'} in {row['project']}"]
        lines += [f"verified by: {check}" for check in row.get("verify") or ()]
        lines += [f"passed on by {host}: it {why}" for host, why in row["passed"].items()]
        lines += ["", *(row.get("prompt") or row["title"]).split("\n")]
        for section in (row.get("report") or {}).get("sections") or ():
            lines += ["", f"### {section.get('title', '')}", "", *str(section.get("text", "")).split("\n")]
    print("\n".join(map(printable, lines)), flush=True)
