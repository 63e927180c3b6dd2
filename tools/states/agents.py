"""The agents whose screens are recorded: how each is set up for a model on loopback, and its keys."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.cli import claude_code
from tests.hosted.real import KEY, REAL
from tests.model_server import Call, CallTool, ModelServer, Shell
from tools import npm_peers, pip_peers

ENDED_IN = "FAIRLEAD_TURNS_ENDED"
_NODE_ROOM = "--max-old-space-size=1024"


class RecordedAgent(NamedTuple):
    """An agent with a TUI."""

    name: str
    pin: str
    """The package of requirements/peers-npm.txt or peers-pip.txt; nothing for a program of the system."""
    command: tuple[str, ...]
    set_up: Callable[[Path, Path, ModelServer], dict[str, str]]
    """Writes its configuration to a home, for a project, and returns its environment."""
    ready: tuple[str, ...]
    """What its screen shows when it takes a prompt."""
    permission: tuple[str, ...] = ()
    """What its dialog shows besides the command."""
    edit_permission: tuple[str, ...] = ()
    allow: tuple[str, ...] = ("Enter",)
    edit: Callable[[str, str], Call] | None = None
    """How it edits a file, if not by a tool that writes."""
    interrupt: tuple[str, ...] = ("Escape",)
    menus: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """What opens each, what it shows, and what closes it."""
    compact: str = "/compact"
    resume_arguments: tuple[str, ...] = ()
    resume_shown: str = ""
    resume_by: tuple[str, str] | None = None
    """A command that opens the dialog, and what that shows; instead of arguments."""
    trust: tuple[str, ...] = ()
    untrust: Callable[[dict[str, str], Path], dict[str, str]] = lambda environment, project: {}
    """Makes it ask whether a project is trusted; returns what changes in its environment."""
    start_pause: float = 1.5
    """Seconds after `ready` until it has settled."""
    error_pause: float = 1.0
    kin: str = ""
    """The agent whose rules hold for it, if not those with its own name."""
    own_scenes: tuple[str, ...] = ()
    """Scenes for it alone (`own_scenes.py`), instead of those of other agents or beside them."""
    resumes_anew: bool = False
    """Whether it has to be started anew before the list has the conversation."""
    tells_end: bool = False
    """Whether it writes to the file `$FAIRLEAD_TURNS_ENDED` when it has done with a turn. Some have work of
    their own to do after their model's answer, which can take seconds."""
    is_shell: bool = False
    has_tools: bool = True
    """Whether its model calls tools; other requests are not prompts then."""

    @property
    def program(self) -> Path:
        """Where its program is, if it is installed."""
        if not self.pin:
            return Path(shutil.which(self.command[0]) or self.command[0])
        if "==" in self.pin:
            return pip_peers.path(self.pin, self.command[0])
        return npm_peers.Package(self.pin, self.command[:1]).path(self.command[0])

    @property
    def rules(self) -> str:
        """The agent whose rules hold for it."""
        return self.kin or self.name

    @property
    def scenes(self) -> list[str]:
        """The scenes that it has."""
        if self.is_shell:
            return list(self.own_scenes)
        has = {
            "permission": self.permission,
            "trust": self.trust,
            "menus": self.menus,
            "compaction": self.compact,
        }
        has["resume"] = self.resume_arguments or self.resume_by or ()
        names = ("turns", "prose", "errors", "permission", "menus", "compaction", "resume", "trust")
        return [*(name for name in names if has.get(name, True)), *self.own_scenes]


def _claude(home: Path, project: Path, model: ModelServer) -> dict[str, str]:
    claude_code.trust(home / ".claude", project, KEY)
    return REAL["claude"].set_up(home, model)


def _hosted(agent: str) -> Callable[[Path, Path, ModelServer], dict[str, str]]:
    return lambda home, project, model: REAL[agent].set_up(home, model)


_OPENCODE_TELLS = """
import { appendFileSync } from "node:fs";
export const Ended = async () => ({
  event: async ({ event }) => {
    if (event.type === "session.idle") appendFileSync(process.env.FAIRLEAD_TURNS_ENDED, "1");
  },
});
"""


def _opencode(home: Path, project: Path, model: ModelServer) -> dict[str, str]:
    found = REAL["opencode"].set_up(home, model)
    place = home / ".config" / "opencode" / "plugin"
    place.mkdir()
    (place / "ended.js").write_text(_OPENCODE_TELLS)
    return found


def _codex(home: Path, project: Path, model: ModelServer) -> dict[str, str]:
    found = REAL["codex"].set_up(home, model)
    with (home / ".codex/config.toml").open("a") as file:
        file.write(f'\n[projects."{project}"]\ntrust_level = "trusted"\n')
    return found


