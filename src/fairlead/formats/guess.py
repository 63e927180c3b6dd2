"""Which word was probably meant by one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

MAX_COMPARED = 200
"""How many words are compared."""
MAX_LENGTH = 64
"""How long a word may be that is compared; comparing takes the square of it."""


def meant(word: str, words: Iterable[str], likeness: float = 0.6) -> str:
    """The end of a message that names the word which was probably meant, or nothing.

    >>> meant("wrok", ["work", "tests"])
    '; did you mean work?'
    """
    from difflib import get_close_matches

    if len(word) > MAX_LENGTH:
        return ""
    known = (each for each in islice(words, MAX_COMPARED) if len(each) <= MAX_LENGTH)
    found = get_close_matches(word, known, 1, likeness)
    return f"; did you mean {found[0]}?" if found else ""
