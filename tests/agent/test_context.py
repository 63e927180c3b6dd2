"""What a session keeps of its journal is at any time what a new look at the whole of it gives."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.agent.context import STOPPED, Course, JournalTurn
from fairlead.agent.journal import Body, Compaction, Custom, CustomMessage, Journal, Said, SessionInfoEntry
from fairlead.agent.messages import Assistant, Text, ToolCall, ToolResult, Usage, user

CALL = ToolCall("c", "read", {"path": "x"})
BODIES: tuple[Body, ...] = (
    Said(user("a question")),
    Said(user("wait", origin="steer")),
    Said(user("again", origin="correction")),
    Said(Assistant((Text("an answer"),), usage=Usage(total_tokens=100))),
    Said(Assistant((Text("without usage"), CALL))),
    Said(Assistant((), stop_reason="error", error_message="no")),
    Said(ToolResult("c", "read", (Text("roses"),))),
    Custom(STOPPED, "interrupted"),
    CustomMessage("x", "said by a program"),
    SessionInfoEntry("name"),
)
STEPS = st.one_of(
    st.sampled_from(BODIES),
    st.tuples(st.sampled_from(("go to", "compact")), st.integers(0, 30)),
)


@settings(max_examples=100)
@given(st.lists(STEPS, max_size=30))
def test_what_is_kept_is_what_a_new_look_gives(steps: list[Body | tuple[str, int]]) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        Journal.create(str(Path(directory, "x.jsonl")), id="x", cwd="/") as journal,
    ):
        kept = Course(journal)
        for step in steps:
            if not isinstance(step, tuple):
                journal.append(step)
            elif journal.entries:
                id = journal.entries[step[1] % len(journal.entries)].id
                if step[0] == "go to":
                    journal.leaf = id
                else:
                    journal.append(Compaction("in short", id))
            new = Course(journal)
            assert (kept.turns, kept.said, kept.shown) == (new.turns, new.said, new.shown)
            assert (kept.tokens, kept.counts) == (new.tokens, new.counts)


def test_a_turn_has_its_lines_its_corrections_and_its_end(tmp_path: Path) -> None:
    with Journal.create(str(tmp_path / "x.jsonl"), id="x", cwd="/") as journal:
        for body in (BODIES[9], BODIES[3], BODIES[0], BODIES[1], BODIES[3], BODIES[2], BODIES[5]):
            journal.append(body)
        for body in (BODIES[0], BODIES[4], BODIES[6], BODIES[7], BODIES[0], BODIES[9]):
            journal.append(body)
        assert Course(journal).turns == [
            JournalTurn(1, "a question", 4, 8, 1, "failed", "no"),
            JournalTurn(2, "a question", 9, 12, 0, "interrupted", ""),
            JournalTurn(3, "a question", 13, 14, 0, "lost", ""),
        ]
