"""An answer that a person interrupts ends with the word that it is in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from fairlead.agent import events
from fairlead.agent.answer import AnswerSoFar
from fairlead.agent.gathering import MAX_WORD, gather
from fairlead.agent.messages import Usage
from fairlead.agent.models import Finished, ModelEvent, TextDelta, ThinkingDelta, ToolCallBegan, ToolCallMade

END = Finished("stop", Usage(total_tokens=7))


def interrupted(pieces: Sequence[ModelEvent], after: int) -> tuple[str, str, list[str]]:
    """What an answer is, how it ends and what is told of it, if it is interrupted after so many pieces."""
    told: list[str] = []
    given = 0

    async def stream() -> AsyncIterator[ModelEvent]:
        nonlocal given
        for piece in [*pieces, END]:
            given += 1
            yield piece

    def tell(event: events.ConversationEvent) -> None:
        if isinstance(event, (events.TextStreamed, events.ThoughtStreamed)):
            told.append(event.text)

    parts = AnswerSoFar()
    ended = asyncio.run(gather(stream(), parts, "s", tell, None, lambda: given > after))
    return "".join(text for _, text in parts.pieces), ended.stop_reason, told


@pytest.mark.parametrize(
    ("pieces", "after", "text"),
    [
        (["one tw", "o three", " four"], 1, "one two"),
        (["one ", "two three"], 1, "one "),
        (["one tw", "o", "th", "ree. four"], 1, "one twothree"),
        (["don", "'t stop"], 1, "don't"),
        (["日本", "語です"], 1, "日本"),
        (["a" * 50, "a" * 50], 1, "a" * MAX_WORD),
        (["one two", " three"], 0, ""),
    ],
)
def test_a_word_is_not_split(pieces: list[str], after: int, text: str) -> None:
    said, ending, told = interrupted([TextDelta(piece) for piece in pieces], after)
    assert (said, ending) == (text, "aborted")
    assert "".join(told) == text
    assert interrupted([ThinkingDelta(piece) for piece in pieces], after)[0] == text


def test_what_ends_anyway_ends_well_and_a_call_that_has_begun_is_finished() -> None:
    assert interrupted([TextDelta("one two")], 1)[:2] == ("one two", "stop")
    began: list[ModelEvent] = [TextDelta("I look"), ToolCallBegan("1", "ls")]
    call = ToolCallMade("1", "ls", {})
    assert interrupted([*began, TextDelta(" here "), call], 2)[:2] == ("I look here ", "stop")
    assert interrupted([*began, call], 1)[:2] == ("I look", "aborted")
