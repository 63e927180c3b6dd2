"""What of a journal a model is shown, and how much that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from .journal import BranchSummary, Compaction, CustomMessage, Entry, Said
from .messages import Assistant, Image, Message, Text, ToolCall, ToolResult, User, text_of

CHARS_A_TOKEN = 4
"""A rough measure: what a token is differs from model to model."""
IMAGE_TOKENS = 1200
SUMMARY_TITLE = "Previous conversation summary:"


def conversation(branch: Sequence[Entry]) -> list[Message]:
    """The messages that a model is asked with: after a compaction its summary and what was kept."""
    messages: list[Message] = []
    start = 0
    for index, entry in enumerate(branch):
        if isinstance(entry.body, Compaction):
            summary = entry.body.summary
            kept = entry.body.first_kept_entry_id
            start = next((at for at, each in enumerate(branch) if each.id == kept), index + 1)
            messages = [User((Text(f"{SUMMARY_TITLE}\n\n{summary}"),))]
    for entry in branch[start:]:
        body = entry.body
        if isinstance(body, Said):
            messages.append(body.message)
        elif isinstance(body, CustomMessage):
            content = (Text(body.content),) if isinstance(body.content, str) else body.content
            messages.append(User(content))
        elif isinstance(body, BranchSummary):
            messages.append(User((Text(body.summary),)))
    return messages


def unanswered(branch: Sequence[Entry]) -> list[ToolCall]:
    """The calls of the last message of a model that have no result."""
    answered: set[str] = set()
    for entry in reversed(branch):
        if not isinstance(entry.body, Said):
            continue
        message = entry.body.message
        if isinstance(message, ToolResult):
            answered.add(message.tool_call_id)
        elif isinstance(message, Assistant):
            return [call for call in message.calls if call.id not in answered]
        else:
            return []
    return []


class Turn(NamedTuple):
    """What a person asked for and all that came of it. Lines are those of the journal, both included."""

    number: int
    prompt: str
    first_line: int
    last_line: int
    corrections: int
    """How often a verifier sent it back."""


def turns(branch: Sequence[Entry]) -> list[Turn]:
    """All turns of a conversation, corrections and steering being parts of theirs."""
    found: list[Turn] = []
    for entry in branch:
        said = entry.body.message if isinstance(entry.body, Said) else None
        if isinstance(said, User) and said.origin is msgspec.UNSET:
            found.append(Turn(len(found) + 1, text_of(said), entry.line, entry.line, 0))
        elif found:
            corrected = isinstance(said, User) and said.origin == "correction"
            last = found[-1]
            found[-1] = last._replace(last_line=entry.line, corrections=last.corrections + corrected)
    return found


def last_message(branch: Sequence[Entry]) -> Message | None:
    return next((entry.body.message for entry in reversed(branch) if isinstance(entry.body, Said)), None)


def tokens(message: Message) -> int:
    """About how many tokens a message takes."""
    if isinstance(message.content, str):
        return len(message.content) // CHARS_A_TOKEN + 1
    count = 0
    for part in message.content:
        if isinstance(part, Image):
            count += IMAGE_TOKENS
        elif isinstance(part, ToolCall):
            count += (len(part.name) + len(msgspec.json.encode(part.arguments))) // CHARS_A_TOKEN + 1
        else:
            text = part.text if isinstance(part, Text) else part.thinking
            count += len(text) // CHARS_A_TOKEN + 1
    return count


def context_tokens(branch: Sequence[Entry]) -> int:
    """About how many tokens the conversation takes: what the model said last, and what came after it."""
    messages = conversation(branch)
    later = 0
    for message in reversed(messages):
        if isinstance(message, Assistant) and message.usage.total_tokens:
            return message.usage.total_tokens + later
        later += tokens(message)
    return later


def first_kept(branch: Sequence[Entry], keep: int) -> str | None:
    """The entry from which on about so many tokens are kept; None if there is nothing before it to sum up.

    A result never loses its call, so what is kept begins with what a person or a model said.
    """
    kept = 0
    chosen: int | None = None
    floor = max((at for at, entry in enumerate(branch) if isinstance(entry.body, Compaction)), default=-1)
    for at in range(len(branch) - 1, floor, -1):
        body = branch[at].body
        if not isinstance(body, Said):
            continue
        kept += tokens(body.message)
        if not isinstance(body.message, ToolResult):
            chosen = at
            if kept >= keep:
                break
    if chosen is None or not any(isinstance(each.body, Said) for each in branch[floor + 1 : chosen]):
        return None
    return branch[chosen].id


def transcript(messages: Sequence[Message]) -> str:
    """A conversation as text, to be summed up."""
    lines = []
    for message in messages:
        if isinstance(message, User):
            lines.append(f"User: {text_of(message)}")
        elif isinstance(message, Assistant):
            if text := text_of(message):
                lines.append(f"Assistant: {text}")
            for call in message.calls:
                lines.append(f"Tool call: {call.name} {msgspec.json.encode(call.arguments).decode()}")
        else:
            lines.append(f"Result of {message.tool_name}: {text_of(message)}")
    return "\n\n".join(lines)
