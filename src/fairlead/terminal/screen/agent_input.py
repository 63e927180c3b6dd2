"""Whether an agent's screen shows its input, and whether that is empty: from what the emulator shows.

Typing into a dialog answers it, typing into a menu chooses from it, and Enter after a person's draft sends
that too. So a table has a recogniser for each agent whose screens are known; it looks only at the live region
at the bottom, and whatever it does not know exactly is `AgentInput.UNKNOWN`, in which nothing may be typed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from .screen import Screen

MIN_RULE = 20
"""How many columns a line across the screen has at least."""
MAX_FOOTER = 2
"""How many rows there may be below the input."""
LOOK_ABOVE = 8
"""How many rows above the input may say that the agent works."""
MAX_INPUT_ROWS = 60
"""How many rows the input may have."""

Row = Sequence[Mapping[str, Any]]
"""The runs of a row, as `Screen.cells` gives them."""


class AgentInput(Enum):
    """What is known of an agent's input."""

    EMPTY = "empty"
    FILLED = "filled"
    UNKNOWN = "unknown"
    """A dialog, a menu, an agent that works, or a screen that is not known."""


def shown_input(agent: str, screen: Screen) -> AgentInput:
    """What a screen shows of the input of an agent, by the agent's name in its hooks."""
    recognise = RECOGNISERS.get(agent)
    if recognise is None:
        return AgentInput.UNKNOWN
    return recognise([row["runs"] for row in screen.cells()["lines"]])


def _text(row: Row) -> str:
    """A row's text by columns."""
    text = ""
    for run in row:
        text = text.ljust(run["x"]) + run["text"]
    return text.replace("\u00a0", " ").rstrip()


def _is_rule(text: str) -> bool:
    return len(text) >= MIN_RULE and not text.strip("─")


def _is_hint(row: Row, start: int) -> bool:
    """Whether all that a row has from a column on is faint, but for a cursor on its first letter."""
    shown = [run for run in row if run["text"].strip() and run["x"] + run["width"] > start]
    if shown and shown[0]["x"] == start and shown[0]["width"] == 1 and "inverse" in shown[0]["attributes"]:
        shown = shown[1:]
    return bool(shown) and all(run["x"] >= start and "faint" in run["attributes"] for run in shown)


_CLAUDE_PROMPTS = (">", "❯")
_CLAUDE_FOOTERS = ("? for shortcuts", "⏵⏵ ", "⏸ ")
"""What Claude Code shows below its input when Enter sends that: nothing is searched for, no menu is open."""


def _claude(rows: Sequence[Row]) -> AgentInput:
    """Claude Code: an input between two lines across the screen, a prompt before it, a footer below."""
    texts = [_text(row) for row in rows]
    while texts and not texts[-1]:
        texts.pop()
    rules = [at for at, text in enumerate(texts) if _is_rule(text)]
    if len(rules) < 2 or not 1 < rules[-1] - rules[-2] <= MAX_INPUT_ROWS:
        return AgentInput.UNKNOWN
    if len(texts[rules[-1]]) != len(texts[rules[-2]]):
        return AgentInput.UNKNOWN
    first, end = rules[-2] + 1, rules[-1]
    footer = [text.strip() for text in texts[end + 1 :]]
    above = texts[max(0, first - LOOK_ABOVE) : first]
    if texts[first][:1] not in _CLAUDE_PROMPTS or texts[first][1:2].strip() or len(footer) > MAX_FOOTER:
        return AgentInput.UNKNOWN
    if any("esc to interrupt" in text for text in (*above, *footer)):
        return AgentInput.UNKNOWN
    is_blank = end - first == 1 and (not texts[first][2:].strip() or _is_hint(rows[first], 2))
    if not is_blank:
        return AgentInput.FILLED
    knows_footer = bool(footer) and footer[0].startswith(_CLAUDE_FOOTERS)
    return AgentInput.EMPTY if knows_footer else AgentInput.UNKNOWN


RECOGNISERS: Mapping[str, Callable[[Sequence[Row]], AgentInput]] = {"claude": _claude}
"""Whose screens are known. Others are never typed into."""
