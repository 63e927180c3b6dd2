"""What a session works with, and what it tells of itself: policies, catalogues, running calls, totals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from .messages import ToolCall, Usage
from .models import Model, ModelInfo
from .tools import Result, Touch

ABORT_GRACE = 10.0
"""Seconds that a tool has to end by itself when it is told to."""


class Phase(StrEnum):
    IDLE = "idle"
    STREAMING = "streaming"
    COMPACTING = "compacting"
    RETRYING = "retrying"


class Busy(Exception):
    """The session is in the middle of something."""


class Refused(Exception):
    """What was asked for can't be done; says why."""


class Dropped(NamedTuple):
    """What came of an interrupt: whether it is a new one, whether one is pending, and what won't be said."""

    accepted: bool
    pending: bool
    text: str


class Choosable(NamedTuple):
    """Something that can be chosen in a session, besides its mode."""

    id: str
    name: str
    category: str
    """What it is about, in ACP's words: `model`, `thought_level` or others."""
    value: str
    choices: Sequence[tuple[str, str]]
    """Values and what people call them."""


MAX_JOB_TEXT = 16_384
"""How many characters of a call's result are kept to be looked up."""


class JudgedCall(Protocol):
    """What a policy says of a call: `allow`, `ask` or `deny`, and why."""

    @property
    def decision(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def is_default(self) -> bool:
        """True if nobody has said what to do about such calls."""


class Decision(Struct, frozen=True):
    """What is clear without a policy."""

    decision: str
    reason: str = ""

    @property
    def is_default(self) -> bool:
        return False


class Judge(Protocol):
    """A policy."""

    def judge(self, tool: str, touch: Touch) -> JudgedCall: ...

    def is_hidden(self, path: Path) -> bool:
        """Whether a search leaves out a file, as reading it is not simply allowed."""

    def remembering(self, tool: str, touch: Touch, then: Literal["allow"]) -> Judge:
        """The policy that gives this answer whenever just the same is asked again."""


class ModelSource(Protocol):
    """The models there are."""

    def find(self, provider: str, id: str) -> ModelInfo | None: ...

    def models(self) -> Sequence[ModelInfo]: ...

    def default(self) -> ModelInfo: ...

    def model(self, info: ModelInfo) -> Model: ...


class SessionStats(Struct, frozen=True):
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
        """What it has told so far; at the end its result."""
        self.aborted = asyncio.Event()
        self.cancelled: float | None = None
        """When somebody wanted it to end."""
        self.ended: float | None = None
        self.is_error = False

    @property
    def status(self) -> str:
        """As psi's clients know it."""
        if self.ended is None:
            return "pending-cancel" if self.aborted.is_set() else "running"
        if self.aborted.is_set():
            return "cancelled"
        return "failed" if self.is_error else "completed"

    def cancel(self) -> None:
        """It is to end."""
        self.cancelled = self.cancelled or time.time()
        self.aborted.set()

    def end(self, text: str, *, is_error: bool) -> None:
        """It has ended."""
        self.said, self.is_error, self.ended = text[:MAX_JOB_TEXT], is_error, time.time()

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the call's work to its end, or until it is told to end and some grace is over."""
        running = asyncio.ensure_future(work)
        aborting = asyncio.ensure_future(self.aborted.wait())
        result = Result("aborted; the tool did not stop in time", is_error=True)
        try:
            await asyncio.wait([running, aborting], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await asyncio.wait([running], timeout=ABORT_GRACE)
            if running.done():
                result = running.result()
        except Exception as error:  # our own fault, which must not end the conversation
            result = Result(f"the tool failed: {type(error).__name__}: {error}", is_error=True)
        finally:
            self.end(result.text, is_error=result.is_error)
            aborting.cancel()
            running.cancel()
        return result


def check_text(text: str) -> None:
    """Raises Refused for a text that can't be written down."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused("the text has half of a surrogate pair, which can't be written to a file") from None
