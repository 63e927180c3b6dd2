"""The lines of what is shown above the main screen: a question, the log, the keys. Pure functions.

All of it may be from strangers: what would not be seen is named, and nothing is left out of a question.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ...formats.columns import cut, fill, width_of
from ...formats.shown import asker, counted, one_line, visible
from ..answers import own_label
from ..plot import Look, clock
from .model import Happening, Row

MAX_TITLE = 200
LABEL = 7
"""How many columns the names of a question's facts take,"""
LEAST_FOR_LABELS = 24
"""if the terminal has so many; else they stand before the facts."""
_USUAL = {"allow": "y", "always": "a", "deny": "n"}
_DOES = {"allow": "allow it", "always": "allow it, and the same from now on", "deny": "deny it"}

KEYS = (
    ("↑ ↓ j k", "select a session; PgUp, PgDn, Home and End go further, and so does the mouse"),
    ("Enter", "attach to its terminal or its chat; leave that as usual (ctrl-\\ or ^D) to come back"),
    (
        "y a",
        "show all of what it asks; there y allows it, n denies it, a allows it from now on, as its line says",
    ),
    ("Tab", "select the next one that needs you"),
    ("p", "prompt it; what becomes of the prompt is said below"),
    ("n", "start a session: a program or an agent, in which directory"),
    ("x", "stop its program, or what its agent does; asks first"),
    ("d", "show what has changed in its directory since it began there"),
    ("t", "show its timeline: turns, tools, questions, checks"),
    ("r", "show its verifiers' reports, with confidence and cost over time"),
    ("l", "show what happened since the dashboard was opened"),
    ("i", "list the commands that agents' tools run, too, below their agents, or not any more"),
    ("/", "show only sessions with these words; Esc shows all again"),
    ("?", "show these keys"),
    ("q", "leave; all sessions keep running"),
)
"""What people press, and what that does."""


def folded(text: str, width: int) -> list[str]:
    """A text in lines of so many columns, all of it: also words that are wider than a line."""
    lines: list[str] = []
    for line in visible(text).split("\n"):
        rest = line
        while width_of(rest) > width:
            head = _head(rest, width)
            at = head.rfind(" ")
            head = head[: at + 1] if at > len(head) // 2 else head
            lines.append(head.rstrip(" "))
            rest = rest[len(head) :]
        lines.append(rest)
    return lines


def _head(text: str, width: int) -> str:
    """As much of a text as has room; at least one character."""
    kept = cut(text[: width + 1], width, "") if text.isascii() else _cut_wide(text, width)
    return kept or text[:1]


def _cut_wide(text: str, width: int) -> str:
    room = width
    for at, char in enumerate(text):
        room -= width_of(char)
        if room < 0:
            return text[:at]
    return text


def question_lines(question: dict[str, Any], width: int, look: Look) -> list[str]:
    """All that belongs to a question: what will happen, why that is asked, who asks, and the whole of it."""
    lines = [look.paint("bold", line) for line in folded(_one(question["title"]), width)]
    summary, whole = visible(question["summary"]).strip("\n"), visible(question["preview"]).strip("\n")
    lines += [look.paint("yellow", line) for line in folded(summary, width)]
    asked_at = question["asked_at"]
    facts = {
        "lost": question["lost"] and f"{question['lost']}; any answer dismisses it",
        "why": question["reason"],
        "who": asker(
            question.get("session_name") or "", question["session_id"], question.get("project") or ""
        ),
        "asked": asked_at and time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(asked_at)),
    }
    for name, value in facts.items():
        if value and width < LEAST_FOR_LABELS:
            lines += folded(f"{name}: {_one(value)}", width)
            continue
        for number, line in enumerate(folded(_one(value), width - LABEL) if value else ()):
            head = "" if number else name
            lines.append(look.paint("dim", f"{head:<{LABEL}}") + line)
    if whole and whole != summary.removeprefix("$ "):
        lines += ["", *folded(whole, width)]
    return lines


