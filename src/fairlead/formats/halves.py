"""Halves of surrogate pairs that stand alone: a byte of an argument that is no UTF-8, or half of an emoji, as
programs cut texts. No encoding has them, so they are replaced before a text is kept or sent on."""

from __future__ import annotations


def encodable(text: str) -> str:
    """The text with U+FFFD for each half that stands alone.

    >>> encodable("a \\ud83d b, caf\\udce9, \\ud83d\\ude00") == "a \\ufffd b, caf\\ufffd, \\U0001f600"
    True
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
