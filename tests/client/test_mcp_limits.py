"""What `fairlead mcp` does not do for an agent: too much, as a person, or outside of its sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairlead.client.calls import RequestError
from fairlead.client.links import Links
from fairlead.client.mcp import shapes, tools
from fairlead.client.mcp.tools import Desk, ToolFault
from fairlead.keeper.credentials import AGENT_MARK
from fairlead.system.settings import Settings
from tests.hosted.small import SmallHosting
from tests.hosting import Hosting
from tests.mcp_client import McpClient


def test_an_agent_sends_so_many_notifications_an_hour(
    lent: Hosting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    assert tools.MAX_NOTICES == 30
    monkeypatch.setattr(tools, "MAX_NOTICES", 3)
    monkeypatch.setattr(tools, "time", SimpleNamespace(monotonic=lambda: now))

    async def work() -> None:
        nonlocal now
        desk = Desk(Links(Settings(lent.environment), "tester (MCP)"), str(tmp_path))

        async def notify() -> None:
            with contextlib.suppress(RequestError):  # there is no receiver here
                await desk.notify_user(shapes.NotifyArguments(text="look"))

        for _ in range(3):
            await notify()
            now += 1.0
        with pytest.raises(ToolFault, match="at most 3 notifications in an hour"):
            await notify()
        now = 1000.0 + tools.HOUR  # the first is an hour ago, the second not yet
        await notify()
        with pytest.raises(ToolFault, match="at most 3 notifications in an hour"):
            await notify()
        await desk.close()

    asyncio.run(work())


def test_agents_type_into_no_terminal_that_a_person_started(lent: Hosting, tmp_path: Path) -> None:
    lent.ask("terminal_start", name="mine", argv=["cat"], cwd=str(tmp_path))
    with McpClient(lent, tmp_path) as agent:
        assert "is a person's terminal" in agent.fault("prompt_session", session="mine", text="y")
        agent.call("start_session", name="theirs", command=["sh", "-i"])
        lent.until(lambda: lent.ask("session_state", name="theirs")["session"]["activity"]["state"] == "idle")
        assert agent.call("prompt_session", session="theirs", text="true")["state"] in ("accepted", "ended")
    assert lent.screen("mine").strip() == ""


def test_a_daemon_that_an_agent_starts_has_nothing_of_its_settings() -> None:
    hosting = Hosting()
    given = {
        "FAIRLEAD_AGENT_RULES": '[{tool = "bash", then = "allow"}]',
        "FAIRLEAD_CONTROL_HEARTBEAT": "1",
        "FAIRLEAD_MCP_REACH": "all",
        AGENT_MARK: "some-agent",
        "FAIRLEAD_HISTORY_LINES": "77",
    }
    try:
        with McpClient(hosting, hosting.directory, env=given) as agent:
            assert agent.call("list_sessions")["sessions"] == []
        variables = Path(f"/proc/{hosting.daemon_pid()}/environ")
        if os.path.exists(variables):
            names = {each.partition(b"=")[0].decode() for each in variables.read_bytes().split(b"\0")}
            assert names & set(given) == {"FAIRLEAD_HISTORY_LINES"}
    finally:
        hosting.close()


@pytest.mark.skipif(sys.platform != "linux", reason="there is no bubblewrap elsewhere")
def test_an_agent_in_a_sandbox_starts_no_terminal_outside_of_it() -> None:
    hosting = SmallHosting()
    try:
        path = Path(Settings(hosting.environment).config_path)
        path.write_text(f'{path.read_text()}sandbox = ["{hosting.agent_dir}"]\n')
        own = hosting.open()
        with McpClient(hosting, hosting.project, env={AGENT_MARK: own}) as agent:
            refused = agent.fault("start_session", name="out", command=["touch", "made"])
            assert "a terminal session would run outside of it" in refused
        assert "out" not in hosting.sessions()
    finally:
        hosting.close()
