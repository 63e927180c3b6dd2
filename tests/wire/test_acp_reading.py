"""Parameters and results: what is written is read again, the rest is left out, kept or refused."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.wire import acp
from fairlead.wire.acp.base import Wire
from fairlead.wire.acp.limits import MAX_ENTRIES, MAX_MENDED, MAX_OPTIONS
from fairlead.wire.acp.reading import KINDS, Unreadable, read
from fairlead.wire.jsonrpc import MAX_ID, MAX_REASON
from tests.wire.acp_examples import OPTIONS, PARAMS, RESULTS, SESSION, TEXT, any_of, one, prompted

TYPES: set[type[Wire]] = {
    *(method.params for method in acp.METHODS.values()),
    *(method.result for method in acp.METHODS.values() if method.result),
} - {acp.SessionUpdate}

ENTRY = {"content": "a", "priority": "low", "status": "x"}
CALL = {"toolCallId": "t"}
TOO_MANY = MAX_OPTIONS + 1
OPTION = {"optionId": "a", "name": "a", "kind": "allow_once"}


def name_of(kind: type[Wire]) -> str:
    return kind.__name__


def parsed(kind: Any, **data: Any) -> Any:
    return read(kind, json.dumps(data).encode())


def update(**data: Any) -> Any:
    """The update that a client receives, through a whole connection."""
    client, _, _ = prompted()
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": data}}
    return one(client.receive(json.dumps(message).encode() + b"\n")).params.update


@pytest.mark.parametrize("kind", sorted(TYPES, key=str), ids=name_of)
@settings(max_examples=20)
@given(st.data())
def test_what_is_written_is_read_again(kind: Any, data: st.DataObject) -> None:
    value = data.draw(any_of(kind))
    assert read(kind, msgspec.json.encode(value)) == value


@given(any_of(acp.KnownUpdate) | any_of(acp.OtherUpdate))
def test_any_update_goes_through_a_connection(sent: Any) -> None:
    client, agent, _ = prompted()
    item = one(client.receive(agent.update(SESSION, sent)))
    assert item == acp.Notification("session/update", acp.SessionUpdate(session_id=SESSION, update=sent))


@pytest.mark.parametrize("name", PARAMS)
def test_unknown_fields_and_meta_are_tolerated(name: str) -> None:
    for value in (PARAMS[name], RESULTS.get(name, acp.Empty())):
        data = json.loads(msgspec.json.encode(value)) | {"new": {"a": [1]}, "_meta": {"maker": {"b": 2}}}
        again = read(type(value), json.dumps(data).encode())
        assert again == msgspec.structs.replace(value, meta={"maker": {"b": 2}})
        data["_meta"] = 5
        if not value.strict:
            assert read(type(value), json.dumps(data).encode()) == value


@pytest.mark.parametrize("raw", [b"", b"null", b"{}"])
def test_null_is_a_result_without_fields(raw: bytes) -> None:
    assert read(acp.Empty, raw) == acp.Empty()
    assert read(acp.OpenSessionResult, raw) == acp.OpenSessionResult()
    with pytest.raises(Unreadable, match="sessionId"):
        read(acp.NewSessionResult, raw)


# --- updates ----------------------------------------------------------------------------------------------


def test_an_unknown_kind_of_update_is_kept_as_it_is() -> None:
    data = {"sessionUpdate": "subagent_update", "deep": {"a": [1, None, 2.5]}}
    assert update(**data) == acp.OtherUpdate("subagent_update", data)


@pytest.mark.parametrize(
    "data",
    [
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram", "data": "x"}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "resource", "resource": {"uri": "a"}}},
        {"sessionUpdate": "tool_call", "title": "x"},
        {"sessionUpdate": "usage_update", "used": "many", "size": 1},
        {"sessionUpdate": "plan", "entries": [ENTRY] * (MAX_ENTRIES + 1)},
    ],
    ids=lambda data: str(data)[:70],
)  # fmt: skip
def test_a_known_kind_that_cant_be_read_is_kept_with_the_reason(data: dict[str, Any]) -> None:
    kept = update(**data)
    assert isinstance(kept, acp.OtherUpdate)
    assert (kept.kind, kept.data) == (data["sessionUpdate"], data)
    assert 0 < len(kept.fault) <= MAX_REASON


@pytest.mark.parametrize(
    "params", [{}, {"sessionId": SESSION}, {"sessionId": SESSION, "update": {"a": 1}}, [], 5]
)
def test_an_update_without_a_kind_is_ignored(params: Any) -> None:
    client, _, _ = prompted()
    message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    assert isinstance(one(client.receive(json.dumps(message).encode() + b"\n")), acp.Ignored)


def test_what_cant_be_read_in_a_tool_call_is_left_out() -> None:
    call = update(
        sessionUpdate="tool_call",
        toolCallId="t1",
        title="Edit",
        kind=5,
        status=None,
        content=[
            {
                "type": "content",
                "content": {"type": "text", "text": "a", "annotations": {"priority": "high"}},
            },
            {"type": "content", "content": {"type": "hologram"}},
            {"type": "diff", "path": "/a", "newText": "b", "oldText": None},
            {"type": "terminal", "terminalId": "1"},
            {"type": "chart"},
            "text",
        ],
        locations=[{"path": "/a", "line": 3}, {"line": 3}, {"path": "/b", "line": "x"}],
        rawInput={"command": "ls"},
    )
    assert call == acp.ToolCall(
        tool_call_id="t1",
        title="Edit",
        content=(
            acp.ContentShown(content=acp.Text(text="a", annotations=acp.Annotations())),
            acp.Diff(path="/a", new_text="b"),
            acp.TerminalShown(terminal_id="1"),
        ),
        locations=(acp.Location(path="/a", line=3), acp.Location(path="/b")),
        raw_input={"command": "ls"},
    )


def test_bad_entries_of_a_required_list_are_left_out() -> None:
    plan = update(sessionUpdate="plan", entries=[{"content": 5}, ENTRY])
    assert plan == acp.Plan(entries=(acp.PlanEntry(content="a", priority="low", status="x"),))
    options = update(
        sessionUpdate="config_option_update",
        configOptions=[
            {"id": "m", "name": "Model", "type": "select", "currentValue": "b", "options": [
                {"group": "g", "name": "G", "options": [{"value": "b", "name": "B"}, {"value": "c"}]},
            ]},
            {"id": "t", "name": "Think", "type": "boolean", "currentValue": True, "category": ["x"]},
            {"id": "n", "name": "None", "type": "number", "currentValue": 5},
        ],
    )  # fmt: skip
    small = acp.ConfigValue(value="b", name="B")
    group = acp.ConfigChoice(group="g", name="G", options=(small,))
    model = acp.ConfigOption(id="m", name="Model", type="select", current_value="b", options=(group,))
    think = acp.ConfigOption(id="t", name="Think", type="boolean", current_value=True)
    assert options == acp.ConfigOptionsChanged(config_options=(model, think))


def test_parts_are_not_looked_for_in_a_huge_message() -> None:
    bad = {"content": 5}
    few, many = [bad] * 10, [bad] * (MAX_MENDED + 1)
    assert update(sessionUpdate="plan", entries=few) == acp.Plan(entries=())
    assert isinstance(update(sessionUpdate="plan", entries=many), acp.OtherUpdate)


def test_a_title_that_is_cleared_differs_from_one_that_stays() -> None:
    assert update(sessionUpdate="session_info_update", title=None) == acp.SessionInfoChanged(title=None)
    assert update(sessionUpdate="session_info_update").title is msgspec.UNSET
    assert update(sessionUpdate="session_info_update", title=5).title is msgspec.UNSET


@pytest.mark.parametrize("kind", sorted(KINDS, key=str))
def test_each_kind_of_update_says_its_kind(kind: str) -> None:
    kept = update(sessionUpdate=kind)
    assert kept == acp.SessionInfoChanged() or kept.kind == kind


# --- results ----------------------------------------------------------------------------------------------


def test_what_cant_be_read_of_an_agents_capabilities_counts_as_absent() -> None:
    result = parsed(
        acp.InitializeResult,
        protocolVersion=1,
        agentCapabilities={
            "loadSession": True,
            "promptCapabilities": {"image": "yes", "audio": True},
            "mcpCapabilities": None,
            "sessionCapabilities": {"list": {}, "resume": None, "close": True, "fork": {}},
        },
        authMethods=[
            {"id": "a", "name": "A"},
            {"id": "b"},
            {"id": "t", "name": "T", "type": "terminal", "args": ["x"]},
        ],
        agentInfo={"name": "x"},
    )
    assert result == acp.InitializeResult(
        protocol_version=1,
        agent_capabilities=acp.AgentCapabilities(
            load_session=True,
            prompt_capabilities=acp.PromptCapabilities(audio=True),
            session_capabilities=acp.SessionCapabilities(list={}),
        ),
        auth_methods=(
            acp.AuthMethod(id="a", name="A"),
            acp.AuthMethod(id="t", name="T", type="terminal", args=("x",)),
        ),
    )


def test_a_turn_ends_with_its_reason_whatever_else_is_wrong() -> None:
    assert (
        parsed(acp.PromptResult, stopReason="end_turn", usage={"totalTokens": 1.5}).stop_reason == "end_turn"
    )
    assert parsed(acp.PromptResult, stopReason="a new one", usage=None).stop_reason == "a new one"


# --- orders are not changed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (acp.Prompt, {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}, {"type": "hologram"}]}),
        (acp.Prompt, {"sessionId": "x" * (MAX_ID + 1), "prompt": []}),
        (acp.NewSession, {"cwd": "/", "mcpServers": [{"name": "a"}]}),
        (acp.NewSession, {"cwd": "/", "mcpServers": [{"name": "a", "type": "http", "command": "x"}]}),
        (acp.NewSession, {"cwd": "/", "mcpServers": [{"name": "a", "command": "x", "args": [5]}]}),
        (acp.NewSession, {"cwd": "/", "mcpServers": [], "additionalDirectories": [5]}),
        (acp.CreateTerminal, {"sessionId": "s", "command": "rm", "args": ["-r", 5]}),
        (acp.ReadTextFile, {"sessionId": "s", "path": "/a", "limit": "all"}),
        (acp.RequestPermission, {"sessionId": "s", "toolCall": CALL, "options": [{"optionId": "a"}]}),
        (acp.RequestPermission, {"sessionId": "s", "toolCall": CALL, "options": [OPTION] * TOO_MANY}),
        (acp.PermissionResult, {"outcome": {"outcome": "perhaps"}}),
        (acp.PermissionResult, {"outcome": {"outcome": "selected"}}),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_half_of_an_order_is_refused(kind: Any, data: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        parsed(kind, **data)


def test_null_stands_for_the_default_of_an_order() -> None:
    order = parsed(acp.NewSession, cwd="/", mcpServers=[], additionalDirectories=None)
    assert order == acp.NewSession(cwd="/", mcp_servers=())


def test_a_permission_survives_content_that_cant_be_read() -> None:
    permission = parsed(
        acp.RequestPermission,
        sessionId="s",
        toolCall={"toolCallId": "t", "title": "rm x", "content": [{"type": "chart"}], "rawInput": {"a": 1}},
        options=json.loads(msgspec.json.encode(OPTIONS)),
    )
    assert permission.tool_call == acp.ToolCallDetails(
        tool_call_id="t", title="rm x", content=(), raw_input={"a": 1}
    )
    assert permission.options == OPTIONS


def test_the_wire_has_javascripts_names_and_no_defaults() -> None:
    _, agent, _ = prompted()
    sent = agent.update(SESSION, acp.ToolCall(tool_call_id="t", title="ls", raw_input={"snake_case": 1}))
    assert json.loads(sent) == {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {
            "sessionId": SESSION,
            "update": {
                "sessionUpdate": "tool_call",
                "toolCallId": "t",
                "title": "ls",
                "rawInput": {"snake_case": 1},
            },
        },
    }
    assert repr(acp.AgentMessageChunk(content=TEXT)) == "AgentMessageChunk(content=Text(text='hello'))"
