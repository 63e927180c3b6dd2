"""What agents in terminals have used, as their transcripts say: each line once, bounded, only what is new."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead.terminal import transcripts
from fairlead.terminal.transcripts import TranscriptFigures, TranscriptUse
from tests.hosting import Hosting


def claude(id: str, read: int, cached: int, said: int, **more: Any) -> str:
    usage = {"input_tokens": read, "cache_read_input_tokens": cached, "output_tokens": said}
    return json.dumps({"type": "assistant", "message": {"id": id, "usage": usage}, **more}) + "\n"


def pi(read: int, said: int, cost: float) -> str:
    usage = {"input": read, "output": said, "cost": {"total": cost}}
    return json.dumps({"type": "message", "message": {"role": "assistant", "usage": usage}}) + "\n"


def looked(found: TranscriptFigures, path: Path, times: int = 1) -> TranscriptUse | None:
    for _ in range(times):
        found.look({"work": str(path)})
    return found.of("work")


def test_a_message_counts_once_and_a_subagents_is_not_in_the_context(tmp_path: Path) -> None:
    path, found = tmp_path / "t.jsonl", TranscriptFigures()
    path.write_text(claude("a", 10, 1000, 3) * 2 + claude("b", 5, 0, 5, isSidechain=True) + '"usage" no\n')
    assert looked(found, path) == TranscriptUse(1023, 0.0, 1013)
    with path.open("a") as file:
        half = claude("c", 1, 2000, 7)
        file.write(half[:20])
        file.flush()
        assert looked(found, path) == TranscriptUse(1023, 0.0, 1013)
        file.write(half[20:] + claude("c", 1, 2000, 7))
    assert looked(found, path, 2) == TranscriptUse(3031, 0.0, 2008)
    path.write_text(pi(10, 2, 0.5) + pi(20, 3, 0.25))  # begun anew
    assert looked(found, path) == TranscriptUse(35, 0.75, 23)


def test_a_long_transcript_is_read_in_parts_and_told_when_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcripts, "MAX_LOOK", 4000)
    monkeypatch.setattr(transcripts, "MAX_LINE", 1000)
    path, found = tmp_path / "t.jsonl", TranscriptFigures()
    long = json.dumps({"type": "assistant", "message": {"text": "x" * 5000, "usage": {"input_tokens": 9}}})
    path.write_text("".join(claude(str(each), 1, 0, 0) for each in range(100)) + long + "\n")
    assert looked(found, path) is None
    assert looked(found, path, 10) == TranscriptUse(100, 0.0, 1)


def test_what_is_no_file_holds_nobody_up(tmp_path: Path) -> None:
    found = TranscriptFigures()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none", Path("/dev/zero")):
        assert looked(found, path) is None
    found.look({})
    assert found.of("work") is None


def test_a_row_has_what_the_agent_in_a_terminal_has_used(lent: Hosting, tmp_path: Path) -> None:
    path = tmp_path / "transcript.jsonl"
    path.write_text("")
    lent.start("work", "exec cat")
    lent.ask("terminal_turn", name="work", event="start", agent="claude", prompt="go", path=str(path))
    path.write_text(claude("a", 10, 1000, 3))

    def row() -> dict[str, Any]:
        (found,) = [each for each in lent.ask("session_list")["sessions"] if each["id"] == "work"]
        return dict(found)

    lent.until(lambda: row().get("tokens") == 1013)
    assert (row()["context_tokens"], "cost" in row()) == (1013, False)
    with path.open("a") as file:
        file.write(claude("b", 10, 1100, 4))
    lent.until(lambda: row().get("tokens") == 2127)
    lent.run("stop", "work")
