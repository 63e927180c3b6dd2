"""`fairlead approvals`: what waits for your consent, and your answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .arguments import JSON, Argument, Command, UsageError, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LISTED_LINES, LISTED_CHARACTERS = 40, 4000
"""How much of what will happen is shown in the list; `show` shows all."""

COMMAND = Command(
    "approvals",
    "List what waits for your consent, of sessions and of the daemon itself: what will happen, why\n"
    "you are asked, which session of which project asks, and the whole command or change. Or answer: the\n"
    "first answer holds, from wherever it comes. A question whose asker is gone is lost; any answer\n"
    "dismisses it. For a session that needs a person, `deny` and its name dismiss that.",
    takes=(
        Argument(
            "answer",
            "answer instead of listing: allow, always (also the same from now on), deny, or another answer\n"
            "that the question has; show prints all of it",
            optional=True,
        ),
        Argument("token", "which one, or the beginning of its token", optional=True),
    ),
    options=(JSON,),
    examples=(
        ("fairlead approvals", "what waits?"),
        ("fairlead approvals show 1f3c5a77", "all of it, not only the beginning and the end"),
        ("fairlead approvals allow 1f3c5a77", "let it be done"),
    ),
    codes={1: "no question with this token is waiting"},
)


def main(arguments: Sequence[str]) -> int:
    options = parsed(COMMAND, arguments)
    if (options.answer is None) != (options.token is None):
        raise UsageError("an answer, or show, needs a token; `fairlead approvals` lists them")
    from ..client.control import Control

    with Control() as control:
        if options.answer not in (None, "show"):
            always = options.answer == "always" or None
            allowed = options.answer != "deny"
            other = options.answer if options.answer not in ("allow", "always", "deny") else None
            answer = control.ask(
                "approval_settle", token=options.token, allowed=allowed, always=always, option=other
            )
            return _print_answer(options.answer, answer, as_json=options.json)
        rows = control.ask("approvals", token=options.token)["approvals"]
    if options.json:
        import json

        print(json.dumps(rows, indent=2))
    elif not rows:
        print("nothing waits for your consent", file=sys.stderr)
    else:
        for row in rows:
            print(_shown(row, is_whole=options.token is not None))
    return 0


def _print_answer(given: str, answer: dict[str, Any], *, as_json: bool) -> int:
    """What was allowed or denied."""
    from ..formats.shown import one_line

    if as_json:
        import json

        print(json.dumps(answer, indent=2))
        return 0
    row = answer["approval"]
    done = {"allow": "allowed", "always": "allowed, now and always,", "deny": "denied"}.get(
        given, f"answered with {given}:"
    )
    if row["lost"]:
        done = "dismissed, as it is lost,"
    elif row["kind"] == "escalation":
        done = "dismissed"
    print(
        f"{done} {row['token']}: {row['title']}: {one_line(row['summary'], LISTED_CHARACTERS)} ({_who(row)})"
    )
    return 0


def _who(row: dict[str, Any]) -> str:
    from ..formats.shown import asker

    return asker(row.get("session_name") or "", row["session_id"], row.get("project") or "")


def _shown(row: dict[str, Any], *, is_whole: bool) -> str:
    """A question: its token and what will happen in a line, and below that all that belongs to it."""
    import time

    from ..formats.shown import one_line, several_lines, visible

    token, summary = row["token"], one_line(row["summary"], LISTED_CHARACTERS)
    lines = [f"{token}  {one_line(row['title'], 80)}: {summary}"]
    details = {
        "lost": row["lost"] and f"{row['lost']}; `fairlead approvals deny {token}` dismisses it",
        "why": row["reason"],
        "who": _who(row),
        "answers": ", ".join(f"{value} ({label})" for value, label in zip(row["options"], row["labels"]))
        if row.get("labels")
        else "",
        "asked": row["asked_at"] and time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["asked_at"])),
    }
    for name, value in details.items():
        if value:
            lines.append(f"    {name:<6} {one_line(value, LISTED_CHARACTERS)}")
    if is_whole:
        whole = visible(row["preview"]).strip("\n")
    else:
        where = f"`fairlead approvals show {token}` shows all"
        whole = several_lines(row["preview"], lines=LISTED_LINES, characters=LISTED_CHARACTERS, where=where)
    if whole and whole != summary.removeprefix("$ "):
        lines += ["    what", *(f"      {line}" for line in whole.split("\n"))]
    return "\n".join(lines)
