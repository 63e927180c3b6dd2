"""Sessions as the control room talks to them: whose answer is whose."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.events import ConversationEvent
from fairlead.agent.kind import AgentKind
from fairlead.agent.live import posted
from fairlead.agent.models import Model
from fairlead.agent.recall.transcripts import Transcripts
from fairlead.agent.store import AgentStore, Place
from fairlead.agent.tools import Tool
from fairlead.control import sessions as control_sessions
from fairlead.control.protocols import SessionFault
from fairlead.control.sessions import ControlSessions
from fairlead.sessions.directory import Directory
from fairlead.sessions.feed import Feed, PromptEnded
from fairlead.sessions.inbox import NotOpen
from fairlead.sessions.session import new_prompt
from fairlead.sessions.state import States
from tests.agent.playing import WAIT, AskBeforeWriting, Endless, Models, Note, calls, replay, says
from tests.sessions.echo_kind import EchoKind

ENDLESS = calls(("c1", "endless", {}))
STOPPED = says("what is said in the place of an aborted answer")


class Asked:
    """A prompt, and what came back."""

    def __init__(self, text: str) -> None:
        self.prompt = new_prompt(text)
        self.answer = ""
        self.session = ""
        self.ends: list[str] = []
        self.over = asyncio.Event()

    def began(self, session: str) -> None:
        self.session = session

    def text(self, text: str) -> None:
        assert self.session
        assert not self.ends
        self.answer += text

    def end(self, fault: str = "") -> None:
        self.ends.append(fault)
        self.over.set()

    async def ended(self) -> tuple[str, str]:
        """The answer, and what went wrong."""
        async with asyncio.timeout(WAIT):
            await self.over.wait()
        return self.answer, self.ends[0]


class Agents:
    """The sessions of a store that play a cassette, and the caves."""

    def __init__(self, directory: Path, model: Model) -> None:
        self.feed = Feed()
        tools: dict[str, Tool] = {"note": Note(directory / "notes"), "endless": Endless()}
        place = Place(tools, AskBeforeWriting(), "be brief", {})
        self.store = AgentStore(str(directory / "sessions"), Models(model), lambda cwd: place, self._heard)
        self.transcripts = Transcripts(str(directory / "transcripts.db"), str(directory / "sessions"))
        inbox = self.store.inbox
        sessions = Directory(inbox, lambda id: None, States(self.feed, "", lambda id: False))
        self.caves = EchoKind(self.feed, inbox, sessions, {"cave": str(directory)})
        sessions.add(AgentKind(self.store, self.transcripts, self.feed))
        sessions.add(self.caves)
        self.sessions = ControlSessions(sessions, inbox, "main", str(directory))
        self.feed.listen(self.sessions.heard)

    def _heard(self, event: ConversationEvent) -> None:
        for each in posted(self.store, event):
            self.feed.post(each)

    async def ask(self, text: str, session: str | None = None) -> Asked:
        asked = Asked(text)
        await self.sessions.prompt(session, asked.prompt, asked)
        return asked

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT):
            while not holds():
                await asyncio.sleep(0.005)


def run(tmp_path: Path, work: Callable[[Agents], Awaitable[None]], *answers: Any) -> None:
    async def timed() -> None:
        agents = Agents(tmp_path, replay(tmp_path, *answers))
        await agents.caves.open()
        await work(agents)
        await agents.caves.close()
        for session in agents.store.loaded:
            await session.idle()
        agents.store.close()
        await agents.transcripts.aclose()

    asyncio.run(timed())


def test_prompts_to_a_busy_session_are_answered_in_turn(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        first, second = await asyncio.gather(agents.ask("one"), agents.ask("two"))
        assert await first.ended() == ("the first", "")
        assert await second.ended() == ("the second", "")
        assert first.session == second.session
        (session,) = agents.store.loaded
        assert session.name == "main"
        await session.idle()
        session.prompt("of an editor")
        await session.idle()
        assert (len(first.ends), len(second.ends), second.answer) == (1, 1, "the second")

    run(tmp_path, work, says("the first"), says("the second"), says("not ours"))


def test_the_same_text_of_two_clients_and_an_editor_has_three_answers(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        first = await agents.ask("go on")
        (session,) = agents.store.loaded
        session.follow_up("go on")  # of an editor
        second = await agents.ask("go on")
        assert await first.ended() == ("one", "")
        assert await second.ended() == ("three", "")

    run(tmp_path, work, says("one"), says("two"), says("three"))


def test_cancelling_ends_what_was_asked_for_in_its_order_and_nothing_else(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        first, second, other = [await agents.ask(text) for text in ("one", "two", "three")]
        await agents.until(lambda: bool(agents.store.loaded[0].jobs))
        for asked in (first, second):
            await agents.sessions.cancel(asked.session, asked.prompt.id)
        assert (await first.ended())[1] == "the turn was aborted"
        assert (await second.ended())[1] == "aborted before it was sent"
        ended = [event.prompt for event in agents.feed.since(0) if isinstance(event, PromptEnded)]
        assert ended[:2] == [first.prompt.id, second.prompt.id]
        assert await other.ended() == ("the third", "")
        assert "agent main" in await agents.sessions.status()

    run(tmp_path, work, ENDLESS, STOPPED, says("the third"))


def test_an_abort_by_an_editor_leaves_what_waits(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        first, second = [await agents.ask(text) for text in ("one", "two")]
        await agents.until(lambda: bool(agents.store.loaded[0].jobs))
        agents.store.loaded[0].abort()
        assert (await first.ended())[1] == "the turn was aborted"
        assert await second.ended() == ("the second", "")

    run(tmp_path, work, ENDLESS, STOPPED, says("the second"))


def test_what_goes_wrong_in_a_turn_is_said(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        assert "cassette" in (await (await agents.ask("one")).ended())[1]

    run(tmp_path, work)


def test_a_question_of_an_agent_is_answered_once(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        inbox = agents.store.inbox
        asked = await agents.ask("note it")
        await agents.until(lambda: bool(inbox.open()))
        (waiting,) = inbox.open()
        assert (waiting.session, waiting.title, waiting.reason) == (asked.session, "note", "it writes")
        assert (waiting.session_name, waiting.project) == ("main", str(tmp_path))
        assert await agents.sessions.status() == "agent main: asks, 1 approval pending\necho cave: idle"
        with pytest.raises(NotOpen, match="no question 'unknown' is pending"):
            await inbox.answer("unknown", "allow", "test")
        await inbox.answer(waiting.id, "allow", "test")
        with pytest.raises(NotOpen, match="was answered already: allowed by test at "):
            await inbox.answer(waiting.id, "deny", "other")
        assert await asked.ended() == ("noted", "")
        assert (tmp_path / "notes").read_text() == "x\n"

    run(tmp_path, work, calls(("c1", "note", {"text": "x"})), says("noted"))


def test_sessions_that_are_not_there_or_full_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_sessions, "MAX_ASKERS", 1)

    async def work(agents: Agents) -> None:
        with pytest.raises(SessionFault, match="no agent session 'nowhere'; `fairlead sessions` lists them"):
            await agents.ask("x", "nowhere")
        with pytest.raises(SessionFault, match="no agent session 'cav'; did you mean cave"):
            await agents.ask("x", "cav")
        asked = await agents.ask("one")
        with pytest.raises(SessionFault, match="1 prompts wait"):
            await agents.ask("two")
        with pytest.raises(SessionFault, match="no session 'nowhere'"):
            await agents.sessions.cancel("nowhere", asked.prompt.id)
        await agents.until(lambda: bool(agents.store.loaded[0].jobs))
        await agents.sessions.cancel("main", asked.prompt.id)
        assert (await asked.ended())[1] == "the turn was aborted"

    run(tmp_path, work, ENDLESS)


def test_a_session_of_any_kind_answers_and_says_what_it_can_t_do(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        asked = await agents.ask("hello", "cave")
        assert await asked.ended() == ("you said hello", "")
        assert asked.session == (await agents.caves.list(brief=True))[0].id
        with pytest.raises(SessionFault, match="typing is not supported by echo sessions"):
            await agents.sessions.type("cave", "hello")
        assert agents.sessions.name_of(asked.session) == "cave"

    run(tmp_path, work)
