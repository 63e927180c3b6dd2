"""A third-party agent as a session, an editor that talks with it, and an agent that asks a person:
`make demo`.

The agent is a small one that speaks ACP and needs no model; `fairlead agents` lists the real ones.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fairlead.client.connection import DaemonConnection
from fairlead.system.settings import Settings

SMALL = Path(__file__).parents[1] / "tests" / "hosted" / "small_agent.py"
WAIT = 30


def paint(color: str, text: str) -> str:
    return f"\033[{color}m{text}\033[0m" if sys.stdout.isatty() else text


class Demo:
    """A daemon of its own, which knows the small agent."""

    def __init__(self, home: Path) -> None:
        self.project = home / "project"
        self.project.mkdir()
        config = home / "config.toml"
        config.write_text(f'[agents.small]\ncommand = ["{sys.executable}", "{SMALL}"]\n')
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "FAIRLEAD_CONFIG": str(config),
            "FAIRLEAD_VERIFIER_DIR": str(home / "v"),
            "FAIRLEAD_PASSEPARTOUT_PORT": "0",
        }

    def run(self, *words: str) -> str:
        print(paint("1", f"\n$ fairlead {' '.join(words)}"))
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", *words],
            env=self.environment,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=WAIT,
            check=True,
        )
        print(done.stdout.rstrip())
        return done.stdout

    def ask(self, op: str, **params: Any) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT
        while True:
            try:
                with DaemonConnection(Settings(self.environment), start=False) as control:
                    return control.ask(op, **params)
            except ConnectionError:  # the next daemon is on its way
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def question(self) -> str:
        """The token of what the agent asks."""
        while not (rows := self.ask("approvals")["approvals"]):
            time.sleep(0.05)
        return str(rows[0]["token"])


class Bridge:
    """`fairlead acp` or `fairlead mcp`, as an editor or an agent starts it."""

    def __init__(self, demo: Demo, *words: str) -> None:
        print(paint("1", f"\n$ fairlead {' '.join(words)}"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", *words],
            env=demo.environment,
            cwd=demo.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._id = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request, after showing what comes before it."""
        self.send(method, params)
        while True:
            line = self.line()
            if line.get("id") == self._id and "method" not in line:
                return dict(line["result"])
            update = line.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                print(paint("36", f"← {update['content']['text']}"))

    def send(self, method: str, params: dict[str, Any]) -> None:
        self._id += 1
        print(paint("36", f"→ {method} {json.dumps(params)[:100]}"))
        assert self._process.stdin is not None
        line = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        print(json.dumps(line), file=self._process.stdin, flush=True)

    def line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=WAIT)


def show_editor(demo: Demo) -> None:
    print(f"\n{paint('1', 'editors')} — Zed, Emacs or Neovim talk with the same session over ACP")
    editor = Bridge(demo, "acp", "--session", "garden")
    editor.ask("initialize", protocolVersion=1, clientCapabilities={})
    opened = editor.ask("session/new", cwd=str(demo.project), mcpServers=[])
    prompt = [{"type": "text", "text": "hello from an editor"}]
    print(editor.ask("session/prompt", sessionId=opened["sessionId"], prompt=prompt))
    editor.close()


def show_question(demo: Demo) -> None:
    print(f"\n{paint('1', 'agents beside each other')} — one asks a person over MCP")
    agent = Bridge(demo, "mcp")
    about = {"name": "demo", "version": "1"}
    agent.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=about)
    asked = {"question": "Which colour?", "options": ["red", "blue"]}
    agent.send("tools/call", {"name": "ask_person", "arguments": asked})
    demo.run("approvals", "answer", demo.question(), "2")
    print(paint("36", f"← {agent.line()['result']['structuredContent']}"))
    agent.close()


def main() -> int:
    home = Path(tempfile.mkdtemp(prefix="fl-"))
    print(f"\n{paint('1', 'hosted agents')} — a turn that outlives the daemon, with a permission that waits")
    demo = Demo(home)
    try:
        demo.run("agent", "--with", "small", "--name", "garden", "-p", "hello from a third party")
        demo.run("send", "garden", "think slow tool done")
        token = demo.question()
        demo.run("approvals")
        os.kill(demo.ask("daemon_status")["pid"], signal.SIGKILL)
        print(paint("31", "\nthe daemon is dead"))
        assert demo.question() == token
        print(paint("32", "The next one has the same question, from the same process of the agent."))
        demo.run("approvals", "allow", token)
        demo.run("wait", "garden", "--exit")
        demo.run("logs", "garden")
        demo.run("ls")
        show_editor(demo)
        show_question(demo)
        demo.run("stop", "garden")
    finally:
        command = [sys.executable, "-m", "fairlead", "daemon", "stop"]
        subprocess.run(command, env=demo.environment, check=False, capture_output=True, timeout=WAIT)
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
