"""Gathering a model's answer from what its stream brings, and telling the pieces as they come."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from . import events
from .answer import AnswerSoFar
from .events import ConversationEvent
from .half import HalfAnswer
from .models import (
    Finished,
    ModelError,
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallBegan,
    ToolCallDelta,
    ToolCallMade,
)


async def gather(
    stream: AsyncIterator[ModelEvent],
    parts: AnswerSoFar,
    session_id: str,
    tell: Callable[[ConversationEvent], None],
    half: HalfAnswer | None,
) -> Finished:
    """Put an answer together, to its end. `half` keeps what there is of it for the next daemon.

    Raises ModelError; calls that were begun have ended then, for whoever was told of them.
    """
    begun: dict[str, str] = {}
    try:
        async with contextlib.aclosing(stream) as happenings:  # type: ignore[type-var]
            async for each in happenings:
                match each:
                    case TextDelta(text=text):
                        parts.text(text)
                        if half is not None:
                            half.add(text, is_thought=False)
                        tell(events.TextStreamed(session_id, text))
                    case ThinkingDelta(text=text):
                        parts.thought(text)
                        if half is not None:
                            half.add(text, is_thought=True)
                        tell(events.ThoughtStreamed(session_id, text))
                    case ToolCallBegan(id=id, name=name):
                        begun[id] = name
                        tell(events.ToolBegan(session_id, parts.id_of(id), name))
                    case ToolCallDelta(id=id, arguments=arguments):
                        tell(events.ToolArguments(session_id, parts.id_of(id), arguments))
                    case ToolCallMade(id=id, name=name):
                        known = parts.id_of(id)
                        parts.call(each)
                        if id not in begun:
                            tell(events.ToolBegan(session_id, known, name))
                    case Finished():
                        return each
    except ModelError:
        why = "not run: the answer ended before this call was whole"
        for id, name in begun.items():
            tell(events.ToolEnded(session_id, parts.id_of(id), name, why, {}, True))
        raise
    raise ModelError("broken", "the model's answer has no end")
