"""MCP without I/O: the handshake, the stateless revision, tools, cancelling, and what is not allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.wire import mcp
from fairlead.wire.mcp import Cancelled, McpTool, Reply, ServerConnection, ToolCall

STATELESS = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
TOOL = McpTool(
    name="t",
    title="T",
    description="does it",
    input_schema={"type": "object"},
    output_schema={"type": "object"},
    annotations={"readOnlyHint": True},
)


def server() -> ServerConnection:
    return ServerConnection("fairlead", "1", lambda: [TOOL], "say")


def line(method: str, id: Any = None, **params: Any) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if id is not None:
        message["id"] = id
    return json.dumps(message).encode() + b"\n"


def ready(revision: str = "2025-11-25") -> ServerConnection:
    made = server()
    made.receive(line("initialize", 0, protocolVersion=revision, capabilities={}, clientInfo={"name": "c"}))
    return made


def replied(connection: ServerConnection, data: bytes) -> dict[str, Any]:
    [item] = connection.receive(data)
    assert isinstance(item, Reply)
    found: dict[str, Any] = json.loads(item.line)
    return found


@pytest.mark.parametrize("revision", mcp.HANDSHAKE)
def test_each_revision_with_a_handshake_is_spoken(revision: str) -> None:
    connection = server()
    info = {"name": "zed", "version": "1"}
    answer = replied(
        connection, line("initialize", "a", protocolVersion=revision, capabilities={}, clientInfo=info)
    )
    assert answer == {
        "jsonrpc": "2.0",
        "id": "a",
        "result": {
            "protocolVersion": revision,
            "serverInfo": {"name": "fairlead", "version": "1"},
            "capabilities": {"tools": {}},
            "instructions": "say",
        },
    }
    assert connection.client.name == "zed"
    assert connection.receive(line("notifications/initialized")) == []


@pytest.mark.parametrize("wanted", ["1999-01-01", "2026-07-28", ""])
def test_who_wants_another_revision_is_offered_the_newest_with_a_handshake(wanted: str) -> None:
    answer = replied(server(), line("initialize", 1, protocolVersion=wanted))
    assert answer["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    ("revision", "known"),
    [
        ("2024-11-05", {"name", "description", "inputSchema"}),
        ("2025-03-26", {"name", "description", "inputSchema", "annotations"}),
        ("2025-06-18", {"name", "description", "inputSchema", "annotations", "title", "outputSchema"}),
    ],
)
def test_a_client_is_told_of_a_tool_what_its_revision_knows(revision: str, known: set[str]) -> None:
    [tool] = replied(ready(revision), line("tools/list", 1))["result"]["tools"]
    assert tool.keys() == known


def test_a_structured_result_is_for_revisions_that_know_it() -> None:
    old, new = ready("2025-03-26"), ready("2025-06-18")
    for connection in (old, new):
        connection.receive(line("tools/call", 1, name="t", arguments={}))
    shown = {"content": [{"type": "text", "text": "x"}], "isError": False}
    assert json.loads(old.finish_call(1, "x", {"a": 1}))["result"] == shown
    assert json.loads(new.finish_call(1, "x", {"a": 1}))["result"] == {**shown, "structuredContent": {"a": 1}}


def test_the_stateless_revision_needs_no_handshake() -> None:
    connection = server()
    found = replied(connection, line("server/discover", 1, _meta=STATELESS))["result"]
    assert found["supportedVersions"][-1] == "2026-07-28"
    assert found["capabilities"] == {"tools": {}}
    assert found["resultType"] == "complete"
    assert found["ttlMs"] == 0
    assert found["cacheScope"] == "private"
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "fairlead"
    tools = replied(connection, line("tools/list", 2, _meta=STATELESS))["result"]
    assert [each["name"] for each in tools["tools"]] == ["t"]
    assert tools["resultType"] == "complete"
    [call] = connection.receive(line("tools/call", 3, name="t", arguments={"a": 1}, _meta=STATELESS))
    assert isinstance(call, ToolCall)
    assert json.loads(bytes(call.arguments)) == {"a": 1}
    assert json.loads(connection.fail_call(3, "no"))["result"]["resultType"] == "complete"


def test_a_revision_that_is_not_spoken_is_refused_with_those_that_are() -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    error = replied(server(), line("tools/list", 1, _meta=meta))["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": list(mcp.REVISIONS), "requested": "2031-01-01"}


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (line("tools/list", 1), -32600, "initialize first"),
        (line("tools/call", 1, name="t"), -32600, "initialize first"),
        (line("server/discover", 1), -32602, "protocolVersion in _meta"),
        (line("resources/list", 1), -32601, "no method"),
        (line("notifications/cancelled", 1, requestId=1), -32601, "no method"),
        (line("initialize", 1), -32602, "protocolVersion"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}\n', -32602, "ping"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":5}}\n', -32602, "_meta"),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n', -32600, "2.0"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', -32600, "batch"),
        (b"hello\n", -32700, "not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}\n', -32700, "not JSON"),
    ],
)
def test_what_can_not_be_done_gets_one_error(data: bytes, code: int, says: str) -> None:
    connection = server()
    error = replied(connection, data)["error"]
    assert error["code"] == code
    assert says in error["message"]
    assert connection.revision is None
    assert connection.open == []


def test_a_second_handshake_is_refused_and_changes_nothing() -> None:
    connection = ready("2025-03-26")
    again = line("initialize", 1, protocolVersion="2025-11-25", clientInfo={"name": "other"})
    assert "already" in replied(connection, again)["error"]["message"]
    assert connection.revision == "2025-03-26"
    assert connection.client.name == "c"


def test_a_cancelled_call_gets_no_answer() -> None:
    connection = ready()
    connection.receive(line("tools/call", 1, name="t", _meta={"progressToken": 7}))
    assert json.loads(connection.progress(1, "on"))["params"] == {
        "progressToken": 7,
        "progress": 1,
        "message": "on",
    }
    assert json.loads(connection.progress(1, "on"))["params"]["progress"] == 2
    assert connection.receive(line("notifications/cancelled", requestId=1, reason="x")) == [Cancelled(1, "x")]
    assert connection.finish_call(1, "late", {}) == b""
    assert connection.progress(1, "late") == b""
    assert connection.receive(line("notifications/cancelled", requestId=1)) == []


def test_progress_is_for_those_who_gave_a_token() -> None:
    connection = ready()
    [call] = connection.receive(line("tools/call", 1, name="t", _meta={"progressToken": [1]}))
    assert isinstance(call, ToolCall)
    assert not call.wants_progress
    assert connection.progress(1, "on") == b""


def test_an_id_that_is_open_is_refused_and_the_first_call_stays() -> None:
    connection = ready()
    connection.receive(line("tools/call", 1, name="t"))
    answer = replied(connection, line("tools/call", 1, name="t"))
    assert answer["id"] is None
    assert "not answered yet" in answer["error"]["message"]
    assert connection.open == [1]


def test_no_more_calls_are_open_than_allowed() -> None:
    connection = ready()
    for number in range(mcp.MAX_OPEN):
        connection.receive(line("tools/call", number + 10, name="t"))
    assert "open already" in replied(connection, line("tools/call", 1, name="t"))["error"]["message"]
    connection.refuse_call(10, "no")
    assert isinstance(connection.receive(line("tools/call", 1, name="t"))[0], ToolCall)


def test_a_line_that_is_too_long_is_dropped_and_the_next_is_read() -> None:
    connection = ready()
    start = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"x":"'
    items = [item for _ in range(9) for item in connection.receive(start + b"x" * 2**20)]
    items += connection.receive(b'"}}\n' + line("ping", 6))
    answers = [json.loads(item.line) for item in items if isinstance(item, Reply)]
    assert [each["id"] for each in answers] == [5, 6]
    assert "bytes" in answers[0]["error"]["message"]


def test_a_program_that_prints_other_things_gets_a_limited_number_of_errors() -> None:
    connection = ready()
    assert len(connection.receive(b"log line\n" * 1000)) == mcp.MAX_COMPLAINTS
    assert replied(connection, line("ping", 1))["result"] == {}


def test_answers_are_ignored_as_nothing_was_asked() -> None:
    assert (
        ready().receive(b'{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","id":{},"result":1}\n') == []
    )


@given(st.lists(st.binary(max_size=60) | st.sampled_from([line("ping", 1), line("tools/call", 2, name="t")])))
def test_no_bytes_break_it(pieces: list[bytes]) -> None:
    connection = ready()
    for piece in pieces:
        for item in connection.receive(piece):
            if isinstance(item, Reply):
                assert item.line.endswith(b"\n")
                assert json.loads(item.line)["jsonrpc"] == "2.0"
    connection.finish()
