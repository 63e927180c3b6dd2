"""How turns ended, by the last lines of real-looking transcripts."""

from __future__ import annotations

import json
from pathlib import Path

from fairlead.sessions.endings import ending_in

STOPPED = {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]}


def test_only_the_newest_lines_tell_of_a_turn_if_it_has_just_begun(tmp_path: Path) -> None:
    file = tmp_path / "transcript.jsonl"
    before = [{"type": "user", "message": STOPPED}]
    begun = [{"type": "file-history-snapshot"}]  # Claude Code writes this before the prompt
    file.write_text("".join(json.dumps(line) + "\n" for line in (*before, *begun)))
    assert ending_in(str(file)).outcome == "aborted"
    assert ending_in(str(file), newest=1).outcome is None
    assert ending_in(str(file), newest=2).outcome == "aborted"
    assert ending_in(str(file), last_line=1).outcome == "aborted"
