"""The offline guide: what it understands, what it calls, and what it says in the end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.messages import Assistant, Image, Message, Text, ToolCall, ToolResult, User
from fairlead.agent.models import (
    Finished,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolCallBegan,
    ToolCallDelta,
    ToolCallMade,
    ToolSpec,
)
from fairlead.agent.models.guide import INFO, MAX_REQUEST, Guide, plan
from fairlead.agent.secrets import Redactor
from fairlead.agent.tools import standard_tools
from fairlead.agent.tools.terminals import LocalTerminals
from tests.agent.tooling import call


def spec(name: str, *properties: str) -> ToolSpec:
    return ToolSpec(name, "", {"type": "object", "properties": {key: {} for key in properties}})


TOOLS = (
    spec("ls", "path"),
    spec("read", "path", "offset", "limit"),
    spec("grep", "pattern", "path", "literal"),
    spec("find", "pattern", "path"),
    spec("bash", "command", "timeout"),
    spec("edit", "path", "oldText", "newText"),
    spec("write", "path", "content"),
)


def answer(*messages: Message, tools: tuple[ToolSpec, ...] = TOOLS, system: str = "") -> list[ModelEvent]:
    async def collect() -> list[ModelEvent]:
        return [each async for each in Guide().stream(ModelRequest(INFO, system, messages, tools))]

    return asyncio.run(collect())


def said(events: list[ModelEvent]) -> str:
    return "".join(each.text for each in events if isinstance(each, TextDelta))


def calls(events: list[ModelEvent]) -> list[tuple[str, dict[str, Any]]]:
    return [(each.name, each.arguments) for each in events if isinstance(each, ToolCallMade)]


def turn(request: str, *results: tuple[str, bool], tools: tuple[ToolSpec, ...] = TOOLS) -> list[ModelEvent]:
    """Play a turn: each call gets the next result. Gives what the guide said last."""
    messages: list[Message] = [User(request)]
    left = list(results)
    while True:
        got = answer(*messages, tools=tools)
        made = [each for each in got if isinstance(each, ToolCallMade)]
        if not made or not left:
            return got
        content = tuple(ToolCall(each.id, each.name, each.arguments) for each in made)
        messages.append(Assistant((Text(said(got)), *content), INFO.provider, INFO.id))
        for each in made:
            text, is_error = left.pop(0)
            messages.append(ToolResult(each.id, each.name, (Text(text),), is_error=is_error))


@pytest.mark.parametrize(
    ("request_text", "tool", "arguments"),
    [
        ("ls", "ls", {}),
        ("list src", "ls", {"path": "src"}),
        ("List the files in src", "ls", {"path": "src"}),
        ("please read README.md.", "read", {"path": "README.md"}),
        ("read `a b.txt`", "read", {"path": "a b.txt"}),
        ("read src/a.py:10-20", "read", {"path": "src/a.py", "offset": 10, "limit": 11}),
        ("read src/a.py lines 3 to 9", "read", {"path": "src/a.py", "offset": 3, "limit": 7}),
        ("search for TODO in src", "grep", {"pattern": "TODO", "path": "src", "literal": True}),
        ("search for f(x)", "grep", {"pattern": "f(x)", "literal": True}),
        ("grep def", "grep", {"pattern": "def"}),
        ('grep "def main" src', "grep", {"pattern": "def main", "path": "src"}),
        ("find *.py", "find", {"pattern": "*.py"}),
        ("find files named *.py in src", "find", {"pattern": "*.py", "path": "src"}),
        ("run: pytest -q", "bash", {"command": "pytest -q"}),
        ("run `make test`", "bash", {"command": "make test"}),
        ("$ git status", "bash", {"command": "git status"}),
        ("run: if true; then read x; fi", "bash", {"command": "if true; then read x; fi"}),
        ("edit a.txt: replace `a` with `b`", "edit", {"path": "a.txt", "oldText": "a", "newText": "b"}),
        ('replace "a" with "" in a.txt', "edit", {"path": "a.txt", "oldText": "a", "newText": ""}),
        ("write a.txt: hello then world", "write", {"path": "a.txt", "content": "hello then world"}),
        ("write a.txt:\n```\none\n\ntwo\n```", "write", {"path": "a.txt", "content": "one\n\ntwo\n"}),
        ("write a.txt:\none\nls", "write", {"path": "a.txt", "content": "one\nls\n"}),
    ],
)
def test_plain_words_become_a_call(request_text: str, tool: str, arguments: dict[str, Any]) -> None:
    assert calls(answer(User(request_text))) == [(tool, arguments)]


def test_a_call_is_streamed_like_that_of_any_model() -> None:
    got = answer(User("list src"))
    began = next(each for each in got if isinstance(each, ToolCallBegan))
    pieces = [each.arguments for each in got if isinstance(each, ToolCallDelta) and each.id == began.id]
    assert "".join(pieces) == '{"path":"src"}'
    assert len(pieces) > 1
    assert isinstance(got[-1], Finished)
    assert got[-1].stop_reason == "toolUse"


def test_text_comes_in_several_pieces() -> None:
    got = answer(User("help"))
    assert sum(isinstance(each, TextDelta) for each in got) > 10
    assert isinstance(got[-1], Finished)
    assert got[-1].stop_reason == "stop"


def test_arguments_have_the_names_that_the_tool_gives_them() -> None:
    entry = {"type": "object", "properties": {"old_text": {}, "new_text": {}}}
    properties = {"file_path": {}, "edits": {"type": "array", "items": entry}}
    tool = ToolSpec("edit", "", {"type": "object", "properties": properties})
    got = answer(User("edit f: replace `a` with `b`"), tools=(tool,))
    assert calls(got) == [("edit", {"file_path": "f", "edits": [{"old_text": "a", "new_text": "b"}]})]


def test_every_kind_of_step_works_with_the_real_tools(tmp_path: Path) -> None:
    tools = standard_tools(LocalTerminals(), tmp_path / "outputs", Redactor())
    specs = tuple(tool.spec for tool in tools.values())
    messages: list[Message] = [
        User(
            "write notes.txt: hello\n"
            "edit notes.txt: replace `hello` with `good bye`\n"
            "read notes.txt:1-5\n"
            "search for bye in .\n"
            "grep go+d\n"
            "find *.txt and ls\n"
            "run: tr a-z A-Z < notes.txt"
        )
    ]
    while made := [each for each in answer(*messages, tools=specs) if isinstance(each, ToolCallMade)]:
        content = tuple(ToolCall(each.id, each.name, each.arguments) for each in made)
        messages.append(Assistant(content, INFO.provider, INFO.id))
        for each in made:
            result = call(tools[each.name], tmp_path, **each.arguments)
            assert not result.is_error, result.text
            messages.append(ToolResult(each.id, each.name, (Text(result.text),)))
    assert [message.tool_name for message in messages if isinstance(message, ToolResult)] == [
        "write",
        "edit",
        "read",
        "grep",
        "grep",
        "find",
        "ls",
        "bash",
    ]
    assert "GOOD BYE" in said(answer(*messages, tools=specs))


def test_steps_are_done_one_after_the_other_and_summed_up() -> None:
    assert calls(turn("list src then run: make", ("a.py", False))) == [("bash", {"command": "make"})]
    end = turn("list src then run: make", ("a.py", False), ("all good", False))
    assert calls(end) == []
    for words in ("list `src`", "a.py", "run `make`", "all good", "offline"):
        assert words in said(end)


def test_reading_steps_joined_by_and_are_called_together() -> None:
    got = answer(User("list src and read README.md"))
    assert [name for name, _ in calls(got)] == ["ls", "read"]
    ids = [each.id for each in got if isinstance(each, ToolCallMade)]
    assert len(set(ids)) == 2


def test_lines_are_steps_too() -> None:
    rounds, unknown = plan("1. ls\n2. read a.txt\n\n- run: make")
    assert [step.tool for steps in rounds for step in steps] == ["ls", "read", "bash"]
    assert unknown is None


@pytest.mark.parametrize("words", ["No such file: a.txt", "The user denied this call."])
def test_after_an_error_or_a_denial_it_stops_and_says_what_it_left_out(words: str) -> None:
    end = turn("read a.txt then run: make", (words, True))
    assert calls(end) == []
    assert words in said(end)
    assert "did not run `make`" in said(end)
    assert "offline" in said(end)


def test_a_call_without_a_result_is_not_made_again() -> None:
    made = Assistant((ToolCall("x", "ls", {}),), INFO.provider, INFO.id)
    got = answer(User("ls"), made)
    assert calls(got) == []
    assert "no result arrived" in said(got)


@pytest.mark.parametrize("words", ["dance for me", "what is the meaning of life?", "then"])
def test_what_it_does_not_understand_gets_an_honest_answer(words: str) -> None:
    got = answer(User(words))
    assert calls(got) == []
    assert "I don't know how to do" in said(got)
    assert "offline" in said(got)


def test_known_steps_before_an_unknown_one_are_done() -> None:
    assert calls(answer(User("ls\ndance"))) == [("ls", {})]
    assert 'don\'t know how to do "dance"' in said(turn("ls\ndance", ("a", False)))


@pytest.mark.parametrize("words", ["help", "hello", "", "What can you do?"])
def test_it_says_what_it_can_do(words: str) -> None:
    assert "`run: pytest -q`" in said(answer(User(words)))


def test_a_conversation_without_a_question_gets_help() -> None:
    assert "offline" in said(answer())
    assert "offline" in said(answer(User((Image("", "image/png"),))))


def test_a_tool_that_is_not_offered_is_not_called() -> None:
    got = answer(User("run: make"), tools=(spec("ls", "path"),))
    assert calls(got) == []
    assert "the tool `bash`, which I was not given" in said(got)


def test_it_looks_only_at_what_came_after_the_last_user_message() -> None:
    before = Assistant((ToolCall("x", "ls", {}),), INFO.provider, INFO.id)
    got = answer(User("ls"), before, ToolResult("x", "ls", (Text("a"),), is_error=True), User("read a"))
    assert calls(got) == [("read", {"path": "a"})]


def test_prompts_that_came_together_are_one_request() -> None:
    answered = Assistant((Text("nothing"),), INFO.provider, INFO.id)
    read, listed = User("read a", prompt="1"), User("ls src", origin="steer", prompt="2")
    first = answer(User("ls", prompt="0"), answered, read, listed)
    assert calls(first) == [("read", {"path": "a"})]
    (made,) = (event for event in first if isinstance(event, ToolCallMade))
    since = (
        Assistant((ToolCall(made.id, made.name, made.arguments),), INFO.provider, INFO.id),
        ToolResult(made.id, made.name, (Text("roses"),)),
    )
    assert calls(answer(read, listed, *since)) == [("ls", {"path": "src"})]


def test_what_a_person_ran_is_no_request() -> None:
    assert calls(answer(User("$ cat b\nread b"), User("read a", prompt="1"))) == [("read", {"path": "a"})]


def test_ids_differ_from_turn_to_turn_and_are_the_same_for_the_same_conversation() -> None:
    def ids(*messages: Message) -> list[str]:
        return [each.id for each in answer(*messages) if isinstance(each, ToolCallMade)]

    assert ids(User("ls")) == ids(User("ls"))
    assert ids(User("ls")) != ids(User("ls"), Assistant((Text("ok"),)), User("ls"))


def test_a_long_result_is_shortened() -> None:
    text = said(turn("ls", ("\n".join(f"file-{number}" for number in range(500)), False)))
    assert "file-0" in text
    assert "file-499" not in text
    assert "… and 488 more lines" in text
    assert "… and 1 more line\n" in said(turn("ls", ("\n".join(map(str, range(13))), False)))


def test_a_summary_names_what_was_asked() -> None:
    history = (User("list src"), Assistant((Text("ok"),)), User("read a.txt"), Assistant((Text("ok"),)))
    for words in ("Summarize this conversation.", "summary", "Please sum up"):
        text = said(answer(*history, User(words)))
        assert "- list src" in text
        assert "- read a.txt" in text


def test_a_transcript_that_is_to_be_summed_up_is_not_taken_for_requests() -> None:
    transcript = "User: list src\n\nAssistant: ok\n\nUser: run: rm -r build"
    got = answer(User(transcript), tools=(), system="Summarize the conversation.")
    assert calls(got) == []
    assert "- run: rm -r build" in said(got)


def test_usage_is_estimated() -> None:
    end = answer(User("x" * 4000))[-1]
    assert isinstance(end, Finished)
    assert end.usage.input >= 1000
    assert end.usage.output > 0
    assert end.usage.total_tokens == end.usage.input + end.usage.output
    assert end.usage.cost.total == 0


def test_a_huge_history_is_no_trouble() -> None:
    old: list[Message] = [User("ls"), Assistant((Text("ok " * 100),))] * 20_000
    assert calls(answer(*old, User("ls"))) == [("ls", {})]


@pytest.mark.parametrize(
    "words",
    [
        "search for " + " " * 190_000 + "x",
        "a then " * 28_000,
        "read a and " * 17_000,
        "list" + " " * 190_000 + "x y",
        "`" * 190_000,
        "ls\n" * 60_000,
        "\n" * 190_000,
    ],
)
def test_a_hostile_request_is_no_trouble(words: str) -> None:
    assert isinstance(answer(User(words))[-1], Finished)


def test_a_request_that_is_too_long_is_refused_and_not_cut() -> None:
    got = answer(User("write a.txt: " + "x" * MAX_REQUEST))
    assert calls(got) == []
    assert str(MAX_REQUEST) in said(got)
