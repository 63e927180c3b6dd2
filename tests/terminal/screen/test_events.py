"""What a program says besides: questions are answered, and what happens becomes events, within bounds."""

from __future__ import annotations

import socket

import pytest

from fairlead.terminal.screen.events import MAX_CLIPBOARD, MAX_EVENT_TEXT, MAX_EVENTS, MAX_REPLIES
from fairlead.terminal.screen.screen import (
    Bell,
    Clipboard,
    Cwd,
    Event,
    Notification,
    Progress,
    Screen,
    Title,
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (b"\x1b[c", b"\x1b[?62;22c"),
        (b"\x1b[>c", b"\x1b[>1;0;0c"),
        (b"\x1b[5n", b"\x1b[0n"),
        (b"\x1b[3;5H\x1b[6n", b"\x1b[3;5R"),
        (b"\x1b[?2004$p", b"\x1b[?2004;2$y"),
        (b"\x1b[?2004h\x1b[?2004$p", b"\x1b[?2004;1$y"),
        (b"\x1b[4$p", b"\x1b[4;2$y"),
        (b"\x1b[>q", b"\x1bP>|fairlead\x1b\\"),
        (b"\x1b[?u", b"\x1b[?0u"),
        (b"\x1b[>5u\x1b[?u", b"\x1b[?5u"),
        (b"\x1b]10;?\x07", b"\x1b]10;rgb:d8d8/d8d8/d8d8\x07"),
        (b"\x1b]11;?\x1b\\", b"\x1b]11;rgb:1010/1010/1010\x1b\\"),
        (b"\x1b]11;#abcdef\x07\x1b]11;?\x07", b"\x1b]11;rgb:abab/cdcd/efef\x07"),
        (b"\x1b]4;1;?\x07", b"\x1b]4;1;rgb:cccc/6666/6666\x07"),
        (b"\x1b[18t", b"\x1b[8;24;80t"),
        (b"\x1b[14t", b"\x1b[4;384;640t"),
        (b"\x1b[16t", b"\x1b[6;16;8t"),
        (b"\x1b[?996n", b"\x1b[?997;1n"),
        (b"\x1b[1;31m\x1bP$qm\x1b\\", b"\x1bP1$r0;1;31m\x1b\\"),
        (b"\x1b[2;5r\x1bP$qr\x1b\\", b"\x1bP1$r2;5r\x1b\\"),
        (b"\x1b[?2048h", b"\x1b[48;24;80;384;640t"),
    ],
)
def test_a_question_is_answered(question: bytes, answer: bytes) -> None:
    screen = Screen(80, 24)
    screen.feed(question)
    assert screen.take_replies() == answer
    assert screen.take_replies() == b""


@pytest.mark.parametrize(
    "question", [b"\x1b[21t", b"\x1b]52;c;?\x07", b"\x05", b"\x1b_Gi=1,a=q;AAAA\x1b\\", b"\x1b[0x"]
)
def test_what_would_give_something_away_or_is_not_there_is_not_answered(question: bytes) -> None:
    screen = Screen(80, 24)
    screen.feed(b"\x1b]2;rm -rf\x07" + question)
    assert screen.take_replies() == b""


def test_a_program_that_asked_to_be_told_hears_of_a_new_size() -> None:
    screen = Screen(80, 24)
    screen.feed(b"\x1b[?2048h")
    screen.take_replies()
    screen.resize(100, 30)
    assert screen.take_replies() == b"\x1b[48;30;100;480;800t"


