"""The table of methods, line by line: who may send what, when, and what a breach costs each side."""

import json
from typing import Any

import msgspec
import pytest

from fairlead.wire import acp
from fairlead.wire.acp.base import Wire
from fairlead.wire.acp.limits import MAX_OPEN, MAX_SESSIONS
from fairlead.wire.acp.rules import Before
from fairlead.wire.faults import LocalError
from tests.wire.acp_examples import (
    PARAMS,
    RESULTS,
    SESSION,
    TEXT,
    Ends,
    asked,
    connected,
    error_in,
    in_session,
    line,
    one,
    prompted,
)

METHODS = [method for method in acp.METHODS.values() if method.sender]
REQUESTS = [method for method in METHODS if method.result]
NOTIFICATIONS = [method for method in METHODS if not method.result]
OFFERED = [method for method in METHODS if method.capability]
IN_SESSION = [method for method in METHODS if method.before in (Before.KNOWN, Before.OPEN, Before.IDLE)]


def name_of(method: Any) -> str:
    return str(getattr(method, "name", method))


def ends(ends: Ends, sender: acp.Side | None) -> tuple[Any, Any]:
    """The end that sends a method, and the one that receives it."""
    client, agent = ends
    return (client, agent) if sender is acp.Side.CLIENT else (agent, client)


def by_hand(method: acp.Method, params: Wire | None = None, id_: Any = 7) -> bytes:
    """The method as a peer sends it that doesn't care for rules."""
    data = json.loads(msgspec.json.encode(params or PARAMS[method.name]))
    return line(method=method.name, params=data, **({"id": id_} if method.result else {}))


def refused(end: Any, sent: bytes, method: acp.Method, code: int) -> None:
    """The end refuses what was sent, and nothing changes."""
    before = end.save()
    item = one(end.receive(sent))
    if method.result:
        assert error_in(item) == (7, code)
    else:
        assert isinstance(item, acp.Ignored)
    assert end.save() == before


def raises(end: Any, params: Wire, match: str) -> None:
    """The end can't send it, and nothing changes."""
    before, send = end.save(), end.request if acp.METHODS[name(params)].result else end.notify
    with pytest.raises(LocalError, match=match):
        send(params)
    assert end.save() == before


def name(params: Wire) -> str:
    return next(method.name for method in acp.METHODS.values() if method.params is type(params))


def test_the_table_has_an_example_of_each_method() -> None:
    assert {method.name for method in METHODS} == set(PARAMS)


@pytest.mark.parametrize("method", REQUESTS, ids=name_of)
def test_a_request_is_delivered_and_answered_once(method: acp.Method) -> None:
    fresh = (acp.ClientConnection(), acp.AgentConnection())
    sender, receiver = ends(fresh if method.name == "initialize" else in_session(), method.sender)
    params = PARAMS[method.name]
    id_, sent = sender.request(params)
    assert one(receiver.receive(sent)) == acp.Request(id_, method.name, params)
    assert receiver.theirs[id_].method == sender.ours[id_].method == method.name
    result = RESULTS.get(method.name, acp.Empty())
    answer = receiver.respond(id_, result)
    session = getattr(params, "session_id", None)
    assert one(sender.receive(answer)) == acp.CallAnswer(id_, method.name, session, result)
    assert not receiver.theirs
    assert not sender.ours
    assert isinstance(one(sender.receive(answer)), acp.Ignored)
    with pytest.raises(LocalError, match="no request of the peer has the id"):
        receiver.respond(id_, result)
    with pytest.raises(LocalError, match="no request of the peer has the id"):
        receiver.fail(id_, -32603, "again")


