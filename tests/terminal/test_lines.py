"""Lines of what a program prints, and those who follow them."""

from __future__ import annotations

import json

import pytest

from fairlead.keeper.protocol import NUMBER, OFFSET, FrameKind
from fairlead.terminal import lines
from fairlead.terminal.lines import Followers, LineFollower, Lines, LoggedLines, kept
from fairlead.terminal.session import TerminalSession

# --- followers ----------------------------------------------------------------------------------------------


class Nobody:
    """A keeper that is told things and does nothing."""

    terminal = -1

    def tell(self, kind: FrameKind, *parts: bytes) -> None:
        pass

    def type(self, data: bytes) -> int:
        return len(data)

    def borrow(self) -> None:
        pass

    def give_back(self) -> None:
        pass


def a_session() -> TerminalSession:
    session = TerminalSession(
        Nobody(), lambda session, event: None, scrollback_lines=1000, scrollback_bytes=1 << 20
    )
    state = {
        "id": "work",
        "command": ["sh"],
        "cwd": "/",
        "pid": 1,
        "started_at": 0.0,
        "generation": 0,
        "deferred": False,
        "cols": 20,
        "rows": 5,
    }
    session.heard(FrameKind.STATE, json.dumps(state).encode())
    return session


def prints(session: TerminalSession, data: bytes) -> None:
    session.heard(FrameKind.DATA, OFFSET.pack(0) + data)


def ends(session: TerminalSession) -> None:
    session.heard(FrameKind.EXITED, NUMBER.pack(0))


def test_a_follower_gets_what_comes_after_it_came() -> None:
    session = a_session()
    prints(session, b"one\r\n" + b"x" * 50 + b"\r\nbeg")
    follower = LineFollower(session)
    assert follower.before == LoggedLines(["one", "x" * 50], 2, 1, True)
    assert follower.take(3, 10) == Lines(3, [], False)
    prints(session, b"un\r\nnext\r\nrest")
    assert follower.take(3, 1) == Lines(3, ["begun"], False)
    assert follower.take(3, 10) == Lines(3, ["begun", "next"], False)  # asked again, as it was not received
    assert follower.take(4, 10) == Lines(4, ["next"], False)
    ends(session)
    assert follower.take(5, 10) == Lines(5, ["rest"], True)
    assert follower.take(6, 10) == Lines(6, [], True)


def test_lines_that_nobody_takes_are_dropped_and_their_numbers_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    session = a_session()
    follower = LineFollower(session)
    monkeypatch.setattr(lines, "MAX_HELD_LINES", 3)
    prints(session, b"a\r\nb\r\nc\r\nd\r\ne\r\n")
    assert follower.take(1, 10) == Lines(3, ["c", "d", "e"], False)
    monkeypatch.setattr(lines, "MAX_HELD_CHARS", 5)
    prints(session, b"long\r\nlong\r\n")
    assert follower.take(6, 10) == Lines(7, ["long"], False)


def test_an_answer_is_not_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    session = a_session()
    follower = LineFollower(session)
    monkeypatch.setattr(lines, "MAX_TAKEN_CHARS", 10)
    prints(session, b"a" * 15 + b"\r\n" + b"b\r\n" * 3)
    ends(session)
    assert follower.take(1, 10) == Lines(1, ["a" * 15], False)
    assert follower.take(2, 10) == Lines(2, ["b", "b", "b"], True)


def test_who_does_not_ask_any_more_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    session = a_session()
    followers = Followers()
    first, second = followers.add(session), followers.add(session)
    assert followers.find(first.id) is first
    first.asked_at -= 2 * lines.PATIENCE
    prints(session, b"x\r\n")
    assert followers.find(first.id) is None
    assert len(session.taps) == 1
    monkeypatch.setattr(lines, "MAX_FOLLOWERS", 2)
    followers.add(session)  # in the place of the first
    with pytest.raises(ValueError, match="2 clients are already following sessions"):
        followers.add(session)
    followers.remove(second)
    assert followers.find(second.id) is None
    assert len(session.taps) == 1


def test_lines_have_the_numbers_they_were_printed_with_when_earlier_ones_are_gone() -> None:
    session = a_session()
    prints(session, b"".join(b"line %d\r\n" % number for number in range(1, 20_001)))
    prints(session, b"\x1b[?1049hdrawn\r\n\n\n\x1b[?1049l")
    found = kept(session)
    assert not found.is_complete
    assert found.texts[0] == f"line {found.first}"
    assert LineFollower(session).take(0, 1).first == 20_001
    prints(session, b"\x1b[?1049hdrawn\r\n\n\n")
    assert kept(session).first == found.first


def test_a_screen_that_is_drawn_over_is_complete() -> None:
    session = a_session()
    for number in range(100):
        prints(session, b"\x1b[Hone %d\r\ntwo %d\r\n" % (number, number))
    assert kept(session) == LoggedLines(["one 99", "two 99", "", "", ""], 2, 1, True)
