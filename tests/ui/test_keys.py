"""Keys are found in whatever way a terminal sends them."""

from __future__ import annotations

import pytest

from fairlead.ui.keys import ALT, ESCAPE_WAIT, LEFT, MAX_SEQUENCE, PASTE, RIGHT, KeyReader

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
    (b" q.5", " q.5"),
    (b"\x1b[D\x1b[1;2C\x1bOD", chr(LEFT) + chr(RIGHT) + chr(LEFT)),
    (b"\x1b[1;5C\x1b[1;1:3C", chr(RIGHT)),
    (b"\x1b[113u\x1b[99;5u\x1b[32;1:1u\x1b[32;1:3u", "q\x03 "),
    (b"\x1b[200~\x1b[I\x1b[<0;9;9M\x1bq\x1b[\x1b[201~q", "q"),
    (b"\x1b]11;rgb:99/99/99\x07q\x1bP>|term\x1b\\q", "qq"),  # a terminal's answers
    (b"\x1b[57358;1u\xc3", "\xc3"),
]


@pytest.mark.parametrize(("typed", "keys"), KEYS)
def test_keys_are_found_however_they_are_cut(typed: bytes, keys: str | None) -> None:
    whole = codes(KeyReader(), typed)
    assert keys is None or "".join(map(chr, whole)) == keys
    for cut in range(len(typed)):
        parts = KeyReader()
        assert codes(parts, typed[:cut]) + codes(parts, typed[cut:]) == whole


def codes(keys: KeyReader, typed: bytes) -> list[int]:
    return [code & ~ALT for code, _ in keys.read(typed)]


@pytest.mark.parametrize("end", [b"", b"\x1b[200~", b"\x1b[201~", b"\x1b[200~x\x1b[20", b"\x1b"])
def test_much_at_once_ends_as_if_it_was_read_key_by_key(end: bytes) -> None:
    quick, slow = KeyReader(), KeyReader()
    data = b"\x1b[200~" + b"text\x1b[31m" * 100 + end
    quick.skim(data)
    slow.read(data)
    assert (quick.pasting, quick.in_sequence) == (slow.pasting, slow.in_sequence)
    rest = b"1~,,\x1b[201~d"
    assert codes(quick, rest) == codes(slow, rest)


@pytest.mark.parametrize("begun", [b"\x1b", b"\x1b[", b"\x1bO", b"\x1b]"])
def test_an_escape_key_alone_does_not_swallow_the_next_one(begun: bytes) -> None:
    keys = KeyReader()
    assert keys.read(begun, 100.0) == []
    assert keys.read(b"q", 100.0 + 2 * ESCAPE_WAIT) == [(ord("q"), 0)]


def test_the_end_of_a_paste_is_seen_however_late_it_comes() -> None:
    keys = KeyReader(max_paste=9)
    assert keys.read(b"\x1b[200~1\x1b[31m,\x1b]2,89, and more\x1b[20", 1.0) == []
    assert keys.read(b"1~q", 9.0) == [(PASTE, 0), (ord("q"), 2)]
    assert keys.pastes == [b"1\x1b[31m,\x1b]"]
