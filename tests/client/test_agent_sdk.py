"""The SDK talks with real agent sessions of a real daemon; only the models need no network."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fairlead
from fairlead.client.calls import RequestError
from fairlead.client.following import Asking, FollowedTurn
from fairlead.client.sdk import Agent, AgentEvents, Host, TurnFailed
from fairlead.events import (
    AgentEvent,
    ApprovalSettled,
    ApprovalWanted,
    Failed,
    Message,
    Other,
    Prompted,
    Text,
    Thought,
    ToolResult,
    ToolRunning,
    TurnBegan,
    TurnEnded,
    Updated,
    agent_event,
)
from fairlead.wire import rpc
from tests.agent.playing import cassette, says
from tests.hosting import WAIT, Hosting

UNTIL_GO = "run: while [ ! -e go ]; do sleep 0.02; done"
"""A command that takes until a file is there."""


@pytest.fixture(scope="module")
def hosting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosting]:
    answers = [{"event": "thinking", "text": "hm"}, *says("a word")]
    tape = cassette(tmp_path_factory.mktemp("tape") / "cassette.jsonl", answers)
    hosting = Hosting({"FAIRLEAD_AGENT_CASSETTE": tape, "FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in hosting.environment.items():
            patch.setenv(name, value)
        yield hosting
        hosting.close()


@pytest.fixture
def host(hosting: Hosting) -> Iterator[Host]:
    with fairlead.connect() as host:
        yield host


@pytest.fixture
def agent(host: Host, tmp_path: Path) -> Agent:
    (tmp_path / "README.md").write_text("roses\ntulips\n")
    return host.agent(cwd=str(tmp_path))


def kinds(events: list[AgentEvent]) -> list[str]:
    """The types in their order, each once in a row, without what is only drawn."""
    names: list[str] = []
    for event in events:
        name = type(event).__name__
        if name not in (*names[-1:], "Other", "Updated"):
            names.append(name)
    return names


def until(events: AgentEvents, kind: type[AgentEvent]) -> Any:
    while not isinstance(event := events.next(timeout=WAIT), kind):
        pass
    return event


def rest(events: AgentEvents) -> list[AgentEvent]:
    """What comes until the turn is over."""
    told = []
    with events, contextlib.suppress(EOFError):
        while True:
            told.append(events.next(timeout=WAIT))
    return told


def test_a_prompt_gives_all_that_happens_until_its_turn_is_over(agent: Agent, tmp_path: Path) -> None:
    events = rest(agent.prompt("read README.md"))
    assert kinds(events) == [
        *("Prompted", "TurnBegan", "Text", "ToolStarted", "Message", "ToolRunning", "ToolResult"),
        *("Text", "Message", "TurnEnded"),
    ]
    (running,) = (event for event in events if isinstance(event, ToolRunning))
    assert running == ToolRunning(running.id, "read", {"path": "README.md"})
    (ended,) = (event for event in events if isinstance(event, ToolResult))
    assert (ended.id, ended.text, ended.is_error) == (running.id, "roses\ntulips\n", False)
    assert ended.details["path"] == str(tmp_path / "README.md")
    text = "".join(event.text for event in events if isinstance(event, Text))
    said = [event for event in events if isinstance(event, Message)]
    assert text == "".join(message.text for message in said)
    assert (said[-1].stop_reason, said[-1].usage["output_tokens"] > 0) == ("stop", True)
    assert events[-1] == TurnEnded("done")
    assert events[-1].topic == "session/turn-ended"
    assert events[-1].data["session_id"] == agent.id
    assert agent.last_text() == said[-1].text


def test_what_a_model_thinks_is_apart_from_its_answer_and_its_failure_is_told(agent: Agent) -> None:
    agent.set_model("offline", "replay")
    events = rest(agent.prompt("anything"))
    assert [event.text for event in events if isinstance(event, Thought)] == ["hm"]
    assert agent.last_text() == "a word"
    events = rest(agent.prompt("more"))
    (failed,) = (event for event in events if isinstance(event, Failed))
    assert "at its end" in failed.message
    assert events[-1] == TurnEnded("failed")
    with pytest.raises(TurnFailed, match="at its end") as error:
        agent.ask("even more")
    assert error.value.outcome == "failed"


def test_ask_gives_the_answer_and_calls_get_the_consent_that_was_said(agent: Agent, tmp_path: Path) -> None:
    assert "tulips" in agent.ask("read README.md")
    assert "denied" in agent.ask("run: echo one >> out")
    assert not (tmp_path / "out").exists()
    agent.ask("run: echo two >> out", approve=True)
    asked: list[ApprovalWanted] = []

    def decide(event: ApprovalWanted) -> str | bool:
        asked.append(event)
        return "always" if "three" in event.summary else False

    agent.ask("run: echo three >> out", approve=decide)
    agent.ask("run: echo three >> out", approve=decide)
    assert "denied" in agent.ask("run: echo four >> out", approve=decide)
    assert (tmp_path / "out").read_text() == "two\nthree\nthree\n"
    assert [event.summary for event in asked] == ["$ echo three >> out", "$ echo four >> out"]
    assert asked[0] == ApprovalWanted(
        asked[0].id, "bash", "$ echo three >> out", "it runs a command", "echo three >> out"
    )


def test_an_approval_is_answered_by_whoever_is_first(agent: Agent, tmp_path: Path) -> None:
    with fairlead.connect() as other, agent.prompt("write a.txt: hello") as turn:
        wanted = until(turn, ApprovalWanted)
    assert (wanted.tool, wanted.summary, wanted.preview.strip()) == ("write", "create a.txt", "hello")
    with fairlead.connect() as other, agent.events() as events:
        assert until(events, ApprovalWanted) == wanted
        other.agent(id=agent.id).approve(wanted.id)
        assert until(events, ApprovalSettled).allowed
        until(events, TurnEnded)
    with pytest.raises(RequestError, match="no dialog"):
        agent.deny(wanted.id)
    assert (tmp_path / "a.txt").read_text().strip() == "hello"
    assert "denied" in answered(agent, "write b.txt: hello", agent.deny)
    answered(agent, "run: echo x", lambda id: agent.approve(id, always=True))
    agent.ask("run: echo x", timeout=WAIT)


def answered(agent: Agent, prompt: str, answer: Any) -> str:
    for event in agent.prompt(prompt):
        if isinstance(event, ApprovalWanted):
            answer(event.id)
    return agent.last_text()


def test_a_turn_is_steered_and_followed_up(agent: Agent, tmp_path: Path) -> None:
    with agent.prompt(UNTIL_GO) as events:
        agent.approve(until(events, ApprovalWanted).id)
        until(events, ToolRunning)
        with pytest.raises(RequestError, match="streaming") as busy:
            agent.prompt("not now")
        assert busy.value.code == "request/session-not-idle"
        agent.steer("read README.md")
        agent.follow_up("list .")
        assert agent.state()["steering_messages"] == ["read README.md"]
        (tmp_path / "go").touch()
        assert until(events, Prompted) == Prompted("read README.md")
        assert until(events, ToolRunning).name == "read"
        assert until(events, TurnEnded) == TurnEnded("done")
        assert list(events) == []
        with pytest.raises(EOFError, match="the turn has ended"):
            events.next()
    with agent.events(since=events.cursor) as more:
        until(more, TurnEnded)
    assert "README.md" in agent.last_text()


def test_a_turn_is_interrupted_after_its_step_and_aborted_at_once(agent: Agent, tmp_path: Path) -> None:
    events = agent.prompt(f"{UNTIL_GO} then read README.md")
    agent.approve(until(events, ApprovalWanted).id)
    until(events, ToolRunning)
    agent.steer("dropped")
    assert agent.interrupt() == "dropped"
    (tmp_path / "go").touch()
    assert kinds(rest(events))[-3:] == ["ToolResult", "Message", "TurnEnded"]
    events = agent.prompt("run: echo never")
    until(events, ApprovalWanted)
    agent.abort()
    assert rest(events)[-1] == TurnEnded("aborted")
    with pytest.raises(TurnFailed, match="the turn was interrupted") as error:
        Asking(False).answer()
    assert error.value.outcome == "interrupted"


def test_an_answer_that_does_not_come_in_time_is_a_timeout_and_the_turn_goes_on(
    agent: Agent, tmp_path: Path
) -> None:
    with pytest.raises(TimeoutError):
        agent.ask(UNTIL_GO, approve=True, timeout=0.5)
    with agent.events() as events:
        assert isinstance(events.next(timeout=WAIT), Updated)
        (tmp_path / "go").touch()
        assert until(events, TurnEnded) == TurnEnded("done")
    with pytest.raises(ConnectionError, match="closed"):
        list(events)


def test_sessions_are_found_by_name_by_directory_and_by_id(host: Host, tmp_path: Path) -> None:
    garden = host.agent("garden", cwd=str(tmp_path))
    assert (garden.name, garden.created) == ("garden", True)
    again = host.agent("garden", cwd="/")
    assert (again.id, again.created, repr(again)) == (garden.id, False, "<Agent garden>")
    last = host.agent(cwd=str(tmp_path), continue_last=True)
    assert (last.id, last.name) == (garden.id, "garden")
    last.set_name("park")
    assert host.agent(id=garden.id).name == last.name == "park"
    new = host.agent(cwd=str(tmp_path))
    assert new.created
    assert new.id not in (garden.id, "")
    with pytest.raises(ValueError, match="name and continue_last can't be combined"):
        host.agent("garden", continue_last=True)
    with pytest.raises(RequestError) as error:
        host.agent(id="nobody")
    assert error.value.code == "request/not-found"


def test_a_session_is_removed_when_it_is_idle(host: Host, tmp_path: Path) -> None:
    weeds = host.agent("weeds", cwd=str(tmp_path))
    session = host.session("weeds")
    session.prompt(UNTIL_GO)
    with pytest.raises(RequestError, match=r"weeds (is working|asks)"):
        session.remove()
    weeds.abort()
    session.wait(timeout=WAIT)
    path = session.remove()
    assert path is not None
    assert Path(path).parts[-3] == "trash"
    assert UNTIL_GO in Path(path).read_text()
    with pytest.raises(RequestError, match="no session"):
        host.session("weeds")
    brief = host.start("brief", ["true"])
    brief.wait(timeout=WAIT)
    assert host.session("brief").remove() is None
    assert "brief" not in [each["name"] for each in host.sessions()]


def test_a_session_tells_about_itself_and_is_told_how_to_be(host: Host, agent: Agent) -> None:
    assert {"provider": "offline", "id": "guide"}.items() <= host.models()[0].items()
    agent.set_model("offline", "replay")
    agent.set_thinking("high")
    assert (agent.state()["model_id"], agent.state()["thinking_level"]) == ("replay", "high")
    for wrong in (lambda: agent.set_model("a", "b"), lambda: agent.set_thinking("hard"), agent.compact):
        with pytest.raises(RequestError):
            wrong()
    agent.set_model("offline", "guide")
    agent.ask("help")
    agent.ask("list .")
    said = agent.messages()
    assert [each["role"] for each in said] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "toolResult",
        "assistant",
    ]
    assert agent.messages(last=2) == said[-2:]
    assert agent.fork(said[0]["id"]).messages() == said[:2]  # with the answer
    assert agent.fork(said[3]["id"]).messages() == said[:5]  # with what its calls gave


def test_events_since_a_cursor_miss_nothing(host: Host, agent: Agent) -> None:
    told = [event for event in agent.prompt("read README.md") if "cursor" in event.data]
    with agent.events(since=agent.cursor) as events:
        again = []
        for event in events:
            if "cursor" in event.data:
                again.append(event)
            if isinstance(event, TurnEnded):
                break
    assert again == told
    middle = len(told) // 2
    with agent.events(since=told[middle].data["cursor"]) as events:
        while "cursor" not in (event := events.next(timeout=WAIT)).data:
            pass
    assert event == told[middle + 1]


def next_daemon(hosting: Hosting) -> None:
    """Kill the daemon, and wait for the one that the nursery starts: a client would start another."""
    hosting.kill_daemon()
    status = ("daemon", "status", "--json")
    hosting.until(lambda: '"running": true' in hosting.run(*status, check=False).stdout)


def test_a_turn_that_dies_with_its_daemon_ends_as_interrupted_and_the_session_goes_on(
    hosting: Hosting, host: Host, agent: Agent, tmp_path: Path
) -> None:
    other = host.agent(cwd=str(tmp_path))
    events = agent.prompt(UNTIL_GO)
    agent.approve(until(events, ApprovalWanted).id)
    until(events, ToolRunning)
    hosting.kill_daemon()
    told = rest(events)
    assert told[-1] == TurnEnded("interrupted")
    assert [event for event in told if isinstance(event, TurnBegan)] == []
    assert "Done" in other.ask("run: echo x", approve=True, timeout=WAIT)
    assert "tulips" in agent.ask("read README.md")


def test_consent_is_asked_for_again_by_the_next_daemon_and_the_turn_ends_well(
    hosting: Hosting, agent: Agent, tmp_path: Path
) -> None:
    asked: list[str] = []

    def decide(event: ApprovalWanted) -> bool:
        asked.append(event.id)
        if len(asked) == 1:
            next_daemon(hosting)
        return True

    assert "Done" in agent.ask("run: echo x >> out", approve=decide, timeout=WAIT)
    assert len(set(asked)) == 1
    assert (tmp_path / "out").read_text() == "x\n"


def test_two_clients_of_a_session_hear_the_same(agent: Agent) -> None:
    heard: list[AgentEvent] = []
    with agent.events() as events:

        def listen() -> None:
            for event in events:
                heard.append(event)
                if isinstance(event, TurnEnded):
                    break

        listener = threading.Thread(target=listen)
        listener.start()
        told = rest(agent.prompt("read README.md"))
        listener.join(WAIT)
    assert kinds(heard) == kinds(told)


def test_a_turn_is_over_with_its_own_end_whatever_comes_together() -> None:
    """A daemon that ends the turn before, answers, and runs turns of the same text in one piece of data."""
    turn = FollowedTurn("s", "hi")
    server = rpc.ServerConnection()
    sent = turn.begin()
    while not turn.accepted:
        reply = b""
        for request in server.receive(sent):
            assert isinstance(request, rpc.Request)
            if request.op == "subscribe":
                server.subscribe(request.get("topics"))
            if request.op == "prompt":
                reply += prompted(server, "p1") + ended(server, "aborted", "p1")
            reply += server.respond(request.id, rpc.fields(accepted=True, prompt_id="p2"))
            if request.op == "prompt":
                reply += prompted(server, "p2") + ended(server, "done", "p3", "other")
                reply += ended(server, "done", "p2") + ended(server, "failed", "p4")
        sent, events, _ = turn.receive(reply)
    assert events == [Prompted("hi"), TurnEnded("done")]
    assert [event.data["prompt_id"] for event in events] == ["p2", "p2"]
    assert turn.is_over


def test_a_turn_that_died_with_its_daemon_is_not_taken_for_the_one_that_follows_it() -> None:
    turn = FollowedTurn("s", "hi")
    for time in ("first", "second"):
        server = rpc.ServerConnection()
        sent = turn.begin()
        while sent:
            reply = b""
            for request in server.receive(sent):
                assert isinstance(request, rpc.Request)
                if request.op == "subscribe":
                    server.subscribe(request.get("topics"))
                more = {"prompt_id": "p1"} if request.op == "prompt" else {}
                reply += server.respond(request.id, rpc.fields(accepted=True, **more))
            sent, _, _ = turn.receive(reply)
        assert turn.accepted
        assert not turn.is_over
        if time == "second":  # another client was quicker, and said the same
            _, events, _ = turn.receive(prompted(server, "p2") + ended(server, "done", "p2"))
            assert events == [Prompted("hi"), TurnEnded("interrupted")]
    assert turn.is_over


def prompted(server: rpc.ServerConnection, id: str) -> bytes:
    data = rpc.fields(session_id="s", entry_id="e", text="hi", prompt_id=id)
    return server.event("session/prompted", data)


def ended(server: rpc.ServerConnection, outcome: str, prompt: str, session: str = "s") -> bytes:
    data = rpc.fields(
        session_id=session, turn=1, outcome=outcome, first_line=1, last_line=2, prompt_id=prompt
    )
    return server.event("session/turn-ended", data)


def test_the_same_text_asked_twice_has_two_answers_and_two_ids(agent: Agent) -> None:
    turns = [rest(agent.prompt("read README.md")) for _ in range(2)]
    ids = []
    for events in turns:
        found = [event for event in events if isinstance(event, Prompted | TurnBegan | TurnEnded)]
        assert kinds(list(found)) == ["Prompted", "TurnBegan", "TurnEnded"]
        (id,) = {event.prompt_id for event in found}
        ids.append(id)
    assert "" not in ids
    assert len(set(ids)) == 2
    assert agent.ask("read README.md") == agent.ask("read README.md")


def test_an_event_is_a_value() -> None:
    made = agent_event("assistant/delta", {"text": "a", "session_id": "s"})
    assert (made, made.topic, made.data["session_id"]) == (Text("a"), "assistant/delta", "s")
    assert pickle.loads(pickle.dumps(made)) == made
    assert {made, Text("a")} == {Text("a")}
    assert repr(made) == "Text(text='a')"
    make: Any = Text
    for wrong in (make, lambda: make("a", "b"), lambda: make("a", text="b"), lambda: make(name="a")):
        with pytest.raises(TypeError, match="a Text has text"):
            wrong()
    with pytest.raises(AttributeError, match="a Text can't be changed"):
        made.topic = "b"  # type: ignore[misc]
    other = agent_event("command-result", {"type": "text"})
    assert other == agent_event("command-result", {"type": "text"}) != Other()
    assert repr(other) == "Other('command-result')"
    odd = agent_event(
        "tool/executing", {"tool_id": "1", "tool_name": "x", "arguments": "{", "parsed_args": {"a": 1}}
    )
    assert odd == ToolRunning("1", "x", {"a": 1})
    assert len({odd, other, Message("", "", {}), Message("", "", {"a": 1})}) == 4


def test_talking_imports_neither_asyncio_nor_a_library() -> None:
    code = "import sys, json; import fairlead.ui.chat.chat; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"asyncio", "msgspec", "argparse", "readline"} & set(json.loads(done.stdout))
