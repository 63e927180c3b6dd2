"""`fairlead play` on a real terminal: time, keys and jumps; and where there is none."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.cli.arguments import UsageError
from fairlead.cli.play import moment, speed
from fairlead.terminal.screen.screen import Screen
from fairlead.ui.cast import Cast, CastError
from fairlead.ui.own_terminal import RESTORE
from fairlead.ui.player import RESET, Player
from fairlead.ui.translate import Translator

WAIT = 30.0
"""Seconds until something that does not happen fails the test."""
HEADER = {"version": 3, "term": {"cols": 40, "rows": 6}}
STORY = [
    (0.0, "o", "one "),
    (4.0, "o", "two "),
    (1.0, "i", "typed"),
    (3.0, "o", "\x1b[2J\x1b[Hthree "),
    (2.0, "r", "50x7"),
    (0.0, "o", "four é"),
    (10.0, "x", "0"),
]
"""At 0, 4, 8 and 10 seconds, until 20."""
COMMAND = [sys.executable, "-m", "fairlead", "play"]


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def story(tmp_path: Path) -> Path:
    return written(tmp_path / "story.cast", HEADER, "# a comment\n", *STORY)


CLEARED = Translator(alternate=False).translate(RESET)
"""What a jump begins with."""


class Watching:
    """`fairlead play` on a terminal, and what that shows."""

    def __init__(self, *words: str | Path) -> None:
        self.terminal, theirs = pty.openpty()
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        command = [*COMMAND, *map(str, words)]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        self.seen = b""

    def until(self, text: bytes) -> bytes:
        """Read until a text comes; gives what came before it, since the last time."""
        while text not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], WAIT)
            assert ready, f"{text!r} did not come: {self.seen!r}"
            self.seen += os.read(self.terminal, 65_536)
        before, _, self.seen = self.seen.partition(text)
        return before

    def screen(self, text: bytes) -> str:
        """What the terminal shows after the next jump, once the text has come."""
        self.until(CLEARED)
        shown = self.until(text) + text
        with Screen(50, 7) as screen:
            screen.feed(shown)
            return screen.text()

    def type(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def end(self) -> int:
        self.until(RESTORE)
        code = self.process.wait(WAIT)
        assert termios.tcgetattr(self.theirs) == self.before
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)
        os.close(self.theirs)


@pytest.fixture
def slowly(story: Path) -> Iterator[Watching]:
    """So slow that nothing happens but by keys."""
    watching = Watching(story, "--speed", "0.01")
    watching.until(b"one ")
    yield watching
    watching.close()


def test_a_recording_plays_to_its_end_and_the_terminal_is_as_it_was(story: Path) -> None:
    watching = Watching(story, "--speed", "100")
    assert watching.until(b"four \xc3\xa9").endswith(b"one two \x1b[2J\x1b[Hthree ")
    assert watching.end() == 0
    watching.close()


def test_arrows_and_digits_jump_to_the_screen_of_that_time(slowly: Watching) -> None:
    slowly.type(b" \x1b[C")
    assert slowly.screen(b"two ") == "one two"
    slowly.type(b"\x1bOC")
    assert slowly.screen(b"four \xc3\xa9") == "three four é"
    slowly.type(b"<")
    assert slowly.screen(b"two ") == "one two"
    slowly.type(b"4")
    assert slowly.screen(b"three ") == "three"
    slowly.type(b"0")
    assert slowly.screen(b"one ") == "one"
    slowly.type(b"q")
    assert slowly.end() == 0


def test_when_paused_a_dot_is_one_event(slowly: Watching) -> None:
    slowly.type(b" .")
    slowly.until(b"two ")
    slowly.type(b".")
    slowly.until(b"three ")
    slowly.type(b".")
    slowly.until(b"four ")
    slowly.type(b"....\x03")
    assert slowly.end() == 0


def test_a_pause_holds_and_then_it_goes_on(slowly: Watching) -> None:
    slowly.type(b" " + b"+" * 20)
    slowly.type(b".")
    assert slowly.until(b"two ") == b""  # however fast it would go, only what was asked for is shown
    slowly.type(b" ")
    slowly.until(b"four ")
    assert slowly.end() == 0


def test_what_the_terminal_answers_is_no_key(slowly: Watching) -> None:
    slowly.type(b"\x1b[?62;9c\x1b]11;rgb:9999/0000/qqqq\x1b\\\x1b[5;9R\x1bP1+r9q\x1b\\ ")
    slowly.type(b".")
    slowly.until(b"two ")
    slowly.type(b"q")
    assert CLEARED not in slowly.until(RESTORE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_it_was(slowly: Watching, number: int) -> None:
    slowly.process.send_signal(number)
    assert slowly.end() == 128 + number


def test_a_recording_can_begin_later(story: Path) -> None:
    watching = Watching(story, "--from", "0:05", "--speed", "100")
    assert watching.screen(b"two ") == "one two"
    watching.until(b"four ")
    assert watching.end() == 0
    watching.close()


# --- where there is no terminal -----------------------------------------------------------------------------


def play(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=WAIT, check=False
    )


def test_into_a_pipe_all_is_written_at_once(story: Path) -> None:
    done = play(story)
    assert (done.returncode, done.stdout, done.stderr) == (0, "one two \x1b[2J\x1b[Hthree four é", "")
    assert play(story, "--to", "5").stdout == "one two "
    assert play(story, "--to", "0").stdout == "one "


@pytest.mark.parametrize("words", [(), ("--from", "1")])
def test_a_terminal_keeps_its_scrollback_whatever_is_played(tmp_path: Path, words: tuple[str, ...]) -> None:
    cast = tmp_path / "reset.cast"
    header = {"version": 2, "width": 40, "height": 5}
    events = [[0.5, "o", "first\x1bc\x1b[3Jafter a reset\r\n"], [1.5, "o", "second\x1b[3J\r\n"]]
    cast.write_text("\n".join(map(json.dumps, [header, *events])) + "\n")
    shown = play(cast, *words).stdout
    assert "second" in shown
    assert "\x1bc" not in shown
    assert "\x1b[3J" not in shown


def test_into_a_pipe_it_can_begin_later(story: Path) -> None:
    shown = play(story, "--from", "9", "--to", "9.5").stdout
    assert shown.startswith(CLEARED.decode())
    with Screen(40, 6) as screen:
        screen.feed(shown.encode())
        assert screen.text() == "three"


def test_without_an_emulator_a_jump_is_all_the_output_up_to_then(story: Path) -> None:
    reading, writing = os.pipe()
    with Cast(str(story)) as cast:
        Player(cast, start=5.0, make_filter=lambda: bytes).write(writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert pipe.read() == CLEARED + "one two \x1b[2J\x1b[Hthree four é".encode()


def test_version_2_counts_from_the_beginning(tmp_path: Path) -> None:
    lines = [{"version": 2, "width": 40, "height": 6}, [1.5, "o", "a"], [1.0, "o", "b"], [4, "o", "c"]]
    with Cast(str(written(tmp_path / "a.cast", *lines))) as cast:
        assert [cast.event(number)[::2] for number in range(3)] == [(1.5, "a"), (1.5, "b"), (4.0, "c")]
    assert (cast.header.cols, cast.header.rows, cast.duration) == (40, 6, 4.0)


def test_pauses_can_be_made_shorter_by_the_person_or_by_the_file(story: Path, tmp_path: Path) -> None:
    with Cast(str(story), idle_limit=1.5) as cast:
        assert [cast.time(number) for number in range(len(cast))] == [0, 1.5, 4.0, 5.5, 5.5]
        assert cast.duration == 7.0
    limited = written(tmp_path / "a.cast", HEADER | {"idle_time_limit": 2}, *STORY)
    for idle_limit, duration in ((None, 2 + 1 + 2 + 2 + 2), (100, 20)):
        with Cast(str(limited), idle_limit=idle_limit) as cast:
            assert cast.duration == duration


def test_a_recording_that_is_being_written_plays_as_far_as_it_has_come(tmp_path: Path) -> None:
    path = written(tmp_path / "a.cast", HEADER, [1, "o", "whole"], '[2, "o", "ha')
    assert play(path).stdout == "whole"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], " is empty; expected an asciicast recording"),
        (["hello\n"], ", line 1: not an asciicast header, which is a JSON object with a version"),
        ([{"version": 1}], ", line 1: asciicast version 1; expected 2 or 3"),
        (
            [HEADER, "# fine\n", [1, "o", "fine"], [1, "o"]],
            ", line 4: not an event, which is a JSON array of a time, a code and a text",
        ),
        ([HEADER, [-1, "o", "x"]], ", line 2: an event's time is -1; expected 0 to 1e+09 seconds"),
        ([HEADER, [1, "r", "wide"]], ", line 2: a resize to 'wide'; expected something like 80x24"),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_line(tmp_path: Path, lines: list[object], reason: str) -> None:
    path = written(tmp_path / "bad.cast", *lines)
    done = play(path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"fairlead play: {path}{reason}\n")


def test_a_file_that_cant_be_read_says_why(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        assert play(path).stderr == f"fairlead play: can't open {path}: {reason}\n"


def test_a_file_that_changes_while_it_is_played_is_an_error(story: Path) -> None:
    with Cast(str(story)) as cast:
        story.write_text("gone")
        with pytest.raises(CastError, match="was changed during playback"):
            cast.event(3)


# --- words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "value"),
    [("90", 90), ("1.5", 1.5), ("1:30", 90), ("1:02:03.5", 3723.5), ("0:00", 0), ("90:00", 5400)],
)
def test_a_time_is_seconds_or_a_clocks(word: str, value: float) -> None:
    assert moment(word) == value


@pytest.mark.parametrize(
    "word", ["1:99", "1:60:00", "", ":", "1:", ":30", "1:2:3:4", "-1", "1:-1", "x", "1:x", "nan", "1e99"]
)
def test_what_is_no_time_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        moment(word)


@pytest.mark.parametrize("word", ["0", "-1", "x", "nan", "inf", "1e6"])
def test_what_is_no_speed_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match=r"a number from 0.01 to 1000"):
        speed(word)


def test_an_end_before_the_beginning_is_wrong_usage(story: Path) -> None:
    done = play(story, "--from", "5", "--to", "4")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--to is before --from" in done.stderr
