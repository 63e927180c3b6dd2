"""Both ends of a connection with each other: a turn, its states, cancelling, going on after a kill."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.wire import acp
from fairlead.wire.acp.base import Wire
from fairlead.wire.faults import LocalError
from tests.wire.acp_examples import (
    OPTIONS,
    PARAMS,
    RESULTS,
    SESSION,
    TEXT,
    asked,
    connected,
    error_in,
    in_session,
    line,
    one,
    prompted,
)
from tests.wire.cutting import bytewise, cuts, pieces

RUNNING, IDLE, REQUIRES_ACTION = acp.State.RUNNING, acp.State.IDLE, acp.State.REQUIRES_ACTION
CANCELLED = acp.PermissionResult(outcome=acp.Cancelled())
ALLOWED = acp.PermissionResult(outcome=acp.Selected(option_id="yes"))
DONE = acp.PromptResult(stop_reason="end_turn")


def states(*ends: Any) -> set[acp.State]:
    return {end.state(SESSION) for end in ends}


def restored(end: Any) -> Any:
    """The connection that another process makes from what was saved."""
    saved = msgspec.json.decode(msgspec.json.encode(end.save()), type=acp.Saved)
    assert saved == end.save()
    return type(end)(saved)


# --- a turn -----------------------------------------------------------------------------------------------


def test_a_whole_dialogue() -> None:
    client, agent = acp.ClientConnection(), acp.AgentConnection()
    log: list[bytes] = []

    def call(sender: Any, receiver: Any, params: Wire, result: Wire) -> acp.CallAnswer:
        _, sent = sender.request(params)
        request = one(receiver.receive(sent))
        assert request.params == params
        answer = receiver.respond(request.id, result)
        log.extend((sent, answer))
        return one(sender.receive(answer))  # type: ignore[no-any-return]

    info = acp.Implementation(name="fairlead", version="1")
    call(client, agent, acp.Initialize(protocol_version=1, client_info=info), RESULTS["initialize"])
    call(client, agent, PARAMS["authenticate"], acp.Empty())
    modes = acp.Modes(current_mode_id="ask", available_modes=(acp.Mode(id="ask", name="Ask"),))
    call(client, agent, PARAMS["session/new"], acp.NewSessionResult(session_id=SESSION, modes=modes))
    assert client.sessions == agent.sessions == [SESSION]
    assert states(client, agent) == {IDLE}

    prompt, sent = client.request(acp.Prompt(session_id=SESSION, prompt=(TEXT,)))
    one(agent.receive(sent))
    assert states(client, agent) == {RUNNING}
    updates = (
        acp.AgentThoughtChunk(content=acp.Text(text="hm")),
        acp.ToolCall(tool_call_id="t1", title="rm x", kind="execute", status="pending"),
        acp.ToolCallUpdate(tool_call_id="t1", status="in_progress"),
    )
    received = client.receive(b"".join(agent.update(SESSION, update) for update in updates))
    assert [item.params.update for item in received if isinstance(item, acp.Notification)] == [*updates]

    permission, sent = agent.request(PARAMS["session/request_permission"])
    assert one(client.receive(sent)).params.options == OPTIONS
    assert states(client, agent) == {REQUIRES_ACTION}
    assert client.permissions(SESSION) == agent.permissions(SESSION) == [permission]
    assert one(agent.receive(client.respond(permission, ALLOWED))).result == ALLOWED
    assert states(client, agent) == {RUNNING}

    usage = acp.Usage(total_tokens=3, input_tokens=1, output_tokens=2)
    result = acp.PromptResult(stop_reason="end_turn", usage=usage)
    assert one(client.receive(agent.respond(prompt, result))) == acp.CallAnswer(
        prompt, "session/prompt", SESSION, result
    )
    assert states(client, agent) == {IDLE}
    call(client, agent, PARAMS["session/close"], acp.Empty())
    assert client.sessions == agent.sessions == []
    assert [sent.count(b"\n") for sent in log] == [1] * len(log)


def test_a_question_about_no_session_changes_no_state() -> None:
    client, agent, _ = prompted()
    one(client.receive(agent.request(acp.Elicit(mode="url", message="Log in", request_id=3))[1]))
    assert states(client, agent) == {RUNNING}
    one(client.receive(agent.request(PARAMS["elicitation/create"])[1]))
    assert states(client, agent) == {REQUIRES_ACTION}


def test_sessions_are_independent() -> None:
    client, agent, _, _ = asked()
    id_, sent = client.request(PARAMS["session/new"])
    one(agent.receive(sent))
    one(client.receive(agent.respond(id_, acp.NewSessionResult(session_id="s2"))))
    one(agent.receive(client.request(acp.Prompt(session_id="s2", prompt=(TEXT,)))[1]))
    assert (client.state(SESSION), client.state("s2")) == (REQUIRES_ACTION, RUNNING)
    assert client.permissions("s2") == []


def test_a_loaded_session_is_replayed_before_it_is_open() -> None:
    client, agent = connected()
    id_, sent = client.request(PARAMS["session/load"])
    one(agent.receive(sent))
    said = acp.UserMessageChunk(content=TEXT)
    assert one(client.receive(agent.update("old", said))).params.update == said
    assert client.sessions == agent.sessions == []
    one(client.receive(agent.respond(id_, acp.OpenSessionResult())))
    assert client.sessions == agent.sessions == ["old"]


def test_a_session_that_is_open_stays_open_if_it_cant_be_loaded_again() -> None:
    client, agent = in_session()
    id_, sent = client.request(acp.LoadSession(session_id=SESSION, cwd="/", mcp_servers=()))
    one(agent.receive(sent))
    one(client.receive(agent.fail(id_, acp.ErrorCode.INTERNAL, "no")))
    assert client.sessions == agent.sessions == [SESSION]


# --- cancelling -------------------------------------------------------------------------------------------


def test_cancelling_answers_the_open_permissions() -> None:
    client, agent, prompt, first = asked()
    second, sent = agent.request(PARAMS["session/request_permission"])
    one(client.receive(sent))
    cancel, *answers = agent.receive(client.cancel(SESSION))
    assert cancel == acp.Notification("session/cancel", acp.Cancel(session_id=SESSION))
    assert answers == [
        acp.CallAnswer(id_, "session/request_permission", SESSION, CANCELLED) for id_ in (first, second)
    ]
    assert states(client, agent) == {RUNNING}
    with pytest.raises(LocalError):
        client.respond(first, ALLOWED)
    one(client.receive(agent.respond(prompt, acp.PromptResult(stop_reason="cancelled"))))
    assert states(client, agent) == {IDLE}


def test_a_permission_that_comes_after_a_cancel_is_cancelled_at_once() -> None:
    client, agent, prompt = prompted()
    client.cancel(SESSION)
    late, sent = agent.request(PARAMS["session/request_permission"])
    refused = one(client.receive(sent))
    assert refused.reason == "the turn was cancelled"
    assert one(agent.receive(refused.reply)) == acp.CallAnswer(
        late, "session/request_permission", SESSION, CANCELLED
    )
    assert isinstance(
        one(client.receive(agent.update(SESSION, acp.AgentMessageChunk(content=TEXT)))), acp.Notification
    )
    one(client.receive(agent.respond(prompt, acp.PromptResult(stop_reason="cancelled"))))
    one(agent.receive(client.request(PARAMS["session/prompt"])[1]))
    one(client.receive(agent.request(PARAMS["session/request_permission"])[1]))
    assert states(client, agent) == {REQUIRES_ACTION}


def test_a_cancel_without_a_turn_has_no_effect_on_the_next() -> None:
    client, agent = in_session()
    one(agent.receive(client.cancel(SESSION)))
    one(agent.receive(client.request(PARAMS["session/prompt"])[1]))
    item = one(client.receive(agent.request(PARAMS["session/request_permission"])[1]))
    assert isinstance(item, acp.Request)


def test_a_closed_session_forgets_that_it_was_cancelled() -> None:
    client, agent, _ = prompted()
    one(agent.receive(client.cancel(SESSION)))
    id_, sent = client.request(PARAMS["session/close"])
    one(agent.receive(sent))
    one(client.receive(agent.respond(id_, acp.Empty())))
    assert client.save().cancelled == agent.save().cancelled == ()


# --- going on after a kill --------------------------------------------------------------------------------


def test_another_connection_goes_on_with_an_open_permission() -> None:
    client, agent, prompt, permission = asked()
    client, agent = restored(client), restored(agent)
    assert states(client, agent) == {REQUIRES_ACTION}
    assert client.permissions(SESSION) == [permission]
    with pytest.raises(LocalError, match="was not offered"):
        client.respond(permission, acp.PermissionResult(outcome=acp.Selected(option_id="always")))
    assert one(agent.receive(client.respond(permission, ALLOWED))).result == ALLOWED
    client, agent = restored(client), restored(agent)
    assert one(client.receive(agent.respond(prompt, DONE))).result == DONE
    next_id, sent = client.request(PARAMS["session/prompt"])
    assert next_id > prompt
    assert isinstance(one(agent.receive(sent)), acp.Request)


def test_a_restored_connection_knows_what_was_offered_and_cancelled() -> None:
    client, agent = in_session(acp.ClientCapabilities(), acp.AgentCapabilities())
    one(agent.receive(client.request(PARAMS["session/prompt"])[1]))
    client.cancel(SESSION)
    client = restored(client)
    assert client.agent == acp.InitializeResult(protocol_version=1)
    request = line(id="a", method="fs/read_text_file", params={"sessionId": SESSION, "path": "/etc/passwd"})
    assert error_in(one(client.receive(request))) == ("a", -32601)
    permission = agent.request(PARAMS["session/request_permission"])[1]
    assert isinstance(one(client.receive(permission)), acp.CallRefused)


def test_what_is_saved_is_small() -> None:
    client, _, _, _ = asked()
    assert len(msgspec.json.encode(client.save())) < 1000


MOVES = st.lists(st.integers(0, 8), max_size=30)


def moved(client: Any, agent: Any, number: int) -> bytes:
    """One step of a dialogue, as far as it is possible now; what the agent sends is returned."""
    try:
        match number:
            case 0:
                agent.receive(client.request(PARAMS["session/prompt"])[1])
            case 1:
                agent.receive(client.cancel(SESSION))
            case 2:
                agent.receive(b"".join(client.respond(id_, ALLOWED) for id_ in client.permissions(SESSION)))
            case 3:
                agent.receive(client.request(PARAMS["session/set_mode"])[1])
            case 4:
                return agent.update(SESSION, acp.AgentMessageChunk(content=TEXT))  # type: ignore[no-any-return]
            case 5:
                return agent.request(PARAMS["session/request_permission"])[1]  # type: ignore[no-any-return]
            case 6:
                return b"".join(agent.respond(id_, DONE) for id_ in opened(agent, "session/prompt"))
            case 7:
                return b"".join(agent.fail(id_, -32603, "no") for id_ in opened(agent, "session/set_mode"))
            case _:
                return b"log\n" + line(id="x", method="what") + line(id=999, result={})
    except LocalError:
        pass
    return b""


def opened(agent: Any, method: str) -> list[acp.Id]:
    return [each.id for each in agent.theirs.values() if each.method == method]


@given(MOVES, cuts)
def test_saving_at_any_moment_and_any_cut_of_the_bytes_change_nothing(
    moves: list[int], places: list[int]
) -> None:
    client, agent = in_session()
    killed, _ = in_session()
    slow, _ = in_session()
    mirrors = [client, killed, slow]
    for number in moves:
        twins = [restored(agent) for _ in mirrors]
        sent = [moved(each, twin, number) for each, twin in zip(mirrors, twins)]
        assert len(set(sent)) == 1
        items = [
            client.receive(sent[0]),
            killed.receive(sent[0]),
            [item for piece in pieces(sent[0], places) for item in slow.receive(piece)],
        ]
        assert items[0] == items[1] == items[2]
        for item in items[0]:
            if isinstance(item, acp.CallRefused):
                twins[0].receive(item.reply)
        agent = twins[0]
        killed = restored(killed)
        mirrors = [client, killed, slow]
        assert client.save() == killed.save() == slow.save()
        assert client.state(SESSION) == agent.state(SESSION)
        assert client.ours.keys() == agent.theirs.keys()
        assert client.theirs.keys() == agent.ours.keys()


def test_bytes_one_at_a_time_are_the_same_as_at_once() -> None:
    client, agent, prompt = prompted()
    slow = restored(client)
    stream = b"".join(
        (
            agent.update(SESSION, acp.AgentMessageChunk(content=acp.Text(text="é\U0001f600\u2028"))),
            b"noise\r\n\n",
            agent.request(PARAMS["session/request_permission"])[1],
            line(id="a", method="terminal/create", params={}),
            agent.respond(prompt, DONE),
            agent.update(SESSION, acp.OtherUpdate("new", {"sessionUpdate": "new"}))[:-5],
        )
    )
    items = client.receive(stream)
    assert [item for byte in bytewise(stream) for item in slow.receive(byte)] == items
    assert len(items) == 5
    assert slow.save() == client.save()


def test_a_connection_shows_where_it_is() -> None:
    assert repr(acp.ClientConnection()) == (
        "<ClientConnection new, 0 sessions, 0 requests of ours and 0 of the peer are open>"
    )
    client, agent, _, _ = asked()
    assert "ready, 1 sessions, 1 requests of ours and 1 of the peer" in repr(client)
    agent.close()
    assert "AgentConnection closed" in repr(agent)
    assert agent.receive(client.cancel(SESSION)) == []
    with pytest.raises(LocalError, match="the connection is closed"):
        agent.update(SESSION, acp.CurrentMode(current_mode_id="m"))
