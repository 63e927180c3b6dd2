"""`fairlead approvals`: what waits for your consent, and your answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, Failure, Option, UsageError, nearest, parsed
from .far import hinted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client.connection import DaemonConnection

VERBS = ("allow", "always", "deny", "dismiss", "answer", "show")
LISTED_LINES, LISTED_CHARACTERS = 40, 4000
"""How much of what will happen is shown in the list; `show` shows all."""
ANSWERS_CHARACTERS = 100
"""How long the names of all answers may be to be in one line."""

COMMAND = Command(
    "approvals",
    "List pending approvals, from sessions and from the daemon itself: what will happen, why consent\n"
    "is needed, which session and project it comes from, and the full command or change. Or answer one; the\n"
    "first answer from any client counts. An approval whose session is gone is marked lost; any answer\n"
    "dismisses it. `dismiss SESSION` dismisses the notice that a session needs a person. What programs ask\n"
    "in their terminals only is listed below, and answered there: `fairlead attach NAME`.",
    takes=(
        Argument(
            "answer",
            "answer, or show one in full: allow, always (also the same call from now on), deny, dismiss,\n"
            "answer (say something to an agent that asks), show, or another answer that the question offers",
            optional=True,
            completes=" ".join(VERBS),
        ),
        Argument(
            "token",
            "its token, a unique prefix of it, or the name of the session, if it asks nothing else",
            optional=True,
            completes="approval",
        ),
        Argument(
            "text", "for answer: what you say, or the number of the answer that you choose", optional=True
        ),
    ),
    options=(Option("-a", "--all", help="also those of other hosts"), JSON),
    examples=(
        ("fairlead approvals", "list all"),
        ("fairlead approvals --all", "also those of other hosts; `approvals allow HOST:TOKEN` answers one"),
        ("fairlead approvals show 1f3c5a77", "print one in full"),
        ("fairlead approvals answer 1f3c5a77 'the blue one'", "answer an agent's question"),
        ("fairlead approvals dismiss garden", "the session garden no longer needs a person"),
    ),
    codes={1: "no approval with this token is pending"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if (options.answer is None) != (options.token is None):
        raise UsageError("missing TOKEN; `fairlead approvals` lists them")
    if (options.answer == "answer") != (options.text is not None):
        raise UsageError("`approvals answer TOKEN TEXT` takes a text, and nothing else does")
    if options.all and options.token is not None:
        raise UsageError("--all is for the list; HOST:TOKEN is an approval of another host")
    from ..client.connection import DaemonConnection
    from ..ui.needs import host_line, host_of, is_away
    from .kinds import note_seen

    hosts: Sequence[dict[str, Any]] = ()
    with DaemonConnection(via="fairlead approvals", hosts=options.all) as control:
        in_terminal = _asks_in_terminal(options.token, control) if options.token is not None else None
        if in_terminal is not None and options.answer != "show":
            why = f"{options.token} asks in its terminal: {in_terminal['summary']}; {_attach(in_terminal)}"
            raise Failure(why)
        if options.answer not in (None, "show"):
            _check_verb(options.answer, options.token, control)
            token, given = options.token, options.answer
            if given == "dismiss":
                [row] = control.ask("approvals", token=token)["approvals"]
                token = row["token"]
                if row["kind"] != "escalation" and not row["lost"]:
                    raise Failure(f"{token} waits for consent: `fairlead approvals deny {token}` denies it")
            answer = control.ask(
                "approval_settle",
                token=token,
                allowed=given not in ("deny", "dismiss"),
                always=given == "always" or None,
                option=given if given not in ("allow", "always", "deny", "dismiss") else None,
                text=options.text,
            )
            return _print_answer(options.answer, answer, as_json=options.json)
        if in_terminal is not None:
            rows = [in_terminal | {"preview": _screen(control, in_terminal)}]
            note_seen(control, session_id=in_terminal["session_id"])
        else:
            found = control.ask("approvals", token=options.token, hosts=options.all or None)
            rows, hosts = found["approvals"], found.get("hosts") or ()
            if options.token is None:
                rows += _in_terminals(control, rows, all_hosts=options.all)
            note_seen(control, "approval_seen", token=options.token)
            for row in rows:
                if host_of(row) and row["token"] and not is_away(row):
                    note_seen(control, "approval_seen", token=row["token"])
    if options.json:
        import json

        print(json.dumps(rows, indent=2))
        return 0
    for each in hosts:
        if line := host_line(each):
            print(line, file=sys.stderr)
    if not rows:
        print("no approvals pending", file=sys.stderr)
    else:
        for row in rows:
            print(hinted(_question_text(row, is_whole=options.token is not None)))
    return 0


def _in_terminals(
    control: DaemonConnection, asked: list[dict[str, Any]], *, all_hosts: bool = False
) -> list[dict[str, Any]]:
    """What programs ask in their terminals and nowhere else, in the order of `ls`, as rows without an
    answer."""
    from ..ui.needs import WAITS, activity_of, by_need, question_of, rank

    known = {row["session_id"] for row in asked if row["kind"] != "escalation" and not row["lost"]}
    sessions = by_need(control.ask("session_list", brief=True, hosts=all_hosts or None)["sessions"])
    return [
        {
            "token": "",
            "kind": "terminal",
            "session_id": each["id"],
            "session_name": each["name"],
            "project": each["project"],
            "title": "in its terminal",
            "summary": question_of(each),
            "reason": "",
            "preview": "",
            "options": [],
            "asked_at": activity_of(each)["since"],
            "lost": None,
            **({"host": each["host"]} if "host" in each else {}),
        }
        for each in sessions
        if rank(each) == WAITS and each["id"] not in known and "screen" in each["can"]
    ]


def _asks_in_terminal(token: str, control: DaemonConnection) -> dict[str, Any] | None:
    """The question of a session that asks in its terminal only, by the session's name."""
    from ..client.connection import RequestError

    try:
        control.ask("approvals", token=token)
    except RequestError:
        rows = _in_terminals(control, [])
        return next((row for row in rows if token in (row["session_id"], row["session_name"])), None)
    return None


