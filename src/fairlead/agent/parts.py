"""What a session works with, and what it tells of itself: policies, catalogues, running calls, totals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from .messages import ToolCall, Usage
from .models import Model, ModelInfo
from .tools import Touch


class Judged(Protocol):
    """What a policy says of a call: `allow`, `ask` or `deny`, and why."""

    @property
    def decision(self) -> str: ...

    @property
    def reason(self) -> str: ...


class Decision(Struct, frozen=True):
    """What is clear without a policy."""

    decision: str
    reason: str = ""


class Judge(Protocol):
    """A policy."""

    def judge(self, tool: str, touch: Touch) -> Judged: ...

    def is_hidden(self, path: Path) -> bool:
        """Whether a search leaves out a file, as reading it is not simply allowed."""

    def remembering(self, tool: str, touch: Touch, then: Literal["allow"]) -> Judge:
        """The policy that gives this answer whenever just the same is asked again."""


class Models(Protocol):
    """The models there are."""

    def find(self, provider: str, id: str) -> ModelInfo | None: ...

    def models(self) -> Sequence[ModelInfo]: ...

    def default(self) -> ModelInfo: ...

    def model(self, info: ModelInfo) -> Model: ...


class Stats(Struct, frozen=True):
    """What a session amounts to."""

    user_messages: int
    assistant_messages: int
    tool_calls: int
    tool_results: int
    usage: Usage


class Job:
    """A tool call that runs."""

    def __init__(self, call: ToolCall, touch: Touch) -> None:
        self.call = call
        self.summary = touch.summary
        self.began = time.time()
        self.said = ""
        """What it has told so far."""
        self.aborted = asyncio.Event()
