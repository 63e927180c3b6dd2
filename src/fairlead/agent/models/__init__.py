"""Models behind one small interface: a request goes in, our own events come out.

A model is asked with `stream`. It yields deltas as they come and ends with exactly one `Finished`. What goes
wrong is a `ModelError` whose `kind` says whether asking again can help; the session decides about that. A
model never sees who listens, keeps nothing between two requests, and stops when its iterator is closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from ..messages import Message, StopReason, Usage

THINKING_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")


class Prices(Struct, frozen=True):
    """Dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


class ModelInfo(Struct, frozen=True):
    """A model of the catalogue."""

    provider: str
    id: str
    name: str
    reasoning: bool = False
    """Whether it thinks; for one that does not, the thinking level is off."""
    window: int = 128_000
    """How many tokens it takes in."""
    max_output: int = 16_384
    prices: Prices = Prices()
    images: bool = True
    """Whether it takes pictures."""


class ToolSpec(Struct, frozen=True):
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON schema."""


class ModelRequest(Struct, frozen=True):
    """What a model is asked."""

    info: ModelInfo
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    thinking: str = "off"


class TextDelta(Struct, frozen=True):
    text: str


class ThinkingDelta(Struct, frozen=True):
    text: str


class ToolCallBegan(Struct, frozen=True):
    id: str
    name: str


class ToolCallDelta(Struct, frozen=True):
    """A piece of the arguments, as JSON text."""

    id: str
    arguments: str


class ToolCallMade(Struct, frozen=True):
    """A call is whole. Arguments that were no JSON object are an `error`, and the tool is not run."""

    id: str
    name: str
    arguments: dict[str, Any]
    error: str | None = None


class Finished(Struct, frozen=True):
    """The end of an answer. `signature` goes with its thoughts, if the provider gave one."""

    stop_reason: StopReason
    usage: Usage
    signature: str | None = None


ModelEvent = TextDelta | ThinkingDelta | ToolCallBegan | ToolCallDelta | ToolCallMade | Finished


class ModelError(Exception):
    """A model that can't answer.

    `busy`: it may work later (429, 500, 502, 503, 529, a broken connection). `overflow`: there is more than
    its window takes. `refused`: the key, the request or the model is wrong. `broken`: what came was nonsense.
    """

    def __init__(
        self,
        kind: Literal["busy", "overflow", "refused", "broken"],
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        reason: str | None = None,
    ) -> None:
        """`reason` is the message without what to do about it, for those who do it."""
        super().__init__(message)
        self.reason = reason or message
        self.kind = kind
        self.status = status
        self.retry_after = retry_after


class Model(Protocol):
    """Something that answers."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask. Raises ModelError, at once or in the middle."""
