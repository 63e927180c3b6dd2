"""Which screens of agents show an empty input, by real screens of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.terminal.screen.screen import Screen
from fairlead.terminal.state.rules import live_view, of_program

SCREENS = Path(__file__).parents[1] / "data/agent-screens"
EXPECTED = {
    "empty": "empty",
    "empty-accepting-edits": "empty",
    "empty-planning": "empty",
    "draft": "draft",
    "draft-of-one-letter": "draft",
    "pasted": "draft",
    "bash-mode": "",
    "command-menu": "",
    "history-search": "",
    "model-menu": "",
    "permission-dialog": "",
    "resume-menu": "",
    "transcript": "",
    "working": "",
}
RULE = "─" * 100


def shown(data: bytes, program: str = "claude") -> str:
    """What the input of an idle agent is: empty, a draft, or not known."""
    with Screen(100, 30) as screen:
        screen.feed(data.replace(b"\n", b"\r\n"))
        rules = of_program(program)
        found = rules.look(live_view(screen)) if rules is not None else None
        return found.input if found is not None and found.state == "idle" else ""


def test_every_screen_that_was_recorded_is_expected() -> None:
    names = {path.stem for path in (SCREENS / "claude-2.0.76").iterdir()}
    assert names == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_only_an_empty_input_of_claude_code_is_taken_for_one(name: str) -> None:
    screen = (SCREENS / "claude-2.0.76" / f"{name}.ansi").read_bytes()
    assert shown(screen) == EXPECTED[name]
    assert shown(screen, "other") == ""


@pytest.mark.parametrize(
    ("what", "lines", "expected"),
    [
        (
            "a hint in the empty input",
            [RULE, '> \x1b[7mT\x1b[0;2mry "fix it"\x1b[0m', RULE, "  ? for shortcuts"],
            "empty",
        ),
        (
            "a draft with the cursor on its first letter",
            [RULE, "> \x1b[7mT\x1b[0mry", RULE, "  ? for shortcuts"],
            "draft",
        ),
        (
            "the same in a preview above a dialog",
            [RULE, "> ", RULE, "  ? for shortcuts", "Proceed?", " ❯ 1. Yes", "   2. No"],
            "",
        ),
        ("the footer after a paste", [RULE, "❯ ", RULE, "  paste again to expand     ● high"], "empty"),
        ("the footer after ctrl-c", [RULE, "❯ ", RULE, "  Press Ctrl-C again to exit"], "empty"),
        ("the footer after escape", [RULE, "❯ not yet", RULE, "  Esc again to clear"], "draft"),
        ("the footer of vi's keys", [RULE, "> ", RULE, "  -- INSERT --"], "empty"),
        ("a quotation between two lines", [RULE, "> ", RULE, "The end."], ""),
        ("lines of different lengths", [RULE[:60], "> ", RULE, "  ? for shortcuts"], ""),
        (
            "lines of a frame",
            [f"  {RULE[:50]}", "> ", f"  {RULE[:50]}", "  ? for shortcuts"],
            "",
        ),
        ("no footer", [RULE, "> ", RULE], ""),
        ("nothing", [], ""),
        ("a shell", ["$ "], ""),
    ],
)
def test_what_looks_like_an_input_is_none_unless_all_of_it_does(
    what: str, lines: list[str], expected: str
) -> None:
    assert shown("\n".join(lines).encode()) == expected
