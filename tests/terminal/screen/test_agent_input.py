"""Which screens of agents show an empty input, by real screens of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.terminal.screen.agent_input import AgentInput, shown_input
from fairlead.terminal.screen.screen import Screen

SCREENS = Path(__file__).parents[2] / "data/agent-screens"
EXPECTED = {
    "empty": AgentInput.EMPTY,
    "empty-accepting-edits": AgentInput.EMPTY,
    "empty-planning": AgentInput.EMPTY,
    "draft": AgentInput.FILLED,
    "draft-of-one-letter": AgentInput.FILLED,
    "pasted": AgentInput.FILLED,
    "bash-mode": AgentInput.UNKNOWN,
    "command-menu": AgentInput.UNKNOWN,
    "history-search": AgentInput.UNKNOWN,
    "model-menu": AgentInput.UNKNOWN,
    "permission-dialog": AgentInput.UNKNOWN,
    "resume-menu": AgentInput.UNKNOWN,
    "transcript": AgentInput.UNKNOWN,
    "working": AgentInput.UNKNOWN,
}
RULE = "─" * 100


def shown(data: bytes, agent: str = "claude") -> AgentInput:
    with Screen(100, 30) as screen:
        screen.feed(data.replace(b"\n", b"\r\n"))
        return shown_input(agent, screen)


def test_every_screen_that_was_recorded_is_expected() -> None:
    names = {path.stem for path in (SCREENS / "claude-2.0.76").iterdir()}
    assert names == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_only_an_empty_input_of_claude_code_is_taken_for_one(name: str) -> None:
    screen = (SCREENS / "claude-2.0.76" / f"{name}.ansi").read_bytes()
    assert shown(screen) is EXPECTED[name]
    assert shown(screen, "other") is AgentInput.UNKNOWN


@pytest.mark.parametrize(
    ("what", "lines", "expected"),
    [
        (
            "a hint in the empty input",
            [RULE, '> \x1b[7mT\x1b[0;2mry "fix it"\x1b[0m', RULE, "  ? for shortcuts"],
            AgentInput.EMPTY,
        ),
        (
            "a draft with the cursor on its first letter",
            [RULE, "> \x1b[7mT\x1b[0mry", RULE, "  ? for shortcuts"],
            AgentInput.FILLED,
        ),
        (
            "the same in a preview above a dialog",
            [RULE, "> ", RULE, "  ? for shortcuts", "Proceed?", " ❯ 1. Yes", "   2. No"],
            AgentInput.UNKNOWN,
        ),
        ("a quotation between two lines", [RULE, "> ", RULE, "The end."], AgentInput.UNKNOWN),
        ("lines of different lengths", [RULE[:60], "> ", RULE, "  ? for shortcuts"], AgentInput.UNKNOWN),
        (
            "lines of a frame",
            [f"  {RULE[:50]}", "> ", f"  {RULE[:50]}", "  ? for shortcuts"],
            AgentInput.UNKNOWN,
        ),
        ("no footer", [RULE, "> ", RULE], AgentInput.UNKNOWN),
        ("nothing", [], AgentInput.UNKNOWN),
        ("a shell", ["$ "], AgentInput.UNKNOWN),
    ],
)
def test_what_looks_like_an_input_is_none_unless_all_of_it_does(
    what: str, lines: list[str], expected: AgentInput
) -> None:
    assert shown("\n".join(lines).encode()) is expected
