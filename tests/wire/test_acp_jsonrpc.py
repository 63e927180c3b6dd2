"""JSON-RPC lines: what is a message, what is none, and which error a line gets that is none."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.wire import acp, jsonrpc
from fairlead.wire.acp.limits import MAX_COMPLAINTS, MAX_LINE
from fairlead.wire.jsonrpc import (
    MAX_DEPTH,
    MAX_ID,
    MAX_REASON,
    Envelope,
    ErrorCode,
    JsonRpcFault,
    decode,
    is_too_deep,
)
from tests.wire.acp_examples import asked, connected, error_in, in_session, line, one, prompted

UPDATE = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":%s}}\n'


@pytest.mark.parametrize(
    "id_", [0, -1, 2**63 - 1, "", "7", "é", "x" * MAX_ID], ids=lambda value: str(value)[:9]
)
def test_a_request_has_a_method_and_an_id(id_: acp.Id) -> None:
    message = decode(line(id=id_, method="m", params=[1]))
    assert isinstance(message, Envelope)
    assert (message.id, message.method, bytes(message.params)) == (id_, "m", b"[1]")


@pytest.mark.parametrize(
    ("text", "code", "id_", "is_answer"),
    [
        ("nonsense", ErrorCode.PARSE, None, False),
        ('{"jsonrpc":"2.0","id":5,"method":"m","params":{]}', ErrorCode.PARSE, 5, False),
        ('{"method":"m" , "id" : "a" , "params":{]}', ErrorCode.PARSE, "a", False),
        ('{"jsonrpc":"2.0","id":5,"result":{]}', ErrorCode.PARSE, 5, True),
        ('{"id":5,"params":{]}', ErrorCode.PARSE, None, False),
        ('{"id":"\\x","method":"m","params":{]}', ErrorCode.PARSE, None, False),
        ("{", ErrorCode.PARSE, None, False),
        ("5", ErrorCode.INVALID_REQUEST, None, False),
        ("null", ErrorCode.INVALID_REQUEST, None, False),
        ("{}", ErrorCode.INVALID_REQUEST, None, True),
        ("[]", ErrorCode.INVALID_REQUEST, None, False),
        ('[{"jsonrpc":"2.0","id":1,"method":"m"}]', ErrorCode.INVALID_REQUEST, None, False),
        ('{"id":1,"method":"m"}', ErrorCode.INVALID_REQUEST, 1, False),
        ('{"jsonrpc":"1.0","id":1,"method":"m"}', ErrorCode.INVALID_REQUEST, 1, False),
        ('{"jsonrpc":"2.0","id":1,"method":5}', ErrorCode.INVALID_REQUEST, 1, False),
        ('{"jsonrpc":"2.0","id":1,"method":null}', ErrorCode.INVALID_REQUEST, 1, False),
        ('{"jsonrpc":"2.0","id":null,"method":"m"}', ErrorCode.INVALID_REQUEST, None, False),
        ('{"jsonrpc":"2.0","id":1.5,"method":"m"}', ErrorCode.INVALID_REQUEST, None, False),
        ('{"jsonrpc":"2.0","id":true,"method":"m"}', ErrorCode.INVALID_REQUEST, None, False),
        ('{"jsonrpc":"2.0","id":[1],"method":"m"}', ErrorCode.INVALID_REQUEST, None, False),
        ('{"jsonrpc":"2.0","id":9223372036854775808,"method":"m"}', ErrorCode.INVALID_REQUEST, None, False),
        ('{"jsonrpc":"2.0","id":1e999,"method":"m"}', ErrorCode.INVALID_REQUEST, None, False),
        (
            f'{{"jsonrpc":"2.0","id":"{"x" * (MAX_ID + 1)}","method":"m"}}',
            ErrorCode.INVALID_REQUEST,
            None,
            False,
        ),
        ('{"jsonrpc":"2.0","id":1}', ErrorCode.INVALID_REQUEST, 1, True),
        ('{"jsonrpc":"2.0","id":1,"result":1,"error":{}}', ErrorCode.INVALID_REQUEST, 1, True),
        ('{"jsonrpc":"2.0","result":1}', ErrorCode.INVALID_REQUEST, None, True),
        ('{"jsonrpc":"2.0","id":null,"result":1}', ErrorCode.INVALID_REQUEST, None, True),
        ('{"jsonrpc":"2.0","id":{},"error":{}}', ErrorCode.INVALID_REQUEST, None, True),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_line_that_is_no_message_gets_the_right_code(
    text: str, code: ErrorCode, id_: acp.Id | None, is_answer: bool
) -> None:
    fault = decode(text.encode())
    assert isinstance(fault, JsonRpcFault)
    assert (fault.code, fault.id, fault.is_answer) == (code, id_, is_answer)
    assert 0 < len(fault.reason) <= MAX_REASON


def test_an_answer_may_have_null_for_what_it_does_not_say() -> None:
    several: list[dict[str, Any]] = [
        {"result": {}, "error": None},
        {"result": None, "error": None},
        {"result": None},
    ]
    for members in several:
        message = decode(line(id=1, **members))
        assert isinstance(message, Envelope)
        assert message.result
        assert not message.error
    message = decode(line(id=1, result=None, error={"code": 1, "message": "m"}))
    assert isinstance(message, Envelope)
    assert message.error
    assert not message.result


# --- on a connection --------------------------------------------------------------------------------------


def test_a_batch_is_refused_with_one_error() -> None:
    client, _ = in_session()
    requests = [{"jsonrpc": "2.0", "id": number, "method": "session/cancel"} for number in range(3)]
    assert error_in(one(client.receive(json.dumps(requests).encode() + b"\n"))) == (None, -32600)


@pytest.mark.parametrize("empty", [b"\n", b"\r\n", b" \t\n", b"\n\n\n"])
def test_empty_lines_are_nothing(empty: bytes) -> None:
    assert in_session()[0].receive(empty) == []


def test_a_program_that_logs_to_its_stdout_gets_a_limited_number_of_errors() -> None:
    client, _ = in_session()
    items = client.receive(b"starting up...\n" * (MAX_COMPLAINTS + 5))
    assert {type(item) for item in items[:MAX_COMPLAINTS]} == {acp.CallRefused}
    assert {type(item) for item in items[MAX_COMPLAINTS:]} == {acp.Ignored}
    assert error_in(items[0]) == (None, -32700)
    assert error_in(one(client.receive(line(id=1, method="what")))) == (1, -32601)


def test_an_error_about_a_line_of_ours_is_ignored() -> None:
    client, _ = in_session()
    item = one(client.receive(line(id=None, error={"code": -32700, "message": "what?"})))
    assert item == acp.Ignored("the peer could not read a line of ours: what?")


def test_a_line_that_is_too_long_is_dropped_and_the_next_one_read() -> None:
    client, agent, _ = prompted()
    client._lines.limit = 200
    request = line(id="a", method="session/request_permission", params={"x": "y" * 200})
    head, tail = request[:150], request[150:]
    assert client.receive(head) == []
    assert error_in(one(client.receive(tail))) == ("a", -32600)
    assert isinstance(
        one(client.receive(agent.update("s1", acp.CurrentMode(current_mode_id="m")))), acp.Notification
    )


def test_an_answer_that_is_too_long_ends_its_request() -> None:
    client, agent, prompt = prompted()
    client._lines.limit = 200
    answer = agent.respond(prompt, acp.PromptResult(stop_reason="end_turn", meta={"x": "y" * 200}))
    failure = one(client.receive(answer))
    assert failure == acp.CallFailure(
        prompt, "session/prompt", "s1", acp.Error(ErrorCode.UNREADABLE, "a line of more than 200 bytes")
    )
    assert client.state("s1") is acp.State.IDLE
    assert isinstance(one(client.receive(answer)), acp.Ignored)


def test_a_hundred_megabytes_without_a_newline_are_not_kept() -> None:
    client, _ = in_session()
    piece, kept, items = b"x" * (1024 * 1024), 0, []
    for _ in range(100):
        items += client.receive(piece)
        kept = max(kept, client._lines.pending)
    assert kept <= MAX_LINE
    assert [type(item) for item in items] == [acp.CallRefused]
    assert client.receive(b"\n") == []
    assert error_in(one(client.receive(line(id=1, method="what")))) == (1, -32601)


def test_invalid_utf_8_is_a_fault_of_its_line_alone() -> None:
    client, _, prompt, _ = asked()
    text = UPDATE % '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"~"}}'
    item = one(client.receive(text.encode().replace(b"~", b"\xff\xfe")))
    assert isinstance(item, acp.Ignored)
    assert "utf-8" in item.reason
    answer = b'{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"\xff"}}\n' % str(prompt).encode()
    failure = one(client.receive(answer))
    assert (failure.method, failure.error.code) == ("session/prompt", ErrorCode.UNREADABLE)
    request = b'{"jsonrpc":"2.0","id":"\xff","method":"fs/read_text_file"}\n'
    assert error_in(one(client.receive(request))) == (None, -32700)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83d", "\ufffd"),
        (r"a\ude00b", "a\ufffdb"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\\ud83d \ud83d", "\\ud83d \ufffd"),
        (r"\uD83Dx\n\"\u00e9", '\ufffdx\n"é'),
    ],
)
def test_half_of_a_surrogate_pair_is_read_as_a_replacement(written: str, read: str) -> None:
    client, _, _ = prompted()
    chunk = f'{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{written}"}}}}'
    item = one(client.receive((UPDATE % chunk).encode()))
    assert item.params.update.content.text == read


def test_half_of_a_surrogate_pair_is_written_as_a_replacement() -> None:
    client, agent = in_session()
    texts = acp.Text(text="a\ud83d"), acp.Text(text="\ud83d\ude00")
    _, sent = client.request(acp.Prompt(session_id="s1", prompt=texts))
    assert [block.text for block in one(agent.receive(sent)).params.prompt] == ["a\ufffd", "\U0001f600"]


# --- depth ------------------------------------------------------------------------------------------------


def nested(depth: int, inside: str = "1") -> str:
    return '{"a":[' * (depth // 2) + "[" * (depth % 2) + inside + "]" * (depth % 2) + "]}" * (depth // 2)


@given(st.integers(0, 3 * MAX_DEPTH), st.text('"\\[]{}a,:', max_size=300), st.integers(1, 3))
@example(MAX_DEPTH, "[" * 200, 1)
@example(MAX_DEPTH + 1, "", 2)
def test_nesting_is_counted_outside_of_strings(depth: int, text: str, times: int) -> None:
    wide = "[" + ",".join([nested(depth, json.dumps(text))] * times) + "]"
    assert is_too_deep(wide.encode()) == (depth + 1 > MAX_DEPTH)


@pytest.mark.parametrize(
    "params",
    [nested(MAX_DEPTH), nested(100_000), "[" * 100_000, '{"a":' * 100_000, nested(500)[:-3], '"' + "[" * 999],
    ids=lambda value: f"{value[:9]} of {len(value)}",
)  # fmt: skip
def test_no_nesting_ends_the_program(params: str) -> None:
    client, agent = connected()
    for end in (client, agent):
        text = f'{{"jsonrpc":"2.0","id":3,"method":"session/new","params":{params}}}\n'
        assert error_in(one(end.receive(text.encode()))) == (3, -32600)
        assert end.receive(text.encode())


@pytest.mark.parametrize("data", [{"code": "x"}, [], "no", {"message": "m"}])
def test_an_error_that_cant_be_read_is_still_a_failure(data: Any) -> None:
    client, _, prompt = prompted()
    failure = one(client.receive(line(id=prompt, error=data)))
    assert isinstance(failure, acp.CallFailure)
    assert failure.error.code == ErrorCode.UNREADABLE
    assert client.state("s1") is acp.State.IDLE


def test_errors_are_written_with_their_data() -> None:
    written = jsonrpc.error("a", acp.Error(-32000, "log in", {"why": 1}))
    assert json.loads(written) == {
        "jsonrpc": "2.0",
        "id": "a",
        "error": {"code": -32000, "message": "log in", "data": {"why": 1}},
    }
