"""Agent sessions over rpc-edn: real frames on a real socket, from a model that plays a cassette."""

from __future__ import annotations

import asyncio
import base64
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.events import ConversationEvent
from fairlead.agent.models import Model, ModelInfo
from fairlead.agent.store import AgentStore, Place
from fairlead.client.calls import plain
from fairlead.doors.rpc.handlers import Clients
from fairlead.doors.rpc.ops.agents import AgentOps
from fairlead.doors.rpc.server import RpcDoor
from fairlead.formats.edn import Keyword
from fairlead.system.settings import Settings
from fairlead.wire import rpc
from tests.agent.playing import WAIT, AskBeforeWriting, Held, Models, Note, calls, replay, says

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1" + bytes(40)).decode()
QUICK = ModelInfo("other", "quick", "Quick")


class Client:
    """A client that asks and remembers every frame, in order."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        features: Sequence[str] = (rpc.INCREMENTS,),
    ) -> None:
        self._reader, self._writer = reader, writer
        self._features = features
        self._wire = rpc.ClientConnection()
        self._waiting: list[Any] = []
        self.frames: list[Any] = []

    async def next(self) -> Any:
        """The next frame."""
        while not self._waiting:
            async with asyncio.timeout(WAIT):
                data = await self._reader.read(65_536)
            assert data, "the connection ended"
            self._waiting += self._wire.receive(data)
        frame = self._waiting.pop(0)
        self.frames.append(frame)
        return frame

    async def ask(self, op: str, **params: Any) -> Any:
        """The data of the answer; events on the way are kept. An error is given as its code and message."""
        line = (
            self._wire.handshake("test", "1", self._features)
            if op == "handshake"
            else self._wire.request(op, rpc.fields(**params))[1]
        )
        self._writer.write(line)
        while True:
            frame = await self.next()
            if isinstance(frame, rpc.Response) and frame.op == op:
                return plain(frame.data)
            if isinstance(frame, rpc.Error) and frame.op == op:
                return frame.code, frame.message

    async def until(self, topic: str, **wanted: Any) -> Any:
        """The data of the next event of a topic that has these values."""
        while True:
            frame = await self.next()
            if isinstance(frame, rpc.Event) and frame.topic == topic:
                data = plain(frame.data)
                if wanted.items() <= data.items():
                    return data

    def topics(self) -> list[str]:
        """The topics of all events so far, repetitions in a row once."""
        found = [frame.topic for frame in self.frames if isinstance(frame, rpc.Event)]
        return [topic for at, topic in enumerate(found) if at == 0 or found[at - 1] != topic]


class Serving:
    """A door with agent sessions, and its clients."""

    def __init__(self, directory: Path, model: Model) -> None:
        self.directory = directory
        self._runtime = tempfile.mkdtemp(prefix="fl-", dir="/tmp")
        settings = Settings({"FAIRLEAD_RUNTIME_DIR": self._runtime, "HOME": str(directory)})
        models = Models(model, QUICK)
        place = Place({"note": Note(directory / "notes")}, AskBeforeWriting(), "be brief", {})
        self.store = AgentStore(str(directory / "sessions"), models, lambda cwd: place, self._heard)
        self.clients = Clients()
        self._ops = AgentOps(self.store, models, self.clients)
        self.door = RpcDoor(settings, {}, self._ops, self.clients)
        self._path = settings.rpc_path
        self._writers: list[asyncio.StreamWriter] = []

    def _heard(self, event: ConversationEvent) -> None:
        self._ops.heard(event)

    async def client(
        self,
        *,
        subscribed: bool = True,
        topics: Iterable[str] | None = None,
        features: Sequence[str] = (rpc.INCREMENTS,),
    ) -> Client:
        reader, writer = await asyncio.open_unix_connection(self._path)
        self._writers.append(writer)
        client = Client(reader, writer, features)
        await client.ask("handshake")
        if subscribed:
            await client.ask("subscribe", topics=list(topics) if topics else None)
        return client

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self.door.close()
        self.store.close()
        os.rmdir(self._runtime)


@asynccontextmanager
async def serving(directory: Path, model: Model) -> AsyncIterator[Serving]:
    served = Serving(directory, model)
    await served.door.open()
    try:
        yield served
    finally:
        await served.close()


def served(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))  # type: ignore[arg-type]

    return run


@served
async def test_who_subscribes_is_shown_how_things_are_and_then_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path)) as host:
        client = await host.client()
        handshake, *events, response = client.frames
        assert plain(handshake.data)["server_info"]["protocol_version"] == "1.0"
        assert [event.topic for event in events] == ["session/updated", "footer/updated", "context/updated"]
        assert {event.id for event in events} == {response.id}
        state = plain(events[0].data)
        assert (state["phase"], state["model_provider"], state["is_streaming"]) == ("idle", "offline", False)
        (row,) = plain(events[2].data)["sessions"]
        assert row["id"] == plain(events[2].data)["active_session_id"] == state["session_id"]
        assert row["runtime_state"] == "waiting"


@served
async def test_a_prompt_is_accepted_then_streamed_and_the_session_is_idle_again(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path, says("hello there"))) as host:
        client = await host.client()
        seen = len(client.frames)
        assert await client.ask("prompt", message="hi") == {"accepted": True}
        message = await client.until("assistant/message")
        assert (message["role"], message["text"], message["stop_reason"]) == (
            "assistant",
            "hello there",
            "stop",
        )
        assert message["content"] == [{"type": "text", "text": "hello there"}]
        await client.until("session/updated", phase="idle")
        await client.until("footer/updated")
        del client.frames[:seen]
        topics = [topic for topic in client.topics() if topic.startswith("assistant")]
        assert topics == ["assistant/delta", "assistant/message"]
        said = (await client.ask("get_messages"))["messages"]
        assert [(each["role"], each["text"]) for each in said] == [
            ("user", "hi"),
            ("assistant", "hello there"),
        ]
        assert await client.ask("get_last_assistant_text") == {"text": "hello there"}
        stats = (await client.ask("get_session_stats"))["stats"]
        assert (stats["total_messages"], stats["usage"]["total_tokens"]) == (2, 15)


@served
async def test_a_tool_is_shown_from_its_start_to_its_result_after_consent(tmp_path: Path) -> None:
    model = replay(tmp_path, calls(("c1", "note", {"text": "milk"})), says("done"))
    async with serving(tmp_path, model) as host:
        client, other = await host.client(), await host.client(topics=["ui/dialog-requested"])
        assert await client.ask("resolve_dialog", dialog_id="x") == (
            "request/no-active-dialog",
            "no dialog is open",
        )
        await client.ask("prompt", message="note milk")
        asked = await other.until("ui/dialog-requested")
        whose = f"session {asked['session_id'][:8]} in {asked['project']}"
        assert (asked["title"], asked["message"]) == ("Allow note?", f"note milk\nit writes\n{whose}")
        assert await other.ask("resolve_dialog", dialog_id="x", result=True) == (
            "request/dialog-id-mismatch",
            "no dialog x is open",
        )
        assert await other.ask("resolve_dialog", dialog_id=asked["dialog_id"], result=True) == {
            "accepted": True
        }
        result = await client.until("tool/result")
        assert (result["tool_id"], result["tool_name"], result["result_text"]) == ("c1", "note", "noted milk")
        assert result["details"] == {"path": str(tmp_path / "notes")}
        await client.until("session/updated", phase="idle")
        shown = [topic for topic in client.topics() if topic.startswith("tool/")]
        assert shown == ["tool/start", "tool/executing", "tool/update", "tool/result"]
        assert {frame.topic for frame in other.frames if isinstance(frame, rpc.Event)} == {
            "ui/dialog-requested"
        }


@served
async def test_a_busy_session_says_so_and_takes_what_is_meant_for_later(tmp_path: Path) -> None:
    model = Held()
    async with serving(tmp_path, model) as host:
        client = await host.client()
        await client.ask("prompt", message="first")
        await model.asked.wait()
        code, _ = await client.ask("prompt", message="second")
        assert code == "request/session-not-idle"
        assert (await client.ask("compact"))[0] == "request/session-not-idle"
        steered = await client.ask("prompt_while_streaming", message="left", behavior="steer")
        assert steered == {"accepted": True, "behavior": "steer"}
        assert await client.ask("follow_up", message="later") == {"accepted": True}
        state = (await client.ask("get_state"))["state"]
        assert (state["steering_messages"], state["follow_up_messages"]) == (["left"], ["later"])
        assert await client.ask("interrupt") == {
            "accepted": True,
            "pending": True,
            "dropped_steering_text": "left",
        }
        assert await client.ask("abort") == {"accepted": True}
        model.go_on.set()  # for what was meant for later
        await client.until("session/updated", phase="idle")
        said = (await client.ask("get_messages"))["messages"]
        assert [each.get("stop_reason") or each["text"] for each in said] == [
            "first",
            "aborted",
            "later",
            "stop",
        ]


@served
async def test_two_clients_that_say_the_same_know_which_turn_is_theirs(tmp_path: Path) -> None:
    model = Held()
    async with serving(tmp_path, model) as host:
        features = (rpc.INCREMENTS, rpc.RECEIPTS)
        topics = ("session/prompted", "session/turn-began", "session/turn-ended")
        first, second = [await host.client(topics=topics, features=features) for _ in range(2)]
        began = await first.ask("prompt", message="go on")
        await model.asked.wait()
        queued = await second.ask("follow_up", message="go on")
        steered = await first.ask("prompt_while_streaming", message="go on", behavior="steer")
        ids = [each["prompt_id"] for each in (began, steered, queued)]
        assert len(set(ids)) == 3
        model.go_on.set()
        await second.until("session/turn-ended", prompt_id=ids[2])
        told = [frame for frame in second.frames if isinstance(frame, rpc.Event) and frame.topic in topics]
        assert [(frame.topic, plain(frame.data)["prompt_id"]) for frame in told] == [
            ("session/prompted", ids[0]),
            ("session/turn-began", ids[0]),
            ("session/prompted", ids[1]),
            ("session/turn-ended", ids[0]),
            ("session/prompted", ids[2]),
            ("session/turn-began", ids[2]),
            ("session/turn-ended", ids[2]),
        ]


@served
async def test_a_turn_that_fails_is_an_error_event_and_the_session_is_idle_again(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path)) as host:  # a cassette without an answer
        client = await host.client()
        assert await client.ask("prompt", message="hi") == {"accepted": True}
        failure = await client.until("error")
        assert failure["error_code"] == "runtime/failed"
        assert "is at its end" in failure["error_message"]
        await client.until("session/updated", phase="idle")


@served
async def test_sessions_are_made_switched_forked_and_named(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path, says("one"), says("two"))) as host:
        client = await host.client()
        first = (await client.ask("get_state"))["state"]["session_id"]
        await client.ask("prompt", message="hi")
        await client.until("session/updated", phase="idle")
        seen = len(client.frames)
        second = await client.ask("new_session", name="garden")
        del client.frames[:seen]
        topics = client.topics()
        assert topics[-5:] == [
            "session/resumed",
            "session/rehydrated",
            "session/updated",
            "footer/updated",
            "context/updated",
        ]
        assert (await client.ask("get_messages"))["messages"] == []
        assert (await client.ask("switch_session", session_id=first))["session_id"] == first
        back = await client.ask("switch_session", session_path=second["session_file"])
        assert back["session_id"] == second["session_id"]
        assert (await client.ask("switch_session", session_id="no"))[0] == "request/not-found"
        assert (await client.ask("switch_session", session_path="/no"))[0] == "request/not-found"
        assert (await client.ask("switch_session"))[0] == "request/invalid-params"
        prompts = (await client.ask("get_fork_messages", session_id=first))["messages"]
        assert [each["text"] for each in prompts] == ["hi"]
        fork = await client.ask("fork", session_id=first, entry_id=prompts[0]["entry_id"])
        assert (await client.ask("fork", entry_id="nope"))[0] == "request/invalid-params"
        assert await client.ask("set_session_name", name="fork") == {"session_name": "fork"}
        listed = await client.ask("list_sessions")
        assert listed["active_session_id"] == fork["session_id"]
        rows = {row["session_id"]: row for row in listed["sessions"]}
        assert rows[fork["session_id"]]["parent_session_id"] == first
        assert [row["display_name"] for row in listed["sessions"]].count("garden") == 1


@served
async def test_models_and_thinking_levels_can_be_chosen(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path)) as host:
        client = await host.client()
        models = (await client.ask("get_available_models"))["models"]
        assert [(row["provider"], row["id"]) for row in models] == [("offline", "replay"), ("other", "quick")]
        chosen = {"model": {"provider": "other", "id": "quick"}}
        assert await client.ask("set_model", provider="other", model_id="quick") == chosen
        assert (await client.ask("set_model", provider="no", model_id="such"))[0] == "request/unknown-model"
        assert (await client.ask("cycle_model", direction="prev"))["model"]["id"] == "replay"
        assert await client.ask("set_thinking_level", level="low") == {"thinking_level": "low"}
        assert await client.ask("set_thinking_level", level=0) == {"thinking_level": "off"}
        code, message = await client.ask("set_thinking_level", level="x")
        assert (code, message.partition(".")[0]) == ("request/invalid-params", "Unknown thinking level: x")
        assert await client.ask("cycle_thinking_level") == {"thinking_level": "minimal"}
        assert await client.ask("set_auto_retry", enabled=False) == {"enabled": False}
        assert await client.ask("set_auto_compaction", enabled=True) == {"enabled": True}


@served
async def test_two_clients_on_one_session_see_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path, says("hello there"))) as host:
        one, two = await host.client(), await host.client()
        await one.ask("prompt", message="hi")
        first = await one.until("assistant/message")
        assert await two.until("assistant/message") == first


@pytest.mark.parametrize("images", ["x", [1], [{"data": "a"}]])
@served
async def test_pictures_must_be_pictures(tmp_path: Path, images: Any) -> None:
    async with serving(tmp_path, replay(tmp_path)) as host:
        client = await host.client()
        code, message = await client.ask("prompt", message="look", images=images)
        assert code == "request/invalid-params"
        assert message.startswith("invalid request parameter :images: a vector of at most 16 maps")


@served
async def test_a_picture_is_journaled_with_its_prompt(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path, says("a dot"))) as host:
        client = await host.client()
        picture = rpc.fields(data=PNG, mime_type="image/png")
        assert await client.ask("prompt", message="look", images=[picture]) == {"accepted": True}
        await client.until("assistant/message")
        journal = (await client.ask("get_state"))["state"]["session_file"]
        assert PNG in Path(journal).read_text()


@served
async def test_slash_commands_answer_with_an_event_and_then_the_response(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path, says("one"))) as host:
        client = await host.client()

        async def command(text: str) -> tuple[str, str]:
            seen = len(client.frames)
            assert await client.ask("command", text=text) == {"accepted": True, "handled": True}
            results = [
                plain(frame.data)
                for frame in client.frames[seen:]
                if isinstance(frame, rpc.Event) and frame.topic == "command-result"
            ]
            assert len(results) == 1
            return results[0]["type"], results[0]["message"]

        assert await command("/dance") == ("text", "/dance is not a command here; /help lists them")
        assert await command("hello") == ("text", "hello is not a command here; /help lists them")
        kind, text = await command("/help")
        assert kind == "text"
        assert "/model [provider id]" in text
        assert await command("/model other quick") == ("text", "✓ Model set to other quick")
        assert await command("/model other/quick") == ("text", "✓ Model set to other quick")
        assert await command("/model nobody") == ("text", "Usage: /model OR /model <provider> <model-id>")
        assert await command("/model no such") == ("text", "Unknown model: no such")
        assert await command("/thinking high") == (
            "text",
            "✓ Thinking level set to high (quick does not reason: off)",
        )
        assert await command("/thinking x") == (
            "text",
            "Unknown thinking level: x. Allowed: off, minimal, low, medium, high, xhigh",
        )
        assert await command("/history") == (
            "text",
            f"── Message history {'─' * 20}\n  (empty)\n{'─' * 39}",
        )
        first = (await client.ask("get_state"))["state"]["session_id"]
        assert await command("/new") == ("new_session", "[New session started]")
        assert (await client.ask("get_state"))["state"]["session_id"] != first
        assert (await command(f"/tree {first}"))[0] == "session_switch"
        assert (await client.ask("get_state"))["state"]["session_id"] == first
        assert await command("/tree nowhere") == (
            "text",
            "there is no session 'nowhere'; /tree alone lists them",
        )
        assert await command("/resume /no/such") == (
            "text",
            "there is no session '/no/such'; /resume alone lists those of this directory",
        )
        assert (await command("/compact"))[0] == "error"
        assert "Model   : quick (thinking off)" in (await command("/status"))[1]
        for _ in range(17):  # so that two ids have the same first digit
            await client.ask("new_session")
        ids = [row["session_id"] for row in (await client.ask("list_sessions"))["sessions"]]
        digit = next(each[0] for each in ids if sum(other[0] == each[0] for other in ids) > 1)
        for text in (f"/tree {digit}", f"/tree name {digit} x"):
            kind, said = await command(text)
            assert kind == "text"
            assert said.endswith(f" sessions begin with {digit}; give more of the id.")


@served
async def test_a_command_without_its_choice_asks_the_editor_for_it(tmp_path: Path) -> None:
    async with serving(tmp_path, replay(tmp_path)) as host:
        client = await host.client()
        for text, name, chosen in (
            ("/model", "select-model", rpc.fields(provider="other", id="quick")),
            ("/thinking", "select-thinking-level", "low"),
        ):
            await client.ask("command", text=text)
            asked = next(
                frame.data
                for frame in reversed(client.frames)
                if isinstance(frame, rpc.Event) and frame.topic == "ui/frontend-action-requested"
            )
            action = asked[Keyword("ui/action")]
            assert action[Keyword("ui/action-name")] is Keyword(name)
            assert action[Keyword("ui/action-kind")] is Keyword("select")
            assert chosen in [item[Keyword("ui.item/value")] for item in action[Keyword("ui/items")]]
            answer = {"request_id": asked[Keyword("request-id")], "action_name": name}
            assert await client.ask("frontend_action_result", status="submitted", value=chosen, **answer) == {
                "accepted": True,
                "request_id": answer["request_id"],
            }
        state = (await client.ask("get_state"))["state"]
        assert (state["model_id"], state["thinking_level"]) == ("quick", "off")
        await client.ask("command", text="/tree")
        tree_action = await _last_action(client)
        assert await client.ask(
            "frontend_action_result", request_id=tree_action, action_name="select-session", status="cancelled"
        ) == {"accepted": True}


async def _last_action(client: Client) -> str:
    frame = next(
        frame
        for frame in reversed(client.frames)
        if isinstance(frame, rpc.Event) and frame.topic == "ui/frontend-action-requested"
    )
    id: str = frame.data[Keyword("request-id")]
    return id
