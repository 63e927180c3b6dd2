"""A real daemon with real agents of other makers, whose model is on loopback.

What differs between the agents is in `REAL`: how they are set up, and the words that they use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests import peers
from tests.hosted.small import AgentHosting
from tests.model_server import ModelServer

KEY = "sk-fake-0123456789abcdef0123456789"


class Real(NamedTuple):
    """An agent of another maker."""

    command: tuple[str, ...]
    """Its program, as requirements/peers-npm.txt has it, and its arguments."""
    set_up: Callable[[Path, ModelServer], dict[str, str]]
    """Writes its configuration to a home, and returns its environment."""


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
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": model.url, "apiKey": KEY},
        "models": {"test-model": {"attachment": True}, "other-model": {}},
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
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}


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
    "claude": Real(("claude-agent-acp",), _claude),
    "opencode": Real(("opencode", "acp"), _opencode),
    "gemini": Real(("gemini", "--acp", "--model", "gemini-2.5-flash"), _gemini),
    "codex": Real(("codex-acp",), _codex),
}


class RealHosting(AgentHosting):
    """Places whose configuration has a real agent that asks this model."""

    patience = 150.0  # on a busy machine some need half a minute to start

    def __init__(self, agent: str, model: ModelServer) -> None:
        self.agent = agent
        self.real = REAL[agent]
        program = peers.npm(self.real.command[0])
        super().__init__()
        env = self.real.set_up(Path(self.environment["HOME"]), model)
        command = [program, *self.real.command[1:]]
        self.configure(f"[agents.{agent}]\ncommand = {json.dumps(command)}\nenv = {_inline(env)}\n")


def _inline(table: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in table.items()) + " }"
