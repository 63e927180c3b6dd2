"""Keys are found in whatever way a terminal sends them."""

from __future__ import annotations

import pytest

from fairlead.ui.keys import MAX_SEQUENCE, Typed

KEYS = [
    (b"ab", "ab"),
    (b"\x1b,d", ",d"),  # Escape, as in an editor, and then the keys
    (b",\x1b[<35;10;5M,\x1b[I,\x1b[?1;2cd", ",,,d"),  # the mouse, the focus and an answer are no keys
    (b"\x1b[44u\x1b[100u", ",d"),  # as kitty sends all keys, if asked
    (b"\x1b[44;1:1u\x1b[44;1:3u\x1b[44;1:2u\x1b[100;1:1;100u", ",,d"),  # with releases and repeats
    (b"\x1b[57441;2u\x1b[44:59;1;44u\x1b[57441;1:3ud", ",d"),  # with Shift on its own
    (b"\x1b[200~pasted\x1b[201~d", "d"),
    (b"\x1b[" + b"1" * 2 * MAX_SEQUENCE + b"\r,", None),
    (b"\x03\x1b[99;5u\x1b[99;5:1u", "\x03\x03\x03"),
    (b"\x1c\x1b[92;5u", "\x1c\x1c"),
]


@pytest.mark.parametrize(("typed", "keys"), KEYS)
def test_keys_are_found_however_they_are_cut(typed: bytes, keys: str | None) -> None:
    whole = [code for code, _ in Typed().keys(typed)]
    assert keys is None or "".join(map(chr, whole)) == keys
    for cut in range(len(typed)):
        parts = Typed()
        assert [code for part in (typed[:cut], typed[cut:]) for code, _ in parts.keys(part)] == whole


@pytest.mark.parametrize("end", [b"", b"\x1b[200~", b"\x1b[201~", b"\x1b[200~x\x1b[20", b"\x1b"])
def test_much_at_once_ends_as_if_it_was_read_key_by_key(end: bytes) -> None:
    quick, slow = Typed(), Typed()
    data = b"\x1b[200~" + b"text\x1b[31m" * 100 + end
    quick.skim(data)
    slow.keys(data)
    assert (quick.pasting, quick.in_sequence) == (slow.pasting, slow.in_sequence)
    rest = b"1~,,\x1b[201~d"
    assert [code for code, _ in quick.keys(rest)] == [code for code, _ in slow.keys(rest)]
