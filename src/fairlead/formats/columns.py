"""Text in the columns of a terminal: how wide it is, cut and filled to a width, and safe to show. No I/O."""

from __future__ import annotations

_DRAWN = frozenset(
    "\u00ad\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
"""Format characters that terminals draw: the soft hyphen, and signs that go around numbers."""
CUT = "…"
"""What stands for the end of a text that has no room."""


def width_of(text: str) -> int:
    """How many columns a text takes.

    >>> width_of("日本"), width_of("ab"), width_of("e\u0301\u200b"), width_of("soft\u00adhyphen")
    (4, 2, 1, 11)
    """
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0
        if category(char) in ("Mn", "Me", "Cf") and char not in _DRAWN
        else 2
        if east_asian_width(char) in "WF"
        else 1
        for char in text
    )


def cut(text: str, width: int, mark: str = CUT) -> str:
    """A text that takes no more than so many columns.

    >>> cut("abcdef", 4), cut("abcd", 4)
    ('abc…', 'abcd')
    """
    if width_of(text) <= width:
        return text
    room, kept = width - len(mark), 0
    while (room := room - width_of(text[kept])) >= 0:
        kept += 1
    return text[:kept] + mark[:width]


def printable(text: str, kept: str = "") -> str:
    """A text from elsewhere, which must not control the terminal that shows it.

    >>> printable("a\\x1b[2Jb\\n"), printable("a\\n", kept="\\n")
    ('a·[2Jb·', 'a\\n')
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else "·" for char in text)


def padded(text: str, width: int) -> str:
    """A text with spaces after it, up to so many columns."""
    return text + " " * (width - width_of(text))


def fill(text: str, width: int, first: str = "", rest: str = "") -> str:
    """Words in lines of at most so many columns, the first one after `first`, the others after `rest`.

    A word that is wider than a line stays whole: it may be a path that somebody wants to copy.

    >>> fill("one two three", 9, "- ", "  ")
    '- one two\\n  three'
    """
    lines, line, is_empty = [], first, True
    for word in text.split():
        if not is_empty and width_of(line) + 1 + width_of(word) > width:
            lines.append(line)
            line, is_empty = rest, True
        line += word if is_empty else f" {word}"
        is_empty = False
    return "\n".join([*lines, line.rstrip() if is_empty else line])
