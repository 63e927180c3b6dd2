"""How a conversation looks in a terminal: clean text, rows for tools and diffs.

What a model or a tool says goes through `clean` before it is drawn: nothing of it may control the terminal.
What a person is asked about goes through `marked`: nothing of it is left out. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...events import ApprovalWanted, PersonAsked, ToolResult
from ...formats.columns import width_of
from ...formats.shown import asker, clean, counted, one_line, several_lines, visible
from ..answers import own_label
from ..diff import drawn, is_diff
from ..styled import Line, Row

ERROR_LINES = 6
"""How many lines of what went wrong are shown."""
PRINTED_LINES = 5
"""How many lines of a command's output are shown, while it runs and after it."""
DIFF_LINES = 40
"""How many lines of a change are shown that nobody was asked about."""
PREVIEW_LINES, PREVIEW_CHARACTERS = 200, 16_000
"""How much is shown of what needs consent."""
COLUMNS = 80
"""How wide a terminal is taken to be where that is not known."""
OPENS = "^O opens"
"""How what is folded is opened."""

_COUNTED = ("read", "ls", "find", "grep")


marked = visible
"""For a text of which nothing is left out, as a person has to know all of it."""


def ends(text: str, columns: int) -> str:
    """As much of a line as has room, with its end, where the name of a file is."""
    room = max(2, columns - 1)
    return text if width_of(text) <= columns else f"{text[: room // 3]}…{text[room // 3 - room :]}"


def wrapped(text: str, columns: int) -> list[str]:
    """A line as rows of a terminal."""
    rows: list[str] = []
    row: list[str] = []
    used = 0
    for char in text:
        wide = width_of(char)
        if used + wide > columns:
            rows.append("".join(row))
            row, used = [], 0
        row.append(char)
        used += wide
    return [*rows, "".join(row)]


# --- what is shown of tools -------------------------------------------------------------------------------


class Excerpt(NamedTuple):
    """Rows of something, and all of it if that is more."""

    rows: Sequence[Row | Line]
    whole: Sequence[Row | Line] = ()


def result(ended: ToolResult, *, was_previewed: bool, columns: int = COLUMNS) -> Excerpt:
    """What a call gave, in a few lines. A change that was seen before is not shown again."""
    lines = clean(ended.text).rstrip("\n").split("\n")
    if ended.is_error:
        return first([(line, "red") for line in lines], ERROR_LINES)
    if ended.details.get("diff"):
        diff = changes(ended.details["diff"], columns)
        return Excerpt([(lines[0], "dim")], diff) if was_previewed else first(diff, DIFF_LINES)
    rows = [(line, "dim") for line in lines]
    if ended.name in _COUNTED:
        return Excerpt([(f"{len(lines)} lines", "dim")], rows) if len(lines) > 1 else Excerpt(rows)
    if ended.name == "plan":
        return Excerpt([_step(line) for line in lines])
    if lines[-1] == "[Exit code 0.]":
        rows.pop()
    return _last(rows)


def printed(text: str) -> Excerpt:
    """What a command printed, in a few lines."""
    return _last([(line, "dim") for line in clean(text).rstrip("\n").split("\n")])


def _last(rows: Sequence[Row | Line]) -> Excerpt:
    left = len(rows) - PRINTED_LINES
    if left <= 0:
        return Excerpt(rows)
    return Excerpt([(f"… {counted(left, 'line')} before · {OPENS}", "dim"), *rows[-PRINTED_LINES:]], rows)


def first(rows: Sequence[Row | Line], limit: int) -> Excerpt:
    """The first of some rows, and how many more there are."""
    left = len(rows) - limit
    if left <= 0:
        return Excerpt(rows)
    return Excerpt([*rows[:limit], (f"… {counted(left, 'more line')} · {OPENS}", "dim")], rows)


def _step(line: str) -> Row:
    """A step of a plan: done, in work or open."""
    for mark, shown, style in (("[x] ", "☑", "green"), ("[>] ", "▸", "bold"), ("[ ] ", "☐", "")):
        if line.startswith(mark):
            return f"{shown} {line[len(mark) :]}", style
    return line, ""


def changes(text: str, columns: int = COLUMNS, *, is_whole: bool = False) -> list[Row | Line]:
    """A diff with its numbers, or in colours what a new file will have in it."""
    if is_diff(text):
        return list(drawn(text, columns, is_whole=is_whole))
    colours = {"+": "green", "-": "red", "@": "cyan"}
    return [(line, colours.get(line[:1], "dim")) for line in marked(text).rstrip("\n").split("\n")]


def question(wanted: ApprovalWanted, columns: int = COLUMNS) -> list[Row | Line]:
    """What a person should know before they allow a call."""
    summary = one_line(wanted.summary, PREVIEW_CHARACTERS)
    why = one_line(wanted.reason, PREVIEW_CHARACTERS)
    who = wanted.data or {}
    asks = asker(who.get("session_name") or "", who.get("session_id"), who.get("project") or "")
    rows: list[Row | Line] = [(f"? {summary}", "yellow")]
    rows += [(f"  {why}", "dim")] if why else []
    rows += [(f"  {asks}", "dim")] if who.get("session_id") else []
    rows += [(f"  {value}: {label}", "yellow") for value, label in labelled(wanted)]
    where = f"`fairlead approvals show {marked(wanted.id)}` shows all"
    preview = several_lines(wanted.preview, lines=PREVIEW_LINES, characters=PREVIEW_CHARACTERS, where=where)
    if preview and f"$ {preview}" != summary:
        shown = changes(preview, columns - 2, is_whole=True)
        rows += [[("  ", ""), *row] if isinstance(row, list) else (f"  {row[0]}", row[1]) for row in shown]
    return rows


def labelled(wanted: ApprovalWanted) -> list[tuple[str, str]]:
    """The answers to a question that do more than their names say, and what they do in the agent's words."""
    found = []
    for option in wanted.data.get("options") or ():
        if label := own_label(option["value"], option["label"]):
            found.append((marked(option["value"]), one_line(label, PREVIEW_CHARACTERS)))
    return found


def asked(question: PersonAsked) -> list[Row]:
    """What an agent wants to know, and how to answer."""
    who = question.data
    asks = asker(who.get("session_name") or "", who.get("session_id"), who.get("project") or "")
    where = f"`fairlead approvals show {marked(question.id)}` shows all"
    text = several_lines(question.text, lines=PREVIEW_LINES, characters=PREVIEW_CHARACTERS, where=where)
    rows = [(f"? {asks} asks:", "yellow"), *((f"  {line}", "") for line in text.split("\n"))]
    rows += [(f"  {number}  {marked(choice)}", "") for number, choice in enumerate(question.choices, 1)]
    wanted = "NUMBER" if question.choices else "TEXT"
    return [*rows, (f"  /answer {wanted} answers it; /answer alone declines", "dim")]
