"""Remote models, asked over real HTTP on loopback."""

import asyncio
import base64
import subprocess
import sys
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, cast

import pytest

from fairlead.agent.messages import (
    Assistant,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    User,
)
from fairlead.agent.models import (
    Finished,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolCallBegan,
    ToolCallDelta,
    ToolCallMade,
    ToolSpec,
)
from fairlead.agent.models.remote import Kind, Remote
from fairlead.system.extras import adding
from tests.agent.openai_server import (
    BREAK,
    HOLD,
    OpenAiServer,
    Reply,
    answer,
    chunk,
    event,
    failure,
    overflow,
)

KEY = "sk-a-very-secret-key"
INFO = ModelInfo("lab", "test", "Test", reasoning=True, window=8000, max_output=500)
LS = ToolSpec("ls", "List a directory.", {"type": "object", "properties": {"path": {"type": "string"}}})
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def asked(
    messages: Sequence[Message] = (User("Hi"),), info: ModelInfo = INFO, thinking: str = "off"
) -> ModelRequest:
    return ModelRequest(info, "Be brief.", messages, (LS,), thinking)


def remote(server: OpenAiServer) -> Remote:
    return Remote("openai", server.url, lambda: KEY)


def events(model: Remote, request: ModelRequest) -> list[ModelEvent]:
    async def collect() -> list[ModelEvent]:
        return [each async for each in model.stream(request)]

    return asyncio.run(collect())