def test_answers_that_nobody_takes_are_bounded_and_whole() -> None:
    screen = Screen(80, 24)
    for _ in range(300):
        screen.feed(b"\x1b[5n" * 300)
    replies = screen.take_replies()
    assert MAX_REPLIES - 10 < len(replies) <= MAX_REPLIES
    assert replies == b"\x1b[0n" * (len(replies) // 4)


@pytest.mark.parametrize(
    ("printed", "events"),
    [
        (b"\x07", [Bell()]),
        (b"\x07\x07\x07", [Bell()]),
        (b"\x1b]2;a title\x07", [Title("a title")]),
        (b"\x1b]0;both\x1b\\", [Title("both")]),
        ("\x1b]2;títle 日\x07".encode(), [Title("títle 日")]),
        (b"\x1b]7;file:///a%20b/%C3%A9\x07", [Cwd("/a b/é")]),
        (b"\x1b]7;file://localhost/x\x07", [Cwd("/x")]),
        (b"\x1b]7;file://%b/x\x07" % socket.gethostname().encode(), [Cwd("/x")]),
        (b"\x1b]7;file://elsewhere.example/x\x07", [Cwd("")]),
        (b"\x1b]7;kitty-shell-cwd://localhost/a%20b\x07", [Cwd("/a%20b")]),
        (b"\x1b]9;9;/plain\x07", [Cwd("/plain")]),
        (b"\x1b]9;done\x07", [Notification("", "done")]),
        (b"\x1b]777;notify;Title;Body\x07", [Notification("Title", "Body")]),
        (b"\x1b]99;;Hello\x1b\\", [Notification("Hello", "")]),
        (b"\x1b]99;i=1:d=0;Hello\x1b\\\x1b]99;i=1:p=body;World\x1b\\", [Notification("Hello", "World")]),
        (b"\x1b]99;i=1:e=1;SGVsbG8=\x07", [Notification("Hello", "")]),
        (b"\x1b]99;i=1:p=icon;x\x07\x1b]99;i=1:p=?;\x07", []),
        (b"\x1b]99;i=1;cancelled\x18", []),
        (b"\x1b]99;e=1;not base64\x07", []),
        (b"\x1b]5522;type=write\x1b\\\x1b]5522;type=wdata:mime=dGV4dC9wbGFpbg==;aGk=\x1b\\\x1b]5522;type=wdata\x1b\\",
         [Clipboard("clipboard", b"hi")]),
        (b"\x1b]9;4;1;50\x07", [Progress("set", 50)]),
        (b"\x1b]9;4;3\x07", [Progress("indeterminate", None)]),
        (b"\x1b]9;4;2;10\x07\x1b]9;4;4;20\x07\x1b]9;4;0\x07",
         [Progress("error", 10), Progress("pause", 20), Progress("remove", None)]),
        (b"\x1b]52;c;aGk=\x07", [Clipboard("clipboard", b"hi")]),
        (b"\x1b]52;p;aGk=\x07", [Clipboard("primary", b"hi")]),
        (b"\x1b]52;c;not base64!\x07", []),
    ],
)  # fmt: skip
def test_what_happens_is_an_event_however_it_is_cut(printed: bytes, events: list[Event]) -> None:
    for step in (len(printed), 1, 3, 7):
        screen = Screen(80, 24)
        for start in range(0, len(printed), step):
            screen.feed(printed[start : start + step])
        assert screen.take_events() == events
        assert screen.take_events() == []


def test_of_titles_that_come_at_once_only_the_last_is_told() -> None:
    screen = Screen(80, 24)
    screen.feed(b"\x1b]2;one\x07\x1b]2;two\x07")
    assert screen.take_events() == [Title("two")]


def test_an_event_that_was_cut_by_a_keyframe_still_happens() -> None:
    for printed, event in (
        (b"\x1b]2;a title\x07", Title("a title")),
        (b"\x1b]99;;Hello\x07", Notification("Hello", "")),
        (b"\x1b]52;c;aGk=\x07", Clipboard("clipboard", b"hi")),
    ):
        for cut in range(len(printed)):
            screen = Screen(80, 24)
            screen.feed(printed[:cut])
            screen = Screen.restore(screen.snapshot())
            screen.feed(printed[cut:])
            assert screen.take_events() == [event]


def test_title_and_directory_are_properties_too() -> None:
    screen = Screen(80, 24)
    assert (screen.title, screen.cwd) == ("", "")
    screen.feed(b"\x1b]2;vi poem\x07\x1b]7;file:///srv\x07")
    assert (screen.title, screen.cwd) == ("vi poem", "/srv")


def test_events_that_nobody_takes_are_bounded_and_the_newest_kept() -> None:
    screen = Screen(80, 24)
    for number in range(MAX_EVENTS + 50):
        screen.feed(b"\x1b]9;note %d\x07" % number)
    events = screen.take_events()
    assert len(events) == MAX_EVENTS
    assert events[-1] == Notification("", f"note {MAX_EVENTS + 49}")


def test_clipboards_are_bounded_together() -> None:
    screen = Screen(80, 24)
    for number in range(20):
        screen.feed(b"\x1b]52;c;" + b"QUFB" * 40_000 + b"QUJ%c" % (65 + number) + b"\x07")
    events = screen.take_events()
    assert 1 < len(events) < 10
    assert all(isinstance(event, Clipboard) and len(event.data) <= MAX_CLIPBOARD for event in events)


def test_long_texts_are_cut() -> None:
    screen = Screen(80, 24)
    screen.feed(b"\x1b]99;i=1:d=0;" + b"x" * 3000 + b"\x07")
    screen.feed(b"\x1b]99;i=1:d=0;" + b"y" * 3000 + b"\x07")
    screen.feed(b"\x1b]99;i=1;" + b"z" * 3000 + b"\x07")
    (event,) = screen.take_events()
    assert isinstance(event, Notification)
    assert len(event.title) == MAX_EVENT_TEXT


def test_a_notification_in_parts_that_never_ends_is_forgotten() -> None:
    screen = Screen(80, 24)
    for number in range(1000):
        screen.feed(b"\x1b]99;i=%d:d=0;part\x07" % number)
    screen.feed(b"\x1b]99;i=999;whole\x07\x1b]99;i=1;late\x07")
    assert screen.take_events() == [Notification("partwhole", ""), Notification("late", "")]


def test_a_prompt_is_noticed() -> None:
    screen = Screen(80, 24)
    assert not screen.at_prompt
    screen.feed(b"\x1b]133;A\x07$ \x1b]133;B\x07")
    assert screen.at_prompt
    screen.feed(b"ls\r\n\x1b]133;C\x07file\r\n")
    assert not screen.at_prompt
