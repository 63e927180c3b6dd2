"""Messages and their parts, as Pi's session files and our own journals have them.

Everything is a frozen struct that msgspec reads and writes in Pi's spelling (camelCase). What Pi or another
program adds is ignored when it is read; a journal never rewrites a line, so nothing is lost by that.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

Origin = Literal["steer", "correction"]
"""Said in the middle of a turn; or said by a verifier, about a turn."""
StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]


class Text(Struct, frozen=True, tag_field="type", tag="text"):
    """Some text."""

    text: str


class Thinking(Struct, frozen=True, tag_field="type", tag="thinking", omit_defaults=True):
    """What a model thought. The signature is the provider's, which wants it back."""

    thinking: str
    signature: str | None = field(default=None, name="thinkingSignature")


class Image(Struct, frozen=True, tag_field="type", tag="image", rename="camel"):
    """A picture, in base64."""

    data: str
    mime_type: str


class ToolCall(Struct, frozen=True, tag_field="type", tag="toolCall"):
    """A model wants a tool to be run."""

    id: str
    name: str
    arguments: dict[str, Any]


Part = Text | Thinking | Image | ToolCall


class Cost(Struct, frozen=True, rename="camel"):
    """Dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(mine + theirs for mine, theirs in zip(_values(self), _values(other))))


class Usage(Struct, frozen=True, rename="camel"):
    """Tokens, and what they cost."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = Cost()

    @property
    def all_tokens(self) -> int:
        """Those that were read and written, also if nobody has added them up."""
        return self.total_tokens or self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.total_tokens + other.total_tokens,
            self.cost + other.cost,
        )


def _values(value: Struct) -> tuple[Any, ...]:
    return msgspec.structs.astuple(value)


class User(Struct, frozen=True, tag_field="role", tag="user"):
    """What a person, or whoever stands in for one, said."""

    content: str | tuple[Text | Image, ...]
    timestamp: int = 0
    origin: Origin | msgspec.UnsetType = msgspec.UNSET
    """Why it was said, if it did not begin a turn."""
    prompt: str | msgspec.UnsetType = msgspec.UNSET
    """The id of the prompt that it is, if somebody can be told what comes of it."""


class Assistant(Struct, frozen=True, tag_field="role", tag="assistant", rename="camel"):
    """What a model said."""

    content: tuple[Text | Thinking | ToolCall, ...]
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    stop_reason: StopReason = "stop"
    error_message: str | None = None
    timestamp: int = 0

    @property
    def calls(self) -> list[ToolCall]:
        return [part for part in self.content if isinstance(part, ToolCall)]


class ToolResult(Struct, frozen=True, tag_field="role", tag="toolResult", rename="camel"):
    """What a tool gave back."""

    tool_call_id: str
    tool_name: str
    content: tuple[Text | Image, ...]
    details: Any = None
    is_error: bool = False
    timestamp: int = 0


Message = User | Assistant | ToolResult


def text_of(message: Message) -> str:
    """All text of a message, without thoughts."""
    if isinstance(message.content, str):
        return message.content
    return "".join(part.text for part in message.content if isinstance(part, Text))


def now() -> int:
    """A message's timestamp: milliseconds since 1970."""
    return int(time.time() * 1000)


def user(
    text: str, images: tuple[Image, ...] = (), origin: Origin | None = None, prompt: str | None = None
) -> User:
    return User((Text(text), *images), now(), origin or msgspec.UNSET, prompt or msgspec.UNSET)
