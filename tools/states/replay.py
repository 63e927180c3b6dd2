"""What rules say about a recording at many moments, beside what its labels say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from fairlead.formats import asciicast
from fairlead.system.processes import Program
from fairlead.terminal.screen.events import Progress
from fairlead.terminal.screen.screen import Screen
from fairlead.terminal.state.asking import asked_on
from fairlead.terminal.state.front import Front, by_process, rules_now
from fairlead.terminal.state.rules import AgentRules, Found, live_view

from .recordings import Label, read
from .stage import SETTLE

STEP = 0.15
"""Seconds between two looks while nothing is printed."""
BURST = 0.03
"""Seconds without output that end a burst; then there is another look."""


class Moment(NamedTuple):
    """A look at a recording."""

    time: float
    label: Label
    found: Found | None
    text: str
    by_process: str = "unknown"
    """What the process says where no rule matches: for shells, whose recordings have that, too."""

    @property
    def said(self) -> str:
        return self.by_process if self.found is None else self.found.state


class Judgement(NamedTuple):
    """How often rules were right about some recordings."""

    matrix: Counter[tuple[str, str]]
    """What was so, what was said, and how often."""
    delays: list[float]
    """Seconds from each dialog until it was seen."""
    unseen: int
    """Dialogs that were not seen."""

    @property
    def moments(self) -> int:
        return self.matrix.total()

    @property
    def right(self) -> float:
        """The share of moments at which the state was right."""
        good = sum(count for (was, said), count in self.matrix.items() if was == said)
        return good / max(1, self.moments)

    @property
    def false_waits(self) -> float:
        """The share of moments at which nothing was asked and a question was seen."""
        others = sum(count for (was, _), count in self.matrix.items() if was != "waits")
        false = sum(count for (was, said), count in self.matrix.items() if was != "waits" == said)
        return false / max(1, others)


def looks(path: Path, rules: AgentRules) -> Iterator[Moment]:
    """All looks at a recording while it is in a state that is known."""
    header, events, labels = read(path)
    fronts = [event for event in events if event.code == asciicast.MARKER and event.data.startswith("front ")]
    front: Front | None = None
    process = "unknown"
    outputs = [event for event in events if event.code == asciicast.OUTPUT]
    times = set(_times(outputs, labels))
    at = 0
    progress: Progress | None = None
    found, is_fresh, text = None, False, ""
    with Screen(header.cols, header.rows) as screen:
        for time, label in sorted(times):
            while at < len(outputs) and outputs[at].time <= time:
                screen.feed(outputs[at].data.encode())
                for event in screen.take_events():
                    progress = event if isinstance(event, Progress) else progress
                at += 1
                is_fresh = False
            while fronts and fronts[0].time <= time:
                front = _front(fronts.pop(0).data, rules)
                is_fresh = False
            view = None if is_fresh else live_view(screen, progress)
            if view is not None and not view.repaints:
                known = rules_now(front) if front is not None else rules
                found, is_fresh, text = known.look(view) if known is not None else None, True, screen.text()
                if front is not None:
                    process = by_process(front, lambda view=view: asked_on(view))[0]  # type: ignore[misc]
            yield Moment(time, label, found, text, process)


def _front(words: str, rules: AgentRules) -> Front:
    """The program in the foreground, as `stage.py` has recorded it."""
    _, name, what, waits, reader = words.split(" ")
    shell = rules if what == "shell" else None
    program = Program(0, name, "")
    arguments = [name] if shell is not None else [name, "-c", ""]
    return Front(program, arguments, None, waits.strip("-"), 0.0, reader.strip("-"), shell)


def _times(outputs: list[asciicast.CastEvent], labels: list[Label]) -> Iterator[tuple[float, Label]]:
    ends = [one.time for one, after in pairwise(outputs) if after.time - one.time > BURST]
    for label in labels:
        time = label.start
        while time < label.end:
            yield time, label
            time += STEP
        yield from ((end, label) for end in ends if label.start <= end < label.end)


def judge(moments: list[Moment]) -> Judgement:
    """Compare the looks at a recording with its labels."""
    matrix: Counter[tuple[str, str]] = Counter()
    asked = dict.fromkeys(each.label for each in moments if each.label.state == "waits")
    seen: dict[Label, float] = {}
    for each in moments:
        if each.label.state == "waits":
            if each.said == "waits":
                seen.setdefault(each.label, each.time - each.label.start)
            if each.time < each.label.start + SETTLE:
                continue  # it is being drawn
        matrix[each.label.state, each.said] += 1
    return Judgement(matrix, list(seen.values()), len(asked) - len(seen))
