"""A session's timeline as lines: wide, narrow, without colours or Unicode, and with texts from strangers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.formats.columns import width_of
from fairlead.ui.plot import Look
from fairlead.ui.timeline import plots, timeline

START = 1_763_596_740.0
"""2025-11-19 23:59 UTC."""
NOW = START + 200
SESSION = {"name": "garden", "kind": "agent"}
STEPS = [
    {
        "what": "tool",
        "at": START + 2,
        "title": "bash",
        "text": "pytest -q",
        "ended": START + 9,
        "outcome": "failed",
    },
    {
        "what": "question",
        "at": START + 10,
        "title": "write",
        "text": "gate.py",
        "ended": START + 50,
        "outcome": "allow",
        "by": "anna",
    },
    {"what": "correction", "at": START + 55, "text": "mend it"},
    {
        "what": "check",
        "at": START + 70,
        "title": "pytest",
        "text": "all is well",
        "ended": START + 75,
        "outcome": "perfect",
        "cost": 0.5,
    },
]
TURNS: list[dict[str, Any]] = [
    {
        "number": 6,
        "prompt": "mend the gate",
        "queued": START - 20,
        "began": START,
        "ended": START + 65,
        "outcome": "done",
        "input_tokens": 12_000,
        "output_tokens": 300,
        "cost": 0.03,
        "model": "m-1",
        "steps": STEPS,
    },
    {
        "number": 7,
        "prompt": "paint it",
        "began": START + 80,
        "outcome": "working",
        "steps": [{"what": "question", "at": START + 90, "title": "bash", "text": "rm x"}],
    },
]
ANSWER = {"session": SESSION, "turns": TURNS, "total": 7, "aside": []}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_turns_have_their_steps_with_times_lengths_and_ends_and_the_day_where_it_changes() -> None:
    assert timeline(ANSWER, NOW, 64) == [
        "garden  agent",
        "7 turns, the last 2 shown; 3m05s at work; 2m30s waiting for a",
        "person; 12k tokens in, 300 out, $0.03",
        "── 2025-11-19 ──",
        "23:59:00 #6 mend the gate                             1m05s done",
        "         prompt waited 20s",
        "         12k tokens in, 300 out, $0.03, m-1",
        "23:59:02   ● bash  pytest -q                           7s failed",
        "23:59:10   ? write  gate.py           waited 40s allowed by anna",
        "23:59:55   ↳ sent back:  mend it",
        "── 2025-11-20 ──",
        "00:00:10   ✓ pytest  all is well                5s PERFECT $0.50",
        "00:00:20 #7 paint it                               2m00s working",
        "00:00:30   ? bash  rm x                              waits 1m50s",
    ]


def test_a_narrow_terminal_has_what_is_at_the_right_below_and_a_plain_one_has_ascii() -> None:
    lines = timeline(ANSWER, NOW, 30, Look(ascii=True))
    assert "".join(lines).isascii()
    assert lines[6:8] == ["23:59 #6 mend the gate", "      1m05s done"]
    at = next(number for number, line in enumerate(lines) if "? write" in line)
    assert lines[at : at + 2] == ["23:59   ? write  gate.py", "      waited 40s allowed by a~"]
    assert any(line.startswith("00:00   + pytest") for line in lines)
    for width in (1, 8, 20, 33, 47, 48, 80, 300):
        for look in (Look(), Look(ascii=True)):
            lines = [*timeline(ANSWER, NOW, width, look), *plots(ANSWER, NOW, width, look)]
            assert max(map(width_of, lines)) <= max(20, width)


def test_what_goes_to_a_pipe_is_whole() -> None:
    turn = {**TURNS[0], "prompt": "x" * 150}
    lines = timeline({**ANSWER, "turns": [turn]}, NOW)
    assert f"23:59:00 #6 {'x' * 150}  1m05s done" in lines


def test_strangers_control_nothing_and_wide_names_are_cut_by_columns() -> None:
    evil = "\x1b[2J\x07\u202e\n日本語" * 9
    step = {
        "what": "question",
        "at": START,
        "title": evil,
        "text": evil,
        "by": evil,
        "outcome": evil,
        "ended": NOW,
    }
    turn = {
        **TURNS[0],
        "prompt": evil,
        "fault": evil,
        "model": evil,
        "steps": [step, {**step, "what": "tool"}],
    }
    answer = {"session": {"name": evil, "kind": evil}, "turns": [turn], "total": 1, "aside": [step]}
    for width in (None, 20, 60):
        lines = timeline(answer, NOW, width)
        assert all(line.isprintable() for line in lines)
        assert width is None or max(map(width_of, lines)) <= width


def test_time_tokens_and_cost_are_plotted_by_turn_as_far_as_they_are_known() -> None:
    assert plots(ANSWER, NOW, 40) == [
        "Time by turn",
        "#6 ████████████████▊ 1m05s",
        "#7 ███████████████████████████████ 2m00s",
        "",
        "Tokens by turn",
        "#6 ███████████████████████████████ 12.3k",
        "",
        "Cost so far, 2025-11-20",
        "      │",
        "      │",
        "      │",
        "$0.03 ┤                ⣿",
        "      │",
        "      │",
        "      └────────────────┬────────────────",
        "                   00:00:05",
    ]
    nothing = plots({**ANSWER, "turns": [{"number": 1}]}, NOW, 80)
    assert nothing == ["no turn has a time, tokens or a cost that is known"]


def test_colours_say_who_waits_and_what_failed() -> None:
    lines = timeline(ANSWER, NOW, 64, Look(colour=True))
    assert any(line.endswith("\x1b[33mwaits 1m50s\x1b[0m") for line in lines)
    assert any(line.endswith("\x1b[31m7s failed\x1b[0m") for line in lines)
    assert any(line.endswith("\x1b[32m5s PERFECT $0.50\x1b[0m") for line in lines)
