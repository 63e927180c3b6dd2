"""An agent session as lines of text: what `fairlead logs` prints."""

from __future__ import annotations

from ..formats.shown import visible
from .context import take_queued
from .conversation import Conversation
from .journal import Custom, Said
from .messages import Assistant, Message, ToolResult, User, text_of


def log_lines(session: Conversation) -> list[str]:
    """What was said, a person's lines with a mark; what went wrong; which prompts were never said. Nothing in
    it controls a terminal."""
    found: list[str] = []
    queued: dict[str, str] = {}
    for entry in session.journal.branch:
        if isinstance(entry.body, Said):
            found += _message(entry.body.message)
        elif isinstance(entry.body, Custom) and (dropped := take_queued(entry.body, session.id, queued)):
            found += visible(f"not sent ({dropped.reason}): {dropped.text}").split("\n")
    return found


def _message(message: Message) -> list[str]:
    text = visible(text_of(message))
    if isinstance(message, User):
        text = "> " + text.replace("\n", "\n> ")
    elif isinstance(message, ToolResult):
        text = f"[{message.tool_name}] {text}"
    lines = text.split("\n") if text else []
    if isinstance(message, Assistant) and message.stop_reason == "error":
        lines += visible(f"error: {message.error_message or 'the model failed'}").split("\n")
    return lines