@pytest.mark.parametrize("method", REQUESTS, ids=name_of)
def test_a_request_that_fails_leaves_nothing_behind(method: acp.Method) -> None:
    fresh = (acp.ClientConnection(), acp.AgentConnection())
    both = fresh if method.name == "initialize" else in_session()
    sender, receiver = ends(both, method.sender)
    before = msgspec.structs.replace(sender.save(), next_id=sender.save().next_id + 1), receiver.save()
    id_, sent = sender.request(PARAMS[method.name])
    one(receiver.receive(sent))
    failure = one(sender.receive(receiver.fail(id_, -32000, "no", {"why": 1})))
    assert failure.error == acp.Error(-32000, "no", {"why": 1})
    assert (failure.id, failure.method) == (id_, method.name)
    assert (sender.save(), receiver.save()) == before


@pytest.mark.parametrize("method", NOTIFICATIONS, ids=name_of)
def test_a_notification_is_delivered(method: acp.Method) -> None:
    sender, receiver = ends(in_session(), method.sender)
    params = PARAMS[method.name]
    assert one(receiver.receive(sender.notify(params))) == acp.Notification(method.name, params)


# --- direction --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_only_one_side_may_send_a_method(method: acp.Method) -> None:
    sender, receiver = ends(in_session(), method.sender)
    raises(receiver, PARAMS[method.name], "is not for the")
    refused(sender, by_hand(method), method, -32601)


def test_an_unknown_request_is_refused_and_an_unknown_notification_ignored() -> None:
    for end in in_session():
        for unknown in ("session/fork", "_maker/thing", "", "session/update", "$/cancel_request"):
            assert error_in(one(end.receive(line(id="a", method=unknown, params={})))) == ("a", -32601)
        for unknown in ("session/renamed", "_maker/thing", "session/prompt", "fs/read_text_file"):
            assert isinstance(one(end.receive(line(method=unknown, params={}))), acp.Ignored)


# --- what must come before --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [each for each in METHODS if each.name != "initialize"], ids=name_of)
@pytest.mark.parametrize("is_asked", [False, True])
def test_initialize_must_be_answered_first(method: acp.Method, is_asked: bool) -> None:
    client, agent = acp.ClientConnection(), acp.AgentConnection()
    if is_asked:
        one(agent.receive(client.request(acp.Initialize(protocol_version=1))[1]))
    sender, receiver = ends((client, agent), method.sender)
    raises(sender, PARAMS[method.name], "initialize must be answered before")
    refused(receiver, by_hand(method), method, -32600)


@pytest.mark.parametrize("is_answered", [False, True])
def test_initialize_comes_only_once(is_answered: bool) -> None:
    client, agent = connected()
    if not is_answered:
        client, agent = acp.ClientConnection(), acp.AgentConnection()
        one(agent.receive(client.request(acp.Initialize(protocol_version=1))[1]))
    raises(client, PARAMS["initialize"], "only once")
    refused(agent, by_hand(acp.METHODS["initialize"]), acp.METHODS["initialize"], -32600)


def test_initialize_may_be_tried_again_after_it_failed() -> None:
    client, agent = acp.ClientConnection(), acp.AgentConnection()
    id_, sent = client.request(acp.Initialize(protocol_version=1))
    one(agent.receive(sent))
    one(client.receive(agent.fail(id_, -32603, "not yet")))
    id_, sent = client.request(acp.Initialize(protocol_version=1))
    one(agent.receive(sent))
    assert one(client.receive(agent.respond(id_, RESULTS["initialize"]))).result == RESULTS["initialize"]


@pytest.mark.parametrize("method", IN_SESSION, ids=name_of)
def test_a_session_must_exist(method: acp.Method) -> None:
    sender, receiver = ends(connected(), method.sender)
    raises(sender, PARAMS[method.name], "session")
    refused(receiver, by_hand(method), method, -32002)


