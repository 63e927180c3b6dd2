"""`fairlead mcp` with clients of others: the official SDK, the Inspector, and agents that call its tools."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import peers
from tests.hosted import real
from tests.hosting import Hosting
from tests.model_server import CallTool, ModelServer, Says

pytestmark = pytest.mark.peers
SDK_CLIENT = Path(__file__).with_name("mcp_sdk_client.py")
PATIENCE = 150.0


@pytest.fixture
def hosting() -> Iterator[Hosting]:
    made = Hosting()
    made.run("ls")
    yield made
    made.close()


def answer_question(hosting: Hosting, text: str) -> dict[str, Any]:
    """Wait for the one question that an agent asks, and answer it."""
    found: list[dict[str, Any]] = []

    def is_asked() -> bool:
        found[:] = hosting.ask("approvals")["approvals"]
        return bool(found)

    hosting.until(is_asked)
    hosting.run("approvals", "answer", found[0]["token"], text)
    return found[0]


@pytest.mark.parametrize(("era", "revision"), [("handshake", "2025-11-25"), ("stateless", "2026-07-28")])
def test_the_official_sdk_uses_every_tool_it_tries(
    hosting: Hosting, tmp_path: Path, era: str, revision: str
) -> None:
    python = peers.python_with("mcp")
    client = subprocess.Popen(
        [python, str(SDK_CLIENT), era, str(tmp_path), *hosting.command],
        env=hosting.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert client.stdout is not None
    told: dict[str, Any] = {}
    for line in client.stdout:
        name, value = json.loads(line)
        told[name] = value
        if name == "asking":
            assert answer_question(hosting, "yes")["preview"] == f"{era}?"
    assert client.wait(PATIENCE) == 0
    client.stdout.close()
    assert told["revision"] == revision
    assert len(told["tools"]) == 8
    assert (told["prompted"]["state"], told["prompted"]["outcome"]) == ("ended", "done")
    assert told["refused"][0]
    assert "no session 'nobody'" in told["refused"][1]
    assert told["answer"] == {"answered": True, "answer": "yes"}


def test_the_inspector_lists_and_calls_tools(hosting: Hosting, tmp_path: Path) -> None:
    inspector = peers.npm("mcp-inspector")
    hosting.ask("terminal_start", name="shell", argv=["sh"], cwd=str(tmp_path))

    def inspect(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [inspector, "--cli", *hosting.command, "mcp", *words],
            cwd=tmp_path,
            env=hosting.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    assert len(inspect("--method", "tools/list")["tools"]) == 8
    listed = inspect("--method", "tools/call", "--tool-name", "list_sessions")
    assert [row["name"] for row in listed["structuredContent"]["sessions"]] == ["shell"]


SCRIPT = {
    "colour": [
        Says("I ask.", CallTool("ask_person", {"question": "Which colour?", "options": ["red", "blue"]})),
        Says("Thank you."),
    ],
    "sessions": [Says("I look.", CallTool("list_sessions", {})), Says("Seen.")],
}


def test_claude_code_asks_a_person_through_our_tool(tmp_path: Path) -> None:
    program = peers.npm("claude")
    project, home = tmp_path / "project", tmp_path / "claude"
    for each in (project, home):
        each.mkdir()
    with ModelServer(SCRIPT) as model:
        hosting = Hosting(real.REAL["claude"].set_up(home, model))
        try:
            servers = {"fairlead": {"command": hosting.command[0], "args": [*hosting.command[1:], "mcp"]}}
            config = tmp_path / "mcp.json"
            config.write_text(json.dumps({"mcpServers": servers}))
            words = ("--mcp-config", str(config), "--allowedTools", "mcp__fairlead__ask_person", "--")
            claude = subprocess.Popen(
                [program, "-p", "--output-format", "json", *words, "find out the colour"],
                cwd=project,
                env=hosting.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
            )
            asked = answer_question(hosting, "blue")
            output, _ = claude.communicate(timeout=PATIENCE)
        finally:
            hosting.close()
    assert asked["project"] == str(project)
    assert asked["session_name"].startswith("claude-code")
    assert json.loads(output)["result"] == "Thank you."
    assert r"\"answer\":\"blue\"" in json.dumps(model.requests[-1])
