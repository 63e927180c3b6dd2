"""The dashboard with sessions of another host: seen, answered, stopped there, and shown while it is away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.hosts.far_host import FarHost, NearHost
from tests.hosts.test_links import host_of
from tests.ui.dashboard.driving import driven, run
from tests.ui.dashboard.test_app import asking


@pytest.fixture(autouse=True)
def is_here(near: NearHost, monkeypatch: pytest.MonkeyPatch) -> None:
    near.until(lambda: host_of(near).get("state") == "here")
    for name in ("XDG_RUNTIME_DIR", "HOME", "FAIRLEAD_HOSTS_SSH"):
        monkeypatch.setenv(name, near.environment[name])


def test_sessions_of_all_hosts_are_shown_and_filtered_and_used(near: NearHost, far: FarHost) -> None:
    near.start("own", "exec sleep 1000")
    far.start("theirs", "echo hello from afar; exec sleep 1000")

    async def scenario() -> None:
        async with driven((120, 24)) as seen:
            await seen.until("2 sessions", "workbox:theirs", "own")
            await seen.press("slash")
            await seen.type("workbox")
            await seen.press("enter")
            await seen.until("workbox:theirs", "hello from afar", "1 shown")
            await seen.press("x")
            await seen.until("Stop workbox:theirs?")
            await seen.answer("y")
            await seen.until("workbox:theirs ended with")
            assert "theirs" not in far.sessions()

    run(scenario)
    near.run("stop", "own")


def test_a_question_of_another_host_is_answered_after_all_of_it_was_shown(
    near: NearHost, far: FarHost, tmp_path: Path
) -> None:
    asking(far, "garden", tmp_path)

    async def scenario() -> None:
        async with driven((120, 24)) as seen:
            await seen.until("workbox:garden", "1 needs you", "y shows all of it")
            await seen.press("y")
            await seen.until("$ touch made", "y  allow it", "n  deny it")
            await seen.answer("y")
            await seen.until("allowed: $ touch made", but=("needs you",))

    run(scenario)
    far.until((tmp_path / "made").exists)
    assert far.ask("approvals")["approvals"] == []


def test_an_agent_of_another_host_is_prompted(near: NearHost, far: FarHost, tmp_path: Path) -> None:
    id = far.ask("open_session", name="ivy", cwd=str(tmp_path))["session_id"]

    async def scenario() -> None:
        async with driven((120, 24)) as seen:
            await seen.until("workbox:ivy")
            await seen.press("slash")
            await seen.type("ivy")
            await seen.press("enter")
            await seen.until("1 shown")
            await seen.press("p")
            await seen.until("Prompt to workbox:ivy")
            await seen.type("list")
            await seen.press("enter")
            await seen.until("workbox:ivy: done", "> list")

    run(scenario)
    assert "list" in str(far.ask("session_lines", session_id=id)["lines"])


def test_a_host_that_is_away_is_said_and_its_sessions_stay(near: NearHost, far: FarHost) -> None:
    far.start("stays", "exec sleep 1000")

    async def scenario() -> None:
        async with driven((120, 24)) as seen:
            await seen.until("workbox:stays")
            far.stop_sshd()
            near.forget_connections()
            try:
                await seen.until("workbox is away", "workbox:stays")
                await seen.until_it(
                    lambda: any("workbox:stays" in x and " away" in x for x in seen.lines[1:])
                )
            finally:
                far.start_sshd()
            await asyncio.to_thread(near.ask, "host_check", name="workbox")
            await seen.until("workbox:stays", but=("is away",))

    run(scenario)
    far.run("stop", "stays")
