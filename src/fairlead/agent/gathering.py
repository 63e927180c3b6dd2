"""Gathering a model's answer from what its stream brings, and telling the pieces as they come."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Callable

from msgspec import structs

from . import events
from .answer import AnswerSoFar
from .events import ConversationEvent
from .half import HalfAnswer
from .messages import Usage
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

MAX_WORD = 60
"""How many characters of a word are waited for."""
_STOPPED = Finished("aborted", Usage())
_BETWEEN = re.compile(r"[^\w'’-]|[\u2e80-\u9fff]")
"""What does not go on with a word."""


def _rest_of_word(text: str, before: int) -> int:
    """How many characters of a text belong to the word of which so many came before."""
    found = _BETWEEN.search(text) if before else None
    end = found.start() if found else len(text) if before else 0
    return min(end, max(0, MAX_WORD - before))


def _word_at_end(text: str, before: int) -> int:
    """How many characters of a word an answer ends with after a text."""
    for number, char in enumerate(reversed(text[-MAX_WORD:])):
        if _BETWEEN.match(char):
            return number
    return before + len(text)


async def gather(
    stream: AsyncIterator[ModelEvent],
    parts: AnswerSoFar,
    session_id: str,
    tell: Callable[[ConversationEvent], None],
    half: HalfAnswer | None,
    stops: Callable[[], bool] = lambda: False,
) -> Finished:
    """Put an answer together, to its end. `half` keeps what there is of it for the next daemon. Once `stops`,
    an answer in which no call has begun ends with the word that it is in.

    Raises ModelError; calls that were begun have ended then, for whoever was told of them.
    """
    begun: dict[str, str] = {}
    word = 0  # how long the word is that the answer is in
    try:
        async with contextlib.aclosing(stream) as happenings:  # type: ignore[type-var]
            async for each in happenings:
                if is_over := stops() and not begun and not parts.calls:
                    if not isinstance(each, (TextDelta, ThinkingDelta)):
                        return each if isinstance(each, Finished) else _STOPPED
                    rest = _rest_of_word(each.text, word)
                    is_over = rest < len(each.text)
                    each = structs.replace(each, text=each.text[:rest])
                match each:
                    case TextDelta("") | ThinkingDelta(""):
                        pass
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
                if is_over:
                    return _STOPPED
                if isinstance(each, (TextDelta, ThinkingDelta)):
                    word = _word_at_end(each.text, word)
    except ModelError:
        why = "not run: the answer ended before this call was whole"
        for id, name in begun.items():
            tell(events.ToolEnded(session_id, parts.id_of(id), name, why, {}, True))
        raise
    raise ModelError("broken", "the model's answer has no end")