def _screen(control: DaemonConnection, row: dict[str, Any]) -> str:
    """The end of what a session shows, with its question."""
    lines = control.ask("session_lines", session_id=row["session_id"], limit=LISTED_LINES)["lines"]
    return "\n".join(lines)


def _attach(row: dict[str, Any]) -> str:
    from shlex import quote

    return f"answer in the terminal: `fairlead attach {quote(_placed(row))}`"


def _placed(row: dict[str, Any]) -> str:
    """The name of the session that asks, with its host."""
    from ..ui.needs import host_of

    name: str = row["session_name"]
    return f"{host}:{name}" if (host := host_of(row)) else name


def _check_verb(given: str, token: str, control: DaemonConnection) -> None:
    """Raise UsageError for an answer that no question takes."""
    import re

    if given in VERBS:
        return
    offered = {word for row in control.ask("approvals")["approvals"] for word in row["options"]}
    if given in offered:
        return
    if re.fullmatch(r"[a-z-]*\d+", given):  # such answers go with their question: it may be over by now
        control.ask("approvals", token=token)
    words = [*VERBS, *sorted(offered - set(VERBS))]
    hint = nearest(given, words) or f"; expected one of {', '.join(words)}"
    raise UsageError(f"no answer {given!r}{hint}")


def _print_answer(given: str, answer: dict[str, Any], *, as_json: bool) -> int:
    """What was allowed or denied."""
    from ..formats.shown import one_line

    if as_json:
        import json

        print(json.dumps(answer, indent=2))
        return 0
    row = answer["approval"]
    known = {"allow": "allowed", "always": "always allowed", "deny": "denied", "dismiss": "dismissed"}
    done = known.get(given, "answered" if given == "answer" else f"answered with {given}:")
    if row["lost"]:
        done = "dismissed lost approval"
    elif row["kind"] == "escalation":
        done = "dismissed"
    print(
        f"{done} {row['token']}: {row['title']}: {one_line(row['summary'], LISTED_CHARACTERS)} ({_who(row)})"
    )
    return 0


def _command(row: dict[str, Any]) -> str:
    """How to answer a question for consent."""
    if row["lost"] or row["kind"] in ("escalation", "dialog") or not row["options"]:
        return ""
    first, *others = row["options"]
    more = f", or {', '.join(others)} instead of {first}" if others else ""
    return f"`fairlead approvals {first} {row['token']}`{more}"


def _who(row: dict[str, Any]) -> str:
    from ..formats.shown import asker
    from ..ui.needs import own_id

    id = own_id(row, "session_id") or None
    return asker(row.get("session_name") or "", id, row.get("project") or "")


def _answers(row: dict[str, Any]) -> list[str]:
    """The answers with their whole names: in one line if there is room, else each in its own."""
    from ..formats.shown import answer_name

    found = [answer_name(*each) for each in zip(row["options"], row.get("labels") or (), strict=False)]
    joined = ", ".join(found)
    return [joined] if found and len(joined) <= ANSWERS_CHARACTERS else found


def _question_text(row: dict[str, Any], *, is_whole: bool) -> str:
    """A question: its token and what will happen in a line, and below that all that belongs to it."""
    import time

    from ..formats.shown import one_line, several_lines, visible
    from ..ui.needs import host_of, is_away

    token, summary = row["token"] or _placed(row), one_line(row["summary"], LISTED_CHARACTERS)
    lines = [f"{token}  {one_line(row['title'], 80)}: {summary}"]
    details = {
        "lost": row["lost"] and f"{row['lost']}; `fairlead approvals dismiss {token}` dismisses it",
        "then": row["kind"] == "escalation"
        and not row["lost"]
        and f"look at it, ask it for something else, or `fairlead approvals dismiss {token}`",
        "say": row["kind"] == "dialog"
        and not row["lost"]
        and f"`fairlead approvals answer {token} {'TEXT' if row.get('takes_text') else 'NUMBER'}`",
        "host": host_of(row) + (", which is away: it can't be answered now" if is_away(row) else ""),
        "why": row["reason"],
        "who": _who(row),
        "answer": _answers(row),
        "do": _attach(row) if row["kind"] == "terminal" else _command(row),
        "asked": row["asked_at"] and time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["asked_at"])),
    }
    for name, value in details.items():
        if isinstance(value, list):
            lines += [f"    {name:<6} {each}" for each in value]
        elif value:
            lines.append(f"    {name:<6} {one_line(value, LISTED_CHARACTERS)}")
    if is_whole:
        whole = visible(row["preview"]).strip("\n")
    else:
        where = f"`fairlead approvals show {token}` shows all"
        whole = several_lines(row["preview"], lines=LISTED_LINES, characters=LISTED_CHARACTERS, where=where)
    if whole and whole != summary.removeprefix("$ "):
        lines += ["    what", *(f"      {line}" for line in whole.split("\n"))]
    return "\n".join(lines)
