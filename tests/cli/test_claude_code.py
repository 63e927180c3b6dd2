"""The real Claude Code in a terminal session: corrections reach it, and touch nothing that a person does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import claude_code
from tests.cli.hooked import Verifier
from tests.hosting import Hosting

pytestmark = pytest.mark.peers
MEND = "The check failed:\nplease mend x"


class Claude:
    """It runs in the session `work`, with the hooks that `hook --install` adds."""

    def __init__(self, tmp_path: Path) -> None:
        program = claude_code.installed()
        self.model = claude_code.Model()
        self.project = tmp_path / "project"
        self.project.mkdir()
        config = tmp_path / "config"
        self.hosting = Hosting(claude_code.environment(config, self.project, self.model))
        self.hosting.run("hook", "--install", "claude")
        self.hosting.run("start", "work", "-d", "--cwd", str(self.project), "--", program)
        self.wait("? for shortcuts")
        self.verifier = Verifier(self.hosting, "work")

    def wait(self, text: str) -> None:
        self.hosting.wait_text("work", text)

    def type(self, text: str) -> None:
        """Type as a person does: Enter comes when the text is there."""
        self.hosting.run("send", "work", text)
        self.wait(text)
        self.hosting.run("send", "work", "-k", "enter")

    def ask(self, text: str) -> None:
        """Ask for something, and wait for the end of the turn, whose hook then waits."""
        self.type(text)
        assert [self.verifier.next()["name"] for _ in range(2)] == ["start", "stop"]

    def verified(self, turn: int) -> None:
        """The verifier has nothing to say, and the hook ends."""
        self.verifier.report(turn, "verified")
        self.hosting.until(lambda: "running stop hook" not in self.hosting.screen("work"))

    def close(self) -> None:
        self.verifier.close()
        self.hosting.close()
        self.model.close()


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[Claude]:
    claude = Claude(tmp_path)
    yield claude
    claude.close()


def test_it_goes_on_with_a_correction_with_nothing_typed(claude: Claude) -> None:
    verifier = claude.verifier
    claude.ask("say hello")
    assert verifier.prompt(MEND) == ""
    verifier.report(1)
    assert verifier.receipts(2) == ["sent", "started"]
    again = verifier.next()
    assert (again["name"], again["turnIndex"], again["userPrompt"]) == ("stop", 1, "say hello")
    assert MEND in claude.model.prompts[-1]
    assert claude.hosting.screen("work").count("say hello") == 1
    claude.verified(1)
    claude.ask("and now this")  # it is a person's: the input works as ever


def test_neither_a_dialog_nor_a_menu_nor_a_draft_gets_a_correction(claude: Claude) -> None:
    verifier, hosting = claude.verifier, claude.hosting
    claude.ask("say hello")
    claude.verified(1)

    hosting.run("send", "work", "half a thought")
    claude.wait("half a thought")
    asked = len(claude.model.prompts)
    for how in ({}, {"deliverAs": "steer"}):
        refusal = "there is a draft in the input of claude, so nothing is typed"
        assert verifier.prompt("1", **how) == refusal
    assert "half a thought" in hosting.screen("work")
    hosting.run("send", "work", "-k", "C-u")
    claude.wait("? for shortcuts")

    claude.type("/model")
    claude.wait("Enter to confirm")
    assert verifier.prompt("2").endswith(", so nothing is typed")
    claude.wait("Enter to confirm")
    hosting.run("send", "work", "-k", "escape")
    claude.wait("? for shortcuts")
    assert len(claude.model.prompts) == asked

    claude.type("usetool please")
    assert verifier.next()["name"] == "start"
    claude.wait("Do you want to proceed?")
    for how in ({}, {"deliverAs": "steer"}):
        assert verifier.prompt("1", **how) == ""  # it waits for the end of the turn
    claude.wait("Do you want to proceed?")
    assert not (claude.project / "ran.txt").exists()
    hosting.run("send", "work", "-k", "enter")  # a person says yes
    assert verifier.next()["name"] == "stop"
    assert (claude.project / "ran.txt").exists()


def test_when_no_hook_waits_a_correction_is_typed_into_its_empty_input(claude: Claude) -> None:
    verifier = claude.verifier
    claude.ask("say hello")
    claude.verified(1)
    claude.wait("? for shortcuts")
    claude.hosting.until(lambda: verifier.prompt(MEND) == "")
    while (state := verifier.told("verify/receipt")["state"]) != "started":
        assert state in ("typed", "not-delivered")
    again = verifier.next()
    assert (again["name"], again["turnIndex"], again["userPrompt"]) == ("stop", 1, "say hello")
    assert "please mend x" in claude.model.prompts[-1]


def test_a_turn_that_escape_ends_is_aborted_at_once(claude: Claude) -> None:
    claude.type("please usetool now")
    assert claude.verifier.next()["name"] == "start"
    claude.wait("Do you want to proceed?")
    claude.hosting.run("send", "work", "-k", "escape")
    stop = claude.verifier.next()
    assert (stop["name"], stop["turnIndex"], stop["outcome"]) == ("stop", 1, "aborted")
    claude.wait("Interrupted")
    claude.ask("say hello")
