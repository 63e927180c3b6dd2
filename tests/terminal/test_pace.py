"""How long the steps are in which output is drawn, and what is left of sequences that ask for much."""

from __future__ import annotations

import pytest

from fairlead.terminal.pace import LONG_STEP, STEP, WARY_FOR, WARY_STEP, Pace, cut_down
from fairlead.terminal.screen.screen import Screen

CHEAP, COSTLY = 5e-9, 1e-6


def good_until(pace: Pace, step: int) -> int:
    """How many bytes of text it takes until the steps are so long."""
    drawn = 0
    while pace.step != step:
        pace.drew(4096, 4096 * CHEAP)
        drawn += 4096
        assert drawn < 1 << 30
    return drawn


def test_who_prints_costly_sequences_is_trusted_ever_later() -> None:
    pace = Pace()
    assert pace.step == STEP
    needed = [good_until(pace, LONG_STEP)]
    for _ in range(8):
        pace.drew(4096, 4096 * COSTLY)
        assert pace.step == WARY_STEP
        needed.append(good_until(pace, LONG_STEP))
    assert needed == sorted(needed)
    assert needed[-1] > 16 * WARY_FOR


@pytest.mark.parametrize("count", [1, 79, 80, 1919, 1920, 3839, 3840, 3841, 3919, 5000, 65_535, 999_999_999])
def test_a_repetition_that_is_cut_down_looks_the_same(count: int) -> None:
    stream = b"begin\r\nA\x1b[%db\r\nend" % count
    with Screen(80, 24) as whole, Screen(80, 24) as less:
        whole.feed(stream)
        less.feed(cut_down(stream, 80, 24))
        assert len(cut_down(stream, 80, 24)) == len(stream)
        assert less.text() == whole.text()
        assert less.cursor == whole.cursor


def test_resets_that_follow_each_other_are_one() -> None:
    assert cut_down(b"a\x1bc\x1bc\x1bcb\x1bcc", 80, 24) == b"a\x1bc\0\0\0\0b\x1bcc"


def test_a_screen_cuts_down_what_was_costly() -> None:
    with Screen(80, 24) as screen:
        screen.feed(b"A\x1b[65535b" * 1000)
        screen.feed(b"\x1bc\x1b[3Jbegin\r\n")
        screen.feed(b"A\x1b[65535b")
        assert screen.text(scrollback=True).startswith("begin")
        assert len(screen.text(scrollback=True).splitlines()) < 60  # and not 820
