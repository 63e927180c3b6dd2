"""The SDK for asyncio talks with agent sessions as the other one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import fairlead.aio
from fairlead.client.aio import Agent, AgentEvents, Host, RequestError
from fairlead.client.following import TurnFailed
from fairlead.events import AgentEvent, ApprovalWanted, Prompted, ToolRunning, TurnEnded, Updated
from tests.hosting import WAIT, Hosting

UNTIL_GO = "run: while [ ! -e go ]; do sleep 0.02; done"
"""A command that takes until a file is there."""


@pytest.fixture(scope="module")
def hosting() -> Iterator[Hosting]:
    hosting = Hosting({"FAIRLEAD_DAEMON_RESTART_PAUSE": "0"})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in hosting.environment.items():
            patch.setenv(name, value)
        yield hosting
        hosting.close()


@asynccontextmanager
async def talking(directory: Path) -> AsyncIterator[tuple[Host, Agent]]:
    (directory / "README.md").write_text("roses\ntulips\n")
    async with asyncio.timeout(2 * WAIT), fairlead.aio.connect() as host:
        yield host, await host.agent(cwd=str(directory))


async def until(events: AgentEvents, kind: type[AgentEvent]) -> Any:
    while not isinstance(event := await events.next(timeout=WAIT), kind):
        pass
    return event


def test_a_prompt_gives_all_that_happens_and_ask_the_answer(hosting: Hosting, tmp_path: Path) -> None:
    async def main() -> None:
        async with talking(tmp_path) as (host, agent):
            events = [event async for event in agent.prompt("read README.md")]
            assert events[0] == Prompted("read README.md") or isinstance(events[0], Updated)
            assert events[-1] == TurnEnded("done")
            assert "tulips" in await agent.last_text()
            assert "denied" in await agent.ask("run: echo x > out")

            async def decide(wanted: ApprovalWanted) -> bool:
                return wanted.summary == "$ echo y > out"

            await asyncio.gather(
                agent.ask("run: echo y > out", approve=decide),
                (await host.agent(cwd="/")).ask("help", approve=lambda wanted: True),
            )
            assert (tmp_path / "out").read_text() == "y\n"
            with pytest.raises(TimeoutError):
                await agent.ask(UNTIL_GO, approve=True, timeout=0.3)
            async with agent.events() as after:
                (tmp_path / "go").touch()
                await until(after, TurnEnded)
            with pytest.raises(ConnectionError, match="closed"):
                await until(after, TurnEnded)

    asyncio.run(main())


def test_a_turn_is_steered_interrupted_and_aborted(hosting: Hosting, tmp_path: Path) -> None:
    async def main() -> None:
        async with talking(tmp_path) as (_, agent):
            async with agent.prompt(UNTIL_GO) as turn:
                await agent.approve((await until(turn, ApprovalWanted)).id, always=True)
                await until(turn, ToolRunning)
                with pytest.raises(RequestError, match="streaming"):
                    _ = await agent.prompt("not now")
                await agent.steer("dropped")
                assert await agent.interrupt() == "dropped"
                (tmp_path / "go").touch()
                assert await until(turn, TurnEnded) == TurnEnded("interrupted")
                with pytest.raises(EOFError):
                    await turn.next()
            asked = asyncio.create_task(agent.ask("run: echo never", approve=lambda wanted: None))
            async with agent.events() as events:
                while not isinstance(event := await events.next(timeout=WAIT), ApprovalWanted):
                    pass
                await agent.deny(event.id)
                with suppress(TurnFailed):
                    await asked
            turn = await agent.prompt("run: echo never")
            await until(turn, ApprovalWanted)
            await agent.abort()
            assert await until(turn, TurnEnded) == TurnEnded("aborted")
            await turn.close()

    asyncio.run(main())


def next_daemon(hosting: Hosting) -> None:
    """Kill the daemon, and wait for the one that the nursery starts: a client would start another."""
    hosting.kill_daemon()
    status = ("daemon", "status", "--json")
    hosting.until(lambda: '"running": true' in hosting.run(*status, check=False).stdout)


def test_a_turn_that_dies_with_its_daemon_ends_as_interrupted(hosting: Hosting, tmp_path: Path) -> None:
    async def main() -> None:
        async with talking(tmp_path) as (host, agent):
            async with agent.prompt(UNTIL_GO) as turn:
                await agent.approve((await until(turn, ApprovalWanted)).id)
                await until(turn, ToolRunning)
                await asyncio.to_thread(hosting.kill_daemon)
                assert [event async for event in turn][-1] == TurnEnded("interrupted")
            agent = await host.agent(cwd=str(tmp_path))
            killed = False

            async def decide(wanted: ApprovalWanted) -> bool:
                nonlocal killed
                if not killed:
                    killed = True
                    await asyncio.to_thread(next_daemon, hosting)
                return True

            assert "Done" in await agent.ask("run: echo x >> out", approve=decide)
            assert (tmp_path / "out").read_text() == "x\n"

    asyncio.run(main())


def test_a_session_is_found_tells_about_itself_and_is_told_how_to_be(
    hosting: Hosting, tmp_path: Path
) -> None:
    async def main() -> None:
        async with talking(tmp_path) as (host, agent):
            await agent.set_name("garden")
            assert (await host.agent("garden")).id == agent.id
            assert (await host.agent(cwd=str(tmp_path), continue_last=True)).name == "garden"
            assert (await host.agent(id=agent.id)).name == agent.name == "garden"
            assert (await host.models())[0]["id"] == "guide"
            await agent.set_model("offline", "replay")
            await agent.set_thinking("low")
            assert (await agent.state())["thinking_level"] == "low"
            with pytest.raises(RequestError):
                await agent.compact()
            await agent.set_model("offline", "guide")
            await agent.ask("help")
            said = await agent.messages()
            assert await agent.messages(last=1) == said[1:]
            async with agent.events() as events:
                await agent.follow_up("help")
                await until(events, TurnEnded)
            async for event in agent.events():  # opened and closed by the loop
                assert isinstance(event, Updated)
                break
            forked = await agent.fork(said[0]["id"])
            assert await forked.messages() == said[:2]  # with the answer
            told = [event async for event in agent.prompt("help") if "cursor" in event.data]
            async with agent.events(since=told[0].data["cursor"]) as events:
                while "cursor" not in (event := await events.next(timeout=WAIT)).data:
                    pass
                assert event == told[1]
                assert events.cursor == told[-1].data["cursor"]

    asyncio.run(main())
