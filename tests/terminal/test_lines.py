"""Lines of what a program prints, and those who follow them."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.keeper.protocol import NUMBER, OFFSET, Kind
from fairlead.terminal import lines
from fairlead.terminal.lines import Follower, Followers, Kept, Lines, Splitter, kept
from fairlead.terminal.session import Session


def split(data: bytes) -> list[str]:
    splitter = Splitter()
    found = splitter.feed(data)
    return [*found, splitter.begun] if splitter.begun else found


@pytest.mark.parametrize(
    ("printed", "wanted"),
    [
        (b"", []),
        (b"one\ntwo\r\nthree", ["one", "two", "three"]),
        (b"\n\r\n\n", ["", "", ""]),
        (b"trailing  \n", ["trailing"]),
        (b"\x1b[1;31mred\x1b[0m and \x1b[38:2::1:2:3mmore\x1b[m\n", ["red and more"]),
        (b"\x1b]0;a title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", ["textlink"]),
        (b"\x1bP+q544e\x1b\\dcs \x1b_apc\x1b\\gone\n", ["dcs gone"]),
        (b"\x1b(Bset\x1b7\x1b8\x1b=\x1b>\x1bM\n", ["set"]),
        (b"10%\r55%\r100%\n", ["100%"]),
        (b"a long one\rshort\n", ["shortg one"]),
        (b"a long one\r\x1b[Kshort\n", ["short"]),
        (b"a long one\x1b[2K\rshort\n", ["short"]),
        (b"a long one\r\x1b[1Kshort\n", ["shortg one"]),
        (b"abc\b\bX\n", ["aXc"]),
        (b"\b\bx\n", ["x"]),
        (b"a\tb\tc\n12345678\tx\n", ["a       b       c", "12345678        x"]),
        (b"a\x1b[3Cb\x1b[Cc\n", ["a   b c"]),
        ("grüße 日本 🎈\n".encode(), ["grüße 日本 🎈"]),
        (b"bad \xff\xfe bytes\n", ["bad \ufffd\ufffd bytes"]),
        (b"bell\x07 nul\x00 shift\x0e\x0f del\x7f\n", ["bell nul shift del"]),
        (b"before\n\x1b[?1049hdrawn\nby vim\n\x1b[?1049lafter\n", ["before", "after"]),
        (b"\x1b\x1b[31mtwice\n", ["twice"]),
    ],
)
def test_lines_are_what_a_reader_would_see(printed: bytes, wanted: list[str]) -> None:
    assert split(printed) == wanted


PIECES = st.lists(
    st.sampled_from(
        [
            b"text",
            b"\r\n",
            b"\n",
            b"\r",
            b"\b",
            b"\t",
            b"\x1b[31m",
            b"\x1b[K",
            b"\x1b[2K",
            b"\x1b]2;t\x07",
            b"\x1b]8;;u\x1b\\",
            b"\x1bPq\x1b\\",
            b"\x1b[?1049h",
            b"\x1b[?1049l",
            b"\x1b(B",
            "日本é".encode(),
        ]
    )
).map(b"".join)


@given(printed=PIECES, cuts=st.lists(st.integers(0, 200)))
def test_it_does_not_matter_where_it_is_cut(printed: bytes, cuts: list[int]) -> None:
    splitter = Splitter()
    found: list[str] = []
    places = sorted({0, *(cut for cut in cuts if cut < len(printed)), len(printed)})
    for start, end in pairwise(places):
        found += splitter.feed(printed[start:end])
    whole = Splitter()
    assert (found, splitter.begun) == (whole.feed(printed), whole.begun)


@given(printed=st.binary())
def test_any_bytes_give_lines_without_control_characters(printed: bytes) -> None:
    for line in split(printed):
        assert all(char >= " " and char != "\x7f" for char in line)


def test_a_line_that_was_begun_before_goes_on() -> None:
    assert Splitter("$ ").feed(b"ls\r\n") == ["$ ls"]
    assert Splitter(alternate=True).feed(b"drawn\n\x1b[?1049lshown\n") == ["shown"]


def test_an_endless_line_and_an_endless_sequence_take_no_endless_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 10)
    assert Splitter().feed(b"x" * 25) == ["x" * 10, "x" * 10]
    monkeypatch.setattr(lines, "MAX_SEQUENCE", 10)
    splitter = Splitter()
    assert splitter.feed(b"\x1b]2;" + b"y" * 25) == []
    assert splitter.feed(b"z\n") == ["z"]


# --- followers ----------------------------------------------------------------------------------------------


class Nobody:
    """A keeper that is told things and does nothing."""

    def tell(self, kind: Kind, *parts: bytes) -> None:
        pass

    def type(self, data: bytes) -> int:
        return len(data)

    def borrow(self) -> None:
        pass

    def give_back(self) -> None:
        pass


def a_session() -> Session:
    session = Session(Nobody(), lambda session, event: None, scrollback_lines=1000, scrollback_bytes=1 << 20)
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
    session.heard(Kind.STATE, json.dumps(state).encode())
    return session


def prints(session: Session, data: bytes) -> None:
    session.heard(Kind.DATA, OFFSET.pack(0) + data)


def ends(session: Session) -> None:
    session.heard(Kind.EXITED, NUMBER.pack(0))


def test_a_follower_gets_what_comes_after_it_came() -> None:
    session = a_session()
    prints(session, b"one\r\n" + b"x" * 50 + b"\r\nbeg")
    follower = Follower(session)
    assert follower.before == Kept(["one", "x" * 50], 2, 1, True)
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
    follower = Follower(session)
    monkeypatch.setattr(lines, "MAX_HELD_LINES", 3)
    prints(session, b"a\r\nb\r\nc\r\nd\r\ne\r\n")
    assert follower.take(1, 10) == Lines(3, ["c", "d", "e"], False)
    monkeypatch.setattr(lines, "MAX_HELD_CHARS", 5)
    prints(session, b"long\r\nlong\r\n")
    assert follower.take(6, 10) == Lines(7, ["long"], False)


def test_an_answer_is_not_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    session = a_session()
    follower = Follower(session)
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
    with pytest.raises(ValueError, match="2 clients follow sessions already"):
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
    assert Follower(session).take(0, 1).first == 20_001
    prints(session, b"\x1b[?1049hdrawn\r\n\n\n")
    assert kept(session).first == found.first


def test_a_screen_that_is_drawn_over_is_complete() -> None:
    session = a_session()
    for number in range(100):
        prints(session, b"\x1b[Hone %d\r\ntwo %d\r\n" % (number, number))
    assert kept(session) == Kept(["one 99", "two 99", "", "", ""], 2, 1, True)
