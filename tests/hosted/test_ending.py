"""How the turns of hosted agents end, and what they used."""

from __future__ import annotations

import pytest

from fairlead.agent.answer import NOTHING_USED
from fairlead.agent.messages import Usage
from fairlead.hosted.ending import usage_of
from fairlead.wire import acp

USED = acp.Usage(total_tokens=9, input_tokens=4, output_tokens=3, cached_read_tokens=2)
QUOTA = {"quota": {"token_count": {"input_tokens": 4, "output_tokens": 3}}}


@pytest.mark.parametrize(
    ("result", "usage"),
    [
        (acp.PromptResult(stop_reason="end_turn", usage=USED), Usage(4, 3, 2, 0, 9)),
        (acp.PromptResult(stop_reason="end_turn", meta=QUOTA), Usage(4, 3, 0, 0, 7)),
        (acp.PromptResult(stop_reason="end_turn", meta={"quota": {"token_count": "much"}}), NOTHING_USED),
        (acp.PromptResult(stop_reason="end_turn"), NOTHING_USED),
    ],
)
def test_the_tokens_of_a_turn_are_taken_as_the_agent_tells_them(
    result: acp.PromptResult, usage: Usage
) -> None:
    assert usage_of(result) == usage
