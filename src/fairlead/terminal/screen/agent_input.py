"""Whether an agent's screen shows its input, and whether that is empty: from what the rules say of it.

Typing into a dialog answers it, typing into a menu chooses from it, and Enter after a person's draft sends
that too. So whatever no rule (`terminal/state/rules.py`) knows exactly is `AgentInput.UNKNOWN`, in which
nothing may be typed.
"""

from __future__ import annotations

from enum import Enum

from ..state import rules
from .screen import Screen


class AgentInput(Enum):
    """What is known of an agent's input."""

    EMPTY = "empty"
    FILLED = "filled"
    UNKNOWN = "unknown"
    """A dialog, a menu, an agent that works, or a screen that is not known."""


_INPUTS = {"empty": AgentInput.EMPTY, "draft": AgentInput.FILLED}


def is_known(agent: str) -> bool:
    """True if there are rules for the screens of an agent, by its name in its hooks."""
    return any(each.agent == agent for each in rules.shipped())


def shown_input(agent: str, screen: Screen) -> AgentInput:
    """What a screen shows of the input of an agent, by the agent's name in its hooks."""
    known = next((each for each in rules.shipped() if each.agent == agent), None)
    found = known.look(rules.live_view(screen)) if known is not None else None
    if found is None or found.state != "idle":
        return AgentInput.UNKNOWN
    return _INPUTS.get(found.input, AgentInput.UNKNOWN)
