"""Cutting simple text into tokens at the speed of C, for both formats.

A regular expression finds one token at a time and costs more than the rest of the reading together. But
almost everything that programs send has no comments, no reader macros and nothing escaped outside of
strings, and then a text can be cut with `str.split` alone: at the quotes, which tells the strings from what
is between them (`apart`), and that at the blanks, after setting blanks around the brackets (`cut`). A text
that is not of this kind is left to the format's own expression, which knows everything.
"""

from __future__ import annotations

UNCLOSED = '"…'
"""Stands where a string without its closing quote was: a lone quote is one that is complete."""
_ESCAPED_BACKSLASH, _ESCAPED_QUOTE = "\0", "\1"  # stand for \\ and \" while the text is cut at its quotes


def apart(text: str, special: str) -> tuple[str, list[str]] | None:
    """What is between a text's strings, and the strings; or None if the text is not simple.

    A lone quote stands where a string was taken out. The strings are raw: their escapes are not yet replaced.
    A text that has a backslash, one of `special` or anything but ASCII outside of its strings is not simple.
    """
    escaped = "\\" in text
    if escaped:
        if _ESCAPED_BACKSLASH in text or _ESCAPED_QUOTE in text:
            return None
        text = text.replace("\\\\", _ESCAPED_BACKSLASH).replace('\\"', _ESCAPED_QUOTE)
    pieces = text.split('"')
    if not len(pieces) & 1:  # a quote without its partner
        return None
    between = ' " '.join(pieces[::2])
    if not between.isascii():  # which other blanks there are differs
        return None
    for character in special:
        if character in between:
            return None
    strings = pieces[1::2]
    if escaped:
        if "\\" in between or _ESCAPED_BACKSLASH in between or _ESCAPED_QUOTE in between:
            return None
        strings = [
            string.replace(_ESCAPED_QUOTE, '\\"').replace(_ESCAPED_BACKSLASH, "\\\\") for string in strings
        ]
    return between, strings


def spaced(brackets: str) -> tuple[tuple[str, str], ...]:
    """Each bracket and the same set apart, as `cut` wants them."""
    return tuple((bracket, f" {bracket} ") for bracket in brackets)


def cut(between: str, replacements: tuple[tuple[str, str], ...], most: int) -> list[str]:
    """The tokens of what is between the strings; of too many, not many more than `most`."""
    for bracket, replacement in replacements:
        if count := between.count(bracket):
            if count > most and bracket in replacement:
                return [bracket] * (most + 1)
            between = between.replace(bracket, replacement)
    return between.split(None, most)


def is_closed(token: str) -> bool:
    """Whether a token that starts with a quote is a whole string."""
    if len(token) == 1 or token[-1] != '"':
        return False
    if token[-2] != "\\":
        return True
    inside = token[1:-1]
    return (len(inside) - len(inside.rstrip("\\"))) % 2 == 0
