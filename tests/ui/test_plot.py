"""Plots in text: exact lines, and bounds for whatever is given."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from fairlead.formats.columns import width_of
from fairlead.ui.plot import DAY, Bar, Look, Mark, bars, curve, dollars, duration, ladder, short, strip

START = 1_763_516_400.0
"""2025-11-19 01:40 UTC."""
ASCII = Look(ascii=True)
STEPS = (("PERFECT", "green"), ("VERIFIED", "green"), ("PARTIAL", "yellow"), ("FAILED", "red"))


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_values_over_time_are_a_line_between_axes_with_names() -> None:
    points = [(START + minute * 60, value) for minute, value in enumerate([0, 1, 4, 9, 16])]
    assert curve(points, 28, 3, title="Cost so far", value=dollars) == [
        "Cost so far, 2025-11-19",
        "$16.00 ┤                ⣀⡠⠒⠊",
        "       │           ⣀⡠⠤⠒⠊",
        "    $0 ┤⣀⣀⣀⠤⠤⠤⠔⠒⠒⠉⠉",
        "       └┬──────────────────┬",
        "        01:40:00    01:44:00",
    ]
    assert curve(points, 28, 3, title="Cost so far", value=dollars, look=ASCII) == [
        "Cost so far, 2025-11-19",
        "$16.00 +                 ***",
        "       |             ****",
        "    $0 +*************",
        "       ++------------------+",
        "        01:40:00    01:44:00",
    ]


def test_verdicts_are_marks_on_the_steps_of_a_ladder_and_many_at_one_place_are_counted() -> None:
    places = [
        (0, "FAILED"),
        (1, "FAILED"),
        (3000, "PARTIAL"),
        (7200, "PERFECT"),
        (9000, "none"),
        (9, "FAILED"),
    ]
    marks = [Mark(START + at, step) for at, step in places]
    assert ladder(marks, STEPS, 32, title="Confidence") == [
        "Confidence, 2025-11-19",
        " PERFECT ┤                     ●",
        "VERIFIED ┤",
        " PARTIAL ┤         ●",
        "  FAILED ┤3",
        "         └┬─────────┬──────────┬",
        "          01:40   02:40    03:40",
    ]
    many = [Mark(START, "FAILED")] * 12
    assert ladder(many, STEPS, 30, look=ASCII)[4] == "  FAILED |         +"
    coloured = ladder(marks[:1], STEPS, 30, look=Look(colour=True))
    assert "  \x1b[31mFAILED\x1b[0m ┤\x1b[31m         ●\x1b[0m" in coloured


def test_bars_have_names_and_values_and_only_the_last_are_drawn() -> None:
    rows = [Bar("#1", 15), Bar("#2", 60, "a minute"), Bar("#3", 0), Bar("#4", math.nan)]
    assert bars(rows, 24, title="Time", value=duration) == [
        "Time",
        "#1 ███ 15s",
        "#2 ████████████ a minute",
        "#3 0s",
    ]
    drawn = bars([Bar(f"#{number}", number) for number in range(50)], 30, most=2, look=ASCII)
    assert drawn == [
        "(48 earlier ones are left out)",
        "#48 ####################### 48",
        "#49 ####################### 49",
    ]


def test_times_are_local_and_have_the_day_where_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def axis(seconds: float, width: int = 60) -> str:
        return curve([(START, 1), (START + seconds, 2)], width, 2)[-1].strip()

    assert axis(7200).split() == ["01:40", "02:04", "02:28", "02:52", "03:16", "03:40"]
    assert " ".join(axis(DAY).split()) == "11-19 01:40 07:40 13:40 19:40 11-20 01:40"
    assert axis(20 * DAY).split() == ["11-19", "11-23", "11-27", "12-01", "12-05", "12-09"]
    assert axis(300 * DAY, 40).split() == ["2025-11-19", "2026-04-18", "2026-09-15"]
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    assert axis(7200).split()[0] == "10:40"


def test_nothing_one_point_equal_values_and_no_numbers_are_no_trouble() -> None:
    assert curve([], 30, title="Cost") == ["Cost", "nothing to plot"]
    assert curve([(math.nan, 1), (1, math.inf)], 30) == ["nothing to plot"]
    assert ladder([], STEPS, 30) == bars([], 30) == ["nothing to plot"]
    assert curve([(START, 5)], 20, 3) == [
        "2025-11-19",
        "  │",
        "5 ┤        ⣿",
        "  │",
        "  └────────┬────────",
        "       01:40:00",
    ]
    flat = curve([(START, 5), (START + 60, 5)], 20, 3, look=ASCII)
    assert flat[1:4] == ["  |", "5 +*****************", "  |"]
    assert strip([], 9) == strip([1], 0) == ""


def test_no_line_is_wider_than_the_terminal_whatever_is_drawn() -> None:
    chance = random.Random(7)
    for width in (1, 20, 21, 33, 80, 200, 10_000):
        for look in (Look(), ASCII):
            for _ in range(20):
                span, scale = 10 ** chance.uniform(-3, 11), 10 ** chance.uniform(-300, 307)
                points = [(chance.random() * span, chance.uniform(-1, 1) * scale) for _ in range(50)]
                marks = [Mark(at, chance.choice(STEPS)[0]) for at, _ in points]
                rows = [Bar("日本語の名前" * 9, value) for _, value in points]
                lines = curve(points, width, title="日本" * 300, look=look)
                lines += ladder(marks, STEPS, width, look=look) + bars(rows, width, look=look)
                assert max(map(width_of, lines)) <= min(400, max(20, width))
                assert not look.ascii or "".join(lines).isascii()


def test_many_points_are_drawn_in_little_time_and_keep_their_peaks() -> None:
    points = [(START + number, 0.0) for number in range(200_000)]
    points[150_000] = (points[150_000][0], 9.0)  # of the last ones, which are drawn
    began = time.process_time()
    lines = curve(points, 60, 4, look=ASCII)
    assert time.process_time() - began < 2
    assert lines[0] == "9 +" + " " * 28 + "*"


def test_names_from_strangers_control_nothing() -> None:
    evil = "a\x1b[2J\x07\u202eb\nc"
    for lines in (bars([Bar(evil, 1, evil)], 60, title=evil), curve([(1, 1)], 60, title=evil)):
        assert all(line.isprintable() for line in lines)


def test_numbers_are_short() -> None:
    assert [short(each) for each in (0, 999, 1000, 15_300, 2e6, 1e300)] == [
        "0",
        "999",
        "1k",
        "15.3k",
        "2M",
        "1e+300",
    ]
    assert [duration(each) for each in (0, 59.7, 3600, 1e30)] == ["0s", "1m00s", "1h00m", "11574074d01h"]


def test_it_is_imported_in_a_moment() -> None:
    script = (
        "import sys; import fairlead.ui.plot, fairlead.ui.timeline; "
        "print(any(each in sys.modules for each in ('asyncio', 'msgspec', 'textual')))"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False\n"
