"""What a hosted agent is given, MCP servers and keys, and when its program is ended and resumed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.connection import RequestError
from fairlead.hosted import mcp
from tests.hosted.small import SmallHosting
from tests.hosting import is_alive

TOKEN = "given-token-0123456789"
FILES: dict[str, Any] = {
    "name": "files",
    "command": "files-mcp",
    "args": ["-v"],
    "env": {"FILES_TOKEN": TOKEN},
}
CONFIG = """
keys = ["SMALL_LENT_KEY"]
[agents.small.mcp.own]
command = ["own-mcp", "serve"]
[mcp_servers.web]
url = "http://127.0.0.1:9/mcp"
headers = { Authorization = "Bearer configured-token-987654" }
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[SmallHosting]:
    hosting = SmallHosting("load", config=CONFIG)
    yield hosting
    hosting.close()


def _opened(small: SmallHosting, method: str) -> list[list[dict[str, Any]]]:
    return [each["params"]["mcpServers"] for each in small.received if each.get("method") == method]


def test_mcp_servers_are_passed_on_again_after_a_restart_and_their_secrets_are_nowhere(
    shared: SmallHosting,
) -> None:
    shared.open(mcp_servers=[FILES])
    done = shared.run("agent", "--json", "--name", "one", "hello")
    assert "small can't use the MCP server web: it takes none over http" in done.stdout
    own = {"name": "own", "command": "own-mcp", "args": ["serve"], "env": []}
    given = {**FILES, "env": [{"name": "FILES_TOKEN", "value": TOKEN}]}
    assert _opened(shared, "session/new") == [[own, given]]
    assert shared.found()["mcp_servers"] == ["files"]
    daemon = shared.daemon_pid()
    os.kill(daemon, signal.SIGKILL)
    shared.until(lambda: not is_alive(daemon))
    os.kill(shared.agent_pid(), signal.SIGKILL)
    assert shared.talk("recall").stdout.strip() == "before: hello"
    assert _opened(shared, "session/load") == [[own, given]]
    for text in (Path(shared.found()["file"]).read_text(), shared.log(), str(shared.ask("session_list"))):
        assert TOKEN not in text


def test_secrets_are_known_within_what_they_are_given_in() -> None:
    servers = mcp.given(
        [
            {"name": "a", "command": "x", "args": ["--token=key-one", "--api-key", "key-two", "-v", "src"]},
            {"name": "b", "command": "x", "args": ["--header", "X-Auth: Bearer key-three", "KEY=key-four"]},
            {"name": "c", "type": "http", "url": "https://me:key%2Dfive@host/mcp?t=key%2Bsix&u=key-seven"},
            {
                "name": "d",
                "type": "sse",
                "url": "http://host/",
                "headers": {"Authorization": "Basic key-eight"},
            },
        ]
    )
    found = mcp.secrets_of(servers)
    numbers = ("one", "two", "three", "four", "five", "seven", "eight")
    assert {f"key-{each}" for each in numbers} | {"key%2Bsix", "key+six"} <= found
    assert not {"src", "-v", "host", "x"} & found


def test_mcp_servers_that_are_none_are_refused(shared: SmallHosting) -> None:
    with pytest.raises(RequestError, match=r"mcp-servers.*must have a command"):
        shared.open("refused", mcp_servers=[{"name": "files"}])
    with pytest.raises(RequestError, match="supported only by hosted sessions"):
        shared.ask("open_session", name="own", cwd=str(shared.project), mcp_servers=[FILES])


def test_an_agent_is_started_with_the_key_of_the_client_that_asks(shared: SmallHosting) -> None:
    key = "sk-lent-0123456789"
    shared.run("ls")
    shared.environment["SMALL_LENT_KEY"] = key
    try:
        done = shared.talk("env:SMALL_LENT_KEY", name="lent")
    finally:
        del shared.environment["SMALL_LENT_KEY"]
    assert done.stdout.strip() == key[::-1]
    assert shared.talk("env:SMALL_LENT_KEY", name="other").stdout.strip() == key[::-1]
    assert key not in Path(shared.found("lent")["file"]).read_text()


def test_an_agent_with_nothing_to_do_is_ended_and_resumed() -> None:
    small = SmallHosting("load", config="[hosted]\nidle_seconds = 0.4\n")
    try:
        small.talk("hello")
        small.until(lambda: small.found()["agent_pid"] is None)
        assert small.found()["state"] == "idle"
        assert small.talk("recall").stdout.strip() == "before: hello"
        small.say("tool done")
        token = small.question()["token"]
        child = int(small.talk("child", name="two").stdout)
        pid = small.found("two")["agent_pid"]
        small.talk("hello", name="three")
        small.until(lambda: small.found("three")["agent_pid"] is None)
        assert small.found("two")["agent_pid"] == pid
        assert small.found()["agent_pid"] is not None
        os.kill(child, signal.SIGKILL)
        small.until(lambda: small.found("two")["agent_pid"] is None)
        small.ask("approval_settle", token=token, allowed=True)
        small.until(lambda: small.found()["agent_pid"] is None)
        assert small.told()[-1] == "yes-once done"
    finally:
        small.close()


def test_an_agent_that_can_not_resume_is_not_ended() -> None:
    small = SmallHosting(config="[hosted]\nidle_seconds = 0.1\n")
    try:
        small.talk("hello")
        pid = small.found()["agent_pid"]
        for _ in range(3):
            assert small.talk("recall").stdout.strip()
        assert small.found()["agent_pid"] == pid
    finally:
        small.close()
