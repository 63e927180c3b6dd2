"""Measuring contenders side by side in one run.

The machines this runs on are noisy, so each contender runs in turn, round after round, and its best round
counts: a disturbance hits a round, not a contender. What is printed are ratios; absolute times only say how
fast this machine was today.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

ROUNDS = 9
ROUND_SECONDS = 0.05


@dataclass(frozen=True)
class Contender:
    """A function and the inputs that it is called with, in turn."""

    name: str
    call: Callable[[Any], Any]
    inputs: Sequence[Any]


def seconds_a_call(contenders: Sequence[Contender], rounds: int = ROUNDS) -> dict[str, float]:
    """Each contender's seconds for a call in its best round."""
    best: dict[str, float] = {}
    repeats = {contender.name: _repeats(contender) for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            count = repeats[contender.name]
            started = perf_counter()
            for _ in range(count):
                for item in contender.inputs:
                    contender.call(item)
            took = (perf_counter() - started) / count / len(contender.inputs)
            best[contender.name] = min(took, best.get(contender.name, took))
    return best


def _repeats(contender: Contender) -> int:
    """How often all inputs are gone through in a round; this is also the warm-up."""
    started = perf_counter()
    for item in contender.inputs:
        contender.call(item)
    return max(1, round(ROUND_SECONDS / (perf_counter() - started)))


def compare(
    title: str, contenders: Sequence[Contender], goals: dict[str, float], rounds: int = ROUNDS
) -> bool:
    """Print how many times as fast the first contender is as each other one, and whether goals are met."""
    times = seconds_a_call(contenders, rounds)
    ours = times[contenders[0].name]
    print(f"\n{title}")
    print(f"  {contenders[0].name:<42}{_shown(ours):>12}")
    met = True
    for contender in contenders[1:]:
        ratio = times[contender.name] / ours
        line = f"  {contender.name:<42}{_shown(times[contender.name]):>12}{ratio:>9.2f}×"
        if (goal := goals.get(contender.name)) is not None:
            met &= ratio >= goal
            line += f"   goal {goal:g}×: {'met' if ratio >= goal else 'MISSED'}"
        print(line)
    return met


def growth(title: str, call: Callable[[Any], Any], make: Callable[[int], Any], sizes: Sequence[int]) -> bool:
    """Print what a unit costs as the input grows. Linear work costs the same; quadratic work would double."""
    print(f"\n{title}")
    contenders = [Contender(str(size), call, [make(size)]) for size in sizes]
    times = seconds_a_call(contenders)
    units = [times[str(size)] / size for size in sizes]
    for size, unit in zip(sizes, units, strict=True):
        print(f"  {size:>10,} units{_shown(unit):>24} a unit{unit / units[0]:>9.2f}×")
    linear = units[-1] < 2 * units[0]
    print(f"  {'linear: met' if linear else 'NOT LINEAR'}")
    return linear


def _shown(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.2f} {unit}"
    return f"{seconds * 1e9:.1f} ns"
