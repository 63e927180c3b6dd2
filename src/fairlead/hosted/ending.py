"""How a turn of a hosted agent ends, by what the agent says of it. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..agent.answer import NOTHING_USED
from ..agent.events import Outcome
from ..agent.messages import StopReason, Usage
from ..wire import acp


class Ending(NamedTuple):
    """How a turn ends."""

    outcome: Outcome
    stop: StopReason
    error: str | None = None


DONE, ABORTED = Ending("done", "stop"), Ending("aborted", "aborted", "Aborted")
_ENDINGS: Mapping[str, Ending] = {
    "end_turn": DONE,
    "cancelled": ABORTED,
    "max_tokens": Ending("failed", "length"),
    "max_turn_requests": Ending("failed", "error", "it reached its limit of requests in a turn"),
    "refusal": Ending("failed", "error", "it refused to go on"),
}
"""By the agent's reason to stop."""


def ending_of(agent: str, reason: str) -> Ending:
    """How a turn ends for which an agent gives this reason. One that is not known is not success."""
    unknown = Ending("failed", "error", f"it stopped for a reason that is not known: {reason!r:.100}")
    ending = _ENDINGS.get(reason, unknown)
    return ending._replace(error=f"{agent}: {ending.error}") if ending.stop == "error" else ending


def usage_of(result: acp.PromptResult) -> Usage:
    """The tokens of a turn, as far as an agent tells them."""
    used = result.usage
    if used is None:
        match result.meta:
            case {"quota": {"token_count": {"input_tokens": int(read), "output_tokens": int(said)}}}:
                return Usage(read, said, 0, 0, read + said)  # Gemini's way
        return NOTHING_USED
    return Usage(
        used.input_tokens,
        used.output_tokens,
        used.cached_read_tokens or 0,
        used.cached_write_tokens or 0,
        used.total_tokens,
    )
