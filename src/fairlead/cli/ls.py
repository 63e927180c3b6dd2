"""`fairlead ls`: the sessions."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..formats.columns import printable
from ..formats.ladder import LADDER, word_for
from .arguments import Argument, Command, Option, UsageError, parsed
from .colours import coloured_check
from .kinds import NOT_FOUND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = Command(
    "ls",
    "List sessions of all kinds: name, state, kind, directory, size, clients, how long it has been quiet,\n"
    "CPU usage (since the previous `ls`, or since the start), CPU time, memory, and the command with its\n"
    "title, if it has set one; for an agent, its question or last prompt. CPU and memory\n"
    "include all child processes.\n"
    "Agents are listed while they are open and for a day after; `fairlead sessions` lists all of them.\n"
    "Sessions without a name that `agent -p` or `run` opened are left out once they are done, unless they\n"
    "failed or need a person; --all lists these too.",
    takes=(Argument("name", "only these sessions", optional=True, many=True, completes="session"),),
    options=(
        Option("-a", "--all", help="also sessions of scripts that are done"),
        Option("-q", "--quiet", help="only the names, one per line"),
        Option(
            "--kind", value="KIND", completes="kind", help="only sessions of this kind: terminal, agent, …"
        ),
        Option("--json", help="print JSON: times in seconds, sizes in bytes, more fields than the table"),
    ),
    examples=(
        ("fairlead ls", "all sessions"),
        ("fairlead ls work && fairlead attach work", "attach if the session exists"),
        ("fairlead ls --json | jq '.[] | select(.idle > 60) | .name'", "sessions quiet for over a minute"),
    ),
    codes={1: "a named session does not exist; the others are listed"},
)
CHECK = 2
"""The column with what a verifier said, if one did."""
DROPS = ("TIME", "SIZE", "MEMORY", "CLIENTS", "CPU", "DIRECTORY", "QUIET", "CHECK", "KIND")
"""Which columns a narrow terminal does without, the least important one first."""
HEAD = ("NAME", "STATE", "KIND", "DIRECTORY", "SIZE", "CLIENTS", "QUIET", "CPU", "TIME", "MEMORY", "WHAT")
SHORT_ID = 8
"""How much of the id of a session without a name is shown; it is found by that."""
UUID_LENGTH, UUID_DASHES = 36, 4
"""What such an id looks like."""


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    from ..client.connection import DaemonConnection, RequestError

    found: list[dict[str, Any]] = []
    missing: list[str] = []
    with DaemonConnection() as control:
        try:
            answer = control.ask("session_list", brief=options.quiet or None, kind=options.kind)
        except RequestError as error:
            if options.kind and error.code == "request/invalid-params":
                raise UsageError(f"--kind: {error}") from None
            raise
        sessions, questions = answer["sessions"], answer["questions"]
        for name in options.name:
            try:
                meant = control.ask("session_find", name=name)
            except RequestError as error:
                if error.code != NOT_FOUND:
                    raise
                missing.append(str(error))
                continue
            rows = [meant["session"], *meant.get("others", [])]
            found += [row for row in rows if options.kind in (None, row["kind"])]
            if not any(options.kind in (None, row["kind"]) for row in rows):
                missing.append(f"no session {name!r} of kind {options.kind}")
    if options.name:  # the list has more of each, and those that are not in it are shown as they were found
        listed = {(row["kind"], row["id"]): row for row in sessions}
        sessions = [listed.get((row["kind"], row["id"]), row) for row in found]
    elif not options.all:
        sessions = [row for row in sessions if not _is_done_with(row)]
    if options.json:
        import json

        print(json.dumps(sessions, indent=2))
    elif options.quiet:
        for session in sessions:
            print(session["name"])
    elif sessions:
        _table(sessions)
    elif not options.name:
        how = "`fairlead start NAME -- COMMAND` starts a program, `fairlead agent NAME` an agent"
        print(f"no sessions; {how}", file=sys.stderr)
    if not options.json and not options.quiet:
        for session in sessions:
            if why := session.get("recording_error"):
                name = printable(session["name"])
                print(f"the recording of {name} stopped: {printable(why)}", file=sys.stderr)
        verdicts = [(session, session.get("verdict") or {}) for session in sessions]
        needed(
            [
                (shown_name(each), printable(verdict["escalated"]))
                for each, verdict in verdicts
                if verdict.get("escalated")
            ]
        )
        if questions and not options.name:
            pending = "1 approval is" if questions == 1 else f"{questions} approvals are"
            print(f"{pending} pending: `fairlead approvals`", file=sys.stderr)
    for why in missing:
        print(f"fairlead ls: {why}", file=sys.stderr)
    return 1 if missing else 0


def _is_done_with(session: dict[str, Any]) -> bool:
    """Whether a script opened it for one prompt, which was answered well."""
    verdict = session.get("verdict")
    is_well = not verdict or (
        LADDER.get(word_for(verdict["confidence"])) == "green" and not verdict["escalated"]
    )
    is_one_shot = session.get("one_shot") and session["name"] == session["id"]
    return bool(is_one_shot and session["state"] == "idle" and is_well)


def _table(sessions: list[dict[str, Any]]) -> None:
    from .columns import table

    names = [shown_name(session) for session in sessions]
    rows = [HEAD, *map(_row, sessions)]
    for at, session in enumerate(sessions, 1):
        if names.count(names[at - 1]) > 1 and session["id"] != session["name"]:
            rows[at] = (f"{rows[at][0]} ({session['id'][:SHORT_ID]})", *rows[at][1:])
    if any("verdict" in session for session in sessions):
        checks = ["CHECK", *(_check(session) for session in sessions)]
        rows = [(*row[:CHECK], check, *row[CHECK:]) for row, check in zip(rows, checks)]
    filled = [
        at for at, head in enumerate(rows[0]) if head == "CHECK" or any(row[at] != "-" for row in rows[1:])
    ]
    table([[row[at] for at in filled] for row in rows], drops=DROPS, paint={"CHECK": coloured_check})


def _check(session: dict[str, Any]) -> str:
    """What was said of its last turn, if anything was; with a mark if a person is needed."""
    verdict = session.get("verdict")
    if not verdict:
        return "-"
    said = "-" if verdict.get("stale") else word_for(verdict["confidence"])
    return f"{said}!" if verdict["escalated"] else said


def _row(session: dict[str, Any]) -> tuple[str, ...]:
    state = session["state"] if session["exit_code"] is None else f"exit {session['exit_code']}"
    if queued := session.get("queued"):
        state += f"+{queued}"
    if pid := session.get("stray_pid"):
        state = f"lost, pid {pid} runs"
    percent, memory = session.get("cpu_percent"), session.get("memory")
    what = printable(" ".join(session.get("argv") or [session["what"]]))
    if session["state"] == "asks" and session["waits_for"]:
        what = f"asks: {printable(session['waits_for'])}"
    if agent := session.get("agent"):
        what = f"{printable(agent)}: {what}"
    title = printable(session.get("title") or session.get("fault") or "")
    return (
        shown_name(session),
        state,
        session["kind"],
        printable(from_home(session["project"])),
        f"{session['cols']}×{session['rows']}" if "cols" in session else "-",
        str(session["clients"]) if "cols" in session else "-",
        span(session["idle"]),
        "-" if percent is None else f"{percent:.0f}%",
        span(session.get("cpu_seconds")),
        "-" if memory is None else f"{memory / 1e9:.1f} GB" if memory >= 1e9 else f"{memory / 1e6:.0f} MB",
        f"{what} — {title}" if title else what,
    )


def shown_name(session: dict[str, Any]) -> str:
    """What a session is called in a table."""
    name: str = session["name"]
    is_made_up = name == session["id"] and len(name) == UUID_LENGTH and name.count("-") == UUID_DASHES
    is_chosen = "screen" in session["can"]  # people give programs their names
    return printable(name[:SHORT_ID] if is_made_up and not is_chosen else name)


def needed(called: list[tuple[str, str]]) -> None:
    """Say which sessions need a person, and why: one line, however many they are."""
    if len(called) > 1:
        print(f"{len(called)} sessions need a person: `fairlead approvals`", file=sys.stderr)
    for name, why in called if len(called) == 1 else ():
        print(
            f"{name} needs a person: {why}; `fairlead approvals dismiss {name}` dismisses it", file=sys.stderr
        )


def from_home(path: str) -> str:
    import os

    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(f"{home}/") else path


def span(seconds: float | None) -> str:
    """How long something took, in its largest unit."""
    if seconds is None:
        return "-"
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