@pytest.mark.parametrize("method", [each for each in IN_SESSION if each.name != "session/close"], ids=name_of)
@pytest.mark.parametrize("how", [acp.CloseSession(session_id=SESSION), acp.DeleteSession(session_id=SESSION)])
def test_a_session_that_was_closed_does_not_exist(method: acp.Method, how: Wire) -> None:
    client, agent = in_session()
    id_, sent = client.request(how)
    one(agent.receive(sent))
    one(client.receive(agent.respond(id_, acp.Empty())))
    assert client.sessions == agent.sessions == []
    sender, receiver = ends((client, agent), method.sender)
    raises(sender, PARAMS[method.name], "session")
    refused(receiver, by_hand(method), method, -32002)


@pytest.mark.parametrize("opening", [PARAMS["session/load"], PARAMS["session/resume"]], ids=name)
@pytest.mark.parametrize("method", IN_SESSION, ids=name_of)
def test_a_session_that_is_being_opened_takes_updates_but_no_prompts(
    opening: Wire, method: acp.Method
) -> None:
    client, agent = connected()
    one(agent.receive(client.request(opening)[1]))
    sender, receiver = ends((client, agent), method.sender)
    params = msgspec.structs.replace(PARAMS[method.name], session_id="old")
    if method.before is Before.KNOWN:
        sent = sender.request(params)[1] if method.result else sender.notify(params)
        assert one(receiver.receive(sent)).params == params
    else:
        raises(sender, params, "open")
        refused(receiver, by_hand(method, params), method, -32002)


def test_an_agent_may_report_on_a_new_session_before_it_has_named_it() -> None:
    client, agent = connected()
    id_, sent = client.request(PARAMS["session/new"])
    one(agent.receive(sent))
    with pytest.raises(LocalError, match="no session"):
        agent.update(SESSION, acp.CurrentMode(current_mode_id="m"))  # ours waits until the id is told
    early = by_hand(acp.METHODS["session/update"])
    assert isinstance(one(client.receive(early)), acp.Notification)
    one(client.receive(agent.respond(id_, acp.NewSessionResult(session_id="another"))))
    assert isinstance(one(client.receive(early)), acp.Ignored)


def test_a_session_has_one_prompt_at_a_time() -> None:
    client, agent, id_ = prompted()
    method = acp.METHODS["session/prompt"]
    raises(client, PARAMS["session/prompt"], "has an open prompt")
    refused(agent, by_hand(method), method, -32600)
    one(client.receive(agent.respond(id_, acp.PromptResult(stop_reason="end_turn"))))
    assert isinstance(one(agent.receive(client.request(PARAMS["session/prompt"])[1])), acp.Request)


def test_modes_and_options_may_be_set_in_the_middle_of_a_turn() -> None:
    client, agent, _ = prompted()
    for params in (PARAMS["session/set_mode"], PARAMS["session/set_config_option"]):
        assert isinstance(one(agent.receive(client.request(params)[1])), acp.Request)


# --- what was offered -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", OFFERED, ids=name_of)
def test_a_method_must_have_been_offered(method: acp.Method) -> None:
    sender, receiver = ends(in_session(acp.ClientCapabilities(), acp.AgentCapabilities()), method.sender)
    raises(sender, PARAMS[method.name], "was not offered")
    refused(receiver, by_hand(method), method, -32601)


@pytest.mark.parametrize(
    "block",
    [
        acp.Image(data="", mime_type="image/png"),
        acp.Audio(data="", mime_type="audio/wav"),
        acp.EmbeddedResource(resource=acp.ResourceContents(uri="file:///a", text="")),
    ],
    ids=lambda block: type(block).__name__,
)
def test_a_prompt_may_have_only_the_blocks_that_were_offered(block: Any) -> None:
    params = acp.Prompt(session_id=SESSION, prompt=(TEXT, block))
    client, agent = in_session()
    assert one(agent.receive(client.request(params)[1])).params == params
    client, agent = in_session(acp.ClientCapabilities(), acp.AgentCapabilities())
    raises(client, params, "did not offer to take")
    refused(agent, by_hand(acp.METHODS["session/prompt"], params), acp.METHODS["session/prompt"], -32602)
    link = acp.ResourceLink(uri="file:///a", name="a")
    _, sent = client.request(acp.Prompt(session_id=SESSION, prompt=(TEXT, link)))
    assert one(agent.receive(sent)).params.prompt == (TEXT, link)


