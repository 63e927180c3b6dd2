"""The real Claude Code, offline: its installation in a cache directory, a place of its own, and its model.

It is installed by npm, beside the project. The model is a server on the loopback interface that answers
everything with a short text, or with one shell command when the prompt has the word `usetool`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

VERSION = "2.0.76"
KEY = "sk-fake-0123456789-0123456789"
INSTALL_SECONDS = 300
"""How long npm may take."""
TOOL_COMMAND = "touch ran.txt"
"""What the model wants to run for `usetool`."""


def installed() -> str:
    """The path of the program, installed if need be; skips the test where that can't be done."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fairlead-peers")
    place = cache / f"claude-code-{VERSION}"
    program = place / "node_modules/.bin/claude"
    if not program.exists():
        if shutil.which("npm") is None:
            pytest.skip("npm is not on PATH, and this test runs the real Claude Code")
        place.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--prefix", str(place), f"@anthropic-ai/claude-code@{VERSION}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        if not program.exists():
            pytest.skip(f"npm can't install Claude Code: {done.stderr[-200:]}")
    return str(program)


class Model:
    """A server of Anthropic's protocol. `prompts` are the last user texts that it was asked with."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(b"{}", "application/json")

            def do_HEAD(self) -> None:
                self._answer(b"", "application/json")

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
                if "count_tokens" in self.path:
                    self._answer(b'{"input_tokens": 10}', "application/json")
                elif body.get("stream"):
                    self._answer(model.stream(body), "text/event-stream")
                else:
                    self._answer(json.dumps(_whole(body)).encode(), "application/json")

            def _answer(self, data: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def stream(self, body: dict[str, Any]) -> bytes:
        text, is_result = _last(body)
        if body.get("tools"):
            self.prompts.append(text)
        wants_tool = "usetool" in text and not is_result and bool(body.get("tools"))
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta: dict[str, Any] = {"type": "text_delta", "text": f"answer {len(self.prompts)}"}
        if wants_tool:
            block = {"type": "tool_use", "id": f"toolu_{len(self.prompts)}", "name": "Bash", "input": {}}
            given = json.dumps({"command": TOOL_COMMAND, "description": "Run it"})
            delta = {"type": "input_json_delta", "partial_json": given}
        reason = "tool_use" if wants_tool else "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 1}
        message = {**_whole(body), "content": [], "stop_reason": None, "usage": usage}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
        return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events)


def _whole(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "claude"),
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }


def _last(body: dict[str, Any]) -> tuple[str, bool]:
    """What was said last, without reminders, and whether it is a tool's result."""
    content = body["messages"][-1]["content"]
    if isinstance(content, str):
        return content, False
    is_result = any(part["type"] == "tool_result" for part in content)
    texts = [part["text"] for part in content if part["type"] == "text"]
    return "\n".join(text for text in texts if not text.startswith("<system-reminder>")), is_result


def trust(config: Path, project: Path, key: str) -> None:
    """Have a Claude Code with this directory of settings ask nothing at its start."""
    config.mkdir(parents=True, exist_ok=True)
    trusted = {
        "hasTrustDialogAccepted": True,
        "hasCompletedProjectOnboarding": True,
        "projectOnboardingSeenCount": 1,
    }
    settings = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [key[-20:]], "rejected": []},
        "projects": {str(project): trusted},
    }
    (config / ".claude.json").write_text(json.dumps(settings))


def environment(config: Path, project: Path, model: Model) -> dict[str, str]:
    """The environment for a Claude Code that asks nothing at its start; makes its configuration."""
    trust(config, project, KEY)
    return {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
        "CLAUDE_CONFIG_DIR": str(config),
    }
