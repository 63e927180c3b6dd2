"""The protocol's own Python SDK as a peer over real pipes: as an agent for our client, and the other way."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.wire import acp
from fairlead.wire.acp.base import Wire
from tests import peers
from tests.wire.acp_examples import ALL_OF_AN_AGENT

pytestmark = pytest.mark.peers
WAIT = 60.0
"""Seconds until a peer that hangs is killed."""


class Peer:
    """A program that speaks the protocol, and our end of its pipes."""

    def __init__(self, script: str, end: acp.ClientConnection | acp.AgentConnection) -> None:
        self.end = end
        python = peers.python_with("acp")
        self.process = subprocess.Popen(
            [python, str(Path(__file__).parent / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin
        assert self.process.stdout
        self._in, self._out = self.process.stdin, self.process.stdout
        self._limit = threading.Timer(WAIT, self.process.kill)
        self._limit.start()
        self._items: list[acp.Item] = []

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        self.process.kill()
        self.process.communicate()

    def send(self, line: bytes) -> None:
        self._in.write(line)
        self._in.flush()

    def items(self) -> Iterator[Any]:
        """What the peer sends, until its end."""
        while True:
            while self._items:
                yield self._items.pop(0)
            data = os.read(self._out.fileno(), 65_536)
            if not data:
                return
            self._items += self.end.receive(data)

    def ended(self) -> str:
        """Close the pipes and wait; what the peer wrote to stderr."""
        _, said = self.process.communicate(timeout=WAIT)
        assert self.process.returncode == 0, said.decode()
        return said.decode()

    def answer(self, params: Wire) -> Any:
        """Our request's answer; what comes before it is ignored."""
        assert isinstance(self.end, acp.ClientConnection)
        id_, line = self.end.request(params)
        self.send(line)
        for item in self.items():
            if isinstance(item, acp.CallAnswer | acp.CallFailure) and item.id == id_:
                return item
        raise AssertionError("the peer has ended")


# --- the SDK as an agent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["yes", "no", "cancel"])
def test_an_agent_of_the_sdk_and_our_client(choice: str) -> None:
    client = acp.ClientConnection()
    with Peer("acp_sdk_agent.py", client) as peer:
        agent = peer.answer(acp.Initialize(protocol_version=1)).result
        assert agent.agent_info == acp.Implementation(name="sdk", version="0")
        assert agent.agent_capabilities.session_capabilities.list == {}
        assert [method.id for method in agent.auth_methods] == ["key"]
        assert peer.answer(acp.Authenticate(method_id="other")).error.code == -32602
        assert peer.answer(acp.Authenticate(method_id="key")).result == acp.Empty()
        server = acp.McpServer(
            name="files", command="mcp", args=("-v",), env=(acp.NamedValue(name="A", value="b"),)
        )
        session = peer.answer(acp.NewSession(cwd="/work", mcp_servers=(server,))).result
        assert session.modes.current_mode_id == "ask"
        assert session.config_options[0].options[0].value == "big"
        assert peer.answer(acp.ListSessions()).result.sessions[0].cwd == "/work"
        assert peer.answer(acp.SetMode(session_id="one", mode_id="plan")).result == acp.Empty()
        assert peer.answer(acp.SetConfigOption(session_id="one", config_id="model", value="big")).result
        assert peer.answer(acp.LoadSession(session_id="old", cwd="/work", mcp_servers=())).result
        assert client.sessions == ["one", "old"]

        image = acp.Image(data="aGk=", mime_type="image/png")
        prompt, line = client.request(acp.Prompt(session_id="one", prompt=(acp.Text(text="hello"), image)))
        peer.send(line)
        updates: list[Any] = []
        states = [client.state("one")]
        for item in peer.items():
            match item:
                case acp.Notification(params=acp.SessionUpdate(update=update)):
                    updates.append(update)
                case acp.Request(id=id_, method="session/request_permission"):
                    states.append(client.state("one"))
                    chosen = acp.PermissionResult(
                        outcome=acp.Selected(option_id=choice if choice == "no" else "yes")
                    )
                    peer.send(client.cancel("one") if choice == "cancel" else client.respond(id_, chosen))
                case acp.CallRefused(reply=reply):
                    peer.send(reply)
                case acp.CallAnswer(id=id_):
                    assert id_ == prompt
                    reasons = {"yes": "end_turn", "no": "refusal", "cancel": "cancelled"}
                    assert item.result.stop_reason == reasons[choice]
                    break
                case _:
                    raise AssertionError(item)
        states.append(client.state("one"))
        assert states == [acp.State.RUNNING, acp.State.REQUIRES_ACTION, acp.State.IDLE]
        assert updates == [
            acp.AgentThoughtChunk(content=acp.Text(text="hm")),
            acp.AgentMessageChunk(content=acp.Text(text="you said hello")),
            acp.Plan(entries=(acp.PlanEntry(content="edit a", priority="medium", status="pending"),)),
            acp.ToolCall(
                tool_call_id="t1",
                title="Edit a",
                kind="edit",
                status="pending",
                content=(acp.Diff(path="/project/a", new_text="new", old_text="old"),),
                locations=(acp.Location(path="/project/a", line=3),),
                raw_input={"path": "a"},
            ),
            acp.ToolCallUpdate(tool_call_id="t1", status="in_progress"),
            acp.AgentMessageChunk(content=acp.Text(text="-32601")),  # files were not offered
        ]
        peer.ended()


