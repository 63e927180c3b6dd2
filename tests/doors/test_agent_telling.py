"""What clients without increments are told of turns, and how often: real frames on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.messages import Usage
from fairlead.agent.models import Finished, ModelEvent, ModelRequest, TextDelta, ThinkingDelta
from fairlead.agent.session import AgentSession
from fairlead.client.calls import plain
from fairlead.doors.rpc import telling as agent_telling
from fairlead.doors.rpc.ops import jobs as agent_jobs
from fairlead.wire import rpc
from tests.agent.playing import Held, calls, replay, says
from tests.doors.test_agents import Client, served, serving


class Talkative:
    """A model that says so many words at once, after a thought."""

    def __init__(self, count: int) -> None:
        self._words = [f"w{number} " for number in range(count)]
        self.text = "".join(self._words)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield ThinkingDelta("h")
        yield ThinkingDelta("m")
        for word in self._words:
            yield TextDelta(word)
            await asyncio.sleep(0)
        yield Finished("stop", Usage())


def texts(client: Client, topic: str) -> list[str]:
    return [
        plain(frame.data)["text"]
        for frame in client.frames
        if isinstance(frame, rpc.Event) and frame.topic == topic
    ]


@served
async def test_text_is_told_as_far_as_it_is_and_not_for_each_word(tmp_path: Path) -> None:
    model = Talkative(2000)
    async with serving(tmp_path, model) as host:
        ours, client = await host.client(), await host.client(features=())
        loop = asyncio.get_running_loop()
        began = loop.time()
        await client.ask("prompt", message="hi")
        message = await client.until("assistant/message")
        allowed = 2 + (loop.time() - began) / agent_telling.DELTA_SECONDS
        await ours.until("assistant/message")
        told = texts(client, "assistant/delta")
        assert told[-1] == message["text"] == model.text
        assert all(later.startswith(one) for one, later in pairwise(told))
        assert len(told) <= allowed
        assert "".join(texts(ours, "assistant/delta")) == model.text
        assert len(texts(ours, "assistant/delta")) == 2000
        assert texts(client, "assistant/thinking-delta")[-1] == "hm"
        topics = client.topics()
        assert topics.index("assistant/thinking-delta") < topics.index("assistant/delta")


@served
async def test_who_joins_in_the_middle_is_told_all_of_the_answer_so_far(tmp_path: Path) -> None:
    model = Held()
    async with serving(tmp_path, model) as host:
        first = await host.client(features=())
        await first.ask("prompt", message="hi")
        await model.asked.wait()
        late = await host.client(features=())
        turn = await late.ask("query_eql", query="[:psi.turn/phase :psi.turn/text :psi.turn/is-streaming]")
        assert turn[0] == "runtime/query-failed"  # no attributes are registered here
        model.go_on.set()
        assert (await late.until("assistant/delta"))["text"] == "one two"
        assert (await late.until("assistant/message"))["text"] == "one two"


@served
async def test_a_turn_that_is_silent_for_long_gives_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_telling, "QUIET_SECONDS", 0.01)
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("done"))
    async with serving(tmp_path, model) as host:
        client = await host.client(features=())
        await client.ask("prompt", message="note milk")
        asked = await client.until("ui/dialog-requested")
        waiting = await client.until("tool/update")
        assert (waiting["tool_id"], waiting["result_text"]) == ("c1", "waiting for consent")
        await client.ask("resolve_dialog", dialog_id=asked["dialog_id"], result=True)
        await client.until("assistant/message", text="done")


@served
async def test_a_call_that_takes_long_is_shown_beside_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_jobs, "SHOWN_AFTER", 0.0)
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("done"))
    async with serving(tmp_path, model) as host:
        client = await host.client(features=())
        session = host.store.loaded[0]
        gate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        assert isinstance(session, AgentSession)
        note: Any = session._tools["note"]
        run = note.run

        async def held(*given: Any) -> Any:
            await gate
            return await run(*given)

        monkeypatch.setattr(note, "run", held)
        await client.ask("prompt", message="note milk")
        asked = await client.until("ui/dialog-requested")
        await client.ask("resolve_dialog", dialog_id=asked["dialog_id"], result=True)
        (widget,) = (await client.until("ui/widgets-updated"))["widgets"]
        assert (widget["extension_id"], widget["widget_id"]) == ("psi-background-jobs", "background-jobs")
        assert widget["content_lines"] == [
            {"text": "c1  [running]  note", "action": {"type": "command", "command": "/job c1"}}
        ]
        assert (await client.until("ui/status-updated"))["statuses"][0]["text"] == "c1  [running]  note"
        gate.set_result(None)
        assert (await client.until("ui/widgets-updated"))["widgets"] == []
        assert (await client.until("ui/status-updated"))["statuses"] == []


@served
async def test_a_turn_that_can_not_be_written_down_is_an_error_with_the_prompts_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Held()
    async with serving(tmp_path, model) as host:
        client = await host.client(features=())
        await client.ask("prompt", message="hi")
        id = client.frames[-1].id
        await model.asked.wait()
        host.store.loaded[0].journal.close()
        model.go_on.set()
        assert (await client.until("assistant/message"))["text"] == "[error] The turn failed."
        failed = await client.until("error")
        assert (failed["error_code"], failed["op"], failed["id"]) == ("runtime/failed", "prompt", id)
        await client.until("session/updated", phase="idle")


@served
async def test_an_interrupt_among_tools_ends_the_line_and_later_steering_waits(tmp_path: Path) -> None:
    # a cassette counts what was said by then, and the turn's end is a message too
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("no"), says("later"))
    async with serving(tmp_path, model) as host:
        client = await host.client(features=())
        await client.ask("prompt", message="note milk")
        asked = await client.until("ui/dialog-requested")
        assert (await client.ask("interrupt"))["accepted"] is True
        steered = await client.ask("prompt_while_streaming", message="more")
        assert steered == {"accepted": True, "behavior": "coerced-follow-up"}
        await client.ask("resolve_dialog", dialog_id=asked["dialog_id"], result=True)
        assert (await client.until("assistant/message"))["text"] == "[error] Interrupted"
        assert (await client.until("assistant/message"))["text"] == "later"
