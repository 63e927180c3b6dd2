"""The keys that leave a session are found in whatever way a terminal sends them."""

from __future__ import annotations

import pytest

from fairlead.client.typed import MAX_SEQUENCE, Typed

DETACHING = [
    b",,,d",
    b"abc,,,,,d",
    b"\x1b,,,d",  # Escape, as in an editor, and then the keys
    b"\x1b[A,,,d",
    b",\x1b[<35;10;5M,\x1b[I,\x1b[?1;2cd",  # the mouse, the focus and an answer are no keys
    b"\x1b[44u\x1b[44u\x1b[44u\x1b[100u",  # as kitty sends all keys, if asked
    b"\x1b[44;1:1u\x1b[44;1:3u\x1b[44;1:2u\x1b[44u\x1b[100;1:1;100u",  # with releases and repeats
    b"\x1b[57441;2u,,\x1b[44:59;1;44u\x1b[57441;1:3ud",  # with Shift on its own
    b"\x1b[200~pasted\x1b[201~,,,d",
    b"\x1b[" + b"1" * 2 * MAX_SEQUENCE + b"\r,,,d",
]
PASSING = [
    b",,d",
    b",,x,d",
    b",,\x1b[A,d",
    b"\x1b[200~a,,,d\x1b[201~",
    b",\x1b[200~,,\x1b[201~,d",
    b"\x1b[44u\x1b[44;1:3u\x1b[44;1:3u\x1b[100u",
    b",,,\x1b[100;5u",  # Control and d
    b"\x1b[44xu;",
    b"\x1b[u\x1b[;u\x1b[44;zu",
]


@pytest.mark.parametrize("typed", DETACHING)
def test_three_commas_and_d_are_found_however_they_are_cut(typed: bytes) -> None:
    assert Typed().detaches(typed) is not None
    for cut in range(len(typed)):
        keys = Typed()
        assert keys.detaches(typed[:cut]) is None
        assert keys.detaches(typed[cut:]) is not None
    keys = Typed()
    found = [keys.detaches(typed[place : place + 1]) for place in range(len(typed))]
    assert found[:-1] == [None] * (len(typed) - 1)
    assert found[-1] is not None


@pytest.mark.parametrize("typed", PASSING)
def test_what_is_not_three_commas_and_d_is_not_taken_for_it(typed: bytes) -> None:
    assert Typed().detaches(typed) is None
    keys = Typed()
    assert [keys.detaches(typed[place : place + 1]) for place in range(len(typed))] == [None] * len(typed)


def test_what_was_typed_before_the_d_is_told_apart() -> None:
    assert Typed().detaches(b"ls\r,,,dls\r") == 6
    assert Typed().detaches(b"ls\r,,,\x1b[100u") == 6


@pytest.mark.parametrize("typed", [b"\x03", b"\x1b[99;5u", b"\x1b[99;5:1u"])
def test_a_control_key_is_its_control_character(typed: bytes) -> None:
    assert [key for key, _ in Typed().keys(typed)] == [3]
