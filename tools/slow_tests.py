"""Writes tests/slow.txt, the tests that `make test` leaves to `make test-peers`, from the times of a run.

A line of the file of times is a number of seconds and the name of a test; `tests/conftest.py` writes it.
"""

from __future__ import annotations

import sys
from pathlib import Path

SECONDS = 2.5
"""Tests that take longer are slow."""
LIST = Path(__file__).parents[1] / "tests/slow.txt"


def slow_tests(lines: list[str]) -> list[str]:
    """The names of the tests that took too long, all their phases together; without a test's parameters, as
    these change more often."""
    spent: dict[str, float] = {}
    for line in lines:
        seconds, _, name = line.partition(" ")
        spent[name] = spent.get(name, 0.0) + float(seconds)
    longest: dict[str, float] = {}
    for name, took in spent.items():
        function = name.partition("[")[0]
        longest[function] = max(longest.get(function, 0.0), took)
    return sorted(name for name, took in longest.items() if took > SECONDS)


if __name__ == "__main__":
    found = slow_tests(Path(sys.argv[1]).read_text().splitlines())
    LIST.write_text("".join(f"{name}\n" for name in found))
    print(f"{len(found)} slow tests in {LIST}")
