"""What the tests of the Agent Client Protocol share: connected ends, one of each message, and any."""

import json
import types
from functools import cache
from typing import Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from fairlead.wire import acp
from fairlead.wire.acp.base import Wire

SESSION = "s1"
TEXT = acp.Text(text="hello")
OPTIONS = (
    acp.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    acp.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
)
ALL_OF_A_CLIENT = acp.ClientCapabilities(
    fs=acp.FsCapabilities(read_text_file=True, write_text_file=True), terminal=True, elicitation={"form": {}}
)
ALL_OF_AN_AGENT = acp.AgentCapabilities(
    load_session=True,
    prompt_capabilities=acp.PromptCapabilities(image=True, audio=True, embedded_context=True),
    mcp_capabilities=acp.McpCapabilities(http=True, sse=True),
    session_capabilities=acp.SessionCapabilities(
        list={}, delete={}, resume={}, close={}, additional_directories={}
    ),
    auth=acp.AuthCapabilities(logout={}),
)
PARAMS: dict[str, Wire] = {
    "initialize": acp.Initialize(protocol_version=1),
    "authenticate": acp.Authenticate(method_id="key"),
    "logout": acp.Logout(),
    "session/new": acp.NewSession(cwd="/work", mcp_servers=()),
    "session/load": acp.LoadSession(session_id="old", cwd="/work", mcp_servers=()),
    "session/resume": acp.ResumeSession(session_id="old", cwd="/work"),
    "session/list": acp.ListSessions(),
    "session/close": acp.CloseSession(session_id=SESSION),
    "session/delete": acp.DeleteSession(session_id=SESSION),
    "session/set_mode": acp.SetMode(session_id=SESSION, mode_id="plan"),
    "session/set_model": acp.SetModel(session_id=SESSION, model_id="big"),
    "session/set_config_option": acp.SetConfigOption(session_id=SESSION, config_id="model", value="big"),
    "session/prompt": acp.Prompt(session_id=SESSION, prompt=(TEXT,)),
    "session/cancel": acp.Cancel(session_id=SESSION),
    "session/update": acp.SessionUpdate(session_id=SESSION, update=acp.AgentMessageChunk(content=TEXT)),
    "session/request_permission": acp.RequestPermission(
        session_id=SESSION, tool_call=acp.ToolCallDetails(tool_call_id="t1", title="rm x"), options=OPTIONS
    ),
    "elicitation/create": acp.Elicit(mode="form", message="Name?", session_id=SESSION),
    "elicitation/complete": acp.ElicitComplete(elicitation_id="e1"),
    "fs/read_text_file": acp.ReadTextFile(session_id=SESSION, path="/project/a"),
    "fs/write_text_file": acp.WriteTextFile(session_id=SESSION, path="/project/a", content="b"),
    "terminal/create": acp.CreateTerminal(session_id=SESSION, command="make"),
    "terminal/output": acp.TerminalOutput(session_id=SESSION, terminal_id="1"),
    "terminal/wait_for_exit": acp.WaitForTerminalExit(session_id=SESSION, terminal_id="1"),
    "terminal/kill": acp.KillTerminal(session_id=SESSION, terminal_id="1"),
    "terminal/release": acp.ReleaseTerminal(session_id=SESSION, terminal_id="1"),
}
RESULTS: dict[str, Wire] = {
    "initialize": acp.InitializeResult(protocol_version=1, agent_capabilities=ALL_OF_AN_AGENT),
    "session/new": acp.NewSessionResult(session_id="s2"),
    "session/load": acp.OpenSessionResult(),
    "session/resume": acp.OpenSessionResult(),
    "session/list": acp.ListSessionsResult(sessions=()),
    "session/set_config_option": acp.SetConfigOptionResult(config_options=()),
    "session/prompt": acp.PromptResult(stop_reason="end_turn"),
    "session/request_permission": acp.PermissionResult(outcome=acp.Selected(option_id="yes")),
    "elicitation/create": acp.ElicitResult(action="decline"),
    "fs/read_text_file": acp.ReadTextFileResult(content="b"),
    "terminal/create": acp.CreateTerminalResult(terminal_id="1"),
    "terminal/output": acp.TerminalOutputResult(output="", truncated=False),
    "terminal/wait_for_exit": acp.TerminalExit(exit_code=0),
}
Ends = tuple[acp.ClientConnection, acp.AgentConnection]


