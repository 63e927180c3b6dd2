"""A session and its recording: what the keeper may forget is in the file, whatever the keeper tells."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from fairlead.keeper.protocol import KEYFRAME, MARK, MAX_NOTE, NUMBER, OFFSET, FrameKind
from fairlead.terminal.ports import TerminalEvent
from fairlead.terminal.recording import Recorder
from fairlead.terminal.screen.screen import Screen
from fairlead.terminal.session import KEYFRAME_EVERY, TerminalSession
from tests.recordings import recorded_events, recorded_output

STATE = {"id": "work", "command": ["sh"], "cwd": "/", "pid": 5, "started_at": 0.0, "generation": 0}
STATE |= {"deferred": False, "cols": 80, "rows": 24}


class Keeper:
    """Takes what a session tells its keeper."""

    terminal = -1

    def __init__(self, path: Path, **state: Any) -> None:
        self.path = path
        self.notes: list[dict[str, Any]] = []
        self.keyframes: list[tuple[int, int]] = []
        self.events: list[TerminalEvent] = []
        self.session = TerminalSession(
            self,
            lambda session, event: self.events.append(event),
            scrollback_lines=100,
            scrollback_bytes=100_000,
        )
        self.session.heard(FrameKind.STATE, json.dumps(STATE | state).encode())

    def tell(self, kind: FrameKind, *parts: bytes) -> None:
        if kind is FrameKind.SET_NOTE:
            self.notes.append(json.loads(b"".join(parts)))
        elif kind is FrameKind.SET_KEYFRAME:
            offset, generation = KEYFRAME.unpack(parts[0])
            self.keyframes.append((offset, generation))
            written = re.findall(r"\n# fairlead offset=(\d+) generation=(\d+) ", self.path.read_text())[-1]
            assert (int(written[0]), int(written[1])) == (offset, generation), "the keeper forgets too much"

    def type(self, data: bytes) -> int:
        return len(data)

    def borrow(self) -> None:
        pass

    def give_back(self) -> None:
        pass

    def print(self, offset: int, data: bytes) -> None:
        self.session.heard(FrameKind.DATA, OFFSET.pack(offset) + data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "work.cast"
    Recorder.create(str(path), (80, 24), title="work", command=["sh"]).close()
    return path


def test_what_a_keyframe_lets_the_keeper_forget_is_in_the_file(path: Path) -> None:
    keeper = Keeper(path, note={"recording": str(path)})
    piece = "é".encode() * 30_001
    offset = 0
    while len(keeper.keyframes) < 3:
        keeper.print(offset, piece[:-1] if offset % 2 else piece)
        offset += len(piece) - offset % 2
        keeper.session.heard(FrameKind.RESIZED, MARK.pack(offset, 80, 24 + offset % 2, len(keeper.keyframes)))
    assert offset > 3 * KEYFRAME_EVERY
    keeper.print(offset, b"\xc3")
    keeper.session.keep()
    assert path.read_text().endswith(" held=c3\n")


def test_a_recording_is_noted_and_forgotten_with_an_event(path: Path) -> None:
    keeper = Keeper(path)
    keeper.print(0, b"before ")
    other = f"{path}.other"
    keeper.session.record(other)
    file = keeper.session.recording_file
    assert file == f"{os.stat(other).st_dev}:{os.stat(other).st_ino}"
    assert keeper.notes == [{"recording": other, "recording_file": file}]
    keeper.print(7, b"after")
    keeper.session.stop_recording()
    assert keeper.notes[1:] == [{"last_recording": other, "recording_file": file}]
    assert keeper.session.recording is None
    assert keeper.session.last_recording == other
    told = {"name": "work", "path": other}
    assert keeper.events == [
        TerminalEvent("terminal/recording", told | {"recording": True}),
        TerminalEvent("terminal/recording", told | {"recording": False}),
    ]
    with Screen(80, 24) as screen:
        screen.feed(recorded_output(other).encode())
        assert screen.text() == "before after"


def test_a_recording_that_fails_is_told_and_the_session_goes_on(path: Path) -> None:
    keeper = Keeper(path, note={"recording": str(path)})
    keeper.print(0, b"one ")
    path.unlink()
    keeper.session.write_recording()
    keeper.print(4, b"two")
    keeper.session.write_recording()
    keeper.session.heard(FrameKind.EXITED, NUMBER.pack(0))
    assert keeper.session.screen.text() == "one two"
    why = f"can't continue {path}: the file was removed"
    assert keeper.notes == [{"last_recording": str(path), "recording_error": why}]
    (failed,) = (event for event in keeper.events if event.topic == "terminal/recording")
    assert failed.data["error"] == f"can't continue {path}: the file was removed"


def test_after_a_daemon_that_could_not_record_the_screen_comes_first(path: Path) -> None:
    keeper = Keeper(path, note={"recording": str(path)})
    with Screen(90, 20) as screen:
        screen.feed(b"lost and seen")
        keeper.session.heard(FrameKind.KEYFRAME, KEYFRAME.pack(1000, 2) + screen.snapshot())
    keeper.print(1000, b" and more")
    keeper.session.heard(FrameKind.EXITED, NUMBER.pack(0))
    assert [code for code, _ in recorded_events(path)] == ["m", "r", "o", "x"]
    with Screen(90, 20) as screen:
        screen.feed(recorded_output(path).encode())
        assert screen.text() == "lost and seen and more"


def test_a_keeper_that_knows_no_notes_is_recorded_too(path: Path) -> None:
    keeper = Keeper(path)
    older = TerminalSession(
        keeper, lambda *_: None, scrollback_lines=100, scrollback_bytes=1000, note={"recording": str(path)}
    )
    older.heard(FrameKind.STATE, json.dumps(STATE).encode())
    assert older.recording == str(path)
    assert keeper.notes == [{"recording": str(path)}]
    older.heard(FrameKind.DATA, OFFSET.pack(0) + b"hello")
    older.write_recording()
    assert recorded_output(path) == "hello"


def test_a_note_has_a_limit(path: Path) -> None:
    keeper = Keeper(path)
    keeper.session.remember(a=1, b=2)
    keeper.session.remember(a=None)
    with pytest.raises(ValueError, match=f"a keeper takes at most {MAX_NOTE}"):
        keeper.session.remember(b="x" * MAX_NOTE)
    assert keeper.notes == [{"a": 1, "b": 2}, {"b": 2}]
    assert keeper.session.note == {"b": 2}
