"""What is kept of the turns that hooks report is bounded, whatever they report."""

from __future__ import annotations

from pathlib import Path

from fairlead.system.settings import Settings
from fairlead.terminal.turns import MAX_EARLIER, MAX_PROMPT, MAX_PROMPTS, MAX_TURNS, TerminalTurn, bounded
from tests.hosting import Hosting

MAX_FILE = 3 * (MAX_PROMPTS + MAX_PROMPT + MAX_TURNS * MAX_EARLIER)
"""Bytes: of three each, as a character of these prompts has."""


def test_the_last_prompts_are_kept_whole_as_far_as_there_is_room_and_earlier_ones_begin_so() -> None:
    turns = [TerminalTurn(number, f"{number} " + "x" * MAX_PROMPT, 1, 1) for number in range(300)]
    found = bounded(turns)
    assert [each.number for each in found] == list(range(100, 300))
    assert found[-1] == turns[-1]
    assert sum(len(each.prompt) for each in found) <= MAX_PROMPTS + MAX_PROMPT + MAX_TURNS * MAX_EARLIER
    assert found[0].prompt.startswith("100 xxx")
    assert found[0].prompt.endswith("x…")
    short = [TerminalTurn(number, "mend the gate", 1, 1) for number in range(100)]
    assert bounded(short) == short
    last = [*short, TerminalTurn(100, "y" * MAX_PROMPTS, 1, 1)]
    assert bounded(last) == last


def test_the_file_of_a_session_stays_small_with_large_prompts(lent: Hosting) -> None:
    lent.start("work", "cat")
    path = Path(Settings(lent.environment).state_dir, "turns", "work.json")
    for number in range(1, 31):
        prompt = f"{number} " + "€" * MAX_PROMPT
        begun = lent.ask("terminal_turn", name="work", event="start", agent="other", prompt=prompt)
        assert begun["turn"] == number
    for number in range(20):
        call = {"call_id": f"call {number} " + "z" * 1000, "prompt": f"PreToolUse {'tool' * 500}"}
        lent.ask("terminal_turn", name="work", event="tool", agent="other", **call)
    lent.ask("terminal_turn", name="work", event="stop", agent="other")
    assert path.stat().st_size < MAX_FILE
    assert lent.ask("timeline", name="work", limit=1)["turns"][-1]["prompt"].startswith("30 €€€")
