"""`fairlead ls`: the sessions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from ..formats.columns import printable
from ..ui.needs import (
    SHORT_ID,
    about,
    below_agents,
    branch_cell,
    by_need,
    check_cell,
    cost_cell,
    from_home,
    host_line,
    host_of,
    is_away,
    is_done_with,
    is_inner,
    own_id,
    question_of,
    shown_name,
    span,
    state_cell,
    subtitle_of,
)
from .arguments import Argument, Command, Option, UsageError, parsed
from .colours import coloured_check, coloured_state
from .far import hinted
from .kinds import NOT_FOUND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.connection import DaemonConnection

COMMAND = Command(
    "ls",
    "List sessions of all kinds, those that need you first: who waits for an answer (the longest first),\n"
    "whose verifier calls for a person, whose turn is done and was not looked at yet; then those that\n"
    "work, run, are idle or have ended. STATE is what a session does and for how long. A terminal that is\n"
    "wide enough also shows the question, the kind and agent, directory, git branch, last check, size,\n"
    "clients, how long it has been quiet, CPU usage (since the previous `ls`, or since the start), CPU\n"
    "time, memory (with all child processes), an agent's cost (or tokens, where no price is known), and\n"
    "the command with its title or the agent's last prompt.\n"
    "Agents are listed while they are open and for a day after; `fairlead sessions` lists all of them.\n"
    "Sessions without a name that `agent -p` or `run` opened are left out once they are done, unless they\n"
    "failed or need a person, and so are commands that agents' tools run; --all lists these too, and the\n"
    "sessions of other hosts: of those that are away, one line says what was known of them last.",
    takes=(Argument("name", "only these sessions", optional=True, many=True, completes="session"),),
    options=(
        Option(
            "-a",
            "--all",
            help="also sessions of other hosts, of scripts that are done, and commands of agents' tools",
        ),
        Option("-q", "--quiet", help="only the names, one per line, in the same order"),
        Option(
            "--kind", value="KIND", completes="kind", help="only sessions of this kind: terminal, agent, …"
        ),
        Option(
            "-w",
            "--watch",
            help="show every change until ^C; without a terminal, print one line for each change",
        ),
        Option("--json", help="print JSON: times in seconds, sizes in bytes, more fields than the table"),
    ),
    examples=(
        ("fairlead ls", "all sessions, those that need you first"),
        ("fairlead ls --watch", "keep looking; `fairlead next` attaches to the first one"),
        ("fairlead ls work && fairlead attach work", "attach if the session exists"),
        ("fairlead ls --json | jq '.[] | select(.idle > 60) | .name'", "sessions quiet for over a minute"),
    ),
    codes={1: "a named session does not exist; the others are listed"},
)
DROPS = (
    *("TIME", "SIZE", "MEMORY", "CLIENTS", "CPU", "QUIET", "COST", "WHAT"),
    *("CHECK", "BRANCH", "DIRECTORY", "KIND"),
)
"""Which columns a narrow terminal does without, the least important one first. The one that is cut stays."""
HEAD = (
    *("HOST", "NAME", "STATE", "QUESTION", "KIND", "DIRECTORY", "BRANCH", "CHECK"),
    *("SIZE", "CLIENTS", "QUIET", "CPU", "TIME", "MEMORY", "COST", "WHAT"),
)
LEAST_QUESTION = 40
"""How many columns of a question are shown, as long as others can be left out instead;"""
MAX_WHAT = 40
"""and how many of what a session is about, beside a question."""


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if options.watch:
        if options.json or options.quiet:
            raise UsageError("--watch can't be combined with --json or --quiet")
        from .ls_watch import watch

        return watch(options)
    from ..client.connection import DaemonConnection

    with DaemonConnection() as control:
        sessions, questions, missing, inner, hosts = listed(control, options)
    if options.json:
        import json

        print(json.dumps(sessions, indent=2))
    elif options.quiet:
        for session in there(sessions):
            print(f"{host}:{session['name']}" if (host := host_of(session)) else session["name"])
    elif sessions or hosts:
        print("\n".join(lines_of(sessions, hosts)))
    elif not options.name:
        how = "`fairlead start NAME -- COMMAND` starts a program, `fairlead agent NAME` an agent"
        print(hinted(f"no sessions; {how}"), file=sys.stderr)
    if not options.json and not options.quiet:
        for session in there(sessions):
            if why := session.get("recording_error"):
                name = printable(session["name"])
                print(f"the recording of {name} stopped: {printable(why)}", file=sys.stderr)
            if count := session.get("unsaid"):
                print(hinted(_unsaid(_placed_name(session), count)), file=sys.stderr)
        verdicts = [(session, session.get("verdict") or {}) for session in there(sessions)]
        needed(
            [
                (_placed_name(each), printable(verdict["escalated"]))
                for each, verdict in verdicts
                if verdict.get("escalated")
            ],
            of_all=bool(hosts),
        )
        if inner:
            print(hinted(f"{hidden(inner)} not listed: `fairlead ls --all`"), file=sys.stderr)
        if questions and not options.name:
            pending = "1 approval is" if questions == 1 else f"{questions} approvals are"
            how = "fairlead approvals --all" if hosts else "fairlead approvals"
            print(hinted(f"{pending} pending: `{how}`"), file=sys.stderr)
    for why in missing:
        print(hinted(f"fairlead ls: {why}"), file=sys.stderr)
    return 1 if missing else 0


def _unsaid(name: str, count: int) -> str:
    """That a session has not got prompts, until it gets another one."""
    from shlex import quote

    what, which = ("1 prompt was", "it was") if count == 1 else (f"{count} prompts were", "they were")
    why = f"the daemon ended before {which} said"
    return f"{name}: {what} not delivered: {why}; `fairlead prompt {quote(name)} --receipts`"


def _placed_name(session: dict[str, Any]) -> str:
    """The name of a session, with its host, as commands here take it."""
    host = host_of(session)
    return f"{host}:{shown_name(session)}" if host else shown_name(session)


def hidden(inner: int) -> str:
    """That so many commands of agents' tools are left out."""
    return "1 command of an agent's tools is" if inner == 1 else f"{inner} commands of agents' tools are"