def error(model: Remote, request: ModelRequest | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        events(model, request or asked())
    return caught.value


def ask(reply: Reply, request: ModelRequest | None = None) -> tuple[list[ModelEvent], dict[str, Any]]:
    with OpenAiServer([reply]) as server:
        return events(remote(server), request or asked()), server.requests[0]


def fail(reply: Reply) -> ModelError:
    with OpenAiServer([reply]) as server:
        found = error(remote(server))
        assert len(server.requests) == 1, "it is not asked again"
        return found


def test_text_comes_in_the_pieces_in_which_it_was_sent() -> None:
    got, _ = ask(answer("Hello, world", pieces=4))
    assert [each.text for each in got if isinstance(each, TextDelta)] == ["Hel", "lo,", " wo", "rld"]
    assert got[-1] == Finished("stop", Usage(input=100, output=20, total_tokens=120))


def test_a_thousand_deltas_arrive() -> None:
    got, _ = ask(answer("x" * 1000, pieces=1000))
    assert sum(isinstance(each, TextDelta) for each in got) == 1000


def test_the_model_is_told_the_system_prompt_the_tools_and_the_limit() -> None:
    _, request = ask(answer("ok"))
    assert request["model"] == "test"
    assert request["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]
    function = {"name": "ls", "description": "List a directory.", "parameters": LS.parameters}
    assert request["tools"] == [{"type": "function", "function": function}]
    assert request["max_completion_tokens"] == 500


def test_a_model_without_a_known_limit_is_given_none() -> None:
    info = ModelInfo("lab", "test", "Test", max_output=0)
    _, request = ask(answer("ok"), asked(info=info))
    assert not {"max_tokens", "max_completion_tokens", "reasoning_effort"} & request.keys()


def test_a_tool_call_comes_in_pieces_and_then_whole() -> None:
    got, _ = ask(answer("Look.", calls=[("ls", '{"path": "src"}')], pieces=2))
    began = next(each for each in got if isinstance(each, ToolCallBegan))
    pieces = [each.arguments for each in got if isinstance(each, ToolCallDelta)]
    assert began.name == "ls"
    assert len(pieces) == 2
    assert "".join(pieces) == '{"path": "src"}'
    assert got[-2] == ToolCallMade(began.id, "ls", {"path": "src"})
    assert isinstance(got[-1], Finished)
    assert got[-1].stop_reason == "toolUse"


def test_several_calls_of_one_answer_keep_their_order() -> None:
    got, _ = ask(answer(calls=[("ls", '{"path": "a"}'), ("ls", '{"path": "b"}'), ("ls", "")]))
    made = [each for each in got if isinstance(each, ToolCallMade)]
    assert [each.arguments for each in made] == [{"path": "a"}, {"path": "b"}, {}]
    assert len({each.id for each in made}) == 3


@pytest.mark.parametrize("arguments", ["[1]", '{"path": ', "null", '"src"', "{oops}", "[" * 5000])
def test_arguments_that_are_no_json_object_are_an_error_of_the_call(arguments: str) -> None:
    got, _ = ask(answer(calls=[("ls", arguments)]))
    made = next(each for each in got if isinstance(each, ToolCallMade))
    assert made.arguments == {}
    assert made.error is not None
    assert made.error.startswith("the arguments must be a JSON object: ")


def test_an_id_that_the_conversation_has_already_is_replaced() -> None:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    before = Assistant((ToolCall("c", "ls", {}),), "lab", "test")
    said = (User("Hi"), before, ToolResult("c", "ls", (Text("a"),)))
    reply = Reply([chunk({"tool_calls": [call]}), chunk({}, "tool_calls")])
    got, _ = ask(reply, asked(said))
    assert [each.id for each in got if isinstance(each, ToolCallBegan | ToolCallDelta | ToolCallMade)] == [
        "c-2",
        "c-2",
        "c-2",
    ]


def test_thoughts_are_told_apart_from_text_and_go_back_where_they_came_from() -> None:
    got, _ = ask(answer("Yes.", thinking="Let me see."))
    assert "".join(each.text for each in got if isinstance(each, ThinkingDelta)) == "Let me see."
    assert "".join(each.text for each in got if isinstance(each, TextDelta)) == "Yes."
    end = got[-1]
    assert isinstance(end, Finished)
    said = Assistant((Thinking("Let me see.", end.signature), Text("Yes.")), "lab", "test")
    _, request = ask(answer("ok"), asked((User("Hi"), said, User("Why?"))))
    assert request["messages"][2]["reasoning_content"] == "Let me see."
    assert request["messages"][2]["content"] == "Yes."


def test_thoughts_with_text_between_them_go_back_one_by_one() -> None:
    frames = [chunk({"reasoning_content": "One."}), chunk({"content": "a"})]
    frames += [chunk({"reasoning_content": "Two."}), chunk({"content": "b"}), chunk({}, "stop")]
    got, _ = ask(Reply(frames))
    end = got[-1]
    assert isinstance(end, Finished)
    parts = (Thinking("One.", end.signature), Text("a"), Thinking("Two.", end.signature), Text("b"))
    _, request = ask(answer("ok"), asked((User("Hi"), Assistant(parts, "lab", "test"), User("Why?"))))
    assert request["messages"][2]["reasoning_content"] in ("One.Two.", "One.\n\nTwo.")


@pytest.mark.parametrize("signature", ["fairlead:", "fairlead:[[1]]", "fairlead:[[99,null,null]]", "foreign"])
def test_a_signature_that_is_not_ours_does_no_harm(signature: str) -> None:
    said = Assistant((Thinking("Hmm.", signature), Text("Yes.")), "lab", "test")
    _, request = ask(answer("ok"), asked((User("Hi"), said, User("Why?"))))
    assert "Yes." in request["messages"][2]["content"]


def test_thoughts_that_led_to_nothing_are_left_out() -> None:
    said = Assistant((Thinking("Hmm.", "signed"),), "lab", "test", stop_reason="length")
    _, request = ask(answer("ok"), asked((User("Hi"), said, User("Go on"))))
    assert [each["role"] for each in request["messages"]] == ["system", "user", "user"]


def test_thoughts_of_another_provider_stay_here() -> None:
    said = Assistant((Thinking("Hmm.", "signed"), Text("Yes.")), "other", "test")
    _, request = ask(answer("ok"), asked((User("Hi"), said, User("Why?"))))
    assert request["messages"][2] == {"role": "assistant", "content": "Yes."}


@pytest.mark.parametrize(
    ("level", "effort"),
    [("minimal", "minimal"), ("low", "low"), ("medium", "medium"), ("high", "high"), ("xhigh", "xhigh")],
)
def test_a_thinking_level_is_the_effort_that_is_asked_for(level: str, effort: str) -> None:
    _, request = ask(answer("ok"), asked(thinking=level))
    assert request["reasoning_effort"] == effort


def test_a_conversation_with_calls_results_and_pictures_is_sent_as_it_was() -> None:
    said: tuple[Message, ...] = (
        User((Text("What is this?"), Image(PIXEL, "image/png"))),
        Assistant((Text("I look."), ToolCall("c1", "ls", {"path": "."})), "lab", "test"),
        ToolResult("c1", "ls", (Text("no such file"),), is_error=True),
        Assistant((), "lab", "test", stop_reason="aborted"),
        User("And now?"),
    )
    _, request = ask(answer("ok"), asked(said))
    _, first, called, result, last = request["messages"]
    assert [part["type"] for part in first["content"]] == ["text", "image_url"]
    assert first["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"
    assert called["content"] == "I look."
    assert called["tool_calls"][0]["id"] == "c1"
    assert called["tool_calls"][0]["function"] == {"name": "ls", "arguments": '{"path":"."}'}
    assert (result["role"], result["tool_call_id"]) == ("tool", "c1")
    assert "no such file" in result["content"]
    assert last == {"role": "user", "content": "And now?"}


def test_a_picture_that_is_not_base64_is_refused() -> None:
    with OpenAiServer([]) as server:
        found = error(remote(server), asked((User((Image("§", "image/png"),)),)))
        assert found.kind == "refused"
        assert server.requests == []


def test_cached_tokens_are_counted_once() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    got, _ = ask(answer("ok", usage=usage | {"prompt_tokens_details": {"cached_tokens": 80}}))
    assert got[-1] == Finished("stop", Usage(input=20, output=7, cache_read=80, total_tokens=107))


def test_an_answer_that_is_too_long_says_so() -> None:
    got, _ = ask(answer("and so on", finish="length"))
    assert isinstance(got[-1], Finished)
    assert got[-1].stop_reason == "length"


def test_after_a_result_of_a_tool_an_empty_answer_is_an_answer() -> None:
    called = Assistant((ToolCall("t1", "ls", {}),), "lab", "test", stop_reason="toolUse")
    got, _ = ask(answer(), asked((User("Hi"), called, ToolResult("t1", "ls", (Text("a"),)))))
    assert [type(each) for each in got] == [Finished]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_a_provider_that_is_busy_may_be_asked_later(status: int) -> None:
    found = fail(failure(status, "not now", retry_after=7))
    assert (found.kind, found.status, found.retry_after) == ("busy", status, 7.0)
    assert f"({status}): not now; " in str(found)


def test_after_a_429_the_next_question_is_answered() -> None:
    with OpenAiServer([failure(429, retry_after=0), answer("ok")]) as server:
        assert error(remote(server)).kind == "busy"
        assert isinstance(events(remote(server), asked())[-1], Finished)


def test_a_page_that_is_no_json_is_told_too() -> None:
    found = fail(Reply((), 502, (), b"<h1>Bad Gateway</h1>"))
    assert (found.kind, found.status) == ("busy", 502)
    assert "Bad Gateway" in str(found)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_request_that_can_never_work_is_refused(status: int) -> None:
    found = fail(failure(status, "wrong"))
    assert (found.kind, found.status) == ("refused", status)


def test_no_credit_left_is_not_worth_waiting_for() -> None:
    assert fail(failure(429, "You exceeded your quota", code="insufficient_quota")).kind == "refused"


@pytest.mark.parametrize(
    "reply",
    [
        overflow(),
        failure(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        failure(400, "the request exceeds the available context size, try increasing it"),
        failure(413, "request_too_large"),
    ],
)
def test_more_than_the_window_takes_is_an_overflow(reply: Reply) -> None:
    assert fail(reply).kind == "overflow"


def test_a_connection_that_breaks_in_the_middle_is_busy() -> None:
    with OpenAiServer([answer("Hello", insert=[BREAK])]) as server:
        got = []

        async def collect() -> None:
            async for each in remote(server).stream(asked()):
                got.append(each)

        with pytest.raises(ModelError) as caught:
            asyncio.run(collect())
    assert caught.value.kind == "busy"
    assert "".join(each.text for each in got if isinstance(each, TextDelta)) == "Hello"


def test_nobody_who_listens_is_busy() -> None:
    with OpenAiServer([]) as server:
        model = remote(server)
    assert error(model).kind == "busy"


@pytest.mark.parametrize(
    "reply",
    [
        answer("Hello", insert=[b"data: {oops\n\n"]),
        answer("Hello", insert=[b"data: [1, 2]\n\n"]),
    ],
    ids=["malformed json", "no chunk"],
)
def test_a_stream_that_makes_no_sense_is_broken(reply: Reply) -> None:
    assert fail(reply).kind == "broken"


def test_an_error_inside_of_a_stream_is_judged_like_one_before_it() -> None:
    inside = event({"error": {"message": "overloaded", "type": "server_error", "code": None}})
    assert fail(answer("Hel", insert=[inside])).kind == "busy"


def test_an_answer_that_the_content_filter_stopped_is_refused() -> None:
    assert fail(answer("Hel", finish="content_filter")).kind == "refused"


def test_closing_the_iterator_closes_the_connection() -> None:
    async def leave(server: OpenAiServer) -> None:
        stream = remote(server).stream(asked())
        async with aclosing(cast(Any, stream)):
            async for each in stream:
                if each == TextDelta("o"):
                    break
        assert await asyncio.to_thread(server.gone.wait, 20)

    with OpenAiServer([answer("Hello", insert=[HOLD])]) as server:
        asyncio.run(leave(server))


def test_cancelling_a_task_that_waits_closes_the_connection() -> None:
    async def leave(server: OpenAiServer) -> None:
        async def wait() -> None:
            async for _ in remote(server).stream(asked()):
                pass

        task = asyncio.create_task(wait())
        assert await asyncio.to_thread(server.held.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.gone.wait, 20)

    with OpenAiServer([answer("Hello", insert=[HOLD])]) as server:
        asyncio.run(leave(server))


def test_a_slow_answer_does_not_stop_others() -> None:
    async def both(server: OpenAiServer) -> None:
        slow = asyncio.create_task(anext(aiter(_texts(remote(server)))))
        assert await asyncio.to_thread(server.held.wait, 20)
        assert await anext(aiter(_texts(remote(server)))) == "quick"
        server.release.set()
        assert await slow == "slow"

    replies = [answer(insert=[HOLD, chunk({"content": "slow"})]), answer("quick", pieces=1)]
    with OpenAiServer(replies) as server:
        asyncio.run(both(server))


async def _texts(model: Remote) -> Any:
    async for each in model.stream(asked()):
        if isinstance(each, TextDelta):
            yield each.text


def test_the_key_is_sent_and_never_shown() -> None:
    with OpenAiServer([failure(401, f"Incorrect API key provided: {KEY}")]) as server:
        model = remote(server)
        found = error(model)
        assert server.keys == [f"Bearer {KEY}"]
    assert KEY not in f"{found!r} {found} {model!r}"
    assert found.__cause__ is None
    assert found.__suppress_context__


def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    script = (
        "import asyncio, sys\n"
        "sys.modules['pydantic_ai'] = None\n"
        "from fairlead.agent.models import ModelError, ModelInfo, ModelRequest\n"
        "from fairlead.agent.models.remote import Remote\n"
        "async def ask():\n"
        "    request = ModelRequest(ModelInfo('lab', 'test', 'Test'), '', [])\n"
        "    try:\n"
        "        model = Remote('openai', 'http://127.0.0.1:1/v1', lambda: None)\n"
        "        await anext(aiter(model.stream(request)))\n"
        "    except ModelError as error:\n"
        "        print(error.kind, error)\n"
        "asyncio.run(ask())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("from the extra 'models': " + adding("models") + "\n")


def test_the_catalogue_imports_nothing_heavy() -> None:
    script = (
        "import sys, fairlead.agent.models.catalog\n"
        "print({'pydantic_ai', 'pydantic', 'openai', 'httpx2'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# --- OpenAI itself, in its newer protocol -----------------------------------------------------------------


def responses(*told: dict[str, Any], end: dict[str, Any] | None = None) -> Reply:
    """An answer as OpenAI's Responses API streams it."""
    details = {"cached_tokens": 30}
    usage = {"input_tokens": 40, "input_tokens_details": details, "output_tokens": 9, "total_tokens": 49}
    usage["output_tokens_details"] = {"reasoning_tokens": 3}
    whole = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5", "output": []}
    whole |= {"status": "in_progress", "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    last = end or {"type": "response.completed", "response": whole | {"status": "completed", "usage": usage}}
    all_told = [{"type": "response.created", "response": whole}, *told, last]
    numbered = [each | {"sequence_number": number} for number, each in enumerate(all_told)]
    return Reply([f"event: {each['type']}\n".encode() + event(each) for each in numbered])


def thinks(id: str, text: str, secret: str) -> list[dict[str, Any]]:
    item: dict[str, Any] = {"id": id, "type": "reasoning", "summary": [], "encrypted_content": None}
    summary = {"type": "summary_text", "text": text}
    place = {"item_id": id, "output_index": 0, "summary_index": 0}
    done = item | {"summary": [summary], "encrypted_content": secret}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.reasoning_summary_part.added", **place, "part": summary | {"text": ""}},
        {"type": "response.reasoning_summary_text.delta", **place, "delta": text},
        {"type": "response.reasoning_summary_text.done", **place, "text": text},
        {"type": "response.reasoning_summary_part.done", **place, "part": summary},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    ]


def calls_ls(arguments: str) -> list[dict[str, Any]]:
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "ls", "arguments": ""}
    place = {"item_id": "fc_1", "output_index": 1}
    return [
        {"type": "response.output_item.added", "output_index": 1, "item": item | {"status": "in_progress"}},
        {"type": "response.function_call_arguments.delta", **place, "delta": arguments},
        {"type": "response.function_call_arguments.done", **place, "arguments": arguments},
        {
            "type": "response.output_item.done",
            "output_index": 1,
            "item": item | {"arguments": arguments, "status": "completed"},
        },
    ]


GPT = ModelInfo("openai", "gpt-5", "GPT-5", True, 400_000, 128_000)


@pytest.fixture
def loopback_is_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.agent.models.remote.OPENAI_HOST", "127.0.0.1")


@pytest.mark.usefixtures("loopback_is_openai")
def test_openai_thinks_calls_and_gets_its_sealed_thoughts_back() -> None:
    replies = [responses(*thinks("rs_1", "Hmm.", "c2VhbGVk"), *calls_ls('{"path": "src"}')), responses()]
    with OpenAiServer(replies, path="/v1/responses") as server:
        got = events(remote(server), asked(info=GPT, thinking="high"))
        assert ThinkingDelta("Hmm.") in got
        assert got[-2] == ToolCallMade("call_1", "ls", {"path": "src"})
        end = got[-1]
        assert isinstance(end, Finished)
        assert (end.stop_reason, end.usage) == ("toolUse", Usage(10, 9, 30, 0, 49))
        parts = (Thinking("Hmm.", end.signature), ToolCall("call_1", "ls", {"path": "src"}))
        said = Assistant(parts, "openai", "gpt-5")
        events(
            remote(server), asked((User("Hi"), said, ToolResult("call_1", "ls", (Text("a"),))), GPT, "high")
        )
        first, second = server.requests
    assert first["reasoning"]["effort"] == "high"
    assert first["max_output_tokens"] == 128_000
    assert first["store"] is False
    _, thought, call, result = second["input"]
    assert (thought["type"], thought["id"]) == ("reasoning", "rs_1")
    assert thought["encrypted_content"] == "c2VhbGVk"
    assert thought["summary"] == [{"type": "summary_text", "text": "Hmm."}]
    assert (call["type"], call["call_id"], call["name"]) == ("function_call", "call_1", "ls")
    assert (result["type"], result["output"]) == ("function_call_output", "a")


@pytest.mark.usefixtures("loopback_is_openai")
def test_an_answer_of_openai_that_just_stops_is_busy() -> None:
    whole = responses(*calls_ls("{}"))
    with OpenAiServer([Reply(whole.frames[:-1])], path="/v1/responses") as server:
        assert error(remote(server), asked(info=GPT)).kind == "busy"


@pytest.mark.usefixtures("loopback_is_openai")
def test_an_answer_of_openai_that_is_too_long_says_so() -> None:
    cut = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5",
        "output": [],
        "status": "incomplete",
    }
    end = {
        "type": "response.incomplete",
        "response": cut | {"incomplete_details": {"reason": "max_output_tokens"}},
    }
    with OpenAiServer([responses(*calls_ls('{"path'), end=end)], path="/v1/responses") as server:
        got = events(remote(server), asked(info=GPT))
    assert isinstance(got[-1], Finished)
    assert got[-1].stop_reason == "length"


@pytest.mark.usefixtures("loopback_is_openai")
@pytest.mark.parametrize(
    ("reply", "kind"),
    [(failure(429), "busy"), (failure(503), "busy"), (overflow(), "overflow"), (failure(401), "refused")],
)
def test_errors_of_openai_are_judged(reply: Reply, kind: str) -> None:
    with OpenAiServer([reply], path="/v1/responses") as server:
        assert error(remote(server), asked(info=GPT)).kind == kind


# --- the other kinds of providers -------------------------------------------------------------------------


def claude(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], stop: str = "end_turn") -> Reply:
    """An answer as Anthropic streams it: blocks, each with its deltas."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 5}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": []}
    start = message | {"stop_reason": None, "stop_sequence": None, "usage": usage | {"output_tokens": 1}}
    told: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, (block, deltas) in enumerate(blocks):
        told.append({"type": "content_block_start", "index": index, "content_block": block})
        told += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        told.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": stop, "stop_sequence": None}
    told.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 9}})
    told.append({"type": "message_stop"})
    return Reply([f"event: {each['type']}\n".encode() + event(each) for each in told])


THOUGHT = (
    {"type": "thinking", "thinking": "", "signature": ""},
    [{"type": "thinking_delta", "thinking": "Hmm."}, {"type": "signature_delta", "signature": "c2ln"}],
)
SPOKEN = (
    {"type": "text", "text": ""},
    [{"type": "text_delta", "text": "Yes"}, {"type": "text_delta", "text": "."}],
)
CALLED = (
    {"type": "tool_use", "id": "t1", "name": "ls", "input": {}},
    [
        {"type": "input_json_delta", "partial_json": '{"path": '},
        {"type": "input_json_delta", "partial_json": '"src"}'},
    ],
)
CLAUDE = ModelInfo("anthropic", "claude-sonnet-4-6", "Claude", True, 200_000, 64_000)


def test_anthropic_thinks_speaks_calls_and_gets_its_signed_thoughts_back() -> None:
    replies = [claude(THOUGHT, SPOKEN, CALLED, stop="tool_use"), claude(SPOKEN)]
    with OpenAiServer(replies, path=None) as server:
        model = Remote("anthropic", server.root, lambda: KEY)
        got = events(model, asked(info=CLAUDE, thinking="high"))
        assert ThinkingDelta("Hmm.") in got
        assert [each.text for each in got if isinstance(each, TextDelta)] == ["Yes", "."]
        assert got[-2] == ToolCallMade("t1", "ls", {"path": "src"})
        assert got[-1] == Finished("toolUse", Usage(10, 9, 30, 5, 54), "c2ln")
        said = Assistant(
            (Thinking("Hmm.", "c2ln"), Text("Yes."), ToolCall("t1", "ls", {"path": "src"})),
            "anthropic",
            CLAUDE.id,
        )
        result = ToolResult("t1", "ls", (Text("no"),), is_error=True)
        events(model, asked((User("Hi"), said, result), CLAUDE, "high"))
        first, second = server.requests
        assert server.keys == [f"Bearer {KEY}"] * 2
    assert first["max_tokens"] == 64_000
    assert first["thinking"]["type"] in ("enabled", "adaptive")
    sent = second["messages"][1]["content"]
    assert sent[0] == {"type": "thinking", "thinking": "Hmm.", "signature": "c2ln"}
    assert [part["type"] for part in sent] == ["thinking", "text", "tool_use"]
    back = second["messages"][2]["content"][0]
    assert (back["type"], back["tool_use_id"], back["is_error"]) == ("tool_result", "t1", True)


@pytest.mark.parametrize(
    ("status", "type", "message", "kind"),
    [
        (529, "overloaded_error", "Overloaded", "busy"),
        (429, "rate_limit_error", "slow down", "busy"),
        (400, "invalid_request_error", "prompt is too long: 201000 tokens > 200000 maximum", "overflow"),
        (400, "invalid_request_error", "max_tokens: too large", "refused"),
        (401, "authentication_error", "invalid x-api-key", "refused"),
    ],
)
def test_errors_of_anthropic_are_judged(status: int, type: str, message: str, kind: str) -> None:
    body = event({"type": "error", "error": {"type": type, "message": message}}).removeprefix(b"data: ")
    with OpenAiServer([Reply((), status, (), body)], path=None) as server:
        found = error(Remote("anthropic", server.root, lambda: KEY), asked(info=CLAUDE))
    assert (found.kind, found.status) == (kind, status)
    assert str(found).startswith(f"anthropic/{CLAUDE.id}: ")
    assert f"({status}): {message}" in str(found)


GEMINI = ModelInfo("google", "gemini-2.5-pro", "Gemini", True, 1_000_000, 65_536)


def gemini(*parts: dict[str, Any]) -> Reply:
    """An answer as Google streams it."""
    usage = {
        "promptTokenCount": 40,
        "candidatesTokenCount": 9,
        "totalTokenCount": 49,
        "cachedContentTokenCount": 30,
    }
    frames = [event({"candidates": [{"content": {"role": "model", "parts": [part]}}]}) for part in parts]
    end = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}
    return Reply([*frames, event({"candidates": [end], "usageMetadata": usage})])


def test_google_speaks_and_calls() -> None:
    call = {"functionCall": {"name": "ls", "args": {"path": "src"}}}
    with OpenAiServer([gemini({"text": "Yes"}, {"text": "."}, call)], path=None) as server:
        got = events(Remote("google", server.root, lambda: KEY), asked(info=GEMINI, thinking="low"))
        assert server.keys == [KEY]
        request = server.requests[0]
    assert [each.text for each in got if isinstance(each, TextDelta)] == ["Yes", "."]
    made = next(each for each in got if isinstance(each, ToolCallMade))
    assert (made.name, made.arguments, made.error) == ("ls", {"path": "src"}, None)
    end = got[-1]
    assert isinstance(end, Finished)
    assert end.stop_reason == "toolUse"
    assert end.usage == Usage(10, 9, 30, 0, 49)
    assert request["generationConfig"]["maxOutputTokens"] == 65_536
    assert "thinkingConfig" in request["generationConfig"]


@pytest.mark.parametrize(
    ("status", "reason", "message", "kind"),
    [
        (503, "UNAVAILABLE", "The model is overloaded.", "busy"),
        (429, "RESOURCE_EXHAUSTED", "Too many requests.", "busy"),
        (400, "INVALID_ARGUMENT", "The input token count (2) exceeds the maximum of tokens (1).", "overflow"),
        (400, "INVALID_ARGUMENT", "API key not valid.", "refused"),
    ],
)
def test_errors_of_google_are_judged(status: int, reason: str, message: str, kind: str) -> None:
    told = {"error": {"code": status, "message": message, "status": reason}}
    reply = Reply((), status, (), event(told).removeprefix(b"data: "))
    with OpenAiServer([reply], path=None) as server:
        found = error(Remote("google", server.root, lambda: KEY), asked(info=GEMINI))
        assert len(server.requests) == 1
    assert (found.kind, found.status) == (kind, status)
    assert message.rstrip(".") in str(found)


@pytest.mark.parametrize("kind", ["anthropic", "google"])
def test_a_connection_that_breaks_is_busy_whoever_it_is(kind: Kind) -> None:
    whole = claude(SPOKEN) if kind == "anthropic" else gemini({"text": "Yes"})
    info = CLAUDE if kind == "anthropic" else GEMINI
    with OpenAiServer([Reply([*whole.frames[:2], BREAK])], path=None) as server:
        assert error(Remote(kind, server.root, lambda: KEY), asked(info=info)).kind == "busy"
