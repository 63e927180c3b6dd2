"""Reports over time as lines of text: confidence on the ladder, and what verification has cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..formats.ladder import LADDER, word_for
from .plot import Look, Mark, curve, dollars, ladder

COST_HEIGHT = 5
"""How many rows costs have."""


class PlottedReport(NamedTuple):
    """What a plot has of a report."""

    time: float
    confidence: str
    """A word of the protocol."""
    cost: float


def plots(name: str, reports: Iterable[PlottedReport], width: int, look: Look) -> list[str]:
    """The plots of some reports, the newest first."""
    found = list(reports)
    steps = [(word.upper(), colour) for word, colour in LADDER.items()]
    marks = (Mark(each.time, word_for(each.confidence).upper()) for each in found)
    lines = ladder(marks, steps, width, title=f"Confidence of {name}", look=look)
    total, costs = 0.0, []
    for each in reversed(found):
        if each.cost > 0:
            total += each.cost
            costs.append((each.time, total))
    if costs:
        title = "Cost of verification so far"
        lines += ["", *curve(costs, width, COST_HEIGHT, title=title, value=dollars, look=look)]
    return lines
