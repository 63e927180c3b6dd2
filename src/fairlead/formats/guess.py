"""Which word was probably meant by one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

MAX_COMPARED = 200
"""How many words, and how much of one, are compared."""


def meant(word: str, words: Iterable[str]) -> str:
    """The end of a message that names the word which was probably meant, or nothing.

    >>> meant("wrok", ["work", "tests"])
    '; did you mean work?'
    """
    from difflib import get_close_matches

    found = get_close_matches(word[:MAX_COMPARED], islice(words, MAX_COMPARED), 1)
    return f"; did you mean {found[0]}?" if found else ""
