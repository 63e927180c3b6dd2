"""The real TUIs of agents in terminal sessions, with the hooks that `hook --install` adds: what they ask is
answered from elsewhere while their dialog is open, and closed when it is answered or cancelled there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import peers
from tests.hosted.real import KEY, REAL
from tests.hosting import Hosting
from tests.model_server import ModelServer, Says, Shell, WriteFile

pytestmark = pytest.mark.peers
ESCAPE_SECONDS = 10.0
SCRIPT = {
    "usetool": [Says("Now.", Shell("touch ran.txt")), Says("Done with it.")],
    "greet": [Says("Hello there.")],
}


class AgentTui(NamedTuple):
    """How an agent's TUI is run, and what it shows."""

    command: tuple[str, ...]
    ready: str
    dialog: str
    keys: tuple[str, ...] = ("enter",)
    """What allows in its dialog."""


TUIS = {
    "claude": AgentTui(("claude",), "? for shortcuts", "Do you want to proceed?"),
    "opencode": AgentTui(("opencode",), "Ask anything", "Permission required"),
    "gemini": AgentTui(("gemini", "--model", "gemini-2.5-flash"), "Type your message", "Allow execution of"),
    "codex": AgentTui(("codex",), "Ask Codex to do anything", "Would you like to run"),
}


def _trusted(agent: str, home: Path, project: Path) -> None:
    """Let an agent ask nothing at its start."""
    if agent == "claude":
        known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        settings = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(project): known},
        }
        (home / ".claude").mkdir(exist_ok=True)
        (home / ".claude/.claude.json").write_text(json.dumps(settings))
    elif agent == "codex":
        path = home / ".codex/config.toml"
        path.write_text(
            'approval_policy = "on-request"\nsandbox_mode = "read-only"\n'
            f'{path.read_text()}\n[projects."{project}"]\ntrust_level = "trusted"\n'
        )


class Tui:
    """An agent's TUI in the session `work`."""

    def __init__(self, agent: str) -> None:
        self.look = TUIS[agent]
        program = peers.npm(self.look.command[0])
        self.model = ModelServer(SCRIPT)
        self.model.__enter__()
        self.hosting = hosting = Hosting()
        home = Path(hosting.environment["HOME"])
        self.project = hosting.directory / "project"
        self.project.mkdir()
        hosting.environment.update(REAL[agent].set_up(home, self.model))
        _trusted(agent, home, self.project)
        hosting.patience = 90.0
        hosting.run("hook", "--install", agent)
        words = ["-d", "--cwd", str(self.project), "--", program, *self.look.command[1:]]
        hosting.run("start", "work", *words)
        if agent == "codex":
            self.wait("Hooks need review")
            hosting.run("send", "work", "2")
            hosting.run("send", "work", "-k", "enter")
        self.wait(self.look.ready)

    def wait(self, text: str) -> None:
        self.hosting.run("wait", "work", "--text", text, "--timeout", "60")

    def type(self, text: str) -> None:
        self.hosting.run("send", "work", text)
        self.wait(text)
        self.hosting.run("send", "work", "-k", "enter")

    def questions(self) -> list[dict[str, Any]]:
        return list(self.hosting.ask("approvals")["approvals"])

    def state(self) -> str:
        rows = self.hosting.ask("session_list")["sessions"]
        return str(next(row["activity"]["state"] for row in rows if row["name"] == "work"))

    def until(self, holds: Callable[[], object]) -> None:
        self.hosting.until(lambda: bool(holds()))

    def ask_for_tool(self) -> dict[str, Any]:
        """Let it ask for its permission to run a command: the question, while the dialog is open."""
        self.type("please usetool")
        self.wait(self.look.dialog)
        self.until(self.questions)
        (question,) = self.questions()
        assert (question["kind"], question["session_name"]) == ("permission", "work")
        assert "touch ran.txt" in question["summary"]
        assert "touch ran.txt" in question["preview"]
        self.until(lambda: self.state() == "waits")
        assert self.look.dialog in self.hosting.screen("work")
        return question

    def close(self) -> None:
        self.hosting.close()
        self.model.__exit__(None, None, None)


@pytest.fixture(params=sorted(TUIS))
def tui(request: pytest.FixtureRequest) -> Iterator[Tui]:
    tui = Tui(request.param)
    yield tui
    tui.close()


def test_a_permission_is_answered_from_elsewhere_while_its_dialog_is_open(tui: Tui) -> None:
    ran = tui.project / "ran.txt"
    question = tui.ask_for_tool()
    assert "allow" in question["options"]
    tui.hosting.run("approvals", "allow", question["token"])
    tui.wait("Done with it.")
    tui.until(ran.exists)
    assert tui.questions() == []
    tui.until(lambda: tui.state() == "idle")

    ran.unlink()
    question = tui.ask_for_tool()
    tui.hosting.run("approvals", "deny", question["token"])
    tui.until(lambda: tui.state() == "idle")
    assert tui.questions() == []
    assert not ran.exists()


@pytest.mark.parametrize("agent", ["claude", "opencode"])
def test_a_file_is_written_only_if_that_is_allowed_from_elsewhere_with_the_whole_of_it(agent: str) -> None:
    tui = Tui(agent)
    try:
        written = tui.project / "gate.txt"
        lines = [f"line {number} of the gate" for number in range(60)]  # more than its dialog shows
        writes = WriteFile(str(written), "\n".join(lines) + "\n")
        tui.model.script["usefile"] = [Says("Now.", writes), Says("Done with it.")]
        for answer in ("deny", "allow"):
            tui.type("please usefile")
            tui.until(tui.questions)
            (question,) = tui.questions()
            assert "gate.txt" in question["summary"]
            shown = tui.hosting.run("approvals", "show", question["token"]).stdout
            assert all(line in shown for line in lines)
            assert not written.exists()
            tui.hosting.run("approvals", answer, question["token"])
            tui.until(lambda: tui.state() == "idle")
            assert tui.questions() == []
            assert written.exists() is (answer == "allow")
        assert written.read_text().splitlines() == lines
    finally:
        tui.close()


def test_what_is_answered_or_cancelled_in_the_terminal_is_closed_everywhere_at_once(tui: Tui) -> None:
    ran = tui.project / "ran.txt"
    tui.ask_for_tool()
    tui.hosting.run("send", "work", "-k", "escape")
    pressed = time.monotonic()
    tui.until(lambda: not tui.questions())
    tui.until(lambda: tui.state() != "waits")
    assert time.monotonic() - pressed < ESCAPE_SECONDS
    assert not ran.exists()
    tui.until(lambda: tui.state() == "idle")

    tui.ask_for_tool()
    for key in tui.look.keys:
        tui.hosting.run("send", "work", "-k", key)
    tui.until(ran.exists)
    tui.until(lambda: not tui.questions())
    tui.until(lambda: tui.state() == "idle")
