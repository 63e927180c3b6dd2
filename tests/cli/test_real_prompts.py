"""Prompts for the real agents in terminals: each is delivered once, or refused with the reason."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import peers
from tests.hosting import Hosting
from tests.model_server import Says, Shell
from tools.states.agents import AGENTS, RecordedAgent, place_for
from tools.states.stage import PacedModel

pytestmark = pytest.mark.peers
TEXT = "first line of {0}, plain\nsecond line of {0} with @notes.txt and /slash\n\nlast line of {0}"
PATIENCE = 120.0
BLOCKED = 3
"""The exit code if a person has to clear something away first."""


class RealTerminal:
    """An agent in the session `work`."""

    def __init__(self, agent: RecordedAgent, home: Path, *, hooked: bool = False) -> None:
        self.agent = agent
        if agent.has_tools:
            peers.npm(agent.command[0])
        elif not agent.program.exists():
            peers.missing(f"{agent.name} is not installed: run `python -m tools.pip_peers`")
        script = {"plain": [Says("Well.")], "usetool": [Says("Now.", Shell("touch ran.txt")), Says("Done.")]}
        self.model = PacedModel(script)
        self.model.pause = 0.01
        self.model.__enter__()
        home.mkdir()
        argv, environment, self.project = place_for(agent, home, self.model)
        self.hosting = Hosting()
        self.hosting.patience = PATIENCE
        if hooked:
            path = f"{agent.program.parent}:{self.hosting.environment['PATH']}"  # its version is asked
            install = {**self.hosting.environment, **environment, "PATH": path}
            words = [*self.hosting.command, "hook", "--install", agent.rules]
            subprocess.run(words, env=install, check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)
        pairs = [f"{name}={value}" for name, value in environment.items()]
        size = ("--cols", "100", "--rows", "40")
        place = ("--cwd", str(self.project))
        argv = ["sh", "-c", 'exec "$@"', "sh", *argv]  # whose path may have a =, which means something to env
        self.hosting.run("start", "work", "-d", *size, *place, "--", "env", *pairs, *argv)
        try:
            self.until("idle")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.model.gate.set()
        self.hosting.close()
        self.model.__exit__(None, None, None)

    def state(self) -> str:
        found: dict[str, Any] = self.hosting.ask("session_state", name="work")["session"]["activity"]
        return str(found["state"])

    def until(self, state: str) -> None:
        self.hosting.until(lambda: self.state() == state)

    def shows(self, *texts: str) -> None:
        self.hosting.until(lambda: all(text in self.hosting.screen("work") for text in texts))

    def type(self, *words: str) -> None:
        self.hosting.run("send", "work", *words)

    def prompt(self, token: str, *options: str, code: int = 0) -> dict[str, Any]:
        done = self.hosting.run("prompt", "work", TEXT.format(token), "--json", *options, check=False)
        assert done.returncode == code, (done.stdout, done.stderr, self.hosting.screen("work"))
        return dict(json.loads(done.stdout)) if done.stdout else {"refused": done.stderr}

    def begin(self, token: str, *options: str) -> subprocess.Popen[str]:
        words = [*self.hosting.command, "prompt", "work", TEXT.format(token), "--json", *options]
        return subprocess.Popen(words, env=self.hosting.environment, stdout=subprocess.PIPE, text=True)

    def ended(self, prompt: str) -> dict[str, Any]:
        return self.hosting.ask("prompt_receipt", name="work", prompt_id=prompt, timeout=PATIENCE)

    def heard(self, token: str) -> int:
        """How often the model got a prompt, by the longest conversation."""
        turns = [each for each in self.model.asked if each.tools or not self.agent.has_tools]
        asked = max(turns, key=lambda each: len(each.messages))
        texts = [each.text for each in asked.messages if each.role == "user"]
        return sum(text.count(f"first line of {token},") for text in texts)

    def is_whole(self, token: str) -> bool:
        """True if the model got a prompt as it was sent, in a message of its own."""
        wanted = "".join(TEXT.format(token).split())
        for asked in self.model.asked:
            for each in asked.messages:
                found = "".join(each.text.split())
                if wanted in found and found.count("firstlineof") == 1:
                    return True
        return False


@pytest.fixture(params=["claude", "codex", "gemini", "opencode", "pi"])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealTerminal]:
    real = RealTerminal(AGENTS[request.param], tmp_path / "home")
    yield real
    real.close()


def test_twenty_prompts_each_once_or_refused_with_the_reason(real: RealTerminal) -> None:
    delivered: list[str] = []
    refused: list[str] = []
    for number in range(4):  # idle
        receipt = real.prompt(f"idle-{number}", "--wait", "--timeout", str(PATIENCE))
        assert receipt["outcome"] == "done", receipt
        delivered.append(f"idle-{number}")

    real.model.gate.clear()  # it works
    assert "accepted" in real.prompt("first-0")
    queued = [real.prompt(f"busy-{number}") for number in range(5)]
    assert [each.get("place") for each in queued] == [1, 2, 3, 4, 5]
    real.model.gate.set()
    assert [real.ended(each["prompt_id"])["outcome"] for each in queued] == ["done"] * 5
    delivered += ["first-0", *(f"busy-{number}" for number in range(5))]

    real.until("idle")
    real.type("half a thought")  # a draft
    real.shows("half a thought")
    for number in range(4):
        said = real.prompt(f"draft-{number}", code=BLOCKED)["refused"]
        assert "there is a draft in the input of" in said, said
        refused.append(f"draft-{number}")
    late = real.prompt("draft-late", "--timeout", "1", code=BLOCKED)
    assert "draft" in late["reason"]
    refused.append("draft-late")
    waiting = real.begin("draft-waits", "--timeout", str(PATIENCE))
    real.hosting.until(lambda: bool(real.hosting.ask("session_find", name="work")["session"].get("queued")))
    for _ in "half a thought":
        real.type("-k", "BSpace")
    assert json.loads(waiting.communicate(timeout=PATIENCE)[0])["accepted"]
    delivered.append("draft-waits")
    real.until("idle")

    real.type("please usetool")  # a dialog
    real.shows("please usetool")
    real.type("-k", "Enter")
    real.shows(*real.agent.permission)
    real.until("waits")
    for number in range(3):
        said = real.prompt(f"dialog-{number}", code=BLOCKED)["refused"]
        assert "asks:" in said, said
        refused.append(f"dialog-{number}")
    waiting = real.begin("dialog-waits", "--timeout", str(PATIENCE))
    real.hosting.until(lambda: bool(real.hosting.ask("session_find", name="work")["session"].get("queued")))
    assert not (real.project / "ran.txt").exists()
    real.shows(*real.agent.permission)
    real.type(*(word for key in real.agent.allow for word in ("-k", key)))
    assert json.loads(waiting.communicate(timeout=PATIENCE)[0])["accepted"]
    delivered.append("dialog-waits")
    receipt = real.prompt("last-0", "--wait", "--timeout", str(PATIENCE))
    assert receipt["outcome"] == "done"
    delivered.append("last-0")

    assert len(delivered) + len(refused) >= 20
    assert {token: real.heard(token) for token in delivered} == dict.fromkeys(delivered, 1)
    assert {token: real.heard(token) for token in refused} == dict.fromkeys(refused, 0)
    assert all(map(real.is_whole, delivered))
    assert (real.project / "ran.txt").exists()


def test_aider_takes_prompts_each_once_and_a_draft_gets_none(tmp_path: Path) -> None:
    real = RealTerminal(AGENTS["aider"], tmp_path / "home")
    try:
        for number in range(2):
            assert real.prompt(f"idle-{number}", "--wait", "--timeout", str(PATIENCE))["outcome"] == "done"
        real.model.gate.clear()  # it works
        assert "accepted" in real.prompt("busy-0")
        queued = real.prompt("busy-1")
        assert queued["place"] == 1
        real.model.gate.set()
        assert real.ended(queued["prompt_id"])["outcome"] == "done"
        real.until("idle")
        real.type("half a thought")
        real.shows("half a thought")
        assert "there is a draft in the input of aider" in real.prompt("draft-0", code=BLOCKED)["refused"]
        for _ in "half a thought":
            real.type("-k", "BSpace")
        assert real.prompt("last-0", "--wait", "--timeout", str(PATIENCE))["outcome"] == "done"
        delivered = ["idle-0", "idle-1", "busy-0", "busy-1", "last-0"]
        assert {token: real.heard(token) for token in delivered} == dict.fromkeys(delivered, 1)
        assert all(map(real.is_whole, delivered))
        assert real.heard("draft-0") == 0
    finally:
        real.close()


@pytest.mark.parametrize("hooked", [False, True], ids=["screen", "hooks"])
@pytest.mark.parametrize("name", ["claude", "claude-new"])
def test_prompts_of_many_lines_are_done_one_right_after_the_other(
    tmp_path: Path, name: str, hooked: bool
) -> None:
    """After a paste, Claude Code has another footer for seconds, also when its answer is long there."""
    real = RealTerminal(AGENTS[name], tmp_path / "home", hooked=hooked)
    try:
        real.model.pause = 0.0
        texts = [
            "\n".join(f"row {row} of {token}," for row in range(lines))
            for token, lines in (("ash", 5), ("birch", 12), ("cedar", 5), ("date", 12))
        ]
        for text in texts:
            words = ("prompt", "work", text, "--wait", "--timeout", str(PATIENCE), "--json")
            done = real.hosting.run(*words, check=False)
            assert done.returncode == 0, (done.stdout, done.stderr, real.hosting.screen("work"))
            assert json.loads(done.stdout)["outcome"] == "done"
        asked = max((each for each in real.model.asked if each.tools), key=lambda each: len(each.messages))
        said = ["".join(each.text.split()) for each in asked.messages if each.role == "user"]
        assert [sum("".join(text.split()) in each for each in said) for text in texts] == [1] * len(texts)
    finally:
        real.close()


def test_pi_takes_long_prompts_of_which_it_shows_a_mark_alone(tmp_path: Path) -> None:
    real = RealTerminal(AGENTS["pi"], tmp_path / "home")
    try:
        texts = ["\n".join(f"row {row} of ash," for row in range(45)), "birch and cedar, " * 80]
        for text in texts:
            words = ("prompt", "work", text, "--wait", "--timeout", str(PATIENCE))
            done = real.hosting.run(*words, check=False)
            assert done.returncode == 0, (done.stderr, real.hosting.screen("work"))
        asked = max((each for each in real.model.asked if each.tools), key=lambda each: len(each.messages))
        said = ["".join(each.text.split()) for each in asked.messages if each.role == "user"]
        assert [sum("".join(text.split()) in each for each in said) for text in texts] == [1, 1]
    finally:
        real.close()
