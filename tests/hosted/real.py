"""A real daemon with real third-party agents, whose model is on loopback.

What differs between the agents is in `REAL`: how they are set up, and the words that they use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests import peers
from tests.hosted.small import AgentHosting
from tests.model_server import ModelRequest, ModelServer

KEY = "sk-fake-0123456789abcdef0123456789"


class Real(NamedTuple):
    """A third-party agent."""

    command: tuple[str, ...]
    """Its program, as requirements/peers-npm.txt has it, and its arguments."""
    set_up: Callable[[Path, ModelServer], dict[str, str]]
    """Writes its configuration to a home, and returns its environment."""
    asking: str
    """The mode in which it asks before it runs a command."""
    other_mode: str
    other_model: str
    asked_model: str
    """What its model server is asked for then."""
    after_denial: tuple[str, ...] = ("Finished.",)
    """What a turn has after a call that was denied: most let their model go on."""
    resumes: bool = True
    command_file: tuple[str, str] | None = None
    """A slash command `hail` of the project: its file and what is in it."""
    kills: int = 5
    """How many turns of it are interrupted by the end of the daemon."""


def _claude(home: Path, model: ModelServer) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": model.root,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
    }


def _opencode(home: Path, model: ModelServer) -> dict[str, str]:
    modalities = {"input": ["text", "image"], "output": ["text"]}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": model.url, "apiKey": KEY},
        "models": {"test-model": {"attachment": True, "modalities": modalities}, "other-model": {}},
    }
    settings: dict[str, Any] = {
        "provider": {"loopback": provider},
        "model": "loopback/test-model",
        "small_model": "loopback/test-model",
        "permission": {"bash": "ask", "edit": "ask"},
        "autoupdate": False,
        "share": "disabled",
    }
    place = home / ".config" / "opencode"
    place.mkdir(parents=True)
    (place / "opencode.json").write_text(json.dumps(settings))
    return {
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "npm_config_registry": model.root,  # it would look for a plugin in the one on the network
    }


def _gemini(home: Path, model: ModelServer) -> dict[str, str]:
    place = home / ".gemini"
    place.mkdir()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    }
    (place / "settings.json").write_text(json.dumps(settings))
    return {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": model.root,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _codex(home: Path, model: ModelServer) -> dict[str, str]:
    place = home / ".codex"
    place.mkdir()
    (place / "config.toml").write_text(
        f"""
model = "test-model"
model_provider = "loopback"
check_for_update_on_startup = false
[model_providers.loopback]
name = "loopback"
base_url = "{model.url}"
wire_api = "responses"
env_key = "LOOPBACK_KEY"
"""
    )
    return {"CODEX_HOME": str(place), "LOOPBACK_KEY": KEY}


REAL: Mapping[str, Real] = {
    "claude": Real(
        ("claude-agent-acp",),
        _claude,
        asking="default",
        other_mode="plan",
        other_model="haiku",
        asked_model="haiku",
        command_file=(".claude/commands/hail.md", "Please greet $ARGUMENTS"),
        kills=15,
    ),
    "opencode": Real(
        ("opencode", "acp"),
        _opencode,
        asking="build",
        other_mode="plan",
        other_model="loopback/other-model",
        asked_model="other-model",
        after_denial=("",),
        command_file=(".opencode/command/hail.md", "Please greet $ARGUMENTS"),
        kills=15,
    ),
    "gemini": Real(
        ("gemini", "--acp", "--model", "gemini-2.5-flash"),
        _gemini,
        asking="default",
        other_mode="autoEdit",
        other_model="gemini-2.5-pro",
        asked_model="gemini-2.5-pro",
        resumes=False,  # it often does not find its own sessions again
    ),
    "codex": Real(
        ("codex-acp",),
        _codex,
        asking="read-only",
        other_mode="workspace-write",
        other_model="gpt-5.5",
        asked_model="gpt-5.5",
        after_denial=("[aborted]",),
    ),
}


class RealHosting(AgentHosting):
    """Places whose configuration has a real agent that asks this model."""

    patience = 150.0  # on a busy machine some need half a minute to start

    def __init__(self, agent: str, model: ModelServer) -> None:
        self.agent = agent
        self.real = REAL[agent]
        self.model = model
        program = peers.npm(self.real.command[0])
        super().__init__()
        home = Path(self.environment["HOME"])
        env = self.real.set_up(home, model)
        table = {
            "command": [program, *self.real.command[1:]],
            "mode": self.real.asking,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in table.items()]
        lines += [f"env = {_inline(env)}", "[verifier]", "max_loops = 1"]
        self.configure("\n".join([f"[agents.{agent}]", *lines]))
        if self.real.command_file is not None:
            path, text = self.real.command_file
            (self.project / path).parent.mkdir(parents=True)
            (self.project / path).write_text(text)

    def open(self, name: str = "one", **more: Any) -> str:
        return super().open(name, **{"sandbox": False, **more})

    def allow_all(self, name: str) -> None:
        """Allow everything that a session asks, until it is idle."""

        def is_over() -> bool:
            for row in self.ask("approvals")["approvals"]:
                if row["session_name"] == name:
                    self.ask("approval_settle", token=row["token"], allowed=True)
            return self.found(name)["state"] in ("idle", "failed")

        self.until(is_over)

    def said_by(self, word: str) -> list[ModelRequest]:
        """What the model was asked because of a word, apart from titles."""
        return [each for each in self.model.asked if each.word == word and each.tools]


def _inline(table: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in table.items()) + " }"
