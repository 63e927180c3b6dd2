"""A class name occurs once, so that a name says what is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src/fairlead"
TWINS = {"client/aio.py", "client/sdk.py", "client/streams.py", "client/aio_streams.py"}
"""The SDK for asyncio and the one without: the same API."""
TWO_SIDES = {
    # what the daemon posts, and what its clients get of it
    *("ApprovalSettled", "ApprovalWanted", "Bell", "Exited", "Failed", "Notification", "Progress"),
    *("PromptEnded", "PromptStarted", "Retrying", "Title", "TurnBegan", "TurnEnded", "Updated"),
    *("Event", "Message", "Session", "Text", "ToolResult"),
    # a request of a client, and as the daemon has it
    "Call",
    # what ACP and Pi's protocol carry, and what a session has of it
    *("Cost", "Diff", "Image", "Prompt", "Report", "ToolCall", "Usage"),
    # the frames of keepers, and of the protocols
    "Decoder",
}
"""The same idea on the two sides of a wire."""


def test_a_class_name_occurs_once() -> None:
    places = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    wrong = {}
    for name, found in places.items():
        others = [each for each in found if each not in TWINS or name in TWO_SIDES]
        # each protocol and format has words of its own, which it shares with the others
        own = [each for each in others if not each.startswith(("wire/", "formats/"))]
        if name not in TWO_SIDES and (len(own) > 1 or (own and len(others) > 1)):
            wrong[name] = found
    assert not wrong
    assert {name for name in TWO_SIDES if len(places[name]) < 2} == set(), "these occur once now"