_PI_ASKS = """
export default function (pi: any) {
  pi.on("tool_call", async (event: any, ctx: any) => {
    const what = event.input.command ?? event.input.path ?? event.input.file_path;
    const chosen = await ctx.ui.select(`Allow this call?\\n\\n  ${event.toolName}: ${what}`, ["Yes", "No"]);
    if (chosen !== "Yes") {
      ctx.abort();
      return { block: true, reason: "denied" };
    }
  });
}
"""
"""Pi asks nothing by itself. This extension does, with the dialog that Pi has for extensions."""


def _pi(home: Path, project: Path, model: ModelServer) -> dict[str, str]:
    place = home / ".pi" / "agent"
    place.mkdir(parents=True)
    ids = [{"id": name} for name in ("test-model", "other-model")]
    provider = {"baseUrl": model.url, "api": "openai-completions", "apiKey": KEY, "models": ids}
    (place / "models.json").write_text(json.dumps({"providers": {"loopback": provider}}))
    settings = {"defaultProvider": "loopback", "defaultModel": "test-model"}
    (place / "settings.json").write_text(json.dumps(settings))
    (place / "extensions").mkdir()
    (place / "extensions" / "ask.ts").write_text(_PI_ASKS)
    return {"PI_OFFLINE": "1"}


def _untrusted_claude(environment: dict[str, str], project: Path) -> dict[str, str]:
    path = Path(environment["CLAUDE_CONFIG_DIR"], ".claude.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "projects": {}}))
    return {"IS_SANDBOX": "0"}


def _untrusted_codex(environment: dict[str, str], project: Path) -> dict[str, str]:
    subprocess.run(["git", "init", "--quiet", str(project)], check=True)  # elsewhere it does not ask
    path = Path(environment["CODEX_HOME"], "config.toml")
    path.write_text(path.read_text().partition("\n[projects.")[0] + "\n")
    return {}


def _untrusted_gemini(environment: dict[str, str], project: Path) -> dict[str, str]:
    path = Path(environment["HOME"], ".gemini", "settings.json")
    settings = json.loads(path.read_text())
    settings["security"]["folderTrust"] = {"enabled": True}
    path.write_text(json.dumps(settings))
    return {"GEMINI_CLI_TRUST_WORKSPACE": ""}


def _aider(home: Path, project: Path, model: ModelServer) -> dict[str, str]:
    """At its start aider asks the network for prices of models, unless it did so within a day."""
    cache = home / ".aider" / "caches"
    cache.mkdir(parents=True)
    known = {
        "max_input_tokens": 32_000,
        "max_output_tokens": 4000,
        "litellm_provider": "openai",
        "mode": "chat",
    }
    prices = {"openai/test-model": {**known, "input_cost_per_token": 0, "output_cost_per_token": 0}}
    (cache / "model_prices_and_context_window.json").write_text(json.dumps(prices))
    return {
        "OPENAI_API_BASE": model.url,
        "OPENAI_API_KEY": KEY,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "AIDER_ANALYTICS_DISABLE": "true",
        "AIDER_CHECK_UPDATE": "false",
        "AIDER_DETECT_URLS": "false",
        "AIDER_GIT": "false",
        "AIDER_GITIGNORE": "false",
        "AIDER_SHOW_MODEL_WARNINGS": "false",
        "AIDER_SHOW_RELEASE_NOTES": "false",
    }


_SHELL_PROMPTS = {"bash": "garden$", "zsh": "garden %", "fish": "garden>", "dash": "$"}


def _shell(home: Path, project: Path, model: ModelServer) -> dict[str, str]:
    for number in range(12):
        (project / f"leaf{number}.txt").write_text("green\n")
    (home / ".zshrc").write_text(
        "PS1='%1~ %% '\nsetopt correct\nLISTMAX=5\nautoload -Uz compinit; compinit\n"
    )
    fish = home / ".config" / "fish"
    fish.mkdir(parents=True)
    greeting = "set -g fish_greeting\nfunction fish_prompt; echo (basename $PWD)'> '; end\n"
    (fish / "config.fish").write_text(greeting)
    return {"PS1": "\\W$ "}


def _patch(name: str, text: str) -> Call:
    """A patch, as Codex edits files."""
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    return Shell(f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {name}\n{lines}*** End Patch\nEOF")


AGENTS = {
    each.name: each
    for each in (
        RecordedAgent(
            "claude",
            "@anthropic-ai/claude-code@2.0.76",
            ("claude",),
            _claude,
            ("? for shortcuts",),
            permission=("1. Yes",),
            edit_permission=("1. Yes",),
            menus=(
                ("/model", "Select model", ("Escape",)),
                ("/config", "Auto-compact", ("Escape",)),
                ("/permissions", "Allow", ("Escape",)),
            ),
            resume_arguments=("--resume",),
            resume_shown="Resume Session",
            trust=("1. Yes",),
            untrust=_untrusted_claude,
        ),
        RecordedAgent(
            "claude-new",
            "@anthropic-ai/claude-code@2.1.197",
            ("claude",),
            _claude,
            ("? for shortcuts",),
            permission=("1. Yes",),
            edit_permission=("1. Yes",),
            menus=(
                ("/model", "Select model", ("Escape",)),
                ("/config", "Auto-compact", ("Escape", "Escape")),
                ("/permissions", "Allow", ("Escape",)),
            ),
            resume_arguments=("--resume",),
            resume_shown="Resume session",
            trust=("1. Yes",),
            untrust=_untrusted_claude,
            kin="claude",
        ),
        RecordedAgent(
            "codex",
            "@agentclientprotocol/codex-acp@2.6.0",
            ("codex",),
            _codex,
            ("test-model default",),
            permission=("1. Yes",),
            edit_permission=("1. Yes",),
            edit=_patch,
            menus=(
                ("/model", "Select Model and Effort", ("Escape",)),
                ("/permissions", "Update Model Permissions", ("Escape",)),
            ),
            resume_arguments=("resume",),
            resume_shown="Resume a previous session",
            trust=("Trust this folder?",),
            untrust=_untrusted_codex,
            own_scenes=("codex-hooks",),
        ),
        RecordedAgent(
            "gemini",
            "@google/gemini-cli@0.61.0",
            ("gemini", "--model", "gemini-2.5-flash"),
            _hosted("gemini"),
            ("Type your message",),
            permission=("1. Allow once",),
            edit_permission=("1. Allow once",),
            menus=(
                ("/model", "Select Model", ("Escape",)),
                ("/settings", "Settings", ("Escape",)),
                ("/theme", "Select Theme", ("Escape",)),
            ),
            compact="/compress",
            resume_by=("/resume", "Chat Sessions"),
            resumes_anew=True,
            start_pause=5.0,
            error_pause=3.0,
            trust=("1. Trust",),
            untrust=_untrusted_gemini,
        ),
        RecordedAgent(
            "opencode",
            "opencode-ai@1.18.33",
            ("opencode",),
            _opencode,
            ("ctrl+p commands",),
            tells_end=True,
            permission=("Permission required",),
            edit_permission=("Permission required",),
            menus=(
                ("/models", "Select model", ("Escape",)),
                ("/themes", "Themes", ("Escape",)),
                ("/agents", "Select agent", ("Escape",)),
            ),
            interrupt=("Escape", "Escape"),
            resume_by=("/sessions", "Sessions"),
            start_pause=3.0,
        ),
        RecordedAgent(
            "pi",
            "@earendil-works/pi-coding-agent@0.74.2",
            ("pi",),
            _pi,
            ("%/128k",),
            permission=("Allow this call?",),
            edit_permission=("Allow this call?",),
            edit=lambda name, text: CallTool("write", {"path": name, "content": text}),
            menus=(
                ("/model", "Only showing models", ("Escape",)),
                ("/settings", "Auto-compact", ("Escape",)),
                ("/tree", "Session Tree", ("Escape",)),
            ),
            resume_arguments=("--resume",),
            resume_shown="Resume Session",
        ),
        RecordedAgent(
            "aider",
            "aider-chat==0.86.2",
            ("aider", "--model", "openai/test-model", "--edit-format", "diff"),
            _aider,
            ("Repo-map",),
            interrupt=("C-c",),
            compact="",
            trust=("No git repo found", "(Y)es/(N)o"),
            untrust=lambda environment, project: {"AIDER_GIT": "true"},
            own_scenes=("aider-questions",),
            has_tools=False,
        ),
        *(
            RecordedAgent(
                name,
                "",
                (name, *options),
                _shell,
                (_SHELL_PROMPTS[name],),
                kin="shell",
                own_scenes=("commands", "reads", *more),
                is_shell=True,
                start_pause=1.0,
            )
            for name, options, more in (
                ("bash", ("--norc",), ("completes",)),
                ("zsh", ("-d",), ("completes", "zsh-asks")),
                ("fish", (), ("fish-completes",)),
                ("dash", (), ()),
            )
        ),
    )
}


def place_for(agent: RecordedAgent, home: Path, model: ModelServer) -> tuple[list[str], dict[str, str], Path]:
    """Set an agent up in an empty home; returns its command, its environment and its project."""
    project = home / "garden"
    project.mkdir()
    (project / "notes.txt").write_text("water the roses\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
        "NODE_OPTIONS": _NODE_ROOM,
        ENDED_IN: str(home / "turns-ended"),
        **agent.set_up(home, project, model),
    }
    return [str(agent.program), *agent.command[1:]], environment, project
