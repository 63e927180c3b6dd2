"""An agent session whose model plays a cassette, with tools that tests can watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from fairlead.agent import events
from fairlead.agent.events import ConversationEvent
from fairlead.agent.journal import Journal
from fairlead.agent.messages import Usage
from fairlead.agent.models import (
    Finished,
    Model,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    TextDelta,
    ToolSpec,
)
from fairlead.agent.models.replay import INFO, Replay
from fairlead.agent.session import AgentSession, Decision
from fairlead.agent.tools import Result, Tool, ToolContext, Touch

WAIT = 20.0
"""Seconds until something that does not happen fails the test."""


def says(text: str) -> list[dict[str, Any]]:
    """An answer that is only text, in two pieces."""
    half = len(text) // 2
    return [
        {"event": "text", "text": text[:half]},
        {"event": "text", "text": text[half:]},
        {"event": "finished", "stop_reason": "stop", "usage": {"input": 10, "output": 5, "totalTokens": 15}},
    ]


def calls(*made: tuple[str, str, dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer that calls tools: id, name, arguments."""
    return [
        *({"event": "called", "id": id, "name": name, "arguments": given} for id, name, given in made),
        {"event": "finished", "stop_reason": "toolUse", "usage": {"input": 10, "output": 5}},
    ]


def cassette(path: Path, *answers: list[dict[str, Any]]) -> str:
    lines = [{"cassette": 1}, *(event for answer in answers for event in answer)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


class Models:
    """A catalogue of one model, or two."""

    def __init__(self, model: Model, *others: ModelInfo) -> None:
        self._model = model
        self._infos = [INFO, *others]

    def find(self, provider: str, id: str) -> ModelInfo | None:
        return next((info for info in self._infos if (info.provider, info.id) == (provider, id)), None)

    def models(self) -> Sequence[ModelInfo]:
        return self._infos

    def default(self) -> ModelInfo:
        return INFO

    def model(self, info: ModelInfo) -> Model:
        return self._model


class Note:
    """Writes a line into a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec("note", "note something", {"type": "object"})

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        if "text" not in arguments:
            raise ValueError("text is missing")
        return Touch("write", f"note {arguments['text']}", (self._path,))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        with self._path.open("a") as file:
            file.write(arguments["text"] + "\n")
        context.update("writing", {})
        return Result(f"noted {arguments['text']}", {"path": str(self._path)})


class Meet:
    """Reads nothing, but ends only when so many calls of it run at the same time."""

    def __init__(self, count: int) -> None:
        self._barrier = asyncio.Barrier(count)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec("meet", "meet others", {"type": "object"})

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        return Touch("read", "meet")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        async with asyncio.timeout(WAIT):
            await self._barrier.wait()
        return Result("met")


class Endless:
    """Runs until it is aborted."""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec("endless", "wait", {"type": "object"})

    def touches(self, arguments: dict[str, Any], cwd: Path) -> Touch:
        return Touch("read", "wait")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Result:
        await context.aborted.wait()
        return Result("stopped early", is_error=True)


class AllowAll:
    def judge(self, tool: str, touch: Touch) -> Decision:
        return Decision("allow")

    def is_hidden(self, path: Path) -> bool:
        return False

    def remembering(self, tool: str, touch: Touch, then: str) -> AllowAll:
        return self


class AskBeforeWriting(AllowAll):
    def judge(self, tool: str, touch: Touch) -> Decision:
        return Decision("allow") if touch.effect == "read" else Decision("ask", "it writes")

    def remembering(self, tool: str, touch: Touch, then: str) -> AllowAll:
        return AllowAll()


class Playing:
    """A session in a directory, and all that it told."""

    def __init__(
        self,
        directory: Path,
        model: Model,
        *,
        tools: Sequence[Tool] = (),
        judge: Any = None,
        others: Sequence[ModelInfo] = (),
    ) -> None:
        path = directory / "session.jsonl"
        journal = (
            Journal.open(str(path))
            if path.exists()
            else Journal.create(str(path), id="s1", cwd=str(directory))
        )
        self.told: list[ConversationEvent] = []
        self.pauses: list[float] = []
        self._changed = asyncio.Event()
        self.session = AgentSession(
            journal,
            Models(model, *others),
            {tool.spec.name: tool for tool in tools},
            judge or AllowAll(),
            self._heard,
            system="be brief",
            pause=self._pause,
        )

    async def __aenter__(self) -> Playing:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.session.close()

    def _heard(self, event: ConversationEvent) -> None:
        self.told.append(event)
        self._changed.set()

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def of(self, kind: type[ConversationEvent]) -> list[Any]:
        return [event for event in self.told if type(event) is kind]

    async def until(self, kind: type[ConversationEvent], count: int = 1) -> Any:
        """Wait until so many events of a kind were told; gives the last one."""
        async with asyncio.timeout(WAIT):
            while len(self.of(kind)) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.of(kind)[count - 1]

    async def idle(self) -> None:
        async with asyncio.timeout(WAIT):
            await self.session.idle()

    @property
    def roles(self) -> list[str]:
        """Who said what, in short: u, a or r and the text."""
        shown = []
        for event in self.of(events.MessageSaid):
            message = event.message
            letter = {"User": "u", "Assistant": "a", "ToolResult": "r"}[type(message).__name__]
            content = message.content
            text = (
                content
                if isinstance(content, str)
                else "".join(getattr(part, "text", "") for part in content)
            )
            shown.append(f"{letter}: {text}")
        return shown


def replay(directory: Path, *answers: list[dict[str, Any]]) -> Replay:
    return Replay(cassette(directory / "cassette.jsonl", *answers))


def playing(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))  # type: ignore[arg-type]

    return run


class Held:
    """A model that says one word and then waits until it is let go on; it asks for nothing paid."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        yield TextDelta("one ")
        self.asked.set()
        await self.go_on.wait()
        yield TextDelta("two")
        yield Finished("stop", Usage(total_tokens=7))


class Failing:
    """A model that fails as often as it is told to, and then answers."""

    def __init__(self, *errors: ModelError) -> None:
        self._errors = list(errors)
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        yield TextDelta("well, ")
        if self._errors:
            raise self._errors.pop(0)
        yield TextDelta("good")
        yield Finished("stop", Usage(total_tokens=7))
