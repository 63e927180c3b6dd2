"""Agent sessions as the control room talks to them: whose answer is whose."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from fairlead.agent.events import Event
from fairlead.agent.models import Model
from fairlead.agent.store import AgentStore, Place
from fairlead.agent.tools import Tool
from fairlead.control.protocols import SessionFault
from fairlead.doors import control_sessions
from fairlead.doors.control_sessions import ControlSessions
from fairlead.sessions.inbox import NotOpen
from fairlead.terminal.host import Host
from tests.agent.playing import WAIT, AskBeforeWriting, Endless, Models, Note, calls, replay, says


class NoTerminals:
    sessions: dict[str, Any] = {}  # noqa: RUF012 - it stays empty


class Asked:
    """A prompt, and what came back."""

    def __init__(self, sessions: ControlSessions, text: str, session: str | None = None) -> None:
        self.text = ""
        self.ends: list[str] = []
        self.over = asyncio.Event()
        self.session = sessions.prompt(session, text, self._on_text, self._on_done)

    def _on_text(self, text: str) -> None:
        assert not self.ends
        self.text += text

    def _on_done(self, fault: str) -> None:
        self.ends.append(fault)
        self.over.set()

    async def end(self) -> str:
        async with asyncio.timeout(WAIT):
            await self.over.wait()
        return self.ends[0]


class Agents:
    """A store with sessions that play a cassette."""

    def __init__(self, directory: Path, model: Model) -> None:
        self.told: list[Event] = []
        tools: dict[str, Tool] = {"note": Note(directory / "notes"), "endless": Endless()}
        place = Place(tools, AskBeforeWriting(), "be brief", {})
        self.store = AgentStore(str(directory / "sessions"), Models(model), lambda cwd: place, self._heard)
        self.sessions = ControlSessions(self.store, cast(Host, NoTerminals()), "main", str(directory))

    def _heard(self, event: Event) -> None:
        self.told.append(event)
        self.sessions.heard(event)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT):
            while not holds():
                await asyncio.sleep(0.005)


def run(tmp_path: Path, work: Callable[[Agents], Awaitable[None]], *answers: Any) -> None:
    async def timed() -> None:
        agents = Agents(tmp_path, replay(tmp_path, *answers))
        await work(agents)
        for session in agents.store.loaded:
            await session.idle()
        agents.store.close()

    asyncio.run(timed())


def test_prompts_to_a_busy_session_are_answered_in_turn(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        first, second = Asked(agents.sessions, "one"), Asked(agents.sessions, "two")
        assert (await first.end(), first.text) == ("", "the first")
        assert (await second.end(), second.text) == ("", "the second")
        assert first.session == second.session
        (session,) = agents.store.loaded
        assert session.name == "main"
        await session.idle()
        session.prompt("of an editor")
        await session.idle()
        assert (len(first.ends), len(second.ends), second.text) == (1, 1, "the second")

    run(tmp_path, work, says("the first"), says("the second"), says("not ours"))


def test_cancelling_ends_the_turn_and_what_waits_for_it(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        first, second = Asked(agents.sessions, "one"), Asked(agents.sessions, "two")
        await agents.until(lambda: bool(agents.store.loaded[0].jobs))
        agents.sessions.cancel(first.session)
        assert await first.end() == "the turn was aborted"
        assert await second.end() == "aborted before it was said"
        assert "agent main" in agents.sessions.status()

    run(tmp_path, work, calls(("c1", "endless", {})))


def test_what_goes_wrong_in_a_turn_is_said(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        asked = Asked(agents.sessions, "one")
        assert await asked.end() != ""

    run(tmp_path, work)


def test_a_question_of_an_agent_is_answered_once(tmp_path: Path) -> None:
    async def work(agents: Agents) -> None:
        inbox = agents.store.inbox
        asked = Asked(agents.sessions, "note it")
        await agents.until(lambda: bool(inbox.open()))
        (waiting,) = inbox.open()
        assert (waiting.session, waiting.title, waiting.reason) == (asked.session, "note", "it writes")
        assert (waiting.session_name, waiting.project) == ("main", str(tmp_path))
        with pytest.raises(NotOpen, match="no question 'unknown' waits"):
            await inbox.answer("unknown", "allow", "test")
        await inbox.answer(waiting.id, "allow", "test")
        with pytest.raises(NotOpen, match="was answered already: allowed by test at "):
            await inbox.answer(waiting.id, "deny", "other")
        assert await asked.end() == ""
        assert (tmp_path / "notes").read_text() == "x\n"

    run(tmp_path, work, calls(("c1", "note", {"text": "x"})), says("noted"))


def test_sessions_that_are_not_there_or_full_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_sessions, "MAX_ASKERS", 1)

    async def work(agents: Agents) -> None:
        with pytest.raises(SessionFault, match="no agent session 'nowhere'"):
            Asked(agents.sessions, "x", "nowhere")
        asked = Asked(agents.sessions, "one")
        with pytest.raises(SessionFault, match="1 prompts wait"):
            Asked(agents.sessions, "two")
        with pytest.raises(SessionFault):
            agents.sessions.cancel("nowhere")
        await agents.until(lambda: bool(agents.store.loaded[0].jobs))
        agents.sessions.cancel("main")
        assert await asked.end() == "the turn was aborted"

    run(tmp_path, work, calls(("c1", "endless", {})))
