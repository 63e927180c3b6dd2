"""Names of keys, as tmux has them, and what they stand for on a keyboard.

`Enter`, `C-c`, `M-x`, `S-Tab`, `C-M-Up`, `F5`, `^c`, or any single character. How a key is told to a program
depends on what the program has asked for, so that is the emulator's part.
"""

from __future__ import annotations

from typing import NamedTuple

SHIFT, CONTROL, ALT = 1, 2, 4
"""Bits of a key's modifiers, as the emulator counts them."""


class Key(NamedTuple):
    """A key that is pressed: the place on the keyboard, what it types, and with which modifiers."""

    place: str
    """The last part of the emulator's name for it."""
    text: str = ""
    unshifted: int = 0
    """The character it types without Shift."""
    modifiers: int = 0
    consumed: int = 0
    """The modifiers that made the text what it is."""
    classic: bytes | None = None
    """What it is to a program that has asked for nothing, where that is not what the emulator says."""


_NAMED = {
    "Enter": Key("ENTER", "\r"),
    "Tab": Key("TAB", "\t"),
    "BTab": Key("TAB", "\t", 0, SHIFT),
    "Escape": Key("ESCAPE", "\x1b"),
    "Space": Key("SPACE", " ", 32),
    "BSpace": Key("BACKSPACE", "\x7f"),
    "Up": Key("ARROW_UP"),
    "Down": Key("ARROW_DOWN"),
    "Left": Key("ARROW_LEFT"),
    "Right": Key("ARROW_RIGHT"),
    "Home": Key("HOME"),
    "End": Key("END"),
    "PageUp": Key("PAGE_UP"),
    "PageDown": Key("PAGE_DOWN"),
    "Insert": Key("INSERT"),
    "Delete": Key("DELETE"),
    **{f"F{number}": Key(f"F{number}") for number in range(1, 26)},
    **{f"KP{digit}": Key(f"NUMPAD_{digit}", str(digit), 48 + digit) for digit in range(10)},
    "KP/": Key("NUMPAD_DIVIDE", "/", 47),
    "KP*": Key("NUMPAD_MULTIPLY", "*", 42),
    "KP-": Key("NUMPAD_SUBTRACT", "-", 45),
    "KP+": Key("NUMPAD_ADD", "+", 43),
    "KP.": Key("NUMPAD_DECIMAL", ".", 46),
    "KPEnter": Key("NUMPAD_ENTER", "\r"),
}
_ALIASES = {
    "Return": "Enter", "Esc": "Escape", "BackSpace": "BSpace", "Del": "Delete", "DC": "Delete",
    "Ins": "Insert", "IC": "Insert", "PgUp": "PageUp", "PPage": "PageUp", "PgDn": "PageDown",
    "NPage": "PageDown",
}  # fmt: skip
_BY_NAME = {name.lower(): key for name, key in _NAMED.items()} | {
    alias.lower(): _NAMED[name] for alias, name in _ALIASES.items()
}

_PUNCTUATION = {
    "`": "BACKQUOTE", "-": "MINUS", "=": "EQUAL", "[": "BRACKET_LEFT", "]": "BRACKET_RIGHT",
    "\\": "BACKSLASH", ";": "SEMICOLON", "'": "QUOTE", ",": "COMMA", ".": "PERIOD", "/": "SLASH",
    " ": "SPACE",
}  # fmt: skip
_SHIFTED = dict(zip('~!@#$%^&*()_+{}|:"<>?', "`1234567890-=[]\\;',./"))
_MODIFIERS = {"C-": CONTROL, "M-": ALT, "S-": SHIFT}


def named(name: str) -> Key:
    """The key of that name.

    Raises `ValueError` for a name that nobody knows.
    """
    rest, modifiers = name, 0
    while len(rest) > 2 and rest[:2].upper() in _MODIFIERS:
        modifiers |= _MODIFIERS[rest[:2].upper()]
        rest = rest[2:]
    if len(rest) == 2 and rest[0] == "^":
        modifiers |= CONTROL
        rest = rest[1]
    key = _BY_NAME.get(rest.lower())
    if key is not None:
        modifiers |= key.modifiers
        # Programs that have asked for nothing know no Enter or Space with Shift or Control.
        plain = key.text == "\r" or (key.text == " " and not modifiers & CONTROL)
        classic = (b"\x1b" if modifiers & ALT else b"") + key.text.encode() if plain else None
        return key._replace(modifiers=modifiers, classic=classic)
    if len(rest) == 1 and rest.isprintable():
        return _character(rest, modifiers)
    known = ", ".join([*_NAMED, *_ALIASES])
    raise ValueError(
        f"unknown key {name!r}: it may be one character or one of {known}; with C-, M- and S- before it"
    )


def _character(char: str, modifiers: int) -> Key:
    if modifiers & CONTROL and not modifiers & SHIFT:
        char = char.lower()
    elif modifiers & SHIFT and len(char.upper()) == 1:
        char = char.upper()
    base = _SHIFTED.get(char, char.lower() if len(char.lower()) == 1 else char)
    shifted = SHIFT if base != char else 0
    if base.isascii() and base.isalpha():
        place = base.upper()
    elif base.isascii() and base.isdigit():
        place = f"DIGIT_{base}"
    else:
        place = _PUNCTUATION.get(base, "UNIDENTIFIED")
    return Key(place, char, ord(base), modifiers | shifted, shifted, _control(char, modifiers))


def _control(char: str, modifiers: int) -> bytes | None:
    """The control character that a key has always been, by the bits of its letter."""
    if not modifiers & CONTROL or modifiers & SHIFT:
        return None
    escape = b"\x1b" if modifiers & ALT else b""
    if char == "?":
        return escape + b"\x7f"
    if char == "/":
        return escape + b"\x1f"
    if char == " " or "@" <= char.upper() <= "_":
        return escape + bytes([ord(char.upper()) & 31])
    return None
