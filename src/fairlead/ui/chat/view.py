"""How a conversation looks in a terminal: clean text, rows for tools and diffs.

What a model or a tool says goes through `clean` before it is drawn: nothing of it may control the terminal.
What a person is asked about goes through `marked`: nothing of it is left out. Pure functions.
"""

from __future__ import annotations

from ...events import ApprovalWanted, PersonAsked, ToolResult
from ...formats.columns import width_of
from ...formats.shown import asker, clean, counted, one_line, several_lines, visible
from ..styled import Row

ERROR_LINES = 6
"""How many lines of what went wrong are shown."""
PRINTED_LINES = 5
"""How many lines of a command's output are shown, while it runs and after it."""
DIFF_LINES = 40
"""How many lines of a change are shown that nobody was asked about."""
PREVIEW_LINES, PREVIEW_CHARACTERS = 200, 16_000
"""How much is shown of what needs consent."""

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


def result(ended: ToolResult, *, was_previewed: bool) -> list[Row]:
    """What a call gave, in a few lines. A change that was seen before is not shown again."""
    lines = clean(ended.text).rstrip("\n").split("\n")
    if ended.is_error:
        return [(line, "red") for line in _first(lines, ERROR_LINES)]
    if ended.details.get("diff"):
        if was_previewed:
            return [(lines[0], "dim")]
        return changes(ended.details["diff"], DIFF_LINES)
    if ended.name in _COUNTED:
        return [(f"{len(lines)} lines" if len(lines) > 1 else lines[0], "dim")]
    if lines[-1] == "[Exit code 0.]":
        lines.pop()
    return _printed(lines)


def printed(text: str) -> list[Row]:
    """What a command printed, in a few lines."""
    return _printed(clean(text).rstrip("\n").split("\n"))


def _printed(lines: list[str]) -> list[Row]:
    left = len(lines) - PRINTED_LINES
    shown = [f"… {counted(left, 'line')} before", *lines[-PRINTED_LINES:]] if left > 0 else lines
    return [(line, "dim") for line in shown]


def changes(text: str, limit: int) -> list[Row]:
    """A diff in colours, or what a new file will have in it."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    lines = _first(marked(text).rstrip("\n").split("\n"), limit)
    return [(line, colours.get(line[:1], "dim")) for line in lines]


def _first(lines: list[str], limit: int) -> list[str]:
    left = len(lines) - limit
    return [*lines[:limit], f"… {counted(left, 'more line')}"] if left > 0 else lines


def question(wanted: ApprovalWanted) -> list[Row]:
    """What a person should know before they allow a call."""
    summary = one_line(wanted.summary, PREVIEW_CHARACTERS)
    why = one_line(wanted.reason, PREVIEW_CHARACTERS)
    who = wanted.data or {}
    asks = asker(who.get("session_name") or "", who.get("session_id"), who.get("project") or "")
    rows = [(f"? {summary}", "yellow")]
    rows += [(f"  {why}", "dim")] if why else []
    rows += [(f"  {asks}", "dim")] if who.get("session_id") else []
    for option in who.get("options") or ():
        if ": " in option["label"]:  # the agent calls it otherwise than what it does
            label = one_line(option["label"], PREVIEW_CHARACTERS)
            rows.append((f"  {marked(option['value'])}: {label}", "yellow"))
    where = f"`fairlead approvals show {marked(wanted.id)}` shows all"
    preview = several_lines(wanted.preview, lines=PREVIEW_LINES, characters=PREVIEW_CHARACTERS, where=where)
    if preview and f"$ {preview}" != summary:
        rows += [(f"  {line}", style) for line, style in changes(preview, PREVIEW_LINES + 1)]
    return rows


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
