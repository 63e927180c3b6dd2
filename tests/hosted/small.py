"""A real daemon with the small agent or another one, and what its sessions have in their journals."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairlead.system.settings import Settings
from tests.hosting import Hosting

SMALL = Path(__file__).parent / "small_agent.py"
KEY = "sk-small-0123456789-abcdef"
"""A key in the agent's environment."""


class AgentHosting(Hosting):
    """A project, and sessions in it with the agent of this name."""

    agent = "small"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self.project = self.directory / "project"
        self.project.mkdir()

    def configure(self, text: str) -> None:
        """Write the configuration."""
        path = Path(Settings(self.environment).config_path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text)

    def open(self, name: str = "one", **more: Any) -> str:
        """The id of a session with the agent."""
        found = self.ask("open_session", name=name, cwd=str(self.project), agent=self.agent, **more)
        id: str = found["session_id"]
        return id

    def say(self, text: str, name: str = "one") -> None:
        self.ask("session_prompt", name=name, text=text)

    def talk(self, *words: str, name: str = "one") -> subprocess.CompletedProcess[str]:
        """`fairlead agent --with AGENT -p --name one WORDS…`, whatever comes of it."""
        return self.run(
            "agent", "--with", self.agent, "-C", str(self.project), "-p", "--name", name, *words, check=False
        )

    def found(self, name: str = "one") -> dict[str, Any]:
        found: dict[str, Any] = self.ask("session_find", name=name)["session"]
        return found

    def entries(self, name: str = "one") -> list[dict[str, Any]]:
        """The lines of a session's journal, without the header."""
        lines = Path(self.found(name)["file"]).read_text().splitlines()
        return [json.loads(line) for line in lines[1:]]

    def messages(self, name: str = "one") -> list[dict[str, Any]]:
        return [each["message"] for each in self.entries(name) if each["type"] == "message"]

    def told(self, name: str = "one") -> list[str]:
        """What was said and done in a session, each as a short line."""
        return [line for message in self.messages(name) for line in _lines(message)]

    def wait_idle(self, name: str = "one") -> None:
        self.until(lambda: self.found(name)["state"] in ("idle", "failed"))

    def question(self, name: str = "one") -> dict[str, Any]:
        """The question that a session asks, when it does."""
        found: list[dict[str, Any]] = []

        def asks() -> bool:
            rows = self.ask("approvals")["approvals"]
            found[:] = [row for row in rows if row["session_name"] == name]
            return bool(found)

        self.until(asks)
        return found[0]

    def agent_pids(self, name: str = "one") -> list[int]:
        """The processes of a session's agent, its own children too."""
        mark = f"FAIRLEAD_AGENT={self.found(name)['id']}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            entry = process / "environ"
            with contextlib.suppress(OSError):
                if mark in entry.read_bytes().split(b"\0"):
                    found.append(int(entry.parent.name))
        return found

    def close(self) -> None:
        for row in self.ask("session_list", kind="hosted")["sessions"] if _serves(self) else ():
            self.ask("session_stop", name=row["id"])
        super().close()


class SmallHosting(AgentHosting):
    """Places whose configuration has the agent `small`, with capabilities by name: load, resume, image."""

    def __init__(self, *can: str, settings: Mapping[str, str] | None = None, config: str = "") -> None:
        super().__init__(settings)
        self.agent_dir = self.directory / "agent"
        self.agent_dir.mkdir()
        command = json.dumps([sys.executable, str(SMALL), *can])
        env = (
            f'{{ SMALL_AGENT_DIR = "{self.agent_dir}", SMALL_AGENT_STEP = "0.02", SMALL_API_KEY = "{KEY}" }}'
        )
        self.configure(f"[agents.small]\ncommand = {command}\nenv = {env}\n{config}")

    @property
    def received(self) -> list[dict[str, Any]]:
        """Every line that the agent got."""
        path = self.agent_dir / "received"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def agent_pid(self, name: str = "one") -> int:
        """The process of a session's agent."""
        found = [pid for pid in self.agent_pids(name) if SMALL.name in _command_line(pid)]
        assert found, f"no agent runs for {name}"
        return found[0]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _serves(hosting: Hosting) -> bool:
    return os.path.exists(Settings(hosting.environment).lock_path)


def _lines(message: Mapping[str, Any]) -> list[str]:
    content = message["content"]
    match message["role"]:
        case "user":
            return ["> " + "".join(part.get("text", "") for part in content)]
        case "toolResult":
            mark = "!" if message["isError"] else "="
            return [f"{mark} {message['toolCallId']}"]
    found = []
    for part in content:
        match part["type"]:
            case "text":
                found.append(part["text"].strip())
            case "thinking":
                found.append(f"({part['thinking']})")
            case "toolCall":
                found.append(f"{part['id']}: {part['arguments']['title']}")
    if message["stopReason"] not in ("stop", "toolUse"):
        found.append(f"[{message['stopReason']}]")
    return found