@pytest.mark.parametrize(
    "params",
    [
        acp.NewSession(cwd="/", mcp_servers=(acp.McpServer(name="a", type="http", url="u", headers=()),)),
        acp.NewSession(cwd="/", mcp_servers=(acp.McpServer(name="a", type="sse", url="u", headers=()),)),
        acp.NewSession(cwd="/", mcp_servers=(), additional_directories=("/b",)),
    ],
    ids=lambda params: str(params)[:60],
)
def test_a_session_may_have_only_what_was_offered(params: Wire) -> None:
    client, agent = connected()
    assert one(agent.receive(client.request(params)[1])).params == params
    client, agent = connected(acp.ClientCapabilities(), acp.AgentCapabilities())
    raises(client, params, "did not offer")
    refused(agent, by_hand(acp.METHODS["session/new"], params), acp.METHODS["session/new"], -32602)
    local = acp.McpServer(name="a", command="x", args=(), env=())
    _, sent = client.request(acp.NewSession(cwd="/", mcp_servers=(local,)))
    assert one(agent.receive(sent)).params.mcp_servers == (local,)


# --- ids and parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [each for each in METHODS if each.name != "logout"], ids=name_of)
@pytest.mark.parametrize(
    "params", [5, [], "x", {"sessionId": 5}, {"sessionId": None, "protocolVersion": "x"}]
)
def test_wrong_parameters_are_refused(method: acp.Method, params: Any) -> None:
    both = (acp.ClientConnection(), acp.AgentConnection()) if method.name == "initialize" else in_session()
    _, receiver = ends(both, method.sender)
    if method.name == "session/list" and isinstance(params, dict):
        return  # all of its parameters are optional
    members = {"id": 7} if method.result else {}
    refused(receiver, line(method=method.name, params=params, **members), method, -32602)


@pytest.mark.parametrize("id_", [0, 7, "7", "a-b", -1])
def test_a_peers_id_is_open_only_once_and_is_not_settled_by_the_second(id_: acp.Id) -> None:
    client, _, _ = prompted()
    permission = by_hand(acp.METHODS["session/request_permission"], id_=id_)
    assert one(client.receive(permission)).id == id_
    assert error_in(one(client.receive(permission))) == (None, -32600)
    allowed = client.respond(id_, RESULTS["session/request_permission"])
    assert json.loads(allowed)["id"] == id_
    assert one(client.receive(permission)).id == id_  # free again


def test_a_number_and_a_string_are_different_ids() -> None:
    client, _, _ = prompted()
    for id_ in (7, "7"):
        assert one(client.receive(by_hand(acp.METHODS["session/request_permission"], id_=id_))).id == id_
    client.respond("7", RESULTS["session/request_permission"])
    assert list(client.theirs) == [7]


@pytest.mark.parametrize("id_", [99, "0", "1", -1, "x" * 500])
def test_an_answer_to_what_was_not_asked_is_ignored(id_: acp.Id) -> None:
    client, _, _ = prompted()
    before = client.save()
    item = one(client.receive(line(id=id_, result={"stopReason": "end_turn"})))
    assert isinstance(item, acp.Ignored)
    assert len(item.reason) < 200
    assert client.save() == before


def test_a_result_of_another_method_is_not_sent() -> None:
    client, _, _, permission = asked()
    with pytest.raises(LocalError, match="Empty is no result of session/request_permission"):
        client.respond(permission, acp.Empty())


def test_parameters_name_a_request_or_a_notification() -> None:
    client, agent, _ = prompted()
    with pytest.raises(LocalError, match="no parameters of a notification"):
        client.notify(PARAMS["session/new"])
    with pytest.raises(LocalError, match="no parameters of a request"):
        agent.request(PARAMS["session/update"])
    with pytest.raises(LocalError, match="no parameters of a request"):
        client.request(TEXT)


