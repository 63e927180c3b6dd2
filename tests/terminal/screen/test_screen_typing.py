"""Keys and pasted text are told to a program the way it has asked for."""

from __future__ import annotations

import pytest

from fairlead.terminal.screen.screen import Screen


def pressed(name: str, printed: bytes = b"") -> bytes:
    screen = Screen(20, 4)
    screen.feed(printed)
    return screen.key(name)


@pytest.mark.parametrize(
    ("name", "bytes_"),
    [
        ("Enter", b"\r"), ("Tab", b"\t"), ("S-Tab", b"\x1b[Z"), ("BTab", b"\x1b[Z"), ("Escape", b"\x1b"),
        ("Space", b" "), ("BSpace", b"\x7f"), ("BackSpace", b"\x7f"), ("Delete", b"\x1b[3~"),
        ("DC", b"\x1b[3~"), ("Insert", b"\x1b[2~"), ("Up", b"\x1b[A"), ("Down", b"\x1b[B"),
        ("Right", b"\x1b[C"), ("Left", b"\x1b[D"), ("Home", b"\x1b[H"), ("End", b"\x1b[F"),
        ("PageUp", b"\x1b[5~"), ("PPage", b"\x1b[5~"), ("NPage", b"\x1b[6~"), ("F1", b"\x1bOP"),
        ("F5", b"\x1b[15~"), ("F12", b"\x1b[24~"), ("C-c", b"\x03"), ("C-C", b"\x03"), ("^c", b"\x03"),
        ("c-c", b"\x03"), ("C-[", b"\x1b"), ("C-i", b"\t"), ("C-m", b"\r"), ("C-@", b"\0"),
        ("C-Space", b"\0"), ("C-\\", b"\x1c"), ("C-]", b"\x1d"), ("C-^", b"\x1e"), ("C-_", b"\x1f"),
        ("C-/", b"\x1f"), ("C-?", b"\x7f"), ("M-x", b"\x1bx"), ("M-X", b"\x1bX"), ("C-M-x", b"\x1b\x18"),
        ("M-C-x", b"\x1b\x18"), ("M-Enter", b"\x1b\r"), ("S-Enter", b"\r"), ("C-Up", b"\x1b[1;5A"),
        ("S-Up", b"\x1b[1;2A"), ("M-Left", b"\x1b[1;3D"), ("C-S-Right", b"\x1b[1;6C"),
        ("S-F5", b"\x1b[15;2~"), ("x", b"x"), ("X", b"X"), ("S-x", b"X"), ("?", b"?"), ("-", b"-"),
        ("^", b"^"), ("é", "é".encode()), ("日", "日".encode()), ("M-é", "\x1bé".encode()), ("KP5", b"5"),
        ("KPEnter", b"\r"),
    ],
)  # fmt: skip
def test_a_key_is_what_it_always_was(name: str, bytes_: bytes) -> None:
    assert pressed(name) == bytes_


@pytest.mark.parametrize(
    ("name", "printed", "bytes_"),
    [
        ("Up", b"\x1b[?1h", b"\x1bOA"),
        ("Home", b"\x1b[?1h", b"\x1bOH"),
        ("C-Up", b"\x1b[?1h", b"\x1b[1;5A"),
        ("Up", b"\x1b[?1h\x1b[?1l", b"\x1b[A"),
        ("BSpace", b"\x1b[?67h", b"\x08"),
        ("Escape", b"\x1b[>1u", b"\x1b[27u"),
        ("Enter", b"\x1b[>1u", b"\r"),
        ("S-Enter", b"\x1b[>1u", b"\x1b[13;2u"),
        ("C-c", b"\x1b[>1u", b"\x1b[99;5u"),
        ("C-i", b"\x1b[>1u", b"\x1b[105;5u"),
        ("C-C", b"\x1b[>1u", b"\x1b[99;5u"),
        ("C-S-c", b"\x1b[>1u", b"\x1b[99;6u"),
        ("M-x", b"\x1b[>1u", b"\x1b[120;3u"),
        ("x", b"\x1b[>1u", b"x"),
        ("X", b"\x1b[>1u", b"X"),
        ("x", b"\x1b[>8u", b"\x1b[120u"),
        ("C-c", b"\x1b[>1u\x1b[<u", b"\x03"),
        ("C-c", b"\x1b[>1u\x1b[?1049h", b"\x03"),
    ],
)
def test_a_key_is_what_the_program_asked_for(name: str, printed: bytes, bytes_: bytes) -> None:
    assert pressed(name, printed) == bytes_


@pytest.mark.parametrize("name", ["", "Foo", "C-", "C-Foo", "ab", "\x1b", "F26", "C-M-"])
def test_an_unknown_key_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown key .* one of Enter, Tab, .*PageUp.*with C-, M- and S-"):
        pressed(name)


@pytest.mark.parametrize(
    ("text", "plain", "marked"),
    [
        ("hello", b"hello", b"hello"),
        ("two\nlines\n", b"two\rlines\r", b"two\nlines\n"),
        ("dos\r\nlines", b"dos\rlines", b"dos\nlines"),
        ("a\tb", b"a\tb", b"a\tb"),
        ("é日", "é日".encode(), "é日".encode()),
        ("x\x1b[201~; rm -rf\x03\x04\x7f\x9b", b"x[201~; rm -rf", b"x[201~; rm -rf"),
        ("\x00\x08\x18\x1a", b"", b""),
        ("\udc80", b"?", b"?"),
    ],
)
def test_pasted_text_is_clean_and_marked_if_asked_for(text: str, plain: bytes, marked: bytes) -> None:
    screen = Screen(20, 4)
    assert screen.paste(text) == plain
    screen.feed(b"\x1b[?2004h")
    assert screen.paste(text) == b"\x1b[200~" + marked + b"\x1b[201~"
