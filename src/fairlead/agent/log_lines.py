"""An agent session as lines of text: what `fairlead logs` prints."""

from __future__ import annotations

from ..formats.shown import call_title, visible
from .context import take_queued
from .conversation import Conversation
from .journal import Custom, Said
from .messages import Message, ToolResult, User, text_of


def log_lines(session: Conversation) -> list[str]:
    """What was said, a person's lines with a mark; which tools were called, and how that ended; what went
    wrong; which prompts were never said. Nothing in it controls a terminal. Lines are only ever added."""
    lines: list[str] = []
    queued: dict[str, str] = {}
    calls: dict[str, str] = {}
    for entry in session.journal.branch:
        if isinstance(entry.body, Said):
            lines += _message(entry.body.message, calls)
        elif isinstance(entry.body, Custom) and (dropped := take_queued(entry.body, session.id, queued)):
            lines += visible(f"not sent ({dropped.reason}): {dropped.text}").split("\n")
    return lines


def _message(message: Message, calls: dict[str, str]) -> list[str]:
    """The lines of a message; `calls` are those of the last answer that have no result yet."""
    text = visible(text_of(message))
    if isinstance(message, User):
        return ("> " + text.replace("\n", "\n> ")).split("\n")
    if isinstance(message, ToolResult):
        repeated = (
            [f"○ {calls[message.tool_call_id]}"] if len(calls) > 1 and message.tool_call_id in calls else []
        )
        calls.pop(message.tool_call_id, None)
        outcome = "failed: " if message.is_error else ""
        return [*repeated, *f"[{message.tool_name}] {outcome}{text}".split("\n")]
    lines = text.split("\n") if text else []
    calls.clear()
    calls.update((call.id, call_title(call.name, call.arguments)) for call in message.calls)
    lines += [f"● {title}" for title in calls.values()]
    if message.stop_reason == "error":
        lines += visible(f"error: {message.error_message or 'the model failed'}").split("\n")
    return lines