def one(items: list[acp.Item]) -> Any:
    (item,) = items
    return item


def connected(
    client_has: acp.ClientCapabilities = ALL_OF_A_CLIENT, agent_has: acp.AgentCapabilities = ALL_OF_AN_AGENT
) -> Ends:
    """Both ends, after initialize."""
    client, agent = acp.ClientConnection(), acp.AgentConnection()
    _, line = client.request(acp.Initialize(protocol_version=1, client_capabilities=client_has))
    asked = one(agent.receive(line))
    answer = agent.respond(asked.id, acp.InitializeResult(protocol_version=1, agent_capabilities=agent_has))
    one(client.receive(answer))
    return client, agent


def in_session(*capabilities: Any) -> Ends:
    """Both ends, with a session."""
    client, agent = connected(*capabilities)
    _, line = client.request(acp.NewSession(cwd="/work", mcp_servers=()))
    asked = one(agent.receive(line))
    one(client.receive(agent.respond(asked.id, acp.NewSessionResult(session_id=SESSION))))
    return client, agent


def prompted() -> tuple[acp.ClientConnection, acp.AgentConnection, acp.Id]:
    """Both ends in the middle of a turn, and the id of the prompt."""
    client, agent = in_session()
    id_, line = client.request(acp.Prompt(session_id=SESSION, prompt=(TEXT,)))
    one(agent.receive(line))
    return client, agent, id_


def asked() -> tuple[acp.ClientConnection, acp.AgentConnection, acp.Id, acp.Id]:
    """Both ends with an open permission, and the ids of the prompt and of the permission."""
    client, agent, prompt = prompted()
    id_, line = agent.request(PARAMS["session/request_permission"])
    one(client.receive(line))
    return client, agent, prompt, id_


def line(**members: Any) -> bytes:
    """A line as a peer may write it."""
    return json.dumps({"jsonrpc": "2.0"} | members).encode() + b"\n"


def error_in(refused: Any) -> tuple[Any, int]:
    """The id and the code of a refusal's reply."""
    assert isinstance(refused, acp.CallRefused), refused
    reply = json.loads(refused.reply)
    assert reply["error"]["message"] == refused.reason
    return reply["id"], reply["error"]["code"]


# --- any value of a type ----------------------------------------------------------------------------------

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_json = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | _texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2),
    max_leaves=4,
)
_plain: dict[Any, st.SearchStrategy[Any]] = {
    str: _texts,
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    Any: _json,
    type(None): st.none(),
    msgspec.UnsetType: st.just(msgspec.UNSET),
}


@cache
def any_of(kind: Any, depth: int = 4) -> st.SearchStrategy[Any]:
    """Values of a type, with and without what is optional."""
    if hasattr(kind, "__metadata__"):
        return any_of(get_args(kind)[0], depth)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return st.one_of(*(any_of(option, depth) for option in get_args(kind)))
    if origin is tuple:
        inner = get_args(kind)[0]
        unique = (lambda option: option.option_id) if inner is acp.PermissionOption else None
        values = any_of(inner, depth)
        return st.lists(values, max_size=2, unique_by=unique).map(tuple) if depth > 0 else st.just(())
    if origin is dict:
        return st.dictionaries(_texts, any_of(get_args(kind)[1], depth), max_size=2)
    if kind is acp.OtherUpdate:
        data = st.dictionaries(_texts, _json, max_size=2)
        return st.builds(lambda name, more: acp.OtherUpdate(name, more | {"sessionUpdate": name}), _new, data)
    if isinstance(kind, type) and issubclass(kind, Wire):
        return _structs(kind, depth)
    return _plain[kind]


_new = _texts.map("_new{}".format)


def _structs(kind: type[Wire], depth: int) -> st.SearchStrategy[Any]:
    needed: dict[str, st.SearchStrategy[Any]] = {}
    more: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(kind):
        if field.required or depth > 0:
            (needed if field.required else more)[field.name] = any_of(field.type, depth - 1)
    if kind is acp.ResourceContents:
        needed["text"] = _texts
        more = {}
    if kind is acp.McpServer:
        needed |= {"command": _texts, "type": st.none()}
        more = {}
    return st.fixed_dictionaries(needed, optional=more).map(lambda given: kind(**given))
