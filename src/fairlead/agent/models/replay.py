"""Cassettes: answers of a model in a file, and `offline/replay`, which plays them.

A cassette is JSON, one object a line. The first line is `{"cassette": 1}`, the version, with whatever its
writer wants to add. Every other line is an event of an answer: `event` names it, `at` is the time in seconds
since the answer began, and the rest are the fields of the event. An answer ends with `finished`; the next
line begins the next one. Questions are not in it, so a cassette plays whatever is asked:

    {"cassette": 1, "model": "openai/gpt-5"}
    {"event": "text", "at": 0.41, "text": "Let me look."}
    {"event": "call", "at": 0.52, "id": "c1", "name": "ls"}
    {"event": "arguments", "at": 0.60, "id": "c1", "arguments": "{}"}
    {"event": "called", "at": 0.61, "id": "c1", "name": "ls", "arguments": {}}
    {"event": "finished", "at": 0.61, "stop_reason": "toolUse", "usage": {"input": 20, "output": 9}}
    {"event": "text", "at": 0.38, "text": "Two files."}
    {"event": "finished", "at": 0.40, "stop_reason": "stop", "usage": {}}

Which answer is next follows from the conversation, so a replay goes on after a restart: it is the one after
those that the conversation already has of this model.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, cast

import msgspec

from ..messages import Assistant
from . import (
    Finished,
    Model,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallBegan,
    ToolCallDelta,
    ToolCallMade,
)

INFO = ModelInfo("offline", "replay", "Replay of a cassette", reasoning=True, window=1_000_000)

VERSION = 1
MAX_BYTES = 64 * 1024 * 1024
"""How long a cassette may be."""
MAX_PAUSE = 60.0
"""How long a replay waits between two events at most, whatever the recorded times say."""

EVENTS: dict[str, type[ModelEvent]] = {
    "text": TextDelta,
    "thinking": ThinkingDelta,
    "call": ToolCallBegan,
    "arguments": ToolCallDelta,
    "called": ToolCallMade,
    "finished": Finished,
}
_NAMES = {kind: name for name, kind in EVENTS.items()}

Timed = tuple[float, ModelEvent]


class Replay:
    """The model `offline/replay`: plays the cassette at a path, at once or as fast as it was recorded."""

    def __init__(
        self,
        path: str | None,
        *,
        timing: bool = False,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._path = path
        self._timing = timing
        self._pause = pause
        self._answers: list[list[Timed]] | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if self._path is None:
            raise ModelError("refused", "offline/replay has no cassette: set `cassette` of [agent] to a path")
        if self._answers is None:
            self._answers = await asyncio.to_thread(read, self._path)
        played = await asyncio.to_thread(lambda: sum(map(_is_replayed, request.messages)))
        if played >= len(self._answers):
            count = len(self._answers)
            raise ModelError("refused", f"the cassette {self._path} is at its end: it has {count} answers")
        before = 0.0
        for at, event in self._answers[played]:
            await self._pause(min(max(at - before, 0.0), MAX_PAUSE) if self._timing else 0)
            before = at
            yield event


def _is_replayed(message: object) -> bool:
    return (
        isinstance(message, Assistant)
        and (message.provider, message.model) == (INFO.provider, INFO.id)
        and message.stop_reason != "error"
    )


class Recording:
    """A model that answers as another one does, and appends each whole answer to a cassette."""

    def __init__(self, model: Model, path: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._model = model
        self._path = path
        self._clock = clock

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        began = self._clock()
        lines = []
        answer = self._model.stream(request)
        async with aclosing(cast(Any, answer)):
            async for event in answer:
                lines.append(_line(event, self._clock() - began))
                if isinstance(event, Finished):
                    model = f"{request.info.provider}/{request.info.id}"
                    await asyncio.to_thread(_append, self._path, model, lines)
                yield event


def read(path: str) -> list[list[Timed]]:
    """The answers of a cassette. Raises ModelError if it is none, or ends in the middle of an answer."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelError("refused", f"can't read the cassette {path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ModelError("refused", f"the cassette {path} is longer than {MAX_BYTES} bytes")
    first, *lines = data.split(b"\n")
    header = _object(first, path, 1)
    if header.get("cassette") != VERSION:
        raise ModelError(
            "broken", f'{path} is not a cassette: its first line must be {{"cassette": {VERSION}}}'
        )
    answers: list[list[Timed]] = []
    current: list[Timed] = []
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        at, event = _event(_object(line, path, number), path, number)
        current.append((at, event))
        if isinstance(event, Finished):
            answers.append(current)
            current = []
    if current:
        raise ModelError("broken", f"the cassette {path} ends in the middle of an answer, without `finished`")
    return answers


def _object(line: bytes, path: str, number: int) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError("broken", f"{path}, line {number}: must be a JSON object: {error}") from None


def _event(line: dict[str, Any], path: str, number: int) -> Timed:
    name = line.pop("event", None)
    kind = EVENTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ModelError("broken", f"{path}, line {number}: `event` must be one of {', '.join(EVENTS)}")
    try:
        return msgspec.convert(line.pop("at", 0.0), float), msgspec.convert(line, kind)
    except msgspec.ValidationError as error:
        raise ModelError("broken", f"{path}, line {number}: {error}") from None


def _line(event: ModelEvent, at: float) -> bytes:
    fields = msgspec.to_builtins(event)
    return msgspec.json.encode({"event": _NAMES[type(event)], "at": round(at, 3), **fields}) + b"\n"


def _append(path: str, model: str, lines: list[bytes]) -> None:
    """An answer goes in with one write, so that two of them never mix. Only our user may read it."""
    try:
        with open(path, "ab", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            if file.tell() == 0:
                lines = [msgspec.json.encode({"cassette": VERSION, "model": model}) + b"\n", *lines]
            file.write(b"".join(lines))
    except OSError as error:
        raise ModelError("refused", f"can't write the cassette {path}: {error.strerror}") from None