# --- the SDK as a client ----------------------------------------------------------------------------------

UPDATES = (
    acp.AgentThoughtChunk(content=acp.Text(text="hm")),
    acp.AgentMessageChunk(content=acp.ResourceLink(uri="file:///a", name="a"), message_id="m1"),
    acp.ToolCall(
        tool_call_id="t1",
        title="Edit a",
        kind="edit",
        content=(
            acp.Diff(path="/a", new_text="b"),
            acp.ContentShown(content=acp.Image(data="aGk=", mime_type="image/png")),
            acp.TerminalShown(terminal_id="1"),
        ),
        locations=(acp.Location(path="/a"),),
        raw_input={"a": [1]},
    ),
    acp.ToolCallUpdate(tool_call_id="t1", status="completed", raw_output="done"),
    acp.Plan(entries=(acp.PlanEntry(content="a", priority="high", status="completed"),)),
    acp.AvailableCommands(
        available_commands=(
            acp.AvailableCommand(name="x", description="y", input=acp.CommandInput(hint="z")),
        )
    ),
    acp.CurrentMode(current_mode_id="plan"),
    acp.ConfigOptionsChanged(
        config_options=(
            acp.ConfigOption(
                id="model",
                name="Model",
                type="select",
                current_value="b",
                options=(acp.ConfigChoice(value="b", name="B"),),
            ),
            acp.ConfigOption(id="think", name="Think", type="boolean", current_value=True),
        )
    ),
    acp.SessionInfoChanged(title="A title"),
    acp.UsageChanged(used=5, size=10, cost=acp.Cost(amount=0.5, currency="EUR")),
)


def test_a_client_of_the_sdk_and_our_agent() -> None:
    agent = acp.AgentConnection()
    permission = acp.RequestPermission(
        session_id="one",
        tool_call=acp.ToolCallDetails(tool_call_id="t1", title="Edit a"),
        options=(acp.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),),
    )
    prompts: list[acp.Id] = []
    results: dict[str, Wire] = {
        "initialize": acp.InitializeResult(
            protocol_version=1,
            agent_capabilities=ALL_OF_AN_AGENT,
            agent_info=acp.Implementation(name="fairlead", version="1"),
        ),
        "session/new": acp.NewSessionResult(
            session_id="one",
            modes=acp.Modes(current_mode_id="ask", available_modes=(acp.Mode(id="ask", name="Ask"),)),
        ),
        "session/list": acp.ListSessionsResult(sessions=(acp.SessionInfo(session_id="one", cwd="/work"),)),
        "session/set_config_option": acp.SetConfigOptionResult(config_options=()),
        "session/load": acp.OpenSessionResult(),
    }
    with Peer("acp_sdk_client.py", agent) as peer:
        for item in peer.items():
            match item:
                case acp.Request(id=id_, method="session/prompt"):
                    prompts.append(id_)
                    if len(prompts) == 1:
                        assert item.params.prompt[1] == acp.Image(data="aGk=", mime_type="image/png")
                        for update in UPDATES:
                            peer.send(agent.update("one", update))
                        peer.send(agent.request(permission)[1])
                case acp.Request(id=id_, method=method):
                    if method == "session/load":
                        peer.send(agent.update("old", acp.UserMessageChunk(content=acp.Text(text="before"))))
                    peer.send(agent.respond(id_, results.get(method, acp.Empty())))
                case acp.CallAnswer(result=acp.PermissionResult(outcome=outcome)):
                    assert outcome == acp.Selected(option_id="yes")
                    peer.send(agent.respond(prompts[0], acp.PromptResult(stop_reason="end_turn")))
                case acp.Notification(method="session/cancel"):
                    peer.send(agent.respond(prompts[1], acp.PromptResult(stop_reason="cancelled")))
                case acp.CallRefused(reply=reply):
                    peer.send(reply)
                case _:
                    raise AssertionError(item)
        seen = [json.loads(line) for line in peer.ended().splitlines()]
    names = [name for name, _ in seen if name not in ("update", "permission")]
    assert names == [
        "initialize", "authenticate", "new", "list", "mode", "option", "prompt", "cancelled", "load", "close",
        "refused",
    ]  # fmt: skip
    values = dict(seen)
    assert values["new"]["modes"]["currentModeId"] == "ask"
    assert values["list"]["sessions"][0]["cwd"] == "/work"
    assert (values["prompt"]["stopReason"], values["cancelled"]["stopReason"]) == ("end_turn", "cancelled")
    assert values["permission"]["title"] == "Edit a"
    assert values["refused"] == acp.ErrorCode.NOT_FOUND
    updates = [value for name, value in seen if name == "update"]
    assert [update["sessionUpdate"] for update in updates] == [
        *(update.__struct_config__.tag for update in UPDATES),
        "user_message_chunk",
    ]
    assert updates[2]["content"][0] == {"type": "diff", "path": "/a", "newText": "b"}
    assert updates[2]["rawInput"] == {"a": [1]}