def test_only_an_option_that_was_offered_can_be_chosen() -> None:
    client, agent, _, permission = asked()
    other = acp.PermissionResult(outcome=acp.Selected(option_id="always"))
    with pytest.raises(LocalError, match="'always' was not offered"):
        client.respond(permission, other)
    failure = one(agent.receive(line(id=permission, result=json.loads(msgspec.json.encode(other)))))
    assert isinstance(failure, acp.CallFailure)
    assert "'always' was not offered" in failure.error.message


def test_a_new_session_must_be_new() -> None:
    client, agent = in_session()
    id_, sent = client.request(PARAMS["session/new"])
    one(agent.receive(sent))
    with pytest.raises(LocalError, match="is not new"):
        agent.respond(id_, acp.NewSessionResult(session_id=SESSION))
    failure = one(client.receive(line(id=id_, result={"sessionId": SESSION})))
    assert "is not new" in failure.error.message
    assert client.sessions == [SESSION]


def test_a_request_can_be_withdrawn_by_the_side_that_sent_it() -> None:
    client, agent, prompt, permission = asked()
    withdrawn = acp.CancelRequest(request_id=permission)
    assert one(client.receive(agent.notify(withdrawn))).params == withdrawn
    assert one(agent.receive(client.notify(acp.CancelRequest(request_id=prompt)))).params.request_id == prompt
    for end in (client, agent):
        with pytest.raises(LocalError, match="no request 99 is open"):
            end.notify(acp.CancelRequest(request_id=99))
        assert isinstance(
            one(end.receive(line(method="$/cancel_request", params={"requestId": 99}))), acp.Ignored
        )


# --- limits -----------------------------------------------------------------------------------------------


def test_the_number_of_open_requests_is_limited() -> None:
    client, agent, _ = prompted()
    method = acp.METHODS["session/request_permission"]
    for _ in range(MAX_OPEN):
        one(client.receive(agent.request(PARAMS[method.name])[1]))
    raises(agent, PARAMS[method.name], "requests are open already")
    agent.ours.popitem()  # a peer that doesn't count
    assert error_in(one(client.receive(by_hand(method, id_="a")))) == ("a", -32603)


def test_the_number_of_sessions_is_limited() -> None:
    client, agent = connected()
    for number in range(MAX_SESSIONS - 1):
        id_, sent = client.request(PARAMS["session/new"])
        one(agent.receive(sent))
        one(client.receive(agent.respond(id_, acp.NewSessionResult(session_id=str(number)))))
    one(agent.receive(client.request(PARAMS["session/new"])[1]))
    for params in (PARAMS["session/new"], PARAMS["session/load"], PARAMS["session/resume"]):
        raises(client, params, f"{MAX_SESSIONS} sessions already")
        refused(agent, by_hand(acp.METHODS[name(params)]), acp.METHODS[name(params)], -32603)
    again = acp.LoadSession(session_id="0", cwd="/", mcp_servers=())
    assert isinstance(one(agent.receive(client.request(again)[1])), acp.Request)


# --- versions ---------------------------------------------------------------------------------------------


def test_an_agent_of_another_version_ends_the_connection() -> None:
    client = acp.ClientConnection()
    id_, _ = client.request(acp.Initialize(protocol_version=acp.VERSION))
    broken = one(client.receive(line(id=id_, result={"protocolVersion": 2}) + line(method="more")))
    assert broken.reason == "the agent speaks version 2 of the protocol, not 1"
    assert client.closed
    assert client.receive(line(id=1, method="x")) == []
    with pytest.raises(LocalError, match="closed"):
        client.request(PARAMS["session/new"])
    with pytest.raises(LocalError, match="closed"):
        client.fail(1, -32603, "x")
    assert acp.ClientConnection(client.save()).closed
