"""Agent sessions as a kind: they are prompted, interrupted and waited for like any other session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead.agent import events
from fairlead.agent.kind import AgentKind
from fairlead.agent.live import posted
from fairlead.agent.models import Model
from fairlead.agent.recall.transcripts import Transcripts
from fairlead.agent.store import AgentStore, Place
from fairlead.sessions.directory import NameTaken, NoSession, NotSupported
from fairlead.sessions.feed import Feed, FeedEvent, PromptEnded, PromptStarted, SaidPiece
from fairlead.sessions.session import Making, Prompt, Typing
from tests.agent.playing import WAIT, AllowAll, Endless, Held, Models, calls, playing, replay, says


async def check_free(name: str) -> None:
    """A session of another kind is called `build`."""
    if name == "build":
        raise NameTaken("the name 'build' is taken")


class Room:
    """The kind with its store, and what it posted to the feed."""

    def __init__(self, directory: Path, model: Model) -> None:
        self.feed = Feed()
        self.events: list[FeedEvent] = []
        place = Place({"endless": Endless()}, AllowAll(), "be brief", {})
        self.store = AgentStore(
            str(directory / "sessions"),
            Models(model),
            lambda cwd: place,
            self._told,
            check_free=check_free,
        )
        self.transcripts = Transcripts(str(directory / "transcripts.db"), str(directory / "sessions"))
        self.kind = AgentKind(self.store, self.transcripts, self.feed)
        self.feed.listen(self.events.append)

    def _told(self, event: events.ConversationEvent) -> None:
        for each in posted(self.store, event):
            self.feed.post(each)

    def receipts(self) -> list[FeedEvent]:
        return [event for event in self.events if isinstance(event, PromptStarted | PromptEnded)]

    async def close(self) -> None:
        self.store.close()
        await self.transcripts.aclose()


@playing
async def test_an_agent_with_a_name_is_listed_by_the_next_daemon_though_nobody_has_asked_it_anything(
    tmp_path: Path,
) -> None:
    room = Room(tmp_path, replay(tmp_path))
    id = await room.kind.make("basil", str(tmp_path))
    assert [each.name for each in await room.kind.list(brief=True)] == ["basil"]
    await room.close()
    again = Room(tmp_path, replay(tmp_path))
    assert [(each.id, each.name) for each in await again.kind.list(brief=True)] == [(id, "basil")]
    await again.close()


@playing
async def test_two_prompts_of_the_same_text_have_their_own_answers(tmp_path: Path) -> None:
    room = Room(tmp_path, replay(tmp_path, says("one"), says("two")))
    id = await room.kind.make("garden", str(tmp_path))
    for prompt in ("a", "b"):
        await room.kind.prompt(id, Prompt(prompt, "again"))
    async with asyncio.timeout(WAIT):
        await room.kind.settled(id)
    answers: dict[str, str] = {}
    current = ""
    for event in room.events:
        match event:
            case PromptStarted(prompt=current):
                answers[current] = ""
            case SaidPiece(text=text):
                answers[current] += text
    assert answers == {"a": "one", "b": "two"}
    assert [event.prompt for event in room.events if isinstance(event, PromptEnded)] == ["a", "b"]
    assert not any(isinstance(event, SaidPiece) for event in room.feed.since(0))
    await room.close()


@playing
async def test_of_many_long_prompts_that_are_dropped_the_ends_are_given_back(tmp_path: Path) -> None:
    room = Room(tmp_path, replay(tmp_path, calls(("c1", "endless", {}))))
    id = await room.kind.make("garden", str(tmp_path))
    for number in range(50):
        await room.kind.prompt(id, Prompt(f"p{number}", "first" + "x" * 100_000 + "last"))
    session = room.store.find(id)
    async with asyncio.timeout(WAIT):
        while not session.jobs:
            await asyncio.sleep(0.005)
    dropped = (await room.kind.stop(id))["dropped"]
    async with asyncio.timeout(WAIT):
        await room.kind.settled(id)
    assert len(dropped) == 49
    assert all(each.startswith("first") and each.endswith("last") and len(each) < 5000 for each in dropped)
    await room.close()


@playing
async def test_an_interrupt_ends_what_runs_or_one_prompt_and_stop_ends_all(tmp_path: Path) -> None:
    endless = calls(("c1", "endless", {}))
    room = Room(tmp_path, replay(tmp_path, endless, endless, endless))
    id = await room.kind.make("garden", str(tmp_path))
    for prompt in "abcd":
        await room.kind.prompt(id, Prompt(prompt, "wait"))
    session = room.store.find(id)

    async def runs(prompt: str) -> None:
        async with asyncio.timeout(WAIT):
            while PromptStarted(id, prompt) not in room.events or not session.jobs:
                await asyncio.sleep(0.005)

    await runs("a")
    await room.kind.interrupt(id)
    await runs("b")
    await room.kind.interrupt(id, "c")
    assert await room.kind.stop(id) == {"stopped": True, "dropped": ["wait"], "agent_ended": False}
    async with asyncio.timeout(WAIT):
        await room.kind.settled(id)
    assert room.receipts() == [
        PromptStarted(id, "a"),
        PromptEnded(id, "a", "aborted"),
        PromptStarted(id, "b"),
        PromptEnded(id, "c", "dropped", "aborted before it was sent"),
        PromptEnded(id, "d", "dropped", "stopped before it was sent"),
        PromptEnded(id, "b", "aborted"),
    ]
    await room.close()


@playing
async def test_a_name_is_enough_to_make_one_unless_it_is_taken(tmp_path: Path) -> None:
    room = Room(tmp_path, Held())
    assert isinstance(room.kind, Making)
    assert not isinstance(room.kind, Typing)
    id = await room.kind.make("garden", str(tmp_path))
    (found,) = await room.kind.find("garden", every=True)
    assert (found.id, found.project) == (id, str(tmp_path))
    with pytest.raises(NotSupported, match="the name 'build' is taken"):
        await room.kind.make("build", str(tmp_path))
    assert len(room.store.loaded) == 1
    with pytest.raises(NoSession):
        await room.kind.prompt("nobody", Prompt("a", "x"))
    await room.close()