def there(sessions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of them that are on hosts that are not away."""
    return [session for session in sessions if not is_away(session)]


class Listing(NamedTuple):
    """What `ls` shows."""

    sessions: list[dict[str, Any]]
    """Those that the options name, or all, those that need a person first."""
    questions: int
    """How many questions wait."""
    missing: list[str]
    """Which names there are no sessions of."""
    inner: int
    """How many commands of agents' tools are left out."""
    hosts: list[dict[str, Any]]
    """The other hosts, if they are asked for and there are any."""


def listed(control: DaemonConnection, options: Any) -> Listing:
    """The sessions that the options name, or all."""
    from ..client.connection import RequestError

    found: list[dict[str, Any]] = []
    missing: list[str] = []
    names, kind = options.name, options.kind
    try:
        wants_hosts = (options.all and not names) or None
        answer = control.ask("session_list", brief=options.quiet or None, kind=kind, hosts=wants_hosts)
    except RequestError as error:
        if kind and error.code == "request/invalid-params":
            raise UsageError(f"--kind: {error}") from None
        raise
    sessions = answer["sessions"]
    for name in names:
        try:
            meant = control.ask("session_find", name=name)
        except RequestError as error:
            if error.code != NOT_FOUND:
                raise
            missing.append(str(error))
            continue
        rows = [meant["session"], *meant.get("others", [])]
        found += [row for row in rows if kind in (None, row["kind"])]
        if not any(kind in (None, row["kind"]) for row in rows):
            missing.append(f"no session {name!r} of kind {kind}")
    if names:  # the list has more of each, and those that are not in it are shown as they were found
        rows_of = {(row["kind"], row["id"]): row for row in sessions}
        sessions = [rows_of.get((row["kind"], row["id"]), row) for row in found]
        return Listing(sessions, answer["questions"], missing, 0, [])
    if not options.all:
        sessions = [row for row in sessions if not is_done_with(row)]
    kept = sessions if options.all or options.json else [row for row in sessions if not is_inner(row)]
    hosts = answer.get("hosts") or []
    questions = answer["questions"] + sum(each["questions"] for each in hosts if each["state"] == "here")
    return Listing(below_agents(by_need(kept)), questions, missing, len(sessions) - len(kept), hosts)


def lines_of(sessions: list[dict[str, Any]], hosts: Sequence[dict[str, Any]] = ()) -> list[str]:
    """The sessions as a table, and a line for each host that is away."""
    away = [line for host in hosts if (line := host_line(host))]
    sessions = there(sessions)
    return [*(_table_of(sessions) if sessions else ()), *away] or ["no sessions"]


def _table_of(sessions: list[dict[str, Any]]) -> list[str]:
    from ..formats.columns import cut
    from .columns import table_lines, terminal_width

    names = [(host_of(session), shown_name(session)) for session in sessions]
    counts: dict[tuple[str, str], int] = {}
    for name_there in names:
        counts[name_there] = counts.get(name_there, 0) + 1
    rows: list[tuple[str, ...]] = [HEAD, *map(_row, sessions)]
    ids = {session["id"] for session in sessions}
    for at, session in enumerate(sessions, 1):
        if is_inner(session) and session["tool_of"] in ids:
            host, name, *rest = rows[at]
            rows[at] = (host, f"  {name}", *rest)
    for at, session in enumerate(sessions, 1):
        if counts[names[at - 1]] > 1 and (id := own_id(session)) != session["name"]:
            host, name, *rest = rows[at]
            rows[at] = (host, f"{name} ({id[:SHORT_ID]})", *rest)
    has_checks = any("verdict" in session for session in sessions)
    filled = [
        at
        for at, head in enumerate(HEAD)
        if (head == "CHECK" and has_checks) or any(row[at] != "-" for row in rows[1:])
    ]
    flexible = "QUESTION" if HEAD.index("QUESTION") in filled else "WHAT"
    if flexible == "QUESTION" and terminal_width() is not None:
        rows = [(*row[:-1], cut(row[-1], MAX_WHAT)) for row in rows]
    return table_lines(
        [[row[at] for at in filled] for row in rows],
        drops=[head for head in DROPS if head != flexible],
        flexible=flexible,
        **({"least": LEAST_QUESTION} if flexible == "QUESTION" else {}),
        paint={"CHECK": coloured_check, "STATE": coloured_state},
    )


def _row(session: dict[str, Any]) -> tuple[str, ...]:
    percent, memory = session.get("cpu_percent"), session.get("memory")
    what = printable(about(session))
    title = printable(subtitle_of(session))
    return (
        printable(host_of(session)) or "-",
        shown_name(session),
        state_cell(session),
        question_of(session) or "-",
        printable(f"{session['kind']} {session.get('agent') or ''}".strip()),
        printable(from_home(session["project"])),
        branch_cell(session),
        check_cell(session),
        f"{session['cols']}×{session['rows']}" if "cols" in session else "-",
        str(session["clients"]) if "cols" in session else "-",
        span(session["idle"]),
        "-" if percent is None else f"{percent:.0f}%",
        span(session.get("cpu_seconds")),
        "-" if memory is None else f"{memory / 1e9:.1f} GB" if memory >= 1e9 else f"{memory / 1e6:.0f} MB",
        cost_cell(session) or "-",
        f"{what} — {title}" if title else what,
    )


def needed(called: list[tuple[str, str]], *, of_all: bool = False) -> None:
    """Say which sessions need a person, and why: one line, however many they are."""
    if len(called) > 1:
        how = f"`fairlead approvals{' --all' if of_all else ''}`"
        print(hinted(f"{len(called)} sessions need a person: {how}"), file=sys.stderr)
    for name, why in called if len(called) == 1 else ():
        how = f"`fairlead approvals dismiss {name}` dismisses it"
        print(hinted(f"{name} needs a person: {why}; {how}"), file=sys.stderr)
