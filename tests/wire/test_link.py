"""The first line of a link: found behind any noise, and nothing after it is used up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.wire import link


def found(*pieces: bytes) -> tuple[link.Greeting | None, bytes]:
    """The greeting in what comes in pieces, and what is left for the daemon's client."""
    search = link.Search()
    rest = list(pieces)
    while rest:
        piece = rest.pop(0)
        greeting, used = search.take(piece)
        if greeting is not None:
            return greeting, piece[used:] + b"".join(rest)
    return None, b""


def test_what_follows_the_greeting_is_left() -> None:
    greeting, rest = found(link.greeting(link.READY, "0.16.0") + b"{:kind}\n")
    assert greeting == link.Greeting("ready", ("0.16.0",))
    assert rest == b"{:kind}\n"


@given(
    noise=st.binary(max_size=300).filter(lambda data: link.MARK not in data),
    sizes=st.lists(st.integers(1, 40), max_size=20),
    after=st.binary(max_size=50),
)
def test_noise_in_any_pieces_is_skipped(noise: bytes, sizes: list[int], after: bytes) -> None:
    stream = noise + link.greeting(link.FAILED, "no daemon: a b") + after
    pieces = []
    for size in sizes:
        pieces.append(stream[:size])
        stream = stream[size:]
    greeting, rest = found(*filter(None, pieces), *filter(None, [stream]))
    assert greeting is not None
    assert greeting.text == "no daemon: a b"
    assert rest == after


def test_a_line_that_only_looks_like_it_is_noise() -> None:
    noise = b"FAIRLEAD-LINK is what you will see next\nFAIRLEAD-LINK x ready\nsay FAIRLEAD-LINK 1 ready 1\n"
    greeting, rest = found(noise, link.greeting(link.ABSENT) + b"x")
    assert greeting == link.Greeting("absent")
    assert rest == b"x"


def test_too_much_noise_is_noticed_and_not_kept() -> None:
    search = link.Search()
    for _ in range(link.MAX_NOISE // 1000 + 1):
        assert search.take(b"x" * 999 + b"\n") == (None, 1000)
    assert search.is_too_much
    assert len(search._heard) <= link.MAX_LINE


def test_the_last_line_of_the_noise_is_kept_for_messages() -> None:
    search = link.Search()
    search.take(b"welcome\nfairlead: not found\n\n")
    assert search.last_line == "fairlead: not found"


@given(st.text(max_size=50))
def test_words_come_back_as_they_were(word: str) -> None:
    quoted = link.quoted(word.encode("utf-8", "replace").decode())
    assert link.unquoted(quoted) == word.encode("utf-8", "replace").decode()
    assert set(quoted) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-%")


@pytest.mark.parametrize("word", ["%", "%zz", "%4", "100%", "%+1", "% 1"])
def test_what_is_no_escape_stays(word: str) -> None:
    assert link.unquoted(word) == word
