"""Hooks that an agent's server calls for several terminals are booked on the session that they are about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import peers
from tests.hosting import Hosting
from tests.model_server import Says, Shell
from tools.states.agents import AGENTS, place_for
from tools.states.stage import PacedModel

PATIENCE = 90.0

SERVER = """
import os, subprocess, sys
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    os._exit(0)
open(sys.argv[2], "w").write(str(os.getpid()))
for line in open(sys.argv[1]):
    subprocess.run([sys.argv[3], "-m", "fairlead", "hook", "codex", "-v", line.strip()])
"""
"""A server without a terminal that calls hooks with what comes through a pipe."""
TUI = """
import os, tty
tty.setraw(0)
print("ready", end="\\r\\n")
while data := os.read(0, 1000):
    print(data.decode().replace("\\r", "").strip(), end="\\r\\n", flush=True)
"""


class ServedTerminals:
    """Three terminals of an agent, the first of which has started the server of all."""

    def __init__(self, hosting: Hosting, place: Path) -> None:
        self.hosting = hosting
        self.pipe = place / "hooks"
        os.mkfifo(self.pipe)
        self._log = place / "log"
        codex = place / "codex"
        codex.symlink_to(sys.executable)
        (place / "server.py").write_text(SERVER)
        (place / "tui.py").write_text(TUI)
        server = f"{codex} {place}/server.py {self.pipe} {place}/pid {sys.executable} 2>{self._log}; "
        for name in ("one", "two", "three"):
            hosting.start(name, f"{server if name == 'one' else ''}exec {codex} {place}/tui.py")
            hosting.wait_text(name, "ready")
        hosting.until((place / "pid").exists)
        self._write = self.pipe.open("w")

    def hook(self, event: str, conversation: str, **more: str) -> str:
        """Have the server call a hook; returns what that says."""
        before = self._log.stat().st_size
        given = {"hook_event_name": event, "session_id": conversation, **more}
        self._write.write(json.dumps(given) + "\n")
        self._write.flush()
        self.hosting.until(lambda: self._log.read_bytes()[before:].endswith(b"\n"))
        return self._log.read_bytes()[before:].decode()

    def close(self) -> None:
        self._write.close()


def prompts(hosting: Hosting, name: str) -> list[str]:
    done = hosting.run("timeline", name, "--json", check=False)
    return [each["prompt"] for each in json.loads(done.stdout)["turns"]] if done.returncode == 0 else []


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedTerminals]:
    hosting = Hosting()
    served = ServedTerminals(hosting, tmp_path)
    yield served
    served.close()
    hosting.close()


def test_a_servers_hook_is_of_the_terminal_that_shows_its_prompt(served: ServedTerminals) -> None:
    hosting = served.hosting
    hosting.run("send", "three", "paint the gate", "-k", "enter")
    hosting.wait_text("three", "paint the gate")
    assert "reported" in served.hook("UserPromptSubmit", "c3", prompt="paint the gate")
    assert "reported" in served.hook("Stop", "c3")
    assert [prompts(hosting, name) for name in ("one", "two", "three")] == [[], [], ["paint the gate"]]

    told = served.hook("UserPromptSubmit", "c4", prompt="asked in a terminal elsewhere")
    assert "not known for which session" in told
    assert "not known for which session" in served.hook("Stop", "c4")
    assert prompts(hosting, "one") == []

    hosting.run("stop", "one")  # whose name the server has for all
    hosting.run("send", "two", "oil the hinge", "-k", "enter")
    hosting.wait_text("two", "oil the hinge")
    assert "reported" in served.hook("UserPromptSubmit", "c2", prompt="oil the hinge")
    assert prompts(hosting, "two") == ["oil the hinge"]


@pytest.mark.peers
def test_codexes_in_three_terminals_have_turns_and_questions_of_their_own(tmp_path: Path) -> None:
    agent = AGENTS["codex"]
    peers.npm(agent.command[0])
    script = {"plain": [Says("Well.")], "usetool": [Says("Now.", Shell("touch ran.txt")), Says("Done.")]}
    hosting, home = Hosting(), tmp_path / "home"
    home.mkdir()
    hosting.patience = PATIENCE
    with PacedModel(script) as model:
        model.pause = 0.01
        argv, environment, project = place_for(agent, home, model)
        try:
            _three_codexes(hosting, argv, environment, project)
        finally:
            for path in home.glob(".codex/app-server-daemon/*.pid"):
                _end(path)
            hosting.close()


def _end(path: Path) -> None:
    found: Any = json.loads(path.read_text())
    os.kill(int(found["pid"] if isinstance(found, dict) else found), 15)


def _three_codexes(hosting: Hosting, argv: list[str], environment: dict[str, str], project: Path) -> None:
    path = f"{Path(argv[0]).parent}:{hosting.environment['PATH']}"
    install = {**hosting.environment, **environment, "PATH": path}
    words = [*hosting.command, "hook", "--install", "codex"]
    pairs = [f"{name}={value}" for name, value in environment.items()]
    subprocess.run(words, env=install, check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)
    for name in ("one", "two", "three"):
        command = ("env", *pairs, "sh", "-c", 'exec "$@"', "sh", *argv)
        hosting.run(
            "start", name, "-d", "--cols", "100", "--rows", "40", "--cwd", str(project), "--", *command
        )
        if name == "one":
            hosting.wait_text(name, "Trust all and continue")
            hosting.run("send", name, "-k", "Down", "-k", "Enter")
        hosting.until(partial(_is_idle, hosting, name))
    for name in ("three", "two", "one"):
        done = hosting.run(
            "prompt", name, f"plain words for {name}", "--wait", "--timeout", "60", check=False
        )
        assert done.returncode == 0, (done.stderr, hosting.screen(name))
    assert [prompts(hosting, name) for name in ("one", "two", "three")] == [
        [f"plain words for {name}"] for name in ("one", "two", "three")
    ]
    hosting.run("prompt", "three", "please usetool")
    hosting.until(lambda: bool(_waiting(hosting)))
    (asked,) = _waiting(hosting)
    assert asked["session_name"] == "three", asked
    hosting.run("approvals", "allow", asked["token"])
    hosting.until((project / "ran.txt").exists)
    hosting.until(partial(_is_idle, hosting, "three"))


def _is_idle(hosting: Hosting, name: str) -> bool:
    state = hosting.ask("session_state", name=name)["session"]["activity"]["state"]
    return bool(state == "idle")


def _waiting(hosting: Hosting) -> list[dict[str, Any]]:
    """The permissions that wait, as `fairlead approvals` lists them."""
    return [each for each in json.loads(hosting.run("approvals", "--json").stdout) if each.get("token")]
