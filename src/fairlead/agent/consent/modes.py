"""The modes of an agent session of our own: what a person is asked about before it is done.

In `ask`, the rules of consent decide alone. In `accept`, files of the project may be changed without asking,
unless a rule asks, or the file is one that others run or obey because it is there; commands still ask. In
`plan`, nothing is changed and no command runs, whatever rules and answers say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ..ports import Decision, JudgedCall
from ..tools import Touch
from .obeyed import why_asked
from .policy import care_for

ASK, ACCEPT, PLAN = "ask", "accept", "plan"
NAMES: Mapping[str, str] = MappingProxyType({ASK: "ask", ACCEPT: "accept edits", PLAN: "plan"})
"""The modes, from the usual one on, and what people call them."""
PLANNING = (
    "The person has chosen plan mode: nothing may be changed and no command can be run, and calls that would "
    "are denied. Read and search what you need, and answer with a plan of what you would change, and where."
)
"""What a model is told in plan mode."""

_PLANNED = "plan mode: nothing is changed and no command runs; say what you would do instead"
_ACCEPTED = "accept edits: a file of the project"


def in_mode(mode: str, project: Path, touch: Touch, verdict: JudgedCall) -> JudgedCall:
    """What is done about a call, given what the rules say of it. `project` has links followed."""
    if mode == PLAN and touch.effect != "read":
        return Decision("deny", _PLANNED)
    if mode != ACCEPT or touch.effect != "write" or verdict.decision != "ask" or not verdict.is_default:
        return verdict
    if len(touch.paths) != 1 or touch.command is not None or care_for(touch.effect, touch.paths[0]):
        return verdict
    if why := why_asked(project, touch.paths[0], touch.links):
        return Decision("ask", why)
    return Decision("allow", _ACCEPTED)