def _one(text: str) -> str:
    return one_line(text, 100 * MAX_TITLE)


def answers_of(question: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The keys that answer a question, which answer each is, and what that means."""
    labels = question.get("labels") or [""] * len(question["options"])
    found = []
    for number, (value, label) in enumerate(zip(question["options"], labels), 1):
        key = _USUAL.get(value, str(number) if number <= 9 else "")
        is_said = own_label(value, label) or value == "always"  # whose agent knows what else it will allow
        does = f'"{_one(label)}"' if label and is_said else _DOES.get(value, value)
        if question["lost"] or question["kind"] == "escalation":
            does = "dismiss it"
        if key:
            found.append((key, value, does))
    if question["lost"] and not found:
        found.append(("n", "deny", "dismiss it"))
    if question.get("takes_text") and not question["lost"]:
        found.append(("t", "answer", "answer in your own words"))
    return found


def help_lines(width: int, look: Look) -> list[str]:
    """The keys of the main screen."""
    lines = [look.paint("bold", "Keys"), ""]
    for key, does in KEYS:
        first, *more = fill(does, max(12, width - 10)).split("\n")
        lines.append(f"{look.paint('bold', f'{key:<9}')} {first}")
        lines += [f"{'':<10}{line}" for line in more]
    more_help = (
        "Nothing is answered by accident: a question can be answered once all of it was on the screen, by a "
        "single key. The first answer counts, from whichever client it comes. For screen readers and logs, "
        "`fairlead ls --watch` shows the same."
    )
    return [*lines, "", *fill(more_help, width).split("\n")]


_PATCH_LOOKS = {"+": "green", "-": "red", "@": "cyan"}


def diff_lines(name: str, answer: Row, width: int, look: Look) -> list[str]:
    """What has changed in a session's directory: each file, then the patch."""
    left_out = answer["left_out"]
    rest = f"not compared, too large or repositories of their own: {', '.join(left_out)}"
    if not answer["total"] and left_out:
        return [look.fit(f"{name} has changed nothing besides what is", width), *folded(rest, width)]
    if not answer["total"]:
        return [look.fit(f"{name} has changed nothing", width)]
    head = f"{counted(answer['total'], 'file')} changed, +{answer['insertions']} -{answer['deletions']} lines"
    if ahead := answer.get("ahead"):
        head += f", {counted(ahead, 'commit')}"
    if branch := answer.get("branch"):
        head += f", on branch {branch}"
    lines = [look.paint("bold", look.fit(head, width))]
    for each in answer["files"]:
        counts = f"  +{each.get('insertions') or 0} -{each.get('deletions') or 0}"
        lines.append(look.fit(f"{each['status']:<9} {each['path']}", max(8, width - len(counts))) + counts)
    if (more := answer["total"] - len(answer["files"])) > 0:
        lines.append(f"and {counted(more, 'more file')}")
    lines.append("")
    in_head = False
    for line in (answer.get("patch") or "").removesuffix("\n").split("\n"):
        in_head = line.startswith("diff ") or (in_head and not line.startswith("@@"))
        colour = "bold" if in_head else _PATCH_LOOKS.get(line[:1], "")
        lines += [look.paint(colour, part) for part in folded(line.rstrip("\r"), width)]
    if answer.get("cut"):
        lines.append("the diff is longer than what is shown")
    if left_out:
        lines += folded(rest, width)
    return lines


def log_lines(log: Sequence[Happening], width: int, look: Look) -> list[str]:
    """What happened, the last at the end."""
    lines = []
    for each in log:
        head = f"{clock(each.at)}  "
        text = look.fit(f"{each.name}  {each.what}", max(1, width - len(head)))
        lines.append(look.paint("dim", head) + (look.paint(each.colour, text) if each.colour else text))
    return lines or ["nothing has happened since the dashboard was opened"]
