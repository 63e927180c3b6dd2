"""Cassettes: recording a model, and playing what was recorded."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from fairlead.agent.messages import Assistant, Message, Text, ToolCall, ToolResult, Usage, User
from fairlead.agent.models import (
    Finished,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallBegan,
    ToolCallDelta,
    ToolCallMade,
    ToolSpec,
)
from fairlead.agent.models import guide as the_guide
from fairlead.agent.models.guide import Guide
from fairlead.agent.models.replay import INFO, MAX_PAUSE, Recording, Replay

CALLS: list[ModelEvent] = [
    ThinkingDelta("Hmm."),
    TextDelta("Look."),
    ToolCallBegan("c1", "ls"),
    ToolCallDelta("c1", '{"path": "."}'),
    ToolCallMade("c1", "ls", {"path": "."}),
    ToolCallMade("c2", "ls", {}, "no object"),
    Finished("toolUse", Usage(20, 9, 3, 1, 33), "signed"),
]
ENDS: list[ModelEvent] = [TextDelta("Two files."), Finished("stop", Usage(30, 4, total_tokens=34))]


class Scripted:
    """A model that says what it is told to, one answer a request."""

    def __init__(self, *answers: Sequence[ModelEvent | ModelError]) -> None:
        self._answers = iter(answers)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for each in next(self._answers):
            if isinstance(each, ModelError):
                raise each
            yield each


def ask(model: Model, *messages: Message, tools: tuple[ToolSpec, ...] = ()) -> list[ModelEvent]:
    async def collect() -> list[ModelEvent]:
        return [each async for each in model.stream(ModelRequest(INFO, "", messages, tools))]

    return asyncio.run(collect())


def refusal(model: Model, *messages: Message) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ask(model, *messages)
    return caught.value


def replayed(text: str = "ok") -> Assistant:
    return Assistant((Text(text),), INFO.provider, INFO.id)


def record(path: Path, *answers: Sequence[ModelEvent]) -> str:
    model = Recording(Scripted(*answers), str(path))
    for _ in answers:
        ask(model, User("Hi"))
    return str(path)


def test_what_was_recorded_is_played_event_by_event(tmp_path: Path) -> None:
    path = record(tmp_path / "c.jsonl", CALLS, ENDS)
    assert ask(Replay(path), User("Hi")) == CALLS
    assert ask(Replay(path), User("Hi"), replayed(), ToolResult("c1", "ls", (Text("a"),))) == ENDS


def test_recording_does_not_change_an_answer(tmp_path: Path) -> None:
    assert ask(Recording(Scripted(CALLS), str(tmp_path / "c.jsonl")), User("Hi")) == CALLS


def test_a_whole_turn_of_the_guide_can_be_played_again(tmp_path: Path) -> None:
    path = str(tmp_path / "c.jsonl")
    tools = (ToolSpec("ls", "", {"type": "object", "properties": {"path": {}}}),)
    model = Recording(Guide(), path)
    first = ask(model, User("ls"), tools=tools)
    call = next(each for each in first if isinstance(each, ToolCallMade))
    content = (ToolCall(call.id, call.name, call.arguments),)
    result = ToolResult(call.id, "ls", (Text("a"),))
    second = ask(model, User("ls"), Assistant(content, "offline", the_guide.INFO.id), result, tools=tools)
    assert ask(Replay(path), User("anything")) == first
    assert ask(Replay(path), User("anything"), Assistant(content, "offline", "replay"), result) == second


def test_a_replay_goes_on_after_a_restart_where_the_conversation_is(tmp_path: Path) -> None:
    path = record(tmp_path / "c.jsonl", CALLS, ENDS)
    other = Assistant((Text("from another model"),), "openai", "gpt-5")
    failed = Assistant((), INFO.provider, INFO.id, stop_reason="error")
    assert ask(Replay(path), User("a"), other, User("b"), failed, User("c"), replayed(), User("d")) == ENDS


def test_a_cassette_that_is_at_its_end_says_so(tmp_path: Path) -> None:
    path = record(tmp_path / "c.jsonl", ENDS)
    found = refusal(Replay(path), User("a"), replayed(), User("b"))
    assert found.kind == "refused"
    assert str(found) == f"the cassette {path} is at its end: it has 1 answers"


def test_without_a_cassette_it_says_how_to_choose_one() -> None:
    found = refusal(Replay(None), User("a"))
    assert found.kind == "refused"
    assert "`cassette` of [agent]" in str(found)


def test_the_file_is_as_the_documentation_says_and_only_ours(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    record(path, ENDS)
    header, text, end = map(json.loads, path.read_text().splitlines())
    assert header == {"cassette": 1, "model": "offline/replay"}
    assert (text["event"], text["text"]) == ("text", "Two files.")
    assert (end["event"], end["stop_reason"], end["usage"]["totalTokens"]) == ("finished", "stop", 34)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_cassette_can_be_written_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(
        '{"cassette": 1}\n\n{"event": "text", "text": "Hi"}\n'
        '{"event": "finished", "stop_reason": "stop", "usage": {}}\n'
    )
    assert ask(Replay(str(path)), User("a")) == [TextDelta("Hi"), Finished("stop", Usage())]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: must be a JSON object"),
        ("[1]\n", "line 1: must be a JSON object"),
        ('{"cassette": 2}\n', "is not a cassette"),
        ('{"cassette": 1}\nnonsense\n', "line 2: must be a JSON object"),
        ('{"cassette": 1}\n{"event": "dance"}\n', "line 2: `event` must be one of text, thinking"),
        ('{"cassette": 1}\n{"event": ["text"]}\n', "line 2: `event` must be one of"),
        ('{"cassette": 1}\n{"event": "text"}\n', "line 2: Object missing required field `text`"),
        ('{"cassette": 1}\n{"event": "text", "text": "a", "at": "soon"}\n', "line 2: Expected `float`"),
        ('{"cassette": 1}\n{"event": "text", "text": "a"}\n', "ends in the middle of an answer"),
    ],
)
def test_a_file_that_is_no_cassette_is_broken_and_says_where(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(text)
    found = refusal(Replay(str(path)), User("a"))
    assert found.kind == "broken"
    assert words in str(found)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    found = refusal(Replay(str(tmp_path / "none")), User("a"))
    assert found.kind == "refused"
    assert "No such file" in str(found)


def test_answers_that_failed_or_were_left_are_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    model = Recording(Scripted([TextDelta("a"), ModelError("busy", "no")], ENDS, CALLS), str(path))
    assert refusal(model, User("a")).kind == "busy"

    async def leave() -> None:
        stream = model.stream(ModelRequest(INFO, "", [User("a")]))
        async with aclosing(cast(Any, stream)):
            assert await anext(stream) == TextDelta("Two files.")

    asyncio.run(leave())
    assert not path.exists()
    assert ask(model, User("a")) == CALLS
    assert ask(Replay(str(path)), User("a")) == CALLS


def test_a_cassette_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    model = Recording(Scripted(ENDS), str(tmp_path / "none" / "c.jsonl"))
    assert "can't write the cassette" in str(refusal(model, User("a")))


def test_events_come_at_once_or_as_they_were_recorded(tmp_path: Path) -> None:
    times = iter([0.0, 0.25, 1.0, 500.0])
    answer = [TextDelta("a"), TextDelta("b"), ENDS[-1]]
    path = str(tmp_path / "c.jsonl")
    ask(Recording(Scripted(answer), path, clock=lambda: next(times)), User("a"))
    for timing, expected in ((True, [0.25, 0.75, MAX_PAUSE]), (False, [0, 0, 0])):
        waited: list[float] = []

        async def pause(seconds: float, waited: list[float] = waited) -> None:
            waited.append(seconds)

        assert ask(Replay(path, timing=timing, pause=pause), User("a")) == answer
        assert waited == expected
