"""An escape counts only as single presses; everything else reaches the program, in order and whole."""

from __future__ import annotations

import pytest

from fairlead.system.escape_keys import escapes_of
from fairlead.system.settings import SettingError, Settings
from fairlead.ui.escape import DOUBLE_WAIT, FIRST_HOLD, NEXT_HOLD, QUIET, Escape

SOON = 0.1


def made(setting: str | None = None) -> Escape:
    return Escape(
        escapes_of(Settings({"HOME": "/nowhere"} | ({"FAIRLEAD_ATTACH_ESCAPE": setting} if setting else {})))
    )


def typed(escape: Escape, *reads: bytes, gap: float = SOON) -> bytes:
    """What the program gets of reads that come one after the other, and then nothing for long."""
    out, now = b"", 0.0
    for data in reads:
        now += gap
        if escape.until is not None and now >= escape.until:
            out += escape.expire()
        if not escape.left:
            out += escape.take(data, now)
    if escape.until is not None:
        out += escape.expire()
    return out


@pytest.mark.parametrize(
    ("setting", "reads", "passed"),
    [
        (None, (b",", b",", b",", b"d"), b""),
        (None, (b"a", b",", b",", b",", b",", b",", b"d"), b"a,,"),
        (None, (b"x", b"\x1c"), b"x"),
        (None, (b"\x1b[44u", b"\x1b[44;1:3u", b"\x1b[44u", b"\x1b[44u", b"\x1b[100u\x1b[100;1:3u"), b""),
        (None, (b"\x1b[92;5u", b"\x1b[92;5:3u"), b""),
        (None, (b",", b"\x1b[<35;10;5M", b",", b",", b"d"), b""),
        (None, (b",", b",", b"\x1c"), b",,"),
        ("ctrl-a d", (b"\x01", b"d"), b""),
        ("ctrl-a ctrl-a", (b"\x01", b"\x01"), b""),
        ("ctrl-b x or ctrl-q", (b"\x02", b"y", b"\x11"), b"\x02y"),
    ],
)
def test_single_presses_leave_and_the_program_sees_nothing_of_them(
    setting: str | None, reads: tuple[bytes, ...], passed: bytes
) -> None:
    escape = made(setting)
    assert typed(escape, *reads) == passed
    assert escape.left


@pytest.mark.parametrize(
    ("setting", "reads", "passed"),
    [
        (None, (b",,,d",), None),
        (None, (b",,", b",d"), None),
        (None, (b",", b",", b",d"), None),
        (None, (b",", b",", b",", b"dls\r"), None),
        (None, (b",", b" ", b"b"), None),
        (None, (b",", b",", b"\x1b[A", b",", b"d"), None),
        (None, (b"\x1b[200~", b",", b",", b",", b"d", b"\x1b[201~"), None),
        (None, (b",", b"\x1b[200~,,d\x1b[201~"), None),
        (None, (b"a\x1cb",), None),
        (None, (b"\x1c", b"\x1c", b"x"), b"\x1cx"),
        (None, (b",", b",", b",", b"\x1b[100;5u"), None),
        (None, (b",",), None),
        ("ctrl-a d", (b"\x01", b"\x01", b"d"), b"\x01d"),
        ("ctrl-a d", (b"\x01", b"x"), None),
        ("ctrl-a d", (b"\x01d",), None),
        ("ctrl-a d", (b",", b",", b",", b"d", b"\x1c"), None),
    ],
)
def test_everything_else_goes_to_the_program(
    setting: str | None, reads: tuple[bytes, ...], passed: bytes | None
) -> None:
    escape = made(setting)
    assert typed(escape, *reads) == (b"".join(reads) if passed is None else passed)
    assert not escape.left


def test_what_follows_at_once_makes_it_a_paste() -> None:
    escape = made()
    assert typed(escape, b",", b",", b",", b"d", b"l", gap=QUIET / 2) == b",,,dl"
    assert typed(escape, b"\x1c", b"l", gap=QUIET / 2) == b"\x1cl"
    assert not escape.left


def test_a_key_after_the_control_key_that_leaves_is_dropped() -> None:
    escape = made()
    assert typed(escape, b"\x1c", b"l", gap=(QUIET + DOUBLE_WAIT) / 2) == b""
    assert escape.left


def test_keys_are_held_back_for_a_bounded_time() -> None:
    escape = made()
    assert escape.take(b",", 1.0) == b""
    assert escape.until == 1.0 + FIRST_HOLD
    assert escape.take(b",", 1.1) == b""
    assert escape.until == 1.1 + NEXT_HOLD
    assert escape.expire() == b",,"
    assert escape.until is None
    assert typed(escape, b",", b"d") == b",d"


def test_a_large_read_is_passed_on_and_what_comes_after_it_counts() -> None:
    escape = made()
    data = b",,,d\x1b[200~" * 1000
    assert typed(escape, b",", data, b",") == b"," + data + b","
    assert typed(escape, b"\x1b[201~", b"\x1c") == b"\x1b[201~"
    assert escape.left


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("x", "is a plain key"),
        ("ctrl-", "ctrl- must be followed by one letter"),
        ("ctrl-ab", "ctrl- must be followed by one letter"),
        ("ctrl-é", "ctrl- must be followed by one letter"),
        ("ctrl-[", "the Escape key"),
        ("é,", "plain ASCII"),
        (" or ", "must not be empty"),
        (",,,,,,,,d", "has 9 keys; at most 8"),
        (" or ".join(["ctrl-a"] * 9), "has 9 escapes; at most 8"),
        ("ctrl-a or ctrl-a d", "which is a prefix of 'ctrl-a d'"),
    ],
)
def test_an_escape_that_can_not_be_typed_is_refused(setting: str, fault: str) -> None:
    with pytest.raises(SettingError, match=r"^\[attach\] escape ") as raised:
        made(setting)
    assert fault in str(raised.value)
